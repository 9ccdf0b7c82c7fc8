//! What an admission costs: decode → decide → patch → encode, against the least that any webhook
//! must do with the same bytes, a single typed parse of the fields that matter.
//!
//! `cargo bench` prints criterion's figures and then, measured in one run, the ratio of the two.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use k8s_openapi::api::core::v1::Service;
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::namespace::NamespaceInfo;
use outrigger::pod::{PodView, Text};
use outrigger::review::{Endpoint, decode};
use outrigger::service::{Services, View};
use serde::Deserialize;
use serde_json::{Value, json};

/// A size's name and how many environment variables make it.
const SIZES: [(&str, usize); 4] = [("3.4KB", 15), ("15KB", 155), ("124KB", 1500), ("1MB", 12_600)];

/// The least: one pass, the fields that a decision needs.
#[derive(Deserialize)]
struct Minimal<'a> {
    #[serde(borrow)]
    request: MinimalRequest<'a>,
}

#[derive(Deserialize)]
struct MinimalRequest<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    object: PodView<'a>,
}

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let injector = Injector::new(InjectorOptions::default()).unwrap();
    let info = NamespaceInfo::enabled();
    for (name, variables) in SIZES {
        let body = review(variables, "shop");
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(BenchmarkId::from_parameter("minimal-parse"), |b| {
            b.iter(|| minimal(black_box(&body)));
        });
        group.bench_function(BenchmarkId::from_parameter("admission"), |b| {
            b.iter(|| admission(&injector, &info, View::Off, black_box(&body)));
        });
        group.finish();
    }
    let mut group = criterion.benchmark_group("3.4KB");
    let bodies: Vec<Vec<u8>> = (0..4096).map(|n| review(15, &format!("shop-{n}"))).collect();
    let mut next = bodies.iter().cycle();
    // Each namespace is another rendering, and there are more than are kept.
    group.bench_function(BenchmarkId::from_parameter("admission-rendered-anew"), |b| {
        b.iter(|| admission(&injector, &info, View::Off, black_box(next.next().unwrap())));
    });
    group.finish();
    found(&mut criterion);
    criterion.final_summary();
    ratios(&injector, &info);
}

/// A pod whose upstreams are found: 50 ports within reach, in a cluster of 100 Services and in one of 10,000.
fn found(criterion: &mut Criterion) {
    let setting_defaults = [
        ("OUTRIGGER_UPSTREAMS", "auto"),
        ("OUTRIGGER_UPSTREAM_NAMESPACES", "namespace-1"),
    ];
    let injector = Injector::new(InjectorOptions {
        setting_defaults: setting_defaults
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..InjectorOptions::default()
    })
    .unwrap();
    let info = NamespaceInfo::enabled();
    let body = review(15, "namespace-0");
    let mut group = criterion.benchmark_group("3.4KB");
    for services in [100, 10_000] {
        let mut known = Services::of(&cluster(services));
        known.enable_unknown();
        group.bench_function(
            BenchmarkId::from_parameter(format!("admission-auto-50-of-{services}")),
            |b| {
                b.iter(|| admission(&injector, &info, View::Known(&known), black_box(&body)));
            },
        );
    }
    group.finish();
}

/// So many Services of one port each, 25 in a namespace.
fn cluster(services: usize) -> Vec<Service> {
    let service = |n: usize| {
        json!({
            "metadata": {"name": format!("service-{n}"), "namespace": format!("namespace-{}", n / 25)},
            "spec": {"clusterIP": format!("10.{}.{}.1", n / 256, n % 256), "ports": [{"name": "http", "port": 80}]},
        })
    };
    (0..services)
        .map(|n| serde_json::from_value(service(n)).unwrap())
        .collect()
}

fn minimal(body: &[u8]) -> usize {
    let Minimal { request } = serde_json::from_slice(body).unwrap();
    request.uid.len() + request.namespace.len() + request.object.containers().len()
}

fn admission(injector: &Injector, info: &NamespaceInfo, services: View<'_>, body: &[u8]) -> usize {
    let review = decode(body).unwrap();
    injector
        .answer(Endpoint::Mutate, &review, Some(info), services)
        .unwrap()
        .body
        .len()
}

/// The ratio of both for each size: rounds of one and the other in turn, the median of each.
fn ratios(injector: &Injector, info: &NamespaceInfo) {
    for (name, variables) in SIZES {
        let body = review(variables, "shop");
        let calls = (2_000_000 / body.len()).max(3);
        let mut times: [Vec<Duration>; 2] = Default::default();
        for _ in 0..41 {
            times[0].push(timed(calls, || minimal(black_box(&body))));
            times[1].push(timed(calls, || admission(injector, info, View::Off, black_box(&body))));
        }
        let [least, whole] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e6
        });
        println!(
            "ratio {name} ({} bytes): {least:.1} us minimal parse, {whole:.1} us admission, {:.2} times",
            body.len(),
            whole / least
        );
    }
}

fn timed(calls: usize, mut call: impl FnMut() -> usize) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed() / u32::try_from(calls).unwrap()
}

/// A review as the API server sends it: defaults set, managedFields present.
fn review(variables: usize, namespace: &str) -> Vec<u8> {
    let environment: Vec<Value> =
        (0..variables).map(|n| json!({"name": format!("VARIABLE_{n:05}"), "value": format!("the value of variable {n} of the application")})).collect();
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "generateName": "web-5d4f8c7b9d-", "creationTimestamp": null,
            "labels": {"app": "web", "environment": "dev", "pod-template-hash": "5d4f8c7b9d"},
            "annotations": {"team": "shop"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9d",
                "uid": "5f1a7ad2-6c34-4b3f-8f4b-6c1b5d0e7a11", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}}}],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}], "defaultMode": 420}}],
            "containers": [{
                "name": "web", "image": "registry.example.com/team/web:1.0", "env": environment,
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "kube-api-access-x", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {}, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    });
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace, "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller",
                "uid": "a", "groups": ["system:serviceaccounts", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
    .to_string()
    .into_bytes()
}
