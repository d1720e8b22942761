//! The bench's clocks, and its one way to wait.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// Monotonic nanoseconds since the bench first asked. Never 0, so that 0 can mean "not yet".
#[allow(clippy::disallowed_methods, reason = "the home of the bench's clock")]
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// Wall clock in milliseconds since the Unix epoch: what the broker stamps on records.
#[allow(clippy::disallowed_methods, reason = "the home of the bench's clock")]
pub(crate) fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Lets time pass: the length of a measurement, or the gap between two looks at a condition.
#[allow(clippy::disallowed_methods, reason = "the home of waiting in the bench")]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// Looks every `gap` until `look` finds something.
///
/// # Errors
/// [`Error::Slow`] after `within`, and what `look` failed with.
pub(crate) async fn until<T>(
    what: &str,
    within: Duration,
    gap: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = now_ns() + within.as_nanos() as u64;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if now_ns() > deadline {
            return Err(Error::Slow { what: what.to_owned(), seconds: within.as_secs() });
        }
        pause(gap).await;
    }
}
