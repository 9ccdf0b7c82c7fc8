//! A steady stream of pod creations through the API server, and what became of each.
//!
//! The stream is an open loop: a creation starts at its time whether or not the ones before it are answered, so a slow
//! answer shows as such and holds nobody up. Three of four are dry runs, which pass all of admission; the fourth is stored.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

/// Time between two creations.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// One creation of so many is stored.
const STORED: usize = 4;

/// The container that every pod of the stream must carry.
const PROXY: &str = "proxy-sidecar";

/// What became of the creations. Only what Outrigger answers for counts as failed: an API server that is itself away is
/// counted apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Creations that were answered, whatever the answer.
    pub(crate) creations: usize,
    /// Refused because a webhook failed or refused: when, from the start of the stream, and why.
    pub(crate) failed: Vec<(Duration, String)>,
    /// Admitted without the proxy.
    pub(crate) unmeshed: usize,
    /// Not answered, or refused by an API server that starts or ends.
    pub(crate) unavailable: Vec<(Duration, String)>,
    /// The longest time that an admitted creation took.
    pub(crate) slowest: Duration,
}

/// A stream that runs until it is stopped.
pub(crate) struct Steady {
    pods: Api<Pod>,
    started: Instant,
    tally: Arc<Mutex<Tally>>,
    stream: JoinHandle<()>,
    stop: tokio::sync::watch::Sender<bool>,
}

enum Outcome {
    Meshed,
    Unmeshed,
    Failed(String),
    Unavailable(String),
}

impl Steady {
    /// Starts to create pods in a namespace that is labelled for injection. Must be called within a tokio runtime.
    pub(crate) fn start(client: kube::Client, namespace: &str) -> Self {
        let pods = Api::namespaced(client, namespace);
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (tally, started) = (Arc::default(), Instant::now());
        let stream = tokio::spawn(create(pods.clone(), Arc::clone(&tally), started, stopped));
        Self {
            pods,
            started,
            tally,
            stream,
            stop,
        }
    }

    /// How long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// What is known at this moment.
    pub(crate) fn so_far(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the answers that are still due, removes what was stored, and tells what became of all.
    pub(crate) async fn stop(self) -> Tally {
        self.stop.send_replace(true);
        self.stream.await.expect("the stream does not panic");
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        self.pods
            .delete_collection(&now, &ListParams::default().labels("stream=steady"))
            .await
            .expect("an administrator may delete pods");
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.clone()
    }
}

impl Tally {
    /// Both together.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.creations += other.creations;
        self.failed.extend(other.failed);
        self.unmeshed += other.unmeshed;
        self.unavailable.extend(other.unavailable);
        self.slowest = self.slowest.max(other.slowest);
        self
    }

    fn add(&mut self, at: Duration, took: Duration, outcome: Outcome) {
        match outcome {
            Outcome::Unavailable(reason) => return self.unavailable.push((at, reason)),
            Outcome::Failed(reason) => self.failed.push((at, reason)),
            Outcome::Unmeshed => self.unmeshed += 1,
            Outcome::Meshed => self.slowest = self.slowest.max(took),
        }
        self.creations += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            creations,
            failed,
            unmeshed,
            slowest,
            unavailable: _,
        } = self;
        let failed = failed.len();
        write!(
            f,
            "creations={creations} failed={failed} unmeshed={unmeshed} slowest={slowest:.3?}"
        )
    }
}

async fn create(
    pods: Api<Pod>,
    tally: Arc<Mutex<Tally>>,
    started: Instant,
    stopped: tokio::sync::watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(PERIOD);
    let mut waiting = JoinSet::new();
    let mut number = 0;
    while !*stopped.borrow() {
        ticks.tick().await;
        number += 1;
        let (pods, tally) = (pods.clone(), Arc::clone(&tally));
        waiting.spawn(async move {
            let at = started.elapsed();
            let outcome = create_one(&pods, number).await;
            let took = started.elapsed() - at;
            tally
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(at, took, outcome);
        });
        while waiting.try_join_next().is_some() {}
    }
    while waiting.join_next().await.is_some() {}
}

async fn create_one(pods: &Api<Pod>, number: usize) -> Outcome {
    let parameters = PostParams {
        dry_run: !number.is_multiple_of(STORED),
        ..PostParams::default()
    };
    match pods.create(&parameters, &pod()).await {
        Ok(pod) if has_proxy(&pod) => Outcome::Meshed,
        Ok(_) => Outcome::Unmeshed,
        Err(error) => refused(&error),
    }
}

/// A pod that no scheduler takes: admission is what counts here.
fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"generateName": "steady-", "labels": {"environment": "dev", "stream": "steady"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "app", "image": "app"}]},
    }))
    .expect("it is a pod")
}

fn has_proxy(pod: &Pod) -> bool {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| &spec.containers)
        .any(|container| container.name == PROXY)
}

/// An API server says which webhook failed or refused. What else it says, and whatever the client says of a connection
/// that broke, is about the API server itself.
fn refused(error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(status) if status.message.contains("webhook") => Outcome::Failed(status.message.clone()),
        other => Outcome::Unavailable(other.to_string()),
    }
}
