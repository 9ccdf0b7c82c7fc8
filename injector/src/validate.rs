//! The validating check: the labels a mesh can rely on, and the proxy itself.

use std::fmt;

use crate::decision::{SkipReason, Subject, decide};
use crate::error::InternalError;
use crate::inject::{Injector, Verdict};
use crate::names;
use crate::pod::PodView;
use crate::requirements::{ProxyRule, REQUIREMENTS, Violation};
use crate::settings::values::{is_dns_label, shown};
use crate::status::Status;

/// What happens to the pod.
pub enum Change<'a> {
    /// It is created.
    Create,
    /// It was this before.
    Update(&'a PodView<'a>),
}

impl Injector {
    /// What a pod breaks, all of it. Only pods of the mesh are judged; nothing that a pod says of itself exempts it.
    #[must_use]
    pub fn validate(&self, subject: Subject<'_, '_>, change: &Change<'_>) -> Vec<Violation> {
        match change {
            Change::Create if self.is_judged(subject) => {
                let mut violations = self.missing_proxy(subject);
                violations.extend(self.requirements().violations(subject.pod.labels()));
                violations
            }
            Change::Update(old) if self.is_judged(Subject { pod: old, ..subject }) || self.is_judged(subject) => {
                let mut violations = self
                    .requirements()
                    .violations_of_change(old.labels(), subject.pod.labels());
                violations.extend(self.left_mesh(subject));
                violations
            }
            Change::Update(_) | Change::Create => Vec::new(),
        }
    }

    /// What the pods of a template will break once it has been injected: what they are refused for, and
    /// labels that no default will set.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn validate_template(&self, subject: Subject<'_, '_>) -> Result<Vec<Violation>, InternalError> {
        if !self.is_judged(subject) {
            return Ok(Vec::new());
        }
        let (requirements, labels) = (self.requirements(), subject.pod.labels());
        let mut violations = requirements.violations(labels);
        match self.inject(subject)?.verdict {
            Verdict::Deny(denial) => {
                violations.insert(
                    0,
                    Violation {
                        rule: denial.id(),
                        key: "pod".to_owned(),
                        message: denial.to_string(),
                    },
                );
            }
            Verdict::Inject(_) => {
                let defaults: Vec<&str> = requirements.defaults(labels).map(|(key, _)| key).collect();
                violations.retain(|violation| !defaults.contains(&violation.key.as_str()));
            }
            Verdict::Skip(_) => {}
        }
        Ok(violations)
    }

    /// Whether the pod's namespace is of the mesh, or the pod asks to be. A switch that means nothing is judged:
    /// the pod that it belongs to is refused.
    #[must_use]
    pub fn is_judged(&self, subject: Subject<'_, '_>) -> bool {
        let as_if_plain = PodView::default();
        let meshed = |pod: &PodView<'_>| {
            let subject = Subject {
                is_pod_create: true,
                namespace: subject.namespace,
                info: subject.info,
                pod,
                services: subject.services,
            };
            let skip = decide(subject, self.policy()).map(|decision| decision.skip);
            matches!(skip, Err(_) | Ok(None | Some(SkipReason::AlreadyInjected)))
        };
        meshed(&as_if_plain) || meshed(subject.pod)
    }

    /// The proxy, where it should be and is not, or what makes that undecidable.
    fn missing_proxy(&self, subject: Subject<'_, '_>) -> Vec<Violation> {
        match decide(subject, self.policy()) {
            Err(errors) => errors.iter().map(Violation::from).collect(),
            Ok(decision) if decision.skip.is_none() && self.requirements().proxy == ProxyRule::Require => {
                let part = missing_part(subject.pod);
                let message = format!(
                    "{part} is missing: the pod was not injected, or another webhook removed it; create the pod anew"
                );
                vec![Violation {
                    rule: REQUIREMENTS,
                    key: names::PROXY_CONTAINER.to_owned(),
                    message,
                }]
            }
            Ok(_) => Vec::new(),
        }
    }

    /// A pod that its own label brought into the mesh stays there, since its containers cannot change; without the
    /// label nobody would look at it again.
    fn left_mesh(&self, subject: Subject<'_, '_>) -> Option<Violation> {
        let message = format!(
            "label {} brought the pod into the mesh, where it stays as long as it runs; delete the pod instead",
            names::INJECT
        );
        let violation = Violation {
            rule: REQUIREMENTS,
            key: names::INJECT.to_owned(),
            message,
        };
        (!self.is_judged(subject)).then_some(violation)
    }
}

/// What a pod without its proxy lacks, by its status annotation where it has one.
fn missing_part(pod: &PodView<'_>) -> String {
    let status = pod.annotations().get(names::STATUS).and_then(Status::parse);
    let has_proxy = pod.all_containers().any(|c| c.name() == names::PROXY_CONTAINER);
    match &status {
        None if has_proxy => format!("the annotation {}", names::STATUS),
        None => format!("the container {}", names::PROXY_CONTAINER),
        Some(status) => {
            // The annotation is a stranger's text.
            let name = status.missing(pod).unwrap_or(names::PROXY_CONTAINER);
            format!(
                "the container {}",
                if is_dns_label(name) {
                    name.to_owned()
                } else {
                    shown(name)
                }
            )
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
