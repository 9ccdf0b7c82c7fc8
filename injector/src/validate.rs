//! The validating check: the labels a mesh can rely on, and the proxy itself.

use std::fmt;

use crate::decision::{SkipReason, Subject, decide};
use crate::error::InternalError;
use crate::inject::{Injector, Verdict};
use crate::names;
use crate::pod::PodView;
use crate::requirements::{ProxyRule, Violation};
use crate::settings::SettingError;

/// What happens to the pod.
pub enum Change<'a> {
    /// It is created.
    Create,
    /// It was this before.
    Update(&'a PodView<'a>),
}

impl Injector {
    /// What a pod breaks. Only pods of the mesh are judged; nothing that a pod says of itself exempts it.
    ///
    /// # Errors
    /// A label or annotation that switches injection has a value that means nothing.
    pub fn validate(&self, subject: Subject<'_, '_>, change: &Change<'_>) -> Result<Vec<Violation>, Vec<SettingError>> {
        match change {
            Change::Update(old) if self.is_judged(subject) => Ok(self
                .requirements()
                .violations_of_change(old.labels(), subject.pod.labels())),
            Change::Create if self.is_judged(subject) => {
                let mut violations = self.requirements().violations(subject.pod.labels());
                violations.extend(self.missing_proxy(subject)?);
                Ok(violations)
            }
            Change::Update(_) | Change::Create => Ok(Vec::new()),
        }
    }

    /// What the pods of a template will break once it has been injected: what they are refused for, and
    /// labels that no default will set. `before` is the template before an update, of which only
    /// changed labels are judged.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn validate_template(
        &self,
        subject: Subject<'_, '_>,
        before: Option<&PodView<'_>>,
    ) -> Result<Vec<Violation>, InternalError> {
        if !self.is_judged(subject) {
            return Ok(Vec::new());
        }
        let injection = self.inject(subject)?;
        if let Verdict::Deny(denial) = &injection.verdict {
            let message = denial.to_string();
            return Ok(vec![Violation {
                rule: denial.id(),
                key: "pod".to_owned(),
                message,
            }]);
        }
        let (requirements, labels) = (self.requirements(), subject.pod.labels());
        let mut violations = match before {
            None => requirements.violations(labels),
            Some(before) => requirements.violations_of_change(before.labels(), labels),
        };
        if matches!(injection.verdict, Verdict::Inject(_)) {
            let defaults: Vec<&str> = requirements.defaults(labels).map(|(key, _)| key).collect();
            violations.retain(|violation| !defaults.contains(&violation.key.as_str()));
        }
        Ok(violations)
    }

    /// Whether the pod's namespace is of the mesh, or the pod asks to be.
    #[must_use]
    pub fn is_judged(&self, subject: Subject<'_, '_>) -> bool {
        let as_if_plain = PodView::default();
        let of_namespace = Subject {
            pod: &as_if_plain,
            is_pod_create: true,
            ..subject
        };
        let meshed = |skip| matches!(skip, None | Some(SkipReason::AlreadyInjected));
        let wanted = |subject| decide(subject, self.policy()).is_ok_and(|decision| meshed(decision.skip));
        wanted(of_namespace)
            || wanted(Subject {
                is_pod_create: true,
                ..subject
            })
    }

    fn missing_proxy(&self, subject: Subject<'_, '_>) -> Result<Option<Violation>, Vec<SettingError>> {
        if self.requirements().proxy == ProxyRule::Off || decide(subject, self.policy())?.skip.is_some() {
            return Ok(None);
        }
        let message = format!(
            "the container {} is missing: the pod was not injected, or another webhook removed it; create the pod anew",
            names::PROXY_CONTAINER
        );
        Ok(Some(Violation {
            rule: "requirements",
            key: names::PROXY_CONTAINER.to_owned(),
            message,
        }))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
