//! What is seen on the wire between two pods.

use crate::mtls;
use crate::workloads::Mesh;

pub(crate) fn carries_nothing_in_plain(mesh: &Mesh) {
    let (shop, bank) = (mesh.namespace("wire-shop"), mesh.namespace("wire-bank"));
    bank.deploy(&[&mtls("ledger")]);
    shop.deploy(&[&mtls("web").upstreams("- ledger.wire-bank:8080")]);
    let answer = shop.call_through("web", "http://ledger.wire-bank:8080/", &[]).unwrap();
    panic!(
        "{answer}\n{:?}\n{:?}",
        shop.access_log(&shop.pod("web")),
        bank.access_log(&bank.pod("ledger"))
    );
}
