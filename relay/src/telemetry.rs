//! Logs on standard error, by tracing; names of spans and fields in one place. No message, key, header value or
//! secret is a field of anything.

use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Names of spans.
pub mod span {
    /// Everything about one source.
    pub const SOURCE: &str = "source";
    /// One page, from its first row read to its last outcome.
    pub const PAGE: &str = "page";
    /// One message of a producer that sent a traceparent, from the page to its outcome.
    pub const MESSAGE: &str = "message";
    /// One mark statement, with its retries.
    pub const MARK: &str = "mark";
}

/// Names of fields. `tracing`'s macros take them as `{ field::LANE } = lane.0`.
pub mod field {
    /// Name of a source.
    pub const SOURCE: &str = "source";
    /// Number of a lane.
    pub const LANE: &str = "lane";
    /// Generation of its lease.
    pub const GENERATION: &str = "generation";
    /// Who holds or held it.
    pub const OWNER: &str = "owner";
    /// Number of a batch row.
    pub const N: &str = "n";
    /// Id of a message in the log.
    pub const ID: &str = "id";
    /// UUID of a message.
    pub const MESSAGE_ID: &str = "message_id";
    /// The producer's W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";
    /// How many messages.
    pub const MESSAGES: &str = "messages";
    /// Class of a failure.
    pub const CLASS: &str = "class";
    /// librdkafka's code.
    pub const CODE: &str = "code";
    /// Why, bounded and without secrets.
    pub const REASON: &str = "reason";
}

/// Whether tracing takes `text` as a filter: levels, or module=level, with commas. An empty text would log nothing.
pub(crate) fn is_filter(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    // EnvFilter alone takes any word for a module's name, so a misspelt level would silence the log.
    let is_one = |part: &str| match part.rsplit_once('=') {
        Some((_, level)) => LEVELS.contains(&level),
        None => LEVELS.contains(&part),
    };
    text.split(',').all(is_one) && EnvFilter::try_new(text).is_ok()
}

/// Logging is set up already in this process.
#[derive(Debug, thiserror::Error)]
#[error("logging can't be set up: {0}")]
pub struct TelemetryError(String);

/// Sends logs to standard error and makes panics one log line without their text, which may quote data.
///
/// # Errors
/// A second call in one process.
pub fn init(log: &Log) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| TelemetryError(error.to_string()))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|error| TelemetryError(error.to_string()))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Only a text that is a literal of the program is safe to show: one with arguments may hold a message's bytes.
fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or_else(String::new, ToString::to_string);
    let text = info.payload().downcast_ref::<&'static str>().copied().unwrap_or("");
    tracing::error!(place, text, "the program panicked; please report this line");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_no_filter() {
        for good in ["info", "debug,sqlx=warn", "info,fencepost_relay::engine=trace", "off"] {
            assert!(is_filter(good), "{good}");
        }
        for bad in ["", "infos", "sqlx=loud", "info,,debug", "fencepost"] {
            assert!(!is_filter(bad), "{bad}");
        }
    }
}
