//! The report on standard error: a line an object.

use std::io::Write;

use crate::manifest::Line;
use crate::settings::values::shown;
use crate::workload::Object;

pub(super) const RED: &str = "\u{1b}[31m";
pub(super) const GREEN: &str = "\u{1b}[32m";
pub(super) const YELLOW: &str = "\u{1b}[33m";
pub(super) const RESET: &str = "\u{1b}[0m";

/// Writes the report. anstream drops colours where standard error is no terminal or `NO_COLOR` is set.
pub(super) fn print(lines: &[Line]) {
    let mut err = anstream::stderr().lock();
    for line in lines {
        let colour = match line.outcome {
            _ if line.denied => RED,
            "injected" | "uninjected" => GREEN,
            _ => "",
        };
        // Nothing can be said when standard error is gone.
        let _ = writeln!(
            err,
            "{}: {colour}{}{RESET}: {}",
            name_of(&line.object),
            line.outcome,
            line.reason
        );
        for warning in &line.warnings {
            let _ = writeln!(err, "{}: {YELLOW}warning{RESET}: {warning}", name_of(&line.object));
        }
    }
}

/// Writes a warning that is about no object.
pub(super) fn warn(text: &str) {
    let mut err = anstream::stderr().lock();
    // Nothing can be said when standard error is gone.
    let _ = writeln!(err, "{YELLOW}warning:{RESET} {}", without_controls(text));
}

/// The text with control characters but line breaks escaped, so that none reaches a terminal.
pub(super) fn without_controls(text: &str) -> String {
    let escaped = |c: char| c.is_control() && c != '\n';
    text.chars().fold(String::with_capacity(text.len()), |mut plain, c| {
        if escaped(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
        plain
    })
}

/// An object as messages name it: `Deployment shop/web`, a stranger's characters escaped.
pub(super) fn name_of(object: &Object) -> String {
    let plain = |text: &str| {
        let harmless = text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        if harmless && text.len() <= 253 {
            text.to_owned()
        } else {
            shown(text)
        }
    };
    let namespace = object
        .namespace
        .as_deref()
        .map(|ns| format!("{}/", plain(ns)))
        .unwrap_or_default();
    format!("{} {namespace}{}", plain(&object.kind), plain(&object.name))
}
