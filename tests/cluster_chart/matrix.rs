//! The matrix of values over which the chart is rendered.

use outrigger::names;
use outrigger::settings::SETTINGS;
use serde_json::{Value, json};

use crate::helm;
use crate::merged;
use crate::pairs::all_pairs;

/// Places where users choose, each with its choices: values over the chart's own.
fn switches() -> Vec<Vec<Value>> {
    let switches = outrigger::yaml::parse_one(include_str!("switches.yaml")).unwrap();
    let switches: Vec<Vec<Value>> = serde_json::from_value(switches).unwrap();
    let read = |choice: Value| match choice.as_str() {
        Some("settings") => json!({"settings": every_setting()}),
        Some("values-ha") => helm_values("values-ha.yaml"),
        Some(other) => panic!("{other} stands for nothing"),
        None => choice,
    };
    switches
        .into_iter()
        .map(|switch| switch.into_iter().map(read).collect())
        .collect()
}

/// A good value for every setting.
fn every_setting() -> Value {
    let good = |row: &outrigger::settings::Setting| match row.key {
        names::UPSTREAMS => "- orders.shop:8080\n",
        names::POSITION => "native",
        names::INBOUND_PORTS => "8080/http, 9000",
        names::EXCLUDE_INBOUND_PORTS | names::EXCLUDE_OUTBOUND_PORTS => "3306",
        names::UPSTREAM_NAMESPACES => "*",
        names::ALLOW_FROM => "shop/*",
        names::IDENTITY_SECRET => "identity",
        names::operator::RESOLVER => "10.96.0.10",
        _ => row.default,
    };
    SETTINGS.iter().map(|row| (camel(row.key), json!(good(row)))).collect()
}

fn camel(key: &str) -> String {
    let words = key.strip_prefix(names::PREFIX).unwrap().split('-').enumerate();
    let words = words.map(|(index, word)| match word.split_at(1) {
        (first, rest) if index > 0 => first.to_uppercase() + rest,
        _ => word.to_owned(),
    });
    words.collect()
}

fn helm_values(file: &str) -> Value {
    let text = std::fs::read_to_string(format!("{}/{file}", helm::chart())).unwrap();
    outrigger::yaml::parse_one(&text).unwrap()
}

/// The values of every row of the matrix.
pub(crate) fn matrix() -> Vec<Value> {
    let switches = switches();
    let sizes: Vec<usize> = switches.iter().map(Vec::len).collect();
    let values = |row: Vec<usize>| {
        let choices = row.iter().zip(&switches).map(|(choice, switch)| &switch[*choice]);
        choices.fold(json!({}), |all, choice| merged(&all, choice))
    };
    all_pairs(&sizes).into_iter().map(values).collect()
}
