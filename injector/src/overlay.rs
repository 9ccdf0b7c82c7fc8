//! What a template gives: typed, complete, and nothing that Kubernetes would not know.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Volume};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::map_only::map_only;
use crate::names;
use crate::yaml;

/// What is added to a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Overlay {
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Ordinary containers.
    #[serde(default)]
    pub containers: Vec<Container>,
    /// Init containers. Where one of them is a native sidecar, all stand before the pod's own, in
    /// their order; else all stand after them, so that the pod's own still have network.
    #[serde(default)]
    pub init_containers: Vec<Container>,
    /// Volumes.
    #[serde(default)]
    pub volumes: Vec<Volume>,
}

map_only!(Overlay);

/// Text that is no overlay.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// It is not YAML.
    #[error("the rendered text is not YAML: {0}")]
    Yaml(#[from] yaml::YamlError),
    /// A field has a wrong type or is missing.
    #[error("{path}: {message}")]
    Type {
        /// Where.
        path: String,
        /// What.
        message: String,
    },
    /// Fields that Kubernetes does not know.
    #[error("unknown field {}", .0.join(", "))]
    UnknownFields(Vec<String>),
    /// Something that an injected container must have is not there.
    #[error("{path}: {message}")]
    Rule {
        /// Where.
        path: String,
        /// What.
        message: String,
    },
}

impl Overlay {
    /// Reads the text that a template gave.
    ///
    /// # Errors
    /// The text is no YAML, a field is unknown or of a wrong type, or a rule of [`Overlay::check`] is broken.
    pub fn parse(text: &str) -> Result<Self, OverlayError> {
        let overlay = Self::from_value(yaml::parse_one(text)?)?;
        overlay.check()?;
        Ok(overlay)
    }

    fn from_value(value: Value) -> Result<Self, OverlayError> {
        let mut unknown = Vec::new();
        let mut track = serde_path_to_error::Track::new();
        let read = {
            let mut note = |path: serde_ignored::Path<'_>| unknown.push(path.to_string());
            let inner = serde_path_to_error::Deserializer::new(value, &mut track);
            serde_ignored::deserialize::<_, _, Self>(inner, &mut note)
        };
        match read {
            Err(error) => Err(OverlayError::Type {
                path: track.path().to_string(),
                message: error.to_string(),
            }),
            Ok(_) if !unknown.is_empty() => Err(OverlayError::UnknownFields(unknown)),
            Ok(overlay) => Ok(overlay),
        }
    }

    /// The rules of injected containers: the proxy is among them, requests and limits for CPU and memory, no names of ports
    /// (a Service's named targetPort would take them), every mount with its volume.
    fn check(&self) -> Result<(), OverlayError> {
        let containers = self
            .containers
            .iter()
            .enumerate()
            .map(|(i, c)| (format!("containers[{i}]"), c));
        let init = self
            .init_containers
            .iter()
            .enumerate()
            .map(|(i, c)| (format!("initContainers[{i}]"), c));
        if !self.all_containers().any(|c| c.name == names::PROXY_CONTAINER) {
            return Err(rule(
                ".",
                "no container proxy-sidecar, by which an injected pod is known",
            ));
        }
        containers.chain(init).try_for_each(|(path, container)| {
            check_resources(&path, container)?;
            check_ports(&path, container)?;
            self.check_mounts(&path, container)
        })
    }

    fn check_mounts(&self, path: &str, container: &Container) -> Result<(), OverlayError> {
        let known = |name: &str| self.volumes.iter().any(|v| v.name == name);
        match container.volume_mounts.iter().flatten().find(|m| !known(&m.name)) {
            Some(mount) => Err(rule(
                &format!("{path}.volumeMounts"),
                &format!("no volume called {}", mount.name),
            )),
            None => Ok(()),
        }
    }

    /// Whether the init containers stand before the pod's own.
    #[must_use]
    pub fn init_first(&self) -> bool {
        self.init_containers
            .iter()
            .any(|c| c.restart_policy.as_deref() == Some("Always"))
    }

    /// Every container, with the name of its list.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }

    /// The start of the SHA-256 of the overlay's JSON, by which two are told apart.
    #[must_use]
    pub fn digest(&self) -> String {
        let Self {
            annotations,
            labels,
            containers,
            init_containers,
            volumes,
        } = self;
        let json = serde_json::to_vec(&(annotations, labels, containers, init_containers, volumes))
            .expect("an overlay has string keys and finite numbers only");
        Sha256::digest(json)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

fn rule(path: &str, message: &str) -> OverlayError {
    OverlayError::Rule {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}

fn check_resources(path: &str, container: &Container) -> Result<(), OverlayError> {
    let resources = container.resources.as_ref();
    let parts = [
        ("requests", resources.and_then(|r| r.requests.as_ref())),
        ("limits", resources.and_then(|r| r.limits.as_ref())),
    ];
    for (part, map) in parts {
        for resource in ["cpu", "memory"] {
            if !map.is_some_and(|map| map.contains_key(resource)) {
                return Err(rule(
                    &format!("{path}.resources.{part}.{resource}"),
                    "missing: a quota would refuse the pod",
                ));
            }
        }
    }
    Ok(())
}

fn check_ports(path: &str, container: &Container) -> Result<(), OverlayError> {
    match container.ports.iter().flatten().position(|port| port.name.is_some()) {
        Some(i) => Err(rule(
            &format!("{path}.ports[{i}].name"),
            "a port's name could take a Service's traffic",
        )),
        None => Ok(()),
    }
}
