//! The table of cases of the validating check on a real API server: with the webhook, and without it but with the
//! printed ValidatingAdmissionPolicy. Both have to say the same in the same words.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "cluster_validating/api.rs"]
mod api;
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[path = "validating/table.rs"]
mod table;
#[allow(dead_code)]
#[path = "support/webhooks.rs"]
mod webhooks;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Api, Reply};
use crate::cluster::Cluster;
use crate::table::{Case, Expect, Group, Table, Verdict};
use crate::webhooks::{Mesh, eventually};

/// One cluster for all, since old pods that break the rules have to be there before anybody judges.
#[test]
fn webhook_and_policy_judge_every_case_alike() {
    let cluster = Arc::new(Cluster::start());
    let suite = Suite {
        api: Api::new(&cluster),
        cluster,
    };
    let table = Table::read();
    table.groups.iter().for_each(|group| suite.prepare(group));
    let of_policy: Vec<Outcomes> = table.groups.iter().map(|group| suite.judge_by_policy(group)).collect();
    for (group, of_policy) in table.groups.iter().zip(of_policy) {
        let of_webhook = suite.judge_by_webhook(group);
        assert_alike(group, &of_policy, &of_webhook);
    }
}

struct Suite {
    api: Api,
    cluster: Arc<Cluster>,
}

/// Verdict and sentences of each case of a group.
type Outcomes = Vec<(Verdict, Option<String>)>;

impl Suite {
    /// The namespaces, and the pods that are changed or deleted later.
    fn prepare(&self, group: &Group) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": group.namespace_objects()});
        self.cluster
            .kubectl_reading(&list.to_string(), &["create", "-f", "-"])
            .expect_success();
        group
            .namespaces
            .keys()
            .for_each(|name| self.cluster.namespace_ready(name));
        for case in &group.cases {
            if let Some(pod) = case.old_pod() {
                self.api.create(&case.namespace, &pod);
            }
        }
    }

    fn judge_by_policy(&self, group: &Group) -> Outcomes {
        let printed = self.printed_policy(group);
        let applied = self.cluster.kubectl_reading(&printed, &["apply", "-f", "-"]);
        assert_eq!(applied.errors, "", "no warning either");
        self.assert_types_are_right();
        let noted = || self.api.metric(&NOTED_BY_POLICY);
        let of_probe = |namespace: &str| self.judged(|| self.api.try_create(namespace, &probe()), noted).0.expect;
        for namespace in of_the_mesh(group) {
            eventually("the policy is in force", || of_probe(&namespace) != Expect::Allowed);
        }
        let outcomes = group
            .cases
            .iter()
            .map(|case| self.judged(|| self.api.attempt(case), noted));
        let outcomes = outcomes.collect();
        self.cluster
            .kubectl_reading(&printed, &["delete", "-f", "-"])
            .expect_success();
        for namespace in of_the_mesh(group) {
            eventually("the policy is gone", || of_probe(&namespace) == Expect::Allowed);
        }
        outcomes
    }

    fn judge_by_webhook(&self, group: &Group) -> Outcomes {
        let file = self.requirements(group);
        let file = file.as_deref().map(|path| path.to_str().unwrap());
        let variables: Vec<(&str, &str)> = file
            .map(|file| ("OUTRIGGER_REQUIREMENTS_FILE", file))
            .into_iter()
            .collect();
        let mesh = Mesh::register(Arc::clone(&self.cluster), &variables);
        // Until then the API server calls the one before, which is gone.
        eventually("the webhooks are called", || {
            self.api.try_create(&of_the_mesh(group)[0], &probe());
            mesh.calls("mutate") > 0.0 && mesh.calls("validate") > 0.0
        });
        let noted = || mesh.metric(NOTED_BY_WEBHOOK);
        let outcomes = group
            .cases
            .iter()
            .map(|case| self.judged(|| self.api.attempt(case), noted));
        outcomes.collect()
    }

    /// `noted` counts what the audit log was told.
    fn judged(&self, attempt: impl FnOnce() -> Reply, noted: impl Fn() -> f64) -> (Verdict, Option<String>) {
        let before = noted();
        let reply = attempt();
        (reply.verdict(|| noted() > before), reply.sentences())
    }

    fn printed_policy(&self, group: &Group) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        command.env_clear().args(["requirements", "policy"]);
        if let Some(file) = self.requirements(group) {
            command.arg("--requirements").arg(file);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn requirements(&self, group: &Group) -> Option<PathBuf> {
        let file = self.cluster.folder().join(format!("{}.yaml", group.name));
        std::fs::write(&file, group.requirements.as_ref()?).unwrap();
        Some(file)
    }

    /// The controller manager checks the types of every expression.
    fn assert_types_are_right(&self) {
        let mut policy = Value::Null;
        eventually("the types are checked", || {
            let get = [
                "get",
                "validatingadmissionpolicy",
                outrigger::names::POLICY,
                "-o",
                "json",
            ];
            policy = serde_json::from_str(&self.cluster.kubectl(&get).expect_success()).unwrap();
            policy["status"]["observedGeneration"] == policy["metadata"]["generation"]
                && policy["status"]["typeChecking"].is_object()
        });
        assert_eq!(policy["status"]["typeChecking"], json!({}), "no warnings");
    }
}

const NOTED_BY_POLICY: [&str; 3] = [
    "apiserver_validating_admission_policy_check_total{",
    "enforcement_action=\"audit\"",
    outrigger::names::POLICY,
];
const NOTED_BY_WEBHOOK: &str = "outrigger_admission_requests_total{endpoint=\"validate\",outcome=\"audited\"}";

/// A pod that every group's requirements are broken by.
fn probe() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [{"name": "app", "image": "app"}]}})
}

fn of_the_mesh(group: &Group) -> Vec<String> {
    let is_on = |label: Option<&String>| label.is_some_and(|text| text == "enabled" || text == "true");
    let known = group.known().into_iter();
    let on = known.filter(|(_, info)| is_on(info.labels.get(outrigger::names::INJECT)));
    on.map(|(name, _)| name).collect()
}

/// Every verdict is the table's, and a denial's words are the same.
fn assert_alike(group: &Group, of_policy: &Outcomes, of_webhook: &Outcomes) {
    let mut wrong = Vec::new();
    for (case, (policy, webhook)) in group.cases.iter().zip(of_policy.iter().zip(of_webhook)) {
        let (for_policy, for_webhook) = (visible(case.expected_of_policy()), visible(case.expected_in_cluster()));
        let same_words = for_policy != for_webhook || policy.1 == webhook.1;
        if policy.0 != for_policy || webhook.0 != for_webhook || !same_words {
            wrong.push(told(case, policy, webhook));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", group.name, wrong.join("\n"));
}

/// A client does not see what the audit log was told.
fn visible(verdict: Verdict) -> Verdict {
    match verdict.expect {
        Expect::Audited => Verdict {
            keys: [].into(),
            ..verdict
        },
        _ => verdict,
    }
}

fn told(case: &Case, policy: &(Verdict, Option<String>), webhook: &(Verdict, Option<String>)) -> String {
    format!("{}:\n  policy  {policy:?}\n  webhook {webhook:?}", case.name)
}
