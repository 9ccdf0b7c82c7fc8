//! A server on the loopback interface, with a core and namespaces that misbehave on demand.

#![allow(
    dead_code,
    unused_imports,
    reason = "each suite uses its own part of the support modules"
)]

#[path = "http_client.rs"]
mod http_client;

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use outrigger::config::{CertificateFiles, CertificateSource, Config, LogConfig, LogFormat, ServerConfig};
use outrigger::error::{InternalError, Outcome};
use outrigger::inject::Injector;
use outrigger::namespace::NamespaceInfo;
use outrigger::namespaces::{NamespaceError, Namespaces};
use outrigger::review::{Answer, Endpoint, Review};
use outrigger::server::{Addresses, Parts, Reviewer, ServeError, Server, new_metrics};
use outrigger::service::View;
use outrigger::services::Known;
use outrigger::telemetry;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::sync::oneshot;

pub use self::http_client::{Connection, Response, head, review, tcp};

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

    /// One that ends so long after 1970.
    pub fn until(end: Duration) -> Self {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        let key = rcgen::KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
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
        _: View<'_>,
    ) -> Result<Answer, InternalError> {
        assert!(review.namespace() != PANICS, "the core panics");
        let response = serde_json::json!({"uid": review.uid(), "allowed": true});
        let body = serde_json::json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        let (outcome, message) = (Outcome::ADMITTED, Some(MESSAGE.to_owned()));
        Ok(Answer {
            body: body.to_string().into_bytes(),
            outcome,
            pod: "web".to_owned(),
            message,
        })
    }
}

/// Every namespace exists, but for one.
#[derive(Default)]
pub struct Fixed {
    pub ready: AtomicBool,
    known: BTreeMap<String, NamespaceInfo>,
}

impl Fixed {
    fn ready(known: BTreeMap<String, NamespaceInfo>) -> Self {
        Self {
            ready: AtomicBool::new(true),
            known,
        }
    }
}

impl Namespaces for Fixed {
    fn ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<NamespaceInfo, NamespaceError>> {
        async move {
            match name {
                MISSING => {
                    return Err(NamespaceError::NotFound { name: name.to_owned() });
                }
                SLOW => tokio::time::sleep(SLOW_LOOKUP).await,
                _ => {}
            }
            Ok(self.known.get(name).cloned().unwrap_or_else(NamespaceInfo::enabled))
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
        config.certificate = Some(CertificateSource::Files(files));
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.admin_listen = "127.0.0.1:0".parse().unwrap();
        config.workers = Some(2);
        config.drain_delay = Duration::ZERO;
        config.reload_interval = Duration::from_millis(100);
        Self { dir, identity, config }
    }

    pub fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut setup = Self::new();
        change(&mut setup.config);
        setup
    }

    /// Why this does not start.
    pub fn refusal(&self) -> ServeError {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let parts = parts(Arc::new(Core), Arc::default(), Known::new(false));
        runtime.block_on(async { Server::bind(&self.config, parts).expect_err("must not start") })
    }

    pub fn start(self) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        self.start_until(stop, stopped.map(drop))
    }

    /// With the real core, and namespaces and Services that are known beforehand.
    pub fn start_injector(
        self,
        injector: Injector,
        known: BTreeMap<String, NamespaceInfo>,
        services: Known,
    ) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let namespaces = Arc::new(Fixed::ready(known));
        self.run(Arc::new(injector), namespaces, services, stop, stopped.map(drop))
    }

    pub fn start_until(self, stop: oneshot::Sender<()>, stopped: impl Future<Output = ()> + Send + 'static) -> Running {
        let namespaces = Arc::new(Fixed::ready(BTreeMap::new()));
        self.run(Arc::new(Core), namespaces, Known::new(false), stop, stopped)
    }

    fn run(
        self,
        reviewer: Arc<dyn Reviewer>,
        namespaces: Arc<Fixed>,
        services: Known,
        stop: oneshot::Sender<()>,
        stopped: impl Future<Output = ()> + Send + 'static,
    ) -> Running {
        LazyLock::force(&LOG);
        let parts = parts(reviewer, Arc::clone(&namespaces), services);
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

fn parts(reviewer: Arc<dyn Reviewer>, namespaces: Arc<Fixed>, services: Known) -> Parts {
    Parts {
        reviewer,
        namespaces,
        services: Arc::new(services),
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
        trusted.iter().for_each(|identity| roots.add(identity.der()).unwrap());
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
        Ok(Connection::new(tls, socket))
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
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
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

/// Tries until it holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the servers of this process have logged.
static LOG: LazyLock<Page> = LazyLock::new(|| {
    let page = Page::default();
    let config = LogConfig {
        filter: "debug".to_owned(),
        format: LogFormat::Text,
        color: false,
    };
    let writer = page.clone();
    let subscriber = telemetry::subscriber(&config, false, move || writer.clone()).unwrap();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    page
});

/// The lines logged so far that contain this text.
pub fn log(text: &str) -> Vec<String> {
    let page = String::from_utf8(LOG.0.lock().unwrap().clone()).unwrap();
    page.split('\n')
        .filter(|line| line.contains(text))
        .map(str::to_owned)
        .collect()
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
