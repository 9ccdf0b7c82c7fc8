//! Whole documents: what no single file of this module can show.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn values(input: &str) -> Vec<Value> {
    let documents = parse_stream(input).unwrap();
    assert_eq!(
        documents.iter().map(|document| document.text).collect::<String>(),
        input
    );
    documents.into_iter().filter_map(|document| document.value).collect()
}

fn error(input: &str) -> YamlError {
    parse_stream(input).map(|_| ()).unwrap_err()
}

#[test]
fn reads_documents() {
    let table = [
        ("", json!([])),
        ("# a\n---\n# b\n--- # c\nnull\n", json!([])),
        (
            "yes: on\n1: 0o7\n\"<<\": {a: 08}\n",
            json!([{"true": true, "1": 7, "<<": {"a": 8}}]),
        ),
        ("a: |\n  ---\n  b\n---\nc: 1.0\n", json!([{"a": "---\nb\n"}, {"c": 1}])),
        ("a: |\n  x", json!([{"a": "x\n"}])),
        ("\u{feff}a: 1\r\nb: |\r\n  c\r\n", json!([{"a": 1, "b": "c\n"}])),
        ("{\"a\": 80.0}{\"b\": 1}\n", json!([{"a": 80}, {"b": 1}])),
        (
            "a: &x [1]\nb: *x\nc: &x 2\nd: *x\n",
            json!([{"a": [1], "b": [1], "c": 2, "d": 2}]),
        ),
        (
            "x: &x {a: 1, b: 2}\nv: {a: 0, <<: *x, b: 3}\nz: {<<: [{a: 5}, *x]}\n",
            json!([{"x": {"a": 1, "b": 2}, "v": {"a": 1, "b": 3}, "z": {"a": 5, "b": 2}}]),
        ),
    ];
    for (input, expected) in table {
        assert_eq!(Value::from(values(input)), expected, "{input}");
    }
}

#[test]
fn keeps_the_order_of_keys() {
    let keys: Vec<_> = values("z: 1\na: 2\nm: 3\nz: 4\n")[0]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(keys, ["z", "a", "m"]);
}

#[test]
fn counts_lines_from_the_start_of_the_file() {
    let table = [
        ("a: 1\n---\n# c\nb: [1\n---\n", 4, "unclosed"),
        ("a: 1\n---\nb: *x\n", 3, "anchor"),
        ("a: 1\n---\n\nb: .inf\n", 4, "JSON cannot hold"),
        ("a: 1\n---\nb: \u{7}\n", 3, "U+0007"),
        ("a: 1\n---\n? ~\n: 1\n", 3, "null cannot be a key"),
        ("{\"a\": 1}\n{\"b\": 2}\n{\"c\":\n x}\n", 4, "invalid JSON"),
        ("{\"a\": 1}\n{\"b\":\n 1e999}\n", 3, "out of range"),
        ("a: 1\r\n---\r\nb: &x {<<: *x}\r\n", 3, "contains itself"),
        ("a: 1\n...\nb: 1\n", 3, "end of the document"),
        ("a: 1\n# c\rb: 1\n", 2, "half of a line break"),
        ("a: 1\n---\n{\"b \r\": 1}", 3, "half of a line break"),
        ("a: 1\nb: c\u{feff}d\n", 2, "byte order mark"),
        ("a: 1\n.nan: 1\n", 2, "`.nan` cannot be a key"),
        ("{\"a\": 1}\nnullable: 1\n", 2, "invalid JSON"),
        ("{\"a\": 1}\ntrue}\n", 2, "invalid JSON"),
        ("a: 1\n---\n1: a\n\"1\": b\n", 4, "JSON cannot tell them apart"),
    ];
    for (input, line, message) in table {
        let error = error(input);
        assert_eq!(error.line, line, "{input}: {error}");
        assert!(error.to_string().contains(message), "{input}: {error}");
    }
}

#[test]
fn reports_keys_given_twice() {
    let input = "# c\na: [x, {b: 1,\n b: 2}]\n---\nx: &x {k: 1}\ny: {<<: *x, k: 2}\nx: 3\n";
    let documents = parse_stream(input).unwrap();
    let found: Vec<_> = documents
        .iter()
        .flat_map(|document| document.duplicate_keys.clone())
        .collect();
    let found: Vec<_> = found.iter().map(|key| (key.path.as_str(), key.line)).collect();
    assert_eq!(found, [("a[1].b", 3), ("x", 7)]);
}

#[test]
fn reads_exactly_one_document() {
    assert_eq!(parse_one("---\na: 1\n---\n# end\n").unwrap(), json!({"a": 1}));
    assert_eq!(parse_one("# none\n").unwrap_err().kind, YamlErrorKind::DocumentCount(0));
    let error = parse_one("a: 1\n---\nb: 1\n---\nc: 1\n").unwrap_err();
    assert_eq!((error.line, error.kind), (2, YamlErrorKind::DocumentCount(3)));
    let error = parse_one("a: 1\nb: {c: 1, c: 2}\n").unwrap_err();
    assert_eq!(
        (error.line, error.kind),
        (2, YamlErrorKind::DuplicateKey("b.c".to_owned()))
    );
}

#[test]
fn replaces_the_value_and_keeps_what_stands_before_it() {
    let new = json!({"b": ["x"]});
    let table = [
        ("a: 1\n", "b:\n- x\n"),
        ("# c\n\n# d\na: 1 # e\n...\n# f\n", "# c\n\n# d\nb:\n- x\n"),
        ("--- # c\n# d\na: 1\n", "--- # c\n# d\nb:\n- x\n"),
        ("---", "---\nb:\n- x\n"),
        ("\u{feff}# c\na: 1\n", "\u{feff}# c\nb:\n- x\n"),
        ("# c\r\na: 1\r\n", "# c\r\nb:\r\n- x\r\n"),
        ("\n{\"a\": 1}\n\n", "\n{\n  \"b\": [\n    \"x\"\n  ]\n}\n"),
        ("---\n{\"a\": 1}\n", "---\n{\n  \"b\": [\n    \"x\"\n  ]\n}\n"),
        ("---\n{a: 1}\n", "---\nb:\n- x\n"),
    ];
    for (input, expected) in table {
        let documents = parse_stream(input).unwrap();
        let replaced = documents[0].replaced(&new);
        assert_eq!(replaced, expected);
        assert_eq!(values(&replaced), std::slice::from_ref(&new));
    }
}

#[test]
fn writes_a_long_key_of_json_so_that_yaml_readers_take_it() {
    let new = json!({"k".repeat(2000): 1});
    let documents = parse_stream("---\n{\"a\": 1}\n").unwrap();
    assert_eq!(values(&documents[0].replaced(&new)), [new]);
}

#[test]
fn refuses_deep_nesting_on_a_small_stack() {
    let deep = [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        "{\"a\":".repeat(100_000),
        "&a ".to_owned() + &"[".repeat(100_000),
        (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(),
        "a0: &a0 [1]\n".to_owned()
            + &(1..5000)
                .map(|step| format!("a{step}: &a{step} [*a{}]\n", step - 1))
                .collect::<String>(),
    ];
    let run = move || deep.iter().for_each(|text| drop(error(text)));
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(
        error(&("[".repeat(101) + &"]".repeat(101))).kind,
        YamlErrorKind::TooDeep
    );
    assert_eq!(values(&("[".repeat(100) + &"]".repeat(100))).len(), 1);
}

#[test]
fn refuses_aliases_that_expand_to_too_much() {
    let level = |step: usize| {
        format!(
            "a{step}: &a{step} [{}]\n",
            vec![format!("*a{}", step - 1); 10].join(", ")
        )
    };
    let nodes = "a0: &a0 [x]\n".to_owned() + &(1..9).map(level).collect::<String>();
    let bytes = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90].join(", "));
    let keys = format!(
        "a: &a {{? {} : 1}}\nb: [{}]\n",
        "x".repeat(1 << 20),
        vec!["*a"; 90].join(", ")
    );
    let merges = "a0: &a0 {k: 1}\n".to_owned()
        + &(1..30)
            .map(|step| format!("a{step}: &a{step} {{<<: [*a{0}, *a{0}]}}\n", step - 1))
            .collect::<String>();
    let many = (nodes.lines().take(5).collect::<Vec<_>>().join("\n") + "\n---\n").repeat(100);
    for text in [nodes, bytes, keys, merges, many] {
        let start = std::time::Instant::now();
        assert_eq!(error(&text).kind, YamlErrorKind::TooManyAliases);
        assert!(start.elapsed().as_secs() < 5);
    }
}

#[test]
fn takes_time_in_proportion_to_the_length() {
    let tabs = format!("---\n{{\n{}\"z\": 1}}\n", "\t\"a\": [1, 2],\n".repeat(100_000));
    let one_line = format!("a: [{}]\n", "{b: [1, 2]}, ".repeat(100_000));
    let block = format!("a: |\n{}b: 1\n", "  \tx\n".repeat(100_000).replacen('\t', "", 1));
    let start = std::time::Instant::now();
    for text in [tabs, one_line, block] {
        assert_eq!(values(&text).len(), 1);
    }
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn refuses_other_encodings() {
    assert_eq!(
        decode_utf8(b"\xff\xfea\0").unwrap_err().kind,
        YamlErrorKind::NotUtf8Encoding
    );
    let error = decode_utf8(
        "a: é\nb: "
            .as_bytes()
            .iter()
            .chain(b"\xff")
            .copied()
            .collect::<Vec<_>>()
            .leak(),
    )
    .unwrap_err();
    assert_eq!(
        (error.line, error.column, error.kind),
        (2, 4, YamlErrorKind::InvalidUtf8)
    );
    assert_eq!(decode_utf8("\u{feff}a".as_bytes()).unwrap(), "\u{feff}a");
}

#[test]
fn every_character_survives() {
    for chars in characters(char::MAX).chunks(4096) {
        let map: Value = chars.iter().map(|char| (char.to_string(), char.to_string())).collect();
        assert_eq!(parse_one(&to_yaml(&map)).unwrap(), map);
    }
}

#[test]
fn every_character_survives_in_blocks_and_json() {
    for chars in characters('\u{10400}').chunks(4096) {
        let pair = |char: &char| (format!("a{char}"), Value::from(format!("{char}\nb{char}")));
        let map: Value = chars.iter().map(pair).collect();
        assert_eq!(parse_one(&to_yaml(&map)).unwrap(), map);
        assert_eq!(parse_one(&json::to_pretty(&map)).unwrap(), map);
        assert_eq!(parse_one(&format!("---\n{}", json::to_pretty(&map))).unwrap(), map);
    }
}

fn characters(last: char) -> Vec<char> {
    (0..=u32::from(last)).filter_map(char::from_u32).collect()
}

proptest! {
    #[test]
    fn reads_back_what_it_writes(value in value()) {
        let mut expected = value.clone();
        json::normalize(&mut expected);
        prop_assert_eq!(read_back(&to_yaml(&value)), expected.clone());
        prop_assert_eq!(read_back(&format!("---\n{}", json::to_pretty(&value))), expected);
    }

    #[test]
    fn never_panics(text in "[-a:?\\[\\]{}&*!|>'\"%@`#, \n\t\r~<=.0-9\\\\\u{feff}]{0,60}") {
        if let Ok(documents) = parse_stream(&text) {
            let texts: String = documents.iter().map(|document| document.text).collect();
            prop_assert_eq!(&texts, &text);
            for document in &documents {
                values(&document.replaced(&json!({"a": 1})));
            }
        }
    }
}

fn read_back(text: &str) -> Value {
    values(text).pop().unwrap_or(Value::Null)
}

/// Any JSON value, with strings rich in what is special in YAML.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..6).prop_map(|entries| entries.into_iter().collect::<Value>()),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-+.0-9eE_xob:~ynYNTF]{0,6}",
        "[ \ta\n\r:#\\-?|>'\"{}\\[\\],&*!%@`=<~.]{0,9}",
        "([a-c ]{0,3}\n){0,3}[a-c\t ]{0,2}\n{0,3}",
        "yes|no|on|off|y|n|null|true|<<|=|---|\\.\\.\\.|0o7|08|1e3|2001-01-01|1:20|\\.inf",
        any::<String>(),
    ]
}
