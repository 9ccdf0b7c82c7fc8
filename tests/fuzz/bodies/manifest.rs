//! Manifests in, manifests out: what kubectl reads afterwards is what it read before, and the proxy.

use std::cell::RefCell;

use outrigger::error::Outcome;
use outrigger::manifest::{self, Line, Namespaces, ObjectPatch, Output, Source};
use outrigger::workload::objects;
use outrigger::yaml::{self, Document};
use serde_json::Value;

use crate::judge::Judge;
use crate::kubectl_yaml::{is_lenient, normal};
use crate::{strict_patch, tools};

thread_local! {
    static JUDGE: RefCell<Option<Judge>> = const { RefCell::new(None) };
}

/// Checks an input, kubectl's own reading included.
pub(crate) fn check_with_judge(input: &[u8]) {
    JUDGE.with_borrow_mut(|judge| {
        let judge = judge.get_or_insert_with(|| Judge::start(&tools::tool("TEST_YAML_JUDGE")));
        check(input, |text| Some(judge.read(text.as_bytes())));
    });
}

/// Checks an input. `kubectl` says how kubectl reads a text; `None` where nobody asks it.
pub(crate) fn check(input: &[u8], mut kubectl: impl FnMut(&str) -> Option<Result<Vec<Value>, String>>) {
    let Ok(text) = std::str::from_utf8(input) else {
        assert!(yaml::decode_utf8(input).is_err());
        return;
    };
    let Ok(before) = yaml::parse_stream(text) else { return };
    assert_eq!(before.iter().map(|document| document.text).collect::<String>(), text);
    let is_read = kubectl(text).is_some_and(|read| agrees(text, &before, read));
    let Some((once, expected)) = injected(text, &before) else {
        return;
    };
    let after = parsed(&once.text);
    assert_eq!(values(&after), expected, "{text}\n→\n{}", once.text);
    keeps_the_rest(&before, &after);
    if is_read {
        let read = kubectl(&once.text).expect("it is asked");
        assert!(
            agrees(&once.text, &after, read),
            "kubectl no longer reads it: {}",
            once.text
        );
    }
    check_again(text, &once);
}

/// Whether kubectl reads the text, and then the same. It may refuse what has one meaning only.
fn agrees(text: &str, ours: &[Document<'_>], read: Result<Vec<Value>, String>) -> bool {
    match read {
        Ok(read) => {
            let read: Vec<Value> = read.iter().filter(|value| !value.is_null()).map(normal).collect();
            let ours: Vec<Value> = values(ours).iter().map(normal).collect();
            assert_eq!(ours, read, "{text}");
            true
        }
        Err(error) => {
            assert!(
                is_lenient(text, &error),
                "kubectl refuses what we read: {error}\n{text}"
            );
            false
        }
    }
}

/// What `inject` makes of the text, and the values that its patches make of those that were there; `None`: it says
/// what is wrong with a Namespace or Service.
fn injected(text: &str, before: &[Document<'_>]) -> Option<(Output, Vec<Value>)> {
    let sources = source(text);
    let manifests = manifest::parse(&sources).expect("it was read before");
    let namespaces = match Namespaces::collect(&manifests) {
        Ok(namespaces) => namespaces,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let once = manifest::inject(&crate::INJECTOR, &manifests[0], &namespaces).expect("never a fault of ours");
    let (patches, lines) = manifest::patches(&crate::INJECTOR, &manifests[0], &namespaces).expect("nor here");
    assert_eq!(once.report, with_duplicates(&once, lines.clone()));
    let (mut patches, mut lines) = (patches.into_iter(), lines.iter());
    let mut expected = values(before);
    for value in &mut expected {
        for object in objects(&value.clone()) {
            let line = lines.next().expect("a line an object");
            assert_eq!(line.object, object);
            if line.outcome == Outcome::INJECTED.as_str() {
                let ObjectPatch { patch, .. } = patches.next().expect("a patch of what is injected");
                let place = object.of_mut(value).expect("it is there");
                *place = strict_patch::apply(place, &patch).unwrap_or_else(|e| panic!("{e}: {text}"));
            }
        }
    }
    assert!(
        patches.next().is_none() && lines.next().is_none(),
        "more than there are objects: {text}"
    );
    Some((once, expected))
}

/// The lines with the warnings of duplicate keys, which patches say nothing of.
fn with_duplicates(once: &Output, mut lines: Vec<Line>) -> Vec<Line> {
    for (line, reported) in lines.iter_mut().zip(&once.report) {
        let more = reported.warnings.get(line.warnings.len()..).unwrap_or_default();
        assert!(
            more.iter().all(|warning| warning.ends_with("the last one counts")),
            "{more:?}"
        );
        line.warnings.extend_from_slice(more);
    }
    lines
}

/// Documents whose value stays are kept as they are written, comments and all.
fn keeps_the_rest(before: &[Document<'_>], after: &[Document<'_>]) {
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(after) {
        if before.value == after.value {
            assert_eq!(before.text, after.text);
        } else {
            let comments = |text: &str| {
                text.lines()
                    .take_while(|line| line.starts_with('#'))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(comments(before.text), comments(after.text));
        }
    }
}

/// Once is enough, and what was added can be taken away.
fn check_again(text: &str, once: &Output) {
    let (twice, _) = injected(&once.text, &parsed(&once.text)).expect("it was read before");
    assert_eq!(twice.text, once.text, "{text}");
    let [with, without] = [&once.text, text].map(|text| {
        let sources = source(text);
        let manifests = manifest::parse(&sources).expect("it was read before");
        let removed = manifest::remove(&manifests[0]).expect("it has no errors");
        values(&parsed(&removed.text))
    });
    assert_eq!(with, without, "{text}");
}

fn parsed(text: &str) -> Vec<Document<'_>> {
    yaml::parse_stream(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn values(documents: &[Document<'_>]) -> Vec<Value> {
    documents.iter().filter_map(|document| document.value.clone()).collect()
}

fn source(text: &str) -> [Source; 1] {
    [Source {
        name: "input.yaml".to_owned(),
        text: text.to_owned(),
    }]
}
