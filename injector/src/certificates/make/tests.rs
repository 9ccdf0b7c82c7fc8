//! What is in the certificates, read back by another library.
#![allow(clippy::unwrap_used)]

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::*;
use crate::certificates::plan::Why;
use crate::config::Lifetimes;

const NOW: Moment = Moment::from_second(1_700_000_000);
const HOUR: Duration = Duration::from_hours(1);

fn settings() -> Settings {
    Settings {
        names: ["outrigger.mesh.svc", "10.0.0.7", "fd00::7"].map(Into::into).into(),
        lifetimes: Lifetimes {
            certificate: HOUR * 2160,
            authority: HOUR * 43_800,
            overlap: HOUR / 12,
        },
    }
}

fn made(now: Moment) -> State {
    apply(Change::Found, Err(&Unsound::Empty), None, now, &settings()).unwrap()
}

fn parsed(certificate: &Certificate) -> X509Certificate<'_> {
    X509Certificate::from_der(certificate.der()).unwrap().1
}

/// The identifiers of a certificate's own key, and of the key that signed it.
fn identifiers(certificate: &X509Certificate<'_>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut own, mut authority) = (None, None);
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(found) => own = Some(found.0.to_vec()),
            ParsedExtension::AuthorityKeyIdentifier(found) => {
                authority = found.key_identifier.as_ref().map(|identifier| identifier.0.to_vec());
            }
            _ => {}
        }
    }
    (own, authority)
}

#[test]
fn an_authority_signs_servers_and_nothing_else() {
    let state = made(NOW);
    let authority = parsed(&state.signer.certificate);
    let constraints = authority.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(0));
    let usage = authority.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.key_cert_sign());
    assert_eq!(usage.value.flags.count_ones(), 1);
    assert_eq!(
        authority.public_key().algorithm.algorithm.to_id_string(),
        "1.2.840.10045.2.1"
    );
    authority.verify_signature(None).unwrap();
    assert_eq!(state.signer.certificate.not_before, NOW.minus(BACKDATED));
    assert_eq!(state.signer.certificate.not_after, NOW.plus(HOUR * 43_800));
}

#[test]
fn a_serving_certificate_is_for_a_server_and_its_names() {
    let state = made(NOW);
    let leaf = state.leaf.as_ref().unwrap();
    assert_eq!(leaf.certificate.names, settings().names);
    let certificate = parsed(&leaf.certificate);
    assert!(!certificate.basic_constraints().unwrap().unwrap().value.ca);
    let extended = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && !extended.client_auth && !extended.any);
    let usage = certificate.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature());
    assert_eq!(usage.flags.count_ones(), 1);
    assert_eq!(leaf.certificate.not_before, NOW.minus(BACKDATED));
    assert_eq!(leaf.certificate.not_after, NOW.plus(HOUR * 2160));
    assert_eq!(
        identifiers(&certificate).1,
        identifiers(&parsed(&state.signer.certificate)).0
    );
    assert!(leaf.certificate.is_signed_by(&state.signer.certificate));
}

#[test]
fn authorities_are_told_apart() {
    let (one, other) = (made(NOW), made(NOW));
    let (first, second) = (&one.signer.certificate, &other.signer.certificate);
    assert_ne!(first.subject, second.subject);
    assert!(first.subject.contains("Outrigger webhook CA "), "{}", first.subject);
    let (a, b) = (parsed(first), parsed(second));
    assert_ne!(a.raw_serial(), b.raw_serial());
    assert_ne!(identifiers(&a).0, identifiers(&b).0);
    let leaf = one.leaf.unwrap().certificate;
    assert!(leaf.is_signed_by(first) && !leaf.is_signed_by(second));
    assert!(!leaf.is_signed_by(&leaf), "a serving certificate is no authority");
}

#[test]
fn nothing_outlives_its_authority_or_is_older() {
    let state = made(NOW);
    let end = state.signer.certificate.not_after;
    let issue = |now| apply(Change::Issue(Why::Due), Ok(&state), None, now, &settings()).unwrap();
    let last = issue(end.minus(HOUR)).leaf.unwrap().certificate;
    assert_eq!(last.not_after, end);
    let first = issue(NOW.minus(HOUR / 60)).leaf.unwrap().certificate;
    assert_eq!(first.not_before, state.signer.certificate.not_before);
}

#[test]
fn a_lifetime_of_a_century_is_possible() {
    let mut settings = settings();
    settings.lifetimes.authority = HOUR * 876_000;
    let state = apply(Change::Found, Err(&Unsound::Empty), None, NOW, &settings).unwrap();
    assert_eq!(state.signer.certificate.not_after, NOW.plus(HOUR * 876_000));
}

#[test]
fn a_change_that_does_not_fit_is_refused() {
    let state = made(NOW);
    for (change, secret) in [
        (Change::Switch, Ok(&state)),
        (Change::Restore, Ok(&state)),
        (Change::Retire, Err(&Unsound::Empty)),
    ] {
        let refused = apply(change, secret, None, NOW, &settings());
        assert!(matches!(refused, Err(MakeError::Misplaced(_))), "{change:?}");
    }
}
