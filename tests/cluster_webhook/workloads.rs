//! Workloads, judged when they are applied, and requirements that change while the server runs.

use crate::webhooks::{Mesh, eventually};
use crate::{ENABLED, GOOD};

/// A workload of every kind that is judged, with a template that has these labels.
fn workloads(labels: &str) -> Vec<(&'static str, String)> {
    let template = |policy: &str| {
        format!(
            "{{metadata: {{labels: {labels}}}, spec: {{restartPolicy: {policy}, containers: [{{name: app, image: registry.example.com/team/app:1.0}}]}}}}"
        )
    };
    let (always, never) = (template("Always"), template("Never"));
    let selector = "selector: {matchLabels: {app: web}}";
    let of = |version: &str, kind: &str, spec: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{{spec}}}\n")
    };
    vec![
        (
            "deployment",
            of(
                "apps/v1",
                "Deployment",
                &format!("replicas: 0, {selector}, template: {always}"),
            ),
        ),
        (
            "statefulset",
            of(
                "apps/v1",
                "StatefulSet",
                &format!("replicas: 0, serviceName: web, {selector}, template: {always}"),
            ),
        ),
        (
            "daemonset",
            of("apps/v1", "DaemonSet", &format!("{selector}, template: {always}")),
        ),
        (
            "replicaset",
            of(
                "apps/v1",
                "ReplicaSet",
                &format!("replicas: 0, {selector}, template: {always}"),
            ),
        ),
        (
            "job",
            of("batch/v1", "Job", &format!("suspend: true, template: {never}")),
        ),
        (
            "cronjob",
            of(
                "batch/v1",
                "CronJob",
                &format!("schedule: '0 3 * * *', suspend: true, jobTemplate: {{spec: {{template: {never}}}}}"),
            ),
        ),
    ]
}

#[test]
fn kubectl_shows_what_the_pods_of_a_workload_will_be_refused_for() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("workloads", &[ENABLED]);
    for (kind, yaml) in workloads("{app: web}") {
        let answer = mesh
            .cluster
            .kubectl_reading(&yaml, &["apply", "-n", "workloads", "-f", "-"]);
        let warning = "Warning: label environment is missing; it has to be one of: dev, prod";
        assert!(answer.errors.contains(warning), "{kind}: {}", answer.errors);
        answer.expect_success();
        // It stays editable, and nobody hears again of what has not changed.
        let edited = mesh
            .cluster
            .kubectl(&["annotate", kind, "web", "-n", "workloads", "note=edited"]);
        assert_eq!(edited.errors, "", "{kind}");
        edited.expect_success();
        // A new template is another matter: its pods will be refused.
        if matches!(kind, "deployment" | "daemonset") {
            let image = mesh.cluster.kubectl(&[
                "set",
                "image",
                &format!("{kind}/web"),
                "app=registry.example.com/team/app:2.0",
                "-n",
                "workloads",
            ]);
            assert!(image.errors.contains(warning), "{kind}: {}", image.errors);
            image.expect_success();
        }
    }
    mesh.cluster.create_namespace("good-workloads", &[ENABLED]);
    for (kind, yaml) in workloads(GOOD) {
        let answer = mesh
            .cluster
            .kubectl_reading(&yaml, &["apply", "-n", "good-workloads", "-f", "-"]);
        assert_eq!(answer.errors, "", "{kind}");
        answer.expect_success();
    }
}

#[test]
fn a_template_that_the_injector_would_refuse_is_told_too() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("refused-later", &[ENABLED]);
    let (_, yaml) = workloads(GOOD).remove(0);
    let yaml = yaml.replace(
        "{metadata: {labels:",
        "{metadata: {annotations: {outrigger.mesh/position: frist}, labels:",
    );
    let answer = mesh
        .cluster
        .kubectl_reading(&yaml, &["apply", "-n", "refused-later", "-f", "-"]);
    assert!(answer.errors.contains("outrigger.mesh/position"), "{}", answer.errors);
    answer.expect_success();
}

const WARN: &str = "labels: [{key: environment, values: [dev, prod]}]\n";
const DENY: &str = "labels: [{key: environment, values: [dev, prod], message: ask the platform team, link: 'https://example.com/labels'}]\nworkloads: deny\nnamespaces: {lenient: audit}\n";

#[test]
#[allow(clippy::too_many_lines)] // One server's story.
fn changed_requirements_are_in_force_without_a_restart_and_bad_ones_are_not() {
    let cluster = std::sync::Arc::new(crate::cluster::Cluster::start());
    let file = cluster.folder().join("requirements.yaml");
    std::fs::write(&file, WARN).unwrap();
    let path = file.display().to_string();
    let mesh = Mesh::start_with(
        cluster,
        &[
            ("OUTRIGGER_REQUIREMENTS_FILE", &path),
            ("OUTRIGGER_RELOAD_INTERVAL", "200ms"),
        ],
    );
    mesh.cluster.create_namespace("changing", &[ENABLED]);
    mesh.cluster.create_namespace("lenient", &[ENABLED]);
    let (_, yaml) = workloads("{app: web}").remove(0);
    let dry = |namespace: &str| {
        mesh.cluster
            .kubectl_reading(&yaml, &["create", "-n", namespace, "--dry-run=server", "-f", "-"])
    };
    dry("changing").expect_success();
    let (_, before) = workloads("{app: web, environment: old}").remove(0);
    mesh.create("changing", &before.replace("name: web}", "name: before}"));

    std::fs::write(&file, DENY).unwrap();
    eventually("the Deployment is refused", || !dry("changing").success);
    let refusal = dry("changing").expect_failure();
    assert!(
        refusal.contains("ask the platform team; see https://example.com/labels"),
        "{refusal}"
    );
    // One that broke the rule before stays editable, with a warning; it cannot break it in another way.
    let edit = |patch: &str| {
        mesh.cluster
            .kubectl(&["patch", "deployment", "before", "-n", "changing", "-p", patch])
    };
    let image = edit(
        r#"{"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "registry.example.com/team/app:2.0"}]}}}}"#,
    );
    assert!(
        image.errors.contains("Warning: label environment is \"old\""),
        "{}",
        image.errors
    );
    image.expect_success();
    let other = edit(r#"{"spec": {"template": {"metadata": {"labels": {"environment": "new"}}}}}"#).expect_failure();
    assert!(other.contains("label environment is"), "{other}");
    let lenient = dry("lenient");
    assert_eq!(lenient.errors, "", "audit warns nobody");
    lenient.expect_success();
    let series = "outrigger_admission_requests_total{endpoint=\"validate\",outcome=\"audited\"}";
    assert!(mesh.metric(series) >= 1.0);
    assert_eq!(mesh.metric("outrigger_requirements_reloads_total"), 1.0);

    std::fs::write(&file, "labels: [{key: environment, colour: red}]\n").unwrap();
    eventually("the failure counts", || {
        mesh.metric("outrigger_requirements_reload_failures_total") >= 2.0
    });
    dry("changing").expect_failure();
    let log = mesh.server().log_text();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("cannot be used; those before stay in force"))
        .collect();
    assert_eq!(told.len(), 1, "told once: {log}");
    assert!(
        told[0].contains("labels[0]") && told[0].contains("colour"),
        "{}",
        told[0]
    );
}
