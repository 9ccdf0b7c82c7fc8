//! An overlay made ready for patches: every part already written as JSON, to be shared by all pods
//! that are rendered alike.

use serde::Serialize;

use crate::context::RenderContext;
use crate::overlay::Overlay;

/// A named part and its JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The name of a container or volume, the key of an annotation or label.
    pub name: String,
    /// Its JSON.
    pub json: String,
}

/// What is added to each pod that is rendered alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The template.
    pub template: String,
    /// The digest of the overlay.
    pub digest: String,
    /// Ordinary containers.
    pub containers: Vec<Piece>,
    /// Whether they stand at the end.
    pub containers_last: bool,
    /// Init containers.
    pub init_containers: Vec<Piece>,
    /// Whether they stand before the pod's own.
    pub init_first: bool,
    /// Volumes.
    pub volumes: Vec<Piece>,
    /// Annotations.
    pub annotations: Vec<Piece>,
    /// Labels.
    pub labels: Vec<Piece>,
    /// The TCP ports that are taken.
    pub ports: Vec<u16>,
    /// The uid whose traffic is not redirected; `None` where nothing is.
    pub exempt_uid: Option<i64>,
}

impl Rendered {
    /// Writes out the parts of an overlay.
    #[must_use]
    pub fn new(template: &str, overlay: &Overlay, context: &RenderContext) -> Self {
        let Overlay {
            annotations,
            labels,
            containers,
            init_containers,
            volumes,
        } = overlay;
        Self {
            template: template.to_owned(),
            digest: overlay.digest(),
            containers: pieces(containers.iter().map(|c| (c.name.as_str(), c))),
            containers_last: context.proxy.last,
            init_containers: pieces(init_containers.iter().map(|c| (c.name.as_str(), c))),
            init_first: overlay.init_first(),
            volumes: pieces(volumes.iter().map(|v| (v.name.as_str(), v))),
            annotations: pieces(annotations.iter().map(|(k, v)| (k.as_str(), v))),
            labels: pieces(labels.iter().map(|(k, v)| (k.as_str(), v))),
            ports: ports(overlay, context),
            exempt_uid: context.redirect.is_some().then_some(context.proxy.uid),
        }
    }
}

impl Rendered {
    /// The bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let lists = [
            &self.containers,
            &self.init_containers,
            &self.volumes,
            &self.annotations,
            &self.labels,
        ];
        lists
            .into_iter()
            .flatten()
            .map(|piece| piece.name.len() + piece.json.len())
            .sum()
    }
}

/// The ports that the containers declare and those that nginx.conf listens on.
fn ports(overlay: &Overlay, context: &RenderContext) -> Vec<u16> {
    let declared = overlay.all_containers().flat_map(|c| c.ports.iter().flatten());
    let declared = declared.filter_map(|port| u16::try_from(port.container_port).ok());
    let mut ports: Vec<u16> = declared.chain(context.ports()).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn pieces<'p, T: Serialize + 'p>(parts: impl Iterator<Item = (&'p str, &'p T)>) -> Vec<Piece> {
    parts
        .map(|(name, part)| Piece {
            name: name.to_owned(),
            json: json_of(part),
        })
        .collect()
}

/// A value that has string keys and finite numbers only, as JSON.
pub(crate) fn json_of<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("the value has string keys and finite numbers only")
}
