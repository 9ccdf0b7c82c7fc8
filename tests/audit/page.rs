//! The page: well-formed, closed to everything outside, and true to a stranger's text.

use base64::prelude::{BASE64_STANDARD, Engine};
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};
use sha2::{Digest, Sha256};

use super::*;

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}:\n{page}"))
}

fn all<'d>(document: &'d Document<'_>, tag: &'d str) -> Vec<Node<'d, 'd>> {
    document.descendants().filter(|node| node.has_tag_name(tag)).collect()
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter(Node::is_text)
        .filter_map(|node| node.text())
        .collect()
}

fn rows<'d>(document: &'d Document<'_>) -> Vec<Node<'d, 'd>> {
    all(document, "tr")
        .into_iter()
        .filter(|row| row.has_attribute("data-state"))
        .collect()
}

#[test]
fn every_row_and_number_of_the_report_is_there() {
    let (audit, page) = (sample(), sample().to_html());
    let document = parsed(&page);
    let found: Vec<(String, String)> = rows(&document)
        .iter()
        .map(|row| {
            (
                row.attribute("data-namespace").unwrap().to_owned(),
                row.attribute("data-state").unwrap().to_owned(),
            )
        })
        .collect();
    // Problems come first, otherwise in the order of the report.
    let (problems, others): (Vec<_>, Vec<_>) = audit.workloads.iter().partition(|row| row.is_problem());
    let in_order: Vec<_> = problems.into_iter().chain(others).collect();
    let expected: Vec<(String, String)> = in_order
        .iter()
        .map(|row| (row.workload.namespace.clone(), row.judgement.state.to_string()))
        .collect();
    assert_eq!(found, expected);
    for (row, expected) in rows(&document).into_iter().zip(in_order) {
        assert_eq!(row.has_attribute("data-problem"), expected.is_problem());
        for broken in &expected.judgement.violations {
            assert!(text(row).contains(&broken.message), "{}: {}", broken.message, text(row));
        }
    }
    let numbers: Vec<String> = all(&document, "dd").into_iter().map(text).collect();
    assert_eq!(numbers, ["2", "13", "15", "5", "3", "6"]);
}

#[test]
fn the_policy_lets_in_the_pages_own_style_and_script_alone() {
    let page = sample().to_html();
    let document = parsed(&page);
    let policy = all(&document, "meta")
        .into_iter()
        .find(|meta| meta.attribute("http-equiv") == Some("Content-Security-Policy"))
        .and_then(|meta| meta.attribute("content"))
        .unwrap();
    // What a browser hashes is what stands between the tags, byte by byte.
    let hash = |tag: &str| {
        let inside = page
            .split_once(&format!("<{tag}>"))
            .unwrap()
            .1
            .split_once(&format!("</{tag}>"))
            .unwrap()
            .0;
        format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(inside)))
    };
    let expected = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash("style"),
        hash("script")
    );
    assert_eq!(policy, expected);
    for tag in ["style", "script"] {
        assert_eq!(all(&document, tag).len(), 1);
    }
    for node in document.descendants() {
        for attribute in node.attributes() {
            let name = attribute.name();
            let loads = ["src", "href", "style", "srcset", "action", "data"].contains(&name) || name.starts_with("on");
            assert!(!loads, "{}: {name}", node.tag_name().name());
        }
    }
}

#[test]
fn the_page_can_be_read_by_machine_and_without_a_script() {
    let page = sample().to_html();
    let document = parsed(&page);
    assert_eq!(all(&document, "html")[0].attribute("lang"), Some("en"));
    for head in all(&document, "th") {
        assert!(matches!(head.attribute("scope"), Some("col" | "row")), "{}", text(head));
    }
    for row in rows(&document) {
        assert!(
            !row.has_attribute("hidden"),
            "a script has to hide rows, not to show them"
        );
    }
    assert!(
        all(&document, "form")[0].has_attribute("hidden"),
        "without a script filters do nothing"
    );
    for select in all(&document, "select") {
        assert!(select.parent().unwrap().has_tag_name("label"));
    }
}

/// A pod whose owner has this name and kind, and of which a rule complains with its label's value.
fn strange(text: &str) -> Value {
    json!({"metadata": {"name": text, "namespace": "shop", "labels": {"environment": text},
        "ownerReferences": [{"apiVersion": "v1", "kind": text, "name": text, "controller": true}],
        "annotations": {"outrigger.mesh/inject": text, "outrigger.mesh/status": json!({
            "version": text, "template": text, "digest": "0", "containers": ["proxy-sidecar"]}).to_string()}},
        "spec": {"containers": [{"name": "proxy-sidecar"}]}})
}

/// What a reader sees of a text: characters that could not be seen are spelled out.
fn seen(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || ('\u{200b}'..='\u{200f}').contains(&c)
            || ('\u{2028}'..='\u{202e}').contains(&c)
            || ('\u{2060}'..='\u{206f}').contains(&c)
            || ('\u{fff0}'..='\u{ffff}').contains(&c)
            || ('\u{e0000}'..='\u{e0fff}').contains(&c)
            || ['\u{61c}', '\u{feff}'].contains(&c)
    };
    text.chars()
        .map(|c| {
            if hidden(c) {
                c.escape_unicode().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

fn a_strangers_text_stays_text(stranger: &str) {
    let audit = audit(None, &[shop()], &[strange(stranger)]).unwrap();
    let page = audit.to_html();
    let document = parsed(&page);
    static PLAIN: LazyLock<String> = LazyLock::new(|| sample().to_html());
    let tags = |document: &Document<'_>| -> std::collections::BTreeSet<String> {
        document
            .descendants()
            .map(|node| node.tag_name().name().to_owned())
            .collect()
    };
    assert!(tags(&document).is_subset(&tags(&parsed(&PLAIN))), "{stranger:?}");
    let row = rows(&document)[0];
    let cells: Vec<String> = row
        .descendants()
        .filter(|node| node.has_tag_name("bdi"))
        .map(text)
        .collect();
    let seen = seen(stranger);
    assert_eq!(cells, ["shop", &seen, &seen, &seen, &seen]);
    assert_eq!(
        audit.to_json().parse::<Value>().unwrap()["workloads"][0]["name"],
        stranger
    );
    assert!(
        !audit.to_table().contains(|c: char| c.is_control() && c != '\n'),
        "{stranger:?}"
    );
}

#[test]
fn known_attacks_stay_text() {
    for text in [
        "<script>alert(1)</script>",
        "</style><img src=x onerror=alert(1)>",
        "\" onmouseover=\"alert(1)",
        "' autofocus onfocus='alert(1)",
        "]]><x>",
        "&lt;b&gt;",
        "{{style}}",
        "\u{202e}gnp.exe\u{0}\u{1b}[2J",
        "a\r\nb\tc\u{85}d\u{feff}\u{ffff}",
        "<!--",
    ] {
        a_strangers_text_stays_text(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_stays_text(text in prop_oneof![any::<String>(), r#"[<>&"'`=/a-z{} -]{1,40}"#]) {
        a_strangers_text_stays_text(&text);
    }
}
