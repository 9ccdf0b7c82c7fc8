//! The audit of a cluster without a cluster: pods as an API server lists them. `UPDATE_EXPECT=1` writes what is
//! expected anew.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use expect_test::expect_file;
use outrigger::audit::{Audit, AuditError, Auditor, Source, State};
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::yaml;
use serde_json::{Value, json};

#[path = "audit/contrast.rs"]
mod contrast;
#[path = "audit/page.rs"]
mod page;
#[path = "audit/states.rs"]
mod states;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/audit")
        .join(name)
}

fn documents(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data(name)).unwrap();
    let documents = yaml::parse_stream(&text).unwrap();
    documents.into_iter().filter_map(|document| document.value).collect()
}

fn source() -> Source {
    Source {
        cluster: "https://cluster.example.com".to_owned(),
        time: "2026-03-01T12:00:00Z".to_owned(),
    }
}

fn injector(requirements: Option<String>) -> Injector {
    Injector::new(InjectorOptions {
        requirements,
        ..InjectorOptions::default()
    })
    .unwrap()
}

fn audit(requirements: Option<String>, namespaces: &[Value], pods: &[Value]) -> Result<Audit, AuditError> {
    /// Made once, since that takes longer than most audits.
    static BUILT_IN: LazyLock<Injector> = LazyLock::new(|| injector(None));
    let own = requirements.map(|text| injector(Some(text)));
    let mut auditor = Auditor::new(own.as_ref().unwrap_or(&BUILT_IN), source(), namespaces)?;
    for pod in pods {
        auditor.add(&pod.to_string())?;
    }
    Ok(auditor.finish())
}

/// The audit of the sample cluster.
fn sample() -> Audit {
    let requirements = std::fs::read_to_string(data("requirements.yaml")).unwrap();
    audit(
        Some(requirements),
        &documents("namespaces.yaml"),
        &documents("pods.yaml"),
    )
    .unwrap()
}

/// A namespace of the mesh.
fn shop() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": "shop", "labels": {"outrigger.mesh/inject": "enabled"}}})
}

#[test]
fn table() {
    expect_file![data("table.txt")].assert_eq(&sample().to_table());
}

#[test]
fn json() {
    expect_file![data("report.json")].assert_eq(&sample().to_json());
}

#[test]
fn the_order_of_the_pods_changes_nothing() {
    let (namespaces, mut pods) = (documents("namespaces.yaml"), documents("pods.yaml"));
    let forwards = audit(None, &namespaces, &pods).unwrap();
    pods.reverse();
    assert_eq!(audit(None, &namespaces, &pods).unwrap(), forwards);
}

#[test]
fn the_numbers_add_up() {
    let audit = sample();
    let summary = &audit.summary;
    let all = documents("pods.yaml").len();
    assert_eq!(summary.pods + summary.passed_over, all);
    assert_eq!(summary.states.values().sum::<usize>(), summary.pods);
    assert_eq!(
        audit.workloads.iter().map(|row| row.pods.len()).sum::<usize>(),
        summary.pods
    );
    assert_eq!(audit.namespaces.iter().map(|row| row.pods).sum::<usize>(), summary.pods);
    for state in State::ALL {
        let of_namespaces: usize = audit.namespaces.iter().map(|row| row.states[state]).sum();
        assert_eq!(of_namespaces, summary.states[state], "{state}");
        assert!(summary.states[state] > 0, "no pod of the sample is {state}");
    }
}

#[test]
fn an_empty_cluster_has_an_empty_report() {
    let audit = audit(None, &[], &[]).unwrap();
    assert!(!audit.has_problems());
    assert!(audit.to_table().starts_with("NAMESPACE"), "{}", audit.to_table());
    assert!(audit.to_html().contains("<h2 id=\"workloads\">"));
}

#[test]
fn what_is_no_pod_is_an_error() {
    for pod in [
        json!({}),
        json!([]),
        json!({"metadata": {"name": "p"}}),
        json!({"metadata": {"name": 1, "namespace": "n"}}),
    ] {
        assert!(
            matches!(
                audit(None, &[shop()], std::slice::from_ref(&pod)),
                Err(AuditError::Pod(_))
            ),
            "{pod}"
        );
    }
}
