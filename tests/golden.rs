//! The golden cases through the core and the command line. `UPDATE_EXPECT=1` writes what is expected anew.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/golden.rs"]
mod golden;
#[allow(unreachable_pub)] // The server's own suite is laid out so.
#[path = "support/server.rs"]
mod server;

use assert_cmd::Command;
use expect_test::expect_file;
use golden::{Case, cases, patched, review_of};
use outrigger::inject::{Injector, InjectorOptions};
use outrigger::manifest;
use outrigger::review::{Endpoint, decode};
use outrigger::service::View;
use outrigger::services::Known;
use serde_json::Value;

#[test]
fn command_line_gives_output_and_report() {
    for case in cases() {
        let run = Command::new(env!("CARGO_BIN_EXE_outrigger"))
            .env_clear()
            .current_dir(&case.folder)
            .args(["inject", "-f", "input.yaml"])
            .output()
            .unwrap();
        let (stdout, stderr) = (
            String::from_utf8(run.stdout).unwrap(),
            String::from_utf8(run.stderr).unwrap(),
        );
        expect_file![case.folder.join("report.txt")].assert_eq(&stderr);
        match run.status.code() {
            Some(0) => expect_file![case.folder.join("output.yaml")].assert_eq(&stdout),
            Some(1) => {
                assert_eq!(stdout, "", "{}: nothing is printed where a pod is refused", case.name);
                assert!(case.output().is_none(), "{}: output.yaml of a refused pod", case.name);
            }
            code => panic!("{}: exit code {code:?}: {stderr}", case.name),
        }
    }
}

#[test]
fn core_gives_the_same_as_the_command_line() {
    let injector = Injector::new(InjectorOptions::default()).unwrap();
    for case in cases() {
        let inputs = [case.input.clone()];
        let manifests = manifest::parse(&inputs).unwrap();
        let output = manifest::inject(&injector, &manifests[0], &case.namespaces()).unwrap();
        let denied = output.report.iter().any(|line| line.denied);
        assert_eq!((!denied).then_some(output.text), case.output(), "{}", case.name);
    }
}

#[test]
fn webhook_gives_the_same_pod_as_the_command_line() {
    let injector = Injector::new(InjectorOptions::default()).unwrap();
    for case in cases() {
        for pod in case.pods() {
            let answer = answer(&injector, &case, &pod.namespace, &pod.pod);
            assert_eq!(
                answer["response"]["allowed"],
                pod.expected.is_some(),
                "{}: {answer}",
                case.name
            );
            let result = patched(&answer, &pod.pod).unwrap_or_else(|| pod.pod.clone());
            assert!(pod.expected.is_none_or(|expected| expected == result), "{}", case.name);
        }
    }
}

fn answer(injector: &Injector, case: &Case, namespace: &Value, pod: &Value) -> Value {
    let name = namespace["metadata"]["name"].as_str().unwrap();
    let body = review_of("u-1", name, pod).to_string();
    let review = decode(body.as_bytes()).unwrap();
    let known = case.namespaces();
    let answer = injector
        .answer(Endpoint::Mutate, &review, known.get(name), known.services())
        .unwrap();
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn https_server_gives_the_same_pod_as_the_command_line() {
    for case in cases() {
        for pod in case.pods() {
            let name = pod.namespace["metadata"]["name"].as_str().unwrap().to_owned();
            let info = case.namespaces().get(&name).cloned().unwrap();
            let injector = Injector::new(InjectorOptions::default()).unwrap();
            let services = match case.namespaces().services() {
                View::Known(services) => Known::all(services.clone()),
                View::NotListed | View::Off => Known::new(false),
            };
            let running = server::Setup::new().start_injector(injector, [(name.clone(), info)].into(), services);
            let response = running
                .connect()
                .post("/mutate", &review_of("u-1", &name, &pod.pod).to_string());
            assert_eq!(response.status, 200, "{}", case.name);
            let answer = response.json();
            assert_eq!(answer["response"]["uid"], "u-1");
            assert_eq!(answer["response"]["allowed"], pod.expected.is_some(), "{}", case.name);
            let result = patched(&answer, &pod.pod).unwrap_or_else(|| pod.pod.clone());
            assert!(pod.expected.is_none_or(|expected| expected == result), "{}", case.name);
        }
    }
}

#[test]
fn second_pass_changes_no_byte_and_uninject_restores() {
    let injector = Injector::new(InjectorOptions::default()).unwrap();
    for case in cases() {
        let Some(text) = case.output() else { continue };
        let outputs = [manifest::Source {
            name: "output.yaml".to_owned(),
            text,
        }];
        let manifests = manifest::parse(&outputs).unwrap();
        let again = manifest::inject(&injector, &manifests[0], &case.namespaces()).unwrap();
        assert_eq!(again.text, outputs[0].text, "{}", case.name);
        let restored = manifest::remove(&manifests[0]).unwrap();
        assert_eq!(
            golden::documents(&restored.text),
            golden::documents(&case.input.text),
            "{}",
            case.name
        );
    }
}
