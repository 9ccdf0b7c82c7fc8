//! A live cluster: its lists, page by page, and what it would make of a pod.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{ListParams, PostParams};
use kube::config::{InferConfigError, KubeconfigError};
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::settings::values::{is_dns_label, shown};

mod way;

pub(super) use way::Way;
use way::without_password;

/// How many objects the API server is asked for at once: as many as kubectl does.
const PAGE: u32 = 500;

/// How the API server begins to say that a webhook refused an object (apiserver, `webhook/errors`), before the webhook's
/// name in quotes: the status code is that of a missing right, too.
const DENIAL: &str = "admission webhook \"";

/// Why a cluster cannot be read, or refuses a pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClusterError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}: {source}")]
    Kubeconfig { path: String, source: Box<KubeconfigError> },
    /// The context cannot be used.
    #[error("cannot use the context {context}: {source}")]
    Context {
        context: String,
        source: Box<KubeconfigError>,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error("no way to a cluster; give --kubeconfig or set KUBECONFIG: {0}")]
    Nowhere(#[source] Box<InferConfigError>),
    /// The client cannot be made from what was read.
    #[error("cannot make a client for the API server: {0}")]
    Client(#[source] Box<kube::Error>),
    /// The user may not do it.
    #[error("the verb {verb} on {resource}{scope} is missing: grant it to the user ({message})")]
    Forbidden {
        verb: &'static str,
        resource: &'static str,
        scope: String,
        message: String,
    },
    /// Something else than a missing right stands against it: a quota, a LimitRange, PodSecurity, a policy.
    #[error("the API server refuses to {verb} {resource}{scope}: {message}")]
    Refused {
        verb: &'static str,
        resource: &'static str,
        scope: String,
        message: String,
    },
    /// A webhook refused the pod.
    #[error("the pod was refused: {message}")]
    Denied { webhook: String, message: String },
    /// It does not exist.
    #[error("namespace {0} does not exist")]
    NoNamespace(String),
    /// The API server could not be reached, or gave another error.
    #[error("cannot {verb} {resource}{scope}: {source}")]
    Api {
        verb: &'static str,
        resource: &'static str,
        scope: String,
        source: Box<kube::Error>,
    },
    /// The answer is none of an API server.
    #[error("the answer to {verb} {resource} cannot be read: {source}")]
    Answer {
        verb: &'static str,
        resource: &'static str,
        source: serde_json::Error,
    },
}

/// Runs what asks a cluster until it is done.
pub(super) fn block_on<T>(asks: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(asks)
}

/// A cluster that is read.
pub(super) struct Cluster {
    client: Client,
    address: String,
}

/// What is asked for.
#[derive(Clone, Copy)]
struct Question<'q> {
    verb: &'static str,
    resource: &'static str,
    namespace: Option<&'q str>,
}

/// A list that is read page by page.
pub(super) struct Listing<'c> {
    client: &'c Client,
    question: Question<'c>,
    next: Next,
}

enum Next {
    First,
    Token(String),
    End,
}

/// A page of a list.
pub(super) struct Listed {
    /// The JSON of its objects.
    pub(super) items: Vec<Box<RawValue>>,
    /// How many there will be after them, as far as the API server says.
    pub(super) remaining: u64,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default)]
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(rename = "continue", default)]
    token: String,
    #[serde(default)]
    remaining_item_count: Option<u64>,
}

impl Cluster {
    /// The cluster that kubectl would take: of the kubeconfig, of the environment's, or the one this runs in.
    pub(super) async fn connect(way: &Way) -> Result<Self, ClusterError> {
        let config = way.config().await?;
        let address = without_password(&config.cluster_url.to_string());
        let client = Client::try_from(config).map_err(|error| ClusterError::Client(Box::new(error)))?;
        Ok(Self { client, address })
    }

    /// Lets the API server admit a pod without storing it; the JSON of what it would have stored.
    pub(super) async fn create_dry_run(&self, namespace: &str, pod: &Value) -> Result<String, ClusterError> {
        // The name becomes part of a URL.
        if !is_dns_label(namespace) {
            return Err(ClusterError::NoNamespace(shown(namespace)));
        }
        let question = Question {
            verb: "create",
            resource: "pods",
            namespace: Some(namespace),
        };
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
        let request = request.create(&params, pod.to_string().into_bytes());
        let request = request.map_err(|error| question.failed(kube::Error::BuildRequest(error)))?;
        match self.client.request_text(request).await {
            Ok(text) => Ok(text),
            Err(error) => Err(denied(&error).unwrap_or_else(|| question.failed(error))),
        }
    }

    /// For what is asked by its type.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The address of the API server.
    pub(super) fn address(&self) -> &str {
        self.address.trim_end_matches('/')
    }

    /// All namespaces.
    pub(super) async fn namespaces(&self) -> Result<Vec<Value>, ClusterError> {
        let namespaces: Vec<Value> = self.all("namespaces").await?;
        Ok(namespaces.into_iter().map(as_namespace).collect())
    }

    /// All Services.
    pub(super) async fn services(&self) -> Result<Vec<Service>, ClusterError> {
        self.all("services").await
    }

    async fn all<T: DeserializeOwned>(&self, resource: &'static str) -> Result<Vec<T>, ClusterError> {
        let mut listing = self.listing(resource, None);
        let mut all = Vec::new();
        while let Some(Listed { items, .. }) = listing.next().await? {
            for item in items {
                all.push(listing.question.read(item.get())?);
            }
        }
        Ok(all)
    }

    /// One namespace.
    pub(super) async fn namespace(&self, name: &str) -> Result<Value, ClusterError> {
        // The name becomes part of a URL.
        if !is_dns_label(name) {
            return Err(ClusterError::NoNamespace(shown(name)));
        }
        let question = Question {
            verb: "get",
            resource: "namespaces",
            namespace: Some(name),
        };
        let request = Request::new("/api/v1/namespaces").get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| question.failed(kube::Error::BuildRequest(error)))?;
        match self.client.request_text(request).await {
            Ok(text) => question.read(&text).map(as_namespace),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(ClusterError::NoNamespace(name.to_owned())),
            Err(error) => Err(question.failed(error)),
        }
    }

    /// The pods of a namespace, or of all.
    pub(super) fn pods<'c>(&'c self, namespace: Option<&'c str>) -> Listing<'c> {
        self.listing("pods", namespace)
    }

    fn listing<'c>(&'c self, resource: &'static str, namespace: Option<&'c str>) -> Listing<'c> {
        Listing {
            client: &self.client,
            question: Question {
                verb: "list",
                resource,
                namespace,
            },
            next: Next::First,
        }
    }
}

impl Listing<'_> {
    /// The next page; `None`: there is none.
    pub(super) async fn next(&mut self) -> Result<Option<Listed>, ClusterError> {
        let token = match std::mem::replace(&mut self.next, Next::End) {
            Next::First => None,
            Next::Token(token) => Some(token),
            Next::End => return Ok(None),
        };
        let text = match self.page(token).await {
            // The list is older than the API server keeps. It offers to go on with the names after the
            // last one, as they are now.
            Err(kube::Error::Api(status)) if status.code == 410 => match resumed(&status) {
                Some(token) => self.page(Some(token)).await,
                None => Err(kube::Error::Api(status)),
            },
            answer => answer,
        };
        let text = text.map_err(|error| self.question.failed(error))?;
        let Page { metadata, items } = self.question.read(&text)?;
        if !metadata.token.is_empty() {
            self.next = Next::Token(metadata.token);
        }
        Ok(Some(Listed {
            items: items.unwrap_or_default(),
            remaining: metadata.remaining_item_count.unwrap_or_default(),
        }))
    }

    async fn page(&self, token: Option<String>) -> Result<String, kube::Error> {
        let mut params = ListParams::default().limit(PAGE);
        params.continue_token = token;
        let within = self.question.namespace.map(|name| format!("/namespaces/{name}"));
        let path = format!("/api/v1{}/{}", within.unwrap_or_default(), self.question.resource);
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await
    }
}

fn resumed(status: &kube::core::Status) -> Option<String> {
    status
        .metadata
        .as_ref()?
        .continue_
        .clone()
        .filter(|token| !token.is_empty())
}

impl Question<'_> {
    fn read<'t, T: Deserialize<'t>>(&self, text: &'t str) -> Result<T, ClusterError> {
        serde_json::from_str(text).map_err(|source| ClusterError::Answer {
            verb: self.verb,
            resource: self.resource,
            source,
        })
    }

    fn failed(&self, error: kube::Error) -> ClusterError {
        let Self {
            verb,
            resource,
            namespace,
        } = *self;
        let scope = match (verb, namespace) {
            ("get", Some(name)) => format!(" (of {name})"),
            (_, Some(name)) => format!(" in namespace {name}"),
            (_, None) => " in the whole cluster".to_owned(),
        };
        match error {
            // As the API server says it of rights (apiserver, `responsewriters/errors`); admission answers 403 as well, or
            // 422.
            kube::Error::Api(status)
                if status.code == 403 && status.message.contains(&format!("cannot {verb} resource")) =>
            {
                ClusterError::Forbidden {
                    verb,
                    resource,
                    scope,
                    message: status.message,
                }
            }
            kube::Error::Api(status) if [403, 422].contains(&status.code) => ClusterError::Refused {
                verb,
                resource,
                scope,
                message: status.message,
            },
            error => ClusterError::Api {
                verb,
                resource,
                scope,
                source: Box::new(error),
            },
        }
    }
}

/// The denial of a webhook, if the error is one.
fn denied(error: &kube::Error) -> Option<ClusterError> {
    let kube::Error::Api(status) = error else { return None };
    let (webhook, _) = status.message.strip_prefix(DENIAL)?.split_once('"')?;
    Some(ClusterError::Denied {
        webhook: webhook.to_owned(),
        message: status.message.clone(),
    })
}

/// The items of a list do not say their kind.
fn as_namespace(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Namespace".into());
    }
    object
}
