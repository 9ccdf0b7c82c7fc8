//! The webhook server as a client sees it: over real sockets and real TLS, with a core and
//! namespaces made for the purpose. The watch on real namespaces is the cluster tests' part.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "server/lifecycle.rs"]
mod lifecycle;
#[path = "server/requests.rs"]
mod requests;
#[path = "support/server.rs"]
mod support;
#[path = "server/tls.rs"]
mod tls;
