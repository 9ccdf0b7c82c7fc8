//! The grammar of nft's scripts, as far as `outrigger redirect` and a stranger could go with it: statements that `;` or the
//! end of a line ends, and blocks (nft(8), "Lexical conventions").
#![allow(dead_code, reason = "each suite uses its own part of the support modules")]

use std::net::IpAddr;

/// A statement: a declaration with its block, or a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its words.
    pub(crate) words: Vec<String>,
    /// What is between its braces.
    pub(crate) block: Option<Vec<Statement>>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

/// Reads a script.
///
/// # Errors
/// Braces or quotes that do not match.
pub(crate) fn parse(script: &str) -> Result<Vec<Statement>, String> {
    let mut tokens = tokens(script)?.into_iter();
    block(&mut tokens, true)
}

fn block(tokens: &mut impl Iterator<Item = Token>, top: bool) -> Result<Vec<Statement>, String> {
    let (mut statements, mut words) = (Vec::new(), Vec::new());
    let end = |words: &mut Vec<String>, statements: &mut Vec<Statement>, block: Option<Vec<Statement>>| {
        if !words.is_empty() || block.is_some() {
            let words = std::mem::take(words);
            statements.push(Statement { words, block });
        }
    };
    loop {
        match tokens.next() {
            Some(Token::Word(word)) => words.push(word),
            Some(Token::End) => end(&mut words, &mut statements, None),
            Some(Token::Open) => {
                let inner = block(tokens, false)?;
                end(&mut words, &mut statements, Some(inner));
            }
            Some(Token::Close) if top => return Err("} in the wrong place".to_owned()),
            None if !top => return Err("a block does not end".to_owned()),
            Some(Token::Close) | None => {
                end(&mut words, &mut statements, None);
                return Ok(statements);
            }
        }
    }
}

fn tokens(script: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'\n').is_some() => {}
            '\n' | ';' => tokens.push(Token::End),
            '{' => tokens.push(Token::Open),
            '}' => tokens.push(Token::Close),
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' => {
                let text: String = std::iter::from_fn(|| chars.next_if(|c| *c != '"')).collect();
                chars.next().ok_or("a quote is not closed")?;
                tokens.push(Token::Word(format!("{text:?}")));
            }
            c if c.is_whitespace() => {}
            c => {
                let rest = std::iter::from_fn(|| chars.next_if(|c| !c.is_whitespace() && !";{}#\"".contains(*c)));
                tokens.push(Token::Word(std::iter::once(c).chain(rest).collect()));
            }
        }
    }
    Ok(tokens)
}

/// The script without its values: numbers and addresses are leaves, of which the kind alone counts.
pub(crate) fn shape(statements: &[Statement]) -> String {
    statements
        .iter()
        .map(|statement| {
            let words: Vec<&str> = statement.words.iter().map(|word| leaf(word)).collect();
            let block = statement.block.as_ref().map(|inner| format!(" {{\n{}}}", shape(inner)));
            format!("{}{}\n", words.join(" "), block.unwrap_or_default())
        })
        .collect()
}

fn leaf(word: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match word.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => "<IPv4>",
        Ok(IpAddr::V6(_)) => "<IPv6>",
        Err(_) if is_number(word) => "<number>",
        Err(_) if word.strip_prefix(':').is_some_and(is_number) => ":<number>",
        Err(_) => word,
    }
}

/// How many rules there are: what stands in a chain, but for the declarations of the chain itself.
pub(crate) fn count_rules(statements: &[Statement]) -> usize {
    let declares = |statement: &Statement| ["type", "policy"].contains(&statement.words[0].as_str());
    let in_chain = |statement: &Statement| {
        let rules = statement.block.iter().flatten().filter(|inner| !declares(inner));
        rules.count()
    };
    statements
        .iter()
        .map(|statement| match statement.words.first().map(String::as_str) {
            Some("chain") => in_chain(statement),
            _ => statement.block.as_deref().map_or(0, count_rules),
        })
        .sum()
}
