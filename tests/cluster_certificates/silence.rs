//! Connections to the API server that fall silent: nothing comes any more, and no end either.

use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::balancer::Balancer;
use crate::installation::{Installation, assert_quiet, certificates_in};
use crate::watchers::handshake;
use crate::webhooks::{Server, eventually, page};

/// How far a replica can be behind, by docs/certificates.md.
const NOTICED: Duration = Duration::from_mins(1);

/// An installation that replica a leads; b reaches the API server through a line.
struct Scene {
    installation: Installation,
    a: Server,
    b: Server,
    line: Balancer,
}

impl Scene {
    fn new(name: &'static str, overlap: &str) -> Self {
        let installation = Installation::new(name);
        installation.register();
        let overlap = ("OUTRIGGER_CA_OVERLAP", overlap);
        let a = installation.launch("a", &[overlap]);
        eventually("a leads", || installation.holder().as_deref() == Some("a"));
        let line = Balancer::start();
        line.set(&[installation.api_server()]);
        let kubeconfig = installation.kubeconfig_through(&line).display().to_string();
        let b = installation.launch("b", &[overlap, ("OUTRIGGER_KUBECONFIG", &kubeconfig)]);
        installation.balancer.set(&[a.admission, b.admission]);
        for replica in [&a, &b] {
            eventually("both are ready", || page(replica.admin, "/readyz").0 == 200);
        }
        installation.wait_until_called();
        eventually("the bundles are published", || installation.is_published());
        Self {
            installation,
            a,
            b,
            line,
        }
    }

    /// What the Secret says is to be served.
    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.installation.secret()["tls.crt"].as_bytes()).unwrap()
    }

    /// Whether a replica serves this, to one who trusts what the Secret says.
    fn serves(&self, replica: &Server, certificate: &CertificateDer<'_>) -> bool {
        let trusted = self.installation.secret()["ca.crt"].clone();
        handshake(replica.admission, trusted.as_bytes()).is_ok_and(|shown| shown == *certificate)
    }
}

#[test]
fn a_replica_notices_that_its_watch_is_silent() {
    let scene = Scene::new("silent", "5m");
    let before = scene.certificate();
    scene.line.silence();
    scene.installation.ask("certificate");
    eventually("there is a new certificate", || scene.certificate() != before);
    let (after, asked) = (scene.certificate(), Instant::now());
    eventually("the other replica serves it", || scene.serves(&scene.a, &after));
    std::thread::sleep(Duration::from_secs(5));
    assert!(scene.serves(&scene.b, &before), "nothing has come through");
    while !scene.serves(&scene.b, &after) {
        assert!(asked.elapsed() < NOTICED, "{}", scene.b.log_text());
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(page(scene.b.admin, "/readyz").0, 200);
    assert_quiet(&scene.b);
}

/// It has missed a whole rotation when the leader goes: whatever it remembers, nobody trusts it alone again.
#[test]
fn whoever_leads_after_silence_puts_no_old_bundle_back() {
    let scene = Scene::new("stale", "2s");
    let Scene { installation, b, .. } = &scene;
    let before = installation.secret();
    scene.line.silence();
    installation.ask("ca");
    eventually("the new authority alone is trusted", || {
        let bundle = &installation.secret()["ca.crt"];
        certificates_in(bundle) == 1 && *bundle != before["ca.crt"] && installation.is_published()
    });
    let rotated = installation.secret()["ca.crt"].clone();
    let old = CertificateDer::from_pem_slice(before["tls.crt"].as_bytes()).unwrap();
    let shown = handshake(b.admission, before["ca.crt"].as_bytes());
    assert_eq!(shown, Ok(old), "b has heard of nothing");

    scene.a.signal("TERM");
    let mut since = None;
    while since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(4)) {
        let bundles = installation.bundles();
        assert!(bundles.iter().all(|bundle| bundle.as_ref() == Some(&rotated)));
        if installation.holder().as_deref() == Some("b") {
            since.get_or_insert_with(Instant::now);
        }
    }
    assert_eq!(installation.secret()["ca.crt"], rotated);
    assert!(scene.serves(b, &scene.certificate()), "it has looked anew");
    installation.balancer.set(&[b.admission]);
    installation.wait_until_called();
    assert_quiet(b);
}
