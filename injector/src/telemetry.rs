//! Logs: to stderr, as text or JSON.
//!
//! Values that come from outside are recorded as fields, never as part of an event's own message:
//! the formatters quote and escape fields, so that a caller's line break or escape sequence can't
//! forge a line. The field name `message` is the event's own text and is written as it is: do not
//! use it for a caller's text.

use std::any::Any;
use std::io::{self, IsTerminal};
use std::panic;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogConfig, LogFormat};

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error("OUTRIGGER_LOG is {filter:?}: expected a level or directives such as info,outrigger=debug: {source}")]
    Filter {
        /// The filter as configured.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Something else in this process logs already.
    #[error("logging is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sends all logs, and panics as logs, to stderr. Colours only for a terminal.
///
/// # Errors
/// When the filter does not parse, or logging was set up before.
pub fn init(config: &LogConfig) -> Result<(), TelemetryError> {
    subscriber(config, config.color && io::stderr().is_terminal(), io::stderr)?.try_init()?;
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// What [`init`] installs, for any writer.
///
/// # Errors
/// When the filter does not parse.
pub fn subscriber<W>(
    config: &LogConfig,
    ansi: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(&config.filter);
    let filter = filter.map_err(|source| TelemetryError::Filter {
        filter: config.filter.clone(),
        source,
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(ansi);
    Ok(match config.format {
        LogFormat::Text => Box::new(registry.with(layer)),
        LogFormat::Json => Box::new(registry.with(layer.json().flatten_event(true))),
    })
}

fn log_panic(info: &panic::PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    tracing::error!(reason = panic_text(info.payload()), location, "panic");
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of an unknown kind")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let page = Page::default();
        let writer = page.clone();
        let config = LogConfig {
            filter: filter.to_owned(),
            format,
            color: false,
        };
        let subscriber = subscriber(&config, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    const FORGED: &str = "x\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[31m\u{7f}\u{9b}31m\"";

    #[test]
    fn a_field_cannot_forge_a_line() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let page = logged(format, "info", || {
                tracing::info!(namespace = FORGED, detail = Some(FORGED), "admitted");
            });
            assert_eq!(page.lines().count(), 1, "{page:?}");
            // JSON has no need to escape DEL and C1, and its readers are programs.
            let raw = |char: &char| match format {
                LogFormat::Text => char.is_control(),
                LogFormat::Json => *char < ' ',
            };
            assert_eq!(page.trim_end_matches('\n').chars().find(raw), None, "{page:?}");
            assert!(page.contains("forged"), "the value itself is kept: {page}");
        }
    }

    #[test]
    fn json_keeps_values_as_they_are() {
        let page = logged(LogFormat::Json, "info", || {
            tracing::info!(uid = FORGED, "admitted");
        });
        let line: serde_json::Value = serde_json::from_str(&page).unwrap();
        assert_eq!(
            (line["uid"].as_str(), line["message"].as_str()),
            (Some(FORGED), Some("admitted"))
        );
    }

    #[test]
    fn the_filter_applies() {
        let page = logged(LogFormat::Text, "warn", || {
            tracing::info!("quiet");
            tracing::warn!("loud");
        });
        assert!(page.contains("loud") && !page.contains("quiet"), "{page}");
    }

    #[test]
    fn a_bad_filter_names_its_variable() {
        let config = LogConfig {
            filter: "outrigger=loud".to_owned(),
            format: LogFormat::Text,
            color: true,
        };
        let error = subscriber(&config, false, io::sink).err().unwrap().to_string();
        assert!(
            error.starts_with("OUTRIGGER_LOG is \"outrigger=loud\": expected"),
            "{error}"
        );
    }
}
