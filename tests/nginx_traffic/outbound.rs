//! Calls of an application to others without mTLS.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::app::{App, Reply, Speaks, dead_port};
use crate::proxy::{Proxy, pod};
use crate::wire::{ask, connect, get, post};

fn calling(upstreams: &str) -> Proxy {
    Proxy::start(&pod(&[("upstreams", upstreams)], &[]))
}

#[test]
fn calls_arrive_unchanged_over_kept_connections() {
    let peer = App::named("peer");
    let proxy = calling(&format!("- peer.bank:{}", peer.port));
    for _ in 0..5 {
        // The caller's connections do not matter.
        let answer = ask(
            &mut connect(proxy.outbound()),
            "GET /a%2Fb?c HTTP/1.1\r\nHost: peer.bank:80\r\nX-Request-Id: r\r\n\r\n",
        );
        assert_eq!(
            (answer.status(), answer.text().as_str()),
            (200, "peer"),
            "{}",
            proxy.log()
        );
    }
    let seen = peer.seen();
    assert!(
        seen.iter().all(|seen| seen.request.first == "GET /a%2Fb?c HTTP/1.1"),
        "{seen:?}"
    );
    assert!(
        seen.iter().all(|seen| seen.connection == 0),
        "all come on one connection: {seen:?}"
    );
    let last = peer.last();
    assert_eq!(last.header("Host"), Some("peer.bank:80"));
    assert_eq!(last.header("X-Request-Id"), Some("r"));
    assert_eq!(last.header("Connection"), None);
    let body = "b".repeat(500_000);
    assert_eq!(ask(&mut connect(proxy.outbound()), &post("/", &body)).status(), 200);
    assert!(peer.last().body == body.as_bytes());
}

#[test]
fn a_kept_connection_that_the_peer_closed_is_opened_again() {
    let peer = App::new(Speaks::Plain, |_| Reply::Last("once".to_owned()));
    let proxy = calling(&format!("- peer:{}", peer.port));
    for n in 0..100 {
        // Right after the peer has closed, nginx may not know it yet.
        let answer = ask(&mut connect(proxy.outbound()), &get("/"));
        assert_eq!(answer.status(), 200, "call {n}{}", proxy.log());
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(ask(&mut connect(proxy.outbound()), &post("/", "x")).status(), 200);
}

/// A peer that fails as often as told before it answers.
fn failing(times: usize) -> App {
    let asked = AtomicUsize::new(0);
    App::new(Speaks::Plain, move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        n if n < times => Reply::Status(503, "no".to_owned()),
        _ => Reply::Status(200, "yes".to_owned()),
    })
}

#[test]
fn idempotent_requests_are_tried_again() {
    for (failures, status, asked) in [(0, 200, 1), (2, 200, 3), (3, 503, 3)] {
        let peer = failing(failures);
        let proxy = calling(&format!("- {{service: peer:{}, retries: 2}}", peer.port));
        let answer = ask(&mut connect(proxy.outbound()), &get("/"));
        assert_eq!(
            (answer.status(), peer.seen().len()),
            (status, asked),
            "{failures} failures"
        );
    }
}

#[test]
fn others_are_not_tried_again() {
    let peer = failing(1);
    let proxy = calling(&format!("- {{service: peer:{}, retries: 2}}", peer.port));
    assert_eq!(ask(&mut connect(proxy.outbound()), &post("/", "x")).status(), 503);
    assert_eq!(peer.seen().len(), 1);
    let peer = failing(1);
    let proxy = calling(&format!("- peer:{}", peer.port));
    assert_eq!(
        ask(&mut connect(proxy.outbound()), &get("/")).status(),
        503,
        "no retries were asked for"
    );
    assert_eq!(peer.seen().len(), 1);
}

#[test]
fn shares_are_as_split() {
    let (old, new) = (App::named("old"), App::named("new"));
    let proxy = calling(&format!(
        "- {{service: peer:{}, split: [{{service: peer-v2:{}, weight: 30}}]}}",
        old.port, new.port
    ));
    let mut stream = connect(proxy.outbound());
    for _ in 0..500 {
        assert_eq!(ask(&mut stream, &get("/")).status(), 200);
    }
    let share = new.seen().len();
    assert_eq!(old.seen().len() + share, 500);
    // Five standard deviations around 150.
    assert!((99..=201).contains(&share), "{share} of 500 for a share of 30 %");
}

#[test]
fn a_late_answer_is_given_up() {
    let peer = App::new(Speaks::Plain, |_| Reply::Silence);
    let proxy = calling(&format!("- {{service: peer:{}, timeout: 500ms}}", peer.port));
    let started = Instant::now();
    assert_eq!(ask(&mut connect(proxy.outbound()), &get("/")).status(), 504);
    assert!(started.elapsed() >= Duration::from_millis(500) && started.elapsed() < Duration::from_secs(5));
    assert_eq!(peer.seen().len(), 1);
}

#[test]
fn a_dead_peer_breaks_its_own_calls_only() {
    let peer = App::named("peer");
    let proxy = calling(&format!("- dead:{}\n- peer:{}", dead_port(), peer.port));
    assert_eq!(ask(&mut connect(proxy.outbound()), &get("/")).status(), 502);
    assert_eq!(ask(&mut connect(proxy.port(15101)), &get("/")).status(), 200);
}
