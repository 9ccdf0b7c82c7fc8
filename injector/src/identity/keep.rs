//! On the leader: the authorities of the mesh are kept as the plan says, and published.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::bundle::{self, Bundle};
use super::held::Held;
use super::issuer::Authority;
use super::metrics::{ApiObject, IdentityMetrics};
use super::plan::{ApplyError, Change, Settings, Step, View, apply, plan};
use super::state::State;
use super::trust::Trust;
use crate::certificates::election::Elected;
use crate::certificates::plan::Request;
use crate::certificates::secret::{self, Kept, Written};
use crate::certificates::sight::Sight;
use crate::certificates::{Moment, Unsound};
use crate::config::{KeptBy, Signer};
use crate::error::error_chain;

/// The longest time between two looks at the clock, which may be set.
const IDLE: Duration = Duration::from_secs(60);

/// What leaves are signed with at this moment.
#[derive(Debug)]
pub(super) struct Issuing {
    pub(super) authority: Authority,
    /// How long a leaf may be valid.
    pub(super) lifetime: Duration,
}

/// Keeps the authorities, and hands on what signs.
pub(super) struct Keeper {
    signer: Signer,
    settings: Settings,
    elected: Elected,
    metrics: IdentityMetrics,
    secret: Kept,
    sight: Sight<Held>,
    bundle: Bundle,
    issuing: watch::Sender<Option<Arc<Issuing>>>,
    /// What was given, counted by who signs.
    trust: Arc<Mutex<Trust>>,
    /// Whether the counts of the leader before were taken over in this term.
    counting: bool,
}

impl Keeper {
    pub(super) fn new(
        client: &Client,
        signer: Signer,
        metrics: IdentityMetrics,
        elected: Elected,
        issuing: watch::Sender<Option<Arc<Issuing>>>,
        trust: Arc<Mutex<Trust>>,
    ) -> Self {
        let secrets = Api::namespaced(client.clone(), &signer.election.namespace);
        Self {
            secret: Kept::new(
                secrets,
                signer.secret.clone(),
                "the authority of the mesh cannot be kept",
            ),
            settings: Settings {
                leaf: signer.lifetimes.leaf,
                authority: signer.lifetimes.authority,
                overlap: signer.lifetimes.overlap,
                key_type: signer.key_type,
            },
            bundle: Bundle::new(client, signer.cluster_role.clone(), metrics.clone()),
            signer,
            elected,
            metrics,
            sight: Sight::default(),
            issuing,
            trust,
            counting: false,
        }
    }

    /// Never ends.
    pub(super) async fn run(mut self) {
        let mut leading = self.elected.leading.clone();
        let (mut secrets, mut bundles) = self.watch();
        loop {
            if self.sight.lead(self.elected.term(), Moment::now()) {
                (secrets, bundles) = self.watch();
                self.counting = false;
            }
            let wake = self.act().await;
            self.take_over();
            self.offer();
            let wake = self.note().await.into_iter().fold(wake, Instant::min);
            tokio::select! {
                Some(event) = secrets.next() => self.see_secret(event),
                Some(event) = bundles.next() => self.bundle.see(event),
                _ = leading.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    fn watch(&mut self) -> (BoxStream<'static, secret::Event>, BoxStream<'static, bundle::Event>) {
        (self.secret.watch(), self.bundle.watch())
    }

    fn see_secret(&mut self, event: secret::Event) {
        match event {
            Ok(Some(secret)) => {
                self.see_held(Held::decode(&secret, self.signer.kept_by));
                if self.signer.kept_by == KeptBy::Server {
                    self.elected.owner.send_replace(secret.owner_ref(&()));
                }
                self.secret.see(Some(secret));
            }
            Ok(None) => {
                self.secret.see(None);
                self.sight.see(Err(Unsound::Empty));
                tracing::error!(
                    secret = self.secret.name(),
                    remedy =
                        "it belongs to the Helm release: restore it with helm upgrade, and the leader fills it again",
                    "the Secret with the authority of the mesh does not exist"
                );
            }
            Err(error) => {
                self.metrics.failed(ApiObject::Secret);
                self.secret.tell_of_the_watch(&error);
            }
        }
    }

    fn see_held(&mut self, held: Result<Held, Unsound>) {
        match &held {
            Ok(held) => {
                let end = held.signer().not_after.second();
                self.metrics.authority_not_after.set(end);
            }
            Err(Unsound::Empty) => {}
            Err(unsound) => self.fail(
                error_chain(unsound),
                "what it held before is used on; put it right, or empty it where the server keeps it",
            ),
        }
        self.sight.see(held);
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
        let (now, view) = (Moment::now(), self.view()?);
        match plan(&view, now, &self.settings) {
            Step::Wait(moment) => Some(Instant::now() + now.until(moment).min(IDLE)),
            Step::Change(change) => {
                let state = apply(change, &view, now, &self.settings);
                let written = self.write(change, state).await;
                self.secret.done(written)
            }
        }
    }

    /// `None` where there is nothing to plan: somebody else keeps it.
    fn view(&self) -> Option<View<'_>> {
        let secret = match self.sight.state() {
            _ if self.signer.kept_by == KeptBy::Others => return None,
            Ok(held) => Ok(held.kept()?),
            Err(unsound) => Err(unsound),
        };
        let asked = self.secret.asked();
        Some(View {
            secret,
            memory: self.sight.memory().and_then(Held::kept),
            in_force: secret.ok().and_then(|state| self.bundle.in_force(&state.bundle())),
            asked: asked.map(str::parse) == Some(Ok(Request::Authority)),
            led_since: self.sight.led_since()?,
        })
    }

    async fn write(&mut self, change: Change, state: Result<State, ApplyError>) -> Written {
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                self.fail(error_chain(&error), "");
                return Written::Failed;
            }
        };
        let written = self.secret.write(state.encode(), change.answers()).await;
        match written {
            Written::Yes => self.changed(change, &state),
            Written::Failed => self.metrics.failed(ApiObject::Secret),
            Written::Conflict => {}
        }
        written
    }

    fn fail(&mut self, error: String, remedy: &'static str) {
        self.metrics.failed(ApiObject::Secret);
        self.secret.tell(error, remedy);
    }

    fn changed(&self, change: Change, state: &State) {
        if matches!(change, Change::Found | Change::Begin(_)) {
            self.metrics.authorities.inc();
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
        let bundle = self.sight.bundle().filter(|_| self.leads())?;
        self.bundle.publish(&bundle).await
    }

    /// Lets leaves be signed, as long as this replica leads and everybody is told to trust them. While the Secret is
    /// unsound, what is remembered signs.
    fn offer(&mut self) {
        let held = self.sight.state().as_ref().ok().or(self.sight.memory());
        let held = held.filter(|held| self.leads() && self.bundle.holds(&held.published()));
        let Some(held) = held else {
            self.issuing.send_replace(None);
            return;
        };
        let lifetime = self.settings.leaf.min(held.longest_leaf());
        let same =
            |issuing: &Arc<Issuing>| issuing.lifetime == lifetime && issuing.authority.certificate() == held.signer();
        if self.issuing.borrow().as_ref().is_some_and(same) {
            return;
        }
        match held.authority() {
            Ok(authority) => {
                let issuing = Issuing { authority, lifetime };
                self.issuing.send_replace(Some(Arc::new(issuing)));
            }
            Err(error) => self.fail(error_chain(&error), "give the Secret a key of another kind"),
        }
    }

    /// Whoever begins to lead goes on from what the one before has counted; before that is known, nothing is signed.
    fn take_over(&mut self) {
        if let Some(seen) = self.bundle.trust().filter(|_| self.leads() && !self.counting) {
            *self.counts() = serde_json::from_str(seen).unwrap_or_default();
            self.counting = true;
        }
    }

    fn counts(&self) -> MutexGuard<'_, Trust> {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what the authorities do; when to come again, as certificates may have been given meanwhile.
    async fn note(&mut self) -> Option<Instant> {
        let held = self.sight.state().as_ref().ok();
        let roles = held.filter(|_| self.leads() && self.counting).map(Held::roles)?;
        let said = {
            let mut counts = self.counts();
            counts.update(roles.into_iter(), Moment::now());
            serde_json::to_string(&*counts).expect("maps with keys of text and numbers are JSON")
        };
        Some(self.bundle.note(&said).await)
    }
}
