//! What is known about namespaces: a watch on their metadata, and one GET for what it has not
//! shown yet.
//!
//! A look-up that fails is an error. It never counts as "no labels": that would let a failing
//! API server switch rules off.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::error_chain;
use crate::metrics::Metrics;
use crate::namespace::NamespaceInfo;
use crate::services::Known;
use crate::settings::values::is_dns_label;
use crate::silence;

/// How long one look-up may take, waiting for its turn included.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Look-ups that ask the API server at the same time.
pub const MAX_LOOKUPS: usize = 16;

/// Where the server asks about namespaces.
pub trait Namespaces: Send + Sync + 'static {
    /// Whether all namespaces have been listed once.
    fn ready(&self) -> bool;

    /// Labels and annotations of one namespace.
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<NamespaceInfo, NamespaceError>>;
}

/// Why nothing is known about a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// No namespace can have this name.
    #[error("{name:?} is not the name of a namespace")]
    BadName {
        /// The name asked for.
        name: String,
    },
    /// It does not exist.
    #[error("namespace {name:?} does not exist")]
    NotFound {
        /// The name asked for.
        name: String,
    },
    /// The API server did not answer in time.
    #[error("the API server said nothing about namespace {name:?} within {} s", LOOKUP_TIMEOUT.as_secs())]
    Timeout {
        /// The name asked for.
        name: String,
    },
    /// The API server refused, or could not be reached.
    #[error("cannot get namespace {name:?} from the API server: {source}")]
    Api {
        /// The name asked for.
        name: String,
        /// What went wrong.
        source: Box<kube::Error>,
    },
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig {path} cannot be used: {source}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// Not in a pod, or in one without a service account.
    #[error("not in a cluster: {0}; run in a pod with a service account, or set OUTRIGGER_KUBECONFIG")]
    InCluster(#[from] kube::config::InClusterError),
    /// The client cannot be made from what was read.
    #[error("cannot make a client for the API server: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// A client for the cluster this runs in, or for the one a kubeconfig names.
///
/// # Errors
/// When there is neither, or it cannot be used.
pub async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let config = match kubeconfig {
        None => kube::Config::incluster()?,
        Some(path) => {
            let wrap = |source| ClientError::Kubeconfig {
                path: path.display().to_string(),
                source: Box::new(source),
            };
            let read = Kubeconfig::read_from(path).map_err(wrap)?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(wrap)?
        }
    };
    silence::client(config).map_err(|error| ClientError::Client(Box::new(error)))
}

type Metadata = PartialObjectMeta<Namespace>;

/// The namespaces of a cluster.
pub struct Watched {
    api: Api<Metadata>,
    store: Store<Metadata>,
    synced: AtomicBool,
    turns: Arc<Semaphore>,
    /// Look-ups run here, not on the worker that asked: the client's connections outlive any
    /// single request, and so must what drives them.
    runtime: Handle,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched")
            .field("known", &self.store.len())
            .field("synced", &self.synced)
            .finish()
    }
}

/// Starts to watch namespaces, and tells `services` of those that it sees. Nothing happens until the returned future is polled; it never ends
/// by itself, failures are logged and tried again with growing pauses.
///
/// Must be called within a tokio runtime.
pub fn watch(
    client: Client,
    metrics: Arc<Metrics>,
    services: Arc<Known>,
) -> (Arc<Watched>, impl Future<Output = ()> + Send + 'static) {
    let api: Api<Metadata> = Api::all(client);
    let (store, writer) = reflector::store();
    let watched = Arc::new(Watched {
        api: api.clone(),
        store,
        synced: AtomicBool::new(false),
        turns: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        runtime: Handle::current(),
    });
    let events = watcher(api, silence::watch_config())
        .default_backoff()
        .modify(forget_managed_fields);
    let events = events.reflect(writer).inspect_ok(move |event| tell(event, &services));
    let follow = follow(events, Arc::clone(&watched), metrics);
    (watched, follow)
}

/// They are the largest part of a namespace's metadata, and nobody reads them.
fn forget_managed_fields(namespace: &mut Metadata) {
    namespace.managed_fields_mut().clear();
}

/// Services are found in namespaces that take part, which their labels tell.
fn tell(event: &watcher::Event<Metadata>, services: &Known) {
    match event {
        watcher::Event::Apply(namespace) | watcher::Event::InitApply(namespace) => {
            services.namespace(&namespace.name_any(), Some(&info(namespace)));
        }
        watcher::Event::Delete(namespace) => services.namespace(&namespace.name_any(), None),
        watcher::Event::Init | watcher::Event::InitDone => {}
    }
}

async fn follow(
    events: impl Stream<Item = watcher::Result<watcher::Event<Metadata>>> + Send,
    watched: Arc<Watched>,
    metrics: Arc<Metrics>,
) {
    let mut events = std::pin::pin!(events.into_stream());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitDone) => {
                watched.synced.store(true, Ordering::Release);
                metrics.namespaces_synced.set(1);
                tracing::info!(namespaces = watched.store.len(), "namespaces are synced");
            }
            Ok(_) => {}
            Err(error) => {
                metrics.namespace_watch_errors.inc();
                tracing::warn!(
                    error = error_chain(&error),
                    "the watch on namespaces failed and is tried again"
                );
            }
        }
    }
}

impl Namespaces for Watched {
    fn ready(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<NamespaceInfo, NamespaceError>> {
        Box::pin(async move {
            match self.store.get(&ObjectRef::new(name)) {
                Some(known) => Ok(info(&known)),
                None => self.get(name.to_owned()).await,
            }
        })
    }
}

impl Watched {
    async fn get(&self, name: String) -> Result<NamespaceInfo, NamespaceError> {
        // The name becomes part of a URL, and a direct caller can send anything.
        if !is_dns_label(&name) {
            return Err(NamespaceError::BadName { name });
        }
        let (api, turns, wanted) = (self.api.clone(), Arc::clone(&self.turns), name.clone());
        let get = self.runtime.spawn(timeout(LOOKUP_TIMEOUT, async move {
            let _turn = turns.acquire().await.expect("the semaphore is never closed");
            api.get_opt(&wanted).await
        }));
        match get.await {
            Ok(Ok(Ok(Some(found)))) => Ok(info(&found)),
            Ok(Ok(Ok(None))) => Err(NamespaceError::NotFound { name }),
            Ok(Ok(Err(source))) => Err(NamespaceError::Api {
                name,
                source: Box::new(source),
            }),
            // A task that was cancelled or panicked has said nothing either.
            Ok(Err(_)) | Err(_) => Err(NamespaceError::Timeout { name }),
        }
    }
}

fn info(namespace: &Metadata) -> NamespaceInfo {
    NamespaceInfo {
        labels: namespace.labels().clone(),
        annotations: namespace.annotations().clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::TcpListener;

    use super::*;
    use crate::server::new_metrics;

    /// Namespaces of an API server at this address, before the watch has shown any.
    fn unsynced(scheme: &str, address: &str) -> Arc<Watched> {
        let config = kube::Config::new(format!("{scheme}://{address}").parse().unwrap());
        watch(Client::try_from(config).unwrap(), new_metrics(), Arc::default()).0
    }

    /// An address that takes connections, says nothing, and can tell whether anyone came.
    fn silent() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    #[tokio::test]
    async fn rejects_names_that_would_change_the_url_without_asking() {
        let (listener, address) = silent();
        let namespaces = unsynced("http", &address);
        for name in [
            "",
            ".",
            "..",
            "../nodes",
            "a/b",
            "a?watch=1",
            "a%2fb",
            "A",
            "a\nb",
            &"a".repeat(64),
        ] {
            let error = namespaces.lookup(name).await.unwrap_err();
            assert!(matches!(error, NamespaceError::BadName { .. }), "{name}: {error}");
        }
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn an_unreachable_api_server_is_an_error() {
        let (listener, address) = silent();
        drop(listener);
        for scheme in ["http", "https"] {
            let error = unsynced(scheme, &address).lookup("shop").await.unwrap_err();
            assert!(matches!(error, NamespaceError::Api { .. }), "{scheme}: {error}");
            assert!(error_chain(&error).contains("refused"), "{}", error_chain(&error));
        }
    }

    #[tokio::test]
    async fn a_silent_api_server_is_an_error_in_time() {
        let (listener, address) = silent();
        let namespaces = unsynced("http", &address);
        let started = std::time::Instant::now();
        let lookups = (0..MAX_LOOKUPS * 2).map(|_| namespaces.lookup("shop"));
        let halfway = async {
            tokio::time::sleep(LOOKUP_TIMEOUT / 2).await;
            std::iter::from_fn(|| listener.accept().ok()).collect::<Vec<_>>()
        };
        let (results, callers) = futures::join!(futures::future::join_all(lookups), halfway);
        for error in results.into_iter().map(Result::unwrap_err) {
            assert!(matches!(error, NamespaceError::Timeout { .. }), "{error}");
        }
        assert!(
            started.elapsed() < LOOKUP_TIMEOUT * 2,
            "those that wait for their turn are in time, too"
        );
        assert!((1..=MAX_LOOKUPS).contains(&callers.len()), "{} at once", callers.len());
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let absent = client(Some(&path)).await.map(drop).unwrap_err().to_string();
        std::fs::write(&path, "contexts: [").unwrap();
        let broken = client(Some(&path)).await.map(drop).unwrap_err().to_string();
        for error in [absent, broken] {
            assert!(
                error.starts_with(&format!("the kubeconfig {} cannot be used: ", path.display())),
                "{error}"
            );
        }
    }
}
