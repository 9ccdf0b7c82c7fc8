//! The answer's form.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Serialize;

use super::{API_VERSION, KIND};
use crate::error::{Denial, Outcome};
use crate::rendered::json_of;

/// An answer, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The AdmissionReview, as JSON.
    pub body: Vec<u8>,
    /// What became of the request.
    pub outcome: Outcome,
    /// The pod's name for logs: the name, or `generateName` and a `*`.
    pub pod: String,
    /// The sentence of a denial, or the warnings.
    pub message: Option<String>,
}

/// The warnings that an answer may have, and the characters that one may have: more are cut off by
/// the API server (4,096 for all webhooks of a request) or by kubectl's readers.
const MOST_WARNINGS: usize = 24;
const MOST_WARNING_CHARS: usize = 120;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'r> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'r>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'r> {
    uid: &'r str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    audit_annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Status<'r> {
    code: u16,
    reason: &'static str,
    message: &'r str,
}

/// What an answer says.
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) denial: Option<Denial>,
    pub(super) patch: Option<String>,
    pub(super) warnings: Vec<String>,
    pub(super) audit: BTreeMap<&'static str, String>,
}

impl Reply {
    pub(super) fn allowed(outcome: Outcome) -> Self {
        Self {
            outcome,
            denial: None,
            patch: None,
            warnings: Vec::new(),
            audit: BTreeMap::new(),
        }
    }

    pub(super) fn denied(denial: Denial) -> Self {
        Self {
            outcome: (&denial).into(),
            denial: Some(denial),
            ..Self::allowed(Outcome::ADMITTED)
        }
    }

    /// Writes the answer to the request `uid`.
    pub(super) fn answer(self, uid: &str, pod: String) -> Answer {
        let Self {
            outcome,
            denial,
            patch,
            warnings,
            mut audit,
        } = self;
        let denied = denial.map(|denial| format!("{}: {denial}", denial.id()));
        let warnings = cut(warnings.iter().flat_map(|text| parts(text)).collect());
        audit.insert("outcome", outcome.to_string());
        let response = Response {
            uid,
            allowed: denied.is_none(),
            status: denied.as_deref().map(|message| Status {
                code: 403,
                reason: "Forbidden",
                message,
            }),
            patch_type: patch.is_some().then_some("JSONPatch"),
            warnings: warnings.clone(),
            audit_annotations: audit,
        };
        let body = json_of(&Envelope {
            api_version: API_VERSION,
            kind: KIND,
            response,
        });
        let body = with_patch(body, patch.as_deref());
        let message = denied.or_else(|| (!warnings.is_empty()).then(|| warnings.join("; ")));
        Answer {
            body,
            outcome,
            pod,
            message,
        }
    }
}

/// The body with the patch as the response's last field. It is most of the body, and base64 needs no escapes, so it
/// is written in place and not looked through once more.
fn with_patch(mut body: String, patch: Option<&str>) -> Vec<u8> {
    const END: &str = "}}";
    if let Some(patch) = patch {
        debug_assert!(body.ends_with(END), "the response is the last field of its envelope");
        body.truncate(body.len() - END.len());
        body.reserve(patch.len().div_ceil(3) * 4 + 32);
        body.push_str(",\"patch\":\"");
        BASE64_STANDARD.encode_string(patch, &mut body);
        body.push('"');
        body.push_str(END);
    }
    body.into_bytes()
}

/// As many warnings as an answer may have; what is left out is said.
fn cut(mut warnings: Vec<String>) -> Vec<String> {
    if let Some(more) = warnings.len().checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
        warnings.truncate(MOST_WARNINGS - 1);
        warnings.push(format!("and {} more lines; outrigger check shows all", more + 1));
    }
    warnings
}

/// A warning in as many parts as it takes to keep each to the advised length, without control characters.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().filter(|c| !c.is_control()).collect();
        while !rest.is_empty() {
            let part = parts.last_mut().expect("there is one part at least");
            let gap = usize::from(!part.is_empty());
            let free = MOST_WARNING_CHARS.saturating_sub(part.chars().count() + gap);
            if rest.len() > free && (free == 0 || rest.len() <= MOST_WARNING_CHARS) {
                parts.push(String::new());
                continue;
            }
            part.push_str(if gap == 1 { " " } else { "" });
            part.extend(rest.drain(..free.min(rest.len())));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_at_words_and_nothing_is_lost() {
        let text = format!("{} {} end", "word ".repeat(60).trim(), "x".repeat(250));
        let parts = parts(&text);
        assert!(
            parts
                .iter()
                .all(|part| part.chars().count() <= MOST_WARNING_CHARS && !part.is_empty()),
            "{parts:?}"
        );
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        assert_eq!(letters(&parts.concat()), letters(&text));
        assert_eq!(super::parts("a\u{1b}b \n c"), ["ab c"]);
        assert_eq!(super::parts(""), Vec::<String>::new());
        let many: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        let last = "and 7 more lines; outrigger check shows all".to_owned();
        assert_eq!(cut(many.clone()), [&many[..23], &[last]].concat());
        assert_eq!(cut(many[..24].to_vec()), many[..24]);
    }
}
