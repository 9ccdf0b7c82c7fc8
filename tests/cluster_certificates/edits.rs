//! What somebody changes by hand, and what is made of it.

use serde_json::{Value, json};

use crate::installation::{Installation, KINDS, SECRET, assert_no_errors, metric};
use crate::start::trust;
use crate::watchers::{Watcher, handshake};
use crate::webhooks::{Server, eventually, page};

fn total(replicas: &[Server; 2], series: &str) -> f64 {
    replicas.iter().map(|replica| metric(replica, series)).sum()
}

#[test]
fn a_changed_bundle_is_put_right() {
    let (installation, replicas) = Installation::with_replicas("bundles", &[]);
    let other = std::fs::read_to_string(&installation.cluster.authority().certificate).unwrap();
    let repairs = || total(&replicas, "outrigger_ca_bundle_repairs_total");
    eventually("it was seen in place", || installation.is_published());
    for (done, kind) in KINDS.iter().enumerate() {
        trust(&installation, kind, &other);
        eventually("the bundle is put right", || installation.is_published());
        eventually("it is counted", || repairs() >= (done + 1) as f64);
    }
    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]).to_string();
    let command = ["patch", KINDS[0], installation.name, "--type=json", "-p", &remove];
    installation.cluster.kubectl(&command).expect_success();
    eventually("a bundle that was removed comes back", || installation.is_published());

    installation
        .cluster
        .kubectl(&["delete", KINDS[1], installation.name])
        .expect_success();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let gone = installation.cluster.kubectl(&["get", KINDS[1], installation.name]);
    assert!(gone.expect_failure().contains("NotFound"), "it is never created");
    installation.apply(&installation.configuration(KINDS[1]));
    eventually("one that comes back gets its bundle", || installation.is_published());
    installation.wait_until_called();
    replicas.iter().for_each(assert_no_errors);
}

/// As while an installation changes to another mode, and replicas of the old one still run and may write.
#[test]
fn a_configuration_of_another_mode_is_left_alone() {
    let (installation, replicas) = Installation::with_replicas("modes", &[]);
    let kind = KINDS[0];
    let other = std::fs::read_to_string(&installation.cluster.authority().certificate).unwrap();
    let annotate = |value: &str| {
        let annotation = format!("outrigger.mesh/certificates{value}");
        let command = ["annotate", "--overwrite", kind, installation.name, &annotation];
        installation.cluster.kubectl(&command).expect_success();
    };
    let bundles = || installation.get(kind, installation.name)["webhooks"][0]["clientConfig"]["caBundle"].take();
    annotate("=secret");
    trust(&installation, kind, &other);
    let theirs = bundles();
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(bundles(), theirs, "it stays");
    annotate("=self-managed");
    eventually("it is ours again", || installation.is_published());
    annotate("-");
    trust(&installation, kind, &other);
    eventually("without a word it is ours", || installation.is_published());
    replicas.iter().for_each(assert_no_errors);
}

/// What the configuration's owner changes stays.
#[test]
fn an_entry_that_is_added_or_removed_is_no_trouble() {
    let (installation, replicas) = Installation::with_replicas("entries", &[]);
    let mut object = installation.configuration(KINDS[0]);
    let mut more = object["webhooks"][0].clone();
    more["name"] = json!("more.outrigger.mesh");
    more["rules"][0]["resources"] = json!(["configmaps"]);
    object["webhooks"].as_array_mut().unwrap().push(more);
    installation.apply(&object);
    eventually("the new entry gets a bundle", || installation.is_published());
    installation.apply(&installation.configuration(KINDS[0]));
    eventually("the entry goes, the others keep theirs", || {
        let entries = installation.get(KINDS[0], installation.name)["webhooks"].take();
        entries.as_array().unwrap().len() == 2 && installation.is_published()
    });
    replicas.iter().for_each(assert_no_errors);
}

/// As Helm 4, Flux and Argo CD do it: what an installer drops goes, although the server wrote into it.
#[test]
fn an_entry_that_is_dropped_by_server_side_apply_goes() {
    let (installation, replicas) = Installation::with_replicas("gitops", &[]);
    for kind in KINDS {
        installation
            .cluster
            .kubectl(&["delete", kind, installation.name])
            .expect_success();
    }
    let apply = |object: &Value| {
        let command = ["apply", "--server-side", "--field-manager=gitops", "-f", "-"];
        let applied = installation.cluster.kubectl_reading(&object.to_string(), &command);
        applied.expect_success();
    };
    for kind in KINDS {
        let mut object = installation.configuration(kind);
        apply(&object);
        eventually("it gets its bundles", || carries(&installation, kind));
        let entries = object["webhooks"].as_array_mut().unwrap();
        entries.remove(0);
        let left = entries.len();
        apply(&object);
        let found = installation.get(kind, installation.name)["webhooks"].take();
        assert_eq!(found.as_array().unwrap().len(), left, "{kind}: {found:#}");
        assert!(carries(&installation, kind), "{kind}: the others keep theirs");
        apply(&installation.configuration(kind));
        eventually("the entry that is back gets one", || carries(&installation, kind));
    }
    replicas.iter().for_each(assert_no_errors);
}

/// Whether every entry of a configuration has the bundle of the Secret.
fn carries(installation: &Installation, kind: &str) -> bool {
    let bundle = installation.get("secret", SECRET)["data"]["ca.crt"].take();
    let entries = installation.get(kind, installation.name)["webhooks"].take();
    let mut entries = entries.as_array().unwrap().iter();
    entries.all(|entry| entry["clientConfig"]["caBundle"] == bundle)
}

#[test]
fn an_emptied_secret_gets_back_what_it_held() {
    let (installation, replicas) = Installation::with_replicas("emptied", &[]);
    let watcher = Watcher::of_pods(&installation);
    let addresses = replicas.each_ref().map(|replica| replica.admission);
    let callers = Watcher::of_handshakes(&installation, &addresses);
    let before = installation.secret();
    for edit in [
        json!({"data": null}),
        json!({"data": {"ca.key": null}}),
        json!({"stringData": {"ca.crt": "nothing"}}),
        json!({"stringData": {"ca.key": before["tls.key"]}}),
    ] {
        installation.patch_secret(&edit);
        eventually("everything is back", || installation.secret() == before);
    }
    for (edit, reason) in [
        (
            json!({"stringData": {"tls.key": before["ca.key"]}}),
            "is not the one of the certificate in tls.crt",
        ),
        (
            json!({"stringData": {"tls.crt": "nothing"}}),
            "the entry tls.crt cannot be used",
        ),
    ] {
        let broken = installation.secret();
        installation.patch_secret(&edit);
        eventually("there is a new serving certificate", || {
            let secret = installation.secret();
            secret["tls.crt"] != broken["tls.crt"] && secret["tls.crt"].contains("BEGIN CERTIFICATE")
        });
        assert_eq!(installation.secret()["ca.crt"], before["ca.crt"]);
        for replica in &replicas {
            eventually("the refusal is told", || replica.log_text().contains(reason));
            assert!(metric(replica, "outrigger_certificate_reload_failures_total") > 0.0);
        }
    }
    for replica in &replicas {
        eventually("what is new is served", || {
            metric(replica, "outrigger_certificate_reloads_total") >= 2.0
        });
    }
    watcher.saw_no_failure();
    callers.saw_no_failure();
    replicas.iter().for_each(assert_no_errors);
}

#[test]
fn a_deleted_secret_is_told_and_filled_again_when_it_is_back() {
    let (installation, replicas) = Installation::with_replicas("deleted", &[]);
    let watcher = Watcher::of_pods(&installation);
    let before = installation.secret();
    installation
        .cluster
        .kubectl(&["delete", "secret", SECRET, "-n", "deleted"])
        .expect_success();
    for replica in &replicas {
        eventually("the log says what to do", || {
            replica.log_text().contains("restore it with helm upgrade")
        });
        assert_eq!(page(replica.admin, "/readyz").0, 200, "what is served stays");
        handshake(replica.admission, before["ca.crt"].as_bytes()).unwrap();
    }
    installation.apply(&installation.secret_object());
    eventually("it is filled with what it held", || installation.secret() == before);
    watcher.saw_no_failure();
    replicas.iter().for_each(assert_no_errors);
}

#[test]
fn what_is_asked_for_is_done_once() {
    let (installation, replicas) = Installation::with_replicas("asked", &[("OUTRIGGER_CA_OVERLAP", "2s")]);
    let watcher = Watcher::of_pods(&installation);
    let addresses = replicas.each_ref().map(|replica| replica.admission);
    let callers = Watcher::of_handshakes(&installation, &addresses);
    let before = installation.secret();
    installation.ask("everything");
    eventually("an unknown wish is dismissed", || installation.asked() == Value::Null);
    assert_eq!(installation.secret(), before);

    installation.ask("certificate");
    eventually("there is a new certificate", || {
        installation.secret()["tls.crt"] != before["tls.crt"]
    });
    assert_eq!(installation.asked(), Value::Null);
    let renewed = installation.secret();
    assert_eq!(renewed["ca.crt"], before["ca.crt"]);

    installation.ask("ca");
    eventually("the new authority alone is trusted", || {
        let bundle = &installation.secret()["ca.crt"];
        *bundle != before["ca.crt"] && !bundle.contains(before["ca.crt"].trim())
    });
    assert_eq!(installation.asked(), Value::Null);
    let rotated = installation.secret();
    let keys: Vec<&str> = rotated.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["ca.crt", "ca.key", "tls.crt", "tls.key"],
        "nothing of the rotation is left"
    );
    assert_ne!(rotated["tls.crt"], renewed["tls.crt"]);
    eventually("it is published", || installation.is_published());
    let made = |kind: &str| {
        total(
            &replicas,
            &format!("outrigger_certificate_renewals_total{{kind=\"{kind}\"}}"),
        )
    };
    assert_eq!(
        (made("ca"), made("certificate")),
        (2.0, 3.0),
        "each once, and the first ones"
    );
    watcher.saw_no_failure();
    callers.saw_no_failure();
    replicas.iter().for_each(assert_no_errors);
}
