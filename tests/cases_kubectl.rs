//! The manifests of the cases, read by kubectl's own parser before and after injection.

#![allow(missing_docs)]

#[path = "support/judge.rs"]
mod judge;
#[path = "support/program.rs"]
mod program;
#[path = "support/tools.rs"]
mod tools;

use judge::Judge;
use program::{Run, documents};
use tools::tool;

const INPUTS: [(&str, &str); 8] = [
    ("03", include_str!("cases/03-host-network/deployment.yaml")),
    ("07", include_str!("cases/07-job-completion/cronjob.yaml")),
    ("11", include_str!("cases/11-resource-quota/input.yaml")),
    ("14", include_str!("cases/14-system-namespace-deadlock/input.yaml")),
    ("16", include_str!("cases/16-document-boundaries/input.yaml")),
    ("17", include_str!("cases/17-list-and-cronjob/input.yaml")),
    ("18", include_str!("cases/18-anchors-and-merge-keys/input.yaml")),
    ("namespaces", include_str!("cases/namespaces.yaml")),
];

#[test]
fn kubectl_reads_what_the_checks_read() {
    let mut judge = Judge::start(&tool("TEST_YAML_JUDGE"));
    for (case, input) in INPUTS {
        assert_eq!(judge.read(input.as_bytes()), Ok(documents(input)), "{case}: input");
        let run = Run::inject(input);
        assert_eq!(judge.read(run.stdout.as_bytes()), Ok(run.documents()), "{case}: output");
    }
}

#[test]
fn kubectl_refuses_the_broken_manifest_too() {
    let broken = include_str!("cases/16-document-boundaries/broken.yaml");
    let answer = Judge::start(&tool("TEST_YAML_JUDGE")).read(broken.as_bytes());
    assert!(answer.is_err(), "{answer:?}");
}
