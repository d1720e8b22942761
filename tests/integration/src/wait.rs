//! The clock of the tests, and the single place where they wait. A test waits for a condition with a
//! deadline, never for a duration; [`hold`] is for scripts whose durations are the point (a writer that
//! holds its transaction open, a lease that must run out).

use std::time::{Duration, Instant};

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Monotonic time.
pub fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "the home of the clock in tests")]
    Instant::now()
}

/// Milliseconds since the Unix epoch by the wall clock, to compare with a record's timestamp.
pub fn unix_ms() -> i64 {
    #[allow(clippy::disallowed_methods, reason = "the home of the clock in tests")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).expect("the clock is past 1970").as_millis() as i64
}

/// Looks at `condition` until it is true.
///
/// # Panics
/// When it is still false after `deadline`: "`description` did not come true".
pub async fn until(deadline: Duration, description: &str, mut condition: impl AsyncFnMut() -> bool) {
    until_some(deadline, description, async || condition().await.then_some(())).await;
}

/// Looks until `probe` finds something, and returns it.
///
/// # Panics
/// When there is still nothing after `deadline`: "`description` did not come true".
pub async fn until_some<T>(deadline: Duration, description: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(start.elapsed() < deadline, "{description} did not come true within {deadline:?}");
        pause().await;
    }
}

/// The short pause between two looks of a loop that has a deadline of its own.
pub async fn pause() {
    hold(PAUSE).await;
}

/// As [`until`], for code without a runtime: blocks the thread.
///
/// # Panics
/// When the condition is still false after `deadline`.
pub fn until_blocking(deadline: Duration, description: &str, mut condition: impl FnMut() -> bool) {
    let start = now();
    while !condition() {
        assert!(start.elapsed() < deadline, "{description} did not come true within {deadline:?}");
        #[allow(clippy::disallowed_methods, reason = "the one pause between two looks")]
        std::thread::sleep(PAUSE);
    }
}

/// Lets `duration` pass: part of a test's script, never a way to wait for somebody else.
pub async fn hold(duration: Duration) {
    #[allow(clippy::disallowed_methods, reason = "the home of sleeping in tests")]
    tokio::time::sleep(duration).await;
}
