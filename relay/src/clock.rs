//! The only place that reads a clock. Leases and deadlines run on [`Clock`], which a suspended machine does
//! not stop; the wall clock serves display alone, and correctness never depends on it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost_core::lane::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock that runs on through a suspend (CLOCK_BOOTTIME; elsewhere than on Linux the
/// plain monotonic clock). A read costs some 20 ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

impl Clock {
    /// Now. Only differences mean anything, and only on this machine since its boot.
    #[allow(clippy::disallowed_methods, reason = "the home of the clock")]
    pub fn now(self) -> Moment {
        let now = clock_gettime(CLOCK);
        // Neither part can be negative: the clock counts up from the boot.
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Moment) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

/// Waits for so long. The one place that sleeps: whoever waits for an event selects over this as its deadline.
#[allow(clippy::disallowed_methods, reason = "the home of pauses")]
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Microseconds since the Unix epoch by the wall clock: for latencies against the database's timestamps in
/// metrics, never for a decision.
#[allow(clippy::disallowed_methods, reason = "the home of the clock")]
pub fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let mut last = Clock.now();
        for _ in 0..1_000 {
            let now = Clock.now();
            assert!(now >= last);
            last = now;
        }
        assert_eq!(Clock.since(last + Duration::from_secs(60)), Duration::ZERO);
    }

    #[test]
    fn the_wall_clock_is_past_the_epoch() {
        // 2020-01-01, so that a clock in seconds or milliseconds would fail.
        assert!(wall_us() > 1_577_836_800_000_000);
    }
}
