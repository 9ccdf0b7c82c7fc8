//! A kubelet's request, its PKCS#10 stub included → leaf.
//!
//! An input is namespace, ServiceAccount, seconds and annotation, a line each, and the stub in DER behind them.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{PodCertificateRequest, PodCertificateRequestSpec};
use outrigger::certificates::{Certificate, Moment, Unsound};
use outrigger::config::KeyType;
use outrigger::identity::issuer::{Authority, Chance, IssueError, Issued, LONGEST, Request, SHORTEST, Terms};
use outrigger::identity::plan::{Change, Settings, View, apply};
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

const DAY: Duration = Duration::from_hours(24);
const TRUST_DOMAIN: &str = "cluster.local";
/// Noon of 2026-11-30: what is issued does not depend on the day.
const NOW: Moment = Moment::from_second(1_796_040_000);
const SERIAL: [u8; 16] = [0x81; 16];

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let settings = Settings {
        leaf: DAY,
        authority: DAY * 365,
        overlap: Duration::from_mins(10),
        key_type: KeyType::EcdsaP256,
    };
    let view = View {
        secret: Err(&Unsound::Empty),
        memory: None,
        in_force: None,
        asked: false,
        led_since: NOW,
    };
    let state = apply(Change::Found, &view, NOW, &settings).expect("an authority is made");
    Authority::new(&state.signer, &[]).expect("it can sign")
});

/// Checks an input.
pub(crate) fn check(input: &[u8]) {
    let request = request(input);
    let asked = Request::from(&request);
    let terms = Terms {
        trust_domain: TRUST_DOMAIN.to_owned(),
        lifetime: DAY,
    };
    let chance = Chance {
        serial: SERIAL,
        refresh: input.len().to_le_bytes()[0],
    };
    match AUTHORITY.issue(&asked, &terms, NOW, chance) {
        Ok(issued) => {
            check_times(&issued, asked.longest);
            check_leaf(&issued, &asked);
        }
        Err(IssueError::Refused(refusal)) => {
            assert!(!refusal.to_string().is_empty() && !refusal.reason().is_empty());
        }
        Err(error @ (IssueError::EndingAuthority(_) | IssueError::Library(_) | IssueError::Unreadable(_))) => {
            panic!("{error}: what is asked for is refused for good, or answered")
        }
    }
}

fn request(input: &[u8]) -> PodCertificateRequest {
    let mut lines = input.splitn(5, |byte| *byte == b'\n');
    let mut text = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (namespace, service_account, seconds, annotation) = (text(), text(), text(), text());
    let mut request = PodCertificateRequest::default();
    request.metadata.namespace = Some(namespace);
    request.spec = PodCertificateRequestSpec {
        service_account_name: service_account,
        stub_pkc_s10_request: ByteString(lines.next().unwrap_or_default().to_vec()),
        max_expiration_seconds: seconds.parse().ok(),
        unverified_user_annotations: annotation
            .split_once('=')
            .map(|(key, value)| BTreeMap::from([(key.to_owned(), value.to_owned())])),
        ..PodCertificateRequestSpec::default()
    };
    request
}

fn check_times(issued: &Issued, longest: Option<Duration>) {
    let valid = issued.not_before.until(issued.not_after);
    let most = longest.unwrap_or(LONGEST).min(DAY);
    assert!(valid >= SHORTEST && valid <= most, "{valid:?}, {longest:?}");
    assert!(issued.not_before <= NOW && NOW < issued.not_after);
    assert!(issued.not_before < issued.begin_refresh_at && issued.begin_refresh_at < issued.not_after);
}

fn check_leaf(issued: &Issued, asked: &Request<'_>) {
    let chain = Certificate::parse_all(issued.chain.as_bytes()).expect("the chain is PEM");
    assert_eq!(chain.len(), 1, "the root itself is not sent");
    assert!(chain[0].is_signed_by(AUTHORITY.certificate()));
    let (rest, leaf) = X509Certificate::from_der(chain[0].der()).expect("it can be read");
    assert!(rest.is_empty());
    let (_, stub) = X509CertificationRequest::from_der(asked.stub).expect("it was read");
    assert_eq!(leaf.public_key().raw, stub.certification_request_info.subject_pki.raw);
    assert_eq!(leaf.raw_serial(), [&[0][..], &SERIAL].concat());
    check_names(&leaf, asked);
    assert!(!leaf.is_ca());
    let usage = leaf.key_usage().expect("it is one").expect("there is one");
    assert!(
        usage.critical && usage.value.flags == 1,
        "digitalSignature alone: {usage:?}"
    );
    let extended = leaf
        .extended_key_usage()
        .expect("it is one")
        .expect("there is one")
        .value;
    assert!(extended.server_auth && extended.client_auth && !extended.any && !extended.code_signing);
    assert!(extended.other.is_empty() && !extended.ocsp_signing && !extended.time_stamping);
}

/// The names are the request's, and can be read in one way only.
fn check_names(leaf: &X509Certificate<'_>, asked: &Request<'_>) {
    let Request {
        namespace,
        service_account,
        ..
    } = asked;
    let names = leaf
        .subject_alternative_name()
        .expect("it is one")
        .expect("there is one");
    let expected = [
        format!("spiffe://{TRUST_DOMAIN}/ns/{namespace}/sa/{service_account}"),
        format!("{service_account}.{namespace}.sa.{TRUST_DOMAIN}"),
        format!("{namespace}.ns.{TRUST_DOMAIN}"),
    ];
    let found: Vec<_> = names.value.general_names.iter().collect();
    let [
        GeneralName::URI(uri),
        GeneralName::DNSName(account),
        GeneralName::DNSName(whole),
    ] = found[..]
    else {
        panic!("{found:?}");
    };
    assert_eq!([*uri, *account, *whole], expected.each_ref().map(String::as_str));
    let parts: Vec<&str> = uri.split('/').collect();
    assert_eq!(
        parts,
        ["spiffe:", "", TRUST_DOMAIN, "ns", namespace, "sa", service_account]
    );
    assert!(
        !namespace.contains('.'),
        "{account}: where does the ServiceAccount's name end?"
    );
    let attributes: Vec<_> = leaf
        .subject()
        .iter_attributes()
        .map(|a| a.as_str().expect("text"))
        .collect();
    assert_eq!(attributes, [*service_account, *namespace, TRUST_DOMAIN]);
}
