//! `outrigger verify`: asks the API server what it would make of a pod, and so whether the webhooks work.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster::{Cluster, ClusterError, Way, block_on};
use super::input::injector;
use super::{Status, print, print_error};
use crate::names;
use crate::pod::PodView;
use crate::requirements::{Action, Requirements};
use crate::settings::values::ImageRef;
use crate::status::Status as Record;

/// How long after a failure the next attempt is made.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Dry runs of the creation of pods: nothing is stored. Needs create on pods in the namespace.

Exit code: 0 both webhooks work; 1 one does not; 2 wrong usage, or no way to a cluster.

Examples:
  outrigger verify --label environment=dev
  outrigger verify -n shop --label environment=prod --timeout 60s"
)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    way: Way,
    /// Where the pods would be created: a namespace that is neither excluded nor switched off.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// A label of the pods, to satisfy the requirements; can be given several times.
    #[arg(short, long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// The image of the pods, which is not pulled; without it, that of the proxy. Policies on registries see it.
    #[arg(long, value_name = "IMAGE")]
    image: Option<ImageRef>,
    /// The requirements; without it, those of the configuration.
    #[arg(long, value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// How long to try again after a failure.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    timeout: Duration,
}

/// What does not work.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The mutating webhook did nothing.
    #[error(
        "the mutating webhook added no proxy: see that its configuration is registered, and that namespace {0} is \
         neither excluded nor labelled {switch}=disabled", switch = names::INJECT
    )]
    NotInjected(String),
    /// The validating webhook refused the pod.
    #[error("{0}; labels that satisfy the requirements are given with --label KEY=VALUE")]
    Refused(#[source] ClusterError),
    /// The validating webhook did nothing.
    #[error(
        "a pod without the label {0} was admitted: see that the validating webhook's configuration is registered, and \
         that the requirements are those of the server"
    )]
    Unjudged(String),
    /// The API server gave an answer that is none.
    #[error("the API server's answer is no pod: {0}")]
    NoPod(#[from] crate::pod::PodError),
    /// The API server could not be asked, could not ask the webhooks, or somebody else refused the pod.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// A cluster and the pods that it is asked about.
struct Verifier<'v> {
    cluster: Cluster,
    namespace: &'v str,
    labels: BTreeMap<&'v str, &'v str>,
    image: &'v str,
    requirements: &'v Requirements,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<Status> {
    let injector = injector(args.requirements.as_deref())?;
    let image = args.image.as_ref().or(injector.defaults().proxy_image.as_ref());
    let image = image.map_or("", ImageRef::as_str);
    block_on(verify(args, image, &injector.requirements()))
}

async fn verify(args: &VerifyArgs, image: &str, requirements: &Requirements) -> anyhow::Result<Status> {
    let asked = (names::INJECT, "enabled");
    let labels = args.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let verifier = Verifier {
        cluster: Cluster::connect(&args.way).await?,
        namespace: &args.namespace,
        labels: labels.chain([asked]).collect(),
        image,
        requirements,
    };
    match verifier.attempts(Instant::now() + args.timeout).await {
        Ok(report) => print(report.as_bytes()),
        Err(failure) => {
            print_error(&failure.into());
            Ok(Status::Denied)
        }
    }
}

impl Verifier<'_> {
    /// Tries until all is well or the time is over; the report, or the last failure.
    async fn attempts(&self, end: Instant) -> Result<String, Failure> {
        loop {
            match self.attempt().await {
                Err(_) if Instant::now() + PAUSE <= end => tokio::time::sleep(PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self) -> Result<String, Failure> {
        Ok(format!("{}\n{}\n", self.mutating().await?, self.validating().await?))
    }

    /// Whether a pod that asks for the proxy gets it.
    async fn mutating(&self) -> Result<String, Failure> {
        let text = self.create(&self.labels).await?;
        let pod = PodView::from_json(&text)?;
        let record = pod.annotations().get(names::STATUS).and_then(Record::parse);
        let record = record.filter(|record| record.holds(&pod));
        let Record { version, template, .. } = record.ok_or_else(|| Failure::NotInjected(self.namespace.to_owned()))?;
        Ok(format!(
            "mutating webhook: works; version {version} added the proxy by the template {template}"
        ))
    }

    /// Whether a pod without a required label is refused.
    async fn validating(&self) -> Result<String, Failure> {
        let Some(key) = self.required_label() else {
            let namespace = self.namespace;
            return Ok(format!(
                "validating webhook: not asked; no rule of the requirements refuses pods of namespace {namespace}"
            ));
        };
        let mut labels = self.labels.clone();
        labels.remove(key);
        match self.create(&labels).await {
            Err(Failure::Refused(ClusterError::Denied { message, .. })) if message.contains(key) => Ok(format!(
                "validating webhook: works; refused a pod without the label {key}"
            )),
            Err(failure) => Err(failure),
            Ok(_) => Err(Failure::Unjudged(key.to_owned())),
        }
    }

    /// What the API server would store of a pod with these labels.
    async fn create(&self, labels: &BTreeMap<&str, &str>) -> Result<String, Failure> {
        let answer = self
            .cluster
            .create_dry_run(self.namespace, &pod(labels, self.image))
            .await;
        answer.map_err(|error| match error {
            ClusterError::Denied { ref webhook, .. } if webhook.ends_with(names::VALIDATING_WEBHOOKS) => {
                Failure::Refused(error)
            }
            error => Failure::Cluster(error),
        })
    }

    /// A label without which pods are refused. One with a default is never missing.
    fn required_label(&self) -> Option<&str> {
        let refuses = self.requirements.action(self.namespace) == Action::Deny;
        let mut rules = self.requirements.labels().iter().filter(|_| refuses);
        let rule = rules.find(|rule| rule.default.is_none() && rule.key != names::INJECT)?;
        Some(&rule.key)
    }
}

/// A pod that the strictest PodSecurity level admits, with the proxy and without.
fn pod(labels: &BTreeMap<&str, &str>, image: &str) -> Value {
    let container = json!({
        "name": "app",
        "image": image,
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "outrigger-verify-", "labels": labels, "annotations": {names::TRAFFIC: "explicit"}},
        "spec": {
            "containers": [container],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    })
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a duration such as 30s or 2m";
    let value: jiff::SignedDuration = text.parse().map_err(|_| expected)?;
    value.try_into().map_err(|_| expected.to_owned())
}
