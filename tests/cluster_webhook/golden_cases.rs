//! Every golden case's pod is accepted by a real API server and read back as expected.

use serde_json::Value;

use crate::golden::cases;
use crate::webhooks::Mesh;

#[test]
fn the_api_server_stores_what_the_command_line_printed() {
    let mesh = Mesh::shared();
    for case in cases() {
        for (index, pod) in case.pods().into_iter().enumerate() {
            let name = format!("golden-{}", case.name);
            let mut namespace = pod.namespace.clone();
            namespace["metadata"]["name"] = name.clone().into();
            mesh.apply(&namespace);
            mesh.cluster.namespace_ready(&name);
            // A ServiceAccount that a case names has to be there.
            if let Some(account) = pod.pod["spec"]["serviceAccountName"].as_str() {
                mesh.cluster
                    .kubectl(&["create", "serviceaccount", account, "-n", &name])
                    .expect_success();
            }
            let object = as_pod(&pod.pod, &format!("pod-{index}"));
            let Some(expected) = pod.expected else {
                let refusal = mesh.refusal(&name, &object.to_string());
                let report = std::fs::read_to_string(case.folder.join("report.txt")).unwrap();
                let id = report.lines().last().unwrap().split(": ").nth(1).unwrap().to_owned();
                assert!(refusal.contains(&id), "{}: {refusal}", case.name);
                continue;
            };
            let created = mesh.create(&name, &object.to_string());
            let mut expected = as_pod(&expected, &format!("pod-{index}"));
            rename_namespace(&mut expected, &name);
            assert_contains(&created, &expected, &case.name);
        }
    }
}

/// A template as a pod of its own.
fn as_pod(template: &Value, name: &str) -> Value {
    let mut pod = template.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["metadata"].as_object_mut().unwrap().remove("namespace");
    pod
}

/// The case says `shop`; here each has a namespace of its own. What the proxy calls by a name that
/// holds the namespace differs in nothing else.
fn rename_namespace(pod: &mut Value, namespace: &str) {
    let renamed = |text: &str| {
        text.replace(".shop.svc.", &format!(".{namespace}.svc."))
            .replace("\"shop.ns.", &format!("\"{namespace}.ns."))
    };
    let annotations = pod["metadata"]["annotations"].as_object_mut();
    for text in annotations.into_iter().flat_map(serde_json::Map::values_mut) {
        *text = renamed(text.as_str().unwrap()).into();
    }
    let status = &mut pod["metadata"]["annotations"]["outrigger.mesh/status"];
    // The digest is of the whole overlay, so the other name changes it.
    if status.is_string() {
        *status = Value::Null;
    }
    for container in pod["spec"]["initContainers"].as_array_mut().into_iter().flatten() {
        for argument in container["args"].as_array_mut().into_iter().flatten() {
            *argument = renamed(argument.as_str().unwrap()).into();
        }
    }
}

/// Whether everything expected is there: lists in their order, maps with whatever the API server added.
fn assert_contains(found: &Value, expected: &Value, at: &str) {
    match (found, expected) {
        (_, Value::Null) => {}
        (Value::Object(found), Value::Object(expected)) => {
            for (key, value) in expected {
                let at = format!("{at}.{key}");
                let found = found.get(key).unwrap_or(&Value::Null);
                // Empty maps and lists are dropped.
                let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                assert!(empty || !found.is_null() || value.is_null(), "{at} is missing");
                assert_contains(found, value, &at);
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            // The API server's own plugins add to lists of named parts, so the expected ones are sought in their order.
            let mut rest = found.iter();
            for (index, expected) in expected.iter().enumerate() {
                let same = |found: &&Value| expected.get("name").is_none_or(|name| found.get("name") == Some(name));
                let at = format!("{at}[{index}]");
                let found = rest
                    .find(same)
                    .unwrap_or_else(|| panic!("{at} is missing or in another order: {found:?}"));
                assert_contains(found, expected, &at);
            }
        }
        (_, Value::Object(expected)) if expected.is_empty() => {}
        (found, expected) => assert_eq!(found, expected, "{at}"),
    }
}
