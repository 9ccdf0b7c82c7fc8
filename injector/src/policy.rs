//! The label rules as a ValidatingAdmissionPolicy (KEP-3488), for who wants them enforced inside of the API server.

use std::fmt::Write as _;

use serde_json::{Value, json};

mod re2;

use crate::decision::Policy;
use crate::names;
use crate::requirements::{Action, Allowed, LabelRule, Requirements};
use crate::settings::values::{Toggle, shown};
use crate::yaml;

/// Requirements that no policy can say.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is nothing to say.
    #[error("the requirements have no label rule, so a policy would say nothing")]
    NoRules,
    /// Rules that CEL cannot say; all of them.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Rules(Vec<RuleError>),
}

/// A rule that CEL cannot say.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("label {key}: a policy cannot say {what}: {reason}")]
pub struct RuleError {
    key: String,
    what: String,
    reason: String,
}

/// The policy and a binding for each action, as YAML with comments. It judges what the webhook for labelled
/// namespaces judges, in the same words.
///
/// There is one validation for all rules, since of several that fail the API server tells the user only the first.
///
/// # Errors
/// There are no rules, or some that CEL cannot say.
pub fn admission_policy(requirements: &Requirements, policy: &Policy) -> Result<String, PolicyError> {
    if requirements.labels().is_empty() {
        return Err(PolicyError::NoRules);
    }
    let mut text = comment(requirements);
    text.push_str(&yaml::to_yaml(&policy_object(requirements, policy)?));
    for binding in bindings(requirements) {
        let _ = write!(text, "---\n{}", yaml::to_yaml(&binding));
    }
    Ok(text)
}

const NOT_COVERED: &str = "\
# The label rules of Outrigger's requirements, enforced by the API server itself. Printed by
# `outrigger requirements policy`; print it anew when the requirements change.
#
# What it does not cover, and the webhook /validate does:
# - proxy: require: whether a pod that should carry the proxy carries it.
# - Deployments and other workloads: only pods are judged.
# - pods that ask for the proxy by themselves where their namespace is not labelled.
# - values of injection labels and annotations that mean nothing.
";

fn comment(requirements: &Requirements) -> String {
    let defaults = requirements.labels().iter().filter(|rule| rule.default.is_some());
    let defaults: Vec<&str> = defaults.map(|rule| rule.key.as_str()).collect();
    let mut text = NOT_COVERED.to_owned();
    if !defaults.is_empty() {
        let _ = writeln!(
            text,
            "# - defaults of labels ({}): a policy only judges; the webhook /mutate adds them before.",
            defaults.join(", ")
        );
    }
    text
}

fn policy_object(requirements: &Requirements, policy: &Policy) -> Result<Value, PolicyError> {
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": names::POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": selected_namespaces(policy)},
                "resourceRules": [resource("pods", &["CREATE", "UPDATE"]), resource("pods/status", &["UPDATE"])],
            },
            // The kubelet updates the status of every pod all the time.
            "matchConditions": [{"name": "created-or-labels-changed", "expression": LABELS_CHANGED}],
            "variables": variables(requirements.labels())?,
            "validations": [{
                "expression": "variables.broken.size() == 0",
                // Said where all sentences together are too long for the API server (5 KiB).
                "message": "requirements: labels are missing or wrong",
                "messageExpression": "\"requirements: \" + variables.broken.join(\"; \")",
                "reason": "Forbidden",
            }],
        },
    }))
}

const API_VERSION: &str = "admissionregistration.k8s.io/v1";
const LABELS_CHANGED: &str =
    "request.operation == \"CREATE\" ||\nobject.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})";
const BEFORE: &str = "request.operation == \"UPDATE\" ? oldObject.metadata.?labels.orValue({}) : {}";

/// The usual spellings of "off": selectors compare letter by letter.
const OFF: [&str; 6] = ["disabled", "Disabled", "DISABLED", "false", "False", "FALSE"];

/// Which namespaces are of the mesh, as the webhook's selectors say it: those that do not plainly say "off" and, where
/// injection is not the default, say something.
fn selected_namespaces(policy: &Policy) -> Vec<Value> {
    let says_something = json!({"key": names::INJECT, "operator": "Exists"});
    let is_asked_for = policy.default == Toggle::Disabled;
    let mut expressions: Vec<Value> = is_asked_for.then_some(says_something).into_iter().collect();
    expressions.push(expression(names::INJECT, "NotIn", &OFF));
    expressions.push(not_excluded(policy));
    expressions
}

fn not_excluded(policy: &Policy) -> Value {
    let mut excluded = names::SYSTEM_NAMESPACES.to_vec();
    for name in &policy.excluded_namespaces {
        if !excluded.contains(&name.as_str()) {
            excluded.push(name);
        }
    }
    expression(names::METADATA_NAME, "NotIn", &excluded)
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

fn resource(name: &str, operations: &[&str]) -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": [name], "operations": operations, "scope": "Namespaced"})
}

/// The sentence of each broken rule, as the webhook says it.
fn variables(rules: &[LabelRule]) -> Result<Vec<Value>, PolicyError> {
    let mut variables = vec![
        variable("labels", "object.metadata.?labels.orValue({})"),
        variable("before", BEFORE),
    ];
    let mut errors = Vec::new();
    for (number, rule) in (1..).zip(rules) {
        match admitted(number, rule) {
            Ok(admitted) => variables.extend(variables_of(number, rule, &admitted)),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(PolicyError::Rules(errors));
    }
    let sentences: Vec<String> = (1..=rules.len())
        .map(|number| format!("variables.rule{number}"))
        .collect();
    let broken = format!("[{}].filter(sentence, sentence != \"\")", sentences.join(", "));
    variables.push(variable("broken", &broken));
    Ok(variables)
}

fn variable(name: &str, expression: &str) -> Value {
    json!({"name": name, "expression": expression})
}

/// A rule's value, empty where it is missing, and its sentence, empty where it is kept or its label did not change.
fn variables_of(number: usize, rule: &LabelRule, admitted: &str) -> [Value; 2] {
    let value = format!("variables.value{number}");
    let key = cel_string(&rule.key);
    let label = cel_string(&format!("label {} ", rule.key));
    let wish = cel_string(&format!("; it has to be {}{}", rule.allowed.sentence(), rule.hint));
    let sentence = format!(
        "(request.operation == \"UPDATE\" && variables.before[?{key}] == variables.labels[?{key}]) ||\n{admitted} ? \"\" :\n\
         {label} + ({value} == \"\" ? \"is missing\" : \"is \\\"\" + {value} + \"\\\"\") +\n{wish}"
    );
    [
        variable(
            &format!("value{number}"),
            &format!("variables.labels[?{key}].orValue(\"\")"),
        ),
        variable(&format!("rule{number}"), &sentence),
    ]
}

/// The condition that a value is allowed.
fn admitted(number: usize, rule: &LabelRule) -> Result<String, RuleError> {
    let refused = |what: String, reason: String| RuleError {
        key: rule.key.clone(),
        what,
        reason,
    };
    let value = format!("variables.value{number}");
    match &rule.allowed {
        Allowed::Any => Ok(format!("{value} != \"\"")),
        Allowed::Values(values) => {
            if let Some(bad) = values.iter().find(|value| value.chars().any(char::is_control)) {
                let reason = "a message of the API server has no control characters".to_owned();
                return Err(refused(format!("the value {}", shown(bad)), reason));
            }
            // An empty value is a missing one.
            let values = values.iter().filter(|value| !value.is_empty());
            let values: Vec<String> = values.map(|value| cel_string(value)).collect();
            Ok(format!("{value} in [{}]", values.join(", ")))
        }
        Allowed::Pattern { text, .. } => {
            let pattern =
                re2::translated(text).map_err(|reason| refused(format!("the pattern {}", shown(text)), reason))?;
            let whole = cel_string(&format!("^(?:{pattern})$"));
            Ok(format!("({value} != \"\" && {value}.matches({whole}))"))
        }
    }
}

/// A string of CEL: its escapes are those of JSON and more.
fn cel_string(text: &str) -> String {
    Value::from(text).to_string()
}

/// A binding for each action that is in force somewhere.
fn bindings(requirements: &Requirements) -> Vec<Value> {
    let general = requirements.general_action();
    let named = |wanted: &dyn Fn(Action) -> bool| -> Vec<&str> {
        let of_action = requirements.namespaces().filter(|(_, action)| wanted(*action));
        of_action.map(|(name, _)| name).collect()
    };
    let elsewhere = named(&|action| action != general);
    let mut bindings = Vec::new();
    for action in Action::ALL {
        let (operator, names) = if *action == general {
            ("NotIn", elsewhere.clone())
        } else {
            ("In", named(&|other| other == *action))
        };
        if *action == general || !names.is_empty() {
            bindings.push(binding(*action, operator, &names));
        }
    }
    bindings
}

fn binding(action: Action, operator: &str, names: &[&str]) -> Value {
    let word = match action {
        Action::Deny => "Deny",
        Action::Warn => "Warn",
        Action::Audit => "Audit",
    };
    let mut binding = json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": format!("{}.{}", action.as_str(), names::POLICY)},
        "spec": {"policyName": names::POLICY, "validationActions": [word]},
    });
    if !names.is_empty() {
        let selector = json!({"matchExpressions": [expression(names::METADATA_NAME, operator, names)]});
        binding["spec"]["matchResources"] = json!({"namespaceSelector": selector});
    }
    binding
}
