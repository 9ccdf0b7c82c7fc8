//! Calls that are tried again, and calls that are given up.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::workloads::{Echo, Mesh, Namespace};
use crate::{caller, deploy};

/// An application behind three ports of its Service, each of which is an upstream of its own.
fn orders() -> Echo {
    let port = |port: u16| json!({"name": format!("http-{port}"), "port": port, "targetPort": 8080});
    Echo::new("orders").ports(json!([port(8080), port(8081), port(8082)]))
}

const UPSTREAMS: &str = "
- {service: orders:8080, retries: 2}
- {service: orders:8081, timeout: 500ms}
- {service: orders:8082, timeout: 500ms, retries: 2}
";

/// What a request met.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: u16,
    /// How often the application saw it.
    seen: u64,
    /// What the caller's proxy was answered, one after the other.
    answers: String,
}

/// Makes a request whose path is counted by the id, and asks for all that became of it.
fn request(shop: &Namespace<'_>, port: u16, path: &str, id: &str, arguments: &[&str]) -> Outcome {
    let pod = shop.pod("web");
    let header = format!("X-Request-Id: {id}");
    let arguments = [&["-H", &header], arguments].concat();
    let reply = shop.call_from(&pod, &format!("http://orders:{port}{path}&id={id}"), &arguments);
    let count = shop.call_from(&pod, &format!("http://orders:8080/count?of={id}"), &[]);
    let [line] = &shop.logged(&pod, &json!({"request_id": id}))[..] else {
        panic!("{id}: one request is one line, however often it is tried");
    };
    Outcome {
        status: reply.unwrap().status,
        seen: count.unwrap().body.trim().parse().unwrap(),
        answers: line["upstream_status"].as_str().unwrap().to_owned(),
    }
}

fn outcome(status: u16, seen: u64, answers: &str) -> Outcome {
    Outcome {
        status,
        seen,
        answers: answers.to_owned(),
    }
}

/// A body of so many bytes, written into the caller's pod; curl's name for it.
fn body(shop: &Namespace<'_>, bytes: usize) -> String {
    let file = format!("/tmp/body-{bytes}");
    let write = ["exec", "-i", &shop.pod("web"), "-c", "app", "--", "tee", &file];
    shop.kubectl_reading(&"x".repeat(bytes), &write).expect_success();
    format!("@{file}")
}

#[test]
fn idempotent_requests_are_tried_again_and_late_ones_given_up() {
    let mesh = Mesh::shared();
    let shop = mesh.namespace("retries");
    deploy(&shop, &[&orders()], &caller("web", UPSTREAMS));
    tries_again(&shop);
    gives_up(&shop);
    let callee = shop.access_log(&shop.pod("orders"));
    let tries = callee.iter().filter(|line| line["request_id"] == "twice").count();
    assert_eq!(tries, 3, "the called proxy adds no tries of its own");
}

fn tries_again(shop: &Namespace<'_>) {
    let (small, large) = (body(shop, 10), body(shop, 500_000));
    let with = |body| ["-X", "PUT", "-H", "Expect:", "--data-binary", body];
    let cases: [(&str, &str, &[&str], Outcome); 7] = [
        ("once", "/flaky?times=0", &[], outcome(200, 1, "200")),
        ("twice", "/flaky?times=2", &[], outcome(200, 3, "503, 503, 200")),
        ("thrice", "/flaky?times=3", &[], outcome(503, 3, "503, 503, 503")),
        (
            "delete",
            "/flaky?times=1",
            &["-X", "DELETE"],
            outcome(200, 2, "503, 200"),
        ),
        ("post", "/flaky?times=1", &["-X", "POST"], outcome(503, 1, "503")),
        ("small", "/flaky?times=1", &with(&small), outcome(200, 2, "503, 200")),
        // The proxy passes a body on as it comes, and keeps none of it.
        ("large", "/flaky?times=1", &with(&large), outcome(503, 1, "503")),
    ];
    for (id, path, arguments, expected) in cases {
        assert_eq!(request(shop, 8080, path, id, arguments), expected, "{id}");
    }
    let unasked = request(shop, 8081, "/flaky?times=1", "unasked", &[]);
    assert_eq!(unasked, outcome(503, 1, "503"), "without retries");
    let wrong = request(shop, 8080, "/status?code=500", "wrong", &[]);
    assert_eq!(wrong, outcome(500, 1, "500"), "what the application made of it stays");
}

fn gives_up(shop: &Namespace<'_>) {
    let quick = request(shop, 8081, "/slow?for=100ms", "quick", &[]);
    assert_eq!(quick, outcome(200, 1, "200"));
    for (port, id, expected) in [
        (8081, "late", outcome(504, 1, "504")),
        (8082, "later", outcome(504, 3, "504, 504, 504")),
    ] {
        let started = Instant::now();
        assert_eq!(request(shop, port, "/slow?for=20s", id, &[]), expected);
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "before the application answers"
        );
        let line = &shop.logged(&shop.pod("web"), &json!({"request_id": id}))[0];
        let waited = line["seconds"].as_f64().unwrap();
        let tries: Vec<f64> = seconds(&line["upstream_seconds"]);
        // nginx's clock is a few milliseconds behind at times.
        assert!(tries.iter().all(|seconds| (0.45..3.0).contains(seconds)), "{line}");
        assert!(waited > 0.45 * tries.len() as f64, "{line}");
    }
}

/// The durations of all tries.
fn seconds(list: &Value) -> Vec<f64> {
    let list = list.as_str().unwrap().split(", ");
    list.map(|seconds| seconds.parse().unwrap()).collect()
}
