//! The validating check of manifests: what the webhooks together would say of each pod.

use serde_json::Value;

use crate::inject::{Injector, Verdict};
use crate::manifest::{DEFAULT_NAMESPACE, Manifest, ManifestError, Namespaces, with_subject};
use crate::pod::PodView;
use crate::requirements::Action;
use crate::validate::Change;
use crate::workload::{Object, objects};

/// What was found at an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// The line at which the object's document begins, from 1.
    pub line: usize,
    /// The object.
    pub object: Object,
    /// The stable word of the rule.
    pub rule: &'static str,
    /// The sentence.
    pub message: String,
    /// What the webhook would do.
    pub action: Action,
}

/// Judges every pod of a manifest as the webhooks would: after injection, label defaults included.
///
/// # Errors
/// A template fails.
pub fn check(
    injector: &Injector,
    manifest: &Manifest<'_>,
    namespaces: &Namespaces,
) -> Result<Vec<Finding>, ManifestError> {
    let mut findings = Vec::new();
    for document in &manifest.documents {
        let Some(value) = &document.value else { continue };
        for object in objects(value) {
            let broken = judge(injector, value, &object, namespaces)?;
            findings.extend(broken.into_iter().map(|(rule, message, action)| Finding {
                file: manifest.source.name.clone(),
                line: document.first_line,
                object: object.clone(),
                rule,
                message,
                action,
            }));
        }
    }
    Ok(findings)
}

type Broken = (&'static str, String, Action);

fn judge(
    injector: &Injector,
    document: &Value,
    object: &Object,
    namespaces: &Namespaces,
) -> Result<Vec<Broken>, ManifestError> {
    let judged = with_subject(document, object, namespaces, |subject| {
        let subject = match subject {
            Ok(subject) => subject,
            Err(error) => return Ok(vec![("bad-pod", error.to_string(), Action::Deny)]),
        };
        let injection = injector.inject(subject)?;
        if let Verdict::Deny(denial) = &injection.verdict {
            return Ok(vec![(denial.id(), denial.to_string(), Action::Deny)]);
        }
        let patched = match &injection.verdict {
            Verdict::Inject(patch) => object
                .pod(document)
                .map(|pod| crate::manifest::applied(pod, patch).to_string()),
            Verdict::Skip(_) | Verdict::Deny(_) => None,
        };
        let pod = patched
            .as_deref()
            .map(|raw| PodView::from_json(raw).expect("a patched pod reads like its original"));
        let subject = crate::decision::Subject {
            pod: pod.as_ref().unwrap_or(subject.pod),
            ..subject
        };
        let violations = injector.validate(subject, &Change::Create).unwrap_or_default();
        let action = injector
            .requirements()
            .action(object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE));
        Ok(violations
            .into_iter()
            .map(|v| ("requirements", v.message, action))
            .collect())
    });
    judged.unwrap_or_else(|| Ok(Vec::new()))
}
