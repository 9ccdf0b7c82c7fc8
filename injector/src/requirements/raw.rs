//! The requirements file as it is written, from which its JSON Schema is generated.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};

use super::{Action, ProxyRule, WorkloadAction};
use crate::map_only::map_only;
use crate::settings::values::ValueError;

/// A label's key, as the API server takes it: an optional DNS name and `/`, then a name.
const LABEL_KEY: &str = concat!(
    r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?",
    r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
);
/// A label's value that is not empty.
const LABEL_VALUE: &str = "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";
/// Text without control characters, and not of spaces alone.
const PLAIN: &str = r"^\P{Cc}*[^\s\p{Cc}]\P{Cc}*$";

/// What the pods of the mesh must have.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(title = "Outrigger requirements")]
pub(super) struct RawRequirements {
    /// Labels that pods must have.
    #[serde(default)]
    pub(super) labels: Vec<RawRule>,
    /// What is done about a pod that breaks a rule.
    #[serde(default = "deny")]
    pub(super) action: Word<Action>,
    /// The same for single namespaces, by their names.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}))]
    pub(super) namespaces: BTreeMap<String, Word<Action>>,
    /// What is done about a Deployment, Job and so on whose pods would break a rule, when it is applied.
    #[serde(default = "warn")]
    pub(super) workloads: Word<WorkloadAction>,
    /// Whether a pod that should carry the proxy is refused without it.
    #[serde(default = "off")]
    pub(super) proxy: Word<ProxyRule>,
}

/// A label that pods must have. Without values and pattern, any value that is not empty will do.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(extend("not" = {"required": ["values", "pattern"]}))]
pub(super) struct RawRule {
    /// The label's key.
    #[schemars(length(min = 1, max = 317), regex(pattern = LABEL_KEY))]
    pub(super) key: String,
    /// The values that are allowed.
    #[schemars(length(min = 1), extend("contains" = {"pattern": LABEL_VALUE}))]
    pub(super) values: Option<Vec<String>>,
    /// A regular expression that matches the whole value.
    pub(super) pattern: Option<String>,
    /// What the mutating webhook sets where the label is absent.
    #[schemars(regex(pattern = LABEL_VALUE))]
    pub(super) default: Option<String>,
    /// Words of your own that stand after the sentence.
    #[schemars(length(min = 1, max = 300), regex(pattern = PLAIN))]
    pub(super) message: Option<String>,
    /// Where your users can read more.
    #[schemars(length(max = 300), regex(pattern = r"^https?://\S+$"))]
    pub(super) link: Option<String>,
}

map_only!(RawRequirements, RawRule);

/// A word of a closed set.
pub(super) struct Word<T>(pub(super) T);

impl<'de, T: FromStr<Err = ValueError>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => text,
            // What a bare `off` is to kubectl, whose YAML is of version 1.1.
            Scalar::Bool(false) => "off".to_owned(),
            Scalar::Bool(true) => "on".to_owned(),
        };
        word.parse().map(Self).map_err(de::Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected a word")]
enum Scalar {
    Text(String),
    Bool(bool),
}

/// The schema of a closed set's words.
macro_rules! word_schema {
    ($($name:ident),+) => {
        $(impl JsonSchema for Word<$name> {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let words: Vec<&str> = $name::ALL.iter().map(|word| word.as_str()).collect();
                json_schema!({"type": "string", "enum": words})
            }
        })+
    };
}
word_schema!(Action, WorkloadAction, ProxyRule);

const fn deny() -> Word<Action> {
    Word(Action::Deny)
}

const fn warn() -> Word<WorkloadAction> {
    Word(WorkloadAction::Warn)
}

const fn off() -> Word<ProxyRule> {
    Word(ProxyRule::Off)
}

/// The JSON Schema (draft 2020-12) of the file.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RawRequirements).to_value()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::requirements::{ProxyRule, Requirements, WorkloadAction};

    #[test]
    fn a_prefix_is_bounded_as_a_whole() {
        let parse = |prefix: &str| Requirements::parse(&format!("labels: [{{key: {prefix}/a}}]"));
        assert!(parse(&"a".repeat(253)).is_ok());
        for wrong in [
            "a".repeat(254),
            "a..b".to_owned(),
            "a-.b".to_owned(),
            "A".to_owned(),
            String::new(),
        ] {
            assert!(parse(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_empty_key_is_named() {
        let error = Requirements::parse("'': 1").unwrap_err().to_string();
        assert!(error.starts_with("\"\": unknown field"), "{error}");
    }

    #[test]
    fn off_needs_no_quotes() {
        for off in ["off", "\"off\"", "Off"] {
            let requirements = Requirements::parse(&format!("proxy: {off}\nworkloads: {off}")).unwrap();
            assert_eq!(requirements.proxy, ProxyRule::Off);
            assert_eq!(requirements.workloads, WorkloadAction::Off);
        }
        for wrong in ["proxy: on", "action: off", "proxy: 1", "proxy: [off]"] {
            assert!(Requirements::parse(wrong).is_err(), "{wrong}");
        }
    }
}
