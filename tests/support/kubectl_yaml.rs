//! Where kubectl's reading of YAML may differ from Outrigger's, and numbers that are the same to both.

use serde_json::{Map, Number, Value};

/// What kubectl's parser refuses (part of its message, part of the input) and we read, with the reason.
const LENIENT: [(&str, &str, &str); 4] = [
    ("cannot start any token", "\t", "a tab without content changes nothing"),
    ("tab character", "\t", "a tab without content changes nothing"),
    ("unknown escape character", "\\/", "an escaped slash has one meaning"),
    ("Unicode character escape", "\\u", "a surrogate pair has one meaning"),
];

/// Whether that is why kubectl refuses the input.
pub(crate) fn is_lenient(input: &str, error: &str) -> bool {
    LENIENT
        .iter()
        .any(|(message, part, _)| error.contains(message) && input.contains(part))
}

/// Whole floats as integers: JSON does not tell them apart, Go writes `1.0` as `1`.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => normal_number(number),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), normal(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn normal_number(number: &Number) -> Value {
    let Some(float) = number.as_f64().filter(|float| number.is_f64() && float.abs() < 1e21) else {
        return number.clone().into();
    };
    // No digits after the point: the shortest decimal of a whole float.
    let digits = format!("{float}");
    let whole = digits.parse::<i64>().map(Value::from);
    let whole = whole.or_else(|_| digits.parse::<u64>().map(Value::from));
    whole.unwrap_or_else(|_| number.clone().into())
}
