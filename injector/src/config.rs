//! The configuration: `OUTRIGGER_*` variables in, a validated [`Config`] out.
//!
//! Pure: the variables are handed in, the environment is never read here. A variable is one row
//! of [`VARIABLES`], which is also where the reference page and the check for unknown variables
//! come from. Every error is found before any is reported.

mod certificate;
mod error;
mod log;
mod parse;
mod signer;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::names::ENV_PREFIX;

pub use self::certificate::{CertificateFiles, CertificateSource, Election, Lifetimes, Managed};
pub use self::error::{ConfigError, ConfigErrors};
pub use self::log::{LogConfig, LogFormat};
use self::parse::Kind;
pub use self::signer::{KeptBy, KeyType, Signer, SignerLifetimes};

/// Turns colours off when set to anything (<https://no-color.org>).
const NO_COLOR: &str = "NO_COLOR";

/// One variable: a row of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The full name, with its prefix.
    pub name: &'static str,
    /// The value that applies when the variable is unset or empty, if there is one.
    pub default: Option<&'static str>,
    /// One sentence for the reference page.
    pub help: &'static str,
}

macro_rules! variables {
    ($($id:ident = $name:literal, $default:expr, $help:literal;)*) => {
        $(const $id: Variable = Variable { name: $name, default: $default, help: $help };)*

        /// Every variable, in the order of the reference page.
        pub const VARIABLES: &[Variable] = &[$($id),*];
    };
}

variables! {
    LISTEN = "OUTRIGGER_LISTEN", Some("[::]:8443"),
        "Address of the webhooks (HTTPS); an unspecified IPv6 address falls back to IPv4 where the kernel has no IPv6.";
    ADMIN_LISTEN = "OUTRIGGER_ADMIN_LISTEN", Some("[::]:8080"),
        "Address of `/livez`, `/readyz` and `/metrics` (plain HTTP).";
    CERT_FILE = "OUTRIGGER_CERT_FILE", None,
        "PEM file with the serving certificate and its chain; `serve` needs it or `OUTRIGGER_CERT_SECRET`, and is not ready \
         until it is there.";
    KEY_FILE = "OUTRIGGER_KEY_FILE", None,
        "PEM file with the private key of the serving certificate.";
    CERT_SECRET = "OUTRIGGER_CERT_SECRET", None,
        "Secret in the release namespace in which the server itself keeps its authority and serving certificate, in place of files.";
    CERT_NAMES = "OUTRIGGER_CERT_NAMES", None,
        "DNS names and IP addresses in that certificate, separated by commas; by default `outrigger.<release namespace>.svc`, and the same with `.cluster.local`.";
    WEBHOOK_CONFIGURATION = "OUTRIGGER_WEBHOOK_CONFIGURATION", Some("outrigger"),
        "Name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration whose `caBundle` the server keeps.";
    LEASE = "OUTRIGGER_LEASE", Some("outrigger-leader"),
        "Lease in the release namespace by which the replicas agree on the one that renews.";
    POD_NAME = "OUTRIGGER_POD_NAME", None,
        "Name of this replica in the Lease, its pod's name; by default a random one.";
    CERT_LIFETIME = "OUTRIGGER_CERT_LIFETIME", Some("2160h"),
        "Lifetime of the serving certificate, which is renewed at two thirds of it.";
    CA_LIFETIME = "OUTRIGGER_CA_LIFETIME", Some("43800h"),
        "Lifetime of the authority, which is replaced at two thirds of it.";
    CA_OVERLAP = "OUTRIGGER_CA_OVERLAP", Some("5m"),
        "How long a new authority is trusted before a certificate of it is served, and the old one afterwards.";
    SIGNER_SECRET = "OUTRIGGER_SIGNER_SECRET", None,
        "Secret in the release namespace in which the server keeps the authority of the mesh; with it, it signs the identities of \
         proxies.";
    SIGNER_MODE = "OUTRIGGER_SIGNER_MODE", Some("self-managed"),
        "`self-managed`: the server fills that Secret; `secret`: somebody else does, with `tls.crt`, `tls.key` and `ca.crt`.";
    SIGNER_LEAF_LIFETIME = "OUTRIGGER_SIGNER_LEAF_LIFETIME", Some("24h"),
        "Lifetime of a proxy's certificate, from 1h to 2184h, if its pod does not ask for less; replaced at about half of it.";
    SIGNER_CA_LIFETIME = "OUTRIGGER_SIGNER_CA_LIFETIME", Some("8760h"),
        "Lifetime of the mesh's authority, which is replaced at two thirds of it.";
    SIGNER_OVERLAP = "OUTRIGGER_SIGNER_OVERLAP", Some("10m"),
        "How long a new authority is published before it signs; kubelets and proxies need about two minutes to learn of it.";
    SIGNER_KEY_TYPE = "OUTRIGGER_SIGNER_KEY_TYPE", Some("ecdsa-p256"),
        "`ecdsa-p256`, `ecdsa-p384` or `ed25519`: the kind of key of the next authority.";
    CLUSTER_ROLE = "OUTRIGGER_CLUSTER_ROLE", None,
        "ClusterRole that owns the published trust bundle, so that uninstalling removes it.";
    RELOAD_INTERVAL = "OUTRIGGER_RELOAD_INTERVAL", Some("10s"),
        "How often the certificate, its key and the requirements file are read again.";
    LOG = "OUTRIGGER_LOG", Some("info,actix_server=warn"),
        "Log filter: a level, or directives such as `info,outrigger=debug`.";
    LOG_FORMAT = "OUTRIGGER_LOG_FORMAT", Some("text"),
        "`text` or `json`.";
    WORKERS = "OUTRIGGER_WORKERS", None,
        "Threads that answer webhook calls, 1 to 512; by default one for each CPU the process may use.";
    DRAIN_DELAY = "OUTRIGGER_DRAIN_DELAY", Some("5s"),
        "How long after SIGTERM connections are still accepted, with readiness off, while endpoints move.";
    DRAIN_TIMEOUT = "OUTRIGGER_DRAIN_TIMEOUT", Some("20s"),
        "How long requests in flight may take to finish after that.";
    BODY_TIMEOUT = "OUTRIGGER_BODY_TIMEOUT", Some("10s"),
        "Deadline for a whole request body; 408 beyond it.";
    MAX_BODY_BYTES = "OUTRIGGER_MAX_BODY_BYTES", Some("7Mi"),
        "Largest request body; 413 beyond it. An update carries two objects of up to 3 MiB.";
    MAX_IN_FLIGHT_BYTES = "OUTRIGGER_MAX_IN_FLIGHT_BYTES", Some("64Mi"),
        "Request bytes held at any time, at least twice the largest body; 429 beyond it.";
    RELEASE_NAMESPACE = "OUTRIGGER_RELEASE_NAMESPACE", Some("outrigger-system"),
        "The namespace Outrigger runs in; its pods are never injected.";
    EXCLUDED_NAMESPACES = "OUTRIGGER_EXCLUDED_NAMESPACES", None,
        "Further namespaces that are never injected, separated by commas.";
    INJECT_DEFAULT = "OUTRIGGER_INJECT_DEFAULT", Some("disabled"),
        "`enabled` or `disabled`: what holds where neither namespace nor pod says.";
    TEMPLATES_DIR = "OUTRIGGER_TEMPLATES_DIR", None,
        "Folder of templates that add to the built-in ones or replace them.";
    REQUIREMENTS_FILE = "OUTRIGGER_REQUIREMENTS_FILE", None,
        "File with the label requirements; by default the built-in ones.";
    WATCH_SERVICES = "OUTRIGGER_WATCH_SERVICES", Some("enabled"),
        "`enabled` or `disabled`: whether `serve` watches the cluster's Services, in which `upstreams: auto` finds a pod's upstreams.";
    KUBECONFIG = "OUTRIGGER_KUBECONFIG", None,
        "Kubeconfig file for running outside a cluster; by default the pod's own service account.";
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What `serve` needs.
    pub server: ServerConfig,
    /// What decides about injection, on the server and offline.
    pub injection: InjectionVars,
}

/// How the server listens, limits, logs and stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Address of the webhooks.
    pub listen: SocketAddr,
    /// Address of health checks and metrics.
    pub admin_listen: SocketAddr,
    /// Where the serving certificate comes from; `serve` refuses to start without.
    pub certificate: Option<CertificateSource>,
    /// The signer of identities; `None`: somebody else signs, or nobody.
    pub signer: Option<Signer>,
    /// How often the certificate is read again.
    pub reload_interval: Duration,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Worker threads; `None` for one for each CPU.
    pub workers: Option<usize>,
    /// How long to go on accepting after SIGTERM.
    pub drain_delay: Duration,
    /// How long requests in flight may take after that.
    pub drain_timeout: Duration,
    /// Deadline for a whole request body.
    pub body_timeout: Duration,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Request bytes held at any time.
    pub max_in_flight_bytes: usize,
    /// Whether Services are watched.
    pub watch_services: bool,
    /// Kubeconfig for running outside a cluster.
    pub kubeconfig: Option<PathBuf>,
}

/// Variables that decide about injection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionVars {
    /// The namespace Outrigger runs in.
    pub release_namespace: String,
    /// Further namespaces that are never injected.
    pub excluded_namespaces: BTreeSet<String>,
    /// Whether pods are injected where neither namespace nor pod says.
    pub inject_by_default: bool,
    /// Folder of the operator's templates.
    pub templates_dir: Option<PathBuf>,
    /// File with the label requirements.
    pub requirements_file: Option<PathBuf>,
    /// Defaults of settings by the full name of their variable, not parsed yet.
    pub setting_defaults: BTreeMap<String, String>,
}

impl std::fmt::Display for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Config {
    /// Reads the configuration from variables: names and values, of which only those that start
    /// with [`ENV_PREFIX`] count, and `NO_COLOR`. `setting_variables` are the full names of variables that hold
    /// defaults of settings; their values are collected, not parsed.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn from_vars(
        vars: impl IntoIterator<Item = (String, String)>,
        setting_variables: &[String],
    ) -> Result<Self, ConfigErrors> {
        let mut vars: BTreeMap<String, String> = vars.into_iter().collect();
        let color = vars.get(NO_COLOR).is_none_or(String::is_empty);
        vars.retain(|name, _| name.starts_with(ENV_PREFIX));
        let mut reader = Reader {
            errors: unknown::check(&vars, setting_variables),
        };
        let setting_defaults = setting_defaults(&vars, setting_variables);
        let raw = envy::prefixed(ENV_PREFIX)
            .from_iter(vars)
            .expect("optional strings read from any text");
        let config = reader.config(raw, setting_defaults, color);
        match config {
            Some(config) if reader.errors.is_empty() => Ok(config),
            _ => Err(ConfigErrors(reader.errors)),
        }
    }
}

fn setting_defaults(vars: &BTreeMap<String, String>, allowed: &[String]) -> BTreeMap<String, String> {
    let set = vars
        .iter()
        .filter(|(name, value)| allowed.contains(name) && !value.trim().is_empty());
    set.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What envy reads. Flat and textual: envy can't nest, and its own errors lack the prefix.
#[derive(Deserialize)]
struct Raw {
    listen: Option<String>,
    admin_listen: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    cert_secret: Option<String>,
    cert_names: Option<String>,
    webhook_configuration: Option<String>,
    lease: Option<String>,
    pod_name: Option<String>,
    cert_lifetime: Option<String>,
    ca_lifetime: Option<String>,
    ca_overlap: Option<String>,
    signer_secret: Option<String>,
    signer_mode: Option<String>,
    signer_leaf_lifetime: Option<String>,
    signer_ca_lifetime: Option<String>,
    signer_overlap: Option<String>,
    signer_key_type: Option<String>,
    cluster_role: Option<String>,
    reload_interval: Option<String>,
    log: Option<String>,
    log_format: Option<String>,
    workers: Option<String>,
    drain_delay: Option<String>,
    drain_timeout: Option<String>,
    body_timeout: Option<String>,
    max_body_bytes: Option<String>,
    max_in_flight_bytes: Option<String>,
    release_namespace: Option<String>,
    excluded_namespaces: Option<String>,
    inject_default: Option<String>,
    templates_dir: Option<String>,
    requirements_file: Option<String>,
    watch_services: Option<String>,
    kubeconfig: Option<String>,
}

impl Raw {
    fn certificate(&mut self) -> certificate::Raw {
        certificate::Raw {
            secret: self.cert_secret.take(),
            names: self.cert_names.take(),
            webhook_configuration: self.webhook_configuration.take(),
            certificate_lifetime: self.cert_lifetime.take(),
            authority_lifetime: self.ca_lifetime.take(),
            overlap: self.ca_overlap.take(),
        }
    }

    fn signer(&mut self) -> signer::Raw {
        signer::Raw {
            secret: self.signer_secret.take(),
            mode: self.signer_mode.take(),
            leaf_lifetime: self.signer_leaf_lifetime.take(),
            authority_lifetime: self.signer_ca_lifetime.take(),
            overlap: self.signer_overlap.take(),
            key_type: self.signer_key_type.take(),
            cluster_role: self.cluster_role.take(),
        }
    }
}

/// Reads values and remembers what was wrong. `None` always means that an error was noted.
struct Reader {
    errors: Vec<ConfigError>,
}

impl Reader {
    fn config(&mut self, mut raw: Raw, setting_defaults: BTreeMap<String, String>, color: bool) -> Option<Config> {
        let (managed, signer) = (raw.certificate(), raw.signer());
        let release_namespace = self.required(RELEASE_NAMESPACE, raw.release_namespace, parse::NAMESPACE);
        let excluded = self.optional(EXCLUDED_NAMESPACES, raw.excluded_namespaces, parse::NAMESPACES);
        let inject_by_default = self.required(INJECT_DEFAULT, raw.inject_default, parse::SWITCH);
        let templates_dir = self.optional(TEMPLATES_DIR, raw.templates_dir, parse::FILE);
        let requirements_file = self.optional(REQUIREMENTS_FILE, raw.requirements_file, parse::FILE);
        let listen = self.required(LISTEN, raw.listen, parse::ADDRESS);
        let admin_listen = self.required(ADMIN_LISTEN, raw.admin_listen, parse::ADDRESS);
        let files = self.certificate_files(raw.cert_file, raw.key_file);
        let election = self.election(release_namespace.clone(), raw.lease, raw.pod_name);
        let managed = self.managed(managed, election.as_ref());
        let signer = self.signer(signer, election.as_ref());
        let certificate = self.certificate(files, managed);
        let reload = self.required(RELOAD_INTERVAL, raw.reload_interval, parse::INTERVAL);
        let filter = self.required(LOG, raw.log, parse::TEXT);
        let format = self.required(LOG_FORMAT, raw.log_format, parse::LOG_FORMAT);
        let workers = self.optional(WORKERS, raw.workers, parse::WORKERS);
        let drain_delay = self.required(DRAIN_DELAY, raw.drain_delay, parse::DELAY);
        let drain_timeout = self.required(DRAIN_TIMEOUT, raw.drain_timeout, parse::DELAY);
        let body_timeout = self.required(BODY_TIMEOUT, raw.body_timeout, parse::INTERVAL);
        let limits = self.limits(raw.max_body_bytes, raw.max_in_flight_bytes);
        let watch_services = self.required(WATCH_SERVICES, raw.watch_services, parse::SWITCH);
        let kubeconfig = self.optional(KUBECONFIG, raw.kubeconfig, parse::FILE);
        let (max_body_bytes, max_in_flight_bytes) = limits?;
        let server = ServerConfig {
            listen: listen?,
            admin_listen: admin_listen?,
            certificate: certificate?,
            signer: signer?,
            reload_interval: reload?,
            log: LogConfig {
                filter: filter?,
                format: format?,
                color,
            },
            workers: workers?,
            drain_delay: drain_delay?,
            drain_timeout: drain_timeout?,
            body_timeout: body_timeout?,
            max_body_bytes,
            max_in_flight_bytes,
            watch_services: watch_services?,
            kubeconfig: kubeconfig?,
        };
        let injection = InjectionVars {
            release_namespace: release_namespace?,
            excluded_namespaces: excluded?.unwrap_or_default(),
            inject_by_default: inject_by_default?,
            templates_dir: templates_dir?,
            requirements_file: requirements_file?,
            setting_defaults,
        };
        Some(Config { server, injection })
    }

    fn limits(&mut self, body: Option<String>, in_flight: Option<String>) -> Option<(usize, usize)> {
        let body = self.required(MAX_BODY_BYTES, body, parse::SIZE);
        let in_flight = self.required(MAX_IN_FLIGHT_BYTES, in_flight, parse::SIZE)?;
        let least = body?.saturating_mul(2);
        if in_flight < least {
            self.errors.push(ConfigError::SmallBudget { in_flight, least });
            return None;
        }
        Some((body?, in_flight))
    }

    fn required<T>(&mut self, variable: Variable, raw: Option<String>, kind: Kind<T>) -> Option<T> {
        let default = variable.default.expect("a required variable has a default");
        self.optional(variable, raw, kind)?.or_else(|| (kind.parse)(default))
    }

    fn optional<T>(&mut self, variable: Variable, raw: Option<String>, kind: Kind<T>) -> Option<Option<T>> {
        let Some(value) = raw.filter(|value| !value.trim().is_empty()) else {
            return Some(None);
        };
        let parsed = (kind.parse)(value.trim());
        if parsed.is_none() {
            self.errors.push(ConfigError::Invalid {
                variable: variable.name,
                value,
                expected: kind.expected,
            });
        }
        parsed.map(Some)
    }
}

#[cfg(test)]
mod tests;
