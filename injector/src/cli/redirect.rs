//! `outrigger redirect`: what the init container proxy-redirect runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Status, print};
use crate::redirect::{Outbound, Redirect, gateways, gateways6};

mod lookup;
mod nft;

/// The arguments of `outrigger redirect`, as templates write them into the init container.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs root with NET_ADMIN, and the program nft. Running it again changes nothing.

Example:
  outrigger redirect --proxy-uid=101 --inbound=8080:15200 --outbound=orders.shop.svc.cluster.local:8080:15100"
)]
pub struct RedirectArgs {
    /// The uid whose own calls are not redirected: the proxy's.
    #[arg(long, value_name = "UID")]
    proxy_uid: u32,
    /// A port of the application and the proxy's port for it.
    #[arg(long, value_name = "PORT:LISTEN")]
    inbound: Vec<PortPair>,
    /// A service by its full name, its port, and the proxy's port for it.
    #[arg(long, value_name = "HOST:PORT:LISTEN")]
    outbound: Vec<Target>,
    /// The same of a service that was found when the pod was created, by its name or one of its addresses. One whose name
    /// has no address any more is left out.
    #[arg(long, value_name = "HOST:PORT:LISTEN")]
    found: Vec<Target>,
    /// A port that the kubelet probes without the proxy, from --node-ips and the default gateways.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    node_probe: Vec<u16>,
    /// The node's addresses.
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    node_ips: Vec<IpAddr>,
    /// How often names that do not resolve are tried again, a second apart.
    #[arg(long, default_value_t = 30)]
    resolve_retries: u32,
    /// Print the rules; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// `8080:15200`
#[derive(Debug, Clone, Copy)]
struct PortPair(u16, u16);

/// `orders.shop.svc.cluster.local:8080:15100`, `10.96.0.7:80:15700`, `[fd00::7]:80:15700`
#[derive(Debug, Clone)]
struct Target {
    host: Host,
    ports: PortPair,
}

#[derive(Debug, Clone)]
enum Host {
    Name(String),
    Address(IpAddr),
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
        const EXPECTED: &str = "expected HOST:PORT:LISTEN";
        let parts = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => text.split_once(':'),
        };
        let (host, ports) = parts.ok_or(EXPECTED)?;
        let host = match host.parse() {
            Ok(address) => Host::Address(address),
            Err(_) if crate::settings::values::is_dns_name(host) => Host::Name(host.to_owned()),
            Err(_) => return Err("the host is no DNS name and no address".to_owned()),
        };
        Ok(Self {
            host,
            ports: ports.parse()?,
        })
    }
}

impl Target {
    fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }
}

impl RedirectArgs {
    /// What the arguments ask for, where `addresses` tells those of a name, and `gateways` are the addresses besides the
    /// node's own from which its kubelet probes.
    #[must_use]
    pub fn rules(&self, addresses: impl Fn(&str) -> Vec<IpAddr>, gateways: Vec<IpAddr>) -> Redirect {
        let outbound = |Target { host, ports }: &Target| Outbound {
            addresses: match host {
                Host::Name(name) => addresses(name),
                Host::Address(address) => vec![*address],
            },
            port: ports.0,
            listen: ports.1,
        };
        Redirect {
            proxy_uid: self.proxy_uid,
            inbound: self
                .inbound
                .iter()
                .map(|PortPair(port, listen)| (*port, *listen))
                .collect(),
            outbound: self.outbound.iter().chain(&self.found).map(outbound).collect(),
            node_probes: self.node_probe.clone(),
            node_addresses: sorted(self.node_ips.iter().copied().chain(gateways).collect()),
        }
    }
}

pub(super) fn run(args: &RedirectArgs) -> anyhow::Result<Status> {
    let known = known(args)?;
    let addresses = |name: &str| known.get(name).cloned().unwrap_or_default();
    let script = args.rules(addresses, default_gateways()).script();
    if !args.dry_run {
        nft::apply(&script)?;
    }
    print(script.as_bytes())
}

/// The addresses of all names. Those that the pod's owner listed are waited for; one that was found is asked for once more
/// at the most, since its Service may be gone for good.
fn known(args: &RedirectArgs) -> anyhow::Result<BTreeMap<&str, Vec<IpAddr>>> {
    let listed = args.outbound.iter().filter_map(Target::name);
    let mut known = lookup::addresses(listed, args.resolve_retries)?;
    let found = args
        .found
        .iter()
        .filter_map(Target::name)
        .filter(|name| !known.contains_key(name));
    let (more, without) = lookup::tried(found, args.resolve_retries.min(1));
    if !without.is_empty() {
        // Nothing can be said when standard error is gone.
        let _ = writeln!(
            anstream::stderr(),
            "called without the proxy, having no address: {}",
            without.join(", ")
        );
    }
    known.extend(more);
    Ok(known)
}

/// Probes that a node masquerades come from the pod's gateway.
fn default_gateways() -> Vec<IpAddr> {
    // A kernel without IPv6 has no table of it.
    let text = |file| std::fs::read_to_string(file).unwrap_or_default();
    let mut all = gateways(&text("/proc/net/route"));
    all.extend(gateways6(&text("/proc/net/ipv6_route")));
    all
}

fn sorted(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_names_or_addresses() {
        for (text, host) in [
            (
                "orders.shop.svc.cluster.local:80:15700",
                "orders.shop.svc.cluster.local",
            ),
            ("10.96.0.7:80:15700", "10.96.0.7"),
            ("[fd00::7]:80:15700", "fd00::7"),
        ] {
            let Target { host: read, ports } = text.parse().expect(text);
            let read = match read {
                Host::Name(name) => name,
                Host::Address(address) => address.to_string(),
            };
            assert_eq!((read.as_str(), ports.0, ports.1), (host, 80, 15700));
        }
        for text in [
            "fd00::7:80:1",
            "[fd00::7:80:1",
            "[]:80:1",
            "a b:80:1",
            "a:80",
            "a:0:1",
            "10.96.0.7",
            "",
        ] {
            text.parse::<Target>().expect_err(text);
        }
    }

    /// What was found has the same rules as what was listed, as far as it has addresses.
    #[test]
    fn rules_are_written_for_found_targets_too() {
        let target = |text: &str| text.parse::<Target>().expect("a target");
        let args = RedirectArgs {
            proxy_uid: 101,
            inbound: Vec::new(),
            outbound: vec![target("listed.example:80:15100")],
            found: ["10.96.0.7:80:15700", "[fd00::7]:80:15700", "gone.example:80:15701"]
                .map(target)
                .to_vec(),
            node_probe: Vec::new(),
            node_ips: Vec::new(),
            resolve_retries: 0,
            dry_run: true,
        };
        let addresses = |name: &str| match name {
            "listed.example" => vec!["10.96.0.8".parse().expect("an address")],
            _ => Vec::new(),
        };
        let script = args.rules(addresses, Vec::new()).script();
        let rules = script.lines().filter_map(|line| line.trim().split_once(" tcp dport "));
        let rules: Vec<String> = rules.map(|(from, to)| format!("{from} {to}")).collect();
        assert_eq!(
            rules,
            [
                "ip daddr 10.96.0.8 80 redirect to :15100",
                "ip daddr 10.96.0.7 80 redirect to :15700",
                "ip6 daddr fd00::7 80 redirect to :15700",
            ]
        );
    }
}
