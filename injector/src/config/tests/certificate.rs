//! Tests of the part about certificates.

use super::*;

fn managed(vars: &[(&str, &str)]) -> Managed {
    match read(vars).unwrap().server.certificate {
        Some(CertificateSource::Managed(managed)) => managed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_secret_alone_is_enough_for_certificates() {
    let found = managed(&[
        ("OUTRIGGER_CERT_SECRET", "certs"),
        ("OUTRIGGER_RELEASE_NAMESPACE", "mesh"),
    ]);
    let expected = Managed {
        namespace: "mesh".into(),
        secret: "certs".into(),
        names: ["outrigger.mesh.svc", "outrigger.mesh.svc.cluster.local"]
            .map(Into::into)
            .into(),
        webhook_configuration: "outrigger".into(),
        lease: "outrigger-leader".into(),
        holder: None,
        lifetimes: Lifetimes {
            certificate: Duration::from_hours(90 * 24),
            authority: Duration::from_hours(5 * 365 * 24),
            overlap: Duration::from_mins(5),
        },
    };
    assert_eq!(found, expected);
}

#[test]
fn reads_every_value_of_certificates() {
    let found = managed(&[
        ("OUTRIGGER_CERT_SECRET", "certs"),
        ("OUTRIGGER_CERT_NAMES", "Web.Mesh.svc, 10.0.0.7,0:0::1,10.0.0.7"),
        ("OUTRIGGER_WEBHOOK_CONFIGURATION", "mesh.example"),
        ("OUTRIGGER_LEASE", "boss"),
        ("OUTRIGGER_POD_NAME", "outrigger-7d9f-x2"),
        ("OUTRIGGER_CERT_LIFETIME", "90s"),
        ("OUTRIGGER_CA_LIFETIME", "2m"),
        ("OUTRIGGER_CA_OVERLAP", "7s"),
    ]);
    let expected = Managed {
        namespace: "outrigger-system".into(),
        secret: "certs".into(),
        names: ["web.mesh.svc", "10.0.0.7", "::1"].map(Into::into).into(),
        webhook_configuration: "mesh.example".into(),
        lease: "boss".into(),
        holder: Some("outrigger-7d9f-x2".into()),
        lifetimes: Lifetimes {
            certificate: Duration::from_secs(90),
            authority: Duration::from_secs(120),
            overlap: Duration::from_secs(7),
        },
    };
    assert_eq!(found, expected);
}

#[test]
fn the_certificate_comes_from_one_place() {
    let found = lines(&[
        ("OUTRIGGER_CERT_SECRET", "certs"),
        ("OUTRIGGER_CERT_FILE", "/tls.crt"),
        ("OUTRIGGER_KEY_FILE", "/tls.key"),
    ]);
    let sentence = "OUTRIGGER_CERT_SECRET and OUTRIGGER_CERT_FILE are both set: the certificate comes from one place, \
                    unset one of them";
    assert_eq!(found, [sentence]);
}

#[test]
fn lifetimes_must_fit_into_each_other() {
    let found = lines(&[("OUTRIGGER_CERT_LIFETIME", "10m"), ("OUTRIGGER_CA_LIFETIME", "9m")]);
    assert_eq!(
        found,
        [
            "OUTRIGGER_CERT_LIFETIME is 10m: expected at most 9m, which is OUTRIGGER_CA_LIFETIME",
            "OUTRIGGER_CA_OVERLAP is 5m, too long for OUTRIGGER_CERT_LIFETIME of 10m: expected a certificate's lifetime \
             of at least 1h, twelve overlaps",
        ]
    );
    let fits = |lifetime| {
        let vars = [("OUTRIGGER_CERT_LIFETIME", lifetime), ("OUTRIGGER_CA_OVERLAP", "1m")];
        read(&vars).is_ok()
    };
    assert_eq!([fits("719s"), fits("720s")], [false, true]);
}
