//! What must hold of a text before it is parsed: its encoding, its characters, its line breaks.

use std::borrow::Cow;

use super::{YamlError, YamlErrorKind};

/// The text of a file; a byte order mark of UTF-8 stays in place.
///
/// # Errors
/// When the bytes are UTF-16 or UTF-32, by their byte order mark, or no UTF-8.
pub fn decode_utf8(bytes: &[u8]) -> Result<&str, YamlError> {
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, 0, 0xfe, 0xff, ..] = bytes {
        return Err(YamlError {
            line: 1,
            column: 1,
            kind: YamlErrorKind::NotUtf8Encoding,
        });
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        error_at(&valid, valid.len(), 1, YamlErrorKind::InvalidUtf8)
    })
}

/// Refuses the characters that kubectl's parser refuses, and those that it takes for line breaks
/// while YAML 1.2 does not. A byte order mark it loses count of, here and there: YAML has none within plain text.
pub(super) fn check(text: &str, first_line: usize) -> Result<(), YamlError> {
    for (position, char) in text.char_indices() {
        let kind = match char {
            '\u{85}' | '\u{2028}' | '\u{2029}' => YamlErrorKind::LineBreakCharacter(char),
            '\u{feff}' => YamlErrorKind::ByteOrderMark,
            '\r' if !text[position..].starts_with("\r\n") => YamlErrorKind::CarriageReturn,
            '\t' | '\n' | '\r' => continue,
            _ if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => YamlErrorKind::Character(char),
            _ => continue,
        };
        return Err(error_at(text, position, first_line, kind));
    }
    Ok(())
}

/// Refuses `...` before any content: kubectl's parser does, or ignores all that follows.
pub(super) fn check_first_line(text: &str, first_line: usize) -> Result<(), YamlError> {
    let significant = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    let first = (first_line..).zip(text.lines()).find(|(_, line)| significant(line));
    match first.and_then(|(line, text)| Some((line, text.strip_prefix("...")?))) {
        Some((line, rest)) if rest.is_empty() || rest.starts_with(char::is_whitespace) => Err(YamlError {
            line,
            column: 1,
            kind: YamlErrorKind::EndWithoutDocument,
        }),
        _ => Ok(()),
    }
}

/// The text as kubectl's line reader passes it on: `\n` for `\r\n`, and one at the end.
pub(super) fn with_unix_breaks(text: &str) -> Cow<'_, str> {
    let text = if text.contains("\r\n") {
        Cow::Owned(text.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(text)
    };
    if text.is_empty() || text.ends_with('\n') {
        text
    } else {
        Cow::Owned(text.into_owned() + "\n")
    }
}

fn error_at(text: &str, position: usize, first_line: usize, kind: YamlErrorKind) -> YamlError {
    let before = &text[..position];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = first_line + before.bytes().filter(|byte| *byte == b'\n').count();
    YamlError {
        line,
        column: before[start..].chars().count() + 1,
        kind,
    }
}
