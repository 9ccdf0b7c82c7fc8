//! What the signer counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds, from the making of a request to its answer: the API server writes whole seconds.
const WAIT_BUCKETS: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0];

/// The metrics of the mesh's identities. Copies count together.
#[derive(Clone, Debug)]
pub struct IdentityMetrics {
    /// End of the authority's validity, in seconds since 1970.
    pub authority_not_after: Gauge,
    /// Requests that wait for an answer.
    pub pending: Gauge,
    /// Times the trust bundle was put right that somebody had changed.
    pub bundle_repairs: Counter,
    /// Authorities made.
    pub authorities: Counter,
    answers: Family<Outcome, Counter>,
    errors: Family<On, Counter>,
    wait: Histogram,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// By a certificate.
    Issued,
    /// By a refusal.
    Denied,
}

/// What a failed call to the API server was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiObject {
    /// The Secret.
    Secret,
    /// The ClusterTrustBundle.
    TrustBundle,
    /// A PodCertificateRequest.
    Request,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct On {
    object: &'static str,
}

impl Answer {
    const ALL: &[Self] = &[Self::Issued, Self::Denied];

    fn labels(self) -> Outcome {
        Outcome {
            outcome: match self {
                Self::Issued => "issued",
                Self::Denied => "denied",
            },
        }
    }
}

impl ApiObject {
    const ALL: &[Self] = &[Self::Secret, Self::TrustBundle, Self::Request];

    fn labels(self) -> On {
        On {
            object: match self {
                Self::Secret => "secret",
                Self::TrustBundle => "trust-bundle",
                Self::Request => "request",
            },
        }
    }
}

impl Default for IdentityMetrics {
    fn default() -> Self {
        Self {
            authority_not_after: Gauge::default(),
            pending: Gauge::default(),
            bundle_repairs: Counter::default(),
            authorities: Counter::default(),
            answers: Family::default(),
            errors: Family::default(),
            wait: Histogram::new(WAIT_BUCKETS),
        }
    }
}

impl IdentityMetrics {
    /// Counts an answer, to a request that has waited for so long.
    pub fn answered(&self, answer: Answer, waited: Duration) {
        self.answers.get_or_create(&answer.labels()).inc();
        self.wait.observe(waited.as_secs_f64());
    }

    /// Counts a failure.
    pub fn failed(&self, object: ApiObject) {
        self.errors.get_or_create(&object.labels()).inc();
    }

    /// Registers all of them; each series exists from the start.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self {
            authority_not_after,
            pending,
            bundle_repairs,
            authorities,
            answers,
            errors,
            wait,
        } = self;
        for answer in Answer::ALL {
            answers.get_or_create_owned(&answer.labels());
        }
        for object in ApiObject::ALL {
            errors.get_or_create_owned(&object.labels());
        }
        registry.register(
            "identity_ca_not_after_seconds",
            "End of the validity of the mesh's authority, in seconds since 1970; 0 while there is none",
            authority_not_after.clone(),
        );
        registry.register(
            "identity_requests_pending",
            "Requests for the certificates of pods that wait for an answer, on the replica that signs",
            pending.clone(),
        );
        registry.register(
            "identity_trust_bundle_repairs",
            "Times the trust bundle was put right that somebody had changed",
            bundle_repairs.clone(),
        );
        registry.register(
            "identity_authorities",
            "Authorities of the mesh made",
            authorities.clone(),
        );
        registry.register(
            "identity_requests",
            "Requests for the certificates of pods by how they were answered",
            answers.clone(),
        );
        registry.register(
            "identity_errors",
            "Failed calls to the API server about identities, by object",
            errors.clone(),
        );
        registry.register(
            "identity_wait_seconds",
            "Time from the making of a request to its answer, in whole seconds",
            wait.clone(),
        );
    }
}
