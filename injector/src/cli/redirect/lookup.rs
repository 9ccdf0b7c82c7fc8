//! The addresses of the services that are redirected, as the pod's DNS knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

use super::sorted;
use crate::names::UPSTREAMS;

/// Names that have no address.
#[derive(Debug, thiserror::Error)]
#[error(
    "no address, after {lookups} lookups a second apart, of {names}; create the Services before the pod, or take them off \
     {UPSTREAMS}; where the name resolution failed temporarily, the cluster's DNS server does not answer this pod"
)]
pub(super) struct Unresolved {
    lookups: u64,
    names: String,
}

/// The addresses of each host.
///
/// # Errors
/// All hosts that do not resolve.
pub(super) fn addresses<'h>(
    hosts: impl Iterator<Item = &'h str>,
    retries: u32,
) -> Result<BTreeMap<&'h str, Vec<IpAddr>>, Unresolved> {
    match tried(hosts, retries) {
        (found, without) if without.is_empty() => Ok(found),
        (_, without) => Err(Unresolved {
            lookups: u64::from(retries) + 1,
            names: without.join(", "),
        }),
    }
}

/// The addresses of each host that has any, and the others with what was said of them. Those that do not resolve are tried
/// again together, a second apart, so that a pod waits no longer for many than for one.
pub(super) fn tried<'h>(
    hosts: impl Iterator<Item = &'h str>,
    retries: u32,
) -> (BTreeMap<&'h str, Vec<IpAddr>>, Vec<String>) {
    let mut found = BTreeMap::new();
    // A service may be listed with several ports.
    let mut missing: BTreeSet<&str> = hosts.collect();
    for lookups in 1..=u64::from(retries) + 1 {
        let mut failed = Vec::new();
        missing.retain(|host| match lookup(host) {
            Ok(addresses) => {
                found.insert(*host, addresses);
                false
            }
            Err(error) => {
                failed.push(format!("{host} ({error})"));
                true
            }
        });
        if missing.is_empty() || lookups > u64::from(retries) {
            return (found, failed);
        }
        // Nothing can be said when standard error is gone.
        let _ = writeln!(anstream::stderr(), "waiting for the address of {}", failed.join(", "));
        std::thread::sleep(Duration::from_secs(1));
    }
    (found, Vec::new())
}

fn lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = (absolute(host).as_str(), 0).to_socket_addrs()?;
    Ok(sorted(found.map(|address| address.ip()).collect()))
}

/// The name as it stands. Without the dot the search list of the pod's resolv.conf goes first (ndots is 5), and a domain
/// of it in which every name resolves would give an address that the service does not have.
fn absolute(host: &str) -> String {
    format!("{host}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_host_that_has_no_address() {
        // Reserved by RFC 6761 to have none, with any DNS server and without.
        let error = addresses(["orders.invalid", "ledger.invalid"].into_iter(), 0).expect_err("they do not resolve");
        let text = error.to_string();
        for part in ["after 1 lookups", "orders.invalid (", "ledger.invalid (", UPSTREAMS] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn passes_over_what_has_no_address_where_that_may_be() {
        let (found, without) = tried(["orders.invalid"].into_iter(), 0);
        assert_eq!(found, BTreeMap::new());
        assert_eq!(without.len(), 1);
        assert!(without[0].starts_with("orders.invalid ("), "{without:?}");
    }

    #[test]
    fn asks_for_nothing_where_there_is_no_host() {
        assert_eq!(
            addresses(std::iter::empty(), 30).expect("nothing can fail"),
            BTreeMap::new()
        );
    }
}
