//! The chart's values: described by their schema, listed by its README, and the same as the program's own tables.
//!
//! What the chart renders is held against a real API server by `cluster_chart`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;

use expect_test::expect_file;
use outrigger::settings::{SETTINGS, Setting};
use outrigger::{names, requirements, yaml};
use serde_json::{Map, Value, json};

#[path = "chart/docs.rs"]
mod docs;
#[path = "chart/values.rs"]
mod values;

/// A file of the repository.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn chart_yaml(name: &str) -> Value {
    yaml::parse_one(&text(&format!("charts/outrigger/{name}"))).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn schema() -> Value {
    serde_json::from_str(&text("charts/outrigger/values.schema.json")).unwrap()
}

/// `below` over `above`, as Helm puts values over each other.
fn merged(above: &Value, below: &Value) -> Value {
    let (Value::Object(above), Value::Object(below)) = (above, below) else {
        return below.clone();
    };
    let mut result = above.clone();
    for (key, value) in below {
        let value = above.get(key).map_or_else(|| value.clone(), |old| merged(old, value));
        result.insert(key.clone(), value);
    }
    Value::Object(result)
}

/// What the schema says against values over the chart's own, one line each.
fn complaints(values: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let values = merged(&chart_yaml("values.yaml"), values);
    let errors = validator.iter_errors(&values);
    errors.map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[test]
fn the_version_is_that_of_the_program() {
    let chart = chart_yaml("Chart.yaml");
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

/// `outrigger.mesh/proxy-image` is `proxyImage`.
fn camel(key: &str) -> String {
    let words = key.strip_prefix(names::PREFIX).unwrap().split('-').enumerate();
    let words = words.map(|(index, word)| match word.split_at(1) {
        (first, rest) if index > 0 => first.to_uppercase() + rest,
        _ => word.to_owned(),
    });
    words.collect()
}

#[test]
fn the_requirements_are_those_of_the_program() {
    let values = &chart_yaml("values.yaml")["requirements"];
    let built_in = yaml::parse_one(requirements::BUILT_IN).unwrap();
    for (key, value) in built_in.as_object().unwrap() {
        assert_eq!(&values[key], value, "{key}");
    }
    let (own, built_in) = (parsed(values), requirements::Requirements::default());
    assert_eq!(own.workloads, built_in.workloads);
    assert_eq!(own.namespaces().count(), 0);
}

fn parsed(requirements: &Value) -> requirements::Requirements {
    requirements::Requirements::parse(&requirements.to_string()).unwrap()
}

/// Settings and requirements are described once, in the program; `UPDATE_EXPECT=1` writes them into the schema.
#[test]
fn the_schema_knows_the_settings_and_requirements_of_the_program() {
    let mut expected = schema();
    expected["properties"]["settings"]["properties"] = settings();
    let (requirements, rule) = requirements_schema();
    expected["properties"]["requirements"] = requirements;
    expected["definitions"]["requirementsRule"] = rule;
    let expected = serde_json::to_string_pretty(&expected).unwrap() + "\n";
    expect_file![path("charts/outrigger/values.schema.json")].assert_eq(&expected);
}

fn settings() -> Value {
    let property = |row: &Setting| (camel(row.key), json!({"type": "string", "description": row.help}));
    SETTINGS.iter().map(property).collect()
}

/// The schema of the requirements, and that of one rule. The chart speaks an older draft than the program, names a bad key
/// where Helm's validator would name none, and takes a bare `off`, which Helm reads as false.
fn requirements_schema() -> (Value, Value) {
    let program = requirements::schema().to_string();
    let program = program.replace("#/$defs/RawRule", "#/definitions/requirementsRule");
    let mut program: Map<String, Value> = serde_json::from_str(&program).unwrap();
    let rule = program.shift_remove("$defs").unwrap()["RawRule"].clone();
    program.retain(|key, _| key != "$schema" && key != "title");
    let namespaces = program["properties"]["namespaces"].as_object_mut().unwrap();
    let pattern = namespaces.shift_remove("propertyNames").unwrap()["pattern"].clone();
    let action = namespaces
        .insert("additionalProperties".to_owned(), json!(false))
        .unwrap();
    namespaces.insert(
        "patternProperties".to_owned(),
        json!({pattern.as_str().unwrap(): action}),
    );
    for property in program["properties"].as_object_mut().unwrap().values_mut() {
        let words = property.get_mut("enum").and_then(Value::as_array_mut);
        if let Some(words) = words.filter(|words| words.contains(&json!("off"))) {
            words.push(json!(false));
            property["type"] = json!(["string", "boolean"]);
        }
    }
    (Value::Object(program), rule)
}
