//! What is known of a pod's namespace.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::settings::values::shown;

/// The labels and annotations of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`
    pub annotations: BTreeMap<String, String>,
}

/// A Namespace object that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("namespace {namespace}: metadata.{field}.{key}: {kind} where a string is needed; put the value in quotes")]
pub struct NamespaceError {
    namespace: String,
    field: &'static str,
    key: String,
    kind: &'static str,
}

impl NamespaceInfo {
    /// A namespace of which nothing is known but that it asks for injection.
    #[must_use]
    pub fn enabled() -> Self {
        let label = (
            crate::names::INJECT.to_owned(),
            crate::settings::values::Toggle::Enabled.to_string(),
        );
        Self {
            labels: BTreeMap::from([label]),
            annotations: BTreeMap::new(),
        }
    }

    /// Nothing but the label that switches injection: all that counts of a namespace to which a pod does not belong.
    #[must_use]
    pub fn switch_alone(&self) -> Self {
        let switch = self.labels.get_key_value(crate::names::INJECT);
        Self {
            labels: switch
                .map(|(key, value)| (key.clone(), value.clone()))
                .into_iter()
                .collect(),
            annotations: BTreeMap::new(),
        }
    }

    /// Reads a Namespace object: its name, labels and annotations. `None`: it is no v1 Namespace.
    ///
    /// # Errors
    /// A label or annotation is no string.
    pub fn from_object(object: &Value) -> Result<Option<(String, Self)>, NamespaceError> {
        let is = |key: &str, text: &str| object.get(key).and_then(Value::as_str) == Some(text);
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let (true, true, Some(name)) = (is("apiVersion", "v1"), is("kind", "Namespace"), name) else {
            return Ok(None);
        };
        let map = |field| strings(object, name, field);
        Ok(Some((
            name.to_owned(),
            Self {
                labels: map("labels")?,
                annotations: map("annotations")?,
            },
        )))
    }
}

fn strings(object: &Value, namespace: &str, field: &'static str) -> Result<BTreeMap<String, String>, NamespaceError> {
    let entries = object["metadata"].get(field).and_then(Value::as_object);
    let mut strings = BTreeMap::new();
    for (key, value) in entries.into_iter().flatten() {
        let kind = match value {
            Value::String(text) => {
                strings.insert(key.clone(), text.clone());
                continue;
            }
            Value::Null => continue,
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        return Err(NamespaceError {
            namespace: shown(namespace),
            field,
            key: shown(key),
            kind,
        });
    }
    Ok(strings)
}
