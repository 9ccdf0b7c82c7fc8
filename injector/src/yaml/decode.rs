//! Nodes → JSON value, in the order and with the rules of kubectl's parser: aliases are expanded
//! by value, `<<` writes over what stands before it, keys become strings, the last of two equal
//! keys wins.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::resolve::{Scalar, float_key, float_value, resolve_plain, resolve_tagged};
use super::tree::{Content, NodeId, Tree};
use super::{DuplicateKey, MAX_ALIAS_BYTES, MAX_ALIAS_NODES, MAX_DEPTH, MAX_DUPLICATES, YamlError, YamlErrorKind};

/// What aliases may still expand to in the rest of the stream.
pub(super) struct Budget {
    nodes: usize,
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            nodes: MAX_ALIAS_NODES,
            bytes: MAX_ALIAS_BYTES,
        }
    }
}

/// The value of a document and the keys given twice in it.
pub(super) fn decode(
    tree: &Tree<'_>,
    root: NodeId,
    budget: &mut Budget,
) -> Result<(Value, Vec<DuplicateKey>), YamlError> {
    let mut decoder = Decoder {
        tree,
        budget,
        active: HashSet::new(),
        alias_depth: 0,
        decoded: 1,
        aliased: 0,
        path: Vec::new(),
        duplicates: Vec::new(),
    };
    let value = decoder.value(root, 0)?;
    Ok((value, decoder.duplicates))
}

struct Decoder<'t, 'a> {
    tree: &'t Tree<'a>,
    budget: &'t mut Budget,
    /// Alias nodes that are being expanded.
    active: HashSet<NodeId>,
    alias_depth: usize,
    decoded: usize,
    aliased: usize,
    path: Vec<Step>,
    duplicates: Vec<DuplicateKey>,
}

enum Step {
    /// The node of the key.
    Key(NodeId),
    Index(usize),
}

/// A map while it is filled.
#[derive(Default)]
struct Entries {
    map: Map<String, Value>,
    /// Keys that are no strings in YAML: `1` and `"1"` are two keys there.
    typed: HashMap<String, Key>,
    /// Keys that came in through `<<`; to give one of them again is no mistake.
    merged: HashSet<String>,
}

#[derive(Clone, PartialEq)]
enum Key {
    Text,
    Bool,
    Int,
    Float(u64),
}

impl<'t> Decoder<'t, '_> {
    fn value(&mut self, id: NodeId, depth: usize) -> Result<Value, YamlError> {
        self.count(id)?;
        match &self.tree.nodes[id].content {
            Content::Scalar { .. } => self.scalar(id),
            Content::List(items) => self.list(id, items, depth),
            Content::Map(_) => {
                let mut entries = Entries::default();
                self.entries(id, &mut entries, false, depth)?;
                Ok(Value::Object(entries.map))
            }
            Content::Alias(target) => self.expand(id, |decoder| decoder.value(*target, depth)),
        }
    }

    fn list(&mut self, id: NodeId, items: &[NodeId], depth: usize) -> Result<Value, YamlError> {
        self.check_depth(id, depth)?;
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            list.push(self.value(*item, depth + 1)?);
            self.path.pop();
        }
        Ok(Value::Array(list))
    }

    /// Writes the entries of a map node into `entries`, over what is there.
    fn entries(&mut self, id: NodeId, entries: &mut Entries, merging: bool, depth: usize) -> Result<(), YamlError> {
        self.check_depth(id, depth)?;
        let tree = self.tree;
        let Content::Map(children) = &tree.nodes[id].content else {
            return Err(self.error(id, YamlErrorKind::MergeValue));
        };
        for pair in children.chunks_exact(2) {
            if self.is_merge(pair[0]) {
                self.merge(pair[1], entries, depth + 1)?;
                continue;
            }
            let (text, key) = self.key(pair[0])?;
            self.path.push(Step::Key(pair[0]));
            let value = self.value(pair[1], depth + 1)?;
            self.insert(pair[0], text, key, value, entries, merging)?;
            self.path.pop();
        }
        Ok(())
    }

    fn insert(
        &mut self,
        id: NodeId,
        text: String,
        key: Key,
        value: Value,
        entries: &mut Entries,
        merging: bool,
    ) -> Result<(), YamlError> {
        let known = entries.map.contains_key(&text);
        if known && entries.typed.get(&text).unwrap_or(&Key::Text) != &key {
            return Err(self.error(id, YamlErrorKind::AmbiguousKey(text)));
        }
        if key != Key::Text {
            entries.typed.insert(text.clone(), key);
        }
        if merging {
            entries.merged.insert(text.clone());
        } else if !entries.merged.remove(&text) && known {
            self.report_duplicate(id);
        }
        entries.map.insert(text, value);
        Ok(())
    }

    /// `<<`: a map, an alias of one, or a list of these, of which the first wins.
    fn merge(&mut self, id: NodeId, entries: &mut Entries, depth: usize) -> Result<(), YamlError> {
        let tree = self.tree;
        if let Content::List(items) = &tree.nodes[id].content {
            items
                .iter()
                .rev()
                .try_for_each(|item| self.merge_one(*item, entries, depth))
        } else {
            self.merge_one(id, entries, depth)
        }
    }

    fn merge_one(&mut self, id: NodeId, entries: &mut Entries, depth: usize) -> Result<(), YamlError> {
        self.count(id)?;
        let Content::Alias(target) = self.tree.nodes[id].content else {
            return self.entries(id, entries, true, depth);
        };
        self.expand(id, |decoder| {
            decoder.count(target)?;
            decoder.entries(target, entries, true, depth)
        })
    }

    fn is_merge(&self, id: NodeId) -> bool {
        let Content::Scalar { text, plain, tag } = &self.tree.nodes[id].content else {
            return false;
        };
        text == "<<"
            && match tag.as_deref() {
                None => *plain,
                Some(tag) => tag == "!" || tag == "tag:yaml.org,2002:merge",
            }
    }

    /// A key as a string, and what it was in YAML.
    fn key(&mut self, id: NodeId) -> Result<(String, Key), YamlError> {
        self.count(id)?;
        let id = match self.tree.nodes[id].content {
            Content::Alias(target) => self.expand(id, |decoder| decoder.count(target).map(|()| target))?,
            _ => id,
        };
        let (text, scalar) = self
            .resolve(id)?
            .ok_or_else(|| self.error(id, YamlErrorKind::KeyKind("a map or list")))?;
        self.spend_bytes(id, text.len())?;
        Ok(match scalar {
            Scalar::Text => (text.to_owned(), Key::Text),
            Scalar::Decoded(text) => (text, Key::Text),
            Scalar::Bool(bool) => (bool.to_string(), Key::Bool),
            Scalar::Int(int) => (int.to_string(), Key::Int),
            // To kubectl's parser it is another key each time, so that either of two values may remain.
            Scalar::Float(float) if float.is_nan() => return Err(self.error(id, YamlErrorKind::KeyKind("`.nan`"))),
            Scalar::Float(float) => (float_key(float), Key::Float(float.to_bits())),
            Scalar::Uint(_) => {
                return Err(self.error(id, YamlErrorKind::KeyKind("a number above 9223372036854775807")));
            }
            Scalar::Null => return Err(self.error(id, YamlErrorKind::KeyKind("null"))),
        })
    }

    fn scalar(&mut self, id: NodeId) -> Result<Value, YamlError> {
        let (text, scalar) = self.resolve(id)?.expect("only called for scalars");
        self.spend_bytes(id, text.len())?;
        Ok(match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(bool) => Value::Bool(bool),
            Scalar::Int(int) => int.into(),
            Scalar::Uint(int) => int.into(),
            Scalar::Float(float) => {
                float_value(float).ok_or_else(|| self.error(id, YamlErrorKind::NotFinite(text.to_owned())))?
            }
            Scalar::Text => Value::String(text.to_owned()),
            Scalar::Decoded(text) => Value::String(text),
        })
    }

    /// The text and meaning of a scalar node; `None` for other nodes.
    fn resolve(&self, id: NodeId) -> Result<Option<(&'t str, Scalar)>, YamlError> {
        let Content::Scalar { text, plain, tag } = &self.tree.nodes[id].content else {
            return Ok(None);
        };
        let scalar = match tag {
            Some(tag) => resolve_tagged(tag, text).map_err(|kind| self.error(id, kind))?,
            None if *plain => resolve_plain(text),
            None => Scalar::Text,
        };
        Ok(Some((text.as_ref(), scalar)))
    }

    fn expand<T>(
        &mut self,
        alias: NodeId,
        decode: impl FnOnce(&mut Self) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        if !self.active.insert(alias) {
            return Err(self.error(alias, YamlErrorKind::SelfReference));
        }
        self.alias_depth += 1;
        let result = decode(self);
        self.alias_depth -= 1;
        self.active.remove(&alias);
        result
    }

    fn check_depth(&self, id: NodeId, depth: usize) -> Result<(), YamlError> {
        if depth < MAX_DEPTH {
            Ok(())
        } else {
            Err(self.error(id, YamlErrorKind::TooDeep))
        }
    }

    /// Counts a node as kubectl's parser does, with its limit on the share of aliases and ours
    /// on what they add in all.
    fn count(&mut self, id: NodeId) -> Result<(), YamlError> {
        self.decoded += 1;
        if self.alias_depth == 0 {
            return Ok(());
        }
        self.aliased += 1;
        self.budget.nodes = self
            .budget
            .nodes
            .checked_sub(1)
            .ok_or_else(|| self.error(id, YamlErrorKind::TooManyAliases))?;
        #[allow(clippy::cast_precision_loss)]
        let share = self.aliased as f64 / self.decoded as f64;
        if self.aliased > 100 && self.decoded > 1000 && share > allowed_share(self.decoded) {
            return Err(self.error(id, YamlErrorKind::TooManyAliases));
        }
        Ok(())
    }

    fn spend_bytes(&mut self, id: NodeId, bytes: usize) -> Result<(), YamlError> {
        if self.alias_depth > 0 {
            let left = self.budget.bytes.checked_sub(bytes);
            self.budget.bytes = left.ok_or_else(|| self.error(id, YamlErrorKind::TooManyAliases))?;
        }
        Ok(())
    }

    fn report_duplicate(&mut self, id: NodeId) {
        if self.alias_depth > 0 || self.duplicates.len() >= MAX_DUPLICATES {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Index(index) => super::push_index(&mut path, *index),
                Step::Key(key) => super::push_key(&mut path, self.key_text(*key)),
            }
        }
        self.duplicates.push(DuplicateKey {
            path,
            line: self.tree.nodes[id].line,
        });
    }

    fn key_text(&self, id: NodeId) -> &str {
        match &self.tree.nodes[id].content {
            Content::Scalar { text, .. } => text,
            Content::Alias(target) => self.key_text(*target),
            Content::List(_) | Content::Map(_) => "",
        }
    }

    fn error(&self, id: NodeId, kind: YamlErrorKind) -> YamlError {
        let node = &self.tree.nodes[id];
        YamlError {
            line: node.line,
            column: node.column,
            kind,
        }
    }
}

/// The share of nodes that may come from aliases: 99% in a small document, 10% in a large one.
/// The constants are those of kubectl's parser.
fn allowed_share(decoded: usize) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    #[allow(clippy::cast_precision_loss)]
    let position = ((decoded as f64 - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
    0.99 - 0.89 * position
}
