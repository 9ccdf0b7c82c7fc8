//! Bytes through a real nginx that runs what Outrigger renders for a pod: what callers, applications and peers see.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "nginx_traffic/app.rs"]
mod app;
#[allow(dead_code)] // Other suites use the rest.
#[path = "support/golden.rs"]
mod golden;
#[path = "nginx_traffic/http2.rs"]
mod http2;
#[path = "nginx_traffic/inbound.rs"]
mod inbound;
#[allow(dead_code)] // Another suite uses the rest.
#[path = "nginx_traffic/mesh.rs"]
mod mesh;
#[path = "nginx_traffic/mtls_found.rs"]
mod mtls_found;
#[path = "nginx_traffic/mtls_grpc.rs"]
mod mtls_grpc;
#[path = "nginx_traffic/mtls_inbound.rs"]
mod mtls_inbound;
#[path = "nginx_traffic/mtls_outbound.rs"]
mod mtls_outbound;
#[path = "nginx_traffic/outbound.rs"]
mod outbound;
#[path = "support/processes.rs"]
mod processes;
#[path = "nginx_traffic/proxy.rs"]
mod proxy;
#[path = "nginx_traffic/stream.rs"]
mod stream;
#[path = "support/tools.rs"]
mod tools;
#[path = "nginx_traffic/trace.rs"]
mod trace;
#[path = "nginx_traffic/wire.rs"]
mod wire;
