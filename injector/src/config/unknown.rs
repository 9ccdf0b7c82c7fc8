//! Variables that are none of ours: misspelt ones, and those Kubernetes sets for a Service.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::{ConfigError, VARIABLES};
use crate::names::ENV_PREFIX;

/// How alike two names must be for one to be suggested; 1 means equal.
const ALIKE: f64 = 0.6;

/// Docker-style variables of a Service called `outrigger` or `outrigger-…`, see "Discovering
/// services" in the Kubernetes documentation.
static SERVICE_LINK: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^OUTRIGGER(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)$";
    Regex::new(pattern).expect("the pattern is a valid regular expression")
});

/// An error for each unknown variable, and one for all service links.
pub(super) fn check(vars: &BTreeMap<String, String>, setting_variables: &[String]) -> Vec<ConfigError> {
    let strangers = vars
        .iter()
        .filter(|(name, _)| !known(setting_variables).any(|known| known == name.as_str()));
    let (links, unknown): (Vec<_>, Vec<_>) = strangers.partition(|(name, value)| is_service_link(name, value));
    let mut errors: Vec<_> = unknown
        .into_iter()
        .map(|(name, _)| error(name, setting_variables))
        .collect();
    if !links.is_empty() {
        let variables = links.into_iter().map(|(name, _)| name.clone()).collect();
        errors.push(ConfigError::ServiceLinks { variables });
    }
    errors
}

/// What the message says about a suggestion.
pub(super) fn hint(suggestion: Option<&str>) -> String {
    suggestion
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default()
}

fn known(setting_variables: &[String]) -> impl Iterator<Item = &str> {
    VARIABLES
        .iter()
        .map(|variable| variable.name)
        .chain(setting_variables.iter().map(String::as_str))
}

fn is_service_link(name: &str, value: &str) -> bool {
    SERVICE_LINK.is_match(name) || name.ends_with("_PORT") && value.contains("://")
}

fn error(name: &str, setting_variables: &[String]) -> ConfigError {
    let scored = known(setting_variables).map(|known| (likeness(known, name), known));
    let best = scored
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    ConfigError::Unknown {
        variable: name.to_owned(),
        suggestion: best.map(|(_, known)| known.to_owned()),
    }
}

/// Compares without the prefix, which all have in common.
fn likeness(known: &str, name: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(
        known.trim_start_matches(ENV_PREFIX),
        name.trim_start_matches(ENV_PREFIX),
    )
}
