//! A requirements file → rules, and what they say of labels.
//!
//! An input is the file, and behind it, separated, values that a pod may give its labels.

use std::sync::LazyLock;

use jsonschema::Validator;
use outrigger::decision::Policy;
use outrigger::pod::PodView;
use outrigger::policy::admission_policy;
use outrigger::requirements::{Allowed, LabelRule, Requirements, RequirementsError, schema};
use outrigger::settings::values::Toggle;
use outrigger::yaml;
use serde_json::{Value, json};

static SCHEMA: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&schema()).expect("the schema is one"));

/// What the parser refuses and JSON Schema cannot say, by what the message has.
const UNSAID: [&str; 3] = [
    "pattern: ",
    "there is a rule for this label already",
    // The value is one that a label can have, but not this one.
    " is not ",
];

/// Checks an input.
pub(crate) fn check(input: &[u8]) {
    let parts = crate::parts(input);
    let (file, values) = parts.split_first().expect("there is a part at least");
    let document = yaml::parse_one(file);
    match (Requirements::parse(file), &document) {
        (Ok(requirements), Ok(document)) => {
            check_schema(document);
            check_again(&requirements, document);
            values.iter().for_each(|value| check_value(&requirements, value));
            check_policy(&requirements);
        }
        (Err(error), document) => check_error(&error, document.as_ref().ok()),
        (Ok(_), Err(error)) => panic!("read, and no YAML: {error}"),
    }
}

/// The schema takes what the parser takes. A word is a word in any case and, where YAML reads it so, as a boolean.
fn check_schema(document: &Value) {
    let mut document = document.clone();
    let word = |value: &mut Value| match value {
        Value::Bool(false) => *value = json!("off"),
        Value::String(text) => *text = text.trim().to_ascii_lowercase(),
        _ => {}
    };
    ["action", "workloads", "proxy"]
        .into_iter()
        .filter_map(|key| document.get_mut(key).map(word))
        .for_each(drop);
    let namespaces = document.get_mut("namespaces").and_then(Value::as_object_mut);
    namespaces.into_iter().flatten().for_each(|(_, value)| word(value));
    let errors: Vec<String> = SCHEMA.iter_errors(&document).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {document}");
}

/// An error says where, and the schema refuses the file too if it can say why.
fn check_error(error: &RequirementsError, document: Option<&Value>) {
    let message = error.to_string();
    match error {
        RequirementsError::Yaml(_) => assert!(message.contains("line "), "{message}"),
        RequirementsError::Type { path, message } => assert!(!path.is_empty() && !message.is_empty(), "{error:?}"),
        RequirementsError::Rule { key, reason, .. } => {
            assert!(
                message.contains("labels[") && message.contains(key) && !reason.is_empty(),
                "{error:?}"
            );
        }
    }
    let unsaid = UNSAID.iter().any(|words| message.contains(words)) || has_long_prefix(error);
    if let Some(document) = document.filter(|_| !unsaid) {
        assert!(
            !SCHEMA.is_valid(document),
            "the schema takes {document}, the parser says {message}"
        );
    }
}

/// What stands before the slash of a key is bounded by itself, which takes a pattern that not all readers of schemas know.
fn has_long_prefix(error: &RequirementsError) -> bool {
    let key = match error {
        RequirementsError::Rule { key, .. } => key,
        RequirementsError::Yaml(_) | RequirementsError::Type { .. } => return false,
    };
    key.rsplit_once('/').is_some_and(|(prefix, _)| prefix.len() > 253)
}

/// Written anew, the file says the same.
fn check_again(requirements: &Requirements, document: &Value) {
    let mut again = Requirements::parse(&yaml::to_yaml(document)).expect("it was valid");
    again.source.clone_from(&requirements.source);
    assert_eq!(format!("{again:?}"), format!("{requirements:?}"));
}

/// Each rule says of a value what it is there to say.
fn check_value(requirements: &Requirements, value: &str) {
    for rule in requirements.labels() {
        let pod = json!({"metadata": {"labels": {rule.key.as_str(): value}}}).to_string();
        let pod = PodView::from_json(&pod).expect("a pod");
        let violations = requirements.violations(pod.labels());
        let broken = violations.iter().any(|violation| violation.key == rule.key);
        assert_eq!(broken, !admits(rule, value), "{rule:?}, {value:?}");
        assert!(
            violations
                .iter()
                .all(|violation| violation.message.contains(&violation.key))
        );
    }
    let defaults: Vec<_> = requirements
        .labels()
        .iter()
        .filter_map(|rule| Some((rule, rule.default.as_deref()?)))
        .collect();
    assert!(
        defaults.iter().all(|(rule, default)| admits(rule, default)),
        "{defaults:?}"
    );
}

fn admits(rule: &LabelRule, value: &str) -> bool {
    !value.is_empty()
        && match &rule.allowed {
            Allowed::Any => true,
            Allowed::Values(values) => values.iter().any(|known| known == value),
            // The longest match from the start may end before the end where another would not.
            Allowed::Pattern { whole, .. } => whole.find(value).is_some_and(|found| found.as_str() == value),
        }
}

/// As a policy the rules are YAML of the same labels, or what cannot be said is named.
fn check_policy(requirements: &Requirements) {
    let policy = Policy {
        excluded_namespaces: Vec::new(),
        default: Toggle::Disabled,
    };
    match admission_policy(requirements, &policy) {
        Ok(text) => {
            let documents = yaml::parse_stream(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert!(documents.len() > 1, "{text}");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{error:?}"),
    }
}
