//! `PodView`: the few fields of a raw pod that decisions and patches read.
//!
//! It borrows from the bytes of the request, knows nothing of the rest of the pod and is never
//! written back, so fields that this program has never heard of survive. `null` means absent
//! everywhere, as it does for the API server.

use std::borrow::Cow;

mod access;
mod read;

/// A pod, or the template of one.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
pub struct PodView<'a> {
    /// `metadata`.
    #[serde(borrow, default)]
    pub metadata: Field<Metadata<'a>>,
    /// `spec`: `None` when absent or null.
    #[serde(borrow, default)]
    pub spec: Option<Spec<'a>>,
}

/// The part of ObjectMeta that is read.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "an object")]
pub struct Metadata<'a> {
    /// The name; empty while only `generateName` is set.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// The prefix from which the API server makes the name.
    #[serde(borrow, default)]
    pub generate_name: Option<Text<'a>>,
    /// The labels.
    #[serde(borrow, default)]
    pub labels: Field<StringMap<'a>>,
    /// The annotations.
    #[serde(borrow, default)]
    pub annotations: Field<StringMap<'a>>,
}

/// The part of PodSpec that is read.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "an object")]
pub struct Spec<'a> {
    /// The ordinary containers.
    #[serde(borrow, default)]
    pub containers: Field<Vec<ContainerView<'a>>>,
    /// The init containers.
    #[serde(borrow, default)]
    pub init_containers: Field<Vec<ContainerView<'a>>>,
    /// The ephemeral containers.
    #[serde(borrow, default)]
    pub ephemeral_containers: Field<Vec<ContainerView<'a>>>,
    /// The volumes.
    #[serde(borrow, default)]
    pub volumes: Field<Vec<Named<'a>>>,
    /// Whether the pod shares the node's network.
    #[serde(default)]
    pub host_network: Option<bool>,
    /// The operating system the pod says it needs.
    #[serde(borrow, default)]
    pub os: Option<Named<'a>>,
    /// The labels the node must have.
    #[serde(borrow, default)]
    pub node_selector: Option<StringMap<'a>>,
    /// What happens when a container ends: `Always`, `OnFailure`, `Never`.
    #[serde(borrow, default)]
    pub restart_policy: Option<Text<'a>>,
    /// The pod's identity; absent means `default`.
    #[serde(borrow, default)]
    pub service_account_name: Option<Text<'a>>,
    /// The security context of all containers that have none of their own.
    #[serde(default)]
    pub security_context: Option<SecurityContext>,
    /// Seconds between SIGTERM and SIGKILL; absent means 30.
    #[serde(default)]
    pub termination_grace_period_seconds: Option<i64>,
}

/// The part of Container that is read.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "an object")]
pub struct ContainerView<'a> {
    /// The name.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// The declared ports.
    #[serde(borrow, default)]
    pub ports: Option<Vec<Port<'a>>>,
    /// `Always` on an init container makes it a native sidecar (KEP-753).
    #[serde(borrow, default)]
    pub restart_policy: Option<Text<'a>>,
    /// The container's own security context.
    #[serde(default)]
    pub security_context: Option<SecurityContext>,
    /// The kubelet's checks.
    #[serde(borrow, default)]
    pub liveness_probe: Option<Probe<'a>>,
    /// The kubelet's checks.
    #[serde(borrow, default)]
    pub readiness_probe: Option<Probe<'a>>,
    /// The kubelet's checks.
    #[serde(borrow, default)]
    pub startup_probe: Option<Probe<'a>>,
}

/// A declared container port.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "an object")]
pub struct Port<'a> {
    /// The name, whose prefix tells the protocol.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// The number; checked by its users, since the API server checks after us.
    #[serde(default)]
    pub container_port: Option<i64>,
    /// `TCP` (also when absent), `UDP` or `SCTP`.
    #[serde(borrow, default)]
    pub protocol: Option<Text<'a>>,
}

/// A kubelet probe, as far as it reaches the network.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "an object")]
pub struct Probe<'a> {
    /// GET over HTTP or HTTPS.
    #[serde(borrow, default)]
    pub http_get: Option<ProbeTarget<'a>>,
    /// A TCP connection.
    #[serde(borrow, default)]
    pub tcp_socket: Option<ProbeTarget<'a>>,
    /// The gRPC health service.
    #[serde(borrow, default)]
    pub grpc: Option<ProbeTarget<'a>>,
}

/// Where a probe goes.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
pub struct ProbeTarget<'a> {
    /// A number or the name of a container port.
    #[serde(borrow, default)]
    pub port: Option<PortRef<'a>>,
    /// The path of an HTTP probe.
    #[serde(borrow, default)]
    pub path: Option<Text<'a>>,
    /// `HTTP` (also when absent) or `HTTPS`.
    #[serde(borrow, default)]
    pub scheme: Option<Text<'a>>,
}

/// The part of SecurityContext that is read.
#[derive(Debug, Default, Clone, Copy, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "an object")]
pub struct SecurityContext {
    /// The uid.
    #[serde(default)]
    pub run_as_user: Option<i64>,
}

/// An object of which only the name matters.
#[derive(Debug, Default, Clone, serde::Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
pub struct Named<'a> {
    /// The name.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
}

/// A probe's port.
#[derive(Debug, Clone)]
pub enum PortRef<'a> {
    /// By number.
    Number(i64),
    /// By the name of a container port.
    Name(Text<'a>),
}

/// A string, borrowed where it has no escapes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Text<'a>(Cow<'a, str>);

/// A field whose absence, null and value call for different patches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// The key is not there.
    #[default]
    Absent,
    /// The key is there, its value is null.
    Null,
    /// The key has a value.
    Value(T),
}

/// Labels or annotations, in the order of the input.
#[derive(Debug, Default, Clone)]
pub struct StringMap<'a>(Vec<(Text<'a>, MapValue<'a>)>);

static NO_ENTRIES: StringMap<'static> = StringMap(Vec::new());

/// The value of a label or annotation: a string, or what should have been one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapValue<'a> {
    /// A string.
    Text(Text<'a>),
    /// null, which the API server reads as an empty string and which is taken as absent here.
    Null,
    /// A value of another type, which the API server refuses.
    Other(&'static str),
}

impl PodView<'_> {
    /// Reads a pod from JSON.
    ///
    /// # Errors
    /// A field that is read has a wrong type; the message names its path.
    pub fn from_json(raw: &str) -> Result<PodView<'_>, PodError> {
        serde_json::from_str(raw).map_err(|_| PodError::locate(raw))
    }
}

/// A pod that cannot be read.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{path}: {message}")]
pub struct PodError {
    /// The path of the field, such as `spec.containers[0].name`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl PodError {
    /// Reads again, slowly, to find the path of the error.
    fn locate(raw: &str) -> Self {
        let mut de = serde_json::Deserializer::from_str(raw);
        match serde_path_to_error::deserialize::<_, PodView<'_>>(&mut de) {
            Ok(_) => Self {
                path: ".".to_owned(),
                message: "trailing characters after the pod".to_owned(),
            },
            Err(error) => Self {
                path: error.path().to_string(),
                message: error.inner().to_string(),
            },
        }
    }
}
