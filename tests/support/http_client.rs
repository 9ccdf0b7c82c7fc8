//! An HTTP client that can misbehave: rustls over a blocking socket, and HTTP written by hand. A
//! test must be able to stop in the middle of a body, or to speak no TLS at all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustls::{ClientConnection, StreamOwned};

use super::PATIENCE;

pub fn tcp(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// A connection to the webhooks.
pub struct Connection(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Connection {
    pub fn new(tls: ClientConnection, socket: TcpStream) -> Self {
        Self(BufReader::new(StreamOwned::new(tls, socket)))
    }

    pub fn tls(&self) -> &ClientConnection {
        &self.0.get_ref().conn
    }

    pub fn send(&mut self, text: &str) -> std::io::Result<()> {
        let stream = self.0.get_mut();
        stream.write_all(text.as_bytes())?;
        stream.flush()
    }

    pub fn receive(&mut self) -> std::io::Result<Response> {
        Response::read(&mut self.0)
    }

    /// Whether the server closes the connection now.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }

    pub fn try_post(&mut self, path: &str, body: &str) -> std::io::Result<Response> {
        self.send(&format!("{}{body}", head(path, body.len())))?;
        self.receive()
    }

    pub fn post(&mut self, path: &str, body: &str) -> Response {
        self.try_post(path, body).expect("the request is answered")
    }
}

/// The head of a proper request.
pub fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

/// A response with a `Content-Length`.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Response {
    pub fn read(stream: &mut impl BufRead) -> std::io::Result<Self> {
        let first = line(stream)?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("not HTTP: {first:?}")))?;
        let mut headers = BTreeMap::new();
        loop {
            let line = line(stream)?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers
            .get("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Self {
            status,
            headers,
            body: String::from_utf8(body).unwrap(),
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn closes(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }
}

fn line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// A review of a pod's creation, padded by an annotation to at least `size` bytes.
pub fn review(namespace: &str, size: usize) -> String {
    let pod = |padding: &str| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": namespace, "annotations": {"padding": padding}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        })
    };
    let build = |padding: &str| {
        serde_json::json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
                "requestResource": {"group": "", "version": "v1", "resource": "pods"},
                "name": "web", "namespace": namespace, "operation": "CREATE",
                "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
                "object": pod(padding), "oldObject": null, "dryRun": false, "options": null,
            },
        })
        .to_string()
    };
    let least = build("");
    build(&"x".repeat(size.saturating_sub(least.len())))
}
