//! Values, schema and README say the same.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::{chart_yaml, complaints, path, schema, text};

/// Values that are set where they are needed alone, and so are no part of values.yaml.
const WITHOUT_DEFAULT: &[&str] = &["global", "enabled", "resources.claims"];

/// Maps whose keys are the user's to choose: those without a default are not listed one by one.
const OPEN: &[&str] = &["settings", "webhook.namespaceSelector", "webhook.objectSelector"];

/// A value of the schema: its path and what is said of it, references followed.
struct Described {
    path: String,
    schema: Value,
}

/// Every value down to those that are set as a whole.
fn described() -> Vec<Described> {
    let schema = schema();
    let mut found = Vec::new();
    collect("", &schema, &schema, &mut found);
    assert!(found.len() > 70, "the schema is elsewhere");
    found
}

fn collect(path: &str, schema: &Value, root: &Value, found: &mut Vec<Described>) {
    for (key, property) in schema["properties"].as_object().unwrap() {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let property = resolved(property, root);
        let has_parts = property["properties"].is_object() && !OPEN.contains(&&*path);
        if has_parts
            && property["properties"]
                .as_object()
                .unwrap()
                .values()
                .all(Value::is_object)
        {
            collect(&path, &property, root, found);
        } else {
            found.push(Described { path, schema: property });
        }
    }
}

/// The schema with the definition that it refers to.
fn resolved(property: &Value, root: &Value) -> Value {
    let reference = property["allOf"][0]["$ref"].as_str();
    let Some(name) = reference.and_then(|text| text.strip_prefix("#/definitions/")) else {
        return property.clone();
    };
    let mut whole = root["definitions"][name].clone();
    whole["description"] = property["description"].clone();
    whole
}

fn default_of<'v>(values: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(values, |value, key| value.get(key))
}

#[test]
fn every_value_is_described_and_none_else_is_taken() {
    fn walk(path: &str, schema: &Value) {
        let Some(kind) = schema.get("type") else { return };
        if kind == "object" {
            let open = schema["description"]
                .as_str()
                .is_some_and(|text| text.contains("of Kubernetes"));
            let exempt = open
                || ["/properties/global", "/properties/claims/items"]
                    .iter()
                    .any(|end| path.ends_with(end));
            assert!(
                exempt || schema.get("additionalProperties").is_some_and(|more| more != true),
                "{path} takes anything"
            );
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(
                *property == false || property["description"].as_str().is_some_and(|text| text.ends_with('.')),
                "{path}/{key} is not described by a sentence"
            );
            walk(&format!("{path}/properties/{key}"), property);
        }
        walk(&format!("{path}/items"), &schema["items"]);
    }
    let schema = schema();
    walk("", &schema);
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        walk(&format!("/definitions/{name}"), definition);
    }
}

#[test]
fn every_described_value_has_its_default() {
    let values = chart_yaml("values.yaml");
    for Described { path, .. } in described() {
        let expected = !WITHOUT_DEFAULT.contains(&&*path);
        assert_eq!(default_of(&values, &path).is_some(), expected, "{path} in values.yaml");
    }
}

#[test]
fn the_values_that_come_with_the_chart_are_good() {
    assert_eq!(complaints(&json!({})), Vec::<String>::new());
    assert_eq!(complaints(&chart_yaml("values-ha.yaml")), Vec::<String>::new());
    assert!(
        !complaints(&json!({"replicaCounts": 2})).is_empty(),
        "nothing is refused"
    );
}

#[test]
fn the_readme_lists_every_value() {
    const START: &str = "<!-- values -->\n";
    const END: &str = "<!-- end of the values -->\n";
    let readme = text("charts/outrigger/README.md");
    let (before, rest) = readme.split_once(START).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    expect_file![path("charts/outrigger/README.md")].assert_eq(&format!("{before}{START}\n{}\n{END}{after}", table()));
}

fn table() -> String {
    let values = chart_yaml("values.yaml");
    let mut table = "| value | is | default | what it does |\n|---|---|---|---|\n".to_owned();
    for Described { path, schema } in described() {
        let default = default_of(&values, &path).map_or_else(|| "–".to_owned(), shown);
        let what = schema["description"].as_str().unwrap().replace('|', "\\|");
        writeln!(table, "| `{path}` | {} | {default} | {what} |", kind(&schema)).unwrap();
    }
    table
}

/// A default in a cell; a long one is for values.yaml to show.
fn shown(value: &Value) -> String {
    match value.to_string() {
        text if text.len() > 60 => "see values.yaml".to_owned(),
        text => format!("`{}`", text.replace('|', "\\|")),
    }
}

fn kind(schema: &Value) -> String {
    if let Some(allowed) = schema["enum"].as_array() {
        let words = allowed.iter().filter_map(Value::as_str).filter(|word| !word.is_empty());
        return words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let kinds: BTreeSet<&str> = match &schema["oneOf"] {
        Value::Array(choices) => choices.iter().filter_map(|choice| choice["type"].as_str()).collect(),
        _ => schema["type"].as_str().into_iter().collect(),
    };
    let names = kinds.into_iter().map(|kind| match kind {
        "object" => "map",
        "array" => "list",
        "boolean" => "true or false",
        "integer" => "number",
        other => other,
    });
    names.collect::<Vec<_>>().join(" or ")
}
