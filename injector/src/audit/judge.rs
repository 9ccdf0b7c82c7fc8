//! What is said of a pod and of a namespace.

use std::fmt::{Display, Write as _};

use serde::Serialize;

use super::State;
use super::upstreams::Outdated;
use crate::decision::{Decision, SkipReason, Subject, decide};
use crate::error::InternalError;
use crate::inject::{Injector, Verdict};
use crate::names;
use crate::namespace::NamespaceInfo;
use crate::pod::PodView;
use crate::requirements::{Action, Violation};
use crate::service::View;
use crate::status::Status;
use crate::validate::Change;

/// What is said of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Judgement {
    /// What it is.
    pub state: State,
    /// The stable word of why it gets no proxy; for `skipped` and `leftover`.
    pub reason: Option<SkipReason>,
    /// Why, as a sentence.
    pub why: String,
    /// Its proxy, if it has one.
    pub proxy: Option<Proxy>,
    /// Where it carries the proxy: what it would find now and did not, and what it found that is gone; null where that is
    /// nothing, and where the Services are not known.
    pub upstreams: Option<Outdated>,
    /// The rules that it breaks.
    pub violations: Vec<Broken>,
}

/// A proxy, as the pod's status annotation records it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Proxy {
    /// The template.
    pub template: String,
    /// The version of Outrigger that added it.
    pub version: String,
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Broken {
    /// The stable word.
    pub rule: &'static str,
    /// The label, or the part of the pod.
    pub key: String,
    /// The sentence.
    pub message: String,
    /// What would be done about it.
    pub action: Action,
}

impl Judgement {
    /// Judges a pod, given as JSON, as if it were created now.
    pub(super) fn of(
        injector: &Injector,
        namespace: &str,
        info: &NamespaceInfo,
        services: View<'_>,
        raw: &str,
    ) -> Result<Self, InternalError> {
        let pod = match PodView::from_json(raw) {
            Ok(pod) => pod,
            Err(error) => return Ok(Self::invalid(vec![Broken::denied("bad-pod", "pod", &error)])),
        };
        let subject = Subject {
            is_pod_create: true,
            namespace,
            info,
            pod: &pod,
            services,
        };
        let status = pod.annotations().get(names::STATUS).and_then(Status::parse);
        let proxy = status.filter(|status| status.holds(&pod)).map(Proxy::from);
        let action = injector.requirements().action(namespace);
        let broken = injector.validate(subject, &Change::Create).into_iter();
        let mut violations: Vec<Broken> = broken.map(|violation| Broken::of(violation, action)).collect();
        let Ok(Decision { skip, .. }) = decide(subject, injector.policy()) else {
            return Ok(Self {
                proxy,
                ..Self::invalid(violations)
            });
        };
        let (state, mut why) = stands(skip, proxy.is_some());
        if state == State::Missing {
            violations.extend(denial(injector, subject)?);
        }
        let upstreams = match state {
            State::Injected => Outdated::of(injector, subject, raw)?,
            _ => None,
        };
        if let Some(outdated) = &upstreams {
            let _ = write!(why, ", whose upstreams are out of date: it {outdated}; create it anew");
        }
        Ok(Self {
            state,
            reason: skip.filter(|reason| *reason != SkipReason::AlreadyInjected),
            why,
            proxy,
            upstreams,
            violations,
        })
    }

    /// The gravest of what would be done.
    #[must_use]
    pub fn gravest(&self) -> Option<Action> {
        // Actions stand in this order.
        self.violations.iter().map(|broken| broken.action).min()
    }

    fn invalid(violations: Vec<Broken>) -> Self {
        Self {
            state: State::Invalid,
            reason: None,
            why: "created anew it would be refused".to_owned(),
            proxy: None,
            upstreams: None,
            violations,
        }
    }
}

/// What a pod is, and why.
fn stands(skip: Option<SkipReason>, has_proxy: bool) -> (State, String) {
    match skip {
        Some(SkipReason::AlreadyInjected) => (State::Injected, "it has the proxy".to_owned()),
        Some(reason) if has_proxy => {
            let why = format!("it has the proxy, though {}", reason.sentence());
            (State::Leftover, why)
        }
        Some(reason) => (State::Skipped, reason.sentence()),
        None => {
            let why = "it should have the proxy and does not; create it anew".to_owned();
            (State::Missing, why)
        }
    }
}

/// Why a pod without the proxy would be refused when it is created anew.
fn denial(injector: &Injector, subject: Subject<'_, '_>) -> Result<Option<Broken>, InternalError> {
    Ok(match injector.inject(subject)?.verdict {
        Verdict::Deny(denial) => Some(Broken::denied(denial.id(), "pod", &denial)),
        Verdict::Inject(_) | Verdict::Skip(_) => None,
    })
}

/// Whether pods of a namespace that say nothing get the proxy, and why.
pub(super) fn namespace(injector: &Injector, name: &str, info: &NamespaceInfo) -> (bool, String) {
    let subject = Subject {
        is_pod_create: true,
        namespace: name,
        info,
        pod: &PodView::default(),
        services: View::Off,
    };
    match decide(subject, injector.policy()) {
        Ok(decision) => decision
            .skip
            .map_or((true, "its pods get the proxy".to_owned()), |reason| {
                (false, reason.sentence())
            }),
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            (false, errors.join("; "))
        }
    }
}

impl Broken {
    fn denied(rule: &'static str, key: &str, message: &impl Display) -> Self {
        Self {
            rule,
            key: key.to_owned(),
            message: message.to_string(),
            action: Action::Deny,
        }
    }

    fn of(violation: Violation, action: Action) -> Self {
        let action = violation.action(action);
        let Violation { rule, key, message } = violation;
        Self {
            rule,
            key,
            message,
            action,
        }
    }
}

impl From<Status> for Proxy {
    fn from(status: Status) -> Self {
        Self {
            template: status.template,
            version: status.version,
        }
    }
}
