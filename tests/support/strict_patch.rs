//! RFC 6902 at its strictest: `add` alone, below a parent that is there, and nothing replaced.

use serde_json::Value;

/// `document` with `patch` applied.
///
/// # Errors
/// An operation other than `add`, a parent that is missing, an index out of range, or a value that
/// an `add` would replace (null counts as none).
pub(crate) fn apply(document: &Value, patch: &Value) -> Result<Value, String> {
    let operations = patch.as_array().ok_or("the patch is no array")?;
    let mut result = document.clone();
    for operation in operations {
        add(&mut result, operation).map_err(|reason| format!("{operation}: {reason}"))?;
    }
    Ok(result)
}

fn add(document: &mut Value, operation: &Value) -> Result<(), String> {
    if operation["op"] != "add" {
        return Err("an operation other than add".to_owned());
    }
    let path = operation["path"].as_str().ok_or("no path")?;
    let value = operation.get("value").ok_or("no value")?.clone();
    let (parent, last) = path.rsplit_once('/').ok_or("a path that begins with no slash")?;
    let place = tokens(parent)?
        .iter()
        .try_fold(document, |place, token| child(place, token))?;
    match place {
        Value::Object(map) => match map.insert(unescaped(last)?, value) {
            None | Some(Value::Null) => Ok(()),
            Some(old) => Err(format!("it would replace {old}")),
        },
        Value::Array(list) => {
            let at = if last == "-" { list.len() } else { index(last)? };
            if at > list.len() {
                return Err(format!("index {at} in a list of {}", list.len()));
            }
            list.insert(at, value);
            Ok(())
        }
        other => Err(format!("the parent is {other}")),
    }
}

fn child<'v>(place: &'v mut Value, token: &str) -> Result<&'v mut Value, String> {
    let missing = || format!("no parent {token}");
    match place {
        Value::Object(map) => map.get_mut(token).ok_or_else(missing),
        Value::Array(list) => list.get_mut(index(token)?).ok_or_else(missing),
        other => Err(format!("{token} below {other}")),
    }
}

/// An index without leading zeros or a sign.
fn index(token: &str) -> Result<usize, String> {
    let number: usize = token.parse().map_err(|_| format!("{token} is no index"))?;
    if number.to_string() == token {
        Ok(number)
    } else {
        Err(format!("{token} is no index"))
    }
}

fn tokens(pointer: &str) -> Result<Vec<String>, String> {
    let mut parts = pointer.split('/');
    if parts.next() != Some("") {
        return Err("a pointer that begins with no slash".to_owned());
    }
    parts.map(unescaped).collect()
}

/// A token with its `~0` and `~1` read (RFC 6901); any other `~` is wrong.
fn unescaped(token: &str) -> Result<String, String> {
    let plain = token.replace("~1", "").replace("~0", "");
    if plain.contains('~') {
        return Err(format!("{token} has a tilde that is no escape"));
    }
    Ok(token.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn adds_to_maps_and_lists() {
        let before = json!({"a": {"x": null}, "l": [1, 3]});
        let patch = json!([
            {"op": "add", "path": "/a/b~1c~0d", "value": 1},
            {"op": "add", "path": "/a/x", "value": []},
            {"op": "add", "path": "/a/x/0", "value": 0},
            {"op": "add", "path": "/l/1", "value": 2},
            {"op": "add", "path": "/l/-", "value": 4},
        ]);
        let after = json!({"a": {"x": [0], "b/c~d": 1}, "l": [1, 2, 3, 4]});
        assert_eq!(apply(&before, &patch), Ok(after));
    }

    #[test]
    fn refuses_what_a_strict_implementation_refuses() {
        let before = json!({"a": {"x": 1}, "l": [1], "n": null});
        for (path, reason) in [
            ("/m/x", "no parent"),
            ("/n/x", "the parent is null"),
            ("/a/x", "replace"),
            ("/l/2", "index 2"),
            ("/l/01", "no index"),
            ("/a/~2", "tilde"),
            ("x", "slash"),
            ("", "slash"),
        ] {
            let error = apply(&before, &json!([{"op": "add", "path": path, "value": 1}])).expect_err("it is refused");
            assert!(error.contains(reason), "{path}: {error}");
        }
        for op in ["remove", "replace", "move", "copy", "test"] {
            let patch = json!([{"op": op, "path": "/a/x", "from": "/l", "value": 1}]);
            assert!(apply(&before, &patch).is_err(), "{op}");
        }
    }
}
