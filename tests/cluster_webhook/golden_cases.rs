//! Every golden case's pod is accepted by a real API server and read back as expected.

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::manifest::{self, Namespaces, Source};
use outrigger::service::View;
use serde_json::Value;

use crate::golden::{cases, documents};
use crate::webhooks::Mesh;

#[test]
fn the_api_server_stores_what_the_command_line_printed() {
    let mesh = Mesh::shared();
    // Services get their addresses here: what is found among them is the next test's part.
    for case in cases()
        .into_iter()
        .filter(|case| matches!(case.namespaces().services(), View::Off))
    {
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

/// The Services of a case, which the API server gives addresses of its own. The command line finds in what kubectl
/// prints of them what the webhook finds by its watch, the moment after they were made and when they have changed.
#[test]
fn the_webhook_finds_the_services_that_kubectl_prints() {
    let mesh = Mesh::shared();
    let name = "golden-services";
    let case = cases().into_iter().find(|case| case.name == "auto-permissive").unwrap();
    let [pod] = &case.pods()[..] else { panic!("one pod") };
    let mut namespace = pod.namespace.clone();
    namespace["metadata"]["name"] = name.into();
    mesh.apply(&namespace);
    mesh.cluster.namespace_ready(name);
    let services = documents(&case.input.text)
        .into_iter()
        .filter(|object| object["kind"] == "Service");
    for mut service in services {
        service["metadata"]["namespace"] = name.into();
        let spec = service["spec"].as_object_mut().unwrap();
        spec.retain(|key, value| !key.starts_with("clusterIP") || value == "None");
        mesh.apply(&service);
    }
    let as_printed = |index: usize| {
        let mut object = as_pod(&pod.pod, &format!("pod-{index}"));
        object["metadata"]["namespace"] = name.into();
        let printed = mesh
            .cluster
            .kubectl(&["get", "services", "-n", name, "-o", "yaml"])
            .expect_success();
        let text = format!("{namespace}\n---\n{object}\n---\n{printed}");
        let sources = [Source {
            name: "printed".to_owned(),
            text,
        }];
        let manifests = manifest::parse(&sources).unwrap();
        let known = Namespaces::collect(&manifests).unwrap();
        let injector = Injector::new(InjectorOptions::default()).unwrap();
        let output = manifest::inject(&injector, &manifests[0], &known).unwrap();
        (object, documents(&output.text).remove(1))
    };
    for (index, args) in [(0, 5), (1, 4)] {
        let (mut object, mut expected) = as_printed(index);
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let arguments = |pod: &Value| pod["spec"]["initContainers"][0]["args"].as_array().unwrap().clone();
        let found = arguments(&expected)
            .into_iter()
            .filter(|arg| arg.as_str().unwrap().starts_with("--found=10.96."));
        assert_eq!(found.count(), args, "{expected}");
        // The watch tells of a change a moment after it was made.
        let created = (0..20).find_map(|attempt| {
            let name_of_it = format!("pod-{index}-{attempt}");
            object["metadata"]["name"] = name_of_it.clone().into();
            expected["metadata"]["name"] = name_of_it.into();
            let created = mesh.create(name, &object.to_string());
            (arguments(&created) == arguments(&expected)).then_some(created)
        });
        // What was absent before is another for what kubectl sends than for what is in a file.
        expected["metadata"]["annotations"]["outrigger.mesh/status"] = Value::Null;
        assert_contains(&created.expect("the webhook sees the change"), &expected, "services");
        mesh.cluster
            .kubectl(&["delete", "service", "new", "-n", name, "--ignore-not-found"])
            .expect_success();
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
