//! What the certificates' keeper counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of certificates that the server keeps itself. Copies count together.
#[derive(Clone, Debug, Default)]
pub struct CertificateMetrics {
    /// 1 on the replica that leads.
    pub leader: Gauge,
    /// End of the signing authority's validity, in seconds since 1970.
    pub authority_not_after: Gauge,
    /// Times a `caBundle` was put right that somebody had changed.
    pub bundle_repairs: Counter,
    renewals: Family<Kind, Counter>,
    errors: Family<On, Counter>,
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// A serving certificate.
    Certificate,
    /// An authority.
    Authority,
}

/// What a failed call to the API server was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiObject {
    /// The Secret.
    Secret,
    /// The Lease.
    Lease,
    /// A webhook configuration.
    Configuration,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct On {
    object: &'static str,
}

impl Made {
    const ALL: &[Self] = &[Self::Certificate, Self::Authority];

    fn labels(self) -> Kind {
        Kind {
            kind: match self {
                Self::Certificate => "certificate",
                Self::Authority => "ca",
            },
        }
    }
}

impl ApiObject {
    const ALL: &[Self] = &[Self::Secret, Self::Lease, Self::Configuration];

    fn labels(self) -> On {
        On {
            object: match self {
                Self::Secret => "secret",
                Self::Lease => "lease",
                Self::Configuration => "configuration",
            },
        }
    }
}

impl CertificateMetrics {
    /// Counts something that was made.
    pub fn made(&self, made: Made) {
        self.renewals.get_or_create(&made.labels()).inc();
    }

    /// Counts a failure.
    pub fn failed(&self, object: ApiObject) {
        self.errors.get_or_create(&object.labels()).inc();
    }

    /// Registers all of them; each series exists from the start.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for made in Made::ALL {
            self.renewals.get_or_create_owned(&made.labels());
        }
        for object in ApiObject::ALL {
            self.errors.get_or_create_owned(&object.labels());
        }
        registry.register(
            "leader",
            "1 on the replica that renews certificates, 0 on others",
            self.leader.clone(),
        );
        registry.register(
            "ca_not_after_seconds",
            "End of the signing authority's validity, in seconds since 1970; 0 while there is none",
            self.authority_not_after.clone(),
        );
        registry.register(
            "ca_bundle_repairs",
            "Times a caBundle was put right that somebody had changed",
            self.bundle_repairs.clone(),
        );
        registry.register(
            "certificate_renewals",
            "Serving certificates and authorities made",
            self.renewals.clone(),
        );
        registry.register(
            "certificate_errors",
            "Failed calls to the API server about certificates, by object",
            self.errors.clone(),
        );
    }
}
