//! A cluster in small: a node that has the pod and a peer on veth pairs, as a CNI plugin lays them; that knows Services, as
//! kube-proxy does; and CoreDNS, which knows their names.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::processes::Processes;
use crate::space::Space;
use crate::talk::{PATIENCE, connect};
use crate::tools::tool;

/// An address of each family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Both {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

const fn both(v4: [u8; 4], v6: [u16; 3]) -> Both {
    Both {
        v4: Ipv4Addr::new(v4[0], v4[1], v4[2], v4[3]),
        v6: Ipv6Addr::new(0xfd00, v6[0], v6[1], 0, 0, 0, 0, v6[2]),
    }
}

/// The node's own, which pods know as `status.hostIPs`.
pub(crate) const NODE: Both = both([172, 30, 0, 2], [0x30, 0, 2]);
/// The pod's way out, and whence the node calls it by itself.
pub(crate) const GATEWAY: Both = both([10, 244, 1, 1], [0x244, 1, 1]);
pub(crate) const POD: Both = both([10, 244, 1, 2], [0x244, 1, 2]);
const PEER_GATEWAY: Both = both([10, 244, 2, 1], [0x244, 2, 1]);
pub(crate) const PEER: Both = both([10, 244, 2, 2], [0x244, 2, 2]);
/// Another pod, in the peer's namespace.
pub(crate) const OTHER: Both = both([10, 244, 2, 3], [0x244, 2, 3]);
const DNS: Both = both([10, 96, 0, 10], [0x96, 0, 10]);
/// The Service orders, its successor, and the Service ledger.
pub(crate) const ORDERS: Both = both([10, 96, 0, 20], [0x96, 0, 0x20]);
pub(crate) const NEW_ORDERS: Both = both([10, 96, 0, 21], [0x96, 0, 0x21]);
pub(crate) const LEDGER: Both = both([10, 96, 0, 30], [0x96, 0, 0x30]);
/// What every name of the domain `wild.test` has, which stands in the search list as the node's domain does.
pub(crate) const WILD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The families that a pod's network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Families {
    /// Both.
    Dual,
    /// IPv4; of IPv6 only the loopback address.
    Ipv4,
    /// IPv4, and IPv6 is disabled by sysctl.
    Ipv4Alone,
    /// IPv6; of IPv4 only the loopback address.
    Ipv6,
}

impl Families {
    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::Dual => true,
            Self::Ipv4 | Self::Ipv4Alone => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
        }
    }

    /// Those of an address's that the pod has.
    pub(crate) fn of(self, address: Both) -> impl Iterator<Item = IpAddr> {
        let all = [IpAddr::V4(address.v4), IpAddr::V6(address.v6)];
        all.into_iter().filter(move |address| self.has(*address))
    }
}

/// The small cluster; it ends with this.
pub(crate) struct Site {
    processes: Processes,
    families: Families,
    folder: TempDir,
    pub(crate) node: Space,
    pub(crate) pod: Space,
    pub(crate) peer: Space,
}

impl Site {
    /// Makes one with the Services orders (10.96.0.20:8080, on port 9080 of the peer) and ledger (:9000, on 9900).
    pub(crate) fn new(families: Families) -> Self {
        check_prerequisites();
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut processes = Processes::new(folder.path());
        let [node, pod, peer] = ["node", "pod", "peer"].map(|name| Space::new(&mut processes, name));
        let mut site = Self {
            processes,
            families,
            folder,
            node,
            pod,
            peer,
        };
        site.lay();
        site.set_names(&[("orders.shop", ORDERS), ("ledger.bank", LEDGER)]);
        site.set_services(&[(ORDERS, 8080, PEER, 9080), (LEDGER, 9000, PEER, 9900)]);
        site.start_dns();
        site
    }

    pub(crate) fn families(&self) -> Families {
        self.families
    }

    /// Where the logs of processes are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The name server of pods.
    pub(crate) fn dns(&self) -> IpAddr {
        self.families.of(DNS).next().expect("a pod has a family")
    }

    fn lay(&self) {
        for space in [self.node, self.pod, self.peer] {
            // Some machines begin new namespaces without.
            space.run("for f in all default lo; do echo 0 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done");
        }
        self.node.run(
            "ip link set lo up
             echo 1 >/proc/sys/net/ipv4/ip_forward
             echo 1 >/proc/sys/net/ipv6/conf/all/forwarding",
        );
        for address in [NODE, DNS] {
            self.node.run(&format!(
                "ip address add {}/32 dev lo; ip address add {}/128 dev lo nodad",
                address.v4, address.v6
            ));
        }
        self.join("pod", self.pod, self.families, GATEWAY, &[POD]);
        self.join("peer", self.peer, Families::Dual, PEER_GATEWAY, &[PEER, OTHER]);
    }

    fn join(&self, name: &str, space: Space, families: Families, gateway: Both, own: &[Both]) {
        // The kernel calls from the one that is not deprecated.
        let add = |device: &str, address, life| match address {
            IpAddr::V4(address) => format!("ip address add {address}/24 dev {device}\n"),
            IpAddr::V6(address) => format!("ip address add {address}/64 dev {device} nodad preferred_lft {life}\n"),
        };
        self.node.run(&format!(
            "ip link add {name} type veth peer name eth0 netns {}",
            space.id()
        ));
        let outside: String = families
            .of(gateway)
            .map(|address| add(name, address, "forever"))
            .collect();
        self.node.run(&format!("{outside} ip link set {name} up"));
        let mut inside = String::new();
        if families == Families::Ipv4Alone {
            inside += "for f in all default lo; do echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done\n";
        }
        inside += "ip link set lo up\n";
        for (n, own) in own.iter().enumerate() {
            let life = if n == 0 { "forever" } else { "0" };
            inside.extend(families.of(*own).map(|own| add("eth0", own, life)));
        }
        inside += "ip link set eth0 up\n";
        for address in families.of(gateway) {
            writeln!(inside, "ip route add default via {address}").expect("a string takes any text");
        }
        space.run(&inside);
    }

    /// The Services that the node knows, each with its port, a pod and the pod's port, for TCP and UDP. A pod that reaches
    /// itself by one is masqueraded, as kube-proxy does.
    pub(crate) fn set_services(&self, services: &[(Both, u16, Both, u16)]) {
        let mut rules = String::new();
        for (service, port, pod, target) in services {
            let from = "meta l4proto { tcp, udp } th dport";
            writeln!(
                rules,
                "ip daddr {} {from} {port} dnat ip to {}:{target}",
                service.v4, pod.v4
            )
            .unwrap();
            writeln!(
                rules,
                "ip6 daddr {} {from} {port} dnat ip6 to [{}]:{target}",
                service.v6, pod.v6
            )
            .unwrap();
        }
        self.node.run(&format!(
            "nft -f - <<'END'
             table inet services
             delete table inet services
             table inet services {{
               chain services {{ type nat hook prerouting priority dstnat; {rules} }}
               chain hairpin {{
                 type nat hook postrouting priority srcnat;
                 ip saddr {pod4} ip daddr {pod4} masquerade
                 ip6 saddr {pod6} ip6 daddr {pod6} masquerade
               }}
             }}
END",
            pod4 = POD.v4,
            pod6 = POD.v6,
        ));
    }

    /// The Services that DNS knows, by `name.namespace`, besides DNS itself.
    pub(crate) fn set_names(&self, names: &[(&str, Both)]) {
        static SERIAL: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut zone = format!("$ORIGIN cluster.local.\n@ 5 IN SOA ns.dns hostmaster {serial} 7200 1800 86400 5\n");
        for (name, address) in names.iter().chain(&[("kube-dns.kube-system", DNS)]) {
            for address in self.families.of(*address) {
                let kind = if address.is_ipv4() { "A" } else { "AAAA" };
                writeln!(zone, "{name}.svc 5 IN {kind} {address}").expect("a string takes any text");
            }
        }
        // CoreDNS may read at any moment.
        let [draft, file] = ["zone.new", "zone"].map(|name| self.folder.path().join(name));
        std::fs::write(&draft, zone).expect("it can be written");
        std::fs::rename(draft, file).expect("it is there");
    }

    /// Waits until DNS tells the pod the addresses of a Service, and no others.
    pub(crate) fn wait_for_name(&self, service: &str, address: Both) {
        let mut expected: Vec<String> = self.families.of(address).map(|address| address.to_string()).collect();
        expected.sort();
        self.wait_for_lookup(service, &expected);
    }

    /// Waits until DNS tells the pod that there is no such Service.
    pub(crate) fn wait_for_no_name(&self, service: &str) {
        self.wait_for_lookup(service, &[]);
    }

    fn wait_for_lookup(&self, service: &str, expected: &[String]) {
        let script = format!("getent ahosts {service}.svc.cluster.local. | cut -d' ' -f1 | sort -u");
        let started = Instant::now();
        loop {
            let found = self.pod.run(&script);
            if found.lines().eq(expected) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{service} is {found:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn start_dns(&mut self) {
        let zone = self.folder.path().join("zone");
        let bind = format!("bind {} {}", DNS.v4, DNS.v6);
        let file = self.folder.path().join("Corefile");
        let text = format!(
            "cluster.local {{
               {bind}
               file {} {{
                 reload 100ms
               }}
             }}
             wild.test {{
               {bind}
               template IN A {{
                 answer \"{{{{ .Name }}}} 5 IN A {WILD}\"
               }}
               template IN AAAA {{
                 rcode NOERROR
               }}
             }}\n",
            zone.display()
        );
        std::fs::write(&file, text).expect("it can be written");
        let coredns = tool("COREDNS").display().to_string();
        let mut arguments = self.node.entry();
        arguments.extend([coredns, "-conf".to_owned(), file.display().to_string()]);
        self.processes.start("dns", Path::new(&arguments.remove(0)), &arguments);
        let started = Instant::now();
        while connect(self.node, (IpAddr::V4(DNS.v4), 53)).is_err() {
            assert_eq!(self.processes.ended(), None, "{}", self.processes.log_tails());
            assert!(started.elapsed() < PATIENCE, "no DNS{}", self.processes.log_tails());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Says in a sentence what is missing.
fn check_prerequisites() {
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("/proc is mounted"));
    assert_eq!(
        user, 0,
        "this suite makes network namespaces, which only root may: run it as root"
    );
    for program in ["curl", "ip", "nft", "nsenter", "setpriv", "unshare"] {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let found = folders.iter().any(|folder| Path::new(folder).join(program).is_file());
        assert!(
            found,
            "this suite needs the program {program}: run tests/install-packages"
        );
    }
    assert!(
        Path::new("/proc/net/if_inet6").exists(),
        "this suite sends IPv6 too, which this kernel does not have: use one with CONFIG_IPV6 that was not started with \
         ipv6.disable=1"
    );
}
