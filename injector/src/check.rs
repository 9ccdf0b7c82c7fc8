//! The validating check of manifests: what the webhooks together would say of each pod.

use serde_json::Value;

use crate::inject::Injector;
use crate::manifest::{Manifest, ManifestError, Namespaces, with_subject};
use crate::requirements::Action;
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
        let action = injector.requirements().action(subject.namespace);
        let violations = injector.validate_template(subject)?;
        let broken = violations.into_iter().map(|violation| {
            let action = violation.action(action);
            (violation.rule, violation.message, action)
        });
        Ok(broken.collect())
    });
    judged.unwrap_or_else(|| Ok(Vec::new()))
}
