//! A patch applied as RFC 6902 has it, and stricter: `add` is the only operation, it replaces no
//! value but null, and every parent is there.

use serde_json::Value;

/// Applies `patch` to `document`.
///
/// # Errors
/// The first operation that is not allowed, and why.
pub(crate) fn apply(document: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a patch is a list")?;
    for operation in operations {
        add(document, operation).map_err(|reason| format!("{reason}: {operation}"))?;
    }
    Ok(())
}

fn add(document: &mut Value, operation: &Value) -> Result<(), String> {
    let fields: Vec<&str> = operation
        .as_object()
        .ok_or("an operation is an object")?
        .keys()
        .map(String::as_str)
        .collect();
    if fields != ["op", "path", "value"] || operation["op"] != "add" {
        return Err("only op add, with path and value".to_owned());
    }
    let path = operation["path"].as_str().ok_or("path is no string")?;
    let tokens = tokens(path)?;
    let (last, parents) = tokens.split_last().ok_or("the whole document cannot be added")?;
    let parent = parents.iter().try_fold(document, |value, token| child(value, token))?;
    insert(parent, last, operation["value"].clone())
}

/// The tokens of a pointer (RFC 6901); `~` is followed by 0 or 1.
fn tokens(pointer: &str) -> Result<Vec<String>, String> {
    let rest = pointer.strip_prefix('/').ok_or("a pointer begins with /")?;
    rest.split('/').map(unescape).collect()
}

fn unescape(token: &str) -> Result<String, String> {
    let mut parts = token.split('~');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(1).ok_or("a lone ~")?;
        text.push(match code {
            "0" => '~',
            "1" => '/',
            _ => return Err(format!("~{code} is no escape")),
        });
        text.push_str(rest);
    }
    Ok(text)
}

fn child<'v>(value: &'v mut Value, token: &str) -> Result<&'v mut Value, String> {
    let found = match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(list) => list.get_mut(index(token)?),
        _ => None,
    };
    found.ok_or_else(|| format!("the parent {token} is not there"))
}

fn insert(parent: &mut Value, token: &str, value: Value) -> Result<(), String> {
    match parent {
        Value::Object(map) if map.get(token).is_none_or(Value::is_null) => {
            map.insert(token.to_owned(), value);
            Ok(())
        }
        Value::Object(_) => Err(format!("{token} has a value, which add would replace")),
        Value::Array(list) if token == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            let index = index(token)?;
            if index > list.len() {
                return Err(format!("index {index} of a list of {}", list.len()));
            }
            list.insert(index, value);
            Ok(())
        }
        _ => Err("the parent is neither map nor list".to_owned()),
    }
}

/// An index: digits without a leading zero.
fn index(token: &str) -> Result<usize, String> {
    let number: usize = token.parse().map_err(|_| format!("{token} is no index"))?;
    if number.to_string() == token {
        Ok(number)
    } else {
        Err(format!("{token} is no index"))
    }
}
