//! What must hold, as `case.md` says.

use serde_json::json;

use crate::guarantees::{has_one_proxy, is_lossless, is_valid_pod};
use crate::program::{Run, documents, outrigger};

const INPUT: &str = include_str!("input.yaml");
const BROKEN: &str = include_str!("broken.yaml");

#[test]
fn two_objects_in_and_two_out() {
    let run = Run::inject(INPUT);
    let after = run.documents();
    let kinds: Vec<_> = after
        .iter()
        .map(|d| (d["kind"].as_str(), d["metadata"]["name"].as_str()))
        .collect();
    assert_eq!(
        kinds,
        [(Some("ConfigMap"), Some("texts")), (Some("Deployment"), Some("basket"))]
    );
    let data = &after[0]["data"];
    assert_eq!(data["stream.yaml"], "---\none: 1\n---\ntwo: 2\n");
    assert_eq!(data["inline.txt"], "before --- after");
    assert_eq!(data["fold.txt"], "these lines are folded\ninto two");
    assert_eq!(data["tail.txt"], "the empty lines below count\n\n\n");
    let before = documents(INPUT);
    assert_eq!(after[0], before[0]);
    let templates = (&before[1]["spec"]["template"], &after[1]["spec"]["template"]);
    is_lossless(templates.0, templates.1);
    is_valid_pod(templates.1);
    has_one_proxy(templates.1, None);
    let mut rest = after[1].clone();
    rest["spec"]["template"] = templates.0.clone();
    assert_eq!(rest, before[1]);
}

#[test]
fn report_names_the_two_objects_and_nothing_else() {
    let run = Run::inject(INPUT);
    run.reports("ConfigMap texts", "no-pod")
        .reports("Deployment basket", "injected");
    assert_eq!(run.stderr.lines().count(), 2, "{}", run.stderr);
    for word in ["null", "{}", "(no kind)", "(no name)"] {
        assert!(!run.stderr.contains(word), "{word}: {}", run.stderr);
    }
    for line in run.stdout.lines() {
        assert!(!["null", "{}"].contains(&line), "{line}");
    }
}

#[test]
fn line_breaks_of_windows_make_no_difference() {
    let run = Run::inject(&INPUT.replace('\n', "\r\n"));
    assert_eq!(run.documents(), Run::inject(INPUT).documents());
}

#[test]
fn order_and_number_hold_for_several_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("a.yaml", "# nothing\n---\n"),
        ("b.yaml", INPUT),
        ("c.yaml", INPUT.trim_end()),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let run = Run::from(outrigger().current_dir(folder.path()).args(["inject", "-f", "."]));
    let names: Vec<_> = run.documents().iter().map(|d| d["metadata"]["name"].clone()).collect();
    assert_eq!(
        names,
        [json!("texts"), json!("basket"), json!("texts"), json!("basket")]
    );
}

#[test]
fn input_without_an_object_gives_none() {
    for text in [
        "",
        "\n",
        "# a comment\n",
        "---\n",
        "---\n---\n# b\n",
        "null\n",
        "~\n",
        "\u{feff}",
    ] {
        for command in ["inject", "uninject", "check", "explain"] {
            let run = Run::of(command, "input.yaml", text);
            assert_eq!(run.code, 0, "{command} {text:?}: {}", run.stderr);
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        }
        assert_eq!(Run::inject(text).documents(), documents(""), "{text:?}");
    }
}

#[test]
fn end_mark_without_a_document_is_refused_with_a_message() {
    let run = Run::of("inject", "input.yaml", "---\n...\n");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(
        run.stderr.contains("input.yaml:line 2") && run.stderr.contains("`...`"),
        "{}",
        run.stderr
    );
}

#[test]
fn broken_file_is_refused_with_its_line_and_prints_nothing() {
    let begin = BROKEN.lines().position(|line| line == "---").unwrap() + 1;
    for command in ["inject", "uninject", "check", "explain"] {
        let run = Run::of(command, "broken.yaml", BROKEN);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command}");
        let rest = run.stderr.split_once("broken.yaml:").expect("the file is named").1;
        let line = rest.split_once("line ").expect("the line is named").1;
        let line: usize = line
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(line > begin && line <= BROKEN.lines().count(), "{}", run.stderr);
        assert_eq!(run.stderr.matches("line ").count(), 1, "said once: {}", run.stderr);
    }
}

#[test]
fn nothing_is_printed_where_another_file_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), INPUT).unwrap();
    std::fs::write(folder.path().join("b.yaml"), BROKEN).unwrap();
    let run = Run::from(
        outrigger()
            .current_dir(folder.path())
            .args(["inject", "-f", "a.yaml", "-f", "b.yaml"]),
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("b.yaml"), "{}", run.stderr);
}
