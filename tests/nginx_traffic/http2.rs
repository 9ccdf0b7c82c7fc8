//! HTTP/2 without TLS, and gRPC: curl calls, and an nginx of the test's own takes the calls for the application, since it
//! speaks HTTP/2 and can say in plain HTTP/1.1 what it got.

use std::path::Path;
use std::process::Command;

use crate::app::{App, Reply, Speaks};
use crate::mesh::Mesh;
use crate::processes::Processes;
use crate::proxy::{Proxy, free_port, pod, wait_for};
use crate::tools::tool;

/// An application of HTTP/2 alone, in front of one that remembers what came.
pub(crate) struct Http2 {
    pub(crate) port: u16,
    pub(crate) behind: App,
    _processes: Processes,
    _folder: tempfile::TempDir,
}

impl Http2 {
    pub(crate) fn new() -> Self {
        // Without a length, since curl would not wait for trailers after it.
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nh2\r\n0\r\n\r\n";
        let behind = App::new(Speaks::Plain, |_| Reply::Raw(answer.to_owned()));
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let file = folder.path().join("app.conf");
        std::fs::write(&file, configuration(folder.path(), port, behind.port)).unwrap();
        let mut processes = Processes::new(folder.path());
        let arguments = ["-e", "stderr", "-c", &file.display().to_string()].map(str::to_owned);
        processes.start("app", &tool("TEST_NGINX"), &arguments);
        wait_for(port, &processes);
        Self {
            port,
            behind,
            _processes: processes,
            _folder: folder,
        }
    }
}

fn configuration(folder: &Path, port: u16, behind: u16) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| {
        let path = folder.join(kind);
        format!("{kind}_temp_path {};", path.display())
    });
    format!(
        r#"
daemon off; master_process off; pid {pid};
events {{}}
http {{
  {temporary} access_log off; client_max_body_size 0;
  server {{
    listen 127.0.0.1:{port}; http2 on;
    location / {{
      proxy_set_header Host $http_host;
      proxy_set_header X-Protocol $server_protocol;
      add_trailer grpc-status 0 always;
      proxy_pass http://127.0.0.1:{behind};
    }}
  }}
}}
"#,
        pid = folder.join("pid").display(),
        temporary = temporary.join(" ")
    )
}

/// What curl prints: heads, trailers and body of the answer, and its complaints.
pub(crate) fn call(port: u16, body: &Path) -> String {
    let run = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "15",
            "--http2-prior-knowledge",
            "--include",
        ])
        .args(["--header", "Content-Type: application/grpc", "--header", "TE: trailers"])
        .args([
            "--header",
            "X-Outrigger-Client: me",
            "--data-binary",
            &format!("@{}", body.display()),
        ])
        .arg(format!("http://127.0.0.1:{port}/shop.Orders/List"))
        .env_clear()
        .output()
        .expect("curl can be run: see tests/install-packages");
    [run.stdout, run.stderr]
        .map(|said| String::from_utf8_lossy(&said).into_owned())
        .concat()
}

/// Calls `port` and looks at what came to the application and back.
pub(crate) fn check(app: &Http2, port: u16, client: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let body = "g".repeat(500_000);
    std::fs::write(&file, &body).unwrap();
    let answer = call(port, &file);
    assert!(answer.starts_with("HTTP/2 200"), "{answer}");
    assert!(
        answer.contains("\r\n\r\nh2") && answer.contains("grpc-status: 0"),
        "{answer}"
    );
    let seen = app.behind.last();
    assert!(seen.first.starts_with("POST /shop.Orders/List "), "{}", seen.first);
    assert_eq!(seen.header("X-Protocol"), Some("HTTP/2.0"));
    assert_eq!(seen.header("Host"), Some(format!("127.0.0.1:{port}").as_str()));
    assert_eq!(seen.header("X-Request-Id").map(str::len), Some(32));
    assert_eq!(seen.header("Traceparent").map(str::len), Some(55));
    assert_eq!(seen.header("X-Outrigger-Client"), client);
    assert!(seen.body == body.as_bytes(), "{} bytes came", seen.body.len());
}

#[test]
fn calls_pass_in_and_out() {
    let app = Http2::new();
    for name in ["grpc", "http2"] {
        let proxy = Proxy::start(&pod(&[], &[(name, app.port)]));
        check(&app, proxy.inbound(), None);
    }
    let upstreams = format!("- {{service: orders:{}, protocol: grpc, retries: 1}}", app.port);
    let proxy = Proxy::start(&pod(&[("upstreams", &upstreams)], &[]));
    check(&app, proxy.outbound(), None);
}

#[test]
fn permissive_takes_plain_calls() {
    let (app, mesh) = (Http2::new(), Mesh::new());
    let proxy = Proxy::start_with(
        &pod(&[("template", "mtls")], &[("grpc", app.port)]),
        &mesh,
        &mesh.leaf("shop", "web"),
    );
    check(&app, proxy.inbound(), None);
}

#[test]
fn two_proxies_carry_a_call_over_mtls() {
    let (app, mesh) = (Http2::new(), Mesh::new());
    let annotations = [("template", "mtls"), ("mtls", "strict"), ("allow-from", "shop/*")];
    let server = Proxy::start_with(
        &pod(&annotations, &[("grpc", app.port)]),
        &mesh,
        &mesh.leaf("bank", "ledger"),
    );
    let upstreams = format!(
        "- {{service: ledger.bank:{}, protocol: grpc, identity: bank/ledger}}",
        server.inbound()
    );
    let annotations = [("template", "mtls"), ("upstreams", upstreams.as_str())];
    let client = Proxy::start_with(&pod(&annotations, &[]), &mesh, &mesh.leaf("shop", "web"));
    check(&app, client.outbound(), Some("O=cluster.local,OU=shop,CN=web"));
}
