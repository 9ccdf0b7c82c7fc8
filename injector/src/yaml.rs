//! YAML read and written as kubectl does.
//!
//! Reading follows kubectl's own pipeline: the line rule of `k8s.io/apimachinery` splits the stream
//! (`yaml/split.rs`), granit-parser finds the nodes (`yaml/tree.rs`), and scalars, keys, merges and
//! aliases get the meaning that sigs.k8s.io/yaml gives them (`yaml/resolve.rs`, `yaml/decode.rs`).
//! Where granit-parser (YAML 1.2) and kubectl's parser (1.1) would read a text differently, the
//! text is refused.

mod decode;
mod emit;
mod json;
mod quote;
mod resolve;
mod split;
#[cfg(test)]
mod tests;
mod text;
mod tree;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::Value;

pub use self::emit::to_yaml;
use self::split::{Body, Chunk};
pub use self::text::decode_utf8;

/// Deepest nesting of maps and lists that is read, aliases expanded.
pub const MAX_DEPTH: usize = 100;
/// Most nodes that aliases may add to a stream.
pub const MAX_ALIAS_NODES: usize = 1_000_000;
/// Most bytes of strings that aliases may add to a stream.
pub const MAX_ALIAS_BYTES: usize = 64 << 20;
/// Most duplicate keys that are reported for a document.
const MAX_DUPLICATES: usize = 100;

/// One document of a stream. The `text`s of a stream concatenate to the whole input.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    /// The source: from its `---` line, if any, to the next one.
    pub text: &'a str,
    /// Line of the first character of `text`, from 1.
    pub first_line: usize,
    /// `None` when the document is empty, `null` or comments only: kubectl skips it.
    pub value: Option<Value>,
    /// Keys given twice in one map, in order (the first hundred). The last one won, as in kubectl.
    pub duplicate_keys: Vec<DuplicateKey>,
    in_json_stream: bool,
}

/// A key that stands twice in one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    /// Where: `spec.containers[0].name`.
    pub path: String,
    /// Line of the second one, from the start of the file.
    pub line: usize,
}

/// Why a text is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct YamlError {
    /// From the start of the file, from 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub kind: YamlErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum YamlErrorKind {
    #[error("{0}")]
    Syntax(String),
    #[error("invalid JSON: {0}")]
    Json(String),
    #[error("only a space and a comment may follow `---`, found `{0}`: put it on the next line")]
    Separator(String),
    #[error("content after the end of the document: kubectl ignores it; put a line with `---` before it")]
    TrailingContent,
    #[error("the text is UTF-16 or UTF-32: save it as UTF-8")]
    NotUtf8Encoding,
    #[error("the text is not UTF-8: save it as UTF-8")]
    InvalidUtf8,
    #[error("character U+{:04X} is not allowed in YAML: write it as an escape in double quotes", u32::from(*.0))]
    Character(char),
    #[error("character U+{:04X} is a line break to some YAML parsers and a letter to others: write it as an escape in double quotes", u32::from(*.0))]
    LineBreakCharacter(char),
    #[error(
        "a carriage return that is half of a line break: end lines by a line feed, with a carriage return before it or not"
    )]
    CarriageReturn,
    #[error("a byte order mark inside a document: remove it, or write it as an escape in double quotes")]
    ByteOrderMark,
    #[error("a tab cannot indent YAML: use spaces")]
    Tab,
    #[error("the lines of a block string must be indented")]
    UnindentedBlock,
    #[error("a key and its `:` must be on one line")]
    KeyOfSeveralLines,
    #[error(
        "fewer than four characters are left where JSON ends, and kubectl fails on that: put a line with `---` before them"
    )]
    ShortRest,
    #[error("a tag has no `#` and must be followed by a space")]
    InvalidTag,
    #[error("the name of an anchor consists of letters, digits, `_` and `-`, and a space follows it")]
    InvalidAnchor,
    #[error("`{0}` inside brackets or braces means different things to YAML parsers: quote it")]
    AmbiguousInFlow(String),
    #[error("`...` ends a document, and there is none before it: remove it")]
    EndWithoutDocument,
    #[error("maps and lists are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("aliases expand to too much: write the values out or use fewer")]
    TooManyAliases,
    #[error("an alias without its anchor: define it with `&name` before it, in the same document")]
    UnknownAnchor,
    #[error("the value of an anchor contains itself")]
    SelfReference,
    #[error("the merge key `<<` takes a map, an alias of one, or a list of these; quote it for an ordinary key")]
    MergeValue,
    #[error("{0} cannot be a key: quote it or use a string")]
    KeyKind(&'static str),
    #[error("`{0}` is a key twice, once as a string and once not: JSON cannot tell them apart; remove one")]
    AmbiguousKey(String),
    #[error("`{text}` is no value for the tag !!{tag}")]
    TagMismatch { tag: String, text: String },
    #[error("the tag !!timestamp is not supported: quote the value, Kubernetes takes times as strings")]
    TimestampTag,
    #[error("the value of !!binary is no base64")]
    BinaryInvalid,
    #[error("the value of !!binary is no UTF-8 text, so that JSON cannot hold it: use a string with the base64")]
    BinaryNotText,
    #[error("`{0}` is a number that JSON cannot hold: quote it to make it a string")]
    NotFinite(String),
    #[error("the key `{0}` is given twice: remove one")]
    DuplicateKey(String),
    #[error("expected exactly one document, found {0}")]
    DocumentCount(usize),
}

/// Reads a stream of documents.
///
/// # Errors
/// The first thing that kubectl's parser refuses, or that it would read differently, in any
/// document; and what exceeds [`MAX_DEPTH`], [`MAX_ALIAS_NODES`] or [`MAX_ALIAS_BYTES`].
pub fn parse_stream(input: &str) -> Result<Vec<Document<'_>>, YamlError> {
    let mut budget = decode::Budget::new();
    split::split(input)?
        .into_iter()
        .map(|chunk| read(chunk, &mut budget))
        .collect()
}

/// Reads exactly one document, as in a configuration file or template.
///
/// # Errors
/// As [`parse_stream`]; also when there is no document or more than one, and for a key given twice.
pub fn parse_one(input: &str) -> Result<Value, YamlError> {
    let documents = parse_stream(input)?;
    let mut values = documents
        .into_iter()
        .filter_map(|document| Some((document.first_line, document.value?, document.duplicate_keys)));
    match (values.next(), values.next()) {
        (Some((_, value, duplicates)), None) => match duplicates.into_iter().next() {
            None => Ok(value),
            Some(DuplicateKey { path, line }) => Err(YamlError {
                line,
                column: 1,
                kind: YamlErrorKind::DuplicateKey(path),
            }),
        },
        (_, second) => {
            let (line, count) = second.map_or((1, 0), |(line, ..)| (line, 2 + values.count()));
            Err(YamlError {
                line,
                column: 1,
                kind: YamlErrorKind::DocumentCount(count),
            })
        }
    }
}

impl Document<'_> {
    /// The text of this document with another value.
    ///
    /// Keeps what stands before the content: comments, the `---` line, a byte order mark. Comments
    /// inside the old content and a `...` behind it are dropped. A document that is JSON in the
    /// source stays JSON, line breaks stay CRLF if they are.
    pub fn replaced(&self, new: &Value) -> String {
        let (head, content) = self.text.split_at(head_len(self.text));
        let is_json = self.in_json_stream || (is_json(content) && !emit::has_long_key(new));
        let body = if is_json { json::to_pretty(new) } else { to_yaml(new) };
        let (head, newline) = match head.strip_suffix("---") {
            Some(_) => (head, "\n"),
            None => (head, ""),
        };
        if self.text.contains("\r\n") {
            return format!("{head}{}", format!("{newline}{body}").replace('\n', "\r\n"));
        }
        format!("{head}{newline}{body}")
    }
}

fn read<'a>(chunk: Chunk<'a>, budget: &mut decode::Budget) -> Result<Document<'a>, YamlError> {
    let Chunk { text, first_line, body } = chunk;
    let in_json_stream = matches!(body, Body::Json { .. });
    let (value, duplicate_keys) = match body {
        Body::Json { text, first_line } => json::parse(text, first_line)?,
        Body::Yaml { text, first_line } => read_yaml(text, first_line, budget)?,
    };
    let value = Some(value).filter(|value| !value.is_null());
    Ok(Document {
        text,
        first_line,
        value,
        duplicate_keys,
        in_json_stream,
    })
}

fn read_yaml(
    body: &str,
    first_line: usize,
    budget: &mut decode::Budget,
) -> Result<(Value, Vec<DuplicateKey>), YamlError> {
    text::check(body, first_line)?;
    text::check_first_line(body, first_line)?;
    let lines: Cow<'_, str> = text::with_unix_breaks(body);
    let tree = tree::parse(&lines, first_line)?;
    tree.root.map_or_else(
        || Ok((Value::Null, Vec::new())),
        |root| decode::decode(&tree, root, budget),
    )
}

/// Length of the lines before the content; ends with `---` only if that shares its line with
/// content or the end of the text.
fn head_len(text: &str) -> usize {
    let mut len = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    for line in text[len..].split_inclusive('\n') {
        let marker = line.strip_prefix("---");
        let rest = marker.unwrap_or(line).trim();
        match marker {
            _ if (rest.is_empty() || rest.starts_with('#')) && line.ends_with('\n') => {
                len += line.len();
            }
            Some(_) => return len + 3,
            None => break,
        }
    }
    len
}

fn is_json(content: &str) -> bool {
    content.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(content).is_ok()
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

fn push_index(path: &mut String, index: usize) {
    write!(path, "[{index}]").expect("writing to a string cannot fail");
}
