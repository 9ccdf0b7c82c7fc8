//! Texts in places of a pod, its namespace and the environment → settings → nginx.conf.
//!
//! An input is the word of a mode, then `PLACE=TEXT` as often as wanted, all of them separated. One text alone is
//! compared with its plain twin too.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use outrigger::config::Config;
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::names;
use outrigger::settings::SETTINGS;

use crate::hostile::{self, Spot, spots};

/// By the word of a mode, the template and what it says of mTLS.
const MODES: [(&str, (&str, &str)); 3] = [
    ("strict", ("mtls", "strict")),
    ("permissive", ("mtls", "permissive")),
    ("plain", ("proxy-sidecar", "permissive")),
];
/// What a variable of the environment begins with, as a place.
const VARIABLE: &str = "env/";

/// Every place by its word.
static PLACES: LazyLock<BTreeMap<String, Spot>> =
    LazyLock::new(|| spots().into_iter().map(|spot| (word(spot), spot)).collect());

/// The variables that hold defaults of settings.
static VARIABLES: LazyLock<Vec<String>> =
    LazyLock::new(|| SETTINGS.iter().map(|row| names::variable_of(row.key)).collect());

/// The word of a place.
pub(crate) fn word(spot: Spot) -> String {
    let short = |key: &'static str| key.strip_prefix(names::PREFIX).unwrap_or(key);
    match spot {
        Spot::Annotation(key) => short(key).to_owned(),
        Spot::NamespaceAnnotation(key) => format!("namespace/{}", short(key)),
        Spot::ProbePath => "probe-path".to_owned(),
        Spot::ProbeScheme => "probe-scheme".to_owned(),
        Spot::ProbePort => "probe-port".to_owned(),
        Spot::Names => "names".to_owned(),
        Spot::ServiceAccount => "service-account".to_owned(),
        Spot::Namespace => "namespace".to_owned(),
    }
}

/// Checks an input.
pub(crate) fn check(input: &[u8]) {
    let parts = crate::parts(input);
    let mode = MODES.iter().find(|(mode, _)| *mode == parts[0]);
    let rendered = mode.map_or(MODES[0].1, |(_, rendered)| *rendered);
    let entries: Vec<(&str, &str)> = parts.iter().filter_map(|part| part.split_once('=')).collect();
    let (variables, texts): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(place, _)| place.starts_with(VARIABLE));
    let known = |(place, text): (&str, _)| Some((*PLACES.get(place)?, text));
    let texts: Vec<(Spot, &str)> = texts.into_iter().filter_map(known).collect();
    if !variables.is_empty() {
        with_variables(&variables, rendered, &texts);
    } else if let [(spot, text)] = texts[..] {
        hostile::check((spot, rendered.0, rendered.1), text);
    } else {
        hostile::check_all(&crate::INJECTOR, rendered, &texts);
    }
}

/// The same with the operator's variables, if they are a configuration.
fn with_variables(variables: &[(&str, &str)], rendered: (&str, &str), texts: &[(Spot, &str)]) {
    let variables = variables.iter().map(|(place, text)| {
        let name = place.trim_start_matches(VARIABLE);
        (name.to_owned(), (*text).to_owned())
    });
    let config = match Config::from_vars(variables, &VARIABLES) {
        Ok(config) => config,
        Err(errors) => {
            for error in errors.0 {
                assert!(
                    error.to_string().contains("OUTRIGGER_"),
                    "{error}: which variable is it?"
                );
            }
            return;
        }
    };
    let setting_defaults = config.injection.setting_defaults;
    if setting_defaults.is_empty() {
        return;
    }
    let options = InjectorOptions {
        setting_defaults,
        ..InjectorOptions::default()
    };
    match Injector::new(options) {
        Ok(injector) => drop(hostile::check_all(&injector, rendered, texts)),
        Err(error) => assert!(!error.to_string().is_empty(), "{error:?}"),
    }
}
