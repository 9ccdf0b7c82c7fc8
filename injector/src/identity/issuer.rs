//! A request, and the leaf that answers it: pure, but for the randomness of signatures.
//!
//! Time and the random parts of a leaf are arguments. What is asked for has been checked by the API server
//! before: that the kubelet of the pod's own node asks, that pod and ServiceAccount are as said, and that the
//! stub is signed with the key that it holds
//! (<https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#pod-certificate-requests>).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::PodCertificateRequest;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm, SubjectPublicKeyInfo,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::name::{Attribute, Identity, NameError};
use crate::certificates::Moment;
use crate::certificates::certificate::{Certificate, CertificateError};
use crate::certificates::make::valid;
use crate::certificates::state::Pair;

/// The shortest lifetime of a leaf that the API server takes.
pub const SHORTEST: Duration = Duration::from_hours(1);
/// The longest.
pub const LONGEST: Duration = Duration::from_hours(91 * 24);

/// How far before its making a leaf begins to be valid, for clocks that are behind. The API server takes no
/// more than five minutes, by a clock that may differ too.
const BACKDATED: Duration = Duration::from_mins(2);

/// The API server wants a refresh to begin at least so long after the beginning, and before the end.
const REFRESH_MARGIN: Duration = Duration::from_mins(10);

/// A refresh begins when half of the lifetime has passed, give or take a tenth: pods that were started together
/// do not ask together for ever.
const REFRESH_AT: f64 = 0.5;
const REFRESH_SPREAD: f64 = 0.1;

/// The kinds of keys that leaves are made for, by the names that a `podCertificate` volume has for them.
const KEY_TYPES: [(&str, &SignatureAlgorithm); 3] = [
    ("ECDSAP256", &PKCS_ECDSA_P256_SHA256),
    ("ECDSAP384", &PKCS_ECDSA_P384_SHA384),
    ("ED25519", &PKCS_ED25519),
];

/// What a kubelet asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's ServiceAccount.
    pub service_account: &'a str,
    /// A PKCS#10 request, DER, of which only the public key counts.
    pub stub: &'a [u8],
    /// The longest lifetime that the pod allows.
    pub longest: Option<Duration>,
    /// What the pod's author wants to tell the signer; nobody has checked it.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// How leaves are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The trust domain.
    pub trust_domain: String,
    /// How long a leaf is valid, if its pod does not ask for less: between [`SHORTEST`] and [`LONGEST`].
    pub lifetime: Duration,
}

/// The random part of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// The serial number.
    pub serial: [u8; 16],
    /// When the refresh begins, within its spread.
    pub refresh: u8,
}

/// A leaf, as the status of a request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The leaf and what leads from it to a root, PEM; not the root.
    pub chain: String,
    /// The leaf's first moment.
    pub not_before: Moment,
    /// The leaf's last second.
    pub not_after: Moment,
    /// When the kubelet asks for the next one.
    pub begin_refresh_at: Moment,
}

/// Why a request is denied, for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The identity does not fit into a certificate.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The stub is no request.
    #[error("the PKCS#10 request cannot be read: {0}")]
    Stub(String),
    /// The key is of a kind that leaves are not made for.
    #[error(
        "this kind of key is not signed: set keyType of the podCertificate volume to ECDSAP256, ECDSAP384 or ED25519"
    )]
    KeyType,
    /// The pod allows no lifetime that a leaf may have. The API server lets nobody ask for that.
    #[error(
        "the longest lifetime that the request allows is {} s, shorter than any certificate: set maxExpirationSeconds of the \
         podCertificate volume to {} or more", .0.as_secs(), SHORTEST.as_secs()
    )]
    Lifetime(Duration),
    /// The pod's author asks for something. This signer knows of nothing that could be asked for.
    #[error("userAnnotations of the podCertificate volume are not understood: {}; leave them out", .0.join(", "))]
    Annotations(Vec<String>),
}

/// Why a request is not answered now.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// It never will be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The authority ends too soon for the shortest leaf.
    #[error("the authority is valid until {0} only, too short for a certificate")]
    EndingAuthority(Moment),
    /// The library refused.
    #[error("cannot make a certificate: {0}")]
    Library(#[from] rcgen::Error),
    /// What was made cannot be read.
    #[error("cannot read what was made: {0}")]
    Unreadable(#[from] CertificateError),
}

/// What signs leaves, ready to do so.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
    /// The certificates between a leaf and the root, PEM.
    intermediates: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("subject", &self.certificate.subject)
            .finish_non_exhaustive()
    }
}

impl Refusal {
    /// The reason of the condition `Denied`: those that the API has words for, or our own.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "UnsupportedName",
            Self::Stub(_) | Self::Lifetime(_) => "InvalidRequest",
            Self::KeyType => "UnsupportedKeyType",
            Self::Annotations(_) => "InvalidUnverifiedUserAnnotations",
        }
    }
}

impl<'a> From<&'a PodCertificateRequest> for Request<'a> {
    fn from(request: &'a PodCertificateRequest) -> Self {
        let spec = &request.spec;
        // A negative number allows no lifetime at all, as too small ones do.
        let seconds = spec
            .max_expiration_seconds
            .map(|seconds| u64::try_from(seconds).unwrap_or_default());
        Self {
            namespace: request.metadata.namespace.as_deref().unwrap_or_default(),
            service_account: &spec.service_account_name,
            stub: &spec.stub_pkc_s10_request.0,
            longest: seconds.map(Duration::from_secs),
            annotations: spec.unverified_user_annotations.as_ref(),
        }
    }
}

impl Authority {
    /// From a certificate and its key. `intermediates` lead from it to a root that callers trust, itself
    /// included; none where it is the root.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn new(pair: &Pair, intermediates: &[Certificate]) -> Result<Self, rcgen::Error> {
        Ok(Self {
            issuer: Issuer::from_ca_cert_der(pair.certificate.der(), pair.key.pair()?)?,
            certificate: pair.certificate.clone(),
            intermediates: intermediates.iter().map(Certificate::pem).collect(),
        })
    }

    /// The certificate that it signs with.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Answers a request.
    ///
    /// # Errors
    /// When the request is refused, or a leaf cannot be made now.
    pub fn issue(
        &self,
        request: &Request<'_>,
        terms: &Terms,
        now: Moment,
        chance: Chance,
    ) -> Result<Issued, IssueError> {
        let identity = Identity {
            trust_domain: &terms.trust_domain,
            namespace: request.namespace,
            service_account: request.service_account,
        };
        let key = accept(request, &identity)?;
        let validity = self.validity(request, terms, now, chance)?;
        let params = params(&identity, &validity, chance)?;
        let leaf = Certificate::parse(params.signed_by(&key, &self.issuer)?.der().to_vec())?;
        Ok(Issued {
            chain: leaf.pem() + &self.intermediates,
            not_before: leaf.not_before,
            not_after: leaf.not_after,
            begin_refresh_at: validity.refresh,
        })
    }

    fn validity(
        &self,
        request: &Request<'_>,
        terms: &Terms,
        now: Moment,
        chance: Chance,
    ) -> Result<Validity, IssueError> {
        let lifetime = request.longest.unwrap_or(LONGEST).min(terms.lifetime);
        let from = whole(now.minus(BACKDATED)).max(self.certificate.not_before);
        let to = from.plus(lifetime).min(self.certificate.not_after);
        let lifetime = from.until(to);
        if lifetime < SHORTEST {
            return Err(IssueError::EndingAuthority(self.certificate.not_after));
        }
        let share = REFRESH_AT + REFRESH_SPREAD * (f64::from(chance.refresh) / 127.5 - 1.0);
        let refresh = lifetime
            .mul_f64(share)
            .clamp(REFRESH_MARGIN, lifetime.saturating_sub(REFRESH_MARGIN));
        Ok(Validity {
            from,
            to,
            refresh: whole(from.plus(refresh)),
        })
    }
}

/// Certificates count in whole seconds.
struct Validity {
    from: Moment,
    to: Moment,
    refresh: Moment,
}

fn whole(moment: Moment) -> Moment {
    Moment::from_second(moment.second())
}

/// The key that is to be certified, if everything about the request is in order.
fn accept(request: &Request<'_>, identity: &Identity<'_>) -> Result<SubjectPublicKeyInfo, Refusal> {
    let annotations: Vec<String> = request
        .annotations
        .into_iter()
        .flat_map(BTreeMap::keys)
        .cloned()
        .collect();
    if !annotations.is_empty() {
        return Err(Refusal::Annotations(annotations));
    }
    identity.check()?;
    if let Some(longest) = request.longest.filter(|longest| *longest < SHORTEST) {
        return Err(Refusal::Lifetime(longest));
    }
    let (rest, stub) =
        X509CertificationRequest::from_der(request.stub).map_err(|error| Refusal::Stub(error.to_string()))?;
    if !rest.is_empty() {
        return Err(Refusal::Stub(format!("{} bytes follow it", rest.len())));
    }
    let written = stub.certification_request_info.subject_pki.raw;
    let key = SubjectPublicKeyInfo::from_der(written).map_err(|_| Refusal::KeyType)?;
    if !KEY_TYPES.iter().any(|(_, algorithm)| *algorithm == key.algorithm()) {
        return Err(Refusal::KeyType);
    }
    // The parser lets pass what is nearly DER; the leaf would hold something else than was signed.
    if key.subject_public_key_info() != written {
        return Err(Refusal::Stub("its key is not in DER".to_owned()));
    }
    Ok(key)
}

/// A leaf after SPIFFE's profile: one URI, no authority, a critical key usage of signatures alone.
/// (<https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md>)
fn params(identity: &Identity<'_>, validity: &Validity, chance: Chance) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (attribute, value) in identity.subject() {
        params.distinguished_name.push(kind(attribute), value);
    }
    params.subject_alt_names = vec![
        SanType::URI(identity.uri().try_into()?),
        SanType::DnsName(identity.account_name().try_into()?),
        SanType::DnsName(identity.namespace_name().try_into()?),
    ];
    params.serial_number = Some(SerialNumber::from_slice(&chance.serial));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, validity.from, validity.to);
    Ok(params)
}

const fn kind(attribute: Attribute) -> DnType {
    match attribute {
        Attribute::CommonName => DnType::CommonName,
        Attribute::OrganizationalUnit => DnType::OrganizationalUnitName,
        Attribute::Organization => DnType::OrganizationName,
    }
}

#[cfg(test)]
mod tests;
