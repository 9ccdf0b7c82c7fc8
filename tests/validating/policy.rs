//! `outrigger requirements policy`: what is printed, and what is refused. That the API server judges by it as the
//! webhook does is the suite `cluster_validating`.

use serde_json::{Value, json};

use crate::program::{Folder, Run, command, finish};

fn policy(requirements: &str, variables: &[(&str, &str)]) -> Run {
    let folder = Folder::of(&[("requirements.yaml", requirements)]);
    let file = folder.file("requirements.yaml");
    let mut command = command(&["requirements", "policy", "--requirements", &file]);
    finish(command.envs(variables.iter().copied()))
}

fn objects(run: &Run) -> Vec<Value> {
    let documents = outrigger::yaml::parse_stream(&run.stdout).unwrap();
    documents.into_iter().filter_map(|document| document.value).collect()
}

fn selectors(object: &Value, at: &str) -> Value {
    object["spec"][at]["namespaceSelector"]["matchExpressions"].clone()
}

#[test]
fn selects_as_the_webhook_in_the_documentation_does() {
    let run = policy("labels: [{key: team}]", &[]).exits(0);
    let webhooks = outrigger::yaml::parse_stream(include_str!("../../docs/examples/webhooks.yaml")).unwrap();
    let webhooks: Vec<Value> = webhooks.into_iter().filter_map(|document| document.value).collect();
    let webhook = &webhooks
        .iter()
        .find(|object| object["kind"] == "ValidatingWebhookConfiguration")
        .unwrap()["webhooks"][0];
    let policy = &objects(&run)[0];
    let selected = &policy["spec"]["matchConstraints"];
    assert_eq!(selected["namespaceSelector"], webhook["namespaceSelector"]);
    assert_eq!(selected["resourceRules"], webhook["rules"]);
    let words = |object: &Value| {
        let text = object["matchConditions"][0]["expression"]
            .as_str()
            .unwrap()
            .replace('\'', "\"");
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words(&policy["spec"]), words(webhook));
    assert_eq!(policy["spec"]["failurePolicy"], webhook["failurePolicy"]);
}

#[test]
fn follows_the_configuration() {
    let run = policy(
        "labels: [{key: team}]",
        &[
            ("OUTRIGGER_EXCLUDED_NAMESPACES", "ingress,kube-system"),
            ("OUTRIGGER_RELEASE_NAMESPACE", "mesh"),
            ("OUTRIGGER_INJECT_DEFAULT", "enabled"),
        ],
    );
    let policy = &objects(&run.exits(0))[0];
    assert_eq!(
        selectors(policy, "matchConstraints"),
        json!([
            {"key": "outrigger.mesh/inject", "operator": "NotIn",
             "values": ["disabled", "Disabled", "DISABLED", "false", "False", "FALSE"]},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn",
             "values": ["kube-system", "kube-public", "kube-node-lease", "ingress", "mesh"]},
        ])
    );
}

#[test]
fn binds_each_action_to_its_namespaces() {
    let of = |text: &str| -> Vec<(String, Value)> {
        let run = policy(&format!("labels: [{{key: team}}]\n{text}"), &[]).exits(0);
        let bindings = objects(&run).into_iter().skip(1);
        bindings
            .map(|binding| {
                let action = binding["spec"]["validationActions"][0].as_str().unwrap().to_owned();
                assert_eq!(binding["spec"]["policyName"], "labels.outrigger.mesh");
                (action, selectors(&binding, "matchResources")[0].clone())
            })
            .collect()
    };
    let named = |operator: &str, names: &[&str]| json!({"key": "kubernetes.io/metadata.name", "operator": operator, "values": names});
    assert_eq!(of(""), [("Deny".to_owned(), Value::Null)]);
    assert_eq!(of("action: audit"), [("Audit".to_owned(), Value::Null)]);
    assert_eq!(
        of("action: warn\nnamespaces: {a: deny, b: audit, c: deny, d: warn}"),
        [
            ("Deny".to_owned(), named("In", &["a", "c"])),
            ("Warn".to_owned(), named("NotIn", &["a", "b", "c"])),
            ("Audit".to_owned(), named("In", &["b"])),
        ]
    );
}

#[test]
fn says_what_it_does_not_cover() {
    let covered = policy("labels: [{key: team}]", &[]).exits(0).stdout;
    assert!(
        covered.contains("# - proxy: require") && !covered.contains("default"),
        "{covered}"
    );
    let run = policy(
        "labels: [{key: tier, default: x}, {key: team}, {key: size, default: s}]",
        &[],
    )
    .exits(0);
    assert!(
        run.stdout.contains("# - defaults of labels (tier, size): "),
        "{}",
        run.stdout
    );
}

#[test]
fn refuses_what_cel_cannot_say_naming_every_label() {
    let requirements = r"
labels:
  - {key: version, pattern: 'v\d+'}
  - {key: team}
  - {key: stage, pattern: '\bdev\b'}
  - {key: odd, values: [fine, line\break]}
";
    let run = policy(&requirements.replace(r"line\break", r#""line\nbreak""#), &[]).fails_with(
        r#"label version: a policy cannot say the pattern "v\\d+": \d, \w, \s, \p and the like mean Unicode"#,
    );
    for part in [
        "label stage: a policy cannot say the pattern",
        r#"label odd: a policy cannot say the value "line\nbreak""#,
    ] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert!(!run.stderr.contains("label team"), "{}", run.stderr);
    policy("proxy: require", &[]).fails_with("no label rule");
    policy("labels: [{key: team, values: []}]", &[]).fails_with("values is empty");
}
