//! A stranger's text, made fit to be seen.

/// The text with control characters escaped, and those that are not seen or that turn the direction of
/// what follows, so that it reads as it is.
pub(super) fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut seen, c| {
        if is_hidden(c) {
            seen.extend(c.escape_unicode());
        } else {
            seen.push(c);
        }
        seen
    })
}

/// Controls, marks of direction (Unicode Annex #9), characters without width, and what is no character.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_spelled_out() {
        assert_eq!(visible("a\u{1b}[31m\n\u{202e}b…é"), "a\\u{1b}[31m\\u{a}\\u{202e}b…é");
    }
}
