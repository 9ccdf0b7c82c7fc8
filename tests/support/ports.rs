//! Ports for the servers of a test.
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::net::{Ipv4Addr, TcpListener};

/// Loopback ports that were free a moment ago, all different.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports"));
    listeners.map(|listener| listener.local_addr().expect("it is bound").port())
}
