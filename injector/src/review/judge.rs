//! Request and namespace → answer, for both webhooks.

use super::answer::{Answer, Reply};
use super::{Endpoint, Review};
use crate::decision::{SkipReason, Subject};
use crate::error::{Denial, InternalError, Outcome};
use crate::inject::{Injection, Injector, Verdict};
use crate::namespace::NamespaceInfo;
use crate::pod::PodView;
use crate::requirements::{Action, Violation};
use crate::validate::Change;

impl Injector {
    /// The answer to a request. `namespace` is what is known of the request's namespace; `None`:
    /// nothing, which is right only where [`Review::needs_namespace`] says that nothing is needed.
    ///
    /// # Errors
    /// A fault of ours, never the user's.
    pub fn answer(
        &self,
        endpoint: Endpoint,
        review: &Review<'_>,
        namespace: Option<&NamespaceInfo>,
    ) -> Result<Answer, InternalError> {
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
        };
        let reply = match endpoint {
            Endpoint::Mutate => mutate(self.inject(subject)?),
            Endpoint::Validate => self.judge(review, subject)?,
        };
        Ok(reply.answer(review.uid(), review.display_name()))
    }

    fn judge(&self, review: &Review<'_>, subject: Subject<'_, '_>) -> Result<Reply, InternalError> {
        let old = match review.old_pod() {
            Ok(old) => old,
            Err(error) => return Ok(Reply::denied(Denial::Pod(error))),
        };
        if review.template_path().is_some() {
            // A workload that broke a rule before stays editable: scaled, annotated, deleted.
            if review.keeps_template() {
                return Ok(Reply::allowed(Outcome::ADMITTED));
            }
            return self.judge_workload(subject, old.as_deref());
        }
        let change = match &old {
            _ if review.is_pod_create() => Change::Create,
            Some(old) if review.is_pod_update() => Change::Update(old),
            _ => return Ok(Reply::allowed(SkipReason::NotAPodCreate.into())),
        };
        Ok(match self.validate(subject, &change) {
            Ok(violations) => judged(violations, self.requirements().action(subject.namespace)),
            Err(errors) => Reply::denied(Denial::Settings(errors)),
        })
    }

    /// A workload is stored before its pods are made, so its owner hears of a refusal here.
    fn judge_workload(&self, subject: Subject<'_, '_>, old: Option<&PodView<'_>>) -> Result<Reply, InternalError> {
        let Some(action) = self.requirements().workload_action(subject.namespace) else {
            return Ok(Reply::allowed(Outcome::ADMITTED));
        };
        let subject = Subject {
            is_pod_create: true,
            ..subject
        };
        Ok(judged(self.validate_template(subject, old)?, action))
    }
}

fn judged(violations: Vec<Violation>, action: Action) -> Reply {
    if violations.is_empty() {
        return Reply::allowed(Outcome::ADMITTED);
    }
    let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
    match action {
        Action::Deny => Reply::denied(Denial::Requirements(violations)),
        Action::Warn => Reply {
            warnings: messages,
            ..Reply::allowed(Outcome::WARNED)
        },
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
