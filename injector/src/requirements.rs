//! The labels that a pod of the mesh must have.

use std::collections::BTreeMap;
use std::str::FromStr;

use regex::Regex;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::Value;

use crate::map_only::map_only;
use crate::pod::{MapValue, StringMap};
use crate::settings::values::{ValueError, shown, words};
use crate::yaml;

/// The check that is built in: the mesh's `environment` label.
pub const BUILT_IN: &str = "labels:\n  - key: environment\n    values: [dev, prod]\naction: deny\nproxy: require\n";

/// What pods must have.
#[derive(Debug, Clone)]
pub struct Requirements {
    labels: Vec<LabelRule>,
    action: Action,
    namespaces: BTreeMap<String, Action>,
    /// Whether pods that should carry the proxy must carry it.
    pub proxy: ProxyRule,
}

/// A label that pods must have.
#[derive(Debug, Clone)]
struct LabelRule {
    key: String,
    allowed: Allowed,
    default: Option<String>,
}

/// The values that a label may have.
#[derive(Debug, Clone)]
enum Allowed {
    Any,
    Values(Vec<String>),
    Pattern { text: String, whole: Regex },
}

words! {
    /// What is done about a pod that breaks a rule.
    Action {
        /// It is refused.
        Deny = "deny",
        /// It is admitted with a warning.
        Warn = "warn",
        /// It is admitted, and noted in the audit log.
        Audit = "audit",
    }
}

words! {
    /// Whether pods that should carry the proxy must carry it.
    ProxyRule {
        /// A pod that should carry the proxy is refused without it.
        Require = "require",
        /// It is not looked for.
        Off = "off",
    }
}

/// Reads a word of a closed set.
fn word<'de, T: FromStr<Err = ValueError>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The label.
    pub key: String,
    /// The sentence for the user.
    pub message: String,
}

/// A requirements file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RequirementsError {
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(#[from] yaml::YamlError),
    /// A field is unknown or of a wrong type.
    #[error("{path}: {message}")]
    Type {
        /// Where.
        path: String,
        /// What.
        message: String,
    },
    /// A rule contradicts itself.
    #[error("labels[{index}] ({key}): {reason}")]
    Rule {
        /// The rule's place.
        index: usize,
        /// Its label.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct RawRequirements {
    #[serde(default)]
    labels: Vec<RawRule>,
    #[serde(default = "deny", deserialize_with = "word")]
    action: Action,
    #[serde(default)]
    namespaces: BTreeMap<String, Word<Action>>,
    #[serde(default = "off", deserialize_with = "word")]
    proxy: ProxyRule,
}

#[derive(Deserialize)]
#[serde(bound = "T: FromStr<Err = ValueError>")]
struct Word<T>(#[serde(deserialize_with = "word")] T);

const fn deny() -> Action {
    Action::Deny
}

const fn off() -> ProxyRule {
    ProxyRule::Off
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct RawRule {
    key: String,
    values: Option<Vec<String>>,
    pattern: Option<String>,
    default: Option<String>,
}

map_only!(RawRequirements, RawRule);

impl Default for Requirements {
    fn default() -> Self {
        Self::parse(BUILT_IN).expect("the built-in requirements parse")
    }
}

impl Requirements {
    /// Reads a requirements file.
    ///
    /// # Errors
    /// Not YAML, an unknown field, a value of a wrong type, or a rule that contradicts itself.
    pub fn parse(text: &str) -> Result<Self, RequirementsError> {
        let value: Value = yaml::parse_one(text)?;
        let raw: RawRequirements = serde_path_to_error::deserialize(value).map_err(|e| RequirementsError::Type {
            path: e.path().to_string(),
            message: e.inner().to_string(),
        })?;
        let RawRequirements {
            labels,
            action,
            namespaces,
            proxy,
        } = raw;
        let labels = labels
            .into_iter()
            .enumerate()
            .map(|(index, rule)| LabelRule::new(index, rule));
        let namespaces = namespaces.into_iter().map(|(name, action)| (name, action.0)).collect();
        Ok(Self {
            labels: labels.collect::<Result<_, _>>()?,
            action,
            namespaces,
            proxy,
        })
    }

    /// What is done about a violation in `namespace`.
    #[must_use]
    pub fn action(&self, namespace: &str) -> Action {
        self.namespaces.get(namespace).copied().unwrap_or(self.action)
    }

    /// Every label rule that these labels break.
    #[must_use]
    pub fn violations(&self, labels: &StringMap<'_>) -> Vec<Violation> {
        self.labels.iter().filter_map(|rule| rule.violation(labels)).collect()
    }

    /// The rules that a change of labels breaks. A label that did not change is not judged, so that a
    /// pod that broke a rule before stays editable.
    #[must_use]
    pub fn violations_of_change(&self, old: &StringMap<'_>, new: &StringMap<'_>) -> Vec<Violation> {
        let changed = self
            .labels
            .iter()
            .filter(|rule| old.value(&rule.key) != new.value(&rule.key));
        changed.filter_map(|rule| rule.violation(new)).collect()
    }

    /// The labels that the mutating webhook adds: key and value of each default whose label is absent.
    pub fn defaults<'r>(&'r self, labels: &'r StringMap<'_>) -> impl Iterator<Item = (&'r str, &'r str)> {
        let absent = self.labels.iter().filter(|rule| !labels.contains(&rule.key));
        absent.filter_map(|rule| Some((rule.key.as_str(), rule.default.as_deref()?)))
    }
}

impl LabelRule {
    fn new(index: usize, raw: RawRule) -> Result<Self, RequirementsError> {
        let RawRule {
            key,
            values,
            pattern,
            default,
        } = raw;
        let wrong = |reason: String| RequirementsError::Rule {
            index,
            key: key.clone(),
            reason,
        };
        if !is_label_key(&key) {
            return Err(wrong("key is no label key".to_owned()));
        }
        let allowed = match (values, pattern) {
            (Some(_), Some(_)) => return Err(wrong("values and pattern exclude each other".to_owned())),
            (Some(values), None) if values.is_empty() => {
                return Err(wrong("values is empty: no pod could pass".to_owned()));
            }
            (Some(values), None) => Allowed::Values(values),
            (None, Some(text)) => Allowed::Pattern {
                whole: Regex::new(&format!("^(?:{text})$")).map_err(|e| wrong(format!("pattern: {e}")))?,
                text,
            },
            (None, None) => Allowed::Any,
        };
        let rule = Self {
            key: key.clone(),
            allowed,
            default,
        };
        match rule.default.as_deref().filter(|value| !rule.allowed.admits(value)) {
            Some(value) => Err(wrong(format!(
                "default {} is not {}",
                shown(value),
                rule.allowed.sentence()
            ))),
            None => Ok(rule),
        }
    }

    fn violation(&self, labels: &StringMap<'_>) -> Option<Violation> {
        let value = match labels.value(&self.key) {
            Some(MapValue::Text(text)) => &**text,
            Some(MapValue::Other(kind)) => {
                let message = format!(
                    "label {} is {kind}; a label's value has to be a string; put it in quotes",
                    self.key
                );
                return Some(Violation {
                    key: self.key.clone(),
                    message,
                });
            }
            Some(MapValue::Null) | None => "",
        };
        if self.allowed.admits(value) {
            return None;
        }
        let found = if value.is_empty() {
            "is missing".to_owned()
        } else {
            format!("is {}", shown(value))
        };
        let message = format!("label {} {found}; it has to be {}", self.key, self.allowed.sentence());
        Some(Violation {
            key: self.key.clone(),
            message,
        })
    }
}

impl Allowed {
    /// An empty value is a missing one.
    fn admits(&self, value: &str) -> bool {
        !value.is_empty()
            && match self {
                Self::Any => true,
                Self::Values(values) => values.iter().any(|v| v == value),
                Self::Pattern { whole, .. } => whole.is_match(value),
            }
    }

    fn sentence(&self) -> String {
        match self {
            Self::Any => "any value that is not empty".to_owned(),
            Self::Values(values) => format!("one of: {}", values.join(", ")),
            Self::Pattern { text, .. } => format!("of the form {text}"),
        }
    }
}

/// A label key: an optional DNS name and `/`, then a name of at most 63 characters.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key
        .rsplit_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let ends = [name.bytes().next(), name.bytes().last()];
    prefix.is_none_or(crate::settings::values::is_dns_name)
        && name.len() <= 63
        && name.bytes().all(inner)
        && ends.into_iter().all(|b| b.is_some_and(|b| b.is_ascii_alphanumeric()))
}
