//! Sample pods on which every template is tried before it serves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

use crate::decision::Subject;
use crate::inject::{Injector, SetupError};
use crate::names;
use crate::namespace::NamespaceInfo;
use crate::pod::PodView;
use crate::rendered::json_of;
use crate::service::{Services, View};
use crate::settings::Settings;

/// What a sample shows, and the annotations that make it so.
const SAMPLES: [(&str, &[(&str, &str)]); 8] = [
    ("all defaults", &[]),
    (
        "explicit traffic at the end",
        &[(names::TRAFFIC, "explicit"), (names::POSITION, "last")],
    ),
    (
        "a native sidecar",
        &[(names::POSITION, "native"), (names::MTLS, "strict")],
    ),
    (
        "an explicit native sidecar",
        &[(names::POSITION, "native"), (names::TRAFFIC, "explicit")],
    ),
    ("upstreams of every kind", &[(names::UPSTREAMS, UPSTREAMS)]),
    ("upstreams that are found", &[(names::UPSTREAMS, "auto")]),
    (
        "upstreams that are found, under strict",
        &[(names::UPSTREAMS, "auto"), (names::MTLS, "strict")],
    ),
    (
        "strict with listed callers and a Secret",
        &[
            (names::MTLS, "strict"),
            (names::ALLOW_FROM, "a/b, c/*"),
            (names::IDENTITY_SECRET, "tls"),
            (names::PROBES, "node"),
        ],
    ),
];

const UPSTREAMS: &str = "
- a:80
- {service: b.c:81, protocol: tcp, identity: c/b, split: [{service: d:1, weight: 10}]}
- {service: e:82, protocol: grpc, retries: 1, timeout: 5s, split: [{service: f:1, weight: 20}]}
- {service: g:83, retries: 2, maxFails: 3, failTimeout: 1s, split: [{service: h:1, weight: 30}]}
- {service: i:84, protocol: tcp, timeout: 1m}
- {service: j:85, protocol: grpc, identity: x/y}
";

/// Services that the samples find.
const SERVICES: &str = r#"[{"metadata": {"name": "a", "namespace": "sample"}, "spec": {"ports": [
  {"port": 80, "name": "http"}, {"port": 81, "appProtocol": "http"}, {"port": 82, "name": "grpc"}]}}]"#;

const SPEC: &str = r#"{"containers": [{"name": "app", "image": "app",
  "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 9000, "name": "grpc"}, {"containerPort": 5000}],
  "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}}, "livenessProbe": {"tcpSocket": {"port": 5000}}}]}"#;

/// Tries every template on every sample.
pub(crate) fn check(injector: &Injector) -> Result<(), SetupError> {
    let listed: Vec<Service> = serde_json::from_str(SERVICES).expect("the samples are Services");
    let services = Services::of(&listed);
    for (sample, annotations) in SAMPLES {
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let raw = format!(
            r#"{{"metadata": {{"annotations": {}}}, "spec": {SPEC}}}"#,
            json_of(&annotations)
        );
        let pod = PodView::from_json(&raw).expect("the samples are pods");
        let info = NamespaceInfo::enabled();
        let subject = Subject {
            is_pod_create: true,
            namespace: "sample",
            info: &info,
            pod: &pod,
            services: View::Known(&services),
        };
        let settings = injector.settings(subject).map_err(SetupError::Settings)?.settings;
        for template in injector.templates().iter() {
            let settings = settings_for(&settings, template.mtls);
            let found = match injector.found(subject, &settings, template.mtls, &mut Vec::new()) {
                Ok(found) => found,
                Err(error) => unreachable!("the samples' Services are listed: {error}"),
            };
            let made = crate::context::build("sample", &pod, &settings, &found, template.mtls);
            let (context, _) = made.map_err(|reasons| SetupError::Combination { sample, reasons })?;
            injector
                .render(template, &context)
                .map_err(|error| SetupError::Sample {
                    sample,
                    error: Box::new(error),
                })?;
        }
    }
    Ok(())
}

/// What keeps callers out is refused where the template has no mTLS, which is no fault of the template.
fn settings_for(settings: &Settings, mtls: bool) -> Settings {
    let mut settings = settings.clone();
    if !mtls {
        (settings.mtls, settings.allow_from) = (None, None);
    }
    settings
}
