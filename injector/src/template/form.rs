//! What a template may use.

use handlebars::template::{HelperTemplate, Parameter, Template, TemplateElement};

use super::TemplateError;

/// Blocks nested deeper than this are refused before they are parsed: the parser recurses.
const MOST_BLOCKS: usize = 200;
const MOST_BYTES: usize = 256 << 10;
const PRINTERS: [&str; 2] = ["json", "nginx"];
const BLOCKS: [&str; 3] = ["if", "unless", "each"];

/// What can be told from the text alone, so that the parser is not led into deep recursion.
pub(super) fn check_text(file: &str, source: &str) -> Result<(), TemplateError> {
    let blocks = source.matches("{{#").count() + source.matches("{{~#").count() + source.matches("{{else").count();
    let reason = if source.len() > MOST_BYTES {
        format!("has more than {MOST_BYTES} bytes")
    } else if blocks > MOST_BLOCKS {
        format!("has {blocks} blocks; at most {MOST_BLOCKS} are possible")
    } else if let Some(line) = tags(source).find(|(_, tag)| tag.contains('(')).map(|(line, _)| line) {
        format!("line {line}: no subexpressions; values are worked out before")
    } else {
        return Ok(());
    };
    Err(TemplateError::Form {
        file: file.to_owned(),
        reason,
    })
}

/// The text of each tag with the number of its line.
fn tags(source: &str) -> impl Iterator<Item = (usize, &str)> {
    source.match_indices("{{").map(|(start, _)| {
        let rest = &source[start..];
        let line = source[..start].matches('\n').count() + 1;
        (line, rest.find("}}").map_or(rest, |end| &rest[..end]))
    })
}

/// Refuses every element but text, comments, `{{json x}}`, `{{nginx x}}` and plain blocks.
pub(super) fn check_elements(file: &str, template: &Template) -> Result<(), TemplateError> {
    template
        .elements
        .iter()
        .zip(&template.mapping)
        .try_for_each(|(element, at)| {
            let refuse = |reason: String| TemplateError::Form {
                file: file.to_owned(),
                reason: format!("line {}: {reason}", at.0),
            };
            match element {
                TemplateElement::RawString(_) | TemplateElement::Comment(_) => Ok(()),
                TemplateElement::Expression(helper) if is_one_of(helper, &PRINTERS) => {
                    plain_parameters(helper).map_err(refuse)
                }
                TemplateElement::HelperBlock(helper) if is_one_of(helper, &BLOCKS) => {
                    plain_parameters(helper).map_err(refuse)?;
                    let inner = [&helper.template, &helper.inverse];
                    inner
                        .into_iter()
                        .flatten()
                        .try_for_each(|inner| check_elements(file, inner))
                }
                TemplateElement::HtmlExpression(_) => {
                    Err(refuse("{{{x}}} prints a value without an encoder".to_owned()))
                }
                TemplateElement::Expression(helper) => Err(refuse(format!(
                    "{{{{{}}}}}: a value is printed by {{{{json x}}}} or {{{{nginx x}}}} alone",
                    name(helper)
                ))),
                TemplateElement::HelperBlock(helper) => Err(refuse(format!(
                    "{{{{#{}}}}}: only if, unless and each are possible",
                    name(helper)
                ))),
                _ => Err(refuse("no partials and no decorators".to_owned())),
            }
        })
}

fn name(helper: &HelperTemplate) -> &str {
    helper.name.as_name().unwrap_or("…")
}

fn is_one_of(helper: &HelperTemplate, names: &[&str]) -> bool {
    helper.name.as_name().is_some_and(|name| names.contains(&name))
}

fn plain_parameters(helper: &HelperTemplate) -> Result<(), String> {
    let plain = helper.params.len() == 1
        && helper
            .params
            .iter()
            .all(|p| matches!(p, Parameter::Path(_) | Parameter::Name(_)));
    if plain && helper.hash.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: takes the name of one value", name(helper)))
    }
}
