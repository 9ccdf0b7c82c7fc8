//! Request and namespace → answer, for both webhooks.

use super::answer::{Answer, Reply};
use super::{Endpoint, Review};
use crate::decision::{SkipReason, Subject};
use crate::error::{Denial, InternalError, Outcome};
use crate::inject::{Injection, Injector, Verdict};
use crate::namespace::NamespaceInfo;
use crate::pod::PodView;
use crate::requirements::{Action, Violation};
use crate::service::View;
use crate::validate::Change;

impl Injector {
    /// The answer to a request. `namespace` is what is known of the request's namespace; `None`:
    /// nothing, which is right only where [`Review::needs_namespace`] says that nothing is needed. `services` is what is
    /// known of the cluster's Services.
    ///
    /// # Errors
    /// A fault of ours, never the user's.
    pub fn answer(
        &self,
        endpoint: Endpoint,
        review: &Review<'_>,
        namespace: Option<&NamespaceInfo>,
        services: View<'_>,
    ) -> Result<Answer, InternalError> {
        if endpoint == Endpoint::Validate && self.passes_over(review) {
            return Ok(Reply::allowed(Outcome::ADMITTED).answer(review.uid(), review.display_name()));
        }
        let unlabelled = NamespaceInfo::default();
        let info = namespace.unwrap_or(&unlabelled);
        let pod = match review.pod() {
            Ok(pod) => pod,
            Err(error) => {
                return Ok(Reply::denied(Denial::Pod(error)).answer(review.uid(), "(unreadable)".to_owned()));
            }
        };
        let subject = Subject {
            is_pod_create: review.is_pod_create(),
            namespace: review.namespace(),
            info,
            pod: &pod,
            services,
        };
        let reply = match endpoint {
            Endpoint::Mutate => mutate(self.inject(subject)?),
            Endpoint::Validate => self.judge(review, subject)?,
        };
        Ok(reply.answer(review.uid(), review.display_name()))
    }

    /// A workload that is not looked at, or whose template an update leaves as it was: one that broke a rule before
    /// stays editable (scaled, annotated, deleted).
    fn passes_over(&self, review: &Review<'_>) -> bool {
        let off = self.requirements().workload_action(review.namespace()).is_none();
        review.template_path().is_some() && (off || review.keeps_template())
    }

    fn judge(&self, review: &Review<'_>, subject: Subject<'_, '_>) -> Result<Reply, InternalError> {
        let old = match review.old_pod() {
            Ok(old) => old,
            Err(error) => return Ok(Reply::denied(Denial::Pod(error))),
        };
        if review.template_path().is_some() {
            return self.judge_workload(subject, old.as_deref());
        }
        let change = match &old {
            _ if review.is_pod_create() => Change::Create,
            Some(old) if review.is_pod_update() => Change::Update(old),
            _ => return Ok(Reply::allowed(SkipReason::NotAPodCreate.into())),
        };
        Ok(judged(
            self.validate(subject, &change),
            self.requirements().action(subject.namespace),
        ))
    }

    /// A workload is stored before its pods are made, so its owner hears of a refusal here. Where it is refused
    /// itself, what was wrong before is only warned of, so that it stays editable.
    fn judge_workload(&self, subject: Subject<'_, '_>, old: Option<&PodView<'_>>) -> Result<Reply, InternalError> {
        let Some(action) = self.requirements().workload_action(subject.namespace) else {
            return Ok(Reply::allowed(Outcome::ADMITTED));
        };
        let subject = Subject {
            is_pod_create: true,
            ..subject
        };
        let violations = self.validate_template(subject)?;
        let before = match old {
            Some(pod) if action == Action::Deny => self.validate_template(Subject { pod, ..subject })?,
            _ => Vec::new(),
        };
        let nothing_new = violations.iter().all(|violation| before.contains(violation));
        let action = if nothing_new { Action::Warn } else { action };
        Ok(reply(violations, action))
    }
}

/// What the mutating webhook refuses is refused whatever the action is.
fn judged(violations: Vec<Violation>, action: Action) -> Reply {
    let refused = violations.iter().any(Violation::is_refusal);
    reply(violations, if refused { Action::Deny } else { action })
}

fn reply(violations: Vec<Violation>, action: Action) -> Reply {
    if violations.is_empty() {
        return Reply::allowed(Outcome::ADMITTED);
    }
    let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
    match action {
        Action::Deny => Reply::denied(Denial::Violations(violations)),
        Action::Warn => {
            // All are named first, since an answer holds so many warnings only.
            let keys: Vec<&str> = violations.iter().map(|violation| violation.key.as_str()).collect();
            let summary = (keys.len() > 1).then(|| format!("{} rules are broken: {}", keys.len(), keys.join(", ")));
            Reply {
                warnings: summary.into_iter().chain(messages).collect(),
                ..Reply::allowed(Outcome::WARNED)
            }
        }
        Action::Audit => {
            let audit = [("violations", messages.join("; "))].into();
            Reply {
                audit,
                ..Reply::allowed(Outcome::AUDITED)
            }
        }
    }
}

fn mutate(injection: Injection) -> Reply {
    let outcome = injection.outcome();
    let Injection { verdict, row, warnings } = injection;
    let mut reply = match verdict {
        Verdict::Inject(patch) => Reply {
            patch: Some(patch),
            ..Reply::allowed(outcome)
        },
        Verdict::Skip(_) => Reply::allowed(outcome),
        Verdict::Deny(denial) => Reply::denied(denial),
    };
    reply.warnings = warnings;
    reply.audit.extend(row.map(|row| ("row", row.to_string())));
    reply
}
