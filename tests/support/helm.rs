//! Helm, and what it makes of the chart. Which Helm, the suite says: `const HELM`.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cluster::{Answer, Cluster};

/// Where releases are installed.
pub(crate) const NAMESPACE: &str = "outrigger-system";

/// The release's name.
pub(crate) const RELEASE: &str = "outrigger";

/// The chart's folder.
pub(crate) fn chart() -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../charts/outrigger");
    folder.to_str().expect("the path is UTF-8").to_owned()
}

/// Runs Helm, which finds the cluster by the kubeconfig, if there is one.
fn run(kubeconfig: Option<&Path>, input: &str, arguments: &[&str]) -> Answer {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build folder is writable");
    let mut command = Command::new(crate::HELM.program());
    command.env_clear().env("HOME", home.path()).args(arguments);
    if let Some(path) = kubeconfig {
        command.env("KUBECONFIG", path);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("Helm is a program");
    // Helm may end without reading; then its answer says why.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("Helm can be waited for");
    Answer {
        success: output.status.success(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs Helm on a cluster, with values on its standard input.
pub(crate) fn helm(cluster: &Cluster, values: &Value, arguments: &[&str]) -> Answer {
    run(Some(&cluster.kubeconfig()), &values.to_string(), arguments)
}

/// Runs Helm without a cluster, with values on its standard input.
pub(crate) fn offline(values: &Value, arguments: &[&str]) -> Answer {
    run(None, &values.to_string(), arguments)
}

/// What `helm template` says with these values over the chart's own.
pub(crate) fn template(values: &Value) -> Answer {
    let chart = chart();
    offline(values, &["template", RELEASE, &chart, "-n", NAMESPACE, "-f", "-"])
}

/// The objects of the chart with these values, those of its test among them.
pub(crate) fn rendered(values: &Value) -> Vec<Value> {
    let text = template(values).expect_success();
    let documents = outrigger::yaml::parse_stream(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    for document in &documents {
        // Helm itself takes the last of them.
        assert_eq!(document.duplicate_keys, [], "{values}: {text}");
    }
    documents.into_iter().filter_map(|document| document.value).collect()
}

/// The one object of a kind.
pub(crate) fn only<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("there is no {kind}"));
    assert!(found.next().is_none(), "there are several of kind {kind}");
    object
}

/// `below` over `above`, as Helm puts values over each other.
pub(crate) fn merged(above: &Value, below: &Value) -> Value {
    let (Value::Object(above), Value::Object(below)) = (above, below) else {
        return below.clone();
    };
    let mut result = above.clone();
    for (key, value) in below {
        let value = above.get(key).map_or_else(|| value.clone(), |old| merged(old, value));
        result.insert(key.clone(), value);
    }
    Value::Object(result)
}
