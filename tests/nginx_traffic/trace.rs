//! W3C Trace Context: what the proxies pass on, begin, and write into their access logs.

use crate::app::App;
use crate::proxy::{Proxy, pod};
use crate::wire::{ask, connect};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn proxied(app: &App) -> Proxy {
    Proxy::start(&pod(&[], &[("http", app.port)]))
}

fn call(proxy_port: u16, headers: &str) {
    let answer = ask(
        &mut connect(proxy_port),
        &format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n"),
    );
    assert_eq!(answer.status(), 200);
}

/// Version, trace, parent and flags of a header of version 00 that no rule of the specification refuses.
fn parts(header: &str) -> Option<(&str, &str)> {
    let [version, trace, parent, flags] = header.split('-').collect::<Vec<_>>().try_into().ok()?;
    let hex = |text: &str, length| {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.len() == length && text.bytes().all(digits) && text.bytes().any(|byte| byte != b'0')
    };
    (version == "00" && hex(trace, 32) && hex(parent, 16) && flags.len() == 2).then_some((trace, flags))
}

#[test]
fn a_trace_passes_on_as_it_came() {
    let app = App::named("app");
    let proxy = proxied(&app);
    // The last is of a version to come, which may say more.
    let headers = [
        format!("00-{TRACE}-00f067aa0ba902b7-01"),
        format!("00-{TRACE}-00f067aa0ba902b7-00"),
        format!("01-{TRACE}-00f067aa0ba902b7-01-more"),
    ];
    for header in &headers {
        call(
            proxy.inbound(),
            &format!("traceparent: {header}\r\ntracestate: vendor=1,other=2\r\n"),
        );
        assert_eq!(app.last().header("traceparent"), Some(&**header));
        assert_eq!(app.last().header("tracestate"), Some("vendor=1,other=2"));
    }
    let log = proxy.access_log(headers.len());
    assert!(log.iter().all(|line| line["trace_id"] == TRACE), "{log:?}");
}

#[test]
fn a_trace_begins_where_there_is_no_valid_one() {
    let app = App::named("app");
    let proxy = proxied(&app);
    let zeros = "0".repeat(32);
    let invalid = [
        String::new(),
        "traceparent: 00\r\n".to_owned(),
        format!("traceparent: 00-{TRACE}-0000000000000000-01\r\n"),
        format!("traceparent: 00-{zeros}-00f067aa0ba902b7-01\r\n"),
        format!("traceparent: ff-{TRACE}-00f067aa0ba902b7-01\r\n"),
        format!("traceparent: 00-{}-00f067aa0ba902b7-01\r\n", TRACE.to_uppercase()),
        format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01-more\r\n"),
        format!("traceparent: 01-{TRACE}-00f067aa0ba902b7-01more\r\n"),
        format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n").repeat(2),
    ];
    for headers in &invalid {
        call(proxy.inbound(), &format!("{headers}tracestate: vendor=1\r\n"));
    }
    let log = proxy.access_log(invalid.len());
    for (seen, line) in app.seen().iter().zip(&log) {
        let header = seen.request.header("traceparent").unwrap();
        let (trace, flags) = parts(header).unwrap_or_else(|| panic!("{header} is not valid"));
        assert_eq!((line["trace_id"].as_str(), flags), (Some(trace), "01"));
        assert_ne!(trace, TRACE);
        assert_eq!(
            seen.request.header("tracestate"),
            None,
            "the state belongs to the old trace"
        );
    }
    let traces: std::collections::BTreeSet<_> = log.iter().map(|line| line["trace_id"].to_string()).collect();
    assert_eq!(traces.len(), invalid.len(), "each has its own");
}

#[test]
fn both_proxies_of_a_call_log_the_same_trace() {
    let app = App::named("app");
    let callee = proxied(&app);
    let caller = Proxy::start(&pod(&[("upstreams", &format!("- peer:{}", callee.inbound()))], &[]));
    call(caller.outbound(), "");
    let traces = [&caller, &callee].map(|proxy| proxy.access_log(1)[0]["trace_id"].clone());
    assert_eq!(traces[0], traces[1]);
    let header = app.last().header("traceparent").unwrap().to_owned();
    assert_eq!(parts(&header).map(|(trace, _)| trace), traces[0].as_str());
}
