//! What decisions and patches ask of a pod.

use super::{ContainerView, Field, MapValue, NO_ENTRIES, Named, PodView, Port, Probe, StringMap, Text};

impl<'a> PodView<'a> {
    /// The labels; empty when absent.
    #[must_use]
    pub fn labels(&self) -> &StringMap<'a> {
        self.metadata
            .value()
            .and_then(|m| m.labels.value())
            .unwrap_or(&NO_ENTRIES)
    }

    /// The annotations; empty when absent.
    #[must_use]
    pub fn annotations(&self) -> &StringMap<'a> {
        self.metadata
            .value()
            .and_then(|m| m.annotations.value())
            .unwrap_or(&NO_ENTRIES)
    }

    /// The ordinary containers.
    #[must_use]
    pub fn containers(&self) -> &[ContainerView<'a>] {
        self.spec.as_ref().map_or(&[], |s| s.containers.items())
    }

    /// The init containers.
    #[must_use]
    pub fn init_containers(&self) -> &[ContainerView<'a>] {
        self.spec.as_ref().map_or(&[], |s| s.init_containers.items())
    }

    /// The volumes.
    #[must_use]
    pub fn volumes(&self) -> &[Named<'a>] {
        self.spec.as_ref().map_or(&[], |s| s.volumes.items())
    }

    /// Every container of whatever kind.
    pub fn all_containers(&self) -> impl Iterator<Item = &ContainerView<'a>> {
        let ephemeral = self.spec.as_ref().map_or(&[][..], |s| s.ephemeral_containers.items());
        self.init_containers().iter().chain(self.containers()).chain(ephemeral)
    }

    /// The containers that serve while the pod runs: the ordinary ones and native sidecars.
    pub fn serving_containers(&self) -> impl Iterator<Item = &ContainerView<'a>> {
        let sidecars = self.init_containers().iter().filter(|c| c.is_native_sidecar());
        self.containers().iter().chain(sidecars)
    }

    /// Whether the pod ends by itself (`restartPolicy` is `Never` or `OnFailure`).
    #[must_use]
    pub fn runs_to_completion(&self) -> bool {
        let policy = self.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
        matches!(policy, Some("Never" | "OnFailure"))
    }

    /// The ServiceAccount the pod runs as.
    #[must_use]
    pub fn service_account(&self) -> &str {
        let name = self.spec.as_ref().and_then(|s| s.service_account_name.as_deref());
        name.filter(|n| !n.is_empty()).unwrap_or("default")
    }

    /// A name for messages: the name, or `generateName` with a `*` for the part that is not made yet.
    #[must_use]
    pub fn display_name(&self) -> String {
        let Some(meta) = self.metadata.value() else {
            return NO_NAME.to_owned();
        };
        match (filled(meta.name.as_ref()), filled(meta.generate_name.as_ref())) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => format!("{prefix}*"),
            (None, None) => NO_NAME.to_owned(),
        }
    }
}

const NO_NAME: &str = "(no name)";

fn filled<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(|t| &**t).filter(|n| !n.is_empty())
}

impl ContainerView<'_> {
    /// The name; empty when absent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Whether an init container runs beside the others (KEP-753).
    #[must_use]
    pub fn is_native_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// The declared TCP ports that are valid numbers, each with its name.
    pub fn tcp_ports(&self) -> impl Iterator<Item = (u16, &str)> {
        self.ports.iter().flatten().filter(|p| p.is_tcp()).filter_map(|p| {
            let number = u16::try_from(p.container_port?).ok().filter(|n| *n != 0)?;
            Some((number, p.name.as_deref().unwrap_or_default()))
        })
    }

    /// The probes that are set.
    pub fn probes(&self) -> impl Iterator<Item = &Probe<'_>> {
        [&self.liveness_probe, &self.readiness_probe, &self.startup_probe]
            .into_iter()
            .flatten()
    }
}

impl Port<'_> {
    fn is_tcp(&self) -> bool {
        matches!(self.protocol.as_deref(), None | Some("" | "TCP"))
    }
}

impl<T> Field<T> {
    /// The value, if there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }
}

impl<T> Field<Vec<T>> {
    /// The items; none when there is no list.
    pub fn items(&self) -> &[T] {
        self.value().map_or(&[], Vec::as_slice)
    }
}

impl<'a> StringMap<'a> {
    /// The string under `key`; none when it is absent, null or of another type.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(MapValue::Text(text)) => Some(text),
            Some(MapValue::Null | MapValue::Other(_)) | None => None,
        }
    }

    /// Whatever stands under `key`: the last of equal keys, as in the API server.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&MapValue<'a>> {
        self.0.iter().rev().find(|(k, _)| &**k == key).map(|(_, v)| v)
    }

    /// Whether `key` is there, whatever its value.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MapValue<'a>)> {
        self.0.iter().map(|(k, v)| (&**k, v))
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
