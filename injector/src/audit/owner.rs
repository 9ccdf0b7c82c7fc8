//! Whose a pod is: the workload that a person knows, above the objects that controllers make.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What a person calls the owner of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Workload {
    /// The namespace.
    pub namespace: String,
    /// The kind, `Pod` for a pod of nobody's.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// The part of a live pod that tells whose it is and whether it runs.
#[derive(Deserialize)]
pub(super) struct Live<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    labels: Option<Labels<'a>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
struct Labels<'a> {
    #[serde(rename = "pod-template-hash", borrow, default)]
    template_hash: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Status<'a> {
    #[serde(borrow, default)]
    phase: Option<Cow<'a, str>>,
}

impl Live<'_> {
    /// Whether it has ended or is about to.
    pub(super) fn is_ending(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
            || matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    pub(super) fn workload(&self) -> Workload {
        let owners = self.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let (kind, name) = controller.map_or(("Pod", &*self.metadata.name), |owner| self.above(owner));
        Workload {
            namespace: self.metadata.namespace.clone().into_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The owner's own owner, where its name tells it.
    fn above<'o>(&self, owner: &'o Owner<'_>) -> (&'o str, &'o str) {
        let derived = match (&*owner.api_version, &*owner.kind) {
            ("apps/v1", "ReplicaSet") => self.deployment(&owner.name).map(|name| ("Deployment", name)),
            ("batch/v1", "Job") => self.cron_job(&owner.name).map(|name| ("CronJob", name)),
            _ => None,
        };
        derived.unwrap_or((&owner.kind, &owner.name))
    }

    /// A Deployment calls its ReplicaSets by its own name and the hash, which it also puts on the pods.
    fn deployment<'n>(&self, replica_set: &'n str) -> Option<&'n str> {
        let hash = self.metadata.labels.as_ref()?.template_hash.as_deref()?;
        replica_set.strip_suffix(hash)?.strip_suffix('-')
    }

    /// A CronJob calls its Jobs by its own name and the scheduled time in minutes since 1970. Digits that
    /// do not fit the pod's age, such as a date, belong to the name of a Job of nobody's.
    fn cron_job<'n>(&self, job: &'n str) -> Option<&'n str> {
        const MOST_MINUTES: i64 = 7 * 24 * 60;
        let (name, digits) = job.rsplit_once('-')?;
        let minutes: i64 = digits.parse().ok().filter(|_| digits.len() == 8)?;
        let created: jiff::Timestamp = self.metadata.creation_timestamp.as_deref()?.parse().ok()?;
        let late = created.as_second() / 60 - minutes;
        (0..=MOST_MINUTES).contains(&late).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn workload(labels: &Value, owner: &Value) -> (String, String) {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "creationTimestamp": "2026-03-01T10:00:30Z",
            "labels": labels, "ownerReferences": [{"apiVersion": "x/v1", "kind": "Other", "name": "o"}, owner]}})
        .to_string();
        let live: Live<'_> = serde_json::from_str(&pod).unwrap();
        let Workload { kind, name, .. } = live.workload();
        (kind, name)
    }

    fn owner(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "name": name, "controller": true})
    }

    #[test]
    fn the_workload_is_what_a_person_calls_it() {
        let hash = json!({"pod-template-hash": "7d4f"});
        let minutes = "2026-03-01T10:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() / 60;
        let nightly = format!("nightly-{minutes}");
        for (labels, owner, kind, name) in [
            (&hash, owner("apps/v1", "ReplicaSet", "web-7d4f"), "Deployment", "web"),
            (
                &hash,
                owner("apps/v1", "ReplicaSet", "web-abcd"),
                "ReplicaSet",
                "web-abcd",
            ),
            (&hash, owner("apps/v1", "ReplicaSet", "7d4f"), "ReplicaSet", "7d4f"),
            (
                &Value::Null,
                owner("apps/v1", "ReplicaSet", "web-7d4f"),
                "ReplicaSet",
                "web-7d4f",
            ),
            (
                &hash,
                owner("example.com/v1", "ReplicaSet", "web-7d4f"),
                "ReplicaSet",
                "web-7d4f",
            ),
            (&Value::Null, owner("batch/v1", "Job", &nightly), "CronJob", "nightly"),
            (
                &Value::Null,
                owner("batch/v1", "Job", "report-20260228"),
                "Job",
                "report-20260228",
            ),
            (&Value::Null, owner("batch/v1", "Job", "migrate"), "Job", "migrate"),
            (&Value::Null, owner("apps/v1", "StatefulSet", "db"), "StatefulSet", "db"),
            (
                &Value::Null,
                json!({"apiVersion": "a/v1", "kind": "Tail", "name": "t"}),
                "Pod",
                "p",
            ),
        ] {
            assert_eq!(workload(labels, &owner), (kind.to_owned(), name.to_owned()), "{owner}");
        }
    }
}
