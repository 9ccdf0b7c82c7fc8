//! The table of settings, and how a pod's are resolved: pod annotation over namespace annotation
//! over the operator's configuration over what is built in.
//!
//! A new setting is one row of [`SETTINGS`], one field of [`Settings`] and its use.

use std::str::FromStr;

pub mod quantity;
pub mod upstreams;
pub mod values;

use quantity::Quantity;
use upstreams::Upstreams;
use values::{
    DnsLabel, DnsName, FoundLimit, IdentityPatterns, ImageRef, InboundPorts, IpFamilies, LogLevel, Mtls, NamespaceList,
    PortList, Position, Probes, Resolver, Traffic, ValueError, shown,
};

use crate::names;
use crate::namespace::NamespaceInfo;
use crate::pod::{MapValue, PodView, StringMap};

/// Everything that can be set for a pod. `None`: nobody set it, and there is no general default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// See the table, row by row.
    pub template: Option<DnsLabel>,
    /// `None`: by the pod's restartPolicy.
    pub position: Option<Position>,
    /// See the table.
    pub traffic: Option<Traffic>,
    /// See the table.
    pub mtls: Option<Mtls>,
    /// `None`: every TCP containerPort.
    pub inbound_ports: Option<InboundPorts>,
    /// See the table.
    pub exclude_inbound_ports: Option<PortList>,
    /// See the table.
    pub exclude_outbound_ports: Option<PortList>,
    /// `None`: by the template.
    pub upstreams: Option<Upstreams>,
    /// `None`: the pod's own namespace alone.
    pub upstream_namespaces: Option<NamespaceList>,
    /// See the table.
    pub probes: Option<Probes>,
    /// `None`: anybody of the mesh.
    pub allow_from: Option<IdentityPatterns>,
    /// See the table.
    pub proxy_image: Option<ImageRef>,
    /// See the table.
    pub proxy_cpu_request: Option<Quantity>,
    /// See the table.
    pub proxy_cpu_limit: Option<Quantity>,
    /// See the table.
    pub proxy_memory_request: Option<Quantity>,
    /// See the table.
    pub proxy_memory_limit: Option<Quantity>,
    /// See the table.
    pub proxy_log_level: Option<LogLevel>,
    /// `None`: a pod certificate.
    pub identity_secret: Option<DnsName>,
    /// See the table.
    pub redirect_image: Option<ImageRef>,
    /// See the table.
    pub trust_domain: Option<DnsName>,
    /// See the table.
    pub cluster_domain: Option<DnsName>,
    /// See the table.
    pub resolver: Option<Resolver>,
    /// See the table.
    pub ip_families: Option<IpFamilies>,
    /// See the table.
    pub auto_upstreams_limit: Option<FoundLimit>,
}

/// Who may set a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A pod annotation, or the operator.
    Pod,
    /// A pod or namespace annotation, or the operator.
    PodAndNamespace,
    /// The operator alone.
    Operator,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The table's default, or none.
    BuiltIn,
    /// The operator's configuration.
    Configuration,
    /// The label of the namespace that switches injection.
    NamespaceLabel,
    /// An annotation of the namespace.
    Namespace,
    /// The label of the pod that switches injection.
    PodLabel,
    /// An annotation of the pod.
    Pod,
}

/// A row of the table.
pub struct Setting {
    /// The annotation's key; the environment variable is made from it.
    pub key: &'static str,
    /// Who may set it.
    pub scope: Scope,
    /// What is allowed, as the reference page and error messages say it.
    pub values: &'static str,
    /// The built-in value; empty where there is none.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Reads a value into its field.
    apply: fn(&mut Settings, &str) -> Result<(), ValueError>,
}

fn set<T: FromStr<Err = ValueError>>(slot: &mut Option<T>, text: &str) -> Result<(), ValueError> {
    *slot = Some(text.parse()?);
    Ok(())
}

mod table;
pub use table::SETTINGS;

/// A value that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// Where it stood.
    pub origin: Origin,
    /// Its key.
    pub key: String,
    /// The value, as messages may show it.
    pub value: String,
    /// What is wrong and what is allowed.
    pub reason: String,
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            origin,
            key,
            value,
            reason,
        } = self;
        match origin {
            // The operator knows the setting by its variable.
            Origin::Configuration => write!(f, "{}: {value}: {reason}", names::variable_of(key)),
            origin => write!(f, "{} {key}: {value}: {reason}", origin.as_str()),
        }
    }
}

impl Origin {
    /// As messages say it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Configuration => "configuration",
            Self::NamespaceLabel => "namespace label",
            Self::Namespace => "namespace annotation",
            Self::PodLabel => "pod label",
            Self::Pod => "pod annotation",
        }
    }
}

/// The settings of one pod, and where each came from.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The values.
    pub settings: Settings,
    /// The origin of each, in the order of [`SETTINGS`].
    pub origins: Vec<Origin>,
    /// Unknown or misplaced keys.
    pub warnings: Vec<String>,
}

impl Resolved {
    /// What is built in, with the operator's `configuration` (key and value) over it.
    ///
    /// # Errors
    /// Every value that does not parse.
    pub fn base<'v>(configuration: impl Iterator<Item = (&'v str, &'v str)>) -> Result<Self, Vec<SettingError>> {
        let mut resolved = Self {
            settings: Settings::default(),
            origins: vec![Origin::BuiltIn; SETTINGS.len()],
            warnings: Vec::new(),
        };
        let mut errors = Vec::new();
        for (index, row) in SETTINGS.iter().enumerate().filter(|(_, row)| !row.default.is_empty()) {
            resolved.apply(index, Origin::BuiltIn, row.default, &mut errors);
        }
        for (key, text) in configuration {
            if let Some(index) = row_of(key) {
                resolved.apply(index, Origin::Configuration, text, &mut errors);
            }
        }
        resolved.check_resources(&mut errors);
        if errors.is_empty() { Ok(resolved) } else { Err(errors) }
    }

    /// These settings with the annotations of a namespace and a pod over them.
    ///
    /// # Errors
    /// Every value that does not parse, of both.
    pub fn overlaid(&self, namespace: &NamespaceInfo, pod: &PodView<'_>) -> Result<Self, Vec<SettingError>> {
        let mut resolved = self.clone();
        let mut errors = Vec::new();
        for (key, text) in &namespace.annotations {
            resolved.annotation(Origin::Namespace, key, Ok(text), &mut errors);
        }
        for (key, value) in pod.annotations().iter() {
            match value {
                MapValue::Text(text) => resolved.annotation(Origin::Pod, key, Ok(text), &mut errors),
                MapValue::Other(kind) => resolved.annotation(Origin::Pod, key, Err(kind), &mut errors),
                MapValue::Null => {}
            }
        }
        resolved.warn_of_labels(pod.labels());
        resolved.check_resources(&mut errors);
        if errors.is_empty() { Ok(resolved) } else { Err(errors) }
    }

    /// Where the value of the setting `key` came from.
    #[must_use]
    pub fn origin_of(&self, key: &str) -> Origin {
        row_of(key).map_or(Origin::BuiltIn, |index| self.origins[index])
    }

    fn annotation(&mut self, origin: Origin, key: &str, text: Result<&str, &str>, errors: &mut Vec<SettingError>) {
        if !key.starts_with(names::PREFIX) || key == names::INJECT || names::WRITTEN.contains(&key) {
            return;
        }
        match (row_of(key).filter(|i| SETTINGS[*i].scope != Scope::Operator), text) {
            (None, _) => self
                .warnings
                .push(format!("unknown {} {}", origin.as_str(), shown(key))),
            (Some(index), _) if origin == Origin::Namespace && SETTINGS[index].scope == Scope::Pod => {
                self.warnings
                    .push(format!("{key} has no effect on a namespace; set it on the pod"));
            }
            (Some(index), Ok(text)) => self.apply(index, origin, text, errors),
            (Some(_), Err(kind)) => errors.push(SettingError::not_a_string(key, kind)),
        }
    }

    fn apply(&mut self, index: usize, origin: Origin, text: &str, errors: &mut Vec<SettingError>) {
        let row = &SETTINGS[index];
        match (row.apply)(&mut self.settings, text) {
            Ok(()) => self.origins[index] = origin,
            Err(error) => errors.push(SettingError {
                origin,
                key: row.key.to_owned(),
                value: shown(text),
                reason: format!("{error}; allowed: {}", row.values),
            }),
        }
    }

    fn warn_of_labels(&mut self, labels: &StringMap<'_>) {
        for (key, _) in labels
            .iter()
            .filter(|(k, _)| k.starts_with(names::PREFIX) && *k != names::INJECT)
        {
            self.warnings.push(format!(
                "label {} has no effect; it is read from annotations",
                shown(key)
            ));
        }
    }

    /// A request may not exceed its limit: where only the request was set, the limit follows it.
    fn check_resources(&mut self, errors: &mut Vec<SettingError>) {
        let s = &mut self.settings;
        let pairs = [
            (
                &s.proxy_cpu_request,
                &mut s.proxy_cpu_limit,
                names::PROXY_CPU_REQUEST,
                names::PROXY_CPU_LIMIT,
            ),
            (
                &s.proxy_memory_request,
                &mut s.proxy_memory_limit,
                names::PROXY_MEMORY_REQUEST,
                names::PROXY_MEMORY_LIMIT,
            ),
        ];
        for (request, limit, request_key, limit_key) in pairs {
            let (Some(wanted), Some(most)) = (request, limit.as_ref()) else {
                continue;
            };
            if !wanted.exceeds(most) {
                continue;
            }
            let origins = [request_key, limit_key].map(|key| row_of(key).map_or(Origin::BuiltIn, |i| self.origins[i]));
            match origins {
                [request_origin, limit_origin] if request_origin > limit_origin => {
                    *limit = Some(wanted.clone());
                }
                [request_origin, _] => errors.push(SettingError {
                    origin: request_origin,
                    key: request_key.to_owned(),
                    value: shown(&wanted.to_string()),
                    reason: format!("is more than {limit_key}, {most}; raise the limit or lower the request"),
                }),
            }
        }
    }
}

impl SettingError {
    /// A pod annotation that is no string.
    #[must_use]
    pub fn not_a_string(key: &str, kind: &str) -> Self {
        Self {
            origin: Origin::Pod,
            key: key.to_owned(),
            value: kind.to_owned(),
            reason: "an annotation's value has to be a string; put it in quotes".to_owned(),
        }
    }
}

/// The index of the row with this key.
fn row_of(key: &str) -> Option<usize> {
    SETTINGS.iter().position(|row| row.key == key)
}
