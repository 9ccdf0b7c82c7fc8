//! Patterns in RE2, the regular expressions of CEL.
//!
//! A pattern is parsed, and what both kinds of expression mean alike is written anew; so a spelling that the other
//! kind would read differently (`a{ 2 }`, `[a&&b]`) never gets there as it stands. Kept are characters of ASCII, `.`,
//! `^`, `$`, groups, alternatives, repetitions up to RE2's 1000, and classes of characters, ranges and `[:names:]`.

use regex_syntax::ast::{
    AssertionKind, Ast, ClassAscii, ClassAsciiKind, ClassBracketed, ClassSet, ClassSetItem, GroupKind, Repetition,
    RepetitionKind, RepetitionRange, parse::Parser,
};

/// How often RE2 repeats a part at most, repetitions of repetitions multiplied (Go's `regexp/syntax`).
const MOST_REPETITIONS: u32 = 1000;

/// The names of classes; both kinds of expression take them as ASCII.
const CLASS_NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// The pattern in RE2.
///
/// # Errors
/// What it has that RE2 cannot say or means otherwise, and what to write in its place.
pub(super) fn translated(pattern: &str) -> Result<String, String> {
    let ast = Parser::new().parse(pattern).map_err(|error| error.kind().to_string())?;
    let mut text = String::new();
    write(&ast, MOST_REPETITIONS, &mut text)?;
    Ok(text)
}

fn write(ast: &Ast, repetitions: u32, out: &mut String) -> Result<(), String> {
    match ast {
        Ast::Empty(_) => Ok(()),
        Ast::Flags(_) => Err(FLAGS.to_owned()),
        Ast::Literal(literal) => write_char(literal.c, "", out),
        Ast::Dot(_) => {
            out.push('.');
            Ok(())
        }
        Ast::Assertion(assertion) => write_assertion(&assertion.kind, out),
        Ast::ClassPerl(_) | Ast::ClassUnicode(_) => Err(UNICODE_CLASS.to_owned()),
        Ast::ClassBracketed(class) => write_class(class, out),
        Ast::Repetition(repetition) => write_repetition(repetition, repetitions, out),
        Ast::Group(group) => match &group.kind {
            GroupKind::NonCapturing(flags) if !flags.items.is_empty() => Err(FLAGS.to_owned()),
            _ => write_group(&group.ast, repetitions, out),
        },
        Ast::Alternation(alternation) => alternation.asts.iter().enumerate().try_for_each(|(index, ast)| {
            out.push_str(if index > 0 { "|" } else { "" });
            write(ast, repetitions, out)
        }),
        Ast::Concat(concat) => concat.asts.iter().try_for_each(|ast| write(ast, repetitions, out)),
    }
}

const FLAGS: &str = "flags such as (?i) may mean something else there; write both cases, as in [Aa]";
const UNICODE_CLASS: &str =
    r"\d, \w, \s, \p and the like mean Unicode here and ASCII there; write the characters, as in [0-9] or [0-9A-Za-z_]";

fn write_group(ast: &Ast, repetitions: u32, out: &mut String) -> Result<(), String> {
    out.push_str("(?:");
    write(ast, repetitions, out)?;
    out.push(')');
    Ok(())
}

fn write_assertion(kind: &AssertionKind, out: &mut String) -> Result<(), String> {
    match kind {
        // Without flags they are the text's two ends in both.
        AssertionKind::StartLine | AssertionKind::StartText => out.push('^'),
        AssertionKind::EndLine | AssertionKind::EndText => out.push('$'),
        _ => return Err(r"word boundaries such as \b mean Unicode here and ASCII there; leave them out".to_owned()),
    }
    Ok(())
}

fn write_repetition(repetition: &Repetition, repetitions: u32, out: &mut String) -> Result<(), String> {
    let (least, most) = match &repetition.op.kind {
        RepetitionKind::ZeroOrOne => (0, Some(1)),
        RepetitionKind::ZeroOrMore => (0, None),
        RepetitionKind::OneOrMore => (1, None),
        RepetitionKind::Range(RepetitionRange::Exactly(count)) => (*count, Some(*count)),
        RepetitionKind::Range(RepetitionRange::AtLeast(least)) => (*least, None),
        RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => (*least, Some(*most)),
    };
    let count = most.unwrap_or(least).max(1);
    if count > repetitions {
        return Err(format!(
            "a part is repeated more than {MOST_REPETITIONS} times, which it refuses"
        ));
    }
    let inner = repetitions / count;
    match &*repetition.ast {
        atom @ (Ast::Literal(_) | Ast::Dot(_) | Ast::ClassBracketed(_) | Ast::Group(_)) => write(atom, inner, out)?,
        other => write_group(other, inner, out)?,
    }
    out.push_str(&match (least, most) {
        (0, None) => "*".to_owned(),
        (1, None) => "+".to_owned(),
        (0, Some(1)) => "?".to_owned(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    });
    Ok(())
}

fn write_class(class: &ClassBracketed, out: &mut String) -> Result<(), String> {
    let ClassSet::Item(item) = &class.kind else {
        return Err("it has no &&, -- or ~~ between classes; write the characters that remain".to_owned());
    };
    out.push_str(if class.negated { "[^" } else { "[" });
    write_item(item, out)?;
    out.push(']');
    Ok(())
}

fn write_item(item: &ClassSetItem, out: &mut String) -> Result<(), String> {
    match item {
        ClassSetItem::Empty(_) => Ok(()),
        ClassSetItem::Literal(literal) => write_char(literal.c, "-", out),
        ClassSetItem::Range(range) => {
            write_char(range.start.c, "-", out)?;
            out.push('-');
            write_char(range.end.c, "-", out)
        }
        ClassSetItem::Ascii(class) => {
            write_name(class, out);
            Ok(())
        }
        ClassSetItem::Perl(_) | ClassSetItem::Unicode(_) => Err(UNICODE_CLASS.to_owned()),
        ClassSetItem::Bracketed(_) => Err("it has no class inside of a class; write one class".to_owned()),
        ClassSetItem::Union(union) => union.items.iter().try_for_each(|item| write_item(item, out)),
    }
}

fn write_name(class: &ClassAscii, out: &mut String) {
    let name = CLASS_NAMES.iter().find(|name| is_named(&class.kind, name));
    let name = name.expect("the table has all fourteen names");
    out.push_str(if class.negated { "[:^" } else { "[:" });
    out.push_str(name);
    out.push_str(":]");
}

fn is_named(kind: &ClassAsciiKind, name: &str) -> bool {
    ClassAsciiKind::from_name(name).as_ref() == Some(kind)
}

/// A character that stands for itself; `special` are characters that would not here.
fn write_char(char: char, special: &str, out: &mut String) -> Result<(), String> {
    if !matches!(char, ' '..='~') {
        return Err(format!(
            "{char:?} is no printable character of ASCII, which a label's value consists of"
        ));
    }
    let plain = char.is_ascii_alphanumeric() || "_-/ ".contains(char);
    if !plain || special.contains(char) {
        out.push('\\');
    }
    out.push(char);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn writes_what_both_mean_alike() {
        for (pattern, expected) in [
            ("v[0-9]+", "v[0-9]+"),
            (r"\Av1\.2-rc\z", r"^v1\.2-rc$"),
            ("dev|(prod)|(?P<x>test)|(?:|a)", "dev|(?:prod)|(?:test)|(?:|a)"),
            ("a{0,2}b{3}c{4,}d{5,6}?", "a{0,2}b{3}c{4,}d{5,6}"),
            ("a{ 1 , 2 }", "a{1,2}"),
            ("a**", "(?:a*)*"),
            ("^*a", "(?:^)*a"),
            (r"[-a-c.\]\[^]", r"[\-a-c\.\]\[\^]"),
            (r"[^[:alpha:][:^digit:]x]", "[^[:alpha:][:^digit:]x]"),
            (r"\x41\u0042\%\#_", r"AB\%\#_"),
            ("", ""),
        ] {
            assert_eq!(translated(pattern).as_deref(), Ok(expected), "{pattern}");
        }
    }

    #[test]
    fn refuses_what_is_said_or_meant_otherwise() {
        for (pattern, reason) in [
            (r"(?i)dev", "flags"),
            (r"(?i:dev)", "flags"),
            ("(?x) a b", "flags"),
            (r"\d+", "Unicode here"),
            (r"[\w-]+", "Unicode here"),
            (r"\pL", "Unicode here"),
            (r"[\p{Greek}]", "Unicode here"),
            (r"a\b", "boundaries"),
            (r"\Ba", "boundaries"),
            (r"\b{start}a", "boundaries"),
            ("é", "ASCII"),
            ("a\\nb", "ASCII"),
            ("[a-é]", "ASCII"),
            ("[a-z&&[^x]]", "&&"),
            ("[a--b]", "--"),
            ("[a[bc]]", "inside of a class"),
            ("a{1001}", "1000"),
            ("(a{100}){11}", "1000"),
        ] {
            let refused = translated(pattern).expect_err(pattern);
            assert!(refused.contains(reason), "{pattern}: {refused}");
        }
    }

    proptest! {
        /// What is written means the same; that RE2 takes it is seen on the API server.
        #[test]
        fn keeps_the_meaning(
            pattern in r"((v|\[a-c\]|\.|\[\^x\]|\[\[:alpha:\]-\]|\(a\|b\)|\(\?:c\)|\\\.|\^|\$|\|)(\*|\+|\?|\{1,2\}|\{2,\})?){0,6}",
            values in prop::collection::vec("[a-cvx._-]{0,6}", 20),
        ) {
            prop_assume!(Regex::new(&pattern).is_ok());
            let whole = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).unwrap();
            let (before, after) = (whole(&pattern), whole(&translated(&pattern).unwrap()));
            for value in values {
                prop_assert_eq!(before.is_match(&value), after.is_match(&value), "{} on {}", &pattern, value);
            }
        }
    }
}
