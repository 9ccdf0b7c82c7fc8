//! Values that the chart refuses, with a message that names the field.

use serde_json::Value;

use crate::helm::template;

/// Values, and what the refusal names.
#[derive(serde::Deserialize)]
struct Bad {
    values: Value,
    names: String,
}

fn bad_values() -> Vec<Bad> {
    let table = outrigger::yaml::parse_one(include_str!("refusals.yaml")).unwrap();
    serde_json::from_value(table).unwrap()
}

#[test]
fn bad_values_are_refused_with_the_name_of_the_field() {
    let table = bad_values();
    assert!(table.len() >= 50, "the table is elsewhere");
    for Bad { values, names } in table {
        let refusal = template(&values).expect_failure();
        assert!(refusal.contains(&names), "{values}: {names}: {refusal}");
    }
}

#[test]
fn a_bare_off_is_understood() {
    let values = "requirements: {proxy: off, workloads: off}";
    let values: Value = outrigger::yaml::parse_one(values).unwrap();
    assert_eq!(values["requirements"]["proxy"], false, "YAML 1.1 reads it so");
    let objects = crate::helm::rendered(&values);
    let map = objects
        .iter()
        .find(|o| o["metadata"]["name"] == "outrigger-requirements")
        .unwrap();
    let text = map["data"]["requirements.yaml"].as_str().unwrap();
    let requirements = outrigger::requirements::Requirements::parse(text).unwrap();
    assert_eq!(requirements.proxy.as_str(), "off");
    assert_eq!(requirements.workloads.as_str(), "off");
}

/// What the chart refuses of requirements, the program refuses too: nothing that would do is kept back.
#[test]
fn requirements_that_the_chart_refuses_are_none_to_the_program() {
    let refused: Vec<Value> = bad_values().into_iter().map(|bad| bad.values).collect();
    let refused = refused
        .iter()
        .filter(|values| !values["requirements"]["labels"].is_null());
    assert!(refused.clone().count() > 15, "the table is elsewhere");
    for values in refused {
        let text = values["requirements"].to_string();
        assert!(outrigger::requirements::Requirements::parse(&text).is_err(), "{text}");
    }
}
