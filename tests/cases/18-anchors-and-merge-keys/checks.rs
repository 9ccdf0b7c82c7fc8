//! What must hold, as `case.md` says.

use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::guarantees::{container, is_lossless, names_in};
use crate::program::{Run, documents};

const INPUT: &str = include_str!("input.yaml");
const BOMB: &str = include_str!("bomb.yaml");

fn deployment() -> Value {
    Run::inject(INPUT).documents().remove(0)
}

#[test]
fn merged_containers_come_out_whole() {
    let deployment = deployment();
    let pod = &deployment["spec"]["template"];
    assert_eq!(names_in(pod, "containers"), ["proxy-sidecar", "app", "mirror"]);
    let first = json!({
        "name": "app",
        "image": "registry.example.com/demo/app:2",
        "resources": {"requests": {"cpu": "20m", "memory": "24Mi"}},
        "env": [{"name": "NAME", "value": "basket"}],
    });
    let mut second = first.clone();
    second["name"] = json!("mirror");
    second["args"] = json!(["--mirror"]);
    assert_eq!(container(pod, "app"), &first);
    assert_eq!(container(pod, "mirror"), &second);
    is_lossless(&documents(INPUT)[0]["spec"]["template"], pod);
}

#[test]
fn no_merge_key_and_no_alias_is_left() {
    let run = Run::inject(INPUT);
    let text = run.stdout.split("\n---").next().unwrap();
    for left in ["<<", "&first", "*first", "*labels", "*name"] {
        assert!(!text.contains(left), "{left}: {text}");
    }
    assert!(!deployment().to_string().contains("\"<<\""));
}

#[test]
fn places_that_share_an_anchor_are_not_changed_together() {
    let deployment = deployment();
    let labels = json!({"app": "basket", "tier": "front"});
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(deployment["metadata"]["labels"], labels);
    assert_eq!(deployment["metadata"].get("annotations"), None);
    let whole = "apiVersion: v1\nkind: List\nitems:\n- &one {apiVersion: v1, kind: Pod, metadata: &meta {name: one, annotations: &a {x: z}}, \
                 spec: {containers: [{name: app, image: i}]}}\n- {apiVersion: v1, kind: ConfigMap, metadata: *meta}\n- *one\n";
    let list = Run::inject(whole).documents().remove(0);
    assert_eq!(
        list["items"][1]["metadata"],
        json!({"name": "one", "annotations": {"x": "z"}})
    );
    assert_eq!(list["items"][0], list["items"][2]);
    assert_eq!(names_in(&list["items"][2], "containers"), ["proxy-sidecar", "app"]);
}

#[test]
fn quoted_merge_key_is_an_ordinary_key() {
    let objects = Run::inject(INPUT).documents();
    assert_eq!(objects[1]["data"], json!({"<<": "an ordinary key"}));
    // Also where the document is written anew.
    let quoted = INPUT.replace(
        "      containers:\n",
        "      nodeSelector: {\"<<\": \"quoted\"}\n      containers:\n",
    );
    assert_ne!(quoted, INPUT);
    let run = Run::inject(&quoted);
    assert_eq!(
        run.documents()[0]["spec"]["template"]["spec"]["nodeSelector"],
        json!({"<<": "quoted"})
    );
}

#[test]
fn merge_keys_of_lists_and_in_any_place_are_resolved() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: one, labels: {<<: [&x {a: \"1\"}, &y {a: \"2\", b: \"2\"}], c: \"3\"}}\n\
                spec:\n  containers:\n  - &c {name: app, image: i}\n  - {<<: *c, name: two}\n";
    let pod = Run::inject(text).documents().remove(0);
    assert_eq!(pod["metadata"]["labels"], json!({"a": "1", "b": "2", "c": "3"}));
    assert_eq!(names_in(&pod, "containers"), ["proxy-sidecar", "app", "two"]);
    assert_eq!(container(&pod, "two")["image"], "i");
}

#[test]
fn merge_behind_a_key_wins_over_it_as_in_kubectl() {
    // kubectl's parser goes through a map in its order; YAML's own merge type would keep the key.
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: one}\ndata: {name: two, <<: *m}\n";
    assert_eq!(documents(text)[0]["data"], json!({"name": "one"}));
}

#[test]
fn bombs_are_refused_at_once_and_in_bounded_memory() {
    let long = format!(
        "a: &a {:?}\nb: [{}]\n",
        "x".repeat(1 << 20),
        vec!["*a"; 2000].join(", ")
    );
    let merges = format!(
        "l0: &l0 {{a0: 1, b0: 1, c0: 1, d0: 1}}\n{}",
        (1..12)
            .map(|i| format!(
                "l{i}: &l{i} [{}]\n",
                vec![format!("{{<<: *l0, x: *l{}}}", i - 1); 10].join(", ")
            ))
            .collect::<String>()
    );
    let across = format!("{BOMB}---\n{BOMB}");
    for (name, text) in [
        ("levels", BOMB),
        ("a long text", &long),
        ("merges", &merges),
        ("documents", &across),
    ] {
        refused(name, text);
    }
}

#[test]
fn self_reference_and_deep_nesting_are_refused_and_not_a_crash() {
    let flow = format!("a: {}{}\n", "[".repeat(50_000), "]".repeat(50_000));
    let block: String = (0..3_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let json = format!("{{\"a\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    for (name, text) in [
        ("itself", "a: &a [*a]\n"),
        ("itself merged", "a: &a {<<: *a}\n"),
        ("no anchor", "a: *nobody\n"),
        ("flow", &flow),
        ("block", &block),
        ("JSON", &json),
    ] {
        refused(name, text);
    }
}

/// The program says what is wrong, quickly, with no more address space than 512 MiB.
fn refused(name: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("input.yaml"), text).unwrap();
    let begin = Instant::now();
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().current_dir(folder.path()).args([
        "-c",
        "ulimit -v 524288; exec \"$0\" inject -f input.yaml",
        env!("CARGO_BIN_EXE_outrigger"),
    ]);
    let run = Run::from(&mut shell);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}: {}", run.stderr);
    assert!(
        run.stderr.contains("input.yaml:") && run.stderr.contains("line "),
        "{name}: {}",
        run.stderr
    );
    assert!(run.stderr.len() < 1_000, "{name}: the message does not echo the input");
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{name}: {:?}",
        begin.elapsed()
    );
}
