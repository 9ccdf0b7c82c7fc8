//! Parser events → the nodes of one document.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, StructureStyle, Tag};

use super::{MAX_DEPTH, YamlError, YamlErrorKind};

/// Index into [`Tree::nodes`].
pub(super) type NodeId = usize;

/// The nodes of one document.
pub(super) struct Tree<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    /// `None` when the text holds no node at all.
    pub(super) root: Option<NodeId>,
}

/// A node and where it starts.
pub(super) struct Node<'a> {
    /// From the start of the file, from 1.
    pub(super) line: usize,
    /// From 1.
    pub(super) column: usize,
    pub(super) content: Content<'a>,
}

/// What a node is.
pub(super) enum Content<'a> {
    Scalar {
        text: Cow<'a, str>,
        plain: bool,
        tag: Option<String>,
    },
    List(Vec<NodeId>),
    /// Keys and values in turn.
    Map(Vec<NodeId>),
    /// Refers to the node that had the anchor's name at this point of the text.
    Alias(NodeId),
}

/// Parses the text of one chunk, whose first line is `first_line` of the file.
pub(super) fn parse(text: &str, first_line: usize) -> Result<Tree<'_>, YamlError> {
    let options = granit_parser::options! { emit_comments: false, emit_anchor_events: true };
    let mut builder = Builder::new(text, first_line);
    for event in Parser::<StrInput<'_>>::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| builder.syntax(&error))?;
        builder.take(event, &span)?;
    }
    builder.cover(text.len()..text.len())?;
    Ok(Tree {
        nodes: builder.nodes,
        root: builder.root,
    })
}

struct Builder<'a> {
    text: &'a str,
    first_line: usize,
    nodes: Vec<Node<'a>>,
    root: Option<NodeId>,
    open: Vec<Open>,
    anchors: HashMap<usize, NodeId>,
    ended: bool,
    /// How many of the open collections are in flow style.
    flow: usize,
    /// The tabs of [`leading_tabs`] that are still ahead.
    leading_tabs: Vec<usize>,
}

struct Open {
    id: NodeId,
    flow_start: Option<usize>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, first_line: usize) -> Self {
        Self {
            text,
            first_line,
            nodes: Vec::new(),
            root: None,
            open: Vec::new(),
            anchors: HashMap::new(),
            ended: false,
            flow: 0,
            leading_tabs: leading_tabs(text),
        }
    }

    fn take(&mut self, event: Event<'a>, span: &Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.check_tag(span)?;
                let tag = tag.map(|tag| full_tag(&tag));
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                    self.check_block(&text, span)?;
                } else {
                    self.check_start(span)?;
                }
                self.check_flow_key(span)?;
                if self.flow == 0 {
                    self.cover(span.byte_range().unwrap_or_default())?;
                }
                let plain = style == ScalarStyle::Plain;
                if plain {
                    self.check_flow(&text, span)?;
                }
                self.add(Content::Scalar { text, plain, tag }, anchor, span);
            }
            Event::Anchor(..) => self.check_anchor(span)?,
            Event::Alias(anchor) => {
                self.check_anchor(span)?;
                let target = self.anchors.get(&anchor).copied();
                let target = target.ok_or_else(|| self.error(span, YamlErrorKind::UnknownAnchor))?;
                self.add(Content::Alias(target), 0, span);
            }
            Event::SequenceStart(style, anchor, _) => {
                self.open(Content::List(Vec::new()), style, anchor, span)?;
            }
            Event::MappingStart(style, anchor, _) => {
                self.open(Content::Map(Vec::new()), style, anchor, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            Event::DocumentStart(..) if self.ended => {
                return Err(self.error(span, YamlErrorKind::TrailingContent));
            }
            Event::DocumentEnd => self.ended = true,
            _ => {}
        }
        Ok(())
    }

    fn open(
        &mut self,
        content: Content<'a>,
        style: StructureStyle,
        anchor: usize,
        span: &Span,
    ) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.error(span, YamlErrorKind::TooDeep));
        }
        self.check_start(span)?;
        self.check_tag(span)?;
        let flow_start = (style == StructureStyle::Flow).then(|| offset(span));
        let id = self.add(content, anchor, span);
        self.flow += usize::from(flow_start.is_some());
        self.open.push(Open { id, flow_start });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), YamlError> {
        if let Some(Open {
            flow_start: Some(start),
            ..
        }) = self.open.pop()
        {
            self.flow -= 1;
            if self.flow == 0 {
                return self.cover(start..offset(span));
            }
        }
        Ok(())
    }

    fn add(&mut self, content: Content<'a>, anchor: usize, span: &Span) -> NodeId {
        let id = self.nodes.len();
        let (line, column) = self.position(span);
        self.nodes.push(Node { line, column, content });
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        match self.open.last().map(|open| &mut self.nodes[open.id].content) {
            Some(Content::List(children) | Content::Map(children)) => children.push(id),
            _ => self.root = Some(id),
        }
        id
    }

    fn position(&self, span: &Span) -> (usize, usize) {
        (
            self.first_line + span.start.line().saturating_sub(1),
            span.start.col() + 1,
        )
    }

    fn error(&self, span: &Span, kind: YamlErrorKind) -> YamlError {
        let (line, column) = self.position(span);
        YamlError { line, column, kind }
    }

    fn syntax(&self, error: &ScanError) -> YamlError {
        let mark = error.marker();
        let line = self.first_line + mark.line().saturating_sub(1);
        YamlError {
            line,
            column: mark.col() + 1,
            kind: YamlErrorKind::Syntax(error.info()),
        }
    }
}

// What granit-parser reads and kubectl's parser refuses, or reads differently.
impl Builder<'_> {
    /// In block style a tab cannot be what stands before a node on its line.
    fn check_start(&self, span: &Span) -> Result<(), YamlError> {
        if self.flow > 0 {
            return Ok(());
        }
        let line = last_line(&self.text[..offset(span)]);
        let indent = line.bytes().all(|byte| b" \t-?".contains(&byte));
        if indent && line.contains('\t') {
            return Err(self.error(span, YamlErrorKind::Tab));
        }
        Ok(())
    }

    /// A block string without indent (which only a whole document can be) is empty to kubectl's
    /// parser, and its first line cannot start with a tab unless the header gives the indent.
    fn check_block(&self, value: &str, span: &Span) -> Result<(), YamlError> {
        if span.start.col() == 0 && span.byte_range().is_some_and(|range| !range.is_empty()) {
            return Err(self.error(span, YamlErrorKind::UnindentedBlock));
        }
        let header = last_line(self.text[..offset(span)].trim_end());
        let header = header.split(" #").next().unwrap_or_default();
        let indicators = header.rsplit(['|', '>']).next().unwrap_or_default();
        let indent_given = indicators.contains(|char: char| char.is_ascii_digit());
        if value.trim_start_matches('\n').starts_with('\t') && !indent_given {
            return Err(self.error(span, YamlErrorKind::Tab));
        }
        Ok(())
    }

    /// Passes over a scalar or an outermost flow collection: tabs inside are content, one before
    /// it is an indent.
    fn cover(&mut self, range: Range<usize>) -> Result<(), YamlError> {
        while let Some(tab) = self.leading_tabs.pop_if(|tab| *tab < range.end) {
            if tab < range.start {
                let breaks = self.text[..tab].bytes().filter(|byte| *byte == b'\n').count();
                let line = self.first_line + breaks;
                return Err(YamlError {
                    line,
                    column: 1,
                    kind: YamlErrorKind::Tab,
                });
            }
        }
        Ok(())
    }

    /// kubectl's parser takes `,` and brackets for a part of the tag, and no `#` in it.
    fn check_tag(&self, span: &Span) -> Result<(), YamlError> {
        let Some(range) = span.tag_span().and_then(|tag| tag.byte_range()) else {
            return Ok(());
        };
        let next = self.text[range.end..].chars().next();
        if self.text[range].contains('#') || next.is_some_and(|next| !next.is_whitespace()) {
            return Err(self.error(span, YamlErrorKind::InvalidTag));
        }
        Ok(())
    }

    /// Checks the name that `span` covers, its `&` or `*` included.
    fn check_anchor(&self, span: &Span) -> Result<(), YamlError> {
        let range = span.byte_range().unwrap_or_default();
        let name = self.text[range.clone()].get(1..).unwrap_or_default();
        let valid = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let next = self.text[range.end..].chars().next();
        if valid && next.is_none_or(|next| next.is_whitespace() || ",]}".contains(next)) {
            return Ok(());
        }
        Err(self.error(span, YamlErrorKind::InvalidAnchor))
    }

    /// `[a:, b]`, `[a?b]` and `[:a]`.
    fn check_flow(&self, text: &str, span: &Span) -> Result<(), YamlError> {
        let end = span.byte_range().unwrap_or_default().end;
        let colon = self.text[end..].strip_prefix(':');
        let glued = colon.is_some_and(|rest| rest.starts_with([',', '[', ']', '{', '}']));
        if self.flow > 0 && (glued || text.contains('?') || text.starts_with(':')) {
            return Err(self.error(span, YamlErrorKind::AmbiguousInFlow(text.to_owned())));
        }
        Ok(())
    }

    /// A key without `?` and its colon stand on one line, in brackets too.
    fn check_flow_key(&self, span: &Span) -> Result<(), YamlError> {
        let range = span.byte_range().unwrap_or_default();
        let rest = &self.text[range.end..];
        let blanks = rest.len() - rest.trim_start().len();
        let start = span
            .tag_start()
            .and_then(|tag| tag.byte_offset())
            .unwrap_or(range.start);
        let is_key = self.flow > 0 && rest[blanks..].starts_with(':');
        let explicit = self.text[..start].trim_end().ends_with('?');
        if is_key && !explicit && self.text[start..range.end + blanks].contains('\n') {
            return Err(self.error(span, YamlErrorKind::KeyOfSeveralLines));
        }
        Ok(())
    }
}

fn full_tag(tag: &Tag) -> String {
    let (handle, suffix) = tag.parts();
    format!("{handle}{suffix}")
}

/// Offset in bytes of the start of a span.
fn offset(span: &Span) -> usize {
    span.start
        .byte_offset()
        .expect("the parser of a string knows offsets in bytes")
}

fn last_line(text: &str) -> &str {
    &text[text.rfind('\n').map_or(0, |newline| newline + 1)..]
}

/// Offsets of tabs that start a line or stand before its content, the last first.
fn leading_tabs(text: &str) -> Vec<usize> {
    let (mut tabs, mut offset) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches([' ', '\t']);
        let is_content = !content.trim().is_empty() && !content.starts_with('#');
        let before = &line[..line.len() - content.len()];
        let tab = before.find('\t').filter(|tab| is_content || *tab == 0);
        tabs.extend(tab.map(|tab| offset + tab));
        offset += line.len();
    }
    tabs.reverse();
    tabs
}
