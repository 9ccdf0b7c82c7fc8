//! Texts of a stranger: such that would leave their place, and such that are lists of many of them.

use outrigger::names;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::hostile::{OWN_PORTS, Place, Spot, UPSTREAM_PORTS, harmless, spots};

/// Texts that would end a word, a directive, a block or a line, or name a variable.
pub(crate) const ATTACKS: [&str; 22] = [
    ";",
    "}",
    "{",
    "#",
    "\"",
    "'",
    "\\",
    "$host",
    "${host}",
    "\n",
    "\r\n",
    "\0",
    " ",
    "\u{2028}",
    "\u{85}",
    "\"; } server { listen 80; location / { return 200; } } #",
    "'; include /etc/passwd; '",
    "}} {{json x}}",
    "\\\"; load_module x;",
    "127.0.0.1:1; deny all",
    "\n      - evil: true\n",
    "--proxy-uid=0",
];

/// Starts that pass a careless check.
const STARTS: [&str; 17] = [
    "",
    "/ready",
    "mtls",
    "8080/http",
    "8080, 9000",
    "a/b",
    "a/*, c/d",
    "- orders.shop:8080",
    "- a:1\n- {service: b.c.svc:2, protocol: grpc, timeout: 5s, retries: 2, listen: 7000}",
    "- {service: a:1, identity: b/c, maxFails: 3, failTimeout: 1m, split: [{service: d.e:2, weight: 9}, {service: f:3, weight: 1}]}",
    "8080/grpc, 81/http,5000, 65535/tcp",
    "- {service: \"a:80\", timeout: \"5s",
    "[{service: a:80, identity: \"b/c",
    "registry.example.com/nginx:1",
    "100m",
    "warn",
    "shop",
];

/// The settings whose values have parts.
const LISTS: [&str; 5] = [
    names::UPSTREAMS,
    names::INBOUND_PORTS,
    names::EXCLUDE_INBOUND_PORTS,
    names::EXCLUDE_OUTBOUND_PORTS,
    names::ALLOW_FROM,
];

/// Any place, with a stranger's text for it: often one that begins like a valid value, or a list with a stranger's text in
/// one of its parts.
pub(crate) fn case() -> impl Strategy<Value = (Place, String)> {
    let templates = select(
        &[
            ("mtls", "strict"),
            ("mtls", "permissive"),
            ("proxy-sidecar", "permissive"),
        ][..],
    );
    let any = select(spots()).prop_flat_map(|spot| (Just(spot), text(harmless(spot))));
    // The upstreams have the most parts.
    let key = prop_oneof![select(&LISTS[..]), Just(names::UPSTREAMS)];
    let list = key.prop_flat_map(|key| (Just(Spot::Annotation(key)), list(key)));
    let case = prop_oneof![any, list];
    (case, templates).prop_map(|((spot, text), (template, mtls))| ((spot, template, mtls), text))
}

/// A value of a setting with parts, most of which are valid.
fn list(key: &'static str) -> BoxedStrategy<String> {
    match key {
        names::UPSTREAMS => vec(upstream(), 1..4).prop_map(|entries| entries.join("\n")).boxed(),
        names::INBOUND_PORTS => commas(
            (port(), option::of(select(&["http", "http2", "grpc", "tcp"][..]))).prop_map(|(port, protocol)| {
                match protocol {
                    Some(protocol) => format!("{port}/{protocol}"),
                    None => port,
                }
            }),
        ),
        names::ALLOW_FROM => commas(
            (part(name()), part(prop_oneof![Just("*".to_owned()), name()]))
                .prop_map(|(namespace, account)| format!("{namespace}/{account}")),
        ),
        _ => commas(port()),
    }
}

fn commas(item: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    vec(item, 0..4).prop_map(|items| items.join(", ")).boxed()
}

/// An entry of the list of upstreams, each key of which may be there.
fn upstream() -> impl Strategy<Value = String> {
    let service = || (part(name()), option::of(name()), port());
    let service = move || {
        service().prop_map(|(name, namespace, port)| match namespace {
            Some(namespace) => format!("{name}.{namespace}:{port}"),
            None => format!("{name}:{port}"),
        })
    };
    let duration = || part(select(&["500ms", "5s", "1m", "1h"][..]).prop_map(str::to_owned));
    let identity = (part(name()), name()).prop_map(|(namespace, account)| format!("{namespace}/{account}"));
    let share =
        (service(), 1u8..40).prop_map(|(service, weight)| format!("{{service: {service:?}, weight: {weight}}}"));
    let keys = (
        option::of(identity),
        option::of(select(&["http", "grpc", "tcp"][..])),
        option::of(duration()),
        option::of((1u16..9, option::of(duration()))),
        option::of(1024u16..15_000),
        vec(share, 0..3),
    );
    (service(), keys).prop_map(|(service, (identity, protocol, timeout, fails, listen, split))| {
        let mut entry = format!("- {{service: {service:?}, split: [{}]", split.join(", "));
        let mut add = |key: &str, value: Option<String>| {
            entry.extend(value.map(|value| format!(", {key}: {value}")));
        };
        let (max_fails, fail_timeout) = fails.unzip();
        add("identity", identity.map(|text| format!("{text:?}")));
        add("protocol", protocol.map(str::to_owned));
        add("timeout", timeout.map(|text| format!("{text:?}")));
        add("maxFails", max_fails.map(|number| number.to_string()));
        add("failTimeout", fail_timeout.flatten().map(|text| format!("{text:?}")));
        add("listen", listen.map(|number| number.to_string()));
        entry + "}"
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z][a-z0-9-]{0,4}[a-z0-9]", 1 => Just("orders".to_owned())]
}

/// Any port, often one that means something in the pod.
fn port() -> impl Strategy<Value = String> {
    let known: Vec<u16> = OWN_PORTS.iter().chain(&UPSTREAM_PORTS).copied().collect();
    part(prop_oneof![select(known), 1..=u16::MAX].prop_map(|port| port.to_string()))
}

/// A part of a value, seldom with an attack behind it, within it or in its place.
fn part(valid: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    let valid = valid.boxed();
    let attack = || select(&ATTACKS[..]);
    prop_oneof![
        16 => valid.clone(),
        1 => (valid.clone(), attack()).prop_map(|(valid, attack)| valid + attack),
        4 => (valid.clone(), attack(), valid).prop_map(|(start, attack, end)| start + attack + &end),
        1 => attack().prop_map(str::to_owned),
    ]
}

fn text(valid: &'static str) -> impl Strategy<Value = String> {
    let start = prop_oneof![Just(valid), select(&STARTS[..])];
    let any = prop_oneof![
        2 => select(&ATTACKS[..]).prop_map(str::to_owned),
        1 => ".{0,12}",
        1 => "\\PC{0,12}",
        3 => Just(String::new()),
    ];
    (start, any.clone(), any).prop_map(|(start, middle, end)| format!("{start}{middle}{end}"))
}
