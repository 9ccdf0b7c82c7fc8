//! The forms of an identity: one URI for others, DNS names and a subject for nginx.
//!
//! nginx compares a server's certificate with a DNS name alone, and shows of a client's certificate the
//! subject but no alternative name. So a leaf says the same thing three times.

use std::fmt;

use crate::settings::values::is_dns_label;

/// The most characters of a common name, an organization or an organizational unit (RFC 5280, appendix
/// A.1, `ub-common-name` and its siblings).
pub const MOST_IN_ATTRIBUTE: usize = 64;

/// Who a workload is: a ServiceAccount of a namespace, within a trust domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The trust domain, a DNS name.
    pub trust_domain: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The ServiceAccount's name.
    pub service_account: &'a str,
}

/// Why an identity has no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name of a ServiceAccount is too long for a common name.
    #[error(
        "the name of the ServiceAccount has {0} characters; a certificate's common name has room for \
         {MOST_IN_ATTRIBUTE}: use a ServiceAccount with a shorter name"
    )]
    Account(usize),
    /// A label of the ServiceAccount's name is too long for a DNS name.
    #[error(
        "the name of the ServiceAccount cannot be part of a DNS name, whose labels are letters, digits and - and have at \
         most 63 characters: use a ServiceAccount with another name"
    )]
    Label,
    /// The namespace is no name of one: with a `/` or `.` in it, names could be read as somebody else's. The API server has
    /// no such namespace.
    #[error("the namespace of the request is no name that a namespace can have")]
    Namespace,
    /// The trust domain is too long for an organization's name.
    #[error("the trust domain has {0} characters; a certificate's organization has room for {MOST_IN_ATTRIBUTE}")]
    TrustDomain(usize),
}

/// An attribute of a distinguished name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `CN`.
    CommonName,
    /// `OU`.
    OrganizationalUnit,
    /// `O`.
    Organization,
}

impl Attribute {
    /// Its short name (RFC 4514, section 3).
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::CommonName => "CN",
            Self::OrganizationalUnit => "OU",
            Self::Organization => "O",
        }
    }
}

impl<'a> Identity<'a> {
    /// The SPIFFE ID, in the form that Kubernetes meshes share.
    /// (<https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md>)
    #[must_use]
    pub fn uri(&self) -> String {
        let Self {
            trust_domain,
            namespace,
            service_account,
        } = self;
        format!("spiffe://{trust_domain}/ns/{namespace}/sa/{service_account}")
    }

    /// The DNS name of this identity alone. A namespace has no dot, so that the last label before `sa` tells
    /// where the ServiceAccount's name ends.
    #[must_use]
    pub fn account_name(&self) -> String {
        let Self {
            trust_domain,
            namespace,
            service_account,
        } = self;
        format!("{service_account}.{namespace}.sa.{trust_domain}")
    }

    /// The DNS name of everybody in the namespace.
    #[must_use]
    pub fn namespace_name(&self) -> String {
        namespace_name(self.trust_domain, self.namespace)
    }

    /// The subject, in the order of the certificate.
    #[must_use]
    pub const fn subject(&self) -> [(Attribute, &'a str); 3] {
        [
            (Attribute::CommonName, self.service_account),
            (Attribute::OrganizationalUnit, self.namespace),
            (Attribute::Organization, self.trust_domain),
        ]
    }

    /// Whether every form of it fits into a certificate.
    ///
    /// # Errors
    /// The first form that does not.
    pub fn check(&self) -> Result<(), NameError> {
        let (account, domain) = (self.service_account.len(), self.trust_domain.len());
        if account > MOST_IN_ATTRIBUTE {
            Err(NameError::Account(account))
        } else if !self.service_account.split('.').all(is_dns_label) {
            Err(NameError::Label)
        } else if !is_dns_label(self.namespace) {
            Err(NameError::Namespace)
        } else if domain > MOST_IN_ATTRIBUTE {
            Err(NameError::TrustDomain(domain))
        } else {
            Ok(())
        }
    }
}

/// As people write it: `namespace/serviceaccount`.
impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service_account)
    }
}

/// The DNS name that every certificate of a namespace holds.
#[must_use]
pub fn namespace_name(trust_domain: &str, namespace: &str) -> String {
    format!("{namespace}.ns.{trust_domain}")
}

/// The names that members of the mesh ask each other for, as nginx's map with `hostnames` has them.
#[must_use]
pub fn server_names(trust_domain: &str) -> [String; 2] {
    ["ns", "sa"].map(|kind| format!("*.{kind}.{trust_domain}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::values::is_dns_name;

    fn identity(service_account: &str) -> Identity<'_> {
        Identity {
            trust_domain: "cluster.local",
            namespace: "shop",
            service_account,
        }
    }

    #[test]
    fn has_three_forms() {
        let web = identity("web");
        assert_eq!(web.uri(), "spiffe://cluster.local/ns/shop/sa/web");
        assert_eq!(web.account_name(), "web.shop.sa.cluster.local");
        assert_eq!(web.namespace_name(), "shop.ns.cluster.local");
        let subject = web
            .subject()
            .map(|(attribute, value)| format!("{}={value}", attribute.short()));
        assert_eq!(subject, ["CN=web", "OU=shop", "O=cluster.local"]);
        assert_eq!(web.to_string(), "shop/web");
    }

    /// Kubernetes bounds a ServiceAccount's name by 253 characters in all, and its labels by nothing.
    #[test]
    fn what_does_not_fit_has_no_certificate() {
        let (label, long) = ("a".repeat(64), "a.".repeat(32) + "a");
        assert_eq!(identity("a.b-c.d").check(), Ok(()));
        assert_eq!(identity(&label[1..]).check(), Ok(()));
        assert_eq!(identity(&label).check(), Err(NameError::Label));
        assert_eq!(identity(&long).check(), Err(NameError::Account(65)));
        let far = Identity {
            trust_domain: &long,
            ..identity("web")
        };
        assert_eq!(far.check(), Err(NameError::TrustDomain(65)));
    }

    #[test]
    fn a_namespace_that_is_none_has_no_certificate() {
        for namespace in ["", "shop/sa/admin", "a.b", "Shop", "-", "é"] {
            let odd = Identity {
                namespace,
                ..identity("web")
            };
            assert_eq!(odd.check(), Err(NameError::Namespace), "{namespace}");
        }
    }

    #[test]
    fn the_longest_names_are_dns_names() {
        let label = "a".repeat(63);
        let domain = format!("{}.b", "c".repeat(62));
        let longest = Identity {
            trust_domain: &domain,
            namespace: &label,
            service_account: &label,
        };
        assert_eq!(longest.check(), Ok(()));
        assert!(is_dns_name(&longest.account_name()));
        assert!(is_dns_name(&longest.namespace_name()));
    }
}
