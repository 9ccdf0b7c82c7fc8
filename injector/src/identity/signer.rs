//! Answers the requests that kubelets make for pods, on the leader.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{PodCertificateRequest, PodCertificateRequestStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{interval, sleep};

use super::issuer::{Chance, IssueError, Issued, Refusal, Request, Terms};
use super::keep::Issuing;
use super::metrics::{Answer, ApiObject, IdentityMetrics};
use super::name::Identity;
use super::trust::Trust;
use crate::certificates::Moment;
use crate::certificates::api::{CallError, call, post_params};
use crate::certificates::election::Elected;
use crate::error::error_chain;
use crate::names::{IDENTITY_SECRET, SIGNER};
use crate::{silence, tls};

/// How many requests are answered at a time: signing takes a fraction of a millisecond, writing the answer some.
const CONCURRENCY: u16 = 32;
/// How soon a request is looked at again that could not be answered.
const AGAIN: Duration = Duration::from_secs(5);
/// How soon one is that came just when nobody could sign.
const SOON: Duration = Duration::from_secs(1);
/// How often the cluster is asked whether it knows of such requests.
const LOOK: Duration = Duration::from_secs(60);

/// Everything that an answer needs.
pub(super) struct Signer {
    client: Client,
    trust_domain: String,
    elected: Elected,
    issuing: watch::Receiver<Option<Arc<Issuing>>>,
    metrics: IdentityMetrics,
    trust: Arc<Mutex<Trust>>,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Signer {
    pub(super) fn new(
        client: Client,
        trust_domain: String,
        elected: Elected,
        issuing: watch::Receiver<Option<Arc<Issuing>>>,
        metrics: IdentityMetrics,
        trust: Arc<Mutex<Trust>>,
    ) -> Self {
        Self {
            client,
            trust_domain,
            elected,
            issuing,
            metrics,
            trust,
        }
    }

    /// Answers while something may be signed; never ends.
    pub(super) async fn run(self) {
        wait_until_served(&self.client).await;
        let signer = Arc::new(self);
        loop {
            let mut issuing = signer.issuing.clone();
            if issuing.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::select! {
                () = Arc::clone(&signer).answer() => {}
                _ = issuing.wait_for(Option::is_none) => {}
            }
            signer.metrics.pending.set(0);
        }
    }

    async fn answer(self: Arc<Self>) {
        let requests: Api<PodCertificateRequest> = Api::all(self.client.clone());
        let ours = silence::watch_config().fields(&format!("spec.signerName={SIGNER}"));
        let controller =
            Controller::new(requests, ours).with_config(controller::Config::default().concurrency(CONCURRENCY));
        let count = self.watch_queue(controller.store());
        let answers = controller.run(reconcile, again, Arc::clone(&self)).for_each(|answer| {
            self.tell(answer);
            std::future::ready(())
        });
        tokio::select! { () = answers => {}, () = count => {} }
    }

    async fn watch_queue(&self, requests: Store<PodCertificateRequest>) {
        let mut ticks = interval(SOON);
        loop {
            ticks.tick().await;
            let waiting = requests.state().into_iter().filter(|request| !is_answered(request));
            self.metrics
                .pending
                .set(i64::try_from(waiting.count()).unwrap_or(i64::MAX));
        }
    }

    fn tell<T>(&self, answer: Result<T, controller::Error<SignError, watcher::Error>>) {
        match answer {
            // It has told itself, or the request is gone.
            Ok(_) | Err(controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)) => {}
            Err(error) => {
                self.metrics.failed(ApiObject::Request);
                tracing::warn!(
                    error = error_chain(&error),
                    "the watch on requests for certificates failed and is tried again"
                );
            }
        }
    }

    fn issue(&self, issuing: &Issuing, request: &PodCertificateRequest) -> Result<Issued, IssueError> {
        let terms = Terms {
            trust_domain: self.trust_domain.clone(),
            lifetime: issuing.lifetime,
        };
        let request = Request::from(request);
        issuing.authority.issue(&request, &terms, Moment::now(), chance())
    }

    /// What signs now, if this replica still leads.
    fn issuing(&self) -> Option<Arc<Issuing>> {
        let issuing = self.issuing.borrow().clone();
        issuing.filter(|_| self.elected.term().is_some())
    }

    fn count(&self, issuing: &Issuing, issued: &Issued) {
        let mut trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        trust.count(&issuing.authority.certificate().subject, issued.not_after);
    }

    async fn write(
        &self,
        request: &PodCertificateRequest,
        status: PodCertificateRequestStatus,
    ) -> Result<(), CallError> {
        let metadata = &request.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<PodCertificateRequest> = Api::namespaced(self.client.clone(), namespace);
        let answered = PodCertificateRequest {
            status: Some(status),
            ..request.clone()
        };
        let name = metadata.name.as_deref().unwrap_or_default();
        call(api.replace_status(name, &post_params(), &answered)).await?;
        Ok(())
    }

    fn log(&self, request: &PodCertificateRequest, refusal: Option<&Refusal>) {
        let waited = request
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|Time(made)| Moment::from(*made));
        let waited = waited.map_or(Duration::ZERO, |made| made.until(Moment::now()));
        let identity = Identity {
            trust_domain: &self.trust_domain,
            namespace: request.metadata.namespace.as_deref().unwrap_or_default(),
            service_account: &request.spec.service_account_name,
        };
        let pod = &request.spec.pod_name;
        match refusal {
            None => {
                self.metrics.answered(Answer::Issued, waited);
                tracing::debug!(%identity, pod, "issued a certificate");
            }
            Some(refusal) => {
                self.metrics.answered(Answer::Denied, waited);
                tracing::warn!(%identity, pod, reason = refusal.reason(), "denied a certificate");
            }
        }
    }
}

/// The cluster may be older than the API, or have it switched off: identities then come from Secrets.
async fn wait_until_served(client: &Client) {
    let mut told = false;
    loop {
        match call(client.list_api_group_resources("certificates.k8s.io/v1")).await {
            Ok(known)
                if known
                    .resources
                    .iter()
                    .any(|resource| resource.name == "podcertificaterequests") =>
            {
                tracing::info!(signer = SIGNER, "pods get their identities by PodCertificateRequest");
                return;
            }
            Ok(_) if !told => tracing::warn!(
                remedy = "use Kubernetes 1.37 or newer with the API certificates.k8s.io/v1, or give each pod a Secret by \
                          this annotation",
                annotation = IDENTITY_SECRET,
                "this cluster has no PodCertificateRequest: no identities are issued"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(
                error = error_chain(&error),
                "cannot ask whether the cluster has PodCertificateRequest; it is tried again"
            ),
        }
        told = true;
        sleep(LOOK).await;
    }
}

async fn reconcile(request: Arc<PodCertificateRequest>, signer: Arc<Signer>) -> Result<Action, SignError> {
    if is_answered(&request) {
        return Ok(Action::await_change());
    }
    let Some(issuing) = signer.issuing() else {
        return Ok(Action::requeue(SOON));
    };
    let issued = match signer.issue(&issuing, &request) {
        Ok(issued) => Ok(issued),
        Err(IssueError::Refused(refusal)) => Err(refusal),
        Err(error) => return Err(error.into()),
    };
    let status = match &issued {
        Ok(issued) => issued_status(issued),
        Err(refusal) => denied_status(refusal),
    };
    match signer.write(&request, status).await {
        Ok(()) => {
            if let Ok(issued) = &issued {
                signer.count(&issuing, issued);
            }
            signer.log(&request, issued.as_ref().err());
        }
        // Somebody was faster, or the pod is gone: the watch shows it.
        Err(error) if error.is_conflict() || error.is_missing() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Action::await_change())
}

#[allow(clippy::needless_pass_by_value)] // The controller's signature.
fn again(request: Arc<PodCertificateRequest>, error: &SignError, signer: Arc<Signer>) -> Action {
    signer.metrics.failed(ApiObject::Request);
    tracing::warn!(
        namespace = request.metadata.namespace,
        request = request.metadata.name,
        error = error_chain(error),
        "a request for a certificate cannot be answered; it is tried again"
    );
    Action::requeue(AGAIN)
}

/// An answer is for good: the API server lets nobody change it.
fn is_answered(request: &PodCertificateRequest) -> bool {
    let status = request.status.as_ref();
    status.is_some_and(|status| {
        status
            .conditions
            .as_ref()
            .is_some_and(|conditions| !conditions.is_empty())
    })
}

fn issued_status(issued: &Issued) -> PodCertificateRequestStatus {
    PodCertificateRequestStatus {
        conditions: Some(vec![condition("Issued", "Issued", "the mesh knows this pod")]),
        certificate_chain: Some(issued.chain.clone()),
        not_before: Some(time(issued.not_before)),
        not_after: Some(time(issued.not_after)),
        begin_refresh_at: Some(time(issued.begin_refresh_at)),
    }
}

fn denied_status(refusal: &Refusal) -> PodCertificateRequestStatus {
    PodCertificateRequestStatus {
        conditions: Some(vec![condition("Denied", refusal.reason(), &refusal.to_string())]),
        ..PodCertificateRequestStatus::default()
    }
}

fn condition(kind: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::now()),
        observed_generation: None,
    }
}

fn time(moment: Moment) -> Time {
    Time(Timestamp::from_second(moment.second()).unwrap_or_default())
}

fn chance() -> Chance {
    let [refresh] = tls::random_bytes();
    Chance {
        serial: tls::random_bytes(),
        refresh,
    }
}
