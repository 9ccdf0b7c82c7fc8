//! Files that cannot be read or are no YAML: exit code 2, nothing on standard output, and a
//! sentence with the file and, where there is one, the line.

use crate::outrigger::{Folder, deployment, piped, run};

/// The commands that read manifests.
const READERS: [&str; 4] = ["inject", "uninject", "check", "explain"];

#[test]
fn text_that_is_no_utf8_is_refused_with_its_line() {
    let folder = Folder::of(&[]);
    let utf16: Vec<u8> = "a: 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    folder.write("utf16.yaml", [&b"\xff\xfe"[..], &utf16].concat());
    folder.write("latin1.yaml", b"a: 1\nb: \xe9\n");
    for command in READERS {
        run(&[command, "-f", &folder.file("utf16.yaml")]).fails_with("the text is UTF-16 or UTF-32: save it as UTF-8");
        run(&[command, "-f", &folder.file("latin1.yaml")]).fails_with("latin1.yaml:line 2");
        piped(&[command], b"\xff").fails_with("standard input:line 1");
    }
}

#[test]
fn files_that_cannot_be_read_are_named_with_the_reason() {
    let folder = Folder::of(&[("a.yaml", "a: 1\n")]);
    std::os::unix::fs::symlink("loop.yaml", folder.path().join("loop.yaml")).expect("a link to itself");
    for command in READERS {
        run(&[command, "-f", &folder.file("missing.yaml")]).fails_with("missing.yaml: No such file");
        run(&[command, "-f", &folder.file("loop.yaml")]).fails_with("loop.yaml: Too many levels of symbolic links");
        run(&[command, "-f", &folder.file("a.yaml/b")]).fails_with("a.yaml/b: Not a directory");
    }
    run(&["inject", "--namespace-file", &folder.file("missing.yaml")]).fails_with("missing.yaml: No such file");
    run(&["check", "--requirements", &folder.file("missing.yaml")]).fails_with("missing.yaml: No such file");
    run(&["templates", "check", &folder.file("missing")]).fails_with("cannot read the templates in");
}

#[test]
fn nesting_of_100_000_levels_is_an_error_and_no_crash() {
    let n = 100_000;
    let inputs = [
        format!("a: {}{}\n", "[".repeat(n), "]".repeat(n)),
        format!("a: {}\n", "[".repeat(n)),
        format!("{{\"a\": {}{}}}", "[".repeat(n), "]".repeat(n)),
        format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n)),
        format!("{}a\n", "- ".repeat(n)),
        (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(),
    ];
    for command in READERS {
        for input in &inputs {
            let run = piped(&[command], input).exits(2);
            assert_eq!(run.stdout, "");
            assert!(
                run.stderr.starts_with("error: <stdin>:line ") && run.stderr.len() < 400,
                "{:.400}",
                run.stderr
            );
        }
    }
}

#[test]
fn text_that_is_no_yaml_is_refused_once_and_with_its_line() {
    for (input, line) in [
        ("a: [\n", "line 1"),
        ("a: 1\n b: 2\n", "line 2"),
        ("a:\n\t- b\n", "line 2"),
        ("a: *x\n", "line 1"),
    ] {
        for command in READERS {
            let run = piped(&[command], input).fails_with(&format!("<stdin>:{line}"));
            assert_eq!(run.stderr.matches("line ").count(), 1, "said once: {}", run.stderr);
        }
    }
}

#[test]
fn an_object_where_another_type_is_needed_is_denied() {
    for (input, path) in [
        ("spec: 7", "spec"),
        ("spec: [[{name: app}]]", "spec"),
        ("spec: {containers: app}", "spec.containers"),
        ("spec: {containers: [{name: [app]}]}", "spec.containers[0].name"),
        ("spec: {}", "spec.containers"),
        ("spec:", "spec.containers"),
    ] {
        let run = piped(&["inject"], format!("apiVersion: v1\nkind: Pod\n{input}\n")).exits(1);
        assert!(
            run.stderr
                .contains(&format!("bad-pod: the pod cannot be read: {path}: ")),
            "{input}: {}",
            run.stderr
        );
    }
}

#[test]
fn empty_input_is_no_object() {
    for command in READERS {
        for input in ["", "\n", "---\n", "# comment\n", "null\n"] {
            let run = piped(&[command], input).exits(0);
            assert_eq!(run.stderr, "", "{command} {input:?}");
        }
    }
}

#[test]
fn wrong_usage_exits_2_and_names_what_is_wrong() {
    for (args, part) in [
        (&["nonsense"][..], "unrecognized subcommand"),
        (&["inject", "--colour"], "--colour"),
        (&["inject", "-o", "xml"], "possible values: yaml, patch"),
        (&["check", "-o", "xml"], "possible values: text, json"),
        (&["review", "--endpoint", "both"], "mutate"),
        (&["completions", "tcsh"], "possible values"),
        (&["templates", "show"], "<NAME>"),
    ] {
        run(args).fails_with(part);
    }
    let none = run(&[]).exits(2);
    assert!(none.stderr.contains("Usage: outrigger"), "{}", none.stderr);
    piped(&["inject", "-f", "-"], deployment("a", "")).exits(0);
}
