//! Where one document of a stream ends: the line rule of kubectl's reader
//! (`k8s.io/apimachinery/pkg/util/yaml`), which knows separators but no YAML, and its JSON mode.

use serde_json::value::RawValue;

use super::{YamlError, YamlErrorKind};
use super::{json, text};

/// A piece of the stream that holds one document.
pub(super) struct Chunk<'a> {
    pub(super) text: &'a str,
    /// Line of the first character of `text`, from 1.
    pub(super) first_line: usize,
    pub(super) body: Body<'a>,
}

/// What there is to parse in a chunk.
pub(super) enum Body<'a> {
    /// A JSON value of a stream that is read as JSON.
    Json { text: &'a str, first_line: usize },
    /// YAML without its separator line and byte order mark.
    Yaml { text: &'a str, first_line: usize },
}

/// Splits a stream into chunks whose texts concatenate to `input`.
pub(super) fn split(input: &str) -> Result<Vec<Chunk<'_>>, YamlError> {
    // kubectl drops the mark before it looks at anything else.
    let unmarked = input.strip_prefix('\u{feff}').unwrap_or(input);
    let mut chunks = Vec::new();
    let rest = if unmarked.trim_start().starts_with('{') {
        take_json(unmarked, &mut chunks)?
    } else {
        unmarked
    };
    if !rest.is_empty() || (chunks.is_empty() && !input.is_empty()) {
        let read = unmarked.len() - rest.len();
        split_yaml(rest, line_at(unmarked, read), &mut chunks)?;
    }
    if let Some(first) = chunks.first_mut() {
        first.text = &input[..input.len() - unmarked.len() + first.text.len()];
    }
    Ok(chunks)
}

/// Takes the JSON values at the start. kubectl falls back to YAML for the rest when what follows
/// the first value is no JSON; after a second value the stream is JSON to its end.
fn take_json<'a>(input: &'a str, chunks: &mut Vec<Chunk<'a>>) -> Result<&'a str, YamlError> {
    let mut values = serde_json::Deserializer::from_str(input).into_iter::<&RawValue>();
    let (mut end, mut line) = (0, 1);
    while let Some(value) = values.next() {
        match value {
            Ok(raw) => {
                let next = values.byte_offset();
                let text = &input[end..next];
                let body = Body::Json {
                    text: raw.get(),
                    first_line: line + breaks(&input[end..next - raw.get().len()]),
                };
                chunks.push(Chunk {
                    text,
                    first_line: line,
                    body,
                });
                line += breaks(text);
                end = next;
            }
            Err(error) if chunks.len() > 1 || is_scalar(&input[end..], chunks) => {
                return Err(json::error_at(&error, 1));
            }
            Err(_) => break,
        }
    }
    give_blanks_to_last(input, end, chunks)
}

/// Whether a number or word follows the first value. Go's decoder takes it for a second value whatever
/// stands behind it, so that the stream is JSON.
fn is_scalar(rest: &str, chunks: &[Chunk<'_>]) -> bool {
    let rest = rest.trim_start();
    let digits = rest.strip_prefix('-').unwrap_or(rest);
    let is_word = ["true", "false", "null"].iter().any(|word| rest.starts_with(word));
    !chunks.is_empty() && (is_word || digits.starts_with(|first: char| first.is_ascii_digit()))
}

/// White space up to the first line break belongs to the JSON value before it; at the end of the
/// input all of it does.
fn give_blanks_to_last<'a>(input: &'a str, end: usize, chunks: &mut [Chunk<'a>]) -> Result<&'a str, YamlError> {
    let rest = &input[end..];
    let blank = rest.len() - rest.trim_start().len();
    let newline = rest[..blank].find('\n');
    // kubectl looks four bytes ahead when it goes from JSON to YAML, and fails without them.
    if blank < rest.len() && rest.len() - newline.unwrap_or(blank) < 4 {
        let line = line_at(input, end + blank);
        return Err(YamlError {
            line,
            column: 1,
            kind: YamlErrorKind::ShortRest,
        });
    }
    let Some(last) = chunks.last_mut() else {
        return Ok(input);
    };
    let taken = match newline {
        Some(newline) if blank < rest.len() => newline + 1,
        _ => blank,
    };
    let start = end - last.text.len();
    last.text = &input[start..end + taken];
    Ok(&input[end + taken..])
}

fn split_yaml<'a>(rest: &'a str, first_line: usize, chunks: &mut Vec<Chunk<'a>>) -> Result<(), YamlError> {
    let (mut start, mut start_line, mut position) = (0, first_line, 0);
    let mut may_be_marked = false;
    for (line, whole) in (first_line..).zip(rest.split_inclusive('\n')) {
        if let Some(tail) = whole.strip_prefix("---") {
            check_separator(tail, line)?;
            // kubectl's parser is given the first one of a stream, comment and all.
            text::check(whole, line)?;
            if position > start {
                let chunk = yaml_chunk(&rest[start..position], start_line, may_be_marked);
                may_be_marked = !matches!(chunk.body, Body::Yaml { text: "", .. });
                chunks.push(chunk);
            }
            (start, start_line) = (position, line);
        }
        position += whole.len();
    }
    chunks.push(yaml_chunk(&rest[start..], start_line, may_be_marked));
    Ok(())
}

fn check_separator(tail: &str, line: usize) -> Result<(), YamlError> {
    let text = tail.trim();
    // `---#` is a separator to kubectl between documents, and text before the first one.
    if text.is_empty() || (text.starts_with('#') && !tail.starts_with('#')) {
        return Ok(());
    }
    let kind = YamlErrorKind::Separator(text.chars().take(40).collect());
    Err(YamlError { line, column: 1, kind })
}

/// kubectl's parser takes a byte order mark only at the start of what it is given: behind a
/// separator, but for one at the start of the stream or behind another.
fn yaml_chunk(text: &str, first_line: usize, may_be_marked: bool) -> Chunk<'_> {
    let body = if text.starts_with("---") {
        text.split_once('\n').map_or("", |(_, body)| body)
    } else {
        text
    };
    let body_line = first_line + breaks(&text[..text.len() - body.len()]);
    let body = body.strip_prefix('\u{feff}').filter(|_| may_be_marked).unwrap_or(body);
    Chunk {
        text,
        first_line,
        body: Body::Yaml {
            text: body,
            first_line: body_line,
        },
    }
}

fn line_at(input: &str, offset: usize) -> usize {
    1 + breaks(&input[..offset])
}

fn breaks(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(input: &str) -> Vec<(&str, usize)> {
        let chunks = split(input).expect("splits");
        assert_eq!(chunks.iter().map(|chunk| chunk.text).collect::<String>(), input);
        chunks.iter().map(|chunk| (chunk.text, chunk.first_line)).collect()
    }

    #[test]
    fn splits_at_separator_lines_only() {
        assert_eq!(texts(""), []);
        assert_eq!(texts("\u{feff}"), [("\u{feff}", 1)]);
        assert_eq!(texts("a: 1\n"), [("a: 1\n", 1)]);
        assert_eq!(
            texts("# c\n--- # d\na: |\n ---\n---\n"),
            [("# c\n", 1), ("--- # d\na: |\n ---\n", 2), ("---\n", 5)]
        );
        assert_eq!(texts("---\r\na: 1\r\n---"), [("---\r\na: 1\r\n", 1), ("---", 3)]);
    }

    #[test]
    fn splits_json_streams() {
        assert_eq!(texts("{}{}\n {} \n\n"), [("{}", 1), ("{}", 1), ("\n {} \n\n", 1)]);
        assert_eq!(
            texts("\n{}\n\n---\na: 1\n"),
            [("\n{}\n", 1), ("\n", 3), ("---\na: 1\n", 4)]
        );
        assert_eq!(texts("{a: 1}\n---\n{}\n"), [("{a: 1}\n", 1), ("---\n{}\n", 2)]);
        assert!(split("{}\n{}\n---\n{}\n").is_err());
    }

    #[test]
    fn refuses_characters_in_the_comment_of_a_separator() {
        for (text, line) in [("--- #\u{1b}[1m\na: 1\n", 1), ("a: 1\n--- # \u{2028}\nb: 1\n", 2)] {
            let error = split(text).map(|_| ()).expect_err("refused");
            assert_eq!(error.line, line, "{text:?}");
        }
    }

    #[test]
    fn refuses_content_behind_a_separator() {
        let error = split("a: 1\n--- {b: 1}\n").map(|_| ()).expect_err("refused");
        assert_eq!((error.line, error.column), (2, 1));
    }
}
