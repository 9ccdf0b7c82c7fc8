//! What an injector is made of, and why it cannot be made.

use std::collections::BTreeMap;

use crate::error::InternalError;
use crate::requirements::RequirementsError;
use crate::settings::SettingError;

/// What an injector is made of.
#[derive(Debug, Clone, Default)]
pub struct InjectorOptions {
    /// Namespaces that are never injected, besides those of Kubernetes.
    pub excluded_namespaces: Vec<String>,
    /// Whether pods are injected where neither they nor their namespace say anything.
    pub inject_by_default: bool,
    /// The operator's values of settings, by environment variable.
    pub setting_defaults: BTreeMap<String, String>,
    /// Templates that are added to the built-in ones or replace them: file name and text.
    pub templates: Vec<(String, String)>,
    /// The requirements file; `None`: the built-in check.
    pub requirements: Option<String>,
}

/// Why an injector cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Values of settings that mean nothing; all of them.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Settings(Vec<SettingError>),
    /// A template that cannot be used.
    #[error("template {0}")]
    Template(#[from] crate::template::TemplateError),
    /// A template that fails on a sample pod.
    #[error("{error} (sample pod: {sample})")]
    Sample {
        /// What the sample shows.
        sample: &'static str,
        /// What went wrong.
        #[source]
        error: Box<InternalError>,
    },
    /// Settings of the operator that no pod could have together.
    #[error("{} (sample pod: {sample})", .reasons.join("; "))]
    Combination {
        /// What the sample shows.
        sample: &'static str,
        /// What is wrong.
        reasons: Vec<String>,
    },
    /// A requirements file that cannot be used.
    #[error("requirements: {0}")]
    Requirements(#[from] RequirementsError),
}
