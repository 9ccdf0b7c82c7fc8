//! How the names of Services become addresses when a pod starts.

use std::process::Stdio;

use crate::pod::{NET_ADMIN, Pod, injected, manifest};
use crate::site::{Families, LEDGER, ORDERS, Site, WILD};
use crate::talk::{Server, curl, get};

fn calling<'s>(site: &'s Site, upstreams: &str) -> Pod<'s> {
    Pod::new(
        site,
        injected(&manifest(&[("upstreams", upstreams)], &[("http", 8080)]), &[]),
    )
}

#[test]
fn every_service_without_an_address_is_named_and_no_rule_is_written() {
    let site = Site::new(Families::Dual);
    let pod = calling(
        &site,
        "- orders.shop:8080\n- missing.shop:80\n- {service: gone.bank:9000, protocol: tcp}",
    );
    let run = pod.try_init(&["--resolve-retries=1"]);
    assert_eq!((run.code, pod.ruleset().as_str()), (2, ""), "{}", run.stderr);
    let errors: Vec<&str> = run.stderr.lines().collect();
    assert!(
        errors[0].starts_with("waiting for the address of gone.bank.svc.cluster.local ("),
        "{errors:?}"
    );
    let last = errors.last().unwrap();
    for part in [
        "error: no address, after 2 lookups a second apart, of gone.bank.svc.cluster.local (",
        "missing.shop.svc.cluster.local (",
        "Name or service not known",
        "create the Services before the pod",
        "outrigger.mesh/upstreams",
    ] {
        assert!(last.contains(part), "no {part:?} in {last}");
    }
    assert!(!run.stderr.contains("orders"), "it has an address: {}", run.stderr);
}

#[test]
fn a_pod_waits_for_its_services() {
    let site = Site::new(Families::Dual);
    let pod = calling(&site, "- orders.shop:8080");
    site.set_names(&[("ledger.bank", LEDGER)]);
    site.wait_for_no_name("orders.shop");
    let arguments = pod.arguments();
    let mut init = pod.outrigger(NET_ADMIN);
    let mut init = init
        .args(arguments)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut errors = std::io::BufReader::new(init.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut errors, &mut line).unwrap();
    assert!(
        line.starts_with("waiting for the address of orders.shop.svc.cluster.local"),
        "{line}"
    );
    site.set_names(&[("orders.shop", ORDERS)]);
    assert!(init.wait().unwrap().success());
    assert!(
        pod.ruleset()
            .contains(&format!("ip daddr {} tcp dport 8080", ORDERS.v4))
    );
}

/// The search list of a pod often ends with a domain of the node's network, and some of these have every name.
#[test]
fn the_search_list_has_no_say() {
    let site = Site::new(Families::Ipv4);
    let pod = calling(&site, "- orders.shop:8080");
    let resolved = pod.space().run("getent ahostsv4 orders.shop.svc.cluster.local || true");
    assert!(
        resolved.contains(&WILD.to_string()),
        "with ndots:5 the search list goes first: {resolved}"
    );
    pod.init();
    let rules = pod.ruleset();
    assert!(
        rules.contains(&ORDERS.v4.to_string()) && !rules.contains(&WILD.to_string()),
        "{rules}"
    );
}

#[test]
fn a_dns_server_that_does_not_answer_is_told_from_a_missing_service() {
    let site = Site::new(Families::Ipv4);
    let pod = calling(&site, "- orders.shop:8080");
    // The packets are refused at once, so that the test need not wait for them.
    site.node
        .run("nft 'table inet closed { chain c { type filter hook input priority 0; th dport 53 reject; }; }'");
    assert!(!curl(pod.space(), &["http://orders.shop:8080/"]).status.success());
    let run = pod.try_init(&["--resolve-retries=0"]);
    assert_eq!(run.code, 2);
    for part in [
        "Temporary failure in name resolution",
        "the cluster's DNS server does not answer this pod",
    ] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

/// As docs/limits.md says.
#[test]
fn until_dns_has_answered_nginx_it_has_no_upstream() {
    let site = Site::new(Families::Ipv4);
    Server::start(site.peer, "orders", ([0; 4], 9080));
    let mut pod = calling(&site, "- orders.shop:8080");
    pod.init();
    // Questions for names that begin with the label orders: 20 bytes after the head of UDP begins (RFC 1035, 4.1).
    site.node.run(
        "nft 'table inet deaf { chain c { type filter hook input priority 0; udp dport 53 @th,160,56 0x066f7264657273 drop; }; }'",
    );
    pod.start_nginx_early();
    assert_eq!(get(site.pod, (ORDERS.v4, 8080), "/early").status, 502);
    site.node.run("nft delete table inet deaf");
    pod.wait_for_upstreams();
    assert_eq!(get(site.pod, (ORDERS.v4, 8080), "/late").body["server"], "orders");
}
