//! The keeper: follows the Secret on every replica, and on the leader does what the plan says.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::{Api, Client, Resource};
use tokio::time::{Instant, sleep_until};

use super::configuration::{self, Kind};
use super::election::Elected;
use super::follow::Follower;
use super::make::apply;
use super::metrics::{ApiObject, CertificateMetrics, Made};
use super::plan::{Change, Settings, Step, plan};
use super::publish::Publication;
use super::secret::{self, Kept, Written};
use super::sight::Sight;
use super::{Moment, State, Unsound};
use crate::config::Managed;
use crate::error::error_chain;
use crate::metrics::Metrics;
use crate::tls::Certificates;

/// The longest time between two looks at the clock, which may be set.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps the certificates of `managed` until the runtime ends: every replica serves what the Secret
/// holds through `certificates`, and the one that is elected renews.
pub async fn keep(
    client: Client,
    managed: Managed,
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    elected: Elected,
) {
    Keeper::new(client, managed, certificates, metrics, elected).run().await;
}

struct Keeper {
    client: Client,
    managed: Managed,
    settings: Settings,
    elected: Elected,
    follower: Follower,
    metrics: CertificateMetrics,
    secret: Kept,
    sight: Sight<State>,
    publications: [Publication; 2],
}

impl Keeper {
    fn new(
        client: Client,
        managed: Managed,
        certificates: Arc<Certificates>,
        metrics: Arc<Metrics>,
        elected: Elected,
    ) -> Self {
        let counts = metrics.certificates.clone();
        let publication = |kind| {
            let name = managed.webhook_configuration.clone();
            Publication::new(kind, client.clone(), name, counts.clone())
        };
        let secrets = Api::namespaced(client.clone(), &managed.election.namespace);
        Self {
            secret: Kept::new(secrets, managed.secret.clone(), "certificates cannot be renewed"),
            settings: Settings {
                names: managed.names.clone(),
                lifetimes: managed.lifetimes,
            },
            elected,
            follower: Follower::new(managed.secret.clone(), certificates, metrics),
            publications: Kind::ALL.map(publication),
            metrics: counts,
            client,
            managed,
            sight: Sight::default(),
        }
    }

    async fn run(mut self) {
        let mut leading = self.elected.leading.clone();
        let (mut secrets, mut configurations) = self.watch();
        loop {
            if self.sight.lead(self.elected.term(), Moment::now()) {
                (secrets, configurations) = self.watch();
            }
            self.follower.offer_again(self.sight.state(), Moment::now());
            let wake = self.act().await.min(self.next_offer());
            tokio::select! {
                Some(event) = secrets.next() => self.see_secret(event),
                Some((kind, event)) = configurations.next() => self.publication(kind).see(event),
                _ = leading.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Watches everything anew. What was seen of the configurations before counts no longer.
    fn watch(
        &mut self,
    ) -> (
        BoxStream<'static, secret::Event>,
        BoxStream<'static, configuration::Event>,
    ) {
        self.publications.iter_mut().for_each(Publication::forget);
        (
            self.secret.watch(),
            configuration::watch(&self.client, &self.managed.webhook_configuration),
        )
    }

    fn publication(&mut self, kind: Kind) -> &mut Publication {
        let mut publications = self.publications.iter_mut();
        let publication = publications.find(|publication| publication.kind() == kind);
        publication.expect("there is one of each kind")
    }

    fn see_secret(&mut self, event: secret::Event) {
        match event {
            Ok(Some(secret)) => {
                self.sight.see(State::decode(&secret::entries(&secret)));
                self.elected.owner.send_replace(secret.owner_ref(&()));
                self.secret.see(Some(secret));
                self.follower.offer(self.sight.state(), Moment::now());
            }
            Ok(None) => {
                self.elected.owner.send_replace(None);
                self.secret.see(None);
                self.sight.see(Err(Unsound::Empty));
                self.follower.lost();
            }
            Err(error) => {
                self.metrics.failed(ApiObject::Secret);
                self.secret.tell_of_the_watch(&error);
            }
        }
    }

    /// When to offer again what the follower refused for the time.
    fn next_offer(&self) -> Instant {
        let wait = self.follower.again_at().map(|again_at| Moment::now().until(again_at));
        Instant::now() + wait.unwrap_or(IDLE).min(IDLE)
    }

    /// Does what is to be done now; when to come again at the latest.
    async fn act(&mut self) -> Instant {
        let idle = Instant::now() + IDLE;
        if !self.leads() {
            return idle;
        }
        let advance = self.advance().await;
        let publish = self.publish().await;
        [advance, publish].into_iter().flatten().fold(idle, Instant::min)
    }

    /// Whether it still is the term in which the Secret was seen.
    fn leads(&self) -> bool {
        self.sight.leads(self.elected.term())
    }

    async fn advance(&mut self) -> Option<Instant> {
        if let Some(until) = self.secret.pause()? {
            return Some(until);
        }
        let now = Moment::now();
        match self.plan(now)? {
            Step::Wait(moment) => Some(Instant::now() + now.until(moment).min(IDLE)),
            Step::Change(change) => {
                let written = self.write(change, now).await;
                self.secret.done(written)
            }
        }
    }

    fn plan(&self, now: Moment) -> Option<Step> {
        let view = self.sight.view(self.in_force(), self.secret.asked())?;
        Some(plan(&view, now, &self.settings))
    }

    fn in_force(&self) -> Option<bool> {
        let bundle = self.sight.state().as_ref().ok()?.bundle();
        let each = self
            .publications
            .iter()
            .map(|publication| publication.in_force(&bundle));
        each.reduce(|all, one| Some(all? && one?)).flatten()
    }

    async fn write(&mut self, change: Change, now: Moment) -> Written {
        let (state, memory) = (self.sight.state().as_ref(), self.sight.memory());
        let written = match apply(change, state, memory, now, &self.settings) {
            Ok(state) => {
                let written = self.secret.write(state.encode(), change.answers()).await;
                if written == Written::Yes {
                    self.changed(change, &state);
                }
                written
            }
            Err(error) => {
                self.secret.tell(error_chain(&error), "");
                Written::Failed
            }
        };
        if written == Written::Failed {
            self.metrics.failed(ApiObject::Secret);
        }
        written
    }

    fn changed(&self, change: Change, state: &State) {
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
            secret = self.secret.name(),
            "{}",
            change.sentence()
        );
    }

    async fn publish(&mut self) -> Option<Instant> {
        let bundle = self.sight.bundle()?;
        let mut soonest: Option<Instant> = None;
        for index in 0..self.publications.len() {
            // The one before may have taken its time.
            if !self.leads() {
                return None;
            }
            let until = self.publications[index].publish(&bundle).await;
            soonest = soonest.into_iter().chain(until).min();
        }
        soonest
    }
}
