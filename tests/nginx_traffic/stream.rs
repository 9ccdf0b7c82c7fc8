//! TCP that is no HTTP, both ways, with and without mTLS.

use std::io::{BufRead, Read, Write};
use std::net::Shutdown;

use crate::app::{Speaks, counting, dead_port, raw};
use crate::mesh::Mesh;
use crate::proxy::{Proxy, pod};
use crate::wire::{Stream, connect, connect_tls, rest, send, socket};

/// A line and its answer; empty where the connection ended.
fn line(stream: &mut Stream, said: &str) -> String {
    let mut answer = Vec::new();
    if send(stream, format!("{said}\n").as_bytes()).is_ok() {
        // Cut connections are errors of their own kinds.
        let _ = stream.read_until(b'\n', &mut answer);
    }
    String::from_utf8_lossy(&answer).trim_end().to_owned()
}

const NAME: &str = "shop.ns.cluster.local";

#[test]
fn lines_pass_in_and_out() {
    let (app, peer) = (raw(Speaks::Plain, "app"), raw(Speaks::Plain, "peer"));
    let upstreams = format!(
        "- {{service: peer:{peer}, protocol: tcp}}\n- {{service: dead:{}, protocol: tcp}}",
        dead_port()
    );
    let proxy = Proxy::start(&pod(&[("upstreams", &upstreams)], &[("raw", app)]));
    let mut stream = connect(proxy.inbound());
    assert_eq!(line(&mut stream, "one"), "app:one");
    assert_eq!(line(&mut stream, "two"), "app:two");
    let mut stream = connect(proxy.outbound());
    assert_eq!(line(&mut stream, "three"), "peer:three");
    let long = "x".repeat(500_000);
    assert!(line(&mut stream, &long) == format!("peer:{long}"));
    assert_eq!(line(&mut connect(proxy.port(15101)), "x"), "");
    drop(stream);
    let lines = proxy.access_log(1);
    assert!(lines.iter().all(|line| line["status"].is_number()), "{lines:?}");
}

/// What comes back to a caller that says something, ends its side, and listens on.
fn answer_to_all(port: u16, said: &[u8]) -> String {
    let mut caller = socket(port);
    caller.write_all(said).unwrap();
    caller.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_caller_that_has_ended_its_side_gets_the_answer() {
    let app = counting("app");
    let callee = Proxy::start(&pod(&[], &[("raw", app)]));
    let upstream = format!("- {{service: peer:{}, protocol: tcp}}", callee.inbound());
    let caller = Proxy::start(&pod(&[("upstreams", &upstream)], &[]));
    let said = b"x".repeat(500_000);
    for port in [app, callee.inbound(), caller.outbound()] {
        assert_eq!(answer_to_all(port, &said), "app:500000\n");
    }
}

#[test]
fn a_caller_that_has_ended_its_side_gets_the_answer_over_mtls() {
    let (mesh, app) = (Mesh::new(), counting("app"));
    let annotations = [("template", "mtls"), ("mtls", "strict")];
    let callee = Proxy::start_with(&pod(&annotations, &[("raw", app)]), &mesh, &mesh.leaf("bank", "ledger"));
    let upstream = format!("- {{service: ledger.bank:{}, protocol: tcp}}", callee.inbound());
    let annotations = [("template", "mtls"), ("mtls", "strict"), ("upstreams", &upstream)];
    let caller = Proxy::start_with(&pod(&annotations, &[]), &mesh, &mesh.leaf("shop", "web"));
    let answer = answer_to_all(caller.outbound(), &b"x".repeat(500_000));
    assert_eq!(answer, "app:500000\n", "{}{}", caller.log(), callee.log());
}

#[test]
fn permissive_takes_both_kinds_of_callers() {
    let (mesh, app) = (Mesh::new(), raw(Speaks::Plain, "app"));
    let leaf = mesh.leaf("shop", "web");
    let proxy = Proxy::start_with(&pod(&[("template", "mtls")], &[("raw", app)]), &mesh, &leaf);
    assert_eq!(line(&mut connect(proxy.inbound()), "plain"), "app:plain");
    let meshed = mesh.client(Some(&mesh.leaf("bank", "ledger")));
    assert_eq!(line(&mut connect_tls(proxy.inbound(), &meshed, NAME), "tls"), "app:tls");
    let bare = mesh.client(None);
    assert_eq!(line(&mut connect_tls(proxy.inbound(), &bare, NAME), "x"), "");
}

#[test]
fn strict_takes_listed_callers_alone() {
    let (mesh, app) = (Mesh::new(), raw(Speaks::Plain, "app"));
    let leaf = mesh.leaf("shop", "web");
    for (list, expected) in [
        (Some("shop/web, bank/*"), ["app:x", "app:x", ""]),
        (Some(""), ["", "", ""]),
        (None, ["app:x", "app:x", "app:x"]),
    ] {
        let mut annotations = vec![("template", "mtls"), ("mtls", "strict")];
        annotations.extend(list.map(|list| ("allow-from", list)));
        let proxy = Proxy::start_with(&pod(&annotations, &[("raw", app)]), &mesh, &leaf);
        let answers = [("shop", "web"), ("bank", "ledger"), ("shop", "other")].map(|(namespace, account)| {
            let config = mesh.client(Some(&mesh.leaf(namespace, account)));
            line(&mut connect_tls(proxy.inbound(), &config, NAME), "x")
        });
        assert_eq!(answers, expected, "{list:?}{}", proxy.log());
        let mut plain = connect(proxy.inbound());
        assert_eq!(line(&mut plain, "plain"), "", "plain with {list:?}");
        let strange = Mesh::new().leaf("shop", "web");
        let strange = mesh.client(Some(&strange));
        assert_eq!(line(&mut connect_tls(proxy.inbound(), &strange, NAME), "x"), "");
    }
}

#[test]
fn peers_are_called_with_mtls() {
    let mesh = Mesh::new();
    let leaf = mesh.leaf("shop", "web");
    let right = raw(Speaks::Tls(mesh.server(&mesh.leaf("bank", "ledger"))), "right");
    let wrong = raw(Speaks::Tls(mesh.server(&mesh.leaf("bank", "other"))), "wrong");
    let plain = raw(Speaks::Plain, "plain");
    let entry = |port: u16, more: &str| format!("- {{service: s{port}.bank:{port}, protocol: tcp{more}}}\n");
    let identity = ", identity: bank/ledger";
    let upstreams = entry(right, identity) + &entry(wrong, identity) + &entry(plain, identity);
    for mode in ["permissive", "strict"] {
        let annotations = [("template", "mtls"), ("mtls", mode), ("upstreams", &upstreams)];
        let proxy = Proxy::start_with(&pod(&annotations, &[]), &mesh, &leaf);
        let answers = [15100, 15101, 15102].map(|port| line(&mut connect(proxy.port(port)), "x"));
        assert_eq!(answers, ["right:x", "", ""], "{mode}{}", proxy.log());
    }
    // Without an identity: any of the namespace under strict, in plain under permissive.
    for (mode, port, expected) in [("strict", wrong, "wrong:x"), ("permissive", plain, "plain:x")] {
        let annotations = [("template", "mtls"), ("mtls", mode), ("upstreams", &entry(port, ""))];
        let proxy = Proxy::start_with(&pod(&annotations, &[]), &mesh, &leaf);
        assert_eq!(line(&mut connect(proxy.outbound()), "x"), expected, "{mode}");
    }
}

#[test]
fn a_client_that_says_too_little_to_a_permissive_port_is_cut() {
    let (mesh, app) = (Mesh::new(), raw(Speaks::Plain, "app"));
    let proxy = Proxy::start_with(
        &pod(&[("template", "mtls")], &[("raw", app)]),
        &mesh,
        &mesh.leaf("shop", "web"),
    );
    let started = std::time::Instant::now();
    let (mut silent, mut short) = (connect(proxy.inbound()), connect(proxy.inbound()));
    send(&mut short, b"ruok").unwrap();
    assert_eq!((rest(&mut silent), rest(&mut short)), (vec![], vec![]));
    assert!(started.elapsed().as_secs() >= 4, "documented as 5 s");
}
