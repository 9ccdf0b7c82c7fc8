//! What is made of Secrets that somebody has edited.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::certificates::make::apply;
use crate::certificates::plan::{Change, Settings, Why};
use crate::config::Lifetimes;

const NOW: Moment = Moment::from_second(1_700_000_000);

fn change(change: Change, state: Result<&State, &Unsound>) -> State {
    let hour = Duration::from_hours(1);
    let settings = Settings {
        names: ["outrigger.mesh.svc".to_owned()].into(),
        lifetimes: Lifetimes {
            certificate: hour * 24,
            authority: hour * 48,
            overlap: hour,
        },
    };
    apply(change, state, None, NOW, &settings).unwrap()
}

fn found() -> State {
    change(Change::Found, Err(&Unsound::Empty))
}

/// Every step of a rotation.
fn rotation() -> [State; 4] {
    let begun = change(Change::Begin(Why::Asked), Ok(&found()));
    let marked = change(Change::Mark, Ok(&begun));
    let switched = change(Change::Switch, Ok(&marked));
    let retired = change(Change::Retire, Ok(&switched));
    [begun, marked, switched, retired]
}

type Secret = BTreeMap<String, String>;

fn secret(state: &State) -> Secret {
    let entries = state.encode().into_iter();
    entries
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

fn with(state: &State, key: &str, value: &str) -> Secret {
    let mut secret = secret(state);
    secret.insert(key.to_owned(), value.to_owned());
    secret
}

#[test]
fn every_state_survives_the_secret() {
    for state in [found()].into_iter().chain(rotation()) {
        let mut secret = secret(&state);
        assert_eq!(State::decode(&secret), Ok(state.clone()));
        secret.insert("someone-elses".to_owned(), "entry".to_owned());
        assert_eq!(State::decode(&secret), Ok(state));
    }
}

#[test]
fn the_order_of_authorities_does_not_matter() {
    for state in rotation() {
        let reversed: Vec<String> = state.trusted().map(Certificate::pem).collect();
        let reversed: String = reversed
            .into_iter()
            .rev()
            .chain([state.signer.certificate.pem()])
            .collect();
        assert_eq!(State::decode(&with(&state, CA_CERTIFICATES, &reversed)), Ok(state));
    }
}

#[test]
fn an_authority_that_cannot_sign_is_told() {
    let (state, other) = (found(), found());
    let unsound = |secret: &Secret| State::decode(secret).unwrap_err();
    assert_eq!(unsound(&Secret::new()), Unsound::Empty);
    assert_eq!(unsound(&[("other".to_owned(), "x".to_owned())].into()), Unsound::Empty);
    let leaf = state.leaf.as_ref().unwrap().certificate.pem();
    for (key, value, expected) in [
        (CA_CERTIFICATES, "", "it has no entry ca.crt"),
        (
            CA_CERTIFICATES,
            "x",
            "its entry ca.crt cannot be used: no PEM block with a certificate",
        ),
        (
            CA_CERTIFICATES,
            &leaf,
            "its entry ca.crt holds a certificate of no authority: ",
        ),
        (
            CA_CERTIFICATES,
            &other.bundle(),
            "the key in its entry ca.key is that of no certificate in ca.crt",
        ),
        (CA_KEY, "", "it has no entry ca.key"),
        (CA_KEY, "x", "its entry ca.key holds no private key: "),
    ] {
        let told = unsound(&with(&state, key, value)).to_string();
        assert!(told.starts_with(expected), "{key}: {told}");
    }
}

#[test]
fn a_serving_certificate_that_cannot_be_served_is_told() {
    let (state, other) = (found(), found());
    let (certificate, key) = (secret(&other)[CERTIFICATE].clone(), secret(&other)[KEY].clone());
    let fault = |secret: &Secret| State::decode(secret).unwrap().leaf.unwrap_err().to_string();
    for (entry, value, expected) in [
        (CERTIFICATE, "", "there is no entry tls.crt"),
        (KEY, "", "there is no entry tls.key"),
        (
            CERTIFICATE,
            "x",
            "the entry tls.crt cannot be used: no PEM block with a certificate",
        ),
        (KEY, "x", "the entry tls.key holds no private key: "),
        (
            KEY,
            &key,
            "the key in the entry tls.key is not the one of the certificate in tls.crt",
        ),
    ] {
        let told = fault(&with(&state, entry, value));
        assert!(told.starts_with(expected), "{entry}: {told}");
    }
    let mut strange = with(&state, CERTIFICATE, &certificate);
    strange.insert(KEY.to_owned(), key);
    assert_eq!(
        fault(&strange),
        "no certificate in the entry ca.crt has signed that in tls.crt"
    );
}

#[test]
fn what_is_wrong_about_a_rotation_starts_it_again() {
    let [_, marked, ..] = rotation();
    let no_key = State::decode(&with(&marked, NEXT_CA_KEY, "x")).unwrap();
    assert_eq!(
        (no_key.next, no_key.retiring.len()),
        (None, 1),
        "an authority without key is on its way out"
    );
    let no_certificate = State::decode(&with(&marked, CA_CERTIFICATES, &marked.signer.certificate.pem())).unwrap();
    assert_eq!((no_certificate.next, no_certificate.retiring.len()), (None, 0));
    assert_eq!(
        State::decode(&with(&marked, ROTATION_SINCE, "yesterday"))
            .unwrap()
            .since,
        None
    );
}

#[test]
fn keys_are_never_shown() {
    for state in rotation() {
        assert!(!format!("{state:?}").contains("PRIVATE"), "{state:?}");
    }
}
