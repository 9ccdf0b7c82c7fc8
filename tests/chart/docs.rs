//! What the documentation says of the chart.

use serde_json::Value;

use crate::{complaints, text};
use outrigger::yaml;

/// The fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut current: Option<String> = None;
    for line in page.lines() {
        match (&mut current, line.strip_prefix("```")) {
            (None, Some(found)) if found == language => current = Some(String::new()),
            (Some(_), Some("")) => blocks.extend(current.take()),
            (Some(block), _) => {
                block.push_str(line);
                block.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn the_values_of_the_documentation_are_good() {
    let page = text("docs/install.md");
    let blocks = blocks(&page, "yaml");
    let values: Vec<&String> = blocks
        .iter()
        .filter(|block| block.starts_with("# values.yaml"))
        .collect();
    assert!(values.len() >= 5, "the examples are elsewhere");
    for block in values {
        let values: Value = yaml::parse_one(block).unwrap_or_else(|e| panic!("{e}: {block}"));
        assert_eq!(complaints(&values), Vec::<String>::new(), "{block}");
    }
}

#[test]
fn values_named_in_commands_exist() {
    let page = text("docs/install.md") + &text("docs/operations.md") + &text("README.md");
    let words = page.split_whitespace().collect::<Vec<_>>();
    let named = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]);
    let mut count = 0;
    for assignment in named.flat_map(|text| text.split(',')) {
        let (path, value) = assignment.split_once('=').unwrap_or_else(|| panic!("{assignment}"));
        let value = yaml::parse_one(value.trim_matches(['`', '.', '\'', '"'])).unwrap();
        let values = path
            .rsplit('.')
            .fold(value, |value, key| serde_json::json!({key: value}));
        let unknown = complaints(&values)
            .into_iter()
            .find(|line| line.contains("Additional properties"));
        assert_eq!(unknown, None, "{assignment}");
        count += 1;
    }
    assert!(count > 0, "no command sets a value");
}

#[test]
fn every_alert_has_its_section_in_the_runbook() {
    let rules = text("charts/outrigger/templates/prometheusrule.yaml");
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 5, "the alerts are elsewhere");
    let runbook = text("docs/operations.md");
    for alert in alerts {
        assert!(
            runbook.lines().any(|line| line == format!("### {alert}")),
            "docs/operations.md: {alert}"
        );
        assert!(
            rules.contains(&format!("\"outrigger.runbook\" (list $ \"{alert}\")")),
            "{alert} links elsewhere"
        );
    }
}
