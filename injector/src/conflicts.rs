//! Row 11 of the decision: what the pod has that the overlay needs for itself.

use std::fmt;

use crate::pod::{ContainerView, PodView};
use crate::rendered::{Piece, Rendered};
use crate::settings::values::shown;

/// Two that want the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// A container, init container, volume, annotation or label.
    Name {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A TCP port.
    Port {
        /// The number.
        port: u16,
        /// The pod's container that declares it.
        container: String,
    },
    /// The uid whose traffic is not redirected.
    Uid {
        /// The number.
        uid: i64,
        /// The pod's container that runs under it.
        container: String,
    },
}

impl Conflict {
    /// The stable word of the kind.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        match self {
            Self::Name { .. } => "name-taken",
            Self::Port { .. } => "port-taken",
            Self::Uid { .. } => "uid-taken",
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, .. } if crate::names::WRITTEN.contains(&name.as_str()) => write!(
                f,
                "the annotation {name} is written by Outrigger alone, and what it records is not all there; remove it"
            ),
            Self::Name { kind, name } => {
                write!(
                    f,
                    "the pod has its own {kind} {}, a name that the proxy needs; rename it",
                    shown(name)
                )?;
                // What kubectl debug --copy-to makes of an injected pod.
                let copied = ", or if this is a copy of an injected pod, keep its annotations (--keep-annotations)";
                f.write_str(if name == crate::names::PROXY_CONTAINER {
                    copied
                } else {
                    ""
                })
            }
            Self::Port { port, container } => write!(
                f,
                "container {} declares port {port}, on which the proxy listens; choose another port",
                shown(container)
            ),
            Self::Uid { uid, container } => write!(
                f,
                "container {} runs as uid {uid}, the proxy's own, so its traffic would not be redirected; choose another uid",
                shown(container)
            ),
        }
    }
}

/// Everything that pod and overlay both want.
#[must_use]
pub fn conflicts(pod: &PodView<'_>, rendered: &Rendered) -> Vec<Conflict> {
    names(pod, rendered)
        .chain(ports(pod, rendered))
        .chain(uids(pod, rendered))
        .collect()
}

fn names<'c>(pod: &'c PodView<'_>, rendered: &'c Rendered) -> impl Iterator<Item = Conflict> + 'c {
    let has_container = |piece: &Piece| pod.all_containers().any(|c| c.name() == piece.name);
    let has_volume = |piece: &Piece| pod.volumes().iter().any(|v| v.name.as_deref() == Some(&piece.name));
    let containers = rendered
        .init_containers
        .iter()
        .chain(&rendered.containers)
        .filter(move |p| has_container(p));
    let volumes = rendered.volumes.iter().filter(move |p| has_volume(p));
    let annotations = rendered
        .annotations
        .iter()
        .filter(|p| pod.annotations().contains(&p.name));
    let labels = rendered.labels.iter().filter(|p| pod.labels().contains(&p.name));
    let status = pod
        .annotations()
        .contains(crate::names::STATUS)
        .then(|| crate::names::STATUS.to_owned());
    let of = |kind| {
        move |piece: &Piece| Conflict::Name {
            kind,
            name: piece.name.clone(),
        }
    };
    containers
        .map(of("container"))
        .chain(volumes.map(of("volume")))
        .chain(annotations.map(of("annotation")))
        .chain(status.map(|name| Conflict::Name {
            kind: "annotation",
            name,
        }))
        .chain(labels.map(of("label")))
}

fn ports<'c>(pod: &'c PodView<'_>, rendered: &'c Rendered) -> impl Iterator<Item = Conflict> + 'c {
    let declared = pod
        .serving_containers()
        .flat_map(|c| c.tcp_ports().map(move |(port, _)| (port, c.name())));
    let taken = declared.filter(|(port, _)| rendered.ports.binary_search(port).is_ok());
    taken.map(|(port, container)| Conflict::Port {
        port,
        container: container.to_owned(),
    })
}

fn uids<'c>(pod: &'c PodView<'_>, rendered: &'c Rendered) -> impl Iterator<Item = Conflict> + 'c {
    let inherited = pod
        .spec
        .as_ref()
        .and_then(|s| s.security_context)
        .and_then(|c| c.run_as_user);
    let uid = move |c: &ContainerView<'_>| c.security_context.and_then(|s| s.run_as_user).or(inherited);
    let exempt = rendered.exempt_uid;
    let same = pod
        .all_containers()
        .filter(move |c| exempt.is_some() && uid(c) == exempt);
    same.map(move |c| Conflict::Uid {
        uid: exempt.unwrap_or_default(),
        container: c.name().to_owned(),
    })
}
