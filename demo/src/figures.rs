//! Numbers for people: thousands with commas, and a rate over the last moments.

use std::collections::VecDeque;
use std::time::Duration;

/// 1234567 as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How fast a counter grows, over a sliding window.
#[derive(Clone, Debug)]
pub struct Rate {
    window: Duration,
    samples: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// Over the last `window`.
    pub fn over(window: Duration) -> Self {
        Rate { window, samples: VecDeque::new() }
    }

    /// The counter stood at `count` at the time `now` (since any fixed start). Returns the growth per second.
    pub fn sample(&mut self, now: Duration, count: u64) -> f64 {
        self.samples.push_back((now, count));
        // One sample from before the window stays: growth is measured against it.
        while self.samples.len() > 2 && self.samples[1].0 + self.window <= now {
            self.samples.pop_front();
        }
        let (since, from) = self.samples[0];
        let seconds = now.saturating_sub(since).as_secs_f64();
        if seconds > 0.0 { count.saturating_sub(from) as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_at_every_third_digit() {
        let written = [0, 7, 999, 1_000, 12_345, 1_234_567].map(thousands);
        assert_eq!(written, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn a_rate_forgets_what_lies_before_its_window() {
        let at = Duration::from_secs;
        let mut rate = Rate::over(at(2));
        assert_eq!(rate.sample(at(0), 0), 0.0);
        assert_eq!(rate.sample(at(1), 100), 100.0);
        assert_eq!(rate.sample(at(2), 200), 100.0);
        assert_eq!(rate.sample(at(3), 200), 50.0);
        assert_eq!(rate.sample(at(4), 200), 0.0);
    }
}
