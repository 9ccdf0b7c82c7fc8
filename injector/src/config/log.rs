//! What is logged, and how.

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A filter in the syntax of `tracing-subscriber`.
    pub filter: String,
    /// The format of a line.
    pub format: LogFormat,
    /// Whether colours are welcome where there is a terminal.
    pub color: bool,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
