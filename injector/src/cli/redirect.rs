//! `outrigger redirect`: what the init container proxy-redirect runs.

use std::io::Write;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};

use super::{Status, print};
use crate::names::UPSTREAMS;
use crate::redirect::{Outbound, Redirect, gateways, gateways6};

#[derive(Debug, clap::Args)]
#[command(after_help = "Needs NET_ADMIN and the program nft. Running it again changes nothing.

Example:
  outrigger redirect --proxy-uid=101 --inbound=8080:15200 --outbound=orders.shop.svc.cluster.local:8080:15100")]
pub(super) struct RedirectArgs {
    /// The uid whose own calls are not redirected: the proxy's.
    #[arg(long, value_name = "UID")]
    proxy_uid: u32,
    /// A port of the application and the proxy's port for it.
    #[arg(long, value_name = "PORT:LISTEN")]
    inbound: Vec<PortPair>,
    /// A service, its port, and the proxy's port for it.
    #[arg(long, value_name = "HOST:PORT:LISTEN")]
    outbound: Vec<Target>,
    /// A port that the kubelet probes without the proxy, from --node-ips and the default gateways.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    node_probe: Vec<u16>,
    /// The node's addresses.
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    node_ips: Vec<IpAddr>,
    /// How often a name that does not resolve is tried again, a second apart.
    #[arg(long, default_value_t = 30)]
    resolve_retries: u32,
    /// Print the rules; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// `8080:15200`
#[derive(Debug, Clone, Copy)]
struct PortPair(u16, u16);

/// `orders.shop.svc.cluster.local:8080:15100`
#[derive(Debug, Clone)]
struct Target {
    host: String,
    ports: PortPair,
}

impl FromStr for PortPair {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
        let pair = text.split_once(':').and_then(|(a, b)| Some(Self(port(a)?, port(b)?)));
        pair.ok_or_else(|| "expected two ports (1 to 65535) with a colon between them".to_owned())
    }
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (host, ports) = text.split_once(':').ok_or("expected HOST:PORT:LISTEN")?;
        if !crate::settings::values::is_dns_name(host) {
            return Err("the host is no DNS name".to_owned());
        }
        Ok(Self {
            host: host.to_owned(),
            ports: ports.parse()?,
        })
    }
}

pub(super) fn run(args: &RedirectArgs) -> anyhow::Result<Status> {
    let resolved = args.outbound.iter().map(|target| resolve(target, args.resolve_retries));
    let redirect = Redirect {
        proxy_uid: args.proxy_uid,
        inbound: args
            .inbound
            .iter()
            .map(|PortPair(port, listen)| (*port, *listen))
            .collect(),
        outbound: resolved.collect::<Result<_, _>>()?,
        node_probes: args.node_probe.clone(),
        node_addresses: if args.node_probe.is_empty() {
            Vec::new()
        } else {
            node_addresses(&args.node_ips)
        },
    };
    let script = redirect.script();
    if args.dry_run {
        return print(script.as_bytes());
    }
    apply(&script)?;
    print(script.as_bytes())
}

/// The addresses of a name; ClusterIPs do not change while the pod runs.
fn resolve(target: &Target, retries: u32) -> anyhow::Result<Outbound> {
    let Target {
        host,
        ports: PortPair(port, listen),
    } = target;
    for attempt in 0..=retries {
        match (host.as_str(), *port).to_socket_addrs() {
            Ok(found) => {
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.sort();
                addresses.dedup();
                return Ok(Outbound {
                    addresses,
                    port: *port,
                    listen: *listen,
                });
            }
            Err(error) if attempt == retries => {
                return Err(error).with_context(|| {
                    format!("{host} does not resolve; create the Service before the pod, or take it off {UPSTREAMS}")
                });
            }
            Err(error) => {
                let _ = writeln!(anstream::stderr(), "{host} does not resolve yet: {error}");
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
    bail!("{host} does not resolve")
}

/// The node's addresses, as the kubelet's probes come from them or, masqueraded, from the gateway.
fn node_addresses(given: &[IpAddr]) -> Vec<IpAddr> {
    // A kernel without IPv6 has no table of it.
    let text = |file| std::fs::read_to_string(file).unwrap_or_default();
    let mut all = given.to_vec();
    all.extend(gateways(&text("/proc/net/route")));
    all.extend(gateways6(&text("/proc/net/ipv6_route")));
    all.sort();
    all.dedup();
    all
}

fn apply(script: &str) -> anyhow::Result<()> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run nft, which is part of the image of proxy-redirect")?;
    let mut stdin = nft.stdin.take().expect("standard input is piped");
    let written = stdin.write_all(script.as_bytes());
    drop(stdin);
    let output = nft.wait_with_output().context("cannot wait for nft")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!(
            "nft refused the rules (does the container have NET_ADMIN?): {}",
            said.trim()
        );
    }
    written.context("nft did not read the rules")
}
