//! Every nginx.conf of every golden case passes `nginx -t` of a real nginx, in namespaces of its own: the
//! network has no other listener, `/etc/hosts` knows the cluster's DNS server, and the identity's files are there.

#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[path = "support/tools.rs"]
mod tools;

use std::path::Path;
use std::process::Command;

use golden::cases;
use outrigger::names;
use serde_json::Value;

/// What the kubelet would have set up around the proxy; `$1` nginx, `$2` the folder with its files.
const AROUND: &str = r#"
set -eu
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/case /run/outrigger/identity
touch /run/nginx
mount --bind "$1" /run/nginx
mount --bind "$2" /run/case
mount --bind "$2/identity" /run/outrigger/identity
mount --bind "$2/hosts" /etc/hosts
# Last, since the files may lie below it.
mount -t tmpfs tmpfs /tmp
exec /run/nginx -t -e stderr -c /run/case/nginx.conf
"#;

#[test]
fn every_configuration_passes_the_test_of_nginx() {
    let nginx = tools::tool("TEST_NGINX");
    let folder = tempfile::Builder::new()
        .prefix("nginx-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap();
    prepare(folder.path());
    let mut tested = 0;
    for case in cases() {
        for conf in case.pods().iter().filter_map(|pod| conf(pod.expected.as_ref()?)) {
            std::fs::write(folder.path().join("nginx.conf"), &conf).unwrap();
            let run = Command::new("unshare")
                .args(["--net", "--mount", "sh", "-c", AROUND, "sh"])
                .args([nginx.as_os_str(), folder.path().as_os_str()])
                .output()
                .expect("unshare of util-linux can be run, as root");
            let errors = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{}: {errors}\n{}", case.name, numbered(&conf));
            assert!(!errors.contains("[warn]"), "{}: {errors}", case.name);
            tested += 1;
        }
    }
    assert!(tested > 12, "only {tested} configurations were there to be tested");
}

fn conf(pod: &Value) -> Option<String> {
    pod["metadata"]["annotations"][names::NGINX_CONF]
        .as_str()
        .map(str::to_owned)
}

fn numbered(text: &str) -> String {
    text.lines()
        .zip(1..)
        .map(|(line, number)| format!("{number:4} {line}\n"))
        .collect()
}

/// Both forms of an identity: a pod certificate's bundle, and a Secret's files.
fn prepare(folder: &Path) {
    let identity = folder.join("identity");
    std::fs::create_dir(&identity).unwrap();
    let made = rcgen::generate_simple_self_signed(["shop.ns.cluster.local".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    for (file, text) in [
        ("bundle.pem", format!("{key}{certificate}")),
        ("ca.pem", certificate.clone()),
        ("tls.crt", certificate.clone()),
        ("tls.key", key),
        ("ca.crt", certificate),
    ] {
        std::fs::write(identity.join(file), text).unwrap();
    }
    std::fs::write(
        folder.join("hosts"),
        "127.0.0.1 localhost kube-dns.kube-system.svc.cluster.local.\n",
    )
    .unwrap();
}
