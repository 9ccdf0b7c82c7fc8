//! The grammar of nginx's configuration: words, `;`, `{` and `}`, as its own reader splits them
//! (`ngx_conf_read_token`).

use std::collections::BTreeSet;

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Its text, without quotes and escapes.
    pub(crate) text: String,
    /// Whether it was quoted.
    pub(crate) quoted: bool,
}

/// A directive with its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Its name and arguments.
    pub(crate) words: Vec<Word>,
    /// What is between its braces; `None` when `;` ends it.
    pub(crate) block: Option<Vec<Directive>>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(Word),
    End,
    Open,
    Close,
}

/// Reads a configuration.
///
/// # Errors
/// What nginx would refuse.
pub(crate) fn parse(text: &str) -> Result<Vec<Directive>, String> {
    let mut tokens = tokens(text)?.into_iter();
    block(&mut tokens, true)
}

fn block(tokens: &mut impl Iterator<Item = Token>, top: bool) -> Result<Vec<Directive>, String> {
    let (mut directives, mut words) = (Vec::new(), Vec::new());
    while let Some(token) = tokens.next() {
        match token {
            Token::Word(word) => words.push(word),
            Token::End | Token::Open if words.is_empty() => return Err("no directive before ; or {".to_owned()),
            Token::End => directives.push(Directive {
                words: std::mem::take(&mut words),
                block: None,
            }),
            Token::Open => {
                let words = std::mem::take(&mut words);
                directives.push(Directive {
                    words,
                    block: Some(block(tokens, false)?),
                });
            }
            Token::Close if words.is_empty() && !top => return Ok(directives),
            Token::Close => return Err("} in the wrong place".to_owned()),
        }
    }
    if top && words.is_empty() {
        Ok(directives)
    } else {
        Err("unexpected end".to_owned())
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => {}
            ';' => tokens.push(Token::End),
            '{' => tokens.push(Token::Open),
            '}' => tokens.push(Token::Close),
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' => tokens.push(Token::Word(quoted(c, &mut chars)?)),
            c => tokens.push(Token::Word(plain(c, &mut chars)?)),
        }
    }
    Ok(tokens)
}

type Chars<'c> = std::iter::Peekable<std::str::Chars<'c>>;

/// A quoted word: what follows the closing quote has to be a blank or the end of the directive.
fn quoted(quote: char, chars: &mut Chars<'_>) -> Result<Word, String> {
    let mut text = String::new();
    loop {
        match chars.next().ok_or("a quote is not closed")? {
            c if c == quote => break,
            '\\' => text.push(escaped(chars)?),
            c => text.push(c),
        }
    }
    match chars.peek() {
        None | Some(' ' | '\t' | '\r' | '\n' | ';' | '{' | ')') => Ok(Word { text, quoted: true }),
        Some(c) => Err(format!("{c:?} directly after a quote")),
    }
}

/// A word without quotes: it ends at a blank, `;` or `{`; `${` belongs to it.
fn plain(first: char, chars: &mut Chars<'_>) -> Result<Word, String> {
    let mut text = String::new();
    let mut next = Some(first);
    while let Some(c) = next {
        text.push(if c == '\\' { escaped(chars)? } else { c });
        let variable = c == '$';
        next = chars.next_if(|c| !matches!(c, ' ' | '\t' | '\r' | '\n' | ';') && (variable || *c != '{'));
    }
    Ok(Word { text, quoted: false })
}

fn escaped(chars: &mut Chars<'_>) -> Result<char, String> {
    Ok(match chars.next().ok_or("a backslash at the end")? {
        't' => '\t',
        'r' => '\r',
        'n' => '\n',
        c => c,
    })
}

/// Directives whose blocks hold data and no directives.
const TABLES: [&str; 2] = ["map", "split_clients"];

/// The paths of all directives, such as `http/server/location/proxy_pass`. The rows of a table
/// count as one directive, `row`.
pub(crate) fn paths(directives: &[Directive]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect("", directives, &mut found);
    found
}

fn collect(parent: &str, directives: &[Directive], found: &mut BTreeSet<String>) {
    let in_table = TABLES.iter().any(|table| parent.ends_with(&format!("/{table}/")));
    for Directive { words, block } in directives {
        let name = if in_table { "row" } else { &words[0].text };
        let path = format!("{parent}{name}");
        if let Some(inner) = block {
            collect(&format!("{path}/"), inner, found);
        }
        found.insert(path);
    }
}

/// The tree without its arguments: what is left must not depend on a stranger's text.
pub(crate) fn shape(directives: &[Directive]) -> String {
    shape_in("", directives)
}

/// In a table, what a row begins with is data, but for the words that mean something there (ngx_http_map_module).
fn shape_in(parent: &str, directives: &[Directive]) -> String {
    const SPECIAL: [&str; 5] = ["default", "hostnames", "include", "volatile", "*"];
    let of = |Directive { words, block }: &Directive| {
        let first = words[0].text.as_str();
        let name = if TABLES.contains(&parent) && !SPECIAL.contains(&first) {
            "row"
        } else {
            first
        };
        match block {
            Some(inner) => format!("{name}/{}{{{}}}", words.len(), shape_in(first, inner)),
            None => format!("{name}/{};", words.len()),
        }
    };
    directives.iter().map(of).collect()
}

/// Every word of every directive.
pub(crate) fn words(directives: &[Directive]) -> Vec<&Word> {
    let mut found = Vec::new();
    for Directive { words, block } in directives {
        found.extend(words);
        found.extend(block.iter().flat_map(|inner| self::words(inner)));
    }
    found
}
