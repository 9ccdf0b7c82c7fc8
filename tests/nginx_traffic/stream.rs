//! TCP that is no HTTP, both ways, with and without mTLS.

use std::io::BufRead;

use crate::app::{Speaks, dead_port, raw};
use crate::mesh::Mesh;
use crate::proxy::{Proxy, pod};
use crate::wire::{Stream, connect, connect_tls, rest, send};

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
