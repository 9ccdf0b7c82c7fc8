//! Whether a string can stand in YAML as it is.
//!
//! The measure is not one reader but all: what YAML 1.1 or 1.2, or a parser with a loose reading
//! of either, could take for something other than this very string is quoted.

use super::resolve::{Scalar, resolve_plain};

/// Words that some reader takes for a boolean, null or number, in any case.
const WORDS: [&str; 12] = [
    "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity",
];

/// Characters that YAML refuses raw, or takes for a line break or a byte order mark.
pub(super) fn needs_escape(char: char) -> bool {
    char.is_control() || matches!(char, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether every reader reads the string back from a plain scalar, on one line.
pub(super) fn is_plain(text: &str) -> bool {
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
            ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '?', ':',
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_common_strings_plain() {
        let table = [
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
            "<=",
            "a[0]",
            "a\\b",
        ];
        for text in table {
            assert!(is_plain(text), "{text}");
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
            "a\u{0}",
            "a\u{85}b",
            "a\u{2028}b",
            "a\u{feff}b",
            "a\tb",
            "a\nb",
        ];
        for text in table {
            assert!(!is_plain(text), "{text}");
        }
    }
}
