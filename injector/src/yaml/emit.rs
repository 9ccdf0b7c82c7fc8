//! Writes a JSON value as block-style YAML, laid out as kubectl prints it.
//!
//! An own emitter, since serde-saphyr's serializer leaves keys such as `on` plain and has no
//! form for keys longer than the 1024 characters that YAML allows before a `:`.

use serde_json::{Map, Number, Value};

use super::quote::{needs_escape, write_inline};

/// Keys longer than this, quotes and escapes included, are written after `? `. The limit of
/// parsers is 1024 characters.
const LONGEST_SIMPLE_KEY: usize = 512;

/// Writes `value` as a YAML document without a `---` line; ends with a line break.
///
/// Keys keep their order. Every string is read back as the same string by YAML 1.1 and 1.2
/// readers: what could be taken for something else is double-quoted, several lines are a literal
/// block where that loses nothing. Lines are never folded.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0),
        Value::Array(items) if !items.is_empty() => write_list(&mut out, items, 0),
        scalar => write_scalar(&mut out, scalar, 0),
    }
    out
}

/// Whether a key of the value is too long for `key: value` on one line.
pub(super) fn has_long_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_long_key),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| inline(key).len() > LONGEST_SIMPLE_KEY || has_long_key(value)),
        _ => false,
    }
}

/// Writes the entries; the indent of the first is already written.
fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize) {
    for (position, (key, value)) in map.iter().enumerate() {
        if position > 0 {
            push_indent(out, indent);
        }
        write_key(out, key, indent);
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                push_indent(out, indent + 2);
                write_map(out, map, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                push_indent(out, indent);
                write_list(out, items, indent);
            }
            scalar => {
                out.push(' ');
                write_scalar(out, scalar, indent + 2);
            }
        }
    }
}

/// Writes the items; the indent of the first is already written.
fn write_list(out: &mut String, items: &[Value], indent: usize) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            push_indent(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(out, map, indent + 2),
            Value::Array(items) if !items.is_empty() => write_list(out, items, indent + 2),
            scalar => write_scalar(out, scalar, indent + 2),
        }
    }
}

fn write_key(out: &mut String, key: &str, indent: usize) {
    let key = inline(key);
    if key.len() > LONGEST_SIMPLE_KEY {
        out.push_str("? ");
        out.push_str(&key);
        out.push('\n');
        push_indent(out, indent);
    } else {
        out.push_str(&key);
    }
    out.push(':');
}

/// Writes a scalar or an empty collection and the line break; `indent` is for block lines.
fn write_scalar(out: &mut String, scalar: &Value, indent: usize) {
    match scalar {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) if is_literal(text) => return write_literal(out, text, indent.max(2)),
        Value::String(text) => write_inline(out, text),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
    out.push('\n');
}

/// Floats get the point and the exponent sign that YAML 1.1 asks for.
fn number_text(number: &Number) -> String {
    let text = number.to_string();
    if !number.is_f64() {
        return text;
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, ""));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    match exponent {
        "" => format!("{mantissa}{point}"),
        exponent if exponent.starts_with(['+', '-']) => format!("{mantissa}{point}e{exponent}"),
        exponent => format!("{mantissa}{point}e+{exponent}"),
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

fn write_literal(out: &mut String, text: &str, indent: usize) {
    let content = text.trim_end_matches('\n');
    let breaks = text.len() - content.len();
    out.push_str(match breaks {
        0 => "|-\n",
        1 => "|\n",
        _ => "|+\n",
    });
    for line in content.split('\n') {
        if !line.is_empty() {
            push_indent(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
    (1..breaks).for_each(|_| out.push('\n'));
}

fn inline(text: &str) -> String {
    let mut out = String::new();
    write_inline(&mut out, text);
    out
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
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
        for text in [
            "\na", " a\nb", "\ta\nb", "a\n \nb", "a\r\nb", "a\n\u{7}", "\n", "a\n  ",
        ] {
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
