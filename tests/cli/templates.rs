//! `templates list`, `show` and `check`.

use std::fs;

use crate::outrigger::{Folder, command, deployment, finish, run};

/// A container that is complete, to be followed by more of its fields.
const CONTAINER: &str = "containers:\n  - name: proxy-sidecar\n    image: {{json proxy.image}}\n    resources: {requests: {cpu: 1m, memory: 1Mi}, \
                         limits: {cpu: 1, memory: 1Gi}}\n";

#[test]
fn lists_the_templates_with_their_kind_and_origin() {
    let lines = |output: String| {
        output
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let built_in = run(&["templates", "list"]).exits(0).stdout;
    assert_eq!(lines(built_in), ["mtls mTLS built in", "proxy-sidecar plain built in"]);
    let folder = Folder::of(&[("own.yaml.hbs", CONTAINER), ("mtls.yaml.hbs", CONTAINER)]);
    let own = finish(command(&["templates", "list"]).env("OUTRIGGER_TEMPLATES_DIR", folder.path()))
        .exits(0)
        .stdout;
    assert_eq!(
        lines(own),
        ["mtls plain added", "own plain added", "proxy-sidecar plain built in"]
    );
}

#[test]
fn shows_a_template_as_it_is() {
    for (name, file) in [
        ("mtls", "mtls.yaml.hbs"),
        ("proxy-sidecar", "proxy-sidecar.yaml.hbs"),
        ("nginx.conf", "nginx.conf.hbs"),
    ] {
        let text = fs::read_to_string(format!("{}/../proxy-templates/{file}", env!("CARGO_MANIFEST_DIR")))
            .expect("it is there");
        assert_eq!(run(&["templates", "show", name]).exits(0).stdout, text);
    }
    run(&["templates", "show", "none"]).fails_with("no template \"none\"; there are: mtls, proxy-sidecar, nginx.conf");
}

#[test]
fn a_shown_template_can_be_checked_and_used() {
    let folder = Folder::of(&[("own.yaml.hbs", &run(&["templates", "show", "mtls"]).exits(0).stdout)]);
    let run = run(&["templates", "check", &folder.file("")]).exits(0);
    assert!(
        run.stdout.ends_with(": 1 templates, all of them can be used\n"),
        "{}",
        run.stdout
    );
    let used = finish(
        command(&["inject"])
            .env("OUTRIGGER_TEMPLATES_DIR", folder.path())
            .write_stdin(deployment("web", "outrigger.mesh/template: own")),
    );
    assert!(used.exits(0).stdout.contains("outrigger-identity"));
}

#[test]
fn refuses_templates_that_cannot_be_used_with_file_and_reason() {
    for (text, parts) in [
        ("{{#if proxy}}", &["1:14"][..]),
        ("{{json proxy.nothing}}", &["\"proxy.nothing\""]),
        ("{{nginx proxy.nothing}}", &["\"proxy.nothing\""]),
        ("{{proxy.image}}", &["line 1", "{{json x}} or {{nginx x}}"]),
        ("\n{{{proxy.image}}}", &["line 2", "without an encoder"]),
        ("{{> proxy-sidecar.yaml.hbs}}", &["no partials"]),
        ("{{#> layout}}{{/layout}}", &["no partials"]),
        ("{{#*inline \"x\"}}{{/inline}}", &["no partials and no decorators"]),
        ("{{json (json proxy.image)}}", &["line 1", "no subexpressions"]),
        ("{{json proxy.image proxy.uid}}", &["takes the name of one value"]),
        ("{{json \"text\"}}", &["takes the name of one value"]),
        ("{{json proxy.image a=1}}", &["takes the name of one value"]),
        ("{{#with proxy}}{{/with}}", &["only if, unless and each"]),
        ("{{lookup proxy \"image\"}}", &["{{json x}}"]),
        ("{{log proxy.image}}", &["{{json x}}"]),
        ("a: [", &["not YAML"]),
        ("a: 1\na: 2\n", &["not YAML"]),
        ("sidecars: []\n", &["sidecars"]),
        ("", &["exactly one document"]),
    ] {
        refused("own.yaml.hbs", text, parts);
    }
}

#[test]
fn names_the_path_of_a_field_that_is_unknown_wrong_or_not_allowed() {
    for (fields, parts) in [
        ("    imagePolicy: x\n", &["unknown field", "imagePolicy"][..]),
        (
            "    ports: [{containerPort: eighty}]\n",
            &["containers[0].ports[0].containerPort"],
        ),
        (
            "    ports: [{containerPort: 80, name: http}]\n",
            &["containers[0].ports[0].name"],
        ),
        (
            "    volumeMounts: [{name: gone, mountPath: /x}]\n",
            &["containers[0].volumeMounts", "gone"],
        ),
    ] {
        refused("own.yaml.hbs", &format!("{CONTAINER}{fields}"), parts);
    }
    refused(
        "own.yaml.hbs",
        "containers: [{name: proxy-sidecar}]\n",
        &["containers[0].resources.requests.cpu", "a quota"],
    );
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = format!("{}{}", "{{#if proxy}}".repeat(3000), "{{/if}}".repeat(3000));
    refused("own.yaml.hbs", &deep, &["3000 blocks; at most 200"]);
    refused("own.yaml.hbs", &"x".repeat(300_000), &["more than 262144 bytes"]);
    let loops = format!(
        "{}{}{}",
        "{{#each @root.inbound}}".repeat(15),
        "x".repeat(1000),
        "{{/each}}".repeat(15)
    );
    refused("own.yaml.hbs", &loops, &["more than 1048576 bytes of output"]);
    refused("nginx.conf.hbs", &loops, &["more than 1048576 bytes of output"]);
}

#[test]
fn file_names_are_those_of_templates() {
    for name in ["Own.yaml.hbs", "own.hbs", "a.b.yaml.hbs", "-.yaml.hbs"] {
        refused(name, CONTAINER, &["a template is called NAME.yaml.hbs"]);
    }
    let folder = Folder::of(&[
        ("own.yaml.hbs", CONTAINER),
        ("README.md", "{{"),
        (".hidden.yaml.hbs", "{{"),
    ]);
    run(&["templates", "check", &folder.file("")]).exits(0);
}

/// The kubelet mounts a ConfigMap as links into a hidden folder, which a swap of one link replaces.
#[test]
fn a_mounted_config_map_is_read_once() {
    let folder = Folder::of(&[("..2026_01_01/own.yaml.hbs", CONTAINER)]);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).expect("a link");
    link("..2026_01_01", "..data");
    link("..data/own.yaml.hbs", "own.yaml.hbs");
    let run = run(&["templates", "check", &folder.file("")]).exits(0);
    assert!(
        run.stdout.ends_with(": 1 templates, all of them can be used\n"),
        "{}",
        run.stdout
    );
}

#[track_caller]
fn refused(file: &str, text: &str, parts: &[&str]) {
    let folder = Folder::of(&[(file, text)]);
    let run = run(&["templates", "check", &folder.file("")]).fails_with(file);
    for part in parts {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert!(run.stderr.len() < 1200, "{}", run.stderr);
}
