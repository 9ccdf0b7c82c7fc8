//! Whether a string can stand in YAML as it is, and how it is escaped when it cannot.
//!
//! The measure is not one reader but all: what YAML 1.1 or 1.2, or a parser with a loose reading
//! of either, could take for something other than this very string is quoted.

use std::fmt::Write as _;

use super::resolve::{Scalar, resolve_plain};

/// Words that some reader takes for a boolean, null or number, in any case.
const WORDS: [&str; 12] = [
    "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity",
];

/// Appends the string on one line: plain when every reader reads it back, else double-quoted.
pub(super) fn write_inline(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        write_quoted(out, text);
    }
}

/// Characters that YAML refuses raw, or takes for a line break or a byte order mark.
pub(super) fn needs_escape(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.trim() == text
        && !text.chars().any(needs_escape)
        && has_plain_start(text)
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
        && !has_other_meaning(text)
}

fn has_plain_start(text: &str) -> bool {
    let dash_of_a_list = text == "-" || text.starts_with("- ");
    let marker = text.starts_with("---") || text.starts_with("...");
    !dash_of_a_list
        && !marker
        && !text.starts_with([
            ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '?',
            ':',
        ])
}

fn has_other_meaning(text: &str) -> bool {
    let bare = text.trim_start_matches(['+', '-', '.']);
    resolve_plain(text) != Scalar::Text
        || WORDS.iter().any(|word| bare.eq_ignore_ascii_case(word))
        || matches!(text, "<<" | "=" | "~")
        || looks_like_a_number(text)
}

/// Numbers in any base, base 60, and timestamps, generously.
fn looks_like_a_number(text: &str) -> bool {
    let bare = text.trim_start_matches(['+', '-', '.', '_']);
    bare.starts_with(|first: char| first.is_ascii_digit())
        && bare
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b"_xXoObBeE.:,+- tTzZ".contains(&byte))
}

fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if needs_escape(char) => {
                write!(out, "\\u{:04x}", u32::from(char)).expect("writing to a string cannot fail");
            }
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inline(text: &str) -> String {
        let mut out = String::new();
        write_inline(&mut out, text);
        out
    }

    #[test]
    fn leaves_common_strings_plain() {
        for text in [
            "nginx:1.27",
            "/etc/x",
            "-c",
            "--flag=a,b",
            "$(POD_NAME)",
            "a b",
            "10m",
            "100Mi",
            "a#b",
            "http://x",
            "é",
            "node",
            "yes!",
            "a: ",
        ] {
            let expected = if text == "a: " {
                "\"a: \"".to_owned()
            } else {
                text.to_owned()
            };
            assert_eq!(inline(text), expected);
        }
    }

    #[test]
    fn quotes_what_a_reader_could_take_for_something_else() {
        let table = [
            "",
            " a",
            "a ",
            "yes",
            "on",
            "y",
            "N",
            "08",
            "1e3",
            "0o7",
            "1_000",
            "0b1",
            "1:20",
            "2001-01-01",
            "~",
            "null",
            "<<",
            "=",
            "a: b",
            "a #b",
            "a:",
            "-",
            "- a",
            "---",
            "...",
            "? a",
            ".inf",
            "+.NaN",
            "inf",
            ".5",
            "+1",
            "0x1F",
            "1.2.3",
            "2001-12-14t21:59:43.10-05:00",
            "[a",
            "{a",
            "*a",
            "&a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'a",
            "\"a",
            "#a",
            ",a",
        ];
        for text in table {
            assert!(inline(text).starts_with('"'), "{text}");
        }
        assert_eq!(
            inline("\u{0}\u{1b}\u{85}\u{2028}\u{feff}\t\n\\"),
            "\"\\u0000\\u001b\\u0085\\u2028\\ufeff\\t\\n\\\\\""
        );
    }
}
