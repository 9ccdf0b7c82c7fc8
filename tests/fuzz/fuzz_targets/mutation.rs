//! Changes of JSON documents that leave them JSON: bytes alone seldom get past the parser.

use outrigger::settings::SETTINGS;
use serde_json::{Value, json};

/// What libFuzzer calls: the document in the first `size` bytes is changed in place; its new size.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut chance = Chance(seed | 1);
    let by_bytes = chance.below(4) == 0;
    match changed(&data[..size], &mut chance) {
        Some(text) if !by_bytes && text.len() <= most => {
            data[..text.len()].copy_from_slice(&text);
            text.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(data, size, most),
    }
}

/// A generator of numbers (xorshift), the same for the same seed.
struct Chance(u32);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        usize::try_from(self.0).unwrap_or_default() % end.max(1)
    }

    fn one_of<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }
}

fn changed(text: &[u8], chance: &mut Chance) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(text).ok()?;
    for _ in 0..=chance.below(3) {
        let mut places = vec![String::new()];
        collect(&document, "", &mut places);
        let place = chance.one_of(&places);
        let other = document.pointer(chance.one_of(&places)).cloned().unwrap_or_default();
        match chance.below(5) {
            0 => *document.pointer_mut(place)? = value(chance),
            1 => *document.pointer_mut(place)? = other,
            2 => remove(&mut document, place),
            3 => insert(document.pointer_mut(place)?, other, chance),
            _ => touch(document.pointer_mut(place)?, chance),
        }
    }
    serde_json::to_vec(&document).ok()
}

/// The pointers (RFC 6901) to all values inside of one.
fn collect(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let mut add = |key: &str, inner: &Value| {
        let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(pointer.clone());
        collect(inner, &pointer, found);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| add(key, inner)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, inner)| add(&index.to_string(), inner)),
        _ => {}
    }
}

fn value(chance: &mut Chance) -> Value {
    let words = [
        "", "a", "Always", "TCP", "UDP", "http", "enabled", "disabled", "UPDATE", "mtls", "redirect", "native", "8080",
    ];
    match chance.below(8) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(chance.below(2) == 0),
        4 => json!(chance.below(70_000)),
        5 => json!([-1, 1.5, 101, 15_001, i64::MAX])[chance.below(5)].clone(),
        _ => json!(chance.one_of(&words)),
    }
}

fn remove(document: &mut Value, place: &str) {
    let Some((parent, key)) = place.rsplit_once('/') else {
        return;
    };
    match document.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.shift_remove(&key.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(list)) => drop(
            key.parse()
                .ok()
                .filter(|at| *at < list.len())
                .map(|at: usize| list.remove(at)),
        ),
        _ => {}
    }
}

/// Puts something into a map or list, under a name that means something.
fn insert(place: &mut Value, other: Value, chance: &mut Chance) {
    const KEYS: [&str; 16] = [
        "metadata",
        "labels",
        "annotations",
        "spec",
        "containers",
        "initContainers",
        "volumes",
        "name",
        "ports",
        "containerPort",
        "protocol",
        "restartPolicy",
        "readinessProbe",
        "httpGet",
        "securityContext",
        "hostNetwork",
    ];
    let filling = if chance.below(2) == 0 { other } else { value(chance) };
    match place {
        Value::Object(map) => {
            let key = if chance.below(2) == 0 {
                SETTINGS[chance.below(SETTINGS.len())].key
            } else {
                *chance.one_of(&KEYS)
            };
            map.insert(key.to_owned(), filling);
        }
        Value::Array(list) => list.insert(chance.below(list.len() + 1), filling),
        other => *other = filling,
    }
}

/// A small change of a text or number.
fn touch(place: &mut Value, chance: &mut Chance) {
    let signs = [
        ';', '}', '"', '\\', '\n', '$', '/', '~', ',', ':', '-', '.', 'é', '\0', ' ', '1',
    ];
    match place {
        Value::String(text) => {
            let starts: Vec<usize> = text
                .char_indices()
                .map(|(start, _)| start)
                .chain([text.len()])
                .collect();
            text.insert(*chance.one_of(&starts), *chance.one_of(&signs));
        }
        Value::Number(number) => *place = json!(number.as_i64().unwrap_or_default().saturating_add(1)),
        Value::Array(list) if !list.is_empty() => list.reverse(),
        other => *other = value(chance),
    }
}
