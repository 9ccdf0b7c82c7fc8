//! The redirecting rules of a pod, as an nftables script. Pure: everything in it is a number or an address.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is redirected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redirect {
    /// The proxy's uid, whose own calls go out as they are.
    pub proxy_uid: u32,
    /// The application's port and the proxy's for it.
    pub inbound: Vec<(u16, u16)>,
    /// A service's addresses and port, and the proxy's port for it.
    pub outbound: Vec<Outbound>,
    /// Ports that the kubelet probes without the proxy.
    pub node_probes: Vec<u16>,
    /// The addresses from which it does.
    pub node_addresses: Vec<IpAddr>,
}

/// A service that is called through the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// The addresses that its name has.
    pub addresses: Vec<IpAddr>,
    /// Its port.
    pub port: u16,
    /// The proxy's port for it.
    pub listen: u16,
}

/// The table that holds the rules.
pub const TABLE: &str = "outrigger";

/// Leaves connections alone that were there before the rules, such as those of another sidecar that started earlier. The
/// kernel takes a packet in their middle for the first of a new connection, since it has not tracked them until then
/// (`nf_conntrack_tcp_loose`), and would send it to a proxy that knows nothing of it.
const OLDER: &str = "tcp flags & (fin | syn | rst | ack) != syn return";

impl Redirect {
    /// The script for `nft -f -`. The table is made, emptied and filled in one transaction, so that
    /// running it again changes nothing, and there is no moment without rules.
    #[must_use]
    pub fn script(&self) -> String {
        let mut script = format!("table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n");
        script.push_str("  chain inbound {\n    type nat hook prerouting priority dstnat; policy accept;\n");
        self.inbound_rules(&mut script);
        // nft knows the name dstnat in prerouting alone; -100 is its number.
        script.push_str("  }\n  chain outbound {\n    type nat hook output priority -100; policy accept;\n");
        self.outbound_rules(&mut script);
        script.push_str("  }\n}\n");
        script
    }

    fn inbound_rules(&self, script: &mut String) {
        rule(script, format_args!("{OLDER}"));
        for port in &self.node_probes {
            for address in &self.node_addresses {
                rule(
                    script,
                    format_args!("{} saddr {address} tcp dport {port} return", family(*address)),
                );
            }
        }
        for (port, listen) in &self.inbound {
            rule(script, format_args!("tcp dport {port} redirect to :{listen}"));
        }
    }

    fn outbound_rules(&self, script: &mut String) {
        rule(script, format_args!("{OLDER}"));
        rule(script, format_args!("meta skuid {} return", self.proxy_uid));
        for Outbound {
            addresses,
            port,
            listen,
        } in &self.outbound
        {
            for address in addresses {
                rule(
                    script,
                    format_args!(
                        "{} daddr {address} tcp dport {port} redirect to :{listen}",
                        family(*address)
                    ),
                );
            }
        }
    }
}

fn rule(script: &mut String, rule: std::fmt::Arguments<'_>) {
    writeln!(script, "    {rule}").expect("a string takes any text");
}

const fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip6" }
}

/// The default gateways in `/proc/net/route` (proc(5)): hexadecimal, in the byte order of the host.
#[must_use]
pub fn gateways(route: &str) -> Vec<IpAddr> {
    let fields = route
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let default = fields.filter_map(|fields| match fields.as_slice() {
        [_, "00000000", gateway, ..] => u32::from_str_radix(gateway, 16).ok(),
        _ => None,
    });
    default
        .filter(|raw| *raw != 0)
        .map(|raw| Ipv4Addr::from(raw.to_ne_bytes()).into())
        .collect()
}

/// The default gateways in `/proc/net/ipv6_route`: hexadecimal, in network order.
#[must_use]
pub fn gateways6(route: &str) -> Vec<IpAddr> {
    const ANY: &str = "00000000000000000000000000000000";
    let fields = route.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let default = fields.filter_map(|fields| match fields.as_slice() {
        [ANY, "00", _, _, gateway, ..] => u128::from_str_radix(gateway, 16).ok(),
        _ => None,
    });
    default
        .filter(|raw| *raw != 0)
        .map(|raw| Ipv6Addr::from(raw).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_a_rule_a_port_and_address() {
        let redirect = Redirect {
            proxy_uid: 101,
            inbound: vec![(8080, 15200), (9000, 15201)],
            outbound: vec![Outbound {
                addresses: vec![
                    Ipv4Addr::new(10, 96, 0, 7).into(),
                    "fd00::7".parse().expect("an address"),
                ],
                port: 80,
                listen: 15100,
            }],
            node_probes: vec![9000],
            node_addresses: vec![Ipv4Addr::new(172, 30, 0, 2).into()],
        };
        expect_test::expect![[r"
            table inet outrigger
            delete table inet outrigger
            table inet outrigger {
              chain inbound {
                type nat hook prerouting priority dstnat; policy accept;
                tcp flags & (fin | syn | rst | ack) != syn return
                ip saddr 172.30.0.2 tcp dport 9000 return
                tcp dport 8080 redirect to :15200
                tcp dport 9000 redirect to :15201
              }
              chain outbound {
                type nat hook output priority -100; policy accept;
                tcp flags & (fin | syn | rst | ack) != syn return
                meta skuid 101 return
                ip daddr 10.96.0.7 tcp dport 80 redirect to :15100
                ip6 daddr fd00::7 tcp dport 80 redirect to :15100
              }
            }
        "]]
        .assert_eq(&redirect.script());
    }

    #[test]
    fn finds_default_gateways() {
        let ipv4 = "Iface\tDestination\tGateway\nveth0\t00000000\t01001EAC\t0003\nveth0\t00001EAC\t00000000\t0001\n";
        assert_eq!(gateways(ipv4), ["172.30.0.1".parse::<IpAddr>().expect("an address")]);
        let any = "0".repeat(32);
        let ipv6 = format!(
            "{any} 00 {any} 00 fd00000000000000000000000000000{} 00000400 1 0 3 eth0\n{any} 00 {any} 00 {any} ffffffff 1 0 200200 lo\n",
            1
        );
        assert_eq!(gateways6(&ipv6), ["fd00::1".parse::<IpAddr>().expect("an address")]);
        assert_eq!(gateways(""), Vec::<IpAddr>::new());
    }
}
