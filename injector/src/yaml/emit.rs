//! Writes a JSON value as block-style YAML, laid out as kubectl prints it.
//!
//! serde-saphyr writes; the style of each string is decided here, since some of its blocks (those
//! that start with a tab) are refused by kubectl's parser and its folded ones read badly.

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::{DoubleQuoted, LitStr};

use super::quote::{is_plain, needs_escape};

/// Keys longer than this are written after `? `. The limit of parsers is 1024 characters, with
/// quotes and escapes.
const LONGEST_SIMPLE_KEY: usize = 150;

/// Writes `value` as a YAML document without a `---` line; ends with a line break.
///
/// Keys keep their order. Every string is read back as the same string by YAML 1.1 and 1.2
/// readers: what could be taken for something else is double-quoted, several lines are a literal
/// block where that loses nothing. Lines are never folded.
pub fn to_yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&Yaml(value), options).expect("a JSON value can be written to memory")
}

/// Whether a key of the value is too long for `key: value` on one line.
pub(super) fn has_long_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_long_key),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key.len() > LONGEST_SIMPLE_KEY || has_long_key(value)),
        _ => false,
    }
}

struct Yaml<'a>(&'a Value);

/// A string on one line.
struct Inline<'a>(&'a str);

impl Serialize for Yaml<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if is_literal(text) => LitStr(text).serialize(serializer),
            Value::String(text) => Inline(text).serialize(serializer),
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(&Yaml(item)))?;
                list.end()
            }
            Value::Object(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&Inline(key), &Yaml(value))?;
                }
                map.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

impl Serialize for Inline<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if is_plain(self.0) {
            serializer.serialize_str(self.0)
        } else {
            DoubleQuoted(self.0).serialize(serializer)
        }
    }
}

/// Whether a literal block reads back exactly: several lines, all of them printable and none of
/// blanks only, and a first line that shows the indent.
fn is_literal(text: &str) -> bool {
    let content = text.trim_end_matches('\n');
    text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && !text
            .chars()
            .any(|char| needs_escape(char) && char != '\n' && char != '\t')
        && content
            .split('\n')
            .all(|line| line.is_empty() || !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lays_out_as_kubectl_does() {
        let value = json!({
            "b": {"on": true, "list": [{"x": 1, "y": [1.5, "2"]}, [["deep"]], [], {}]},
            "a": "two\nlines\n", "k": "x\n\ny", "w": "z\n\n", "e": {}, "n": null, "big": u64::MAX, "f": 1e21,
        });
        let expected = "b:\n  \"on\": true\n  list:\n  - x: 1\n    \"y\":\n    - 1.5\n    - \"2\"\n  - - - deep\n  - []\n  - {}\n\
                        a: |\n  two\n  lines\nk: |-\n  x\n\n  y\nw: |+\n  z\n\ne: {}\n\"n\": null\nbig: 18446744073709551615\nf: 1.0e+21\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn quotes_lines_that_a_block_would_change() {
        for text in ["\na", " a\nb", "\ta\nb", "a\n \nb", "a\r\nb", "a\n\u{7}", "\n", "a\n  "] {
            assert!(to_yaml(&Value::from(text)).starts_with('"'), "{text:?}");
        }
        assert_eq!(to_yaml(&Value::from("a \n\tb\n")), "|\n  a \n  \tb\n");
    }

    #[test]
    fn writes_long_keys_behind_a_question_mark() {
        let key = "k".repeat(2000);
        let value = json!({"a": {key.clone(): [1]}});
        assert_eq!(to_yaml(&value), format!("a:\n  ? {key}\n  :\n  - 1\n"));
        assert!(has_long_key(&value));
    }
}
