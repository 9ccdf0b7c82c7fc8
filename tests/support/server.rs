//! A server on the loopback interface, and a client that can misbehave.
//!
//! The client is rustls over a blocking socket, and HTTP written by hand: a test must be able to
//! stop in the middle of a body, or to speak no TLS at all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use outrigger::config::{CertificateFiles, Config, ServerConfig};
use outrigger::inject::InternalError;
use outrigger::namespace_info::NamespaceInfo;
use outrigger::namespaces::{NamespaceError, Namespaces};
use outrigger::review::{Answer, Endpoint, Outcome, Review};
use outrigger::server::{Addresses, Parts, Reviewer, ServeError, Server, new_metrics};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Longer than anything a test waits for, so that a hanging server fails a test.
const PATIENCE: Duration = Duration::from_secs(15);

/// A namespace in which the core panics.
pub const PANICS: &str = "panics";
/// A namespace that does not exist.
pub const MISSING: &str = "missing";
/// A namespace whose look-up takes [`SLOW_LOOKUP`].
pub const SLOW: &str = "slow";
/// Longer than draining takes in these tests.
pub const SLOW_LOOKUP: Duration = Duration::from_millis(2500);
/// The message of every answer.
pub const MESSAGE: &str = "answered";

/// A self-signed certificate for `localhost`.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Identity {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }

    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }
}

/// A core that admits everything, but panics in one namespace.
struct Core;

impl Reviewer for Core {
    fn answer(
        &self,
        _: Endpoint,
        review: &Review<'_>,
        _: Option<&NamespaceInfo>,
    ) -> Result<Answer, InternalError> {
        assert!(review.namespace() != PANICS, "the core panics");
        let response = serde_json::json!({"uid": review.uid(), "allowed": true});
        let body = serde_json::json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        let (outcome, message) = (Outcome::ALL[0], Some(MESSAGE.to_owned()));
        Ok(Answer {
            body: body.to_string().into_bytes(),
            outcome,
            message,
        })
    }
}

/// Every namespace exists, but for one.
#[derive(Default)]
pub struct Fixed {
    pub ready: AtomicBool,
}

impl Namespaces for Fixed {
    fn ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<NamespaceInfo, NamespaceError>> {
        async move {
            match name {
                MISSING => {
                    return Err(NamespaceError::NotFound {
                        name: name.to_owned(),
                    });
                }
                SLOW => tokio::time::sleep(SLOW_LOOKUP).await,
                _ => {}
            }
            let labels =
                BTreeMap::from([("outrigger.mesh/inject".to_owned(), "enabled".to_owned())]);
            Ok(NamespaceInfo {
                labels,
                ..NamespaceInfo::default()
            })
        }
        .boxed()
    }
}

/// Files as a mounted Secret has them, and a configuration that points there.
pub struct Setup {
    pub dir: TempDir,
    pub identity: Identity,
    pub config: ServerConfig,
}

impl Setup {
    /// Any port, no drain delay, a quick certificate reload.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::new();
        write_pair(dir.path(), &identity.certificate, &identity.key);
        let mut config = Config::from_vars([], &[]).unwrap().server;
        let files = CertificateFiles {
            certificate: dir.path().join("tls.crt"),
            key: dir.path().join("tls.key"),
        };
        config.certificate = Some(files);
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.admin_listen = "127.0.0.1:0".parse().unwrap();
        config.workers = Some(2);
        config.drain_delay = Duration::ZERO;
        config.certificate_reload_interval = Duration::from_millis(100);
        Self {
            dir,
            identity,
            config,
        }
    }

    pub fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut setup = Self::new();
        change(&mut setup.config);
        setup
    }

    /// Why this does not start.
    pub fn refusal(&self) -> ServeError {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let parts = parts(Arc::default());
        runtime.block_on(async {
            Server::bind(&self.config, parts)
                .err()
                .expect("must not start")
        })
    }

    pub fn start(self) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        self.start_until(stop, stopped.map(drop))
    }

    pub fn start_until(
        self,
        stop: oneshot::Sender<()>,
        stopped: impl Future<Output = ()> + Send + 'static,
    ) -> Running {
        let namespaces = Arc::new(Fixed {
            ready: AtomicBool::new(true),
        });
        let parts = parts(Arc::clone(&namespaces));
        let (bound, addresses) = mpsc::channel();
        let config = self.config.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async move {
                let server = Server::bind(&config, parts).unwrap();
                bound.send(server.addresses()).unwrap();
                server.run(stopped).await
            })
        });
        let addresses = addresses.recv().expect("the server starts");
        Running {
            setup: self,
            addresses,
            namespaces,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

fn parts(namespaces: Arc<Fixed>) -> Parts {
    Parts {
        reviewer: Arc::new(Core),
        namespaces,
        metrics: new_metrics(),
    }
}

pub fn write_pair(dir: &Path, certificate: &str, key: &str) {
    std::fs::write(dir.join("tls.crt"), certificate).unwrap();
    std::fs::write(dir.join("tls.key"), key).unwrap();
}

/// A server that runs until it is stopped or dropped.
pub struct Running {
    pub setup: Setup,
    pub addresses: Addresses,
    pub namespaces: Arc<Fixed>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> Result<(), ServeError> {
        self.thread
            .take()
            .expect("waits once")
            .join()
            .expect("the server does not panic")
    }

    /// A connection that trusts the certificate the server started with.
    pub fn connect(&self) -> Connection {
        self.connect_trusting(&self.setup.identity)
    }

    pub fn connect_trusting(&self, identity: &Identity) -> Connection {
        self.try_connect(&[identity], &[&TLS12, &TLS13], &[])
            .expect("the connection is accepted")
    }

    pub fn try_connect(
        &self,
        trusted: &[&Identity],
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
    ) -> std::io::Result<Connection> {
        let mut roots = RootCertStore::empty();
        trusted
            .iter()
            .for_each(|identity| roots.add(identity.der()).unwrap());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = tcp(self.addresses.admission)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Connection(BufReader::new(StreamOwned::new(tls, socket))))
    }

    /// A page of the admin server: its status and text.
    pub fn page(&self, path: &str) -> (u16, String) {
        let mut socket = tcp(self.addresses.admin).unwrap();
        write!(
            socket,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let response = Response::read(&mut BufReader::new(socket)).unwrap();
        (response.status, response.body)
    }

    /// The value of one series.
    pub fn metric(&self, series: &str) -> f64 {
        let (_, page) = self.page("/metrics");
        let line = page.lines().find_map(|line| {
            line.strip_prefix(series)?
                .strip_prefix(' ')
                .map(str::to_owned)
        });
        line.unwrap_or_else(|| panic!("no series {series} in\n{page}"))
            .parse()
            .unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn tcp(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Tries until it holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A connection to the webhooks.
pub struct Connection(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Connection {
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
    fn read(stream: &mut impl BufRead) -> std::io::Result<Self> {
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
