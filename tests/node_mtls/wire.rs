//! What is seen on the wire between two pods.

use outrigger::names;
use serde_json::json;

use crate::capture::Capture;
use crate::workloads::{Mesh, client};
use crate::{caller, mtls};

/// The beginning of a TLS record with a ClientHello: a handshake (22), version 3.1, its length; ClientHello (1), and of its
/// own length the first byte, which is 0 (RFC 8446, sections 4 and 5.1).
fn holds_client_hello(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|w| w[..3] == [22, 3, 1] && w[5..] == [1, 0])
}

pub(crate) fn carries_nothing_in_plain(mesh: &Mesh) {
    for traffic in ["redirect", "explicit"] {
        let shop = mesh.namespace(&format!("wire-shop-{traffic}"));
        let bank = mesh.namespace(&format!("wire-bank-{traffic}"));
        let ledger = mtls("ledger").annotation(names::TRAFFIC, traffic);
        let (target, url) = match traffic {
            "explicit" => (15200, "http://127.0.0.1:15100".to_owned()),
            _ => (8080, format!("http://ledger.{}:8080", bank.name)),
        };
        bank.deploy(&[&ledger.ports(json!([{"name": "http", "port": 8080, "targetPort": target}]))]);
        let web = caller("web", &format!("- ledger.{}:8080", bank.name)).annotation(names::TRAFFIC, traffic);
        shop.deploy(&[&web, &client("outside")]);
        let capture = Capture::start(&shop, &["host", &bank.address(&bank.pod("ledger"))]);

        let marker = format!("told-in-confidence-{traffic}");
        let call = |url: &str| {
            let header = format!("X-Marker: {marker}");
            shop.call_from(&shop.pod("web"), &format!("{url}/{marker}"), &["-H", &header])
                .unwrap()
        };
        let reply = call(&url);
        assert_eq!(reply.status, 200, "{reply:?}");
        let heard = reply.json();
        assert_eq!(
            (&heard["path"], &heard["headers"]["X-Marker"][0]),
            (&json!(format!("/{marker}")), &json!(marker))
        );
        let name = format!("O=cluster.local,OU={},CN=default", shop.name);
        assert_eq!(heard["headers"]["X-Outrigger-Client"], json!([name]));
        let line = &bank.logged(&bank.pod("ledger"), &json!({"path": format!("/{marker}")}))[0];
        assert_eq!((&line["port"], &line["client"]), (&json!(15300), &json!(name)));

        // A caller without a certificate, in plain, shows that the capture would show it; it comes after the others.
        let plain = format!(
            "http://{}:{target}/told-to-everybody",
            bank.address(&bank.pod("ledger"))
        );
        assert_eq!(shop.call_from(&shop.pod("outside"), &plain, &[]).unwrap().status, 200);
        shop.eventually("the plain call is captured", || capture.holds(b"told-to-everybody"));
        assert!(
            !capture.holds(marker.as_bytes()),
            "{traffic}: the marker is on the wire"
        );
        let bytes = capture.bytes();
        assert!(holds_client_hello(&bytes), "{traffic}: there is a handshake");
        // The name of the asked one is in the handshake; certificates are sent encrypted by TLS 1.3 alone.
        assert!(capture.holds(format!("{}.ns.cluster.local", bank.name).as_bytes()));
        assert!(
            !capture.holds(b"Outrigger mesh CA"),
            "{traffic}: an older TLS shows certificates"
        );
    }
}
