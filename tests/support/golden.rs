//! The golden cases: one folder a case, read by the core, the command line, the HTTPS server, nginx
//! and the real API server.
//!
//! `input.yaml` holds a Namespace and a workload; `output.yaml` what `outrigger inject` makes of them
//! (absent where a pod is refused), `report.txt` what it says on standard error.

use std::path::{Path, PathBuf};

use outrigger::manifest::{self, Namespaces, Source};
use outrigger::workload::objects;
use serde_json::Value;

/// A case.
pub(crate) struct Case {
    /// The folder's name.
    pub(crate) name: String,
    /// The folder.
    pub(crate) folder: PathBuf,
    /// `input.yaml`
    pub(crate) input: Source,
}

/// A pod of a case and what becomes of it.
pub(crate) struct CasePod {
    /// The namespace's object.
    pub(crate) namespace: Value,
    /// The pod, or the template of one.
    pub(crate) pod: Value,
    /// The same injected; `None`: it is refused.
    pub(crate) expected: Option<Value>,
}

/// All cases, by name.
pub(crate) fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/cases");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("tests/golden/cases is there")
        .map(|entry| entry.expect("its entries can be read").path())
        .collect();
    folders.sort();
    assert!(folders.len() > 15, "the cases are gone");
    folders.into_iter().map(Case::read).collect()
}

impl Case {
    fn read(folder: PathBuf) -> Self {
        let name = folder
            .file_name()
            .expect("a folder has a name")
            .to_string_lossy()
            .into_owned();
        let file = folder.join("input.yaml");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Self {
            input: Source {
                name: "input.yaml".to_owned(),
                text,
            },
            name,
            folder,
        }
    }

    /// The expected manifests; `None`: the pod is refused.
    pub(crate) fn output(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.join("output.yaml")).ok()
    }

    /// What is known of the case's namespaces.
    pub(crate) fn namespaces(&self) -> Namespaces {
        let sources = [self.input.clone()];
        let manifests = manifest::parse(&sources).expect("the input is YAML");
        Namespaces::collect(&manifests).expect("the namespaces can be read")
    }

    /// The pods of the case.
    pub(crate) fn pods(&self) -> Vec<CasePod> {
        let input = documents(&self.input.text);
        let output = self.output().map(|text| documents(&text));
        let namespace = input.first().expect("a case begins with its namespace");
        let mut pods = Vec::new();
        for (index, document) in input.iter().enumerate() {
            for object in objects(document) {
                let Some(pod) = object.pod(document) else { continue };
                let expected = output.as_ref().and_then(|all| object.pod(&all[index])).cloned();
                pods.push(CasePod {
                    namespace: namespace.clone(),
                    pod: pod.clone(),
                    expected,
                });
            }
        }
        assert!(!pods.is_empty(), "{}: no pod", self.name);
        pods
    }
}

/// The documents of a stream that are not empty.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = outrigger::yaml::parse_stream(text).unwrap_or_else(|e| panic!("{e}"));
    documents.into_iter().filter_map(|document| document.value).collect()
}

/// The AdmissionReview with which an API server would ask for `pod`.
pub(crate) fn review_of(uid: &str, namespace: &str, pod: &Value) -> Value {
    serde_json::json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": pod,
            "oldObject": null,
            "dryRun": false,
        },
    })
}

/// The patch of an answer, applied to `pod`; `None`: there is none.
pub(crate) fn patched(answer: &Value, pod: &Value) -> Option<Value> {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let patch = BASE64_STANDARD
        .decode(answer["response"]["patch"].as_str()?)
        .expect("a patch is base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch is JSON");
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).expect("the patch applies");
    Some(pod)
}
