//! Who notices if anything goes wrong in between: pods that are created all the time, and callers
//! that trust what the configurations say at that moment.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::installation::Installation;
use crate::steady::Steady;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// What a watcher saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) successes: usize,
    pub(crate) failures: Vec<String>,
}

/// A thread that tries something over and over.
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Tally>>,
}

impl Watcher {
    /// Creates pods through the API server and its webhooks.
    pub(crate) fn of_pods(installation: &Installation) -> Self {
        let (cluster, shop) = (Arc::clone(&installation.cluster), installation.shop.clone());
        Self::start(async move |stop| {
            let steady = Steady::start(cluster.client().await, &shop);
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(PAUSE).await;
            }
            let seen = steady.stop().await;
            let failures = seen.failed.iter().chain(&seen.unavailable);
            let mut tally = Tally {
                failures: failures.map(|(at, why)| format!("after {at:?}: {why}")).collect(),
                successes: seen.creations,
            };
            tally
                .failures
                .extend((seen.unmeshed > 0).then(|| format!("{} pods without the proxy", seen.unmeshed)));
            tally
        })
    }

    /// Connects to each replica, trusting each `caBundle` as it stands at that moment.
    pub(crate) fn of_handshakes(installation: &Installation, replicas: &[SocketAddr]) -> Self {
        let (cluster, name, replicas) = (Arc::clone(&installation.cluster), installation.name, replicas.to_vec());
        Self::start(async move |stop| {
            let client = cluster.client().await;
            let mut tally = Tally::default();
            while !stop.load(Ordering::Relaxed) {
                for bundle in bundles(&client, name).await {
                    for replica in &replicas {
                        tally.add(handshake(*replica, &bundle).map(drop));
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
            tally
        })
    }

    fn start<F: Future<Output = Tally>>(work: impl FnOnce(Arc<AtomicBool>) -> F + Send + 'static) -> Self {
        let stop: Arc<AtomicBool> = Arc::default();
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || tokio::runtime::Runtime::new().unwrap().block_on(work(seen)));
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Ends it; what it saw.
    pub(crate) fn end(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Ends it, and asserts that it saw nothing but successes.
    pub(crate) fn saw_no_failure(self) {
        let tally = self.end();
        assert!(
            tally.failures.is_empty(),
            "{} of {}: {:#?}",
            tally.failures.len(),
            tally.successes,
            tally.failures
        );
        assert!(tally.successes >= 5, "it saw too little: {}", tally.successes);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Tally {
    fn add(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => self.successes += 1,
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// The `caBundle` of each entry that has one.
async fn bundles(client: &Client, name: &str) -> Vec<Vec<u8>> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = mutating.get(name).await.unwrap().webhooks.unwrap_or_default();
    let validating = validating.get(name).await.unwrap().webhooks.unwrap_or_default();
    let mutating = mutating.into_iter().map(|webhook| webhook.client_config);
    let configs = mutating.chain(validating.into_iter().map(|webhook| webhook.client_config));
    configs.filter_map(|config| Some(config.ca_bundle?.0)).collect()
}

/// Connects as a caller that trusts this bundle; the certificate that was shown.
pub(crate) fn handshake(replica: SocketAddr, bundle: &[u8]) -> Result<CertificateDer<'static>, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(replica).map_err(|error| error.to_string())?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)
            .map_err(|error| format!("{replica}: {error}"))?;
    }
    Ok(tls.peer_certificates().unwrap()[0].clone().into_owned())
}
