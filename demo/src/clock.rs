//! The demo's clock and pauses: the one place that reads time or sleeps.

use std::future::Future;
use std::time::{Duration, Instant};

/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(20);

/// Time since the program began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the home of the clock")]
        Clock(Instant::now())
    }

    /// Since the beginning.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Lets time pass: the pace of the story.
pub async fn pause(time: Duration) {
    #[allow(clippy::disallowed_methods, reason = "the home of pauses")]
    tokio::time::sleep(time).await;
}

/// Looks until `condition` is true; false if it is not within `limit`.
pub async fn until(limit: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    let clock = Clock::start();
    loop {
        if condition().await {
            return true;
        }
        if clock.elapsed() >= limit {
            return false;
        }
        pause(LOOK).await;
    }
}

/// The result, unless it takes longer than `limit`.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}
