//! The report as one page that asks for nothing: style and script stand in it, and its policy lets in
//! these two by their hash and nothing else.

use base64::prelude::{BASE64_STANDARD, Engine};
use handlebars::{Handlebars, html_escape};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::text::visible;
use super::{Audit, Counts, NamespaceRow, State, WorkloadRow};

const PAGE: &str = include_str!("page.html.hbs");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Pods of a row that are named; the JSON form names all.
const MOST_NAMES: usize = 10;

impl Audit {
    /// The report as a page of HTML that is well-formed XML too.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut registry = Handlebars::new();
        registry.set_strict_mode(true);
        // Every value passes here; only style and script, which are ours, do not.
        registry.register_escape_fn(|text| html_escape(&visible(text)));
        registry
            .render_template(PAGE, &Page::new(self))
            .expect("the page has what its template asks for")
    }
}

/// What the template is rendered with.
#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    script: &'static str,
    style_hash: String,
    script_hash: String,
    audit: &'a Audit,
    numbers: [Number; 6],
    bar: Vec<Part>,
    states: &'static [State],
    namespaces: Vec<Namespace<'a>>,
    rows: Vec<Row<'a>>,
}

/// A number of the summary.
#[derive(Serialize)]
struct Number {
    count: usize,
    label: &'static str,
    /// The class, which gives it a colour.
    class: &'static str,
}

/// A part of the bar: a state's share of all pods, in thousandths.
#[derive(Serialize)]
struct Part {
    state: State,
    count: usize,
    start: usize,
    width: usize,
}

#[derive(Serialize)]
struct Namespace<'a> {
    #[serde(flatten)]
    row: &'a NamespaceRow,
    missing: usize,
    injected: usize,
    others: usize,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    row: &'a WorkloadRow,
    problem: bool,
    /// Names of pods, where there is something to be done about them.
    names: &'a [String],
    more: usize,
}

impl<'a> Page<'a> {
    fn new(audit: &'a Audit) -> Self {
        let mut rows: Vec<Row<'_>> = audit.workloads.iter().map(Row::new).collect();
        // Stable: what there is something to do about comes first, by name as before.
        rows.sort_by_key(|row| !row.problem);
        Self {
            style: STYLE,
            script: SCRIPT,
            style_hash: hash(STYLE),
            script_hash: hash(SCRIPT),
            audit,
            numbers: numbers(audit),
            bar: bar(&audit.summary.states, audit.summary.pods),
            states: State::ALL,
            namespaces: audit.namespaces.iter().map(Namespace::new).collect(),
            rows,
        }
    }
}

/// A source of Content-Security-Policy (CSP Level 3, 2.3.1).
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

fn numbers(audit: &Audit) -> [Number; 6] {
    let summary = &audit.summary;
    let denied = audit.workloads.iter().filter(|row| row.is_denied());
    let number = |count, label, class| Number {
        count,
        label,
        class: if count == 0 { "" } else { class },
    };
    [
        number(summary.meshed_namespaces, "meshed namespaces", ""),
        number(summary.workloads, "workloads", ""),
        number(summary.pods, "pods", ""),
        number(summary.states[&State::Injected], "with the proxy", "good"),
        number(summary.states[&State::Missing], "lack the proxy", "bad"),
        number(denied.map(|row| row.count).sum(), "would be refused", "bad"),
    ]
}

fn bar(states: &Counts, all: usize) -> Vec<Part> {
    const WHOLE: usize = 1000;
    let mut before = 0;
    let mut parts = Vec::new();
    for (state, count) in states.iter().filter(|(_, count)| **count > 0) {
        let start = before * WHOLE / all;
        before += count;
        parts.push(Part {
            state: *state,
            count: *count,
            start,
            width: before * WHOLE / all - start,
        });
    }
    parts
}

impl<'a> Namespace<'a> {
    fn new(row: &'a NamespaceRow) -> Self {
        let (missing, injected) = (row.states[&State::Missing], row.states[&State::Injected]);
        Self {
            row,
            missing,
            injected,
            others: row.pods - missing - injected,
        }
    }
}

impl<'a> Row<'a> {
    fn new(row: &'a WorkloadRow) -> Self {
        let problem = row.is_problem();
        let named = if problem { row.pods.len().min(MOST_NAMES) } else { 0 };
        Self {
            row,
            problem,
            names: &row.pods[..named],
            more: if problem { row.pods.len() - named } else { 0 },
        }
    }
}
