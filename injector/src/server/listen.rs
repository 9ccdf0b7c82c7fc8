//! Sockets and the HTTP servers on them, with every bound that the HTTP server offers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::{App, HttpServer, web};

use super::state::State;
use super::{ServeError, admin as admin_routes, admission as admission_routes};
use crate::config::ServerConfig;
use crate::tls::{self, Certificates};

/// Longer than the 90 s the API server keeps an idle connection: the one who sends must be the one
/// who closes, as a POST on a connection that is just being closed is lost.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// For the TLS handshake, which takes one round trip or two.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// For the head of a connection's first request; beyond it the HTTP server answers 408 unasked. The API server opens
/// connections that it then has no use for and keeps in reserve, as long as any idle one, and would take that 408 for
/// the answer to whatever it sends at that moment. So this is no shorter than for an idle connection.
const FIRST_REQUEST_TIMEOUT: Duration = KEEP_ALIVE;

/// For the same on the admin server, whose callers send at once.
const ADMIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// For the other side to take the last bytes of a connection that closes.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections to the webhooks, over all workers. An API server keeps 25 idle ones.
const MAX_CONNECTIONS: usize = 1024;

/// Connections to the admin server.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// The webhooks, over TLS.
pub(super) fn admission(
    config: &ServerConfig,
    state: &Arc<State>,
    certificates: Arc<Certificates>,
) -> Result<(Server, SocketAddr), ServeError> {
    let workers = config
        .workers
        .unwrap_or_else(|| available_parallelism().map_or(1, NonZeroUsize::get));
    let connections = (MAX_CONNECTIONS / workers).max(1);
    let data = web::Data::from(Arc::clone(state));
    let refused = refused(config.listen, "OUTRIGGER_LISTEN");
    let (listener, address) = bind(config.listen).map_err(refused)?;
    let server = HttpServer::new(move || App::new().app_data(data.clone()).configure(admission_routes::routes))
        .workers(workers)
        .max_connections(connections)
        // Handshakes are bounded by connections and time; a lower bound would only let a few slow
        // ones hold up all others.
        .max_connection_rate(connections)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(FIRST_REQUEST_TIMEOUT)
        .client_disconnect_timeout(DISCONNECT_TIMEOUT)
        .tls_handshake_timeout(HANDSHAKE_TIMEOUT)
        .tcp_nodelay(true)
        .shutdown_timeout(whole_seconds(config.drain_timeout))
        .disable_signals()
        .listen_rustls_0_23(listener, tls::server_config(certificates))
        .map_err(refused)?;
    Ok((server.run(), address))
}

/// Health checks and metrics.
pub(super) fn admin(config: &ServerConfig, state: &Arc<State>) -> Result<(Server, SocketAddr), ServeError> {
    let data = web::Data::from(Arc::clone(state));
    let refused = refused(config.admin_listen, "OUTRIGGER_ADMIN_LISTEN");
    let (listener, address) = bind(config.admin_listen).map_err(refused)?;
    let server = HttpServer::new(move || App::new().app_data(data.clone()).configure(admin_routes::routes))
        .workers(1)
        .max_connections(MAX_ADMIN_CONNECTIONS)
        .client_request_timeout(ADMIN_REQUEST_TIMEOUT)
        .client_disconnect_timeout(DISCONNECT_TIMEOUT)
        .shutdown_timeout(1)
        .disable_signals()
        .listen(listener)
        .map_err(refused)?;
    Ok((server.run(), address))
}

fn refused(address: SocketAddr, variable: &'static str) -> impl Fn(io::Error) -> ServeError + Copy {
    move |source| ServeError::Listen {
        address,
        variable,
        source,
    }
}

/// Listens. Where the kernel has no IPv6, every IPv6 address means every IPv4 address.
fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = match TcpListener::bind(address) {
        Err(error) if may_lack_ipv6(address, &error) => {
            let fallback = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            let listener = TcpListener::bind(fallback).map_err(|_| error)?;
            tracing::info!(%address, %fallback, "no IPv6, listening on IPv4");
            listener
        }
        result => result?,
    };
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn may_lack_ipv6(address: SocketAddr, error: &io::Error) -> bool {
    let other_cause = matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
    address.is_ipv6() && address.ip().is_unspecified() && !other_cause
}

/// Rounds up: the HTTP server counts in seconds.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_back_to_ipv4_only_where_ipv6_is_the_trouble() {
        // 97 is EAFNOSUPPORT and 99 EADDRNOTAVAIL on Linux: no IPv6 in the kernel, or switched off.
        for (address, code, falls_back) in [
            ("[::]:8443", 97, true),
            ("[::]:8443", 99, true),
            ("[::1]:8443", 97, false),
            ("0.0.0.0:8443", 97, false),
        ] {
            let address: SocketAddr = address.parse().expect("the table holds addresses");
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(may_lack_ipv6(address, &error), falls_back, "{address} {error}");
        }
        let every = SocketAddr::from(([0_u16; 8], 8443));
        for kind in [io::ErrorKind::AddrInUse, io::ErrorKind::PermissionDenied] {
            assert!(!may_lack_ipv6(every, &kind.into()), "{kind}");
        }
    }
}
