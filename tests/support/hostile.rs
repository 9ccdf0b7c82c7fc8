//! Text of a stranger in every place from which something could reach nginx.conf or the redirecting
//! container, and what must hold whatever it is.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use outrigger::inject::Verdict;
use outrigger::names;
use outrigger::settings::{SETTINGS, Scope};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::nginx::{self, Directive, Word};

/// Where the text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// An annotation of the pod.
    Annotation(&'static str),
    /// The path of an HTTP probe.
    ProbePath,
    /// The name of the first container and its port.
    Names,
    /// The pod's ServiceAccount.
    ServiceAccount,
    /// The namespace of the request.
    Namespace,
}

/// Where the text stands, and by which template the pod is rendered.
pub(crate) type Place = (Spot, &'static str, &'static str);

/// Texts that would end a word, a directive, a block or a line, or name a variable.
const ATTACKS: [&str; 22] = [
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
const STARTS: [&str; 14] = [
    "",
    "/ready",
    "mtls",
    "8080/http",
    "8080, 9000",
    "a/b",
    "a/*, c/d",
    "- orders.shop:8080",
    "- {service: \"a:80\", timeout: \"5s",
    "[{service: a:80, identity: \"b/c",
    "registry.example.com/nginx:1",
    "100m",
    "warn",
    "shop",
];

/// Any place, with a stranger's text for it: often one that begins like a valid value.
pub(crate) fn case() -> impl Strategy<Value = (Place, String)> {
    let templates = select(
        &[
            ("mtls", "strict"),
            ("mtls", "permissive"),
            ("proxy-sidecar", "permissive"),
        ][..],
    );
    let place = (select(spots()), templates).prop_map(|(spot, (template, mtls))| (spot, template, mtls));
    place.prop_flat_map(|place| (Just(place), text(harmless(place.0))))
}

fn text(valid: &'static str) -> impl Strategy<Value = String> {
    let start = prop_oneof![Just(valid), select(&STARTS[..])];
    let any = prop_oneof![
        2 => select(&ATTACKS[..]).prop_map(str::to_owned),
        1 => ".{0,12}",
        1 => "\\PC{0,12}",
        1 => Just(String::new()),
    ];
    (start, any.clone(), any).prop_map(|(start, middle, end)| format!("{start}{middle}{end}"))
}

fn spots() -> Vec<Spot> {
    let annotations = SETTINGS
        .iter()
        .filter(|row| row.scope != Scope::Operator)
        .map(|row| row.key);
    let others = [
        names::INJECT,
        names::DEFAULT_CONTAINER,
        "outrigger.mesh/unheard-of",
        names::NGINX_CONF,
        names::STATUS,
    ];
    let mut spots: Vec<Spot> = annotations.chain(others).map(Spot::Annotation).collect();
    spots.extend([Spot::ProbePath, Spot::Names, Spot::ServiceAccount, Spot::Namespace]);
    spots
}

/// Decides on a pod with the text, and looks at what it is given.
pub(crate) fn check(place: Place, text: &str) {
    let Some(result) = injected(place, text) else { return };
    let conf = configuration(&result);
    let unknown: Vec<_> = nginx::paths(&conf).difference(&TEMPLATE.0).cloned().collect();
    assert!(unknown.is_empty(), "{place:?} {text:?}: {unknown:?}");
    assert_eq!(bad_word(&conf), None, "{place:?} {text:?}");
    check_arguments(&result);
    if is_neutral(place.0) {
        let harmless = injected(place, harmless(place.0)).expect("a harmless value is injected");
        assert_eq!(
            nginx::shape(&conf),
            nginx::shape(&configuration(&harmless)),
            "{place:?} {text:?}"
        );
    }
}

/// Checks every place with a harmless value; how many of them were injected.
pub(crate) fn check_harmless() -> usize {
    let places = spots().into_iter().map(|spot| (spot, "mtls", "strict"));
    let injected = places.filter(|place| injected(*place, harmless(place.0)).is_some());
    injected.inspect(|place| check(*place, harmless(place.0))).count()
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
}

/// Places whose value, if it is taken, has no say in which directives there are.
fn is_neutral(spot: Spot) -> bool {
    !matches!(
        spot,
        Spot::ProbePath
            | Spot::Names
            | Spot::Annotation(
                names::TEMPLATE
                    | names::MTLS
                    | names::INBOUND_PORTS
                    | names::EXCLUDE_INBOUND_PORTS
                    | names::UPSTREAMS
                    | names::PROBES
                    | names::ALLOW_FROM
                    | names::TRAFFIC
                    | names::POSITION
            )
    )
}

fn harmless(spot: Spot) -> &'static str {
    match spot {
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
    let container = &mut pod["spec"]["containers"][0];
    let mut namespace = "shop";
    match spot {
        Spot::ProbePath => container["readinessProbe"]["httpGet"]["path"] = text.into(),
        Spot::Names => {
            container["name"] = text.into();
            container["ports"][0]["name"] = text.into();
        }
        Spot::ServiceAccount => pod["spec"]["serviceAccountName"] = text.into(),
        Spot::Namespace => namespace = text,
        Spot::Annotation(key) => pod["metadata"]["annotations"][key] = text.into(),
    }
    let Verdict::Inject(patch) = crate::inject_in(namespace, &pod).verdict else {
        return None;
    };
    let patch = serde_json::from_str(&patch).expect("a patch is JSON");
    Some(crate::strict_patch::apply(&pod, &patch).expect("it applies"))
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
