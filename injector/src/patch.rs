//! (pod, what is added) → a patch of RFC 6902. The only file with JSON pointers.
//!
//! Every operation is an `add`: nothing of the pod is edited, moved or removed. Parents that are
//! absent or null are added whole, and recorded, so that `uninject` can restore the pod exactly.

use std::borrow::Cow;

use jsonptr::PointerBuf;

use crate::names;
use crate::pod::{ContainerView, Field, PodView};
use crate::rendered::{Piece, Rendered, json_of};
use crate::status::{Parent, Status};

/// An `add` operation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Add<'r> {
    path: PointerBuf,
    json: Cow<'r, str>,
}

/// A patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch<'r>(Vec<Add<'r>>);

impl<'r> Patch<'r> {
    /// The patch that adds `rendered` and the labels `defaults` to `pod`.
    #[must_use]
    pub fn new(pod: &PodView<'_>, rendered: &'r Rendered, defaults: &'r [Piece]) -> Self {
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            template: rendered.template.clone(),
            digest: rendered.digest.clone(),
            containers: names_of(&rendered.containers),
            init_containers: names_of(&rendered.init_containers),
            volumes: names_of(&rendered.volumes),
            ..Status::default()
        };
        let mut patch = Self::default();
        patch.lists(pod, rendered, &mut status);
        patch.metadata(pod, rendered, defaults, status);
        patch
    }

    fn add(&mut self, tokens: &[&str], json: impl Into<Cow<'r, str>>) {
        self.0.push(Add {
            path: PointerBuf::from_tokens(tokens.iter().copied()),
            json: json.into(),
        });
    }

    /// Containers and volumes.
    fn lists(&mut self, pod: &PodView<'_>, rendered: &'r Rendered, status: &mut Status) {
        let Some(spec) = &pod.spec else { return };
        let init = Place {
            list: "initContainers",
            parent: Parent::InitContainers,
            first: rendered.init_first,
        };
        self.insert(init, &spec.init_containers, &rendered.init_containers, status);
        let volumes = Place {
            list: "volumes",
            parent: Parent::Volumes,
            first: false,
        };
        self.insert(volumes, &spec.volumes, &rendered.volumes, status);
        for (index, piece) in rendered.containers.iter().enumerate() {
            let token = if rendered.containers_last {
                "-".to_owned()
            } else {
                index.to_string()
            };
            self.add(&["spec", "containers", &token], piece.json.as_str());
        }
    }

    fn insert<T>(&mut self, place: Place, existing: &Field<T>, pieces: &'r [Piece], status: &mut Status) {
        let Place { list, parent, first } = place;
        if pieces.is_empty() {
            return;
        }
        if record_parent(existing, parent, status) {
            let items: Vec<&str> = pieces.iter().map(|p| p.json.as_str()).collect();
            self.add(&["spec", list], format!("[{}]", items.join(",")));
            return;
        }
        for (index, piece) in pieces.iter().enumerate() {
            let token = if first { index.to_string() } else { "-".to_owned() };
            self.add(&["spec", list, &token], piece.json.as_str());
        }
    }

    /// Annotations and labels, the status annotation last, since it names the others.
    fn metadata(&mut self, pod: &PodView<'_>, rendered: &'r Rendered, defaults: &'r [Piece], mut status: Status) {
        let mut annotations: Vec<Entry<'r>> = rendered.annotations.iter().map(Entry::from).collect();
        annotations.extend(default_container(pod, rendered));
        let labels: Vec<Entry<'r>> = rendered.labels.iter().chain(defaults).map(Entry::from).collect();
        status.annotations = annotations.iter().map(|entry| entry.name.to_owned()).collect();
        status.labels = labels.iter().map(|entry| entry.name.to_owned()).collect();
        let meta = pod.metadata.value();
        let new_metadata = record_parent(&pod.metadata, Parent::Metadata, &mut status);
        let absent = Field::Absent;
        let new_annotations = record_parent(
            meta.map_or(&absent, |m| &m.annotations),
            Parent::Annotations,
            &mut status,
        );
        let new_labels =
            !labels.is_empty() && record_parent(meta.map_or(&absent, |m| &m.labels), Parent::Labels, &mut status);
        annotations.push(Entry {
            name: names::STATUS,
            json: json_of(&json_of(&status)).into(),
        });
        if new_metadata {
            let labels = if new_labels {
                format!(",\"labels\":{}", object(&labels))
            } else {
                String::new()
            };
            self.add(
                &["metadata"],
                format!("{{\"annotations\":{}{labels}}}", object(&annotations)),
            );
            return;
        }
        self.map("annotations", new_annotations, annotations);
        self.map("labels", new_labels, labels);
    }

    fn map(&mut self, map: &str, new: bool, entries: Vec<Entry<'r>>) {
        if new {
            return self.add(&["metadata", map], object(&entries));
        }
        for Entry { name, json } in entries {
            self.add(&["metadata", map, name], json);
        }
    }

    /// The patch as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let size = self.0.iter().map(|op| op.json.len() + op.path.len() + 40).sum();
        let mut out = String::with_capacity(size);
        for Add { path, json } in &self.0 {
            out.push_str(if out.is_empty() { "[" } else { "," });
            out.push_str(r#"{"op":"add","path":"#);
            out.push_str(&json_of(path.as_str()));
            out.push_str(r#","value":"#);
            out.push_str(json);
            out.push('}');
        }
        out.push_str(if out.is_empty() { "[]" } else { "]" });
        out
    }

    /// The bytes that the patch adds to the pod's annotations.
    #[must_use]
    pub fn annotation_bytes(&self) -> usize {
        let parent = ["/metadata/annotations", "/metadata"];
        let of = |op: &&Add<'_>| op.path.as_str().starts_with(parent[0]) || op.path.as_str() == parent[1];
        self.0.iter().filter(of).map(|op| op.json.len()).sum()
    }
}

/// A list of the pod's spec.
#[derive(Clone, Copy)]
struct Place {
    list: &'static str,
    parent: Parent,
    first: bool,
}

/// Whether the parent has to be added whole, which is recorded.
fn record_parent<T>(existing: &Field<T>, parent: Parent, status: &mut Status) -> bool {
    match existing {
        Field::Absent => status.created.push(parent),
        Field::Null => status.replaced_null.push(parent),
        Field::Value(_) => return false,
    }
    true
}

/// An annotation or label: its key and the JSON of its value.
struct Entry<'r> {
    name: &'r str,
    json: Cow<'r, str>,
}

impl<'r> From<&'r Piece> for Entry<'r> {
    fn from(piece: &'r Piece) -> Self {
        Self {
            name: &piece.name,
            json: piece.json.as_str().into(),
        }
    }
}

/// kubectl's default container: the pod's first, where the proxy would otherwise take its place.
fn default_container<'r>(pod: &PodView<'_>, rendered: &Rendered) -> Option<Entry<'r>> {
    let first = pod.containers().first().map(ContainerView::name)?;
    let needed = !rendered.containers.is_empty() && !pod.annotations().contains(names::DEFAULT_CONTAINER);
    needed.then(|| Entry {
        name: names::DEFAULT_CONTAINER,
        json: json_of(first).into(),
    })
}

fn names_of(pieces: &[Piece]) -> Vec<String> {
    pieces.iter().map(|piece| piece.name.clone()).collect()
}

fn object(entries: &[Entry<'_>]) -> String {
    let size = entries
        .iter()
        .map(|entry| entry.name.len() + entry.json.len() + 4)
        .sum::<usize>();
    let mut out = String::with_capacity(size + 2);
    for Entry { name, json } in entries {
        out.push_str(if out.is_empty() { "{" } else { "," });
        out.push_str(&json_of(name));
        out.push(':');
        out.push_str(json);
    }
    out.push_str(if out.is_empty() { "{}" } else { "}" });
    out
}
