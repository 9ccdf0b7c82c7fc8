//! The keeper: follows the Secret on every replica, and on the leader does what the plan says.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::configuration::{self, Kind};
use super::follow::Follower;
use super::lease::{Elector, Leading, Owner};
use super::make::apply;
use super::metrics::{ApiObject, CertificateMetrics, Made};
use super::pace::Pace;
use super::plan::{Change, Settings, Step, View, plan};
use super::publish::Publication;
use super::{Moment, State, Unsound, secret};
use crate::config::Managed;
use crate::error::error_chain;
use crate::metrics::Metrics;
use crate::tls::{Certificates, random_word};

/// The longest time between two looks at the clock, which may be set.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps the certificates of `managed` until the runtime ends: every replica serves what the Secret
/// holds through `certificates`, and one of them leads and renews. When `stopping` becomes true,
/// another one may lead.
pub async fn keep(
    client: Client,
    managed: Managed,
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    stopping: watch::Receiver<bool>,
) {
    let holder = managed
        .election
        .holder
        .clone()
        .unwrap_or_else(|| format!("outrigger-{}", random_word()));
    let leases = Api::namespaced(client.clone(), &managed.election.namespace);
    let (own, owner) = watch::channel(None);
    let elector = Elector::new(
        leases,
        managed.election.lease.clone(),
        holder,
        owner,
        metrics.certificates.clone(),
    );
    let (lead, leading) = watch::channel(None);
    let keeper = Keeper::new(client, managed, certificates, metrics, leading, own);
    futures::join!(elector.run(lead, stopping), keeper.run());
}

struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    managed: Managed,
    settings: Settings,
    leading: watch::Receiver<Leading>,
    /// Tells the elector of the Secret.
    owner: watch::Sender<Owner>,
    follower: Follower,
    metrics: CertificateMetrics,
    /// Since when this process has led; `None` while it does not.
    led_since: Option<Moment>,
    /// The Secret as it was seen last; `None` before, and while it does not exist.
    secret: Option<Secret>,
    state: Result<State, Unsound>,
    /// The last sound state.
    memory: Option<State>,
    publications: [Publication; 2],
    pace: Pace,
    /// The failure that the log knows of.
    told: Option<String>,
}

impl Keeper {
    fn new(
        client: Client,
        managed: Managed,
        certificates: Arc<Certificates>,
        metrics: Arc<Metrics>,
        leading: watch::Receiver<Leading>,
        owner: watch::Sender<Owner>,
    ) -> Self {
        let counts = metrics.certificates.clone();
        let publication = |kind| {
            let name = managed.webhook_configuration.clone();
            Publication::new(kind, client.clone(), name, counts.clone())
        };
        Self {
            secrets: Api::namespaced(client.clone(), &managed.election.namespace),
            settings: Settings {
                names: managed.names.clone(),
                lifetimes: managed.lifetimes,
            },
            leading,
            owner,
            follower: Follower::new(managed.secret.clone(), certificates, metrics),
            publications: Kind::ALL.map(publication),
            metrics: counts,
            client,
            managed,
            led_since: None,
            secret: None,
            state: Err(Unsound::Empty),
            memory: None,
            pace: Pace::default(),
            told: None,
        }
    }

    async fn run(mut self) {
        let mut secrets = secret::watch(&self.secrets, &self.managed.secret);
        let mut configurations = configuration::watch(&self.client, &self.managed.webhook_configuration);
        let mut leading = self.leading.clone();
        loop {
            let wake = self.act().await;
            tokio::select! {
                Some(event) = secrets.next() => self.see_secret(event),
                Some((kind, event)) = configurations.next() => {
                    let mut publications = self.publications.iter_mut();
                    let publication = publications.find(|publication| publication.kind() == kind);
                    publication.expect("there is one of each kind").see(event);
                }
                _ = leading.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    fn see_secret(&mut self, event: watcher::Result<Option<Secret>>) {
        match event {
            Ok(Some(secret)) => {
                self.state = secret::decode(&secret);
                self.owner.send_replace(secret.owner_ref(&()));
                self.secret = Some(secret);
                self.follower.offer(&self.state, now());
                if let Ok(state) = &self.state {
                    self.memory = Some(state.clone());
                }
            }
            Ok(None) => {
                self.owner.send_replace(None);
                self.secret = None;
                self.state = Err(Unsound::Empty);
                self.follower.lost();
            }
            Err(error) => {
                self.metrics.failed(ApiObject::Secret);
                tracing::warn!(
                    secret = self.managed.secret,
                    error = error_chain(&error),
                    "the watch on the Secret failed and is tried again"
                );
            }
        }
    }

    /// Does what is to be done now; when to come again at the latest.
    async fn act(&mut self) -> Instant {
        let idle = Instant::now() + IDLE;
        if !leads(&self.leading) {
            self.led_since = None;
            return idle;
        }
        let led_since = *self.led_since.get_or_insert_with(now);
        let advance = self.advance(led_since).await;
        let publish = self.publish().await;
        [advance, publish].into_iter().flatten().fold(idle, Instant::min)
    }

    async fn advance(&mut self, led_since: Moment) -> Option<Instant> {
        let version = self.secret.as_ref()?.resource_version().unwrap_or_default();
        if let Some(until) = self.pace.until(&version).filter(|until| *until > Instant::now()) {
            return Some(until);
        }
        let now = now();
        match self.plan(led_since, now) {
            Step::Wait(moment) => Some(Instant::now() + now.until(moment).min(IDLE)),
            Step::Change(change) => {
                let written = self.write(change, now).await;
                Some(self.pace.done(&version, written))
            }
        }
    }

    fn plan(&self, led_since: Moment, now: Moment) -> Step {
        let view = View {
            secret: self.state.as_ref(),
            memory: self.memory.as_ref(),
            in_force: self.in_force(),
            asked: self.secret.as_ref().and_then(secret::asked),
            led_since,
        };
        plan(&view, now, &self.settings)
    }

    fn in_force(&self) -> Option<bool> {
        let bundle = self.state.as_ref().ok()?.bundle();
        let each = self
            .publications
            .iter()
            .map(|publication| publication.in_force(&bundle));
        each.reduce(|all, one| Some(all? && one?)).flatten()
    }

    /// Whether the change is written.
    async fn write(&mut self, change: Change, now: Moment) -> bool {
        let Some(secret) = &self.secret else {
            return false;
        };
        let made = apply(change, self.state.as_ref(), self.memory.as_ref(), now, &self.settings);
        let state = match made {
            Ok(state) => state,
            Err(error) => {
                self.fail(error_chain(&error), "");
                return false;
            }
        };
        match secret::write(&self.secrets, secret, &state, change.answers()).await {
            Ok(()) => self.changed(change, &state),
            Err(error) if error.is_conflict() => {
                tracing::debug!(secret = self.managed.secret, "the Secret has just changed");
                return false;
            }
            Err(error) => {
                self.fail(error_chain(&error), error.remedy());
                return false;
            }
        }
        true
    }

    fn fail(&mut self, error: String, remedy: &'static str) {
        self.metrics.failed(ApiObject::Secret);
        if self.told.as_ref() != Some(&error) {
            tracing::error!(
                secret = self.managed.secret,
                error,
                remedy,
                "certificates cannot be renewed"
            );
            self.told = Some(error);
        }
    }

    fn changed(&mut self, change: Change, state: &State) {
        self.told = None;
        if matches!(change, Change::Found | Change::Begin(_)) {
            self.metrics.made(Made::Authority);
        }
        if matches!(change, Change::Found | Change::Issue(_) | Change::Switch) {
            self.metrics.made(Made::Certificate);
        }
        let why = change.why().map(tracing::field::display);
        tracing::info!(
            change = change.as_str(),
            why,
            authority = state.signer.certificate.subject,
            next = state.next.as_ref().map(|next| &*next.certificate.subject),
            secret = self.managed.secret,
            "{}",
            change.sentence()
        );
    }

    /// While the Secret is unsound, the bundle that is remembered stays in force.
    async fn publish(&mut self) -> Option<Instant> {
        let bundle = match &self.state {
            Ok(state) if state.counts_on_its_bundle() => return None,
            Ok(state) => state.bundle(),
            Err(_) => self.memory.as_ref()?.bundle(),
        };
        let mut soonest: Option<Instant> = None;
        for publication in &mut self.publications {
            // The one before may have taken its time.
            if !leads(&self.leading) {
                return None;
            }
            let until = publication.publish(&bundle).await;
            soonest = soonest.into_iter().chain(until).min();
        }
        soonest
    }
}

fn leads(leading: &watch::Receiver<Leading>) -> bool {
    leading.borrow().is_some_and(|until| Instant::now() < until)
}

fn now() -> Moment {
    Timestamp::now().into()
}
