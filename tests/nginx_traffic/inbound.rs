//! Callers of an application without mTLS.

use std::time::Duration;

use serde_json::Value;

use crate::app::{App, Reply, Speaks};
use crate::proxy::{Proxy, pod};
use crate::wire::{ask, connect, get, post, send};

fn proxied(app: &App) -> Proxy {
    Proxy::start(&pod(&[], &[("http", app.port)]))
}

#[test]
fn a_request_arrives_as_it_was_sent() {
    let app = App::named("app");
    let proxy = proxied(&app);
    let mut stream = connect(proxy.inbound());
    let path = "/a%2Fb//c/../%C3%BC%20d;v=1/?q=%26&r=a+b&&s";
    let answer = ask(
        &mut stream,
        &format!(
            "PATCH {path} HTTP/1.1\r\nHost: Shop.Example.com:8080\r\nX_Under_Score: 1\r\nx.dot: 2\r\n\
             Cookie: a=b; c=d\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\nhi"
        ),
    );
    assert_eq!(
        (answer.status(), answer.text().as_str()),
        (200, "app"),
        "{}",
        proxy.log()
    );
    let seen = app.last();
    assert_eq!(seen.first, format!("PATCH {path} HTTP/1.1"));
    for (name, value) in [
        ("Host", "Shop.Example.com:8080"),
        ("X_Under_Score", "1"),
        ("x.dot", "2"),
        ("Cookie", "a=b; c=d"),
        ("Authorization", "Bearer x"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    assert_eq!(seen.body, b"hi");
}

#[test]
fn the_application_is_called_on_a_connection_that_is_kept_for_a_moment() {
    let app = App::named("app");
    let proxy = proxied(&app);
    let ask_as_another = || assert_eq!(ask(&mut connect(proxy.inbound()), &get("/")).status(), 200);
    (0..5).for_each(|_| ask_as_another());
    // Before the application loses patience: servers keep idle connections for 2 s and more.
    std::thread::sleep(Duration::from_millis(1800));
    ask_as_another();
    let connections: Vec<usize> = app.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0, 0, 0, 0, 1]);
    assert_eq!(app.last().header("Connection"), None);
}

#[test]
fn an_application_that_ends_each_connection_is_called_all_the_same() {
    let app = App::new(Speaks::Plain, |_| Reply::Last("once".to_owned()));
    let proxy = proxied(&app);
    let mut stream = connect(proxy.inbound());
    for n in 0..100 {
        // Right after the application has ended it, nginx may not know yet.
        let answer = ask(&mut stream, &get("/"));
        assert_eq!(answer.status(), 200, "call {n}{}", proxy.log());
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(ask(&mut stream, &post("/", "x")).status(), 200);
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let app = App::new(Speaks::Plain, |request| {
        Reply::Status(200, String::from_utf8(request.body.clone()).unwrap())
    });
    let proxy = proxied(&app);
    let mut stream = connect(proxy.inbound());
    for size in [0, 2_000, 500_000] {
        let body: String = (0..size)
            .map(|i| char::from(b'a' + u8::try_from(i % 23).unwrap()))
            .collect();
        let answer = ask(&mut stream, &post("/", &body));
        assert_eq!(answer.status(), 200);
        assert!(answer.text() == body, "{size} bytes came back changed");
    }
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n";
    assert_eq!(ask(&mut stream, chunked).text(), "abcdefg");
}

#[test]
fn a_large_head_of_an_answer_passes() {
    let cookie = "c".repeat(20_000);
    let text = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {cookie}\r\nContent-Length: 2\r\n\r\nok");
    let app = App::new(Speaks::Plain, move |_| Reply::Raw(text.clone()));
    let proxy = proxied(&app);
    let answer = ask(&mut connect(proxy.inbound()), &get("/"));
    assert_eq!(answer.status(), 200, "{}", proxy.log());
    assert_eq!(answer.header("Set-Cookie").map(str::len), Some(20_000));
}

#[test]
fn a_request_has_an_id() {
    let app = App::named("app");
    let proxy = proxied(&app);
    let mut stream = connect(proxy.inbound());
    ask(&mut stream, &get("/"));
    let made = app.last().header("X-Request-Id").unwrap().to_owned();
    assert!(
        made.len() == 32 && made.bytes().all(|b| b.is_ascii_hexdigit()),
        "{made}"
    );
    ask(&mut stream, "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n");
    assert_eq!(app.last().header("X-Request-Id"), Some("mine"));
}

#[test]
fn nobody_claims_an_identity() {
    let app = App::named("app");
    let proxy = proxied(&app);
    // Gateways such as CGI's and WSGI's read the last as the first.
    for name in [
        "X-Outrigger-Client",
        "x-outrigger-client",
        "X_Outrigger_Client",
        "X-Outrigger_Client",
        "X_Outrigger-Client",
    ] {
        let request =
            format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: O=cluster.local,OU=shop,CN=web\r\nX-Other: 1\r\n\r\n");
        assert_eq!(ask(&mut connect(proxy.inbound()), &request).status(), 200);
        let headers = app.last().headers;
        let claims = headers
            .iter()
            .find(|(known, _)| known.to_ascii_lowercase().contains("outrigger"));
        assert_eq!(claims, None);
        assert!(headers.iter().any(|(known, _)| known == "X-Other"));
    }
}

#[test]
fn old_http_without_a_host_is_served() {
    let app = App::named("app");
    let proxy = proxied(&app);
    let answer = ask(&mut connect(proxy.inbound()), "GET /old HTTP/1.0\r\n\r\n");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "app"));
    let seen = app.last();
    assert_eq!(seen.first, "GET /old HTTP/1.1");
    // RFC 9112, 3.2: a request of HTTP/1.1 without one is answered with 400.
    assert_eq!(seen.header("Host"), Some("localhost"));
}

#[test]
fn a_websocket_is_a_tunnel() {
    let app = App::new(Speaks::Plain, |_| Reply::Tunnel);
    let proxy = proxied(&app);
    let mut stream = connect(proxy.inbound());
    let answer = ask(
        &mut stream,
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.header("Upgrade"), Some("websocket"));
    for frame in [&b"\x81\x02hi"[..], &[0xff; 100_000]] {
        send(&mut stream, frame).unwrap();
        let mut back = vec![0; frame.len()];
        std::io::Read::read_exact(&mut stream, &mut back).unwrap();
        assert!(back == frame, "the tunnel changes bytes");
    }
}

#[test]
fn each_request_is_a_line_of_json() {
    let app = App::named("app");
    let proxy = proxied(&app);
    let mut stream = connect(proxy.inbound());
    ask(
        &mut stream,
        "GET /say%22%0A\"\\?x HTTP/1.1\r\nHost: a\r\nX-Request-Id: \"quoted\\\r\n\r\n",
    );
    ask(&mut stream, &get("/second"));
    assert_eq!(ask(&mut stream, "no HTTP at all\r\n\r\n").status(), 400);
    drop(stream);
    let lines = proxy.access_log(3);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let said = |n: usize, key: &str| lines[n][key].clone();
    assert_eq!(said(0, "path"), "/say\"\n\"\\");
    assert_eq!(said(0, "request_id"), "\"quoted\\");
    assert_eq!(said(0, "status"), 200);
    assert_eq!(said(1, "path"), "/second");
    assert_eq!(said(1, "port"), Value::from(proxy.inbound()));
    assert_eq!(said(2, "status"), 400);
}
