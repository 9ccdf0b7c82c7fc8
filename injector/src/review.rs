//! AdmissionReview in, AdmissionReview out (`admission.k8s.io/v1`).
//!
//! The structs are our own: those of the kube crate write the patch as a list of numbers.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::map_only::{MapOnly, map_only};
use crate::pod::{Field, PodError, PodView, Text};
use crate::settings::values::words;
use crate::workload::{descend, template_path};

mod answer;
mod judge;

pub use answer::Answer;

words! {
    /// Which webhook is called.
    Endpoint {
        /// Injects.
        Mutate = "mutate",
        /// Checks.
        Validate = "validate",
    }
}

/// A decoded request, borrowed from the body.
#[derive(Debug)]
pub struct Review<'a> {
    request: Request<'a, Content<'a>>,
}

/// An object of the request.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // There are two of them, on the stack, and the large one is the usual.
enum Content<'a> {
    /// Read as a pod together with the request: the usual case, one pass over the bytes.
    Pod(PodView<'a>),
    /// Text that does not read as a pod; what is wrong with it is told where it matters.
    Text(&'a str),
}

/// A body that is no review of ours. Over HTTP it is a 400.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// It is not JSON, or a field has a wrong type.
    #[error("the body is no AdmissionReview in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is something else.
    #[error("expected kind AdmissionReview of admission.k8s.io/v1, got kind {kind:?} of {api_version:?}")]
    OtherKind {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        api_version: String,
    },
    /// It is a review in a version that Kubernetes dropped in 1.22.
    #[error("AdmissionReview {0:?} is not supported: list v1 in the webhook's admissionReviewVersions")]
    OtherVersion(String),
    /// It has no request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// The request has no uid.
    #[error("request.uid is missing or empty")]
    NoUid,
}

#[derive(Deserialize)]
#[serde(
    remote = "Self",
    rename_all = "camelCase",
    expecting = "an object",
    bound(deserialize = "O: Deserialize<'de>")
)]
struct RawReview<'a, O> {
    #[serde(borrow, default)]
    api_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    request: Option<Request<'a, O>>,
}

#[derive(Debug, Deserialize)]
#[serde(
    remote = "Self",
    rename_all = "camelCase",
    expecting = "an object",
    bound(deserialize = "O: Deserialize<'de>")
)]
struct Request<'a, O> {
    #[serde(borrow, default)]
    uid: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource: Option<Resource<'a>>,
    #[serde(borrow, default)]
    sub_resource: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    operation: Option<Text<'a>>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default = "Option::default")]
    object: Option<O>,
    #[serde(default = "Option::default")]
    old_object: Option<O>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
struct Resource<'a> {
    #[serde(borrow, default)]
    group: Option<Text<'a>>,
    #[serde(borrow, default)]
    version: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource: Option<Text<'a>>,
}

map_only!(Resource<'a>);

impl<'de: 'a, 'a, O: Deserialize<'de>> Deserialize<'de> for RawReview<'a, O> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(MapOnly(deserializer))
    }
}

impl<'de: 'a, 'a, O: Deserialize<'de>> Deserialize<'de> for Request<'a, O> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(MapOnly(deserializer))
    }
}

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Reads a request's body. Fields that nobody reads may hold anything.
///
/// # Errors
/// The body is no AdmissionReview v1 with a request.
pub fn decode(body: &[u8]) -> Result<Review<'_>, ReviewError> {
    if let Ok(review) = serde_json::from_slice::<RawReview<'_, PodView<'_>>>(body) {
        let review = Review {
            request: review.request()?.map(Content::Pod),
        };
        if review.template_path().is_none() {
            return Ok(review);
        }
    }
    // A second pass, for workloads, and for objects that are no pods: whether that matters depends on the rest.
    let review = serde_json::from_slice::<RawReview<'_, &RawValue>>(body)?;
    Ok(Review {
        request: review.request()?.map(|raw| Content::Text(raw.get())),
    })
}

impl<'a, O> RawReview<'a, O> {
    fn request(self) -> Result<Request<'a, O>, ReviewError> {
        let Self {
            api_version,
            kind,
            request,
        } = self;
        let (kind, version) = (kind.unwrap_or_default(), api_version.unwrap_or_default());
        if &*kind != KIND {
            return Err(ReviewError::OtherKind {
                kind: kind.to_string(),
                api_version: version.to_string(),
            });
        }
        if &*version != API_VERSION {
            return Err(ReviewError::OtherVersion(version.to_string()));
        }
        let request = request.ok_or(ReviewError::NoRequest)?;
        if request.uid.as_deref().unwrap_or_default().is_empty() {
            return Err(ReviewError::NoUid);
        }
        Ok(request)
    }
}

impl<'a, O> Request<'a, O> {
    fn map<P>(self, read: impl Fn(O) -> P) -> Request<'a, P> {
        let Self {
            uid,
            resource,
            sub_resource,
            namespace,
            operation,
            dry_run,
            object,
            old_object,
        } = self;
        let (object, old_object) = (object.map(&read), old_object.map(&read));
        Request {
            uid,
            resource,
            sub_resource,
            namespace,
            operation,
            dry_run,
            object,
            old_object,
        }
    }
}

impl<'a> Review<'a> {
    /// The request's uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.request.uid.as_deref().unwrap_or_default()
    }

    /// The request's namespace; the object's own does not count.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.request.namespace.as_deref().unwrap_or_default()
    }

    /// Whether nothing is to be stored.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        self.request.dry_run.unwrap_or_default()
    }

    /// Whether the namespace's labels and annotations can matter.
    #[must_use]
    pub fn needs_namespace(&self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Mutate => self.is_pod_create(),
            Endpoint::Validate => self.is_pod_create() || self.is_pod_update() || self.template_path().is_some(),
        }
    }

    /// The creation of a pod.
    fn is_pod_create(&self) -> bool {
        self.is_pods() && self.operation() == "CREATE" && self.sub_resource().is_empty()
    }

    /// An update that can change a pod's labels: of the pod or of its status.
    fn is_pod_update(&self) -> bool {
        self.is_pods() && self.operation() == "UPDATE" && matches!(self.sub_resource(), "" | "status")
    }

    /// Where the pod template is, when a workload is created or updated.
    fn template_path(&self) -> Option<&'static [&'static str]> {
        let stored = matches!(self.operation(), "CREATE" | "UPDATE") && self.sub_resource().is_empty();
        let Resource {
            group,
            version,
            resource,
        } = self.request.resource.as_ref().filter(|_| stored)?;
        let [group, version, resource] = [group, version, resource].map(|text| text.as_deref().unwrap_or_default());
        template_path(group, version, resource)
    }

    fn is_pods(&self) -> bool {
        self.request.resource.as_ref().is_some_and(|resource| {
            let Resource {
                group,
                version,
                resource,
            } = resource;
            group.as_deref().unwrap_or_default().is_empty()
                && version.as_deref() == Some("v1")
                && resource.as_deref() == Some("pods")
        })
    }

    fn operation(&self) -> &str {
        self.request.operation.as_deref().unwrap_or_default()
    }

    fn sub_resource(&self) -> &str {
        self.request.sub_resource.as_deref().unwrap_or_default()
    }

    /// The pod of the request, or the template of its pods; an empty one where the request is about neither.
    fn pod(&self) -> Result<Cow<'_, PodView<'a>>, PodError> {
        let missing = || PodError {
            path: "request.object".to_owned(),
            message: "missing or null".to_owned(),
        };
        if self.template_path().is_none() && !self.is_pod_create() && !self.is_pod_update() {
            return Ok(Cow::Owned(PodView::default()));
        }
        self.request
            .object
            .as_ref()
            .ok_or_else(missing)?
            .pod(self.template_path())
    }

    /// What there was before an update. A creation has nothing before it, whatever the request says.
    fn old_object(&self) -> Option<&Content<'a>> {
        let old = self.request.old_object.as_ref();
        old.filter(|_| self.operation() == "UPDATE")
    }

    /// The pod or template before an update.
    fn old_pod(&self) -> Result<Option<Cow<'_, PodView<'a>>>, PodError> {
        self.old_object().map(|old| old.pod(self.template_path())).transpose()
    }

    /// Whether an update leaves the pod template as it was.
    fn keeps_template(&self) -> bool {
        let raw = |content: Option<&Content<'a>>| match (content, self.template_path()) {
            (Some(Content::Text(text)), Some(path)) => descend(text, path).ok().flatten(),
            _ => None,
        };
        let template = raw(self.request.object.as_ref());
        template.is_some() && template == raw(self.old_object())
    }

    /// The object's name for logs.
    fn display_name(&self) -> String {
        match &self.request.object {
            Some(Content::Pod(pod)) => pod.display_name(),
            Some(Content::Text(text)) => {
                // What does not read as metadata has no name.
                let metadata = descend(text, &["metadata"])
                    .ok()
                    .flatten()
                    .and_then(|raw| serde_json::from_str(raw).ok());
                PodView {
                    metadata: metadata.map_or(Field::Absent, Field::Value),
                    spec: None,
                }
                .display_name()
            }
            None => PodView::default().display_name(),
        }
    }
}

impl<'a> Content<'a> {
    fn pod(&self, template: Option<&[&str]>) -> Result<Cow<'_, PodView<'a>>, PodError> {
        match self {
            Self::Pod(pod) => Ok(Cow::Borrowed(pod)),
            Self::Text(text) => {
                let raw = descend(text, template.unwrap_or_default())?.unwrap_or("{}");
                PodView::from_json(raw).map(Cow::Owned)
            }
        }
    }
}
