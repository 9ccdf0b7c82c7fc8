//! Faults that users of other sidecar injectors, admission webhooks and YAML libraries reported, each
//! a folder in `cases/`: what was wrong (`case.md`), an input, and the checks (`checks.rs`).

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/guarantees.rs"]
mod guarantees;
#[path = "support/program.rs"]
mod program;
#[path = "support/review.rs"]
mod review;
#[path = "support/strict_patch.rs"]
mod strict_patch;

#[path = "cases/18-anchors-and-merge-keys/checks.rs"]
mod anchors_and_merge_keys;
#[path = "cases/08-app-init-needs-network/checks.rs"]
mod app_init_needs_network;
#[path = "cases/01-bare-pod/checks.rs"]
mod bare_pod;
#[path = "cases/06-default-container/checks.rs"]
mod default_container;
#[path = "cases/16-document-boundaries/checks.rs"]
mod document_boundaries;
#[path = "cases/13-dry-run/checks.rs"]
mod dry_run;
#[path = "cases/02-empty-namespace-generatename/checks.rs"]
mod empty_namespace_generatename;
#[path = "cases/03-host-network/checks.rs"]
mod host_network;
#[path = "cases/07-job-completion/checks.rs"]
mod job_completion;
#[path = "cases/17-list-and-cronjob/checks.rs"]
mod list_and_cronjob;
#[path = "cases/05-name-collision/checks.rs"]
mod name_collision;
#[path = "cases/12-odd-optout-values/checks.rs"]
mod odd_optout_values;
#[path = "cases/04-pod-update-finalizer/checks.rs"]
mod pod_update_finalizer;
#[path = "cases/11-resource-quota/checks.rs"]
mod resource_quota;
#[path = "cases/10-security-context/checks.rs"]
mod security_context;
#[path = "cases/14-system-namespace-deadlock/checks.rs"]
mod system_namespace_deadlock;
#[path = "cases/09-unknown-fields-webhook/checks.rs"]
mod unknown_fields_webhook;
#[path = "cases/19-ways-around/checks.rs"]
mod ways_around;

use outrigger::names;

use review::Call;

const TEMPLATES: [&str; 2] = ["proxy-sidecar", "mtls"];
const TRAFFICS: [&str; 2] = ["redirect", "explicit"];
const POSITIONS: [Option<&str>; 4] = [None, Some("first"), Some("last"), Some("native")];

/// The request of a case, in the cluster of all cases.
fn call(review: &str) -> Call {
    Call::new(review, include_str!("cases/namespaces.yaml"))
}

/// A call with every template, position and traffic mode, set on its namespace, so that the pod
/// stays as it is. Each with a name for messages.
fn everywhere(call: &Call) -> Vec<(String, Call)> {
    let mut calls = Vec::new();
    for template in TEMPLATES {
        for traffic in TRAFFICS {
            for position in POSITIONS {
                let call = call
                    .namespace_annotated(names::TEMPLATE, template)
                    .namespace_annotated(names::TRAFFIC, traffic);
                let call = position.map_or_else(|| call.clone(), |p| call.namespace_annotated(names::POSITION, p));
                calls.push((format!("{template}, {traffic}, {position:?}"), call));
            }
        }
    }
    calls
}
