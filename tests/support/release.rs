//! The chart, installed on a test node as a user installs it.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;

use crate::cluster::PATIENCE;
use crate::cluster::tools::Helm;
use crate::node::Node;

/// Where the release is.
pub(crate) const NAMESPACE: &str = "outrigger-system";

/// A release of the chart called `outrigger`.
pub(crate) struct Release<'a> {
    pub(crate) node: &'a Node,
    pub(crate) helm: Helm,
    values: Vec<String>,
}

impl<'a> Release<'a> {
    /// Installs it with these flags, and waits until it runs and is called.
    pub(crate) fn install(node: &'a Node, flags: &[&str]) -> Self {
        Self::install_by(Helm::Three, node, flags)
    }

    /// The same by one of the versions of Helm.
    pub(crate) fn install_by(helm: Helm, node: &'a Node, flags: &[&str]) -> Self {
        let values = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let release = Self { node, helm, values };
        release.upgrade(&[]);
        eventually("caBundle is written", || release.has_bundles());
        release
    }

    /// `helm upgrade` to the same values and these flags.
    pub(crate) fn upgrade(&self, flags: &[&str]) {
        let values = self.values.iter().map(String::as_str);
        let flags: Vec<&str> = values.chain(flags.iter().copied()).collect();
        let answer = self.node.install_by(self.helm, &flags);
        assert!(answer.success, "{}{}", answer.errors, self.node.log_tails());
    }

    /// Another command of Helm on the release, such as `rollback`; it must succeed.
    pub(crate) fn helm(&self, command: &str, flags: &[&str]) {
        let place = [command, "outrigger", "--wait", "--namespace", NAMESPACE];
        self.node.helm_of(self.helm, &[&place, flags].concat()).expect_success();
    }

    /// Runs kubectl in the release's namespace; it must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let arguments: Vec<&str> = ["-n", NAMESPACE].iter().chain(arguments).copied().collect();
        self.node.cluster.kubectl(&arguments).expect_success()
    }

    /// An object of the release.
    pub(crate) fn get(&self, what: &[&str]) -> Value {
        let arguments: Vec<&str> = ["get", "-o=json"].iter().chain(what).copied().collect();
        serde_json::from_str(&self.kubectl(&arguments)).expect("kubectl prints JSON")
    }

    /// Waits until all replicas are of the newest kind and ready, and no other is left.
    pub(crate) fn wait_until_complete(&self) {
        self.kubectl(&["rollout", "status", "deployment/outrigger", "--timeout=2m"]);
        let wanted = self.get(&["deployment", "outrigger"])["spec"]["replicas"].as_u64();
        eventually("only ready replicas are left", || {
            let list = self.get(&["pods", "-l", "app.kubernetes.io/component=webhook"]);
            let pods = list["items"].as_array().expect("a list");
            pods.len() as u64 == wanted.expect("a number") && pods.iter().all(is_ready)
        });
    }

    /// The replicas' pods, and how often each has been restarted.
    pub(crate) fn restarts(&self) -> Vec<(String, u64)> {
        let list = self.get(&["pods", "-l", "app.kubernetes.io/component=webhook"]);
        let items = list["items"].as_array().expect("a list");
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        items
            .iter()
            .map(|pod| (text(&pod["metadata"]["name"]), restarts(pod).unwrap_or_default()))
            .collect()
    }

    /// The pod that leads.
    pub(crate) fn leader(&self) -> String {
        text(&self.get(&["lease", "outrigger-leader"])["spec"]["holderIdentity"])
    }

    /// Kills a replica's process, and waits until it runs again and all are ready.
    pub(crate) fn kill(&self, pod: &str) {
        let restarts = |release: &Self| release.restarts().into_iter().find(|(name, _)| name == pod);
        let before = restarts(self);
        self.crash(pod);
        eventually("the killed replica is started again", || restarts(self) != before);
        self.wait_until_complete();
    }

    /// Asks for a new `ca` or `certificate`, and waits until it is in use.
    pub(crate) fn rotate(&self, what: &str) {
        let before = (self.certificate(), self.authorities());
        self.ask_for_rotation(what);
        eventually("the rotation is complete", || {
            let (certificate, authorities) = (self.certificate(), self.authorities());
            certificate != before.0 && authorities.len() == 1 && (authorities != before.1) == (what == "ca")
        });
    }

    /// Kills a replica's process.
    pub(crate) fn crash(&self, pod: &str) {
        self.node.kill_container(NAMESPACE, pod, "outrigger");
    }

    /// Asks for a new `ca` or `certificate`.
    pub(crate) fn ask_for_rotation(&self, what: &str) {
        let annotation = format!("outrigger.mesh/rotate={what}");
        self.kubectl(&["annotate", "secret", "outrigger-certificates", &annotation]);
    }

    /// The serving certificate, as PEM.
    pub(crate) fn certificate(&self) -> String {
        self.secret("tls.crt")
    }

    /// The certificates of the CAs that are trusted, each as PEM.
    pub(crate) fn authorities(&self) -> Vec<String> {
        let end = "-----END CERTIFICATE-----";
        let bundle = self.secret("ca.crt");
        let certificates = bundle.split_inclusive(end).map(str::trim);
        certificates
            .filter(|pem| pem.ends_with(end))
            .map(str::to_owned)
            .collect()
    }

    fn secret(&self, key: &str) -> String {
        self.text_of("outrigger-certificates", key)
    }

    /// What a Secret of the release holds at a key; nothing where it is not there.
    pub(crate) fn text_of(&self, secret: &str, key: &str) -> String {
        let list = self.get(&["secret", "--field-selector", &format!("metadata.name={secret}")]);
        let encoded = &list["items"][0]["data"][key];
        let decoded = BASE64_STANDARD.decode(encoded.as_str().unwrap_or_default());
        String::from_utf8(decoded.expect("Secrets are base64")).expect("PEM is text")
    }

    fn has_bundles(&self) -> bool {
        self.bundles().iter().all(Value::is_string)
    }

    /// `caBundle` of every entry of both configurations.
    pub(crate) fn bundles(&self) -> Vec<Value> {
        let kinds = ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"];
        let webhooks = kinds.map(|kind| self.get(&[kind, "outrigger"])["webhooks"].take());
        let entries = webhooks.iter().flat_map(|list| list.as_array().expect("a list"));
        entries.map(|entry| entry["clientConfig"]["caBundle"].clone()).collect()
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .filter(|condition| condition["type"] == "Ready")
        .any(|condition| condition["status"] == "True");
    ready && pod["metadata"]["deletionTimestamp"].is_null()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until something holds.
///
/// # Panics
/// When it takes too long.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
