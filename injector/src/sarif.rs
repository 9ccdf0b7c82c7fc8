//! Findings as SARIF 2.1.0, which code hosts show beside the lines of a change.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::check::Finding;
use crate::error::Denial;
use crate::requirements::Action;

/// The document for these findings.
#[must_use]
pub fn sarif(findings: &[Finding]) -> String {
    let log = Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [Run {
            tool: Tool { driver: driver() },
            results: findings.iter().map(result).collect(),
        }],
    };
    serde_json::to_string_pretty(&log).expect("strings and numbers alone") + "\n"
}

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

fn driver() -> Driver {
    Driver {
        name: env!("CARGO_PKG_NAME"),
        semantic_version: env!("CARGO_PKG_VERSION"),
        rules: Denial::MEANINGS.iter().map(rule).collect(),
    }
}

fn rule((id, meaning): &(&'static str, &'static str)) -> Rule {
    Rule {
        id,
        name: id.split('-').map(capitalised).collect(),
        short_description: Text {
            text: format!("{}.", capitalised(meaning)),
        },
        help: Text {
            text: format!(
                "{}. `outrigger explain -f FILE` says where each setting comes from; `outrigger docs` lists all settings and \
                 their values.",
                capitalised(meaning)
            ),
        },
        default_configuration: Configuration { level: "error" },
    }
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

fn result(finding: &Finding) -> SarifResult<'_> {
    let object = &finding.object;
    let namespace = object.namespace.as_deref().map(|name| format!("{name}/"));
    SarifResult {
        rule_id: finding.rule,
        level: level(finding.action),
        message: Text {
            text: literal(&finding.message),
        },
        locations: [Location {
            physical_location: PhysicalLocation {
                artifact_location: ArtifactLocation {
                    uri: uri(&finding.file),
                },
                region: Region {
                    start_line: finding.line,
                },
            },
            logical_locations: [LogicalLocation {
                name: &object.name,
                fully_qualified_name: format!("{} {}{}", object.kind, namespace.unwrap_or_default(), object.name),
                kind: "resource",
            }],
        }],
    }
}

const fn level(action: Action) -> &'static str {
    match action {
        Action::Deny => "error",
        Action::Warn => "warning",
        Action::Audit => "note",
    }
}

/// What may stand in a path as it is (RFC 3986, `pchar` and the slash), but for the colon, which would
/// make a scheme of what stands before it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// A file as a URI: a relative one stays relative to where the check ran.
fn uri(file: &str) -> String {
    let path = utf8_percent_encode(file.trim_start_matches("./"), ESCAPED).to_string();
    if path.starts_with('/') {
        format!("file://{path}")
    } else {
        path
    }
}

#[derive(Serialize)]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
struct Run<'a> {
    tool: Tool,
    results: Vec<SarifResult<'a>>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: &'static str,
    name: String,
    short_description: Text,
    help: Text,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'a> {
    rule_id: &'static str,
    level: &'static str,
    message: Text,
    locations: [Location<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    physical_location: PhysicalLocation,
    logical_locations: [LogicalLocation<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    region: Region,
}

#[derive(Serialize)]
struct ArtifactLocation {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation<'a> {
    name: &'a str,
    fully_qualified_name: String,
    kind: &'static str,
}

/// A message without placeholders: braces are doubled (SARIF 2.1.0, section 3.11.5).
fn literal(message: &str) -> String {
    message.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_uris() {
        for (file, expected) in [
            ("deploy/web.yaml", "deploy/web.yaml"),
            ("./deploy/a b.yaml", "deploy/a%20b.yaml"),
            ("../x:y#z?.yaml", "../x%3Ay%23z%3F.yaml"),
            ("/srv/ü%.yaml", "file:///srv/%C3%BC%25.yaml"),
            ("<stdin>", "%3Cstdin%3E"),
        ] {
            assert_eq!(uri(file), expected);
        }
    }
}
