//! The two encoders through which every value gets into a template's output.

use handlebars::{Context, Handlebars, Helper, HelperResult, Output, RenderContext, RenderError, RenderErrorReason};
use serde_json::Value;

/// A writer that refuses to hold more than it may.
pub(super) struct Capped {
    bytes: Vec<u8>,
    most: usize,
    /// Whether it has refused.
    pub(super) full: bool,
}

impl Capped {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            most,
            full: false,
        }
    }

    pub(super) fn into_string(self) -> String {
        String::from_utf8(self.bytes).expect("handlebars writes whole strings")
    }
}

impl std::io::Write for &mut Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            self.full = true;
            return Err(std::io::Error::other(format!(
                "more than {} bytes of output",
                self.most
            )));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The value of a helper that takes one, which has to be there.
pub(super) fn one_parameter<'h>(helper: &'h Helper<'_>) -> Result<&'h Value, RenderError> {
    match helper.params().as_slice() {
        // Strict mode looks at plain expressions only; a helper has to ask for itself.
        [value] if value.is_value_missing() => {
            Err(RenderErrorReason::MissingVariable(value.relative_path().cloned()).into())
        }
        [value] if helper.hash().is_empty() => Ok(value.value()),
        _ => Err(RenderErrorReason::Other(format!("{{{{{} x}}}} takes exactly one value", helper.name())).into()),
    }
}

/// `{{json x}}`: any value as JSON, which is YAML too.
pub(super) fn json_helper(
    helper: &Helper<'_>,
    _: &Handlebars<'_>,
    _: &Context,
    _: &mut RenderContext<'_, '_>,
    out: &mut dyn Output,
) -> HelperResult {
    out.write(&json(one_parameter(helper)?))?;
    Ok(())
}

/// `{{nginx x}}`: a string or number as one word of nginx's configuration.
pub(super) fn nginx_helper(
    helper: &Helper<'_>,
    _: &Handlebars<'_>,
    _: &Context,
    _: &mut RenderContext<'_, '_>,
    out: &mut dyn Output,
) -> HelperResult {
    let value = one_parameter(helper)?;
    let word = nginx(value).ok_or_else(|| RenderErrorReason::Other(format!("no word of nginx: {value}")))?;
    out.write(&word)?;
    Ok(())
}

/// JSON in which the characters are escaped that YAML does not allow or that its readers disagree on.
fn json(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.chars().any(is_unsafe) {
        return plain;
    }
    // Such characters can stand inside strings only, where the escape means the same.
    plain
        .chars()
        .fold(String::with_capacity(plain.len() + 16), |mut text, c| {
            if is_unsafe(c) {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            } else {
                text.push(c);
            }
            text
        })
}

/// Outside YAML 1.2's printable set, a line break of YAML 1.1, or a byte order mark.
const fn is_unsafe(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// A quoted word; `None` for what cannot be quoted: nginx has no escape for `$`, and lines and
/// control characters have no place in a word.
fn nginx(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.chars().any(|c| c == '$' || c.is_control()) => {
            Some(format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_every_character_reads_back_as_yaml() {
        let all: Vec<char> = (0..=0x0010_ffff).filter_map(char::from_u32).collect();
        for chunk in all.chunks(4096) {
            let text: String = chunk.iter().collect();
            let yaml = format!("a: {}\nb: 1\n", json(&Value::String(text.clone())));
            let read = crate::yaml::parse_one(&yaml).unwrap_or_else(|e| panic!("{:?}: {e}", chunk[0]));
            assert_eq!(read["a"], text);
            assert_eq!(read["b"], 1);
        }
    }

    #[test]
    fn rejects_names_that_are_not_there_and_prints_null() {
        let context = Context::wraps(serde_json::json!({"proxy": {"image": null}})).expect("it is JSON");
        for (template, expected) in [
            ("{{json proxy.image}}", Ok("null")),
            ("{{json proxy.imag}}", Err("proxy.imag")),
            ("{{nginx proxy.imag}}", Err("proxy.imag")),
        ] {
            let given = crate::template::registry().render_template_with_context(template, &context);
            match (given, expected) {
                (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{template}"),
                (Err(error), Err(name)) => assert!(error.to_string().contains(name), "{template}: {error}"),
                (given, _) => panic!("{template}: {given:?}"),
            }
        }
    }

    #[test]
    fn nginx_quotes_or_refuses() {
        let word = |text: &str| nginx(&Value::String(text.to_owned()));
        assert_eq!(word("a b;{}#'"), Some(r#""a b;{}#'""#.to_owned()));
        assert_eq!(word(r#"a"b\"#), Some(r#""a\"b\\""#.to_owned()));
        assert_eq!(nginx(&serde_json::json!(8080)), Some("8080".to_owned()));
        for bad in ["a$b", "a\nb", "a\rb", "a\0b", "\u{85}"] {
            assert_eq!(word(bad), None, "{bad:?}");
        }
        for bad in [serde_json::json!(null), serde_json::json!(true), serde_json::json!([1])] {
            assert_eq!(nginx(&bad), None, "{bad}");
        }
    }
}
