//! The table of cases of the validating check, by every way that needs no cluster: the core, `check`, `review`, HTTPS.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[allow(dead_code)] // Other suites use the rest.
#[path = "support/outrigger.rs"]
mod program;
#[path = "support/server.rs"]
mod support;

#[path = "validating/policy.rs"]
mod policy;
#[path = "validating/property.rs"]
mod property;
#[path = "validating/table.rs"]
mod table;

use std::collections::BTreeSet;

use outrigger::inject::{Injector, InjectorOptions};
use outrigger::review::{Endpoint, decode};
use outrigger::service::View;
use outrigger::services::Known;
use serde_json::{Value, json};

use crate::program::{Folder, piped, run};
use crate::support::Setup;
use crate::table::{Case, Expect, Group, Operation, Table, Verdict, keys_in};

#[test]
fn the_table_is_large_and_its_names_are_unique() {
    let table = Table::read();
    let cases = || table.groups.iter().flat_map(|group| &group.cases);
    let names: BTreeSet<(&str, &str)> = cases().map(|case| (&*case.namespace, &*case.name)).collect();
    assert_eq!(names.len(), cases().count());
    assert!(names.len() >= 60);
    for group in &table.groups {
        for case in &group.cases {
            assert!(group.namespaces.contains_key(&case.namespace), "{}", case.name);
        }
    }
    for operation in [
        Operation::Create,
        Operation::Update,
        Operation::Status,
        Operation::Delete,
    ] {
        assert!(cases().any(|case| case.operation == operation), "{operation:?}");
    }
    for expect in [Expect::Allowed, Expect::Denied, Expect::Warned, Expect::Audited] {
        assert!(cases().any(|case| case.expected().expect == expect), "{expect:?}");
    }
}

#[test]
fn the_core_judges_every_case() {
    for group in Table::read().groups {
        let (injector, known) = (injector(&group), group.known());
        compare(&group, |case| {
            case.judged_by(|endpoint, review| {
                let body = review.to_string();
                let review = decode(body.as_bytes()).unwrap();
                let answer = injector
                    .answer(endpoint, &review, known.get(&case.namespace), View::Off)
                    .unwrap();
                serde_json::from_slice(&answer.body).unwrap()
            })
        });
    }
}

#[test]
fn the_server_judges_every_case() {
    for group in Table::read().groups {
        let server = Setup::new().start_injector(injector(&group), group.known(), Known::new(false));
        let mut connection = server.connect();
        compare(&group, |case| {
            case.judged_by(|endpoint, review| {
                let response = connection.post(&format!("/{endpoint}"), &review.to_string());
                assert_eq!(response.status, 200, "{}", case.name);
                response.json()
            })
        });
    }
}

#[test]
fn the_program_judges_every_review() {
    for group in Table::read().groups {
        let folder = folder(&group);
        let arguments = arguments(&group, &folder);
        let ask = |endpoint: Endpoint, review: &Value| {
            let command = ["review", "--endpoint", endpoint.as_str()];
            let arguments: Vec<&str> = command
                .into_iter()
                .chain(arguments.iter().map(String::as_str))
                .collect();
            piped(&arguments, review.to_string()).exits(0).json()
        };
        compare(&group, |case| case.judged_by(ask));
    }
}

#[test]
fn check_judges_every_manifest() {
    for group in Table::read().groups {
        let folder = folder(&group);
        let manifests = folder.file("manifests");
        let arguments = arguments(&group, &folder);
        let command = ["check", "-o", "json", "-f", &manifests];
        let arguments: Vec<&str> = command
            .into_iter()
            .chain(arguments.iter().map(String::as_str))
            .collect();
        let run = run(&arguments);
        let created = || group.cases.iter().filter(|case| case.operation == Operation::Create);
        let denied = created().any(|case| case.expected().expect == Expect::Denied);
        assert_eq!(run.code, i32::from(denied), "{}", run.stderr);
        let findings = run.json();
        // A manifest says neither update nor deletion.
        compare_where(
            &group,
            |case| case.operation == Operation::Create,
            |case| {
                let file = format!("{}.json", case.pod_name());
                let of_case = |finding: &&Value| finding["file"].as_str().unwrap().ends_with(&format!("/{file}"));
                let findings: Vec<&Value> = findings.as_array().unwrap().iter().filter(of_case).collect();
                of_findings(&findings)
            },
        );
    }
}

fn of_findings(findings: &[&Value]) -> Verdict {
    let actions: Vec<&str> = findings
        .iter()
        .map(|finding| finding["action"].as_str().unwrap())
        .collect();
    let expect = match actions.first() {
        None => Expect::Allowed,
        Some(&"deny") => Expect::Denied,
        Some(&"warn") => Expect::Warned,
        Some(&"audit") => Expect::Audited,
        Some(other) => panic!("no action: {other}"),
    };
    assert!(actions.iter().all(|action| *action == actions[0]), "{findings:?}");
    let messages: Vec<&str> = findings
        .iter()
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    let keys = keys_in(&messages.join("; "));
    Verdict { expect, keys }
}

/// Every case has to have its verdict; all that do not are told.
fn compare(group: &Group, judge: impl FnMut(&Case) -> Verdict) {
    compare_where(group, |_| true, judge);
}

fn compare_where(group: &Group, belongs: impl Fn(&Case) -> bool, mut judge: impl FnMut(&Case) -> Verdict) {
    let judged = group
        .cases
        .iter()
        .filter(|case| belongs(case))
        .map(|case| (case, judge(case)));
    let wrong = judged.filter(|(case, verdict)| *verdict != case.expected());
    let wrong: Vec<String> = wrong
        .map(|(case, verdict)| format!("{}: {verdict:?} in place of {:?}", case.name, case.expected()))
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", group.name, wrong.join("\n"));
}

fn injector(group: &Group) -> Injector {
    Injector::new(InjectorOptions {
        requirements: group.requirements.clone(),
        ..InjectorOptions::default()
    })
    .unwrap()
}

/// The manifests, the namespaces and the requirements of a group as files.
fn folder(group: &Group) -> Folder {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": group.namespace_objects()});
    let folder = Folder::of(&[("namespaces.json", &list.to_string())]);
    for case in group.cases.iter().filter(|case| case.operation == Operation::Create) {
        folder.write(&format!("manifests/{}.json", case.pod_name()), case.pod().to_string());
    }
    if let Some(requirements) = &group.requirements {
        folder.write("requirements.yaml", requirements);
    }
    folder
}

fn arguments(group: &Group, folder: &Folder) -> Vec<String> {
    let files = [
        ("--namespace-file", "namespaces.json", true),
        ("--requirements", "requirements.yaml", group.requirements.is_some()),
    ];
    let files = files.into_iter().filter(|(_, _, given)| *given);
    files
        .flat_map(|(flag, name, _)| [flag.to_owned(), folder.file(name)])
        .collect()
}
