//! Who leads: by a Lease, after the rules of client-go's leader election.
//!
//! A candidate never compares clocks with the holder: it takes the Lease over when it has not seen
//! it change for as long as the Lease says, by its own clock. Each write is guarded by the resource
//! version. A leader that cannot renew stops acting before others may take over.
//! (<https://pkg.go.dev/k8s.io/client-go/tools/leaderelection>)
//!
//! A Lease that is missing is made: by the leader at once, by others after as long as one that is
//! held is left alone, since a leader may not have noticed yet. That leaves time to whoever installs
//! it together with the pods, too. It belongs to the Secret, so that it goes when that goes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::api::{CallError, call, patch_params, post_params};
use super::metrics::{ApiObject, CertificateMetrics};
use crate::error::error_chain;

/// How long others leave a Lease alone that is not renewed; client-go's default.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader acts after its last renewal; client-go's default.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the leader renews; client-go's default.
const RENEW_PERIOD: Duration = Duration::from_secs(2);
/// How often a candidate looks: a Lease that was released is taken soon.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// A time of leadership; `None` while another replica leads.
pub(crate) type Leading = Option<Term>;
/// What a Lease that is made belongs to; `None` while that does not exist.
pub(crate) type Owner = Option<OwnerReference>;

/// A time of leadership without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// Another one each time that leadership begins.
    pub(super) number: u64,
    /// Until when this replica leads if it cannot renew the Lease.
    pub(super) until: Instant,
}

/// A candidate, perhaps the leader.
pub(super) struct Elector {
    api: Api<Lease>,
    name: String,
    holder: String,
    owner: watch::Receiver<Owner>,
    metrics: CertificateMetrics,
    /// The Lease as it was seen last.
    seen: Option<Seen>,
    /// Since when no look has found it, by this process's clock; `None` when the last one did.
    missing_since: Option<Instant>,
    /// How many times leadership has begun.
    terms: u64,
    /// The failure that the log knows of.
    told: Option<String>,
}

struct Seen {
    spec: LeaseSpec,
    resource_version: Option<String>,
    /// Since when it has been like this, by this process's clock.
    since: Instant,
}

/// What a Lease says to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is held by the candidate itself.
    Mine,
    /// Nobody holds it, or it was not renewed in time.
    Free,
    /// Somebody else holds it.
    Taken,
}

impl Elector {
    pub(super) fn new(
        api: Api<Lease>,
        name: String,
        holder: String,
        owner: watch::Receiver<Owner>,
        metrics: CertificateMetrics,
    ) -> Self {
        Self {
            api,
            name,
            holder,
            owner,
            metrics,
            seen: None,
            missing_since: None,
            terms: 0,
            told: None,
        }
    }

    /// Takes part in the election until the server stops, then gives the Lease back; never ends.
    pub(super) async fn run(mut self, leading: watch::Sender<Leading>, mut stopping: watch::Receiver<bool>) {
        let stopped = stopping.wait_for(|stopping| *stopping);
        tokio::select! {
            () = self.campaign(&leading) => {}
            _ = stopped => {}
        }
        let led = leading.send_replace(None).is_some();
        self.metrics.leader.set(0);
        if led {
            self.release().await;
        }
        std::future::pending::<()>().await;
    }

    async fn campaign(&mut self, leading: &watch::Sender<Leading>) {
        loop {
            let started = Instant::now();
            let turn = self.turn().await;
            let before = *leading.borrow();
            let now = self.judge_turn(turn, started, before);
            if before.is_some() != now.is_some() {
                tracing::info!(
                    lease = self.name,
                    holder = self.holder,
                    leads = now.is_some(),
                    "leadership has changed"
                );
            }
            self.metrics.leader.set(now.is_some().into());
            leading.send_replace(now);
            sleep(if now.is_some() { RENEW_PERIOD } else { LOOK_PERIOD }).await;
        }
    }

    /// Leadership after a turn. One that failed ends it only when the last success is too long ago.
    fn judge_turn(&mut self, turn: Result<bool, CallError>, started: Instant, before: Leading) -> Leading {
        match turn {
            Ok(leads) => {
                self.told = None;
                leads.then(|| self.term(started, before))
            }
            Err(error) => {
                self.tell(&error);
                before.filter(|term| Instant::now() + RENEW_PERIOD < term.until)
            }
        }
    }

    /// The present term, renewed; another one when it has run out, or there is none.
    fn term(&mut self, started: Instant, before: Leading) -> Term {
        let goes_on = before.filter(|term| Instant::now() < term.until);
        self.terms += u64::from(goes_on.is_none());
        Term {
            number: self.terms,
            until: started + RENEW_DEADLINE,
        }
    }

    fn tell(&mut self, error: &CallError) {
        self.metrics.failed(ApiObject::Lease);
        let (remedy, error) = (error.remedy(), error_chain(error));
        if self.told.as_ref() != Some(&error) {
            tracing::warn!(
                lease = self.name,
                error,
                remedy,
                "the Lease cannot be used; without a leader no certificate is renewed"
            );
            self.told = Some(error);
        }
    }

    /// Takes or renews the Lease if possible; whether this replica leads now.
    async fn turn(&mut self) -> Result<bool, CallError> {
        match self.attempt().await {
            // Somebody was faster, or has edited something else in it.
            Err(error) if error.is_conflict() => {}
            attempted => return attempted,
        }
        match self.attempt().await {
            Err(error) if error.is_conflict() => Ok(false),
            attempted => attempted,
        }
    }

    /// A leader writes at once, as it knows the Lease; others look first.
    async fn attempt(&mut self) -> Result<bool, CallError> {
        let mine = self.seen.as_ref().is_some_and(|seen| self.judge(seen) == Verdict::Mine);
        if !mine {
            match call(self.api.get_opt(&self.name)).await? {
                Some(lease) => self.see(lease),
                None => return self.miss().await,
            }
        }
        match self.renew().await {
            Err(error) if mine && error.is_missing() => self.create().await,
            attempted => attempted,
        }
    }

    async fn renew(&mut self) -> Result<bool, CallError> {
        let seen = self.seen.as_ref().expect("seen just now or before");
        if self.judge(seen) == Verdict::Taken {
            return Ok(false);
        }
        let claim = claim(&seen.spec, &self.holder, Timestamp::now());
        let patch = patch(seen.resource_version.as_deref(), claim);
        let written = call(self.api.patch(&self.name, &patch_params(), &Patch::Merge(&patch))).await;
        if written.is_err() {
            // It may have been written all the same.
            self.seen = None;
        }
        self.see(written?);
        Ok(true)
    }

    /// A Lease that is not there says nothing about who led by it.
    async fn miss(&mut self) -> Result<bool, CallError> {
        self.seen = None;
        let since = *self.missing_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LEASE_DURATION {
            return Ok(false);
        }
        self.create().await
    }

    /// Makes the Lease, held by this replica. Somebody who was faster is a conflict.
    async fn create(&mut self) -> Result<bool, CallError> {
        let Some(owner) = self.owner.borrow().clone() else {
            return Ok(false);
        };
        let lease = lease(
            &self.name,
            owner,
            claim(&LeaseSpec::default(), &self.holder, Timestamp::now()),
        );
        let made = call(self.api.create(&post_params(), &lease)).await?;
        tracing::info!(lease = self.name, "made the Lease, which was missing");
        self.see(made);
        Ok(true)
    }

    fn see(&mut self, lease: Lease) {
        let resource_version = lease.resource_version();
        let spec = lease.spec.unwrap_or_default();
        let before = self.seen.take().filter(|seen| seen.spec == spec);
        self.missing_since = None;
        self.seen = Some(Seen {
            spec,
            resource_version,
            since: before.map_or_else(Instant::now, |seen| seen.since),
        });
    }

    fn judge(&self, seen: &Seen) -> Verdict {
        judge(&seen.spec, &self.holder, seen.since.elapsed())
    }

    /// Lets another one lead at once. Whatever goes wrong, the Lease runs out.
    async fn release(&mut self) {
        let mut released = self.give_back().await;
        // A renewal that was under way may have come in between.
        if released.as_ref().is_err_and(CallError::is_conflict) {
            released = self.give_back().await;
        }
        match released {
            Ok(()) => tracing::info!(lease = self.name, "gave the Lease back"),
            Err(error) => {
                tracing::info!(
                    lease = self.name,
                    error = error_chain(&error),
                    "could not give the Lease back"
                );
            }
        }
    }

    async fn give_back(&mut self) -> Result<(), CallError> {
        let lease = call(self.api.get(&self.name)).await?;
        let resource_version = lease.resource_version();
        let spec = lease.spec.unwrap_or_default();
        if judge(&spec, &self.holder, Duration::ZERO) == Verdict::Mine {
            let patch = patch(resource_version.as_deref(), released(&spec, Timestamp::now()));
            call(self.api.patch(&self.name, &patch_params(), &Patch::Merge(&patch))).await?;
        }
        Ok(())
    }
}

/// What a Lease says that has been like this for so long.
fn judge(spec: &LeaseSpec, holder: &str, unchanged: Duration) -> Verdict {
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
    match spec.holder_identity.as_deref().unwrap_or_default() {
        found if found == holder => Verdict::Mine,
        "" => Verdict::Free,
        _ if unchanged >= Duration::from_secs(seconds) => Verdict::Free,
        _ => Verdict::Taken,
    }
}

/// A Lease that is held by `holder` from now on, or still.
fn claim(spec: &LeaseSpec, holder: &str, now: Timestamp) -> LeaseSpec {
    let mine = spec.holder_identity.as_deref() == Some(holder);
    let transitions = spec.lease_transitions.unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
        acquire_time: spec.acquire_time.clone().filter(|_| mine).or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if mine {
            transitions
        } else {
            transitions.saturating_add(1)
        }),
        ..LeaseSpec::default()
    }
}

/// A Lease that nobody holds.
fn released(spec: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        lease_transitions: spec.lease_transitions,
        ..LeaseSpec::default()
    }
}

/// A Lease that is gone with its owner.
fn lease(name: &str, owner: OwnerReference, spec: LeaseSpec) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
    }
}

/// Only the Lease of this version becomes this one. What is `None` is removed.
fn patch(resource_version: Option<&str>, spec: LeaseSpec) -> Value {
    let LeaseSpec {
        acquire_time,
        holder_identity,
        lease_duration_seconds,
        lease_transitions,
        renew_time,
        preferred_holder: _,
        strategy: _,
    } = spec;
    json!({
        "metadata": {"resourceVersion": resource_version},
        "spec": {
            "acquireTime": acquire_time,
            "holderIdentity": holder_identity,
            "leaseDurationSeconds": lease_duration_seconds,
            "leaseTransitions": lease_transitions,
            "renewTime": renew_time,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::api::CALL_TIMEOUT;
    use super::*;

    fn held_by(holder: &str, seconds: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_over_when_it_has_not_changed_for_its_duration() {
        let second = Duration::from_secs(1);
        for (spec, unchanged, verdict) in [
            (LeaseSpec::default(), 0, Verdict::Free),
            (held_by("", 15), 0, Verdict::Free),
            (held_by("a", 15), 0, Verdict::Mine),
            (held_by("a", 15), 60, Verdict::Mine),
            (held_by("b", 15), 0, Verdict::Taken),
            (held_by("b", 15), 14, Verdict::Taken),
            (held_by("b", 15), 15, Verdict::Free),
            (held_by("b", 60), 15, Verdict::Taken),
            (held_by("b", -1), 0, Verdict::Free),
        ] {
            assert_eq!(judge(&spec, "a", second * unchanged), verdict, "{spec:?} {unchanged}");
        }
    }

    #[test]
    fn leaders_stop_before_others_start() {
        const { assert!(RENEW_DEADLINE.as_secs() + CALL_TIMEOUT.as_secs() < LEASE_DURATION.as_secs()) };
        const { assert!(RENEW_PERIOD.as_secs() + CALL_TIMEOUT.as_secs() < RENEW_DEADLINE.as_secs()) };
    }

    #[test]
    fn renewals_keep_what_takeovers_count() {
        let (then, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let first = claim(&LeaseSpec::default(), "a", then);
        assert_eq!(first.lease_transitions, Some(1));
        let renewed = claim(&first, "a", now);
        assert_eq!(
            (renewed.lease_transitions, &renewed.acquire_time),
            (Some(1), &first.acquire_time)
        );
        assert_eq!(renewed.renew_time, Some(MicroTime(now)));
        let taken = claim(&renewed, "b", now);
        assert_eq!(
            (taken.lease_transitions, taken.acquire_time),
            (Some(2), Some(MicroTime(now)))
        );
        let free = released(&renewed, now);
        assert_eq!(judge(&free, "b", Duration::ZERO), Verdict::Free);
        assert_eq!(free.lease_transitions, Some(1));
        let text = patch(Some("7"), free).to_string();
        assert!(
            text.contains(r#""holderIdentity":null"#) && text.contains(r#""resourceVersion":"7""#),
            "{text}"
        );
    }
}
