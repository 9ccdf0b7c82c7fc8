//! The webhook server: HTTPS for the two webhooks, plain HTTP for health checks and metrics.
//!
//! HTTP/1.1 only, as the API server speaks it to webhooks. Everything a caller can stretch has a
//! bound: handshake, head, body (size and time), bytes in flight, connections.

mod admin;
mod admission;
mod body;
mod failure;
mod follow;
mod listen;
mod state;
mod termination;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::state::State;
use crate::certificates::election::elect;
use crate::config::{CertificateFiles, CertificateSource, ServerConfig};
use crate::error::{InternalError, Outcome};
use crate::inject::Injector;
use crate::metrics::Metrics;
use crate::namespace::NamespaceInfo;
use crate::namespaces::{self, ClientError, Namespaces};
use crate::review::{Answer, Endpoint, Review};
use crate::service::View;
use crate::services::{self, Known};
use crate::tls::{Certificates, Reloader};
use crate::{certificates, identity};

pub use self::failure::FailureKind;
pub use self::termination::Termination;

/// How long requests on kept connections are turned away, with word to try again elsewhere,
/// before these connections are closed. The API server does not try again on a closed one.
pub const TURN_AWAY: Duration = Duration::from_millis(500);

/// What decides about a review: the core, behind the one call that the server makes.
pub trait Reviewer: Send + Sync + 'static {
    /// Answers one review. Pure and quick: it runs on the thread that serves the connection.
    ///
    /// # Errors
    /// Failures of ours, which the caller sees as HTTP 500.
    fn answer(
        &self,
        endpoint: Endpoint,
        review: &Review<'_>,
        namespace: Option<&NamespaceInfo>,
        services: View<'_>,
    ) -> Result<Answer, InternalError>;
}

impl Reviewer for Injector {
    fn answer(
        &self,
        endpoint: Endpoint,
        review: &Review<'_>,
        namespace: Option<&NamespaceInfo>,
        services: View<'_>,
    ) -> Result<Answer, InternalError> {
        Self::answer(self, endpoint, review, namespace, services)
    }
}

/// What the server is made of besides its configuration.
#[derive(Clone)]
pub struct Parts {
    /// Decides about reviews.
    pub reviewer: Arc<dyn Reviewer>,
    /// Knows namespaces.
    pub namespaces: Arc<dyn Namespaces>,
    /// Knows Services.
    pub services: Arc<Known>,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// Why the server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nothing to serve HTTPS with.
    #[error("no serving certificate: set OUTRIGGER_CERT_SECRET, or OUTRIGGER_CERT_FILE and OUTRIGGER_KEY_FILE")]
    NoCertificate,
    /// The system has no randomness.
    #[error("the system gives no random numbers, which TLS needs")]
    Randomness,
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; is the port taken? set {variable}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The variable that sets it.
        variable: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
    /// A part that runs as long as the server ended before it.
    #[error("{part} ended unexpectedly: {reason}")]
    Ended {
        /// Which part.
        part: &'static str,
        /// What is known about it.
        reason: String,
    },
}

/// A server that listens. Its workers answer from now on, but it stops only when [`Server::run`]
/// is polled.
pub struct Server {
    state: Arc<State>,
    admission: actix_web::dev::Server,
    admin: actix_web::dev::Server,
    addresses: Addresses,
    drain_delay: Duration,
    background: JoinSet<&'static str>,
    stopping: watch::Sender<bool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// Where a server listens; the ports are the real ones also where 0 was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The webhooks.
    pub admission: SocketAddr,
    /// Health checks and metrics.
    pub admin: SocketAddr,
}

/// Serves until SIGTERM or SIGINT, then drains and returns. Changes of `requirements_file`, from which the
/// injector was made, are put in force.
///
/// # Errors
/// When something is missing at start, or a part of the server ends by itself.
pub async fn serve(
    config: ServerConfig,
    injector: Arc<Injector>,
    requirements_file: Option<PathBuf>,
) -> Result<(), ServeError> {
    let mut termination = Termination::install()?;
    let metrics = new_metrics();
    certificate(&config)?;
    let client = namespaces::client(config.kubeconfig.as_deref().map(Path::new)).await?;
    let services = Arc::new(Known::new(config.watch_services));
    let (namespaces, watch) = namespaces::watch(client.clone(), Arc::clone(&metrics), Arc::clone(&services));
    let follower = requirements_file.map(|file| follow::Follower {
        file,
        injector: Arc::clone(&injector),
        metrics: Arc::clone(&metrics),
    });
    let trust_domain = injector.defaults().trust_domain.as_ref().map(ToString::to_string);
    let parts = Parts {
        reviewer: injector,
        namespaces,
        services: Arc::clone(&services),
        metrics: Arc::clone(&metrics),
    };
    let mut server = Server::bind(&config, parts)?;
    server.lead(&config, &client, &metrics, trust_domain);
    if let Some(follower) = follower {
        server.supervise("the requirements' reload", follower.run(config.reload_interval));
    }
    server.supervise("the watch on namespaces", watch);
    if config.watch_services {
        let watch = services::watch(client, services, metrics);
        server.supervise("the watch on Services", watch);
    }
    server.run(termination.received()).await
}

/// Metrics that know every outcome.
#[must_use]
pub fn new_metrics() -> Arc<Metrics> {
    let failures = FailureKind::ALL.iter().map(|kind| kind.as_str());
    let outcomes = Outcome::all().map(Outcome::as_str);
    Arc::new(Metrics::new(&outcomes.chain(failures).collect::<Vec<_>>()))
}

fn certificate(config: &ServerConfig) -> Result<&CertificateSource, ServeError> {
    config.certificate.as_ref().ok_or(ServeError::NoCertificate)
}

impl Server {
    /// Loads the certificate if it is in files, listens on both addresses and starts the workers.
    /// Files that are missing or cannot be used are looked at again until they can. A certificate
    /// that the server keeps itself is served once it is handed to [`Server::certificates`].
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When there is no word of a certificate, or an address cannot be listened on.
    pub fn bind(config: &ServerConfig, parts: Parts) -> Result<Self, ServeError> {
        let certificates = Arc::new(Certificates::default());
        let metrics = Arc::clone(&parts.metrics);
        let reloader = match certificate(config)? {
            CertificateSource::Files(files) => Some(load(files, &certificates, &metrics)),
            CertificateSource::Managed(_) => None,
        };
        crate::tls::warm_up().map_err(|_| ServeError::Randomness)?;
        let mut server = Self::listen(config, parts, Arc::clone(&certificates))?;
        if let Some(reloader) = reloader {
            let reload = reloader.run(config.reload_interval, certificates, metrics);
            server.supervise("the certificate reload", reload);
        }
        Ok(server)
    }

    fn listen(config: &ServerConfig, parts: Parts, certificates: Arc<Certificates>) -> Result<Self, ServeError> {
        let state = Arc::new(State::new(config, parts, Arc::clone(&certificates)));
        let (admission, admission_address) = listen::admission(config, &state, certificates)?;
        let (admin, admin_address) = listen::admin(config, &state)?;
        let addresses = Addresses {
            admission: admission_address,
            admin: admin_address,
        };
        tracing::info!(admission = %addresses.admission, admin = %addresses.admin, "listening");
        Ok(Self {
            state,
            admission,
            admin,
            addresses,
            drain_delay: config.drain_delay,
            background: JoinSet::new(),
            stopping: watch::Sender::new(false),
        })
    }

    /// Starts what one replica does for all of them.
    fn lead(&mut self, config: &ServerConfig, client: &Client, metrics: &Arc<Metrics>, trust_domain: Option<String>) {
        let managed = match &config.certificate {
            Some(CertificateSource::Managed(managed)) => Some(managed),
            _ => None,
        };
        let signer = config.signer.as_ref();
        let election = managed.map(|managed| &managed.election);
        let Some(election) = election.or(signer.map(|signer| &signer.election)) else {
            return;
        };
        let counts = metrics.certificates.clone();
        let (elected, election) = elect(client.clone(), election, counts, self.stopping());
        self.supervise("the election", election);
        if let Some(managed) = managed.cloned() {
            let (certificates, metrics) = (self.certificates(), Arc::clone(metrics));
            let keeper = certificates::keep(client.clone(), managed, certificates, metrics, elected.clone());
            self.supervise("the certificates' keeper", keeper);
        }
        if let Some(signer) = signer.cloned() {
            let (client, counts) = (client.clone(), metrics.identities.clone());
            let trust_domain = trust_domain.unwrap_or_default();
            let signer = identity::serve(client, signer, trust_domain, counts, elected);
            self.supervise("the signer", signer);
        }
    }

    /// What is served at handshakes.
    #[must_use]
    pub fn certificates(&self) -> Arc<Certificates> {
        Arc::clone(&self.state.certificates)
    }

    /// Becomes true when the server begins to drain.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Where the server listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Runs a task for as long as the server. The server ends with an error when the task does.
    pub fn supervise(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(async move {
            task.await;
            name
        });
    }

    /// Serves until `stop` is ready, then drains and returns.
    ///
    /// Draining: readiness goes off, while connections are accepted and answered for the drain
    /// delay, until endpoints have moved. Then requests are answered 503 with `Retry-After` for a
    /// moment, and those in flight may finish.
    ///
    /// # Errors
    /// When a part of the server ends by itself.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self {
            state,
            admission,
            admin,
            addresses: _,
            drain_delay,
            mut background,
            stopping,
        } = self;
        let handles = [admission.handle(), admin.handle()];
        let (mut admission, mut admin) = (tokio::spawn(admission), tokio::spawn(admin));
        let stopped = tokio::select! {
            () = stop => Ok(()),
            ended = &mut admission => Err(unexpected("the webhook server", ended)),
            ended = &mut admin => Err(unexpected("the admin server", ended)),
            Some(ended) = background.join_next() => Err(ended_task(ended)),
        };
        // From here on parts are meant to end.
        stopping.send_replace(true);
        if stopped.is_ok() {
            drain(&state, drain_delay).await;
        }
        for handle in &handles {
            handle.stop(stopped.is_ok()).await;
        }
        tracing::info!("stopped");
        stopped
    }
}

/// Serves what the files hold, if anything, and starts to follow them.
fn load(files: &CertificateFiles, certificates: &Certificates, metrics: &Metrics) -> Reloader {
    let mut reloader = Reloader::new(files.clone());
    reloader.begin(certificates, metrics);
    reloader
}

async fn drain(state: &State, delay: Duration) {
    tracing::info!(
        delay_ms = delay.as_millis(),
        "draining: not ready any more, still accepting"
    );
    state.start_draining();
    sleep(delay).await;
    tracing::info!("turning requests away");
    state.turn_away();
    sleep(TURN_AWAY).await;
}

type Ended = Result<std::io::Result<()>, tokio::task::JoinError>;

fn unexpected(part: &'static str, ended: Ended) -> ServeError {
    let reason = match ended {
        Ok(Ok(())) => "it stopped".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    ServeError::Ended { part, reason }
}

fn ended_task(ended: Result<&'static str, tokio::task::JoinError>) -> ServeError {
    match ended {
        Ok(part) => ServeError::Ended {
            part,
            reason: "it returned".to_owned(),
        },
        Err(error) => ServeError::Ended {
            part: "a background task",
            reason: error.to_string(),
        },
    }
}
