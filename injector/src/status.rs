//! The annotation in which Outrigger records what it added.

use serde::{Deserialize, Serialize};

use crate::names::PROXY_CONTAINER;
use crate::pod::{ContainerView, PodView};

/// Fields that a later version adds are passed over: its pods are injected for this one too.
/// What was added to a pod, as the annotation [`STATUS`](crate::names::STATUS) holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of Outrigger.
    pub version: String,
    /// The template.
    pub template: String,
    /// SHA-256 of what the template gave, the first 16 hexadecimal digits.
    pub digest: String,
    /// Names of the added containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// Names of the added init containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<String>,
    /// Names of the added volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Keys of the added annotations, but for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Keys of the added labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Maps and lists that were absent before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<Parent>,
    /// Maps and lists that were null before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_null: Vec<Parent>,
}

/// A map or list of a pod to which something is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Parent {
    /// `metadata`
    Metadata,
    /// `metadata.annotations`
    Annotations,
    /// `metadata.labels`
    Labels,
    /// `spec.initContainers`
    InitContainers,
    /// `spec.volumes`
    Volumes,
}

impl Status {
    /// Reads the annotation's text; `None` when it is not of Outrigger's making.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether the record holds: it names the proxy, and all containers that it names are there.
    /// (One that names others alone would hold for any pod, and be a way around injection.)
    #[must_use]
    pub fn holds(&self, pod: &PodView<'_>) -> bool {
        self.missing(pod).is_none()
    }

    /// The first container of the record that the pod lacks; the proxy itself, where the record does not name it.
    #[must_use]
    pub fn missing(&self, pod: &PodView<'_>) -> Option<&str> {
        let lacks = |list: &[ContainerView<'_>], name: &String| !list.iter().any(|c| c.name() == name);
        let names_proxy = |names: &[String]| names.iter().any(|name| name == PROXY_CONTAINER);
        if !names_proxy(&self.containers) && !names_proxy(&self.init_containers) {
            return Some(PROXY_CONTAINER);
        }
        let containers = self.containers.iter().filter(|name| lacks(pod.containers(), name));
        let init = self
            .init_containers
            .iter()
            .filter(|name| lacks(pod.init_containers(), name));
        containers.chain(init).next().map(String::as_str)
    }
}
