//! The configuration from the environment: everything wrong is said at once.

use ::outrigger::names::variable_of;
use ::outrigger::settings::SETTINGS;

use crate::outrigger::{Folder, Run, command, deployment, finish, run};

fn with(variables: &[(&str, &str)], args: &[&str]) -> Run {
    finish(
        command(args)
            .envs(variables.iter().copied())
            .write_stdin(deployment("web", "")),
    )
}

#[test]
fn an_unknown_variable_is_refused_with_a_suggestion() {
    for command in [
        &["inject"][..],
        &["check"],
        &["explain"],
        &["review"],
        &["templates", "list"],
        &["templates", "show", "mtls"],
    ] {
        with(&[("OUTRIGGER_INJECT_DEFUALT", "enabled")], command).fails_with(
            "OUTRIGGER_INJECT_DEFUALT is not a variable of Outrigger; did you mean OUTRIGGER_INJECT_DEFAULT?",
        );
    }
    with(&[("OUTRIGGER_PROXY_IMAGES", "x")], &["inject"]).fails_with("did you mean OUTRIGGER_PROXY_IMAGE?");
}

#[test]
fn variables_of_a_service_link_are_told_from_misspelt_ones() {
    let links = [
        ("OUTRIGGER_SERVICE_HOST", "10.0.0.1"),
        ("OUTRIGGER_PORT", "tcp://10.0.0.1:443"),
        ("OUTRIGGER_PORT_443_TCP_ADDR", "10.0.0.1"),
    ];
    let run = with(&links, &["inject"]).fails_with("enableServiceLinks: false");
    for (name, _) in links {
        assert!(run.stderr.contains(name), "{}", run.stderr);
    }
    assert_eq!(run.report().len(), 1, "{}", run.stderr);
}

#[test]
fn all_errors_are_listed_at_once() {
    let bad = [
        ("OUTRIGGER_LISTEN", "here"),
        ("OUTRIGGER_LOG_FORMAT", "xml"),
        ("OUTRIGGER_INJECT_DEFAULT", "perhaps"),
        ("OUTRIGGER_EXCLUDED_NAMESPACES", "A B"),
        ("OUTRIGGER_CERT_FILE", "/tls.crt"),
        ("OUTRIGGER_POSITION", "middle"),
        ("OUTRIGGER_PROXY_CPU_LIMIT", "much"),
        ("OUTRIGGER_NOTHING_LIKE_IT", "1"),
    ];
    let run = with(&bad, &["inject"]).fails_with("OUTRIGGER_LISTEN");
    assert_eq!(run.report().len(), bad.len(), "{}", run.stderr);
    for (name, _) in bad {
        assert!(run.stderr.contains(name), "{name}: {}", run.stderr);
    }
}

#[test]
fn every_setting_is_read_from_its_variable() {
    for row in SETTINGS {
        let variable = variable_of(row.key);
        with(&[(&variable, "\u{1}")], &["inject"]).fails_with(&format!("{variable}: \"\\u{{1}}\": "));
    }
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    with(&[("OUTRIGGER_POSITION", ""), ("OUTRIGGER_LISTEN", " ")], &["inject"]).exits(0);
}

#[test]
fn commands_that_need_no_configuration_look_at_none() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["docs"],
        &["completions", "bash"],
        &["inject", "--help"],
    ] {
        finish(command(args).env("OUTRIGGER_NONSENSE", "x")).exits(0);
    }
}

#[test]
fn the_configuration_decides_for_offline_commands_too() {
    let folder = Folder::of(&[
        ("requirements.yaml", "labels: [{key: team}]\n"),
        ("broken.yaml", "labels: [{key: ''}]\n"),
    ]);
    with(&[("OUTRIGGER_EXCLUDED_NAMESPACES", "shop")], &["explain"])
        .exits(0)
        .says("system-namespace (row 2");
    with(&[("OUTRIGGER_POSITION", "last")], &["explain"])
        .exits(0)
        .says("outrigger.mesh/position = \"last\" (configuration)");
    with(
        &[("OUTRIGGER_REQUIREMENTS_FILE", &folder.file("requirements.yaml"))],
        &["check"],
    )
    .exits(1)
    .says("label team is missing");
    with(
        &[("OUTRIGGER_REQUIREMENTS_FILE", &folder.file("broken.yaml"))],
        &["check"],
    )
    .fails_with("broken.yaml: requirements: labels[0]");
    with(&[("OUTRIGGER_TEMPLATES_DIR", &folder.file("missing"))], &["inject"]).fails_with("cannot read the templates");
    run(&["serve", "--nonsense"]).fails_with("--nonsense");
}

impl Run {
    #[track_caller]
    fn says(self, part: &str) {
        assert!(self.stdout.contains(part), "{part}: {}", self.stdout);
    }
}
