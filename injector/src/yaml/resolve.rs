//! What a scalar means: YAML 1.1 as the parser inside kubectl resolves it (go-yaml v2), which
//! differs from both the 1.1 and the 1.2 specification in details that matter.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value};

use super::YamlErrorKind;

/// A resolved scalar that is not simply its own text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Only values above `i64::MAX`.
    Uint(u64),
    Float(f64),
    Text,
    /// Text that is not the source text: decoded `!!binary`.
    Decoded(String),
}

/// Resolves a plain scalar without a tag.
pub(super) fn resolve_plain(text: &str) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'+' | b'-' | b'0'..=b'9') => word(text).or_else(|| number(text)).unwrap_or(Scalar::Text),
        Some(b'.') => word(text).or_else(|| fraction(text)).unwrap_or(Scalar::Text),
        Some(_) => word(text).unwrap_or(Scalar::Text),
    }
}

/// Resolves a scalar with an explicit tag (its full form, such as `tag:yaml.org,2002:int`),
/// whatever its quotes. Tags that kubectl's parser does not know leave the text as it is.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Result<Scalar, YamlErrorKind> {
    let Some(kind) = tag.strip_prefix("tag:yaml.org,2002:") else {
        return Ok(Scalar::Text);
    };
    match (kind, resolve_plain(text)) {
        ("binary", _) => binary(text),
        ("bool", scalar @ Scalar::Bool(_))
        | ("int", scalar @ (Scalar::Int(_) | Scalar::Uint(_)))
        | ("float", scalar @ Scalar::Float(_))
        | ("null", scalar @ Scalar::Null) => Ok(scalar),
        // Exactly the conversion that kubectl's parser makes: to the nearest double.
        #[allow(clippy::cast_precision_loss)]
        ("float", Scalar::Int(int)) => Ok(Scalar::Float(int as f64)),
        ("timestamp", _) => Err(YamlErrorKind::TimestampTag),
        ("bool" | "int" | "float" | "null", _) => Err(YamlErrorKind::TagMismatch {
            tag: kind.to_owned(),
            text: text.to_owned(),
        }),
        _ => Ok(Scalar::Text),
    }
}

/// The JSON number for a double, written as Go writes it: `1.0` and `1e3` are integers in JSON.
/// `None` for infinities and NaN.
pub(super) fn float_value(float: f64) -> Option<Value> {
    let exact = Number::from_f64(float)?;
    if float.fract() != 0.0 || float.abs() >= 1e21 || (float == 0.0 && float.is_sign_negative()) {
        return Some(Value::Number(exact));
    }
    // The shortest digits padded with zeros, as in Go: not the exact value of the double.
    let digits = format!("{float}");
    let int = digits.parse::<i64>().map(Number::from);
    let int = int.or_else(|_| digits.parse::<u64>().map(Number::from));
    Some(Value::Number(int.unwrap_or(exact)))
}

/// The text of a float used as a key: Go's `%g` of the single-precision value.
pub(super) fn float_key(float: f64) -> String {
    #[allow(clippy::cast_possible_truncation)]
    let single = float as f32;
    if single.is_infinite() {
        return if single > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{single:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes a decimal exponent");
    if (-4..6).contains(&exponent) {
        return format!("{single}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Words with a meaning, in the only spellings that have it.
fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// A number that starts with a sign or a digit; underscores anywhere behind it are ignored.
fn number(text: &str) -> Option<Scalar> {
    let plain = text.replace('_', "");
    integer(&plain)
        .or_else(|| float(&plain))
        .or_else(|| signed_binary(&plain))
}

/// A float that starts with its point, where an underscore must stand between digits.
fn fraction(text: &str) -> Option<Scalar> {
    let between_digits = text.split('_').skip(1).all(|part| part.starts_with(is_digit))
        && text.rsplit('_').skip(1).all(|part| part.ends_with(is_digit));
    between_digits.then(|| float(&text.replace('_', ""))).flatten()
}

fn is_digit(char: char) -> bool {
    char.is_ascii_digit()
}

/// Go's `ParseInt(s, 0, 64)`, then `ParseUint(s, 0, 64)`, which takes no sign.
fn integer(plain: &str) -> Option<Scalar> {
    let unsigned = plain.strip_prefix(['+', '-']);
    let (radix, digits) = radix_of(unsigned.unwrap_or(plain));
    let magnitude = magnitude(digits, radix)?;
    if plain.starts_with('-') {
        return 0i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    match i64::try_from(magnitude) {
        Ok(int) => Some(Scalar::Int(int)),
        Err(_) => unsigned.is_none().then_some(Scalar::Uint(magnitude)),
    }
}

fn radix_of(unsigned: &str) -> (u32, &str) {
    match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', b'0'..=b'9', ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    }
}

fn magnitude(digits: &str, radix: u32) -> Option<u64> {
    // `from_str_radix` takes a sign of its own.
    let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
    all_digits.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

/// `0b-11` is -3 to kubectl's parser.
fn signed_binary(plain: &str) -> Option<Scalar> {
    let signed = plain.strip_prefix("0b")?;
    let digits = signed.strip_prefix(['+', '-'])?;
    let magnitude = magnitude(digits, 2)?;
    let int = match signed.starts_with('-') {
        true => 0i64.checked_sub_unsigned(magnitude)?,
        false => i64::try_from(magnitude).ok()?,
    };
    Some(Scalar::Int(int))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`; what overflows a double stays text.
fn float(plain: &str) -> Option<Scalar> {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let well_formed = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
    let float: f64 = well_formed.then(|| plain.parse().ok()).flatten()?;
    float.is_finite().then_some(Scalar::Float(float))
}

/// Standard base64 with padding and any bits after the last byte; line breaks are ignored.
fn binary(text: &str) -> Result<Scalar, YamlErrorKind> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
    let bytes = ENGINE
        .decode(text.replace(['\n', '\r'], ""))
        .map_err(|_| YamlErrorKind::BinaryInvalid)?;
    String::from_utf8(bytes)
        .map(Scalar::Decoded)
        .map_err(|_| YamlErrorKind::BinaryNotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_plain_scalars_as_kubectl() {
        let int = Scalar::Int;
        let float = Scalar::Float;
        let table = [
            ("", Scalar::Null),
            ("NULL", Scalar::Null),
            ("nULL", Scalar::Text),
            ("y", Scalar::Bool(true)),
            ("yES", Scalar::Text),
            ("Off", Scalar::Bool(false)),
            ("0x1F", int(31)),
            ("017", int(15)),
            ("0o17", int(15)),
            ("08", float(8.0)),
            ("0b101", int(5)),
            ("0b-11", int(-3)),
            ("-0b11", int(-3)),
            ("1_000", int(1000)),
            ("_1", Scalar::Text),
            ("1e3", float(1000.0)),
            ("1e999", Scalar::Text),
            (".5", float(0.5)),
            (".5_0", float(0.5)),
            ("._5", Scalar::Text),
            (".5_", Scalar::Text),
            (".5_e1", Scalar::Text),
            ("+.5", float(0.5)),
            ("1.", float(1.0)),
            (".", Scalar::Text),
            ("-", Scalar::Text),
            ("1:20", Scalar::Text),
            ("2001-01-01", Scalar::Text),
            ("9223372036854775807", int(i64::MAX)),
            ("-9223372036854775808", int(i64::MIN)),
            ("18446744073709551615", Scalar::Uint(u64::MAX)),
            ("+18446744073709551615", float(18_446_744_073_709_551_615.0)),
            ("18446744073709551616", float(18_446_744_073_709_551_616.0)),
            ("0xFFFFFFFFFFFFFFFFF", Scalar::Text),
            ("<<", Scalar::Text),
        ];
        for (text, expected) in table {
            assert_eq!(resolve_plain(text), expected, "{text}");
        }
    }

    #[test]
    fn writes_float_keys_as_go_does() {
        let table = [
            (1.5, "1.5"),
            (1e3, "1000"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e-5, "1e-05"),
            (0.1, "0.1"),
            (1e300, ".inf"),
            (-0.0, "-0"),
        ];
        for (float, expected) in table {
            assert_eq!(float_key(float), expected);
        }
    }

    #[test]
    fn writes_whole_floats_as_integers() {
        assert_eq!(float_value(3.0), Some(Value::from(3)));
        assert_eq!(float_value(1e19), Some(Value::from(10_000_000_000_000_000_000_u64)));
        assert_eq!(float_value(1e20), Some(Value::from(1e20)));
        assert_eq!(float_value(f64::NAN), None);
    }
}
