//! Makes authorities and serving certificates, and the state after a change.

use std::collections::BTreeSet;
use std::time::Duration;

use super::certificate::{BACKDATED, Certificate, CertificateError};
use super::plan::{Change, Settings};
use super::state::{Key, Pair, State};
use super::{Moment, Unsound};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SignatureAlgorithm, date_time_ymd,
};

/// Why nothing could be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The library refused, or there is no randomness.
    #[error("cannot make a certificate: {0}")]
    Library(#[from] rcgen::Error),
    /// What was made cannot be read.
    #[error("cannot read what was made: {0}")]
    Unreadable(#[from] CertificateError),
    /// The change does not fit the state.
    #[error("the change {0:?} does not fit what the Secret holds")]
    Misplaced(Change),
}

/// The state after a change.
///
/// # Errors
/// When a certificate cannot be made, or the change is none that the state allows.
pub fn apply(
    change: Change,
    state: Result<&State, &Unsound>,
    memory: Option<&State>,
    now: Moment,
    settings: &Settings,
) -> Result<State, MakeError> {
    let misplaced = || MakeError::Misplaced(change);
    match change {
        Change::Found => return found(now, settings),
        Change::Restore => return memory.map(restored).ok_or_else(misplaced),
        _ => {}
    }
    let mut state = state.map_err(|_| misplaced())?.clone();
    match change {
        Change::Found | Change::Restore | Change::Dismiss => {}
        Change::Issue(_) => state.leaf = Ok(leaf(&state.signer, now, settings)?),
        Change::Begin(_) => {
            state.next = Some(webhook_authority(now, settings)?);
            state.since = None;
        }
        Change::Mark => state.since = Some(now),
        Change::Unmark => state.since = None,
        Change::Switch => switch(&mut state, now, settings)?.ok_or_else(misplaced)?,
        Change::Retire => {
            state.retiring.clear();
            state.since = None;
        }
    }
    Ok(state)
}

/// A step that was counting starts again: nobody knows what else happened meanwhile.
fn restored(memory: &State) -> State {
    State {
        since: None,
        ..memory.clone()
    }
}

fn found(now: Moment, settings: &Settings) -> Result<State, MakeError> {
    let signer = webhook_authority(now, settings)?;
    Ok(State {
        leaf: Ok(leaf(&signer, now, settings)?),
        signer,
        next: None,
        retiring: Vec::new(),
        since: None,
    })
}

/// `None` when there is no next authority.
fn switch(state: &mut State, now: Moment, settings: &Settings) -> Result<Option<()>, MakeError> {
    let Some(next) = state.next.take() else {
        return Ok(None);
    };
    state.leaf = Ok(leaf(&next, now, settings)?);
    let before = std::mem::replace(&mut state.signer, next).certificate;
    state.retiring.insert(0, before);
    state.retiring.retain(|authority| authority.valid_at(now));
    state.since = (!state.retiring.is_empty()).then_some(now);
    Ok(Some(()))
}

/// A new authority, which signs leaves alone. Its name holds the identifier of its key: a caller that trusts
/// several finds the right one by name, and people tell them apart.
///
/// # Errors
/// When there is no randomness.
pub(crate) fn authority(
    name: &str,
    algorithm: &'static SignatureAlgorithm,
    now: Moment,
    lifetime: Duration,
) -> Result<Pair, MakeError> {
    let key = KeyPair::generate_for(algorithm)?;
    let mut params = CertificateParams::default();
    let identifier: String = params.key_identifier(&key)[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    params.distinguished_name.push(DnType::OrganizationName, "Outrigger");
    params
        .distinguished_name
        .push(DnType::CommonName, format!("{name} {identifier}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    valid(&mut params, now.minus(BACKDATED), now.plus(lifetime));
    let der = params.self_signed(&key)?.der().to_vec();
    pair(der, &key)
}

fn webhook_authority(now: Moment, settings: &Settings) -> Result<Pair, MakeError> {
    let lifetime = settings.lifetimes.authority;
    authority("Outrigger webhook CA", &PKCS_ECDSA_P256_SHA256, now, lifetime)
}

/// A new serving certificate that does not outlive its authority.
fn leaf(authority: &Pair, now: Moment, settings: &Settings) -> Result<Pair, MakeError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let Certificate {
        not_before, not_after, ..
    } = authority.certificate;
    let mut params = named(&settings.names)?;
    valid(
        &mut params,
        now.minus(BACKDATED).max(not_before),
        now.plus(settings.lifetimes.certificate).min(not_after),
    );
    let issuer = Issuer::from_ca_cert_der(authority.certificate.der(), authority.key.pair()?)?;
    let der = params.signed_by(&key, &issuer)?.der().to_vec();
    pair(der, &key)
}

fn named(names: &BTreeSet<String>) -> Result<CertificateParams, MakeError> {
    let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::OrganizationName, "Outrigger");
    params.distinguished_name.push(DnType::CommonName, "Outrigger webhook");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Certificates count in whole seconds.
pub(crate) fn valid(params: &mut CertificateParams, from: Moment, to: Moment) {
    let epoch = date_time_ymd(1970, 1, 1);
    let date = |moment: Moment| epoch + Moment::from_second(0).until(moment);
    params.not_before = date(from);
    params.not_after = date(to);
}

fn pair(der: Vec<u8>, key: &KeyPair) -> Result<Pair, MakeError> {
    Ok(Pair {
        certificate: Certificate::parse(der)?,
        key: Key::new(key),
    })
}

#[cfg(test)]
mod tests;
