//! The only place that reads a clock. Leases and deadlines run on [`Clock`], which a suspended machine does
//! not stop; the wall clock serves display alone, and correctness never depends on it.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost_core::lane::Moment;
use rustix::time::{ClockId, clock_gettime};
#[cfg(target_os = "linux")]
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

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

/// A timer for the loop that polls. The runtime's own timer counts whole milliseconds and rounds up, so that a
/// poll each millisecond comes after 1 to 2 of them; on Linux the kernel's timer wakes in time. It serves short
/// waits alone: arming it costs a system call.
#[derive(Debug)]
pub struct FineTimer {
    #[cfg(target_os = "linux")]
    timer: AsyncFd<OwnedFd>,
}

/// From here on the runtime's timer is fine enough.
const FINE: Duration = Duration::from_millis(5);

#[cfg(target_os = "linux")]
impl FineTimer {
    /// A timer of the current runtime.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "its successor is unsafe for what an owned descriptor gives: it stays open")]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(FineTimer { timer })
    }

    /// Waits for so long, to some 0.1 ms.
    pub async fn pause(&self, duration: Duration) {
        if duration >= FINE || self.arm(duration).is_err() {
            return pause(duration).await;
        }
        // What the runtime remembers may be an earlier expiry: only the timer's own count ends the wait.
        while let Ok(mut ready) = self.timer.readable().await {
            let count = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut [0u8; 8])?));
            if count.is_ok() {
                return;
            }
        }
    }

    /// Arming anew takes back an earlier expiry that nobody waited for.
    fn arm(&self, duration: Duration) -> io::Result<()> {
        let value = Timespec { tv_sec: 0, tv_nsec: duration.subsec_nanos().max(1).into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl FineTimer {
    /// The runtime's timer.
    ///
    /// # Errors
    /// Never.
    pub fn new() -> io::Result<Self> {
        Ok(FineTimer {})
    }

    /// Waits for so long, rounded up to a millisecond.
    pub async fn pause(&self, duration: Duration) {
        pause(duration).await;
    }
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

    #[tokio::test(flavor = "current_thread")]
    async fn a_fine_timer_is_never_early_and_can_be_used_again() {
        let timer = FineTimer::new().expect("a timer");
        for micros in [1, 300, 700, 6_000, 300] {
            // One that nobody waits for must not end the next wait early.
            tokio::select! { biased; () = timer.pause(Duration::from_micros(100)) => {}, () = pause(Duration::ZERO) => {} }
            let (asked, start) = (Duration::from_micros(micros), Clock.now());
            timer.pause(asked).await;
            assert!(Clock.since(start) >= asked, "{micros} us");
        }
    }

    #[test]
    fn the_wall_clock_is_past_the_epoch() {
        // 2020-01-01, so that a clock in seconds or milliseconds would fail.
        assert!(wall_us() > 1_577_836_800_000_000);
    }
}
