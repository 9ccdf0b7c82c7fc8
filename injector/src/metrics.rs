//! Metrics in the OpenMetrics text format.
//!
//! No label holds what a caller chose, a namespace for instance: the number of series must not be
//! in a stranger's hands.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::certificates::metrics::CertificateMetrics;
use crate::identity::metrics::IdentityMetrics;
use crate::review::Endpoint;

/// The media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds: 50 µs is what a small review costs, 5 s is beyond any sane deadline.
pub const DURATION_BUCKETS: &[f64] = &[
    0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// All metrics of the server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<EndpointLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    /// Request bytes held at this moment.
    pub in_flight_bytes: Gauge,
    /// End of the served certificate's validity, in seconds since 1970.
    pub certificate_not_after: Gauge,
    /// Times a new certificate was taken.
    pub certificate_reloads: Counter,
    /// Times a new certificate could not be taken.
    pub certificate_reload_failures: Counter,
    /// Of certificates that the server keeps itself.
    pub certificates: CertificateMetrics,
    /// Of the mesh's identities.
    pub identities: IdentityMetrics,
    /// 1 once all namespaces are known.
    pub namespaces_synced: Gauge,
    /// Times changed requirements were put in force.
    pub requirements_reloads: Counter,
    /// Looks at the requirements file that found none to use.
    pub requirements_reload_failures: Counter,
    /// Times the watch on namespaces failed.
    pub namespace_watch_errors: Counter,
    /// Times the watch on Services failed.
    pub service_watch_errors: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    endpoint: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// A request being answered; counted until dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers all metrics. `outcomes` are the ids that requests can end with: their series
    /// exist from the start, so that a first increase shows up as one.
    #[must_use]
    pub fn new(outcomes: &[&'static str]) -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("outrigger"),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS.iter().copied())),
            in_flight: Gauge::default(),
            in_flight_bytes: Gauge::default(),
            certificate_not_after: Gauge::default(),
            certificate_reloads: Counter::default(),
            certificate_reload_failures: Counter::default(),
            certificates: CertificateMetrics::default(),
            identities: IdentityMetrics::default(),
            namespaces_synced: Gauge::default(),
            requirements_reloads: Counter::default(),
            requirements_reload_failures: Counter::default(),
            namespace_watch_errors: Counter::default(),
            service_watch_errors: Counter::default(),
        };
        for endpoint in Endpoint::ALL.iter().map(|endpoint| endpoint.as_str()) {
            metrics.durations.get_or_create_owned(&EndpointLabels { endpoint });
            for &outcome in outcomes {
                metrics
                    .requests
                    .get_or_create_owned(&RequestLabels { endpoint, outcome });
            }
        }
        metrics.register()
    }

    fn register(mut self) -> Self {
        let Self {
            registry,
            requests,
            durations,
            in_flight,
            in_flight_bytes,
            ..
        } = &mut self;
        registry.register(
            "admission_requests",
            "Admission requests by how they ended",
            requests.clone(),
        );
        registry.register(
            "admission_duration_seconds",
            "Time from a request's head to its answer, the body's arrival included",
            durations.clone(),
        );
        registry.register(
            "admission_in_flight",
            "Admission requests being answered",
            in_flight.clone(),
        );
        registry.register(
            "admission_in_flight_bytes",
            "Bytes of request bodies held at this moment",
            in_flight_bytes.clone(),
        );
        let build = Info::new(BuildLabels {
            version: env!("CARGO_PKG_VERSION"),
        });
        registry.register("build", "The version that runs", build);
        self.register_rest()
    }

    fn register_rest(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register(
            "certificate_not_after_seconds",
            "End of the serving certificate's validity, in seconds since 1970",
            self.certificate_not_after.clone(),
        );
        registry.register(
            "certificate_reloads",
            "Times a new serving certificate was taken",
            self.certificate_reloads.clone(),
        );
        registry.register(
            "certificate_reload_failures",
            "Looks at the certificate's files or Secret that found no sound pair; what is served stays",
            self.certificate_reload_failures.clone(),
        );
        self.certificates.register(registry);
        self.identities.register(registry);
        registry.register(
            "requirements_reloads",
            "Times changed requirements were put in force",
            self.requirements_reloads.clone(),
        );
        registry.register(
            "requirements_reload_failures",
            "Looks at the requirements file that found none to use; those before stay",
            self.requirements_reload_failures.clone(),
        );
        registry.register(
            "namespaces_synced",
            "1 once all namespaces are known, 0 before",
            self.namespaces_synced.clone(),
        );
        registry.register(
            "namespace_watch_errors",
            "Failures of the watch on namespaces",
            self.namespace_watch_errors.clone(),
        );
        registry.register(
            "service_watch_errors",
            "Failures of the watch on Services",
            self.service_watch_errors.clone(),
        );
        self
    }

    /// Counts a request as being answered until the guard is dropped.
    #[must_use]
    pub fn start(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Counts a request that has been answered.
    pub fn answered(&self, endpoint: Endpoint, outcome: &'static str, took: Duration) {
        let endpoint = endpoint.as_str();
        self.requests.get_or_create(&RequestLabels { endpoint, outcome }).inc();
        self.durations
            .get_or_create(&EndpointLabels { endpoint })
            .observe(took.as_secs_f64());
    }

    /// All metrics as text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut page = String::new();
        text::encode(&mut page, &self.registry).expect("writing to a string does not fail");
        page
    }
}
