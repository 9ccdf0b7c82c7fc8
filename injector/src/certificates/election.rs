//! Which replica writes: one election for all that Outrigger keeps.

use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

use super::lease::{Elector, Leading, Owner};
use super::metrics::CertificateMetrics;
use crate::config::Election;
use crate::tls::random_word;

/// What a candidate knows of the election. Copies know the same.
#[derive(Clone, Debug)]
pub struct Elected {
    pub(crate) leading: watch::Receiver<Leading>,
    /// Tells the elector of the Secret that the Lease belongs to.
    pub(crate) owner: watch::Sender<Owner>,
}

impl Elected {
    /// The term in which this process leads now.
    pub(crate) fn term(&self) -> Option<u64> {
        let term = self.leading.borrow().filter(|term| Instant::now() < term.until);
        term.map(|term| term.number)
    }
}

/// Stands for election until the runtime ends. When `stopping` becomes true, another one may lead.
pub fn elect(
    client: Client,
    election: &Election,
    metrics: CertificateMetrics,
    stopping: watch::Receiver<bool>,
) -> (Elected, impl Future<Output = ()> + Send + use<>) {
    let Election {
        namespace,
        lease,
        holder,
    } = election;
    let holder = holder.clone();
    let holder = holder.unwrap_or_else(|| format!("outrigger-{}", random_word()));
    let (own, owner) = watch::channel(None);
    let (lead, leading) = watch::channel(None);
    let leases = Api::namespaced(client, namespace);
    let elector = Elector::new(leases, lease.clone(), holder, owner, metrics);
    let elected = Elected { leading, owner: own };
    (elected, elector.run(lead, stopping))
}
