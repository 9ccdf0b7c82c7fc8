//! `check` in its three forms.

use serde_json::{Value, json};

use crate::outrigger::{Folder, Run, command, deployment, finish};

/// A finding as every form says it: action, file, line, object, rule, message.
type Finding = [String; 6];

const REQUIREMENTS: &str = "labels:\n- {key: environment, values: [dev]}\n- {key: team, pattern: '[a-z]{1,9}'}\nnamespaces: {lax: warn, watched: audit}\n";

fn pod(namespace: &str, labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: {namespace}, labels: {labels}}}\nspec: {{containers: [{{name: \
         app}}]}}\n"
    )
}

/// Findings of every action, in two files, one of which needs escapes in a URI.
fn folder() -> Folder {
    let first = [
        pod("shop", "{}"),
        pod("lax", "{team: a}"),
        pod("watched", "{environment: prod, team: a}"),
    ];
    let odd = [
        deployment("web", "outrigger.mesh/position: middle"),
        deployment("db", "outrigger.mesh/nginx.conf: x"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: {}}\n".to_owned(),
    ];
    Folder::of(&[
        ("r.yaml", REQUIREMENTS),
        ("deploy/a.yaml", &first.join("---\n")),
        ("deploy/b c.yaml", &odd.join("---\n")),
    ])
}

fn check(folder: &Folder, output: &str) -> Run {
    let mut command = command(&["check", "-f", "deploy", "--requirements", "r.yaml", "-o", output]);
    finish(command.current_dir(folder.path())).exits(1)
}

fn of_text(text: &str) -> Vec<Finding> {
    let finding = |line: &str| {
        let (file, rest) = line.split_once(".yaml:").unwrap_or_else(|| panic!("{line}"));
        let parts: Vec<&str> = rest.splitn(5, ": ").collect();
        let [line, object, action, rule, message] = parts[..] else {
            panic!("{line}")
        };
        [action, &format!("{file}.yaml"), line, object, rule, message].map(str::to_owned)
    };
    text.lines().map(finding).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn of_json(list: &Value) -> Vec<Finding> {
    let finding = |found: &Value| {
        let namespace = found["namespace"]
            .as_str()
            .map(|name| format!("{name}/"))
            .unwrap_or_default();
        let object = format!("{} {namespace}{}", text(&found["kind"]), text(&found["name"]));
        let [action, file, line, rule, message] =
            ["action", "file", "line", "rule", "message"].map(|key| text(&found[key]));
        [action, file, line, object, rule, message]
    };
    list.as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(finding)
        .collect()
}

fn of_sarif(log: &Value) -> Vec<Finding> {
    let finding = |result: &Value| {
        let place = &result["locations"][0];
        let action = match text(&result["level"]).as_str() {
            "error" => "deny",
            "warning" => "warn",
            "note" => "audit",
            level => panic!("{level}"),
        };
        let at = |pointer: &str| text(place.pointer(pointer).unwrap_or_else(|| panic!("{pointer}: {result}")));
        [
            action.to_owned(),
            at("/physicalLocation/artifactLocation/uri").replace("%20", " "),
            at("/physicalLocation/region/startLine"),
            at("/logicalLocations/0/fullyQualifiedName"),
            text(&result["ruleId"]),
            text(&result["message"]["text"]).replace("{{", "{").replace("}}", "}"),
        ]
    };
    let results = log["runs"][0]["results"].as_array();
    results
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(finding)
        .collect()
}

#[test]
fn every_form_has_the_same_findings() {
    let folder = folder();
    let found = of_text(&check(&folder, "text").stdout);
    let said: Vec<[&str; 3]> = found.iter().map(|f| [&*f[0], &*f[3], &*f[4]]).collect();
    let expected = [
        ["deny", "Pod shop/p", "requirements"],
        ["deny", "Pod shop/p", "requirements"],
        ["warn", "Pod lax/p", "requirements"],
        ["audit", "Pod watched/p", "requirements"],
        // What the injector refuses hides no label.
        ["deny", "Deployment shop/web", "bad-setting"],
        ["deny", "Deployment shop/web", "requirements"],
        ["deny", "Deployment shop/db", "name-taken"],
        ["deny", "Deployment shop/db", "requirements"],
        ["deny", "Pod q", "bad-pod"],
    ];
    assert_eq!(said, expected);
    assert_eq!(of_json(&check(&folder, "json").json()), found);
    let sarif = check(&folder, "sarif");
    assert_eq!(of_sarif(&sarif.json()), found);
    assert!(
        sarif.stdout.contains("[a-z]{{1,9}}"),
        "a bare brace would be a placeholder: {}",
        sarif.stdout
    );
}

/// The schema of the standard; see tests/data/sarif/README.md.
fn schema() -> jsonschema::Validator {
    let text = include_str!("../data/sarif/sarif-schema-2.1.0.json");
    // The pattern of languages has a bracket too many, which this validator takes for no pattern.
    let text = text.replace("-[a-zA-Z]{2}]?$", "-[a-zA-Z]{2}?$");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("the schema of the standard is one")
}

#[track_caller]
fn assert_valid(log: &Value) {
    let errors: Vec<String> = schema()
        .iter_errors(log)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert_eq!(errors, [""; 0], "{log:#}");
}

#[test]
fn sarif_is_as_the_standard_wants_it() {
    let log = check(&folder(), "sarif").json();
    assert_valid(&log);
    let driver = &log["runs"][0]["tool"]["driver"];
    assert_eq!(
        (&driver["name"], &driver["semanticVersion"]),
        (&json!("outrigger"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let rules: Vec<&str> = driver["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["id"].as_str())
        .collect();
    assert_eq!(rules, ::outrigger::error::Denial::IDS);
    // A schema that takes everything would prove nothing.
    for (pointer, wrong) in [
        ("/version", json!("2.0.0")),
        ("/runs/0/results/0/level", json!("fatal")),
        (
            "/runs/0/results/0/locations/0/physicalLocation/region/startLine",
            json!(0),
        ),
        ("/runs/0/tool", json!({})),
    ] {
        let mut broken = log.clone();
        *broken.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = wrong;
        assert!(!schema().is_valid(&broken), "{pointer}");
    }
}

#[test]
fn sarif_without_findings_is_valid_too() {
    let log = crate::outrigger::piped(&["check", "-o", "sarif"], deployment("web", ""))
        .exits(0)
        .json();
    assert_valid(&log);
    assert_eq!(log["runs"][0]["results"], json!([]));
}
