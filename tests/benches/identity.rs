//! What a leaf of the mesh costs: from a kubelet's request to the certificate in PEM, for each kind of key that an authority
//! may have. On one core, since nothing here runs beside it.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use jiff::Timestamp;
use outrigger::certificates::{Moment, Unsound};
use outrigger::config::KeyType;
use outrigger::identity::issuer::{Authority, Chance, Request, Terms};
use outrigger::identity::plan::{Change, Settings, View, apply};
use rcgen::{CertificateParams, KeyPair};

const DAY: Duration = Duration::from_hours(24);

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let stub = CertificateParams::default().serialize_request(&KeyPair::generate().unwrap());
    let stub = stub.unwrap().der().to_vec();
    let request = Request {
        namespace: "shop",
        service_account: "web",
        stub: &stub,
        longest: Some(DAY),
        annotations: None,
    };
    let terms = Terms {
        trust_domain: "cluster.local".to_owned(),
        lifetime: DAY,
    };
    let chance = Chance {
        serial: [1; 16],
        refresh: 128,
    };
    let mut group = criterion.benchmark_group("leaf");
    group.throughput(Throughput::Elements(1));
    for key_type in KeyType::ALL {
        let authority = authority(*key_type);
        group.bench_function(BenchmarkId::from_parameter(key_type), |b| {
            b.iter(|| authority.issue(black_box(&request), &terms, now(), chance).unwrap());
        });
    }
    group.finish();
    criterion.final_summary();
}

fn now() -> Moment {
    Timestamp::now().into()
}

fn authority(key_type: KeyType) -> Authority {
    let settings = Settings {
        leaf: DAY,
        authority: DAY * 365,
        overlap: Duration::from_mins(10),
        key_type,
    };
    let view = View {
        secret: Err(&Unsound::Empty),
        memory: None,
        in_force: None,
        asked: false,
        led_since: now(),
    };
    let state = apply(Change::Found, &view, now(), &settings).unwrap();
    Authority::new(&state.signer, &[]).unwrap()
}
