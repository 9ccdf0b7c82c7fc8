//! Documents that are JSON in the source: reading, keys given twice, and writing them back.

use std::collections::HashSet;
use std::io;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter, Serializer};

use super::resolve::float_value;
use super::{DuplicateKey, MAX_DUPLICATES, YamlError, YamlErrorKind};

/// Reads one JSON value; numbers as kubectl passes them on (`80.0` is `80`).
pub(super) fn parse(text: &str, first_line: usize) -> Result<(Value, Vec<DuplicateKey>), YamlError> {
    let mut value = serde_json::from_str(text).map_err(|error| error_at(&error, first_line))?;
    normalize(&mut value);
    Ok((value, duplicate_keys(text, first_line)))
}

/// A JSON error with its line counted from the start of the file.
pub(super) fn error_at(error: &serde_json::Error, first_line: usize) -> YamlError {
    let message = error.to_string();
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(message, _)| message);
    let kind = YamlErrorKind::Json(message.to_owned());
    YamlError {
        line: first_line + error.line().saturating_sub(1),
        column: error.column().max(1),
        kind,
    }
}

/// Writes indented JSON that is YAML as well: what YAML parsers refuse or take for a line break
/// is escaped.
pub(super) fn to_pretty(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Escaping(PrettyFormatter::new()));
    value
        .serialize(&mut serializer)
        .expect("a JSON value can be written to memory");
    out.push(b'\n');
    String::from_utf8(out).expect("serde_json writes UTF-8")
}

pub(super) fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(float_value) {
                *value = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(map) => map.values_mut().for_each(normalize),
        _ => {}
    }
}

/// Finds keys given twice in text that is known to be JSON.
fn duplicate_keys(text: &str, first_line: usize) -> Vec<DuplicateKey> {
    let mut scan = Scan {
        line: first_line,
        open: Vec::new(),
        found: Vec::new(),
    };
    let mut rest = text;
    while let Some(byte) = rest.bytes().next() {
        let taken = scan.step(byte, rest);
        rest = &rest[taken..];
    }
    scan.found
}

struct Scan<'a> {
    line: usize,
    open: Vec<Open<'a>>,
    found: Vec<DuplicateKey>,
}

enum Open<'a> {
    Map { keys: HashSet<String>, current: &'a str },
    List { index: usize },
}

impl<'a> Scan<'a> {
    /// Looks at the first byte of `rest` and says how many bytes are dealt with.
    fn step(&mut self, byte: u8, rest: &'a str) -> usize {
        match byte {
            b'{' => self.open.push(Open::Map {
                keys: HashSet::new(),
                current: "",
            }),
            b'[' => self.open.push(Open::List { index: 0 }),
            b'}' | b']' => drop(self.open.pop()),
            b',' => {
                if let Some(Open::List { index }) = self.open.last_mut() {
                    *index += 1;
                }
            }
            b'\n' => self.line += 1,
            b'"' => return self.string(rest),
            _ => return rest.chars().next().map_or(1, char::len_utf8),
        }
        1
    }

    fn string(&mut self, rest: &'a str) -> usize {
        let end = string_end(rest);
        let is_key = rest[end..].trim_start().starts_with(':');
        let (true, Some(Open::Map { keys, current })) = (is_key, self.open.last_mut()) else {
            return end;
        };
        *current = &rest[..end];
        let key: String = serde_json::from_str(current).unwrap_or_default();
        if !keys.insert(key) && self.found.len() < MAX_DUPLICATES {
            self.found.push(DuplicateKey {
                path: self.path(),
                line: self.line,
            });
        }
        end
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::Map { current, .. } => {
                    super::push_key(&mut path, &serde_json::from_str::<String>(current).unwrap_or_default());
                }
                Open::List { index } => super::push_index(&mut path, *index),
            }
        }
        path
    }
}

/// Length of the JSON string at the start of `text`, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (position, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return position + 1,
            _ => {}
        }
    }
    text.len()
}

struct Escaping(PrettyFormatter<'static>);

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(position) = rest.find(super::quote::needs_escape) {
            let (plain, tail) = rest.split_at(position);
            writer.write_all(plain.as_bytes())?;
            let char = tail.chars().next().expect("find returns the start of a character");
            write!(writer, "\\u{:04x}", u32::from(char))?;
            rest = &tail[char.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_keys_given_twice() {
        let text = "{\"a\": [1, {\"b\\u0063\": \"}\\\"\",\n\"bc\": 2}], \"d\": {\"a\": 1},\n \"a\": 3}";
        let (value, found) = parse(text, 5).expect("is JSON");
        assert_eq!(value, serde_json::json!({"a": 3, "d": {"a": 1}}));
        let found: Vec<_> = found.iter().map(|key| (key.path.as_str(), key.line)).collect();
        assert_eq!(found, [("a[1].bc", 6), ("a", 7)]);
    }

    #[test]
    fn escapes_what_yaml_does_not_take() {
        let value = Value::from("a\u{7f}\u{85}\u{2028}\u{feff}é\n");
        assert_eq!(to_pretty(&value), "\"a\\u007f\\u0085\\u2028\\ufeffé\\n\"\n");
    }
}
