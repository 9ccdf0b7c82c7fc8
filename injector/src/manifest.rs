//! Manifests in, the same operations applied that the webhook would send, manifests out, and a
//! report of what was done to each object and why.

use serde_json::Value;

use crate::decision::Subject;
use crate::error::{InternalError, Outcome};
use crate::inject::{Injection, Injector, Verdict};
use crate::namespace::{NamespaceError, NamespaceInfo};
use crate::pod::PodView;
use crate::settings::values::shown;
use crate::uninject::{Uninjected, uninject};
use crate::workload::{Object, objects};
use crate::yaml::{self, Document, DuplicateKey, YamlError};

mod namespaces;
pub use namespaces::Namespaces;

/// A file's name and text.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name, as messages say it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Why manifests cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file is not YAML.
    #[error("{file}:{source}")]
    Yaml {
        /// The file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<YamlError>,
    },
    /// A Namespace object cannot be read.
    #[error("{file}: {source}")]
    Namespace {
        /// The file.
        file: String,
        /// What is wrong.
        #[source]
        source: NamespaceError,
    },
    /// A Service object cannot be read.
    #[error("{file}: service {name}: {source}")]
    Service {
        /// The file.
        file: String,
        /// The object's name.
        name: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A fault of ours or of a template.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// A parsed file.
#[derive(Debug)]
pub struct Manifest<'s> {
    /// The file.
    pub source: &'s Source,
    /// Its documents.
    pub documents: Vec<Document<'s>>,
}

/// What was done to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The object.
    pub object: Object,
    /// The stable word.
    pub outcome: &'static str,
    /// The sentence.
    pub reason: String,
    /// What its owner should know besides.
    pub warnings: Vec<String>,
    /// Whether it was refused.
    pub denied: bool,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The manifests.
    pub text: String,
    /// A line an object.
    pub report: Vec<Line>,
}

/// A patch of an object's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPatch {
    /// The object.
    pub object: Object,
    /// The operations, their pointers from the object's root.
    pub patch: Value,
}

/// Parses all files.
///
/// # Errors
/// A file is not YAML, with its line.
pub fn parse(sources: &[Source]) -> Result<Vec<Manifest<'_>>, ManifestError> {
    sources.iter().map(parse_one).collect()
}

fn parse_one(source: &Source) -> Result<Manifest<'_>, ManifestError> {
    let wrong = |e| ManifestError::Yaml {
        file: source.name.clone(),
        source: Box::new(e),
    };
    Ok(Manifest {
        source,
        documents: yaml::parse_stream(&source.text).map_err(wrong)?,
    })
}

/// The namespace of objects that say none, as kubectl takes it.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Calls `visit` with an object's pod as a subject. A namespace of which nothing is known counts as
/// enabled: the user asked for injection by name. `None`: the object has no pod.
pub fn with_subject<T>(
    document: &Value,
    object: &Object,
    namespaces: &Namespaces,
    visit: impl FnOnce(Result<Subject<'_, '_>, crate::pod::PodError>) -> T,
) -> Option<T> {
    let raw = object.pod(document)?.to_string();
    let enabled = NamespaceInfo::enabled();
    let namespace = object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let info = namespaces.get(namespace).unwrap_or(&enabled);
    let raw = if raw == "null" { "{}" } else { &raw };
    let pod = PodView::from_json(raw);
    Some(match &pod {
        Ok(pod) => visit(Ok(Subject {
            is_pod_create: true,
            namespace,
            info,
            pod,
            services: namespaces.services(),
        })),
        Err(error) => visit(Err(error.clone())),
    })
}

/// Injects every pod of a manifest.
///
/// # Errors
/// A template fails.
pub fn inject(injector: &Injector, manifest: &Manifest<'_>, namespaces: &Namespaces) -> Result<Output, ManifestError> {
    transform(manifest, |document, object| {
        let Some(injection) = injection(injector, document, object, namespaces)? else {
            return Ok((None, Line::no_pod(object)));
        };
        let line = Line::of(object, &injection);
        let patched = match &injection.verdict {
            Verdict::Inject(patch) => object.pod(document).map(|pod| applied(pod, patch)),
            Verdict::Skip(_) | Verdict::Deny(_) => None,
        };
        Ok((patched, line))
    })
}

/// What becomes of an object's pod; `None`: it has none.
fn injection(
    injector: &Injector,
    document: &Value,
    object: &Object,
    namespaces: &Namespaces,
) -> Result<Option<Injection>, InternalError> {
    with_subject(document, object, namespaces, |subject| match subject {
        Ok(subject) => injector.inject(subject),
        Err(error) => Ok(Injection::unreadable(error)),
    })
    .transpose()
}

/// The pod with a patch applied.
pub(crate) fn applied(pod: &Value, patch: &str) -> Value {
    let operations: json_patch::Patch = serde_json::from_str(patch).expect("our patches are patches");
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &operations).expect("our patches apply to the pod that they were made for");
    pod
}

/// The patches of every pod of a manifest that is injected, and the report.
///
/// # Errors
/// A template fails.
pub fn patches(
    injector: &Injector,
    manifest: &Manifest<'_>,
    namespaces: &Namespaces,
) -> Result<(Vec<ObjectPatch>, Vec<Line>), ManifestError> {
    let (mut patches, mut report) = (Vec::new(), Vec::new());
    for document in manifest.documents.iter().filter_map(|d| d.value.as_ref()) {
        for object in objects(document) {
            let Some(injection) = injection(injector, document, &object, namespaces)? else {
                report.push(Line::no_pod(&object));
                continue;
            };
            report.push(Line::of(&object, &injection));
            if let Verdict::Inject(patch) = &injection.verdict {
                patches.push(ObjectPatch {
                    patch: rooted(patch, &object.pod_pointer()),
                    object,
                });
            }
        }
    }
    Ok((patches, report))
}

/// A patch whose pointers begin at the object and not at its pod.
fn rooted(patch: &str, prefix: &str) -> Value {
    let mut operations: Value = serde_json::from_str(patch).expect("our patches are JSON");
    for operation in operations.as_array_mut().into_iter().flatten() {
        if let Some(Value::String(path)) = operation.get_mut("path") {
            path.insert_str(0, prefix);
        }
    }
    operations
}

/// Removes the proxy from every pod of a manifest.
///
/// # Errors
/// None today; the form is that of [`inject`].
pub fn remove(manifest: &Manifest<'_>) -> Result<Output, ManifestError> {
    transform(manifest, |document, object| {
        let Some(mut pod) = object.pod(document).cloned() else {
            return Ok((None, Line::no_pod(object)));
        };
        let (outcome, reason) = match uninject(&mut pod) {
            Uninjected::Done => ("uninjected", "the proxy was removed"),
            Uninjected::NotInjected => ("not-injected", "it has no proxy of Outrigger's"),
            Uninjected::UnreadableStatus => (
                "unreadable-status",
                "its status annotation is not of Outrigger's making",
            ),
        };
        Ok((
            (outcome == "uninjected").then_some(pod),
            Line::new(object, outcome, reason),
        ))
    })
}

type Change = (Option<Value>, Line);

/// Passes documents through, but for those in which `change` gives an object's pod a new value.
fn transform(
    manifest: &Manifest<'_>,
    mut change: impl FnMut(&Value, &Object) -> Result<Change, ManifestError>,
) -> Result<Output, ManifestError> {
    let mut output = Output::default();
    for document in &manifest.documents {
        let changed = changed(document, &mut output.report, &mut change)?;
        match changed {
            Some(value) => output.text.push_str(&document.replaced(&value)),
            None => output.text.push_str(document.text),
        }
    }
    Ok(output)
}

fn changed(
    document: &Document<'_>,
    report: &mut Vec<Line>,
    change: &mut impl FnMut(&Value, &Object) -> Result<Change, ManifestError>,
) -> Result<Option<Value>, ManifestError> {
    let Some(value) = &document.value else {
        return Ok(None);
    };
    let first = report.len();
    let mut copy: Option<Value> = None;
    for object in objects(value) {
        let (pod, line) = change(value, &object)?;
        report.push(line);
        if let Some(pod) = pod
            && let Some(place) = object.pod_mut(copy.get_or_insert_with(|| value.clone()))
        {
            *place = pod;
        }
    }
    if let Some(line) = report.get_mut(first) {
        line.warnings.extend(document.duplicate_keys.iter().map(duplicate));
    }
    Ok(copy)
}

fn duplicate(key: &DuplicateKey) -> String {
    format!(
        "line {}: {} stands there twice; the last one counts",
        key.line,
        shown(&key.path)
    )
}

impl Line {
    fn new(object: &Object, outcome: &'static str, reason: impl Into<String>) -> Self {
        Self {
            object: object.clone(),
            outcome,
            reason: reason.into(),
            warnings: Vec::new(),
            denied: false,
        }
    }

    fn no_pod(object: &Object) -> Self {
        Self::new(object, "no-pod", "its kind has no pod")
    }

    /// The line of an injection.
    #[must_use]
    pub fn of(object: &Object, injection: &Injection) -> Self {
        let (reason, denied) = match &injection.verdict {
            Verdict::Inject(_) => ("the proxy was added".to_owned(), false),
            Verdict::Skip(reason) => (reason.sentence(), false),
            Verdict::Deny(denial) => (denial.to_string(), true),
        };
        let outcome: Outcome = injection.outcome();
        Self {
            denied,
            warnings: injection.warnings.clone(),
            ..Self::new(object, outcome.as_str(), reason)
        }
    }
}
