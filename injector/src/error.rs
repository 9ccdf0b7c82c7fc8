//! Denials, which are the user's to mend, and errors, which are ours.

use std::fmt;

use crate::conflicts::Conflict;
use crate::decision::SkipReason;
use crate::overlay::OverlayError;
use crate::pod::PodError;
use crate::requirements::{REQUIREMENTS, Violation};
use crate::settings::SettingError;
use crate::template::TemplateError;

/// The stable word for what became of a request, by which metrics, logs and reports name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome(&'static str);

impl Outcome {
    /// The pod got the proxy.
    pub const INJECTED: Self = Self("injected");
    /// The validating check found nothing.
    pub const ADMITTED: Self = Self("admitted");
    /// The validating check found something and warned.
    pub const WARNED: Self = Self("warned");
    /// The validating check found something and noted it.
    pub const AUDITED: Self = Self("audited");

    const OTHERS: [Self; 4] = [Self::INJECTED, Self::ADMITTED, Self::WARNED, Self::AUDITED];

    /// Every outcome.
    pub fn all() -> impl Iterator<Item = Self> {
        let skips = SkipReason::ALL.iter().map(|reason| Self(reason.as_str()));
        Self::OTHERS.into_iter().chain(skips).chain(Denial::IDS.map(Self))
    }

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<SkipReason> for Outcome {
    fn from(reason: SkipReason) -> Self {
        Self(reason.as_str())
    }
}

impl From<&Denial> for Outcome {
    fn from(denial: &Denial) -> Self {
        Self(denial.id())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Why a pod is refused: something that its owner can mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// Values of labels or annotations that mean nothing; all of them.
    Settings(Vec<SettingError>),
    /// Settings that this pod cannot have together.
    Combination(Vec<String>),
    /// Names, ports or a uid that the proxy needs.
    Conflicts(Vec<Conflict>),
    /// A pod that cannot be read.
    Pod(PodError),
    /// The annotations would be larger than the API server takes.
    TooLarge {
        /// The bytes of all annotations.
        bytes: usize,
    },
    /// Labels that are missing or wrong, or a missing proxy.
    Violations(Vec<Violation>),
}

impl Denial {
    /// The stable words, in the order of the documentation.
    pub const IDS: [&'static str; 7] = [
        "bad-setting",
        "name-taken",
        "port-taken",
        "uid-taken",
        "bad-pod",
        "config-too-large",
        "requirements",
    ];

    /// What each stable word stands for.
    pub const MEANINGS: [(&'static str, &'static str); Self::IDS.len()] = [
        (
            "bad-setting",
            "a label or annotation has a value that means nothing, or settings that do not go together; all are listed",
        ),
        (
            "name-taken",
            "a container, volume, annotation or label of the pod has a name that the proxy needs",
        ),
        ("port-taken", "a container declares a port on which the proxy listens"),
        (
            "uid-taken",
            "with redirected traffic, a container runs as the proxy's uid, whose traffic is not redirected",
        ),
        (
            "bad-pod",
            "a field that is read has a wrong type, or the pod has no container",
        ),
        (
            "config-too-large",
            "with nginx.conf the annotations would have more than 256 KiB",
        ),
        (
            "requirements",
            "a required label is missing or wrong, or the proxy is missing",
        ),
    ];

    /// The stable word.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Settings(_) | Self::Combination(_) => "bad-setting",
            Self::Conflicts(conflicts) => conflicts.first().map_or("name-taken", Conflict::id),
            Self::Pod(_) => "bad-pod",
            Self::TooLarge { .. } => "config-too-large",
            Self::Violations(violations) => violations
                .iter()
                .find(|v| v.is_refusal())
                .map_or(REQUIREMENTS, |v| v.rule),
        }
    }
}

/// The most bytes that all annotations of an object may have (apimachinery, `TotalAnnotationSizeLimitB`).
pub const MOST_ANNOTATION_BYTES: usize = 256 << 10;

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(errors) => join(f, errors),
            Self::Combination(reasons) => join(f, reasons),
            Self::Conflicts(conflicts) => join(f, conflicts),
            Self::Pod(error) => write!(f, "the pod cannot be read: {error}"),
            Self::TooLarge { bytes } => write!(
                f,
                "with the proxy's configuration the annotations have {bytes} bytes or more; at most {MOST_ANNOTATION_BYTES} are \
                 possible; list fewer ports or upstreams"
            ),
            // As many as the operator has rules.
            Self::Violations(violations) => join_all(f, violations),
        }
    }
}

/// The most parts that a message lists: a pod can have tens of thousands of faults.
const MOST_PARTS: usize = 20;

fn join<T: fmt::Display>(f: &mut fmt::Formatter<'_>, parts: &[T]) -> fmt::Result {
    join_all(f, &parts[..parts.len().min(MOST_PARTS)])?;
    match parts.len().saturating_sub(MOST_PARTS) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

fn join_all<T: fmt::Display>(f: &mut fmt::Formatter<'_>, parts: &[T]) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str("; ")?;
        }
        part.fmt(f)?;
    }
    Ok(())
}

/// A fault of Outrigger or its operator. Over HTTP it is a 500, so that failurePolicy decides.
#[derive(Debug, thiserror::Error)]
pub enum InternalError {
    /// A template cannot be rendered.
    #[error("template {0}")]
    Template(#[from] TemplateError),
    /// Nothing is known of Services yet, which is not the same as that there are none.
    #[error(
        "the cluster's Services have not been listed yet; may the server list and watch them? Without, set \
         OUTRIGGER_WATCH_SERVICES=disabled"
    )]
    ServicesNotListed,
    /// What a template gave is no overlay.
    #[error("template {file}: what it gives is no overlay: {source}")]
    Overlay {
        /// The template's file.
        file: String,
        /// What is wrong.
        #[source]
        source: Box<OverlayError>,
    },
}

/// An error with what caused it. Some name their cause in their own message, others only as their
/// source: whatever is said already is not said again.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}
