//! `outrigger audit` on a real API server, whose pods the webhooks of a real `outrigger serve` have seen, or not.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use webhooks::{Mesh, eventually};

#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[allow(dead_code)] // As above.
#[path = "support/webhooks.rs"]
mod webhooks;

/// The label of a namespace of the mesh.
const ENABLED: (&str, &str) = ("outrigger.mesh/inject", "enabled");

/// Labels that satisfy the built-in requirements.
const GOOD: &str = "{app: web, environment: dev}";

/// A pod in YAML.
fn pod(name: &str, labels: &str, annotations: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {labels}\n  annotations: {annotations}\nspec:\n  \
         containers:\n  - name: app\n    image: registry.example.com/team/app:1.0\n{more}"
    )
}

fn outrigger(kubeconfig: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outrigger"))
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .arg("audit")
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs the audit as the administrator: exit code and standard output. Nothing may be on standard error, since that is
/// no terminal here.
fn audit(mesh: &Mesh, arguments: &[&str]) -> (i32, String) {
    let output = outrigger(&mesh.cluster.kubeconfig(), arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn report(mesh: &Mesh, namespaces: &[&str]) -> (i32, Value) {
    let within = namespaces.iter().flat_map(|name| ["-n", *name]);
    let (code, text) = audit(mesh, &within.chain(["-o", "json"]).collect::<Vec<_>>());
    (code, serde_json::from_str(&text).unwrap())
}

/// Kind, name, state, count and violated rules of each row.
fn rows(report: &Value) -> Vec<(String, String, String, u64, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let rules = row["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|broken| text(&broken["key"]));
        let count = row["count"].as_u64().unwrap();
        (
            text(&row["kind"]),
            text(&row["name"]),
            text(&row["state"]),
            count,
            rules.collect(),
        )
    };
    report["workloads"].as_array().unwrap().iter().map(row).collect()
}

fn row(kind: &str, name: &str, state: &str, count: u64, keys: &[&str]) -> (String, String, String, u64, Vec<String>) {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    (kind.to_owned(), name.to_owned(), state.to_owned(), count, keys)
}

/// Creates an object without waiting for what comes of it.
fn create(mesh: &Mesh, namespace: &str, object: &Value) {
    let arguments = ["create", "-n", namespace, "-f", "-"];
    mesh.cluster
        .kubectl_reading(&object.to_string(), &arguments)
        .expect_success();
}

fn deployment(name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name, "environment": "dev"}},
                     "spec": {"containers": [{"name": "app", "image": "app"}]}}}})
}

#[test]
fn pods_are_found_as_the_webhooks_left_them() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("audit-mesh", &[ENABLED]);
    mesh.cluster.create_namespace("audit-late", &[]);
    create(&mesh, "audit-mesh", &deployment("web", 2));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": {"template": {
        "metadata": {"labels": {"environment": "dev"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]}}}});
    create(&mesh, "audit-mesh", &job);
    mesh.create("audit-mesh", &pod("node", GOOD, "{}", "  hostNetwork: true\n"));
    // These two are there before their namespace joins the mesh.
    mesh.create("audit-late", &pod("bare", GOOD, "{}", ""));
    mesh.create("audit-late", &pod("unlabelled", "{}", "{}", ""));
    eventually("the controllers have made all pods", || {
        report(&mesh, &["audit-mesh"]).1["summary"]["pods"] == 4
    });
    let (code, before) = report(&mesh, &["audit-mesh", "audit-late"]);
    let good = [
        row("Pod", "bare", "skipped", 1, &[]),
        row("Pod", "unlabelled", "skipped", 1, &[]),
        row("Deployment", "web", "injected", 2, &[]),
        row("Job", "once", "injected", 1, &[]),
        row("Pod", "node", "skipped", 1, &[]),
    ];
    assert_eq!((code, rows(&before)), (0, good.to_vec()), "{before:#}");
    assert_eq!(
        before["workloads"][2]["proxy"],
        json!({"template": "proxy-sidecar", "version": env!("CARGO_PKG_VERSION")})
    );
    let label = ["label", "namespace", "audit-late", "outrigger.mesh/inject=enabled"];
    mesh.cluster.kubectl(&label).expect_success();
    let (code, after) = report(&mesh, &["audit-late"]);
    let bad = [
        row("Pod", "bare", "missing", 1, &["proxy-sidecar"]),
        row("Pod", "unlabelled", "missing", 1, &["proxy-sidecar", "environment"]),
    ];
    assert_eq!((code, rows(&after)), (1, bad.to_vec()), "{after:#}");
    assert_eq!(audit(&mesh, &["-n", "audit-late", "--exit-zero"]).0, 0);
    every_form_says_it(&mesh);
}

/// The table and the page of both namespaces, and the whole cluster's report.
fn every_form_says_it(mesh: &Mesh) {
    let within = ["-n", "audit-mesh", "-n", "audit-late"];
    let (code, table) = audit(mesh, &within);
    assert_eq!(code, 1);
    let line = |start: &[&str]| {
        let fits = |line: &&str| line.split_whitespace().take(start.len()).eq(start.iter().copied());
        assert!(table.lines().any(|line| fits(&line)), "{start:?}: {table}");
    };
    line(&["NAMESPACE", "WORKLOAD", "PODS", "STATE", "PROXY", "WHY"]);
    line(&["audit-mesh", "Deployment/web", "2", "injected", "proxy-sidecar"]);
    line(&["audit-late", "Pod/bare", "1", "missing", "-"]);
    line(&["deny:", "requirements:", "label", "environment", "is", "missing;"]);
    line(&["6", "pods", "of", "5", "workloads:", "2", "missing,"]);
    let (code, page) = audit(mesh, &[&within[..], &["-o", "html"]].concat());
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..roxmltree::ParsingOptions::default()
    };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let rows = document
        .descendants()
        .filter(|node| node.has_attribute("data-state"))
        .count();
    assert_eq!((code, rows), (1, 5));
    let (_, all) = report(mesh, &[]);
    let names: Vec<&str> = all["namespaces"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    for name in ["audit-mesh", "audit-late", "default", "kube-system"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn lists_longer_than_a_page_are_read_to_their_end() {
    const PODS: u64 = 503;
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("audit-many", &[]);
    let mut many = deployment("many", 0);
    many["spec"]["replicas"] = json!(PODS);
    create(&mesh, "audit-many", &many);
    eventually_long("all pods are there", || {
        report(&mesh, &["audit-many"]).1["summary"]["pods"] == PODS
    });
    let (code, report) = report(&mesh, &["audit-many"]);
    assert_eq!(
        (code, rows(&report)),
        (0, vec![row("Deployment", "many", "skipped", PODS, &[])])
    );
    let pods = report["workloads"][0]["pods"].as_array().unwrap();
    let different: std::collections::BTreeSet<_> = pods.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(different.len() as u64, PODS);
    let screen = on_a_terminal(&mesh, "audit -n audit-many");
    assert!(screen.contains("/503 pods"), "a bar while it reads: {screen:?}");
    assert!(screen.contains("many"), "and then the table: {screen:?}");
    mesh.cluster
        .kubectl(&["delete", "namespace", "audit-many", "--wait=false"])
        .expect_success();
}

/// What the program writes where standard output and error are a terminal.
fn on_a_terminal(mesh: &Mesh, arguments: &str) -> String {
    let program = env!("CARGO_BIN_EXE_outrigger");
    let output = std::process::Command::new("script")
        .args([
            "--quiet",
            "--return",
            "--command",
            &format!("{program} {arguments}"),
            "/dev/null",
        ])
        .env_clear()
        .env("KUBECONFIG", mesh.cluster.kubeconfig())
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("script of bsdutils can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The controller makes a pod about every twentieth of a second.
fn eventually_long(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while !holds() {
        assert!(std::time::Instant::now() < end, "{what}: not within five minutes");
        std::thread::sleep(std::time::Duration::from_secs(2));
    }
}

#[test]
fn found_upstreams_that_are_out_of_date_are_named() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("audit-found", &[ENABLED]);
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
               "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}})
    };
    create(&mesh, "audit-found", &service("orders"));
    let auto = "{outrigger.mesh/upstreams: auto}";
    let upstreams = |name: &str| {
        let (_, report) = report(&mesh, &["audit-found"]);
        let rows = report["workloads"].as_array().unwrap().iter();
        let row = rows.into_iter().find(|row| row["name"] == name);
        row.map(|row| row["upstreams"].clone()).unwrap()
    };
    // The webhook sees Services a moment after they are made.
    let mut pods = 0;
    eventually("a pod finds the Service", || {
        pods += 1;
        mesh.create("audit-found", &pod(&format!("web-{pods}"), GOOD, auto, ""));
        upstreams(&format!("web-{pods}")).is_null()
    });
    let web = format!("web-{pods}");
    let address = mesh.cluster.kubectl(&[
        "get",
        "service",
        "orders",
        "-n",
        "audit-found",
        "-o=jsonpath={.spec.clusterIP}",
    ]);
    let address = address.expect_success();
    create(&mesh, "audit-found", &service("late"));
    mesh.cluster
        .kubectl(&["delete", "service", "orders", "-n", "audit-found"])
        .expect_success();
    assert_eq!(
        upstreams(&web),
        json!({"missing": ["late.audit-found:80"], "gone": [format!("{}:80", address.trim())]})
    );
}

/// A kubeconfig of a service account, next to the administrator's.
fn kubeconfig_of(mesh: &Mesh, namespace: &str, account: &str) -> PathBuf {
    mesh.cluster
        .kubectl(&["create", "serviceaccount", account, "-n", namespace])
        .expect_success();
    let token = mesh
        .cluster
        .kubectl(&["create", "token", account, "-n", namespace])
        .expect_success();
    let text = std::fs::read_to_string(mesh.cluster.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let path = mesh.cluster.folder().join(format!("{account}.kubeconfig"));
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

#[track_caller]
fn fails_with(kubeconfig: &Path, arguments: &[&str], part: &str) {
    let output = outrigger(kubeconfig, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
    assert!(
        errors.starts_with("error: ") && errors.contains(part),
        "{part}: {errors}"
    );
}

#[test]
fn a_missing_verb_is_named_and_those_documented_are_enough() {
    let mesh = Mesh::shared();
    mesh.cluster.create_namespace("audit-rights", &[]);
    let user = kubeconfig_of(&mesh, "audit-rights", "auditor");
    fails_with(
        &user,
        &[],
        "the verb list on namespaces in the whole cluster is missing",
    );
    fails_with(
        &user,
        &["-n", "audit-rights"],
        "the verb get on namespaces (of audit-rights) is missing",
    );
    let documented = golden::documents(include_str!("../docs/examples/audit-rights.yaml"));
    let role = documented
        .iter()
        .find(|object| object["kind"] == "ClusterRole")
        .unwrap();
    let rule = |resource: &str, verb: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]});
    let rights = |rules: Value| {
        let mut role = role.clone();
        role["rules"] = rules;
        mesh.apply(&role);
    };
    rights(json!([rule("namespaces", "list"), rule("namespaces", "get")]));
    let binding = [
        "create",
        "clusterrolebinding",
        "auditor",
        "--clusterrole=outrigger-audit",
        "--serviceaccount=audit-rights:auditor",
    ];
    mesh.cluster.kubectl(&binding).expect_success();
    eventually("the rights are known", || {
        String::from_utf8_lossy(&outrigger(&user, &[]).stderr).contains("the verb list on pods")
    });
    fails_with(&user, &[], "the verb list on pods in the whole cluster is missing");
    fails_with(
        &user,
        &["-n", "audit-rights"],
        "the verb list on pods in namespace audit-rights is missing",
    );
    rights(json!([
        rule("namespaces", "list"),
        rule("namespaces", "get"),
        rule("pods", "list")
    ]));
    eventually("all but the Services are read", || {
        let output = outrigger(&user, &["--exit-zero"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success()
            && said.contains("warning: found upstreams are not looked at: the verb list on services")
    });
    mesh.apply(role);
    eventually("the rights are enough", || {
        [&["--exit-zero"][..], &["--exit-zero", "-n", "audit-rights"]]
            .iter()
            .map(|arguments| outrigger(&user, arguments))
            .all(|output| output.status.success() && output.stderr.is_empty())
    });
}

#[test]
fn a_namespace_that_is_not_there_is_an_error() {
    let mesh = Mesh::shared();
    for (name, said) in [
        ("nowhere", "namespace nowhere does not exist"),
        ("../pods", "namespace \"../pods\" does not exist"),
    ] {
        fails_with(&mesh.cluster.kubeconfig(), &["-n", name], said);
    }
}
