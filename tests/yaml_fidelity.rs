//! YAML as kubectl reads it: our reading and writing against kubectl's own parser.
//!
//! `TEST_YAML_JUDGE` names the binary built from `tests/yaml-judge`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

#[path = "support/kubectl_yaml.rs"]
mod kubectl_yaml;
#[path = "support/tools.rs"]
mod tools;

use kubectl_yaml::{is_lenient, normal};
use outrigger::yaml::{parse_stream, to_yaml};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::Value;

type Answer = Result<Vec<Value>, String>;

/// Files that kubectl's parser and ours do not both read or both refuse, with the reason.
const DIFFERENCES: &str = "\
block-unindented.yaml: kubectl reads an empty string and drops the text: refused
byte-order-mark-late.yaml: kubectl makes the mark a part of the key: refused
carriage-return.yaml: a line break to some tools and none to others: refused
comment-glued-to-quote.yaml: YAML 1.2 has no comment there: refused
document-end-then-content.yaml: kubectl drops what follows `...`: refused
escape-slash.yaml: JSON's escaped slash has one meaning; kubectl knows it in JSON only
escape-surrogate-pair.yaml: JSON's pair has one meaning; kubectl knows it in JSON only
flow-colon-before-comma.yaml: `{a:,` has the key `a` in YAML 1.2, `a:` in kubectl: refused
flow-dash.yaml: YAML 1.2 has no plain `-` in brackets: refused
json-lone-surrogate.yaml: kubectl replaces the half character: refused
key-nan.yaml: two of them are two keys to kubectl, of which either remains: refused
line-separator.yaml: a line break in YAML 1.1 only: refused
next-line.yaml: a line break in YAML 1.1 only: refused
separator-glued-comment.yaml: a separator or text, depending on its place: refused
tab-after-space.yaml: a tab in a line without content changes nothing: read
tag-binary-not-text.yaml: kubectl replaces the bytes that are no text: refused
tag-timestamp.yaml: no use in Kubernetes, where times are strings: refused
tag-without-space.yaml: `!!str,` is one tag in kubectl, two tokens in YAML 1.2: refused";

#[test]
fn reads_the_corpus_as_kubectl_does() {
    let files = corpus();
    assert!(files.len() >= 40, "the corpus has {} files", files.len());
    let inputs: Vec<_> = files.iter().map(|(_, text)| text.clone()).collect();
    let mut report = String::new();
    for ((name, text), judged) in files.iter().zip(judge(&inputs)) {
        let ours = read(text);
        let agree = match (&ours, &judged) {
            (Ok(ours), Ok(judged)) => ours == judged,
            (Err(_), Err(_)) => true,
            _ => differences().any(|(file, _)| file == name),
        };
        if !agree {
            writeln!(report, "{name}: ours {ours:?}, judge {judged:?}").unwrap();
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn differs_only_where_listed() {
    let files = corpus();
    for (name, reason) in differences() {
        let (_, text) = files.iter().find(|(file, _)| file == name).unwrap();
        let judged = judge(std::slice::from_ref(text)).remove(0);
        assert_ne!(read(text).is_ok(), judged.is_ok(), "{name} no longer differs: {reason}");
    }
}

#[test]
fn kubectl_reads_what_we_write() {
    let values = generate(&value(), 4000);
    let written: Vec<_> = values.iter().map(to_yaml).collect();
    for ((value, text), judged) in values.iter().zip(&written).zip(judge(&written)) {
        let expected = vec![normal(value)];
        let expected = expected.into_iter().filter(|value| !value.is_null()).collect();
        assert_eq!(judged, Ok(expected), "{text}");
    }
}

#[test]
fn kubectl_reads_every_character_that_we_write() {
    let chars: Vec<char> = (0..=u32::from(char::MAX)).filter_map(char::from_u32).collect();
    let pair = |char: &char| (char.to_string(), char.to_string());
    let maps = chars.chunks(4096).map(|chunk| chunk.iter().map(pair).collect());
    let values: Vec<Value> = maps.collect();
    let written: Vec<_> = values.iter().map(to_yaml).collect();
    for (value, judged) in values.iter().zip(judge(&written)) {
        assert_eq!(judged, Ok(vec![value.clone()]));
    }
}

#[test]
fn reads_plain_scalars_as_kubectl_does() {
    let tokens = generate(
        &"[-+.0-9eE_xob:]{1,8}|[yYnNtTfFoO~.a-lA-L+-]{1,5}|0[xob]?[-+_0-9a-f]{0,18}|[-+]?[0-9]{17,22}|[12][0-9]{3}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9:.]{5,12}Z?)?|[-+]?[0-9]{0,4}\\.?[0-9]{0,4}([eE][-+]?[0-9]{1,3})?",
        12000,
    );
    let as_value = tokens.iter().map(|token| format!("k: {token}\n"));
    let as_key = tokens.iter().map(|token| format!("{token}: v\n"));
    // `[-, 1]` and `[a:, 1]` are refused: see the differences.
    let in_list = tokens
        .iter()
        .filter(|token| *token != "-" && !token.ends_with(':'))
        .map(|token| format!("[{token}, 1]\n"));
    let tags = ["!!int", "!!float", "!!str", "!!bool", "!!null", "!x", "!"];
    let tagged = std::iter::zip(&tokens, tags.iter().cycle())
        .map(|(token, tag)| format!("k: {tag} {token}\nq: {tag} \"{token}\"\n"));
    let inputs: Vec<_> = as_value.chain(as_key).chain(in_list).chain(tagged).collect();
    for (input, judged) in inputs.iter().zip(judge(&inputs)) {
        match (read(input), judged) {
            (Ok(ours), Ok(judged)) => assert_eq!(ours, judged, "{input}"),
            (Err(_), Err(_)) => {}
            (ours, judged) => panic!("{input}: ours {ours:?}, judge {judged:?}"),
        }
    }
}

#[test]
fn never_reads_a_different_meaning() {
    let inputs: Vec<_> = soup(30000).into_iter().chain(mutations(30000)).collect();
    let mut report = String::new();
    let mut agreed = 0;
    for (input, judged) in inputs.iter().zip(judge(&inputs)) {
        let ours = read(input);
        match (&ours, &judged) {
            (Ok(ours), Ok(judged)) if ours == judged => agreed += 1,
            (Err(_), _) => {}
            (Ok(_), Err(error)) if is_lenient(input, error) => {}
            _ => writeln!(report, "{input:?}: ours {ours:?}, judge {judged:?}").unwrap(),
        }
    }
    assert!(report.is_empty(), "{report}");
    assert!(agreed > 10000, "only {agreed} inputs were read by both");
}

const PIECES: [&str; 48] = [
    "a", "b", "a: ", "b: ", "\"a\": ", "'b':", "\n", "\n", "\n", "\n  ", "\n  ", "\n    ", "\n- ", "- ", "  ", " ",
    "\t", "[", "]", "{", "}", ", ", ",", ":", ": ", "? ", "# c", " # c", "#", "|", "|-", ">", ">+", "|2", "&x ", "*x",
    "*x ", "<<: ", "!!str ", "!", "'", "\"", "\\", "---\n", "...\n", "1", "~", "%",
];

/// Random sequences of what is special in YAML.
fn soup(count: usize) -> Vec<String> {
    let pieces = proptest::collection::vec(prop::sample::select(PIECES.to_vec()), 1..14);
    generate(&pieces.prop_map(|pieces| pieces.concat()), count)
}

/// Files of the corpus with a few random changes.
fn mutations(count: usize) -> Vec<String> {
    let texts: Vec<_> = corpus()
        .into_iter()
        .map(|(_, text)| text)
        .filter(|text| text.len() < 4000)
        .collect();
    let change = (
        any::<prop::sample::Index>(),
        0..4usize,
        prop::sample::select(PIECES.to_vec()),
    );
    let changed = (prop::sample::select(texts), proptest::collection::vec(change, 1..4)).prop_map(|(text, changes)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (index, removed, piece) in changes {
            let start = index.index(chars.len() + 1);
            let end = chars.len().min(start + removed);
            chars.splice(start..end, piece.chars());
        }
        chars.into_iter().collect()
    });
    generate(&changed, count)
}

fn differences() -> impl Iterator<Item = (&'static str, &'static str)> {
    let row = |line: &'static str| line.split_once(": ").expect("each line is `file: reason`");
    DIFFERENCES.lines().map(row)
}

/// Our reading of a stream, without documents that kubectl skips.
fn read(input: &str) -> Answer {
    let documents = parse_stream(input).map_err(|error| error.to_string())?;
    assert_eq!(
        documents.iter().map(|document| document.text).collect::<String>(),
        input
    );
    Ok(documents
        .into_iter()
        .filter_map(|document| document.value)
        .map(|value| normal(&value))
        .collect())
}

fn judge(inputs: &[String]) -> Vec<Answer> {
    let path = tools::tool("TEST_YAML_JUDGE");
    let mut child = Command::new(path)
        .arg("--framed")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("TEST_YAML_JUDGE cannot be run");
    let mut stdin = child.stdin.take().unwrap();
    let frames: Vec<u8> = inputs
        .iter()
        .flat_map(|input| format!("{}\n{input}", input.len()).into_bytes())
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(&frames).expect("the judge reads its input"));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers: Vec<_> = lines.map(|line| answer(&line.unwrap())).collect();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success(), "the judge failed");
    assert_eq!(
        answers.len(),
        inputs.len(),
        "the judge answers each input with one line"
    );
    answers
}

fn answer(line: &str) -> Answer {
    // A number that no JSON reader but Go's takes is not something that kubectl can send.
    let answer: Value = match serde_json::from_str(line) {
        Ok(answer) => answer,
        Err(error) if error.to_string().contains("out of range") => return Err(error.to_string()),
        Err(error) => panic!("not an answer of the judge: {error}: {line}"),
    };
    match (&answer["documents"], &answer["error"]) {
        (Value::Array(documents), _) => Ok(documents.iter().filter(|value| !value.is_null()).map(normal).collect()),
        (_, Value::String(error)) => Err(error.clone()),
        _ => panic!("not an answer of the judge: {line}"),
    }
}

fn generate<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

/// Any JSON value, with strings rich in what is special in YAML.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-+.0-9eE_xob:~ynYNTF]{0,6}",
        "[ \ta\n\r:#\\-?|>'\"{}\\[\\],&*!%@`=<~.]{0,9}",
        "([a-c ]{0,3}\n){0,3}[a-c\t ]{0,2}\n{0,3}",
        "yes|no|on|off|y|n|null|true|<<|=|---|\\.\\.\\.|0o7|08|1e3|2001-01-01|1:20|\\.inf",
        any::<String>(),
        "[a-z]{600,1200}",
    ]
}

fn corpus() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/yaml");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                std::fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}
