//! The signer as a part of the server.

use std::sync::{Arc, Mutex};

use futures::join;
use kube::Client;
use tokio::sync::watch;

use super::keep::Keeper;
use super::metrics::IdentityMetrics;
use super::signer::Signer;
use super::trust::Trust;
use crate::certificates::election::Elected;
use crate::config;

/// Keeps and publishes the authorities of the mesh, and answers the requests of kubelets, on the replica that is
/// elected. Never ends.
pub async fn serve(
    client: Client,
    signer: config::Signer,
    trust_domain: String,
    metrics: IdentityMetrics,
    elected: Elected,
) {
    let (offer, issuing) = watch::channel(None);
    let trust = Arc::new(Mutex::new(Trust::default()));
    let keeper = Keeper::new(
        &client,
        signer,
        metrics.clone(),
        elected.clone(),
        offer,
        Arc::clone(&trust),
    );
    let signer = Signer::new(client, trust_domain, elected, issuing, metrics, trust);
    join!(keeper.run(), signer.run());
}
