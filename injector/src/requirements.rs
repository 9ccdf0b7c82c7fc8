//! The labels that a pod of the mesh must have.

use std::collections::BTreeMap;

use serde_json::Value;

mod raw;
mod rule;

use raw::RawRequirements;
pub use raw::schema;
pub use rule::{Allowed, LabelRule};

use crate::pod::StringMap;
use crate::settings::SettingError;
use crate::settings::values::{is_dns_label, shown, words};
use crate::yaml;

/// The check that is built in: the mesh's `environment` label.
pub const BUILT_IN: &str = "labels:\n  - key: environment\n    values: [dev, prod]\naction: deny\nproxy: require\n";

/// What pods must have.
#[derive(Debug, Clone)]
pub struct Requirements {
    /// The file's text.
    pub source: String,
    labels: Vec<LabelRule>,
    action: Action,
    namespaces: BTreeMap<String, Action>,
    /// What is done about a workload whose pods would break a rule, when it is applied.
    pub workloads: WorkloadAction,
    /// Whether pods that should carry the proxy must carry it.
    pub proxy: ProxyRule,
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
    /// What is done about a workload whose pods would break a rule.
    WorkloadAction {
        /// It is refused.
        Deny = "deny",
        /// It is stored, with a warning: its pods are what is refused.
        Warn = "warn",
        /// It is not looked at.
        Off = "off",
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

/// The stable word of every rule of the file.
pub const REQUIREMENTS: &str = "requirements";

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The stable word of the rule: `requirements`, or that of the denial which a pod would meet.
    pub rule: &'static str,
    /// The label, or the part of the pod.
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

impl Violation {
    /// Whether the mutating webhook refuses the pod for it, which no action of the requirements softens.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.rule != REQUIREMENTS
    }

    /// What is done about it where the requirements say `action`.
    #[must_use]
    pub fn action(&self, action: Action) -> Action {
        if self.is_refusal() { Action::Deny } else { action }
    }
}

impl From<&SettingError> for Violation {
    fn from(error: &SettingError) -> Self {
        Self {
            rule: "bad-setting",
            key: error.key.clone(),
            message: error.to_string(),
        }
    }
}

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
        let raw: RawRequirements = serde_path_to_error::deserialize(value).map_err(|e| {
            let path = Some(e.path().to_string()).filter(|path| !path.is_empty());
            RequirementsError::Type {
                // A key may be empty.
                path: path.unwrap_or_else(|| shown("")),
                message: e.inner().to_string(),
            }
        })?;
        let RawRequirements {
            labels,
            action,
            namespaces,
            workloads,
            proxy,
        } = raw;
        let rules = labels
            .into_iter()
            .enumerate()
            .map(|(index, rule)| LabelRule::new(index, rule));
        let labels: Vec<LabelRule> = rules.collect::<Result<_, _>>()?;
        for (index, rule) in labels.iter().enumerate() {
            if labels[..index].iter().any(|earlier| earlier.key == rule.key) {
                let reason = "there is a rule for this label already".to_owned();
                return Err(RequirementsError::Rule {
                    index,
                    key: rule.key.clone(),
                    reason,
                });
            }
        }
        if let Some(name) = namespaces.keys().find(|name| !is_dns_label(name)) {
            let message = "no namespace can have this name".to_owned();
            return Err(RequirementsError::Type {
                path: format!("namespaces.{}", shown(name)),
                message,
            });
        }
        let namespaces = namespaces.into_iter().map(|(name, action)| (name, action.0)).collect();
        Ok(Self {
            source: text.to_owned(),
            labels,
            action: action.0,
            namespaces,
            workloads: workloads.0,
            proxy: proxy.0,
        })
    }

    /// The label rules.
    #[must_use]
    pub fn labels(&self) -> &[LabelRule] {
        &self.labels
    }

    /// What is done where a namespace is not named.
    #[must_use]
    pub const fn general_action(&self) -> Action {
        self.action
    }

    /// The namespaces with an action of their own.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, Action)> {
        self.namespaces.iter().map(|(name, action)| (name.as_str(), *action))
    }

    /// What is done about a workload in `namespace`; `None`: it is not judged. Never more than what
    /// is done about its pods.
    #[must_use]
    pub fn workload_action(&self, namespace: &str) -> Option<Action> {
        match (self.workloads, self.action(namespace)) {
            (WorkloadAction::Off, _) => None,
            (WorkloadAction::Warn, Action::Deny) => Some(Action::Warn),
            (WorkloadAction::Warn | WorkloadAction::Deny, action) => Some(action),
        }
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
