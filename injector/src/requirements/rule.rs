//! A label that pods must have.

use regex::Regex;

use super::raw::RawRule;
use super::{REQUIREMENTS, RequirementsError, Violation};
use crate::pod::{MapValue, StringMap};
use crate::settings::values::shown;

/// A label that pods must have.
#[derive(Debug, Clone)]
pub struct LabelRule {
    /// The label.
    pub key: String,
    /// The values that it may have.
    pub allowed: Allowed,
    /// What the mutating webhook sets where the label is absent.
    pub default: Option<String>,
    /// The operator's own words after the sentence.
    pub hint: String,
}

/// The values that a label may have. An empty value is a missing one.
#[derive(Debug, Clone)]
pub enum Allowed {
    /// Any that is not empty.
    Any,
    /// These.
    Values(Vec<String>),
    /// Those that a pattern matches as a whole.
    Pattern {
        /// The pattern as it is written.
        text: String,
        /// The same, anchored at both ends.
        whole: Regex,
    },
}

impl LabelRule {
    /// Checks a rule of the file.
    pub(super) fn new(index: usize, raw: RawRule) -> Result<Self, RequirementsError> {
        let RawRule {
            key,
            values,
            pattern,
            default,
            message,
            link,
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
            (Some(values), None) if !values.iter().any(|value| is_label_value(value)) => {
                return Err(wrong(
                    "values has none that a label can have: no pod could pass".to_owned(),
                ));
            }
            (Some(values), None) => Allowed::Values(values),
            (None, Some(text)) => {
                // By itself first: `a)|(b` is no pattern, and would get out of the anchors.
                Regex::new(&text).map_err(|e| wrong(format!("pattern: {e}")))?;
                let whole = Regex::new(&format!("^(?:{text})$")).map_err(|e| wrong(format!("pattern: {e}")))?;
                Allowed::Pattern { text, whole }
            }
            (None, None) => Allowed::Any,
        };
        let hint = hint(message, link).map_err(&wrong)?;
        let rule = Self {
            key: key.clone(),
            allowed,
            default,
            hint,
        };
        match rule
            .default
            .as_deref()
            .filter(|value| !is_label_value(value) || !rule.allowed.admits(value))
        {
            Some(value) if is_label_value(value) => Err(wrong(format!(
                "default {} is not {}",
                shown(value),
                rule.allowed.sentence()
            ))),
            Some(value) => Err(wrong(format!("default {}: no label can have this value", shown(value)))),
            None => Ok(rule),
        }
    }

    /// The violation of these labels, if there is one.
    pub(super) fn violation(&self, labels: &StringMap<'_>) -> Option<Violation> {
        let value = match labels.value(&self.key) {
            Some(MapValue::Text(text)) => &**text,
            Some(MapValue::Other(kind)) => {
                return Some(self.broken(&format!(
                    "is {kind}; a label's value has to be a string; put it in quotes"
                )));
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
        Some(self.broken(&format!("{found}; it has to be {}", self.allowed.sentence())))
    }

    fn broken(&self, what: &str) -> Violation {
        let Self { key, hint, .. } = self;
        Violation {
            rule: REQUIREMENTS,
            key: key.clone(),
            message: format!("label {key} {what}{hint}"),
        }
    }
}

impl Allowed {
    /// An empty value is a missing one.
    pub(super) fn admits(&self, value: &str) -> bool {
        !value.is_empty()
            && match self {
                Self::Any => true,
                Self::Values(values) => values.iter().any(|v| v == value),
                Self::Pattern { whole, .. } => whole.is_match(value),
            }
    }

    /// What is allowed, as the end of a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Any => "any value that is not empty".to_owned(),
            Self::Values(values) => format!("one of: {}", values.join(", ")),
            Self::Pattern { text, .. } => format!("of the form {text}"),
        }
    }
}

/// A label key: an optional DNS name and `/`, then a name.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key
        .rsplit_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_prefix) && is_qualified_name(name)
}

/// A DNS name as the API server takes it here: the whole is bounded, the parts between its dots are not
/// (`IsDNS1123Subdomain` of k8s.io/apimachinery).
fn is_prefix(prefix: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-');
    prefix.len() <= 253 && prefix.split('.').all(is_part)
}

fn is_qualified_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let ends = [name.bytes().next(), name.bytes().last()];
    name.len() <= 63
        && name.bytes().all(inner)
        && ends.into_iter().all(|b| b.is_some_and(|b| b.is_ascii_alphanumeric()))
}

/// A label value that the API server takes and that is not empty: at most 63 letters, digits and `-_.`, the first
/// and the last a letter or digit.
fn is_label_value(value: &str) -> bool {
    // The same rule as for a key's name.
    is_qualified_name(value)
}

/// The operator's own words, as they stand after the sentence.
fn hint(message: Option<String>, link: Option<String>) -> Result<String, String> {
    const MOST_CHARS: usize = 300;
    let plain = |text: &str| {
        !text.trim().is_empty() && text.chars().count() <= MOST_CHARS && !text.chars().any(char::is_control)
    };
    if let Some(text) = message.as_deref().filter(|text| !plain(text)) {
        return Err(format!(
            "message {} is empty, longer than {MOST_CHARS} characters, or has control characters",
            shown(text)
        ));
    }
    let is_link = |text: &str| {
        (text.starts_with("https://") || text.starts_with("http://"))
            && plain(text)
            && !text.contains(char::is_whitespace)
    };
    if let Some(text) = link.as_deref().filter(|text| !is_link(text)) {
        return Err(format!(
            "link {} is no URL that begins with https:// or http://",
            shown(text)
        ));
    }
    let parts = [message, link.map(|link| format!("see {link}"))];
    Ok(parts.into_iter().flatten().map(|part| format!("; {part}")).collect())
}
