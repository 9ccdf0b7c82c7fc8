#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rcgen::PKCS_ECDSA_P521_SHA512;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::*;
use crate::certificates::make::authority;
use crate::tls::provider;

const DAY: Duration = Duration::from_hours(24);

fn now() -> Moment {
    "2026-11-30T12:00:00.777Z".parse().unwrap()
}

fn mesh_authority(lifetime: Duration) -> Authority {
    let pair = authority("Mesh", &PKCS_ECDSA_P256_SHA256, now(), lifetime).unwrap();
    Authority::new(&pair, &[]).unwrap()
}

/// An empty request, as the kubelet makes it.
fn stub(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let request = CertificateParams::default().serialize_request(&key).unwrap();
    request.der().to_vec()
}

fn request(stub: &[u8]) -> Request<'_> {
    Request {
        namespace: "shop",
        service_account: "web",
        stub,
        longest: Some(DAY),
        annotations: None,
    }
}

fn terms(lifetime: Duration) -> Terms {
    Terms {
        trust_domain: "cluster.local".into(),
        lifetime,
    }
}

const CHANCE: Chance = Chance {
    serial: [0x81; 16],
    refresh: 128,
};

fn issue(request: &Request<'_>) -> Result<Issued, IssueError> {
    mesh_authority(DAY * 365).issue(request, &terms(DAY), now(), CHANCE)
}

fn refusal(request: &Request<'_>) -> Refusal {
    match issue(request) {
        Err(IssueError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn der(issued: &Issued) -> Vec<u8> {
    Certificate::parse_all(issued.chain.as_bytes()).unwrap()[0]
        .der()
        .to_vec()
}

fn names(leaf: &X509Certificate<'_>) -> Vec<String> {
    let extension = leaf.subject_alternative_name().unwrap().unwrap();
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::URI(uri) => format!("URI:{uri}"),
        GeneralName::DNSName(name) => format!("DNS:{name}"),
        other => panic!("{other:?}"),
    };
    extension.value.general_names.iter().map(text).collect()
}

#[test]
fn a_leaf_says_who_the_pod_is_and_no_more() {
    for (_, algorithm) in KEY_TYPES {
        let stub = stub(algorithm);
        let issued = issue(&request(&stub)).unwrap();
        let der = der(&issued);
        let (_, leaf) = x509_parser::parse_x509_certificate(&der).unwrap();
        let expected = [
            "URI:spiffe://cluster.local/ns/shop/sa/web",
            "DNS:web.shop.sa.cluster.local",
            "DNS:shop.ns.cluster.local",
        ];
        assert_eq!(names(&leaf), expected);
        assert_eq!(leaf.subject().to_string(), "CN=web, OU=shop, O=cluster.local");
        assert!(!leaf.is_ca());
        let usage = leaf.key_usage().unwrap().unwrap();
        assert!(
            usage.critical && usage.value.flags == 1,
            "digitalSignature alone: {usage:?}"
        );
        let extended = leaf.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && extended.client_auth && extended.other.is_empty() && !extended.any);
        let stub = X509CertificationRequest::from_der(&stub).unwrap().1;
        assert_eq!(leaf.public_key().raw, stub.certification_request_info.subject_pki.raw);
        assert_eq!(leaf.raw_serial(), [&[0][..], &CHANCE.serial].concat());
    }
}

/// Names in the stub are the kubelet's to give; nobody has checked them.
#[test]
fn nothing_but_the_key_of_the_stub_counts() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["api.internal".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "system:masters");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let stub = params.serialize_request(&key).unwrap().der().to_vec();
    let issued = issue(&request(&stub)).unwrap();
    let der = der(&issued);
    let (_, leaf) = x509_parser::parse_x509_certificate(&der).unwrap();
    assert!(!leaf.is_ca() && names(&leaf).len() == 3);
    let extensions = leaf.extensions().iter();
    let odd = extensions.filter(|e| matches!(e.parsed_extension(), ParsedExtension::UnsupportedExtension { .. }));
    assert_eq!(odd.count(), 0);
    assert!(!leaf.subject().to_string().contains("masters"));
}

/// By rustls, which did not make it: as a server's by either name, and as a client's.
#[test]
fn a_leaf_proves_its_identity_to_servers_and_clients() {
    let authority = mesh_authority(DAY * 365);
    let stub = stub(&PKCS_ECDSA_P256_SHA256);
    let issued = authority.issue(&request(&stub), &terms(DAY), now(), CHANCE).unwrap();
    let leaf = CertificateDer::from(der(&issued));
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate().der().clone()).unwrap();
    let (roots, provider) = (std::sync::Arc::new(roots), std::sync::Arc::new(provider()));
    let seconds = u64::try_from(now().second()).unwrap();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .unwrap();
    let accepts = |name: &'static str| {
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&leaf, &[], &name, &[], time).is_ok()
    };
    assert!(accepts("web.shop.sa.cluster.local") && accepts("shop.ns.cluster.local"));
    assert!(!accepts("api.shop.sa.cluster.local") && !accepts("web.shop.svc.cluster.local"));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
        .build()
        .unwrap();
    verifier.verify_client_cert(&leaf, &[], time).unwrap();
}

#[test]
fn says_what_cannot_be_served() {
    let stub = stub(&PKCS_ECDSA_P256_SHA256);
    let (good, long) = (request(&stub), "a".repeat(65));
    let annotations = BTreeMap::from([("example.com/admin".to_owned(), "yes\n".to_owned())]);
    let p521 = self::stub(&PKCS_ECDSA_P521_SHA512);
    let cases = [
        (
            Request {
                service_account: &long,
                ..good
            },
            "UnsupportedName",
            "ServiceAccount has 65 characters",
        ),
        (Request { stub: b"MIIB", ..good }, "InvalidRequest", "cannot be read"),
        (
            Request { stub: &p521, ..good },
            "UnsupportedKeyType",
            "ECDSAP256, ECDSAP384 or ED25519",
        ),
        (
            Request {
                longest: Some(Duration::from_secs(60)),
                ..good
            },
            "InvalidRequest",
            "maxExpirationSeconds of the podCertificate volume to 3600",
        ),
        (
            Request {
                namespace: "shop/sa/admin",
                ..good
            },
            "UnsupportedName",
            "no name that a namespace can have",
        ),
        (
            Request {
                annotations: Some(&annotations),
                ..good
            },
            "InvalidUnverifiedUserAnnotations",
            "example.com/admin",
        ),
    ];
    for (request, reason, part) in cases {
        let refusal = refusal(&request);
        assert_eq!(refusal.reason(), reason);
        assert!(refusal.to_string().contains(part), "{refusal}");
    }
    assert!(
        issue(&Request {
            annotations: Some(&BTreeMap::new()),
            ..good
        })
        .is_ok()
    );
}

#[test]
fn a_stub_that_is_only_nearly_one_is_refused() {
    let good = stub(&PKCS_ECDSA_P256_SHA256);
    assert!(issue(&request(&good)).is_ok());
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(refusal(&request(&longer)), Refusal::Stub(_)));
    // The key's algorithm is an OBJECT IDENTIFIER; parsers take other tags for it too.
    let oid = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    let at = good.windows(oid.len()).position(|window| window == oid).unwrap();
    let mut odd = good;
    odd[at] = 0x16;
    assert!(matches!(refusal(&request(&odd)), Refusal::Stub(_)));
}

#[test]
fn an_authority_that_ends_signs_nothing_that_is_too_short() {
    let stub = stub(&PKCS_ECDSA_P256_SHA256);
    let request = request(&stub);
    let issue = |lifetime| mesh_authority(lifetime).issue(&request, &terms(DAY), now(), CHANCE);
    assert!(matches!(
        issue(Duration::from_mins(57)),
        Err(IssueError::EndingAuthority(_))
    ));
    let last = issue(Duration::from_hours(2)).unwrap();
    assert_eq!(last.not_after, whole(now().plus(Duration::from_hours(2))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The bounds that the API server sets: see `ValidatePodCertificateRequestStatusUpdate` of Kubernetes.
    #[test]
    fn every_leaf_passes_the_api_server(
        longest in 3600u64..=LONGEST.as_secs(), lifetime in 3600u64..=LONGEST.as_secs(),
        authority in 3600u64..=2 * LONGEST.as_secs(), refresh: u8, serial: [u8; 16], millis in 0i64..1000,
    ) {
        let stub = stub(&PKCS_ECDSA_P256_SHA256);
        let asked = Request { longest: Some(Duration::from_secs(longest)), ..request(&stub) };
        let now = Moment::from_second(now().second()).plus(Duration::from_millis(millis.unsigned_abs()));
        let authority = mesh_authority(Duration::from_secs(authority));
        let issued = authority
            .issue(&asked, &terms(Duration::from_secs(lifetime)), now, Chance { serial, refresh })
            .unwrap();
        let Issued { chain, not_before, not_after, begin_refresh_at } = issued;
        let leaf = Certificate::parse_all(chain.as_bytes()).unwrap().remove(0);
        prop_assert_eq!((leaf.not_before, leaf.not_after), (not_before, not_after));
        prop_assert!(leaf.valid_at(now) && leaf.is_signed_by(authority.certificate()));
        prop_assert!(not_before.until(now) < Duration::from_mins(3));
        let valid = not_before.until(not_after);
        prop_assert!(valid >= SHORTEST && valid <= Duration::from_secs(longest.min(lifetime)));
        prop_assert!(not_after <= authority.certificate().not_after);
        prop_assert!(begin_refresh_at >= not_before.plus(REFRESH_MARGIN));
        prop_assert!(begin_refresh_at <= not_after.minus(REFRESH_MARGIN));
        let share = not_before.until(begin_refresh_at).as_secs_f64() / valid.as_secs_f64();
        prop_assert!((0.39..=0.61).contains(&share), "{share}");
    }

    #[test]
    fn no_stub_makes_it_panic(stub: Vec<u8>) {
        prop_assert!(matches!(refusal(&request(&stub)), Refusal::Stub(_)));
    }
}
