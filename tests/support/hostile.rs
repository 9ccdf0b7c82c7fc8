//! Text of a stranger in every place from which something could reach nginx.conf or the redirecting
//! container, and what must hold whatever it is.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use clap::{Args, FromArgMatches};
use outrigger::cli::RedirectArgs;
use outrigger::inject::{Injector, Verdict};
use outrigger::names;
use outrigger::namespace::NamespaceInfo;
use outrigger::settings::{SETTINGS, Scope};
use serde_json::{Value, json};

use crate::additive::inject_as;
use crate::nft::{self, Statement};
use crate::nginx::{self, Directive, Word};
use crate::twin;

/// The ports of the pod's application.
pub(crate) const OWN_PORTS: [u16; 3] = [8080, 9000, 5000];
/// The ports of the services that it calls.
pub(crate) const UPSTREAM_PORTS: [u16; 2] = [80, 5432];

/// Where the text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// An annotation of the pod.
    Annotation(&'static str),
    /// An annotation of its namespace.
    NamespaceAnnotation(&'static str),
    /// The path of an HTTP probe.
    ProbePath,
    /// The scheme of the same probe.
    ProbeScheme,
    /// The port of a TCP probe, by name.
    ProbePort,
    /// The name of the first container and its port.
    Names,
    /// The pod's ServiceAccount.
    ServiceAccount,
    /// The namespace of the request.
    Namespace,
}

/// Where the text stands, and by which template the pod is rendered.
pub(crate) type Place = (Spot, &'static str, &'static str);

/// Every place.
pub(crate) fn spots() -> Vec<Spot> {
    let annotations = SETTINGS
        .iter()
        .filter(|row| row.scope != Scope::Operator)
        .map(|row| row.key);
    let of_namespaces = SETTINGS
        .iter()
        .filter(|row| row.scope == Scope::PodAndNamespace)
        .map(|row| Spot::NamespaceAnnotation(row.key));
    let others = [
        names::INJECT,
        names::DEFAULT_CONTAINER,
        "outrigger.mesh/unheard-of",
        names::NGINX_CONF,
        names::STATUS,
    ];
    let mut spots: Vec<Spot> = annotations.chain(others).map(Spot::Annotation).collect();
    spots.extend(of_namespaces);
    spots.extend([Spot::ProbePath, Spot::ProbeScheme, Spot::ProbePort]);
    spots.extend([Spot::Names, Spot::ServiceAccount, Spot::Namespace]);
    spots
}

/// Decides on a pod with the text, and looks at what it is given.
pub(crate) fn check(place: Place, text: &str) {
    let Some((conf, rules)) = check_all(&crate::INJECTOR, (place.1, place.2), &[(place.0, text)]) else {
        return;
    };
    let twin = twin::of(place.0, text);
    let plain = injected(place, &twin).unwrap_or_else(|| panic!("{place:?} {text:?}: its twin {twin:?} is refused"));
    let plain_conf = nginx::shape(&configuration(&plain));
    assert_eq!(nginx::shape(&conf), plain_conf, "{place:?} {text:?} and {twin:?}");
    assert_eq!(
        nft::shape(&rules),
        nft::shape(&self::rules(&plain)),
        "{place:?} {text:?} and {twin:?}"
    );
}

/// The same for a pod with texts in several places, which is rendered by a template in a mode of mTLS; its configuration
/// and rules. `None`: it is not injected. How many of each directive there are depends on all texts together, so only what
/// they are is looked at.
pub(crate) fn check_all(
    injector: &Injector,
    rendered: (&str, &str),
    texts: &[(Spot, &str)],
) -> Option<(Vec<Directive>, Vec<Statement>)> {
    let result = injected_with(injector, rendered, texts)?;
    let conf = configuration(&result);
    let unknown: Vec<_> = nginx::paths(&conf).difference(&TEMPLATE.0).cloned().collect();
    assert!(unknown.is_empty(), "{texts:?}: {unknown:?}");
    assert_eq!(bad_word(&conf), None, "{texts:?}");
    check_arguments(&result);
    let rules = rules(&result);
    assert_eq!(strange_rule(&rules), None, "{texts:?}");
    Some((conf, rules))
}

/// Checks every place with a harmless value; the places where even that is refused.
pub(crate) fn check_harmless() -> Vec<Spot> {
    let places = spots().into_iter().map(|spot| (spot, "mtls", "strict"));
    let (injected, refused): (Vec<Place>, Vec<Place>) =
        places.partition(|place| injected(*place, harmless(place.0)).is_some());
    injected.iter().for_each(|place| check(*place, harmless(place.0)));
    refused.into_iter().map(|(spot, ..)| spot).collect()
}

/// Shows that the check is one: text that is not encoded breaks each of its rules.
pub(crate) fn check_itself() {
    let with = |word: &str| nginx::parse(&format!("http {{ server {{ proxy_read_timeout {word}; }} }}"));
    let unknown = |word: &str| {
        nginx::paths(&with(word).expect("it parses"))
            .difference(&TEMPLATE.0)
            .count()
    };
    assert_eq!(unknown("5s"), 0);
    assert_eq!(unknown("5s; load_module x"), 1);
    assert_eq!(unknown("5s; } evil { a b"), 2);
    assert_eq!(unknown("5s; } location / { proxy_pass http://evil"), 2);
    for broken in ["5s }", "\"5s", "5s; {", "\"5s\"x"] {
        assert!(with(broken).is_err(), "{broken}");
    }
    for word in ["$evil", "a#b", "\"$evil\"", "\"a\nb\"", "a\\ b", "a'b", "ü"] {
        assert!(bad_word(&with(word).expect("it parses")).is_some(), "{word}");
    }
    assert_eq!(bad_word(&with("\"a;{}#'\" $target_15100 5s").expect("it parses")), None);
    assert_ne!(
        nginx::shape(&with("5s").expect("it parses")),
        nginx::shape(&with("5s x").expect("it parses"))
    );
    let rule = |port: &str| nft::parse(&format!("chain inbound {{\n tcp dport {port} redirect to :15200\n }}"));
    let plain = rule("80").expect("it parses");
    assert_eq!(strange_rule(&plain), None);
    assert_eq!(nft::shape(&plain), nft::shape(&rule("65535").expect("it parses")));
    for evil in [
        "80 return;",
        "80 # ",
        "80\n",
        "{80, 81}",
        "!= 80",
        "$port",
        "80; } chain evil {",
    ] {
        let evil = rule(evil).expect("it parses");
        assert_ne!(nft::shape(&plain), nft::shape(&evil), "{evil:?}");
        assert!(strange_rule(&evil).is_some(), "{evil:?}");
    }
    for broken in ["80 }", "80 {", "\"80"] {
        assert!(rule(broken).is_err(), "{broken}");
    }
    assert!(strange_rule(&nft::parse("meta skuid 0 return").expect("it parses")).is_some());
}

/// A value that is injected.
pub(crate) fn harmless(spot: Spot) -> &'static str {
    match spot {
        Spot::NamespaceAnnotation(key) => harmless(Spot::Annotation(key)),
        Spot::ProbePath => "/alive",
        Spot::Annotation(names::INJECT) => "enabled",
        Spot::Annotation(names::TEMPLATE) => "mtls",
        Spot::Annotation(names::POSITION) => "last",
        Spot::Annotation(names::TRAFFIC) => "explicit",
        Spot::Annotation(names::MTLS) => "permissive",
        Spot::Annotation(names::INBOUND_PORTS) => "8080/http",
        Spot::Annotation(names::UPSTREAMS) => "- a:80",
        Spot::Annotation(names::PROBES) => "node",
        Spot::Annotation(names::ALLOW_FROM) => "a/b, c/*",
        Spot::Annotation(names::PROXY_LOG_LEVEL) => "warn",
        Spot::Annotation(key) if key.ends_with("-limit") => "4Gi",
        Spot::Annotation(key) if key.ends_with("-request") => "1m",
        Spot::Annotation(names::EXCLUDE_OUTBOUND_PORTS | names::EXCLUDE_INBOUND_PORTS) => "1",
        _ => "a",
    }
}

fn injected((spot, template, mtls): Place, text: &str) -> Option<Value> {
    injected_with(&crate::INJECTOR, (template, mtls), &[(spot, text)])
}

fn injected_with(injector: &Injector, (template, mtls): (&str, &str), texts: &[(Spot, &str)]) -> Option<Value> {
    let mut pod = json!({
        "metadata": {"annotations": {
            names::TEMPLATE: template, names::MTLS: mtls, names::UPSTREAMS: "- orders:80\n- {service: db:5432, protocol: tcp}",
        }},
        "spec": {"serviceAccountName": "web", "containers": [{
            "name": "web",
            "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 9000, "name": "grpc"}, {"containerPort": 5000}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}, "livenessProbe": {"tcpSocket": {"port": 5000}},
        }]},
    });
    let (mut namespace, mut info) = ("shop", NamespaceInfo::enabled());
    for (spot, text) in texts {
        match spot {
            Spot::Namespace => namespace = text,
            Spot::NamespaceAnnotation(key) => {
                // The pod's own would win.
                pod["metadata"]["annotations"].as_object_mut()?.remove(*key);
                info.annotations.insert((*key).to_owned(), (*text).to_owned());
            }
            spot => put(&mut pod, *spot, text),
        }
    }
    let Verdict::Inject(patch) = inject_as(injector, namespace, &info, &pod).verdict else {
        return None;
    };
    let patch = serde_json::from_str(&patch).expect("a patch is JSON");
    Some(crate::strict_patch::apply(&pod, &patch).expect("it applies"))
}

/// Writes the text to its place, if that is in the pod.
fn put(pod: &mut Value, spot: Spot, text: &str) {
    let container = &mut pod["spec"]["containers"][0];
    match spot {
        Spot::ProbePath => container["readinessProbe"]["httpGet"]["path"] = text.into(),
        Spot::ProbeScheme => container["readinessProbe"]["httpGet"]["scheme"] = text.into(),
        Spot::ProbePort => container["livenessProbe"]["tcpSocket"]["port"] = text.into(),
        Spot::Names => {
            container["name"] = text.into();
            container["ports"][0]["name"] = text.into();
        }
        Spot::ServiceAccount => pod["spec"]["serviceAccountName"] = text.into(),
        Spot::Annotation(key) => pod["metadata"]["annotations"][key] = text.into(),
        Spot::NamespaceAnnotation(_) | Spot::Namespace => {}
    }
}

fn configuration(pod: &Value) -> Vec<Directive> {
    let text = pod["metadata"]["annotations"][names::NGINX_CONF]
        .as_str()
        .expect("the annotation is there");
    nginx::parse(text).unwrap_or_else(|e| panic!("{e}:\n{text}"))
}

/// The paths of the template's own directives, and its own words.
static TEMPLATE: LazyLock<(BTreeSet<String>, Vec<Word>)> = LazyLock::new(|| {
    let source = crate::INJECTOR
        .templates()
        .source("nginx.conf")
        .expect("it is built in");
    let mut plain = String::new();
    for part in source.split("{{") {
        let (tag, rest) = part.split_once("}}").unwrap_or(("", part));
        plain.push_str(if tag.starts_with("nginx ") { "word" } else { "" });
        plain.push_str(rest);
    }
    let directives = nginx::parse(&plain).expect("the template's own text is nginx's");
    let words = nginx::words(&directives).into_iter().cloned();
    (nginx::paths(&directives), words.collect())
});

/// A word that is none of the template's own and has what means something to nginx: without quotes
/// any but a few characters, in quotes a variable or a line break.
fn bad_word(conf: &[Directive]) -> Option<&Word> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_./:$%=[]@*-()".contains(c);
    let fine = |word: &&Word| {
        if word.quoted {
            !word.text.contains(['$', '\n', '\r', '\0'])
        } else {
            word.text.chars().all(harmless) && variables(&word.text).all(|name| is_own(&name))
        }
    };
    nginx::words(conf)
        .into_iter()
        .find(|word| !fine(word) && !TEMPLATE.1.contains(word))
}

fn is_own(variable: &str) -> bool {
    TEMPLATE
        .1
        .iter()
        .any(|word| variables(&word.text).any(|own| own == variable))
}

/// The names of a word's variables, with `word` for a number at the end, as in the bare template.
fn variables(text: &str) -> impl Iterator<Item = String> {
    text.split('$').skip(1).map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches(|c: char| c.is_ascii_digit());
        if name.len() < end {
            format!("{name}word")
        } else {
            name.to_owned()
        }
    })
}

/// The redirecting container's arguments are flags with names, numbers and dots.
fn check_arguments(pod: &Value) {
    let harmless = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:=".contains(c);
    let init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    for argument in init.filter_map(|c| c["args"].as_array()).flatten() {
        let argument = argument.as_str().expect("an argument is a string");
        // The kubelet puts the node's addresses in.
        let harmless = argument.chars().all(harmless) || argument == "--node-ips=$(HOST_IPS)";
        assert!(harmless, "{argument:?}");
        assert!(argument == "redirect" || argument.starts_with("--"), "{argument:?}");
    }
}

/// The rules that the redirecting container would write, where every name has an address of each family, and so has the
/// node; none where nothing is redirected.
fn rules(pod: &Value) -> Vec<Statement> {
    let init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let mut redirect = init.filter(|container| container["name"] == names::REDIRECT_CONTAINER);
    let Some(arguments) = redirect.next().and_then(|container| container["args"].as_array()) else {
        return Vec::new();
    };
    let arguments = arguments.iter().filter_map(Value::as_str);
    // As the kubelet puts them in.
    let arguments = arguments.map(|argument| argument.replace("$(HOST_IPS)", "192.0.2.7,2001:db8::7"));
    let command = RedirectArgs::augment_args(clap::Command::new("redirect"));
    let matches = command
        .try_get_matches_from(arguments)
        .expect("the program takes its own arguments");
    let arguments = RedirectArgs::from_arg_matches(&matches).expect("they are complete");
    let both = vec![Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::LOCALHOST.into()];
    let script = arguments.rules(|_| both.clone(), both.clone()).script();
    nft::parse(&script).unwrap_or_else(|e| panic!("{e}:\n{script}"))
}

/// All that a script may say, by its shape.
const RULES: [&str; 13] = [
    "table inet outrigger",
    "delete table inet outrigger",
    "chain inbound",
    "chain outbound",
    "type nat hook prerouting priority dstnat",
    "type nat hook output priority -100",
    "policy accept",
    "tcp flags & (fin | syn | rst | ack) != syn return",
    "ip saddr <IPv4> tcp dport <number> return",
    "ip6 saddr <IPv6> tcp dport <number> return",
    "tcp dport <number> redirect to :<number>",
    "ip daddr <IPv4> tcp dport <number> redirect to :<number>",
    "ip6 daddr <IPv6> tcp dport <number> redirect to :<number>",
];

/// A statement that is none of these, nor lets the very uid of the proxy alone.
fn strange_rule(statements: &[Statement]) -> Option<String> {
    let own = format!("meta skuid {} return", names::PROXY_UID);
    statements.iter().find_map(|Statement { words, block }| {
        let head = Statement {
            words: words.clone(),
            block: None,
        };
        let shape = nft::shape(std::slice::from_ref(&head));
        let known = RULES.contains(&shape.trim_end()) || words.join(" ") == own;
        if known {
            block.as_deref().and_then(strange_rule)
        } else {
            Some(words.join(" "))
        }
    })
}
