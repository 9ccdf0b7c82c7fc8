//! The programs other suites lean on: the YAML judge answers as kubectl reads, and nginx can do what the proxy needs.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use judge::Judge;
use ports::free_ports;
use processes::Processes;
use tools::tool;

#[path = "support/judge.rs"]
mod judge;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/processes.rs"]
mod processes;
#[path = "support/tools.rs"]
mod tools;

#[test]
fn the_judge_answers_one_input_after_another() {
    let mut judge = Judge::start(&tool("TEST_YAML_JUDGE"));
    assert_eq!(
        judge.read(b"a: yes\n---\n# nothing\n---\nb: 010\n"),
        Ok(vec![json!({"a": true}), json!({"b": 8})])
    );
    assert!(judge.read(b"a: [").unwrap_err().contains("line 1"));
    assert_eq!(judge.read(b""), Ok(vec![]));
}

#[test]
fn nginx_has_the_modules_of_the_proxy() {
    let output = Command::new(tool("TEST_NGINX")).arg("-V").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    for module in [
        "--with-http_realip_module",
        "--with-http_ssl_module",
        "--with-http_stub_status_module",
        "--with-http_v2_module",
        "--with-stream ",
        "--with-stream_ssl_module",
        "--with-stream_ssl_preread_module",
    ] {
        assert!(said.contains(module), "{module} is not in: {said}");
    }
}

/// `pass` came with nginx 1.25.5; the proxy hands a connection from stream to http with it.
#[test]
fn nginx_passes_a_connection_from_stream_to_http() {
    let folder = tempfile::tempdir().unwrap();
    let [outer, inner] = free_ports();
    let configuration = folder.path().join("nginx.conf");
    std::fs::write(&configuration, passing(outer, inner)).unwrap();
    let mut processes = Processes::new(folder.path());
    let folder = folder.path().display();
    let arguments = [
        "-e".to_owned(),
        "stderr".to_owned(),
        "-p".to_owned(),
        folder.to_string(),
        "-c".to_owned(),
        configuration.display().to_string(),
    ];
    processes.start("nginx", &tool("TEST_NGINX"), &arguments);

    let answer = get(outer).unwrap_or_else(|| panic!("nginx did not answer{}", processes.log_tails()));

    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("plain\n"),
        "{answer}"
    );
}

fn passing(outer: u16, inner: u16) -> String {
    format!(
        r#"
daemon off; master_process off; pid nginx.pid;
events {{}}
stream {{
  map "$ssl_preread_protocol" $server {{ default 127.0.0.1:{inner}; }}
  server {{ listen 127.0.0.1:{outer}; ssl_preread on; pass $server; }}
}}
http {{
  client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  access_log off;
  server {{ listen 127.0.0.1:{inner}; location ~ ^/pla(in)$ {{ return 200 "plain\n"; }} }}
}}
"#
    )
}

/// The answer to GET /plain, once there is one.
fn get(port: u16) -> Option<String> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(30) {
        if let Ok(mut connection) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            connection
                .write_all(b"GET /plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            return Some(answer);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
