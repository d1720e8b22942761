//! The only place that draws random numbers: names of processes, tags of statements, jitter. Decisions in
//! `core` take their draws as arguments.

use std::time::Duration;

use fencepost_core::lane::{Owner, Tag};

/// A source of random numbers, seeded by the operating system unless a seed is given. Not for secrets.
#[derive(Debug)]
pub struct Random(fastrand::Rng);

impl Default for Random {
    fn default() -> Self {
        Random(fastrand::Rng::with_seed(from_system().as_u64_pair().0))
    }
}

/// Characters of an owner's random part: no vowels, so no words; none that look alike.
const ALPHABET: &[u8] = b"23456789bcdfghjkmnpqrstvwxz";
/// 27^10 is 2^47: two starts of one name in a lease's time never meet.
const SUFFIX_CHARS: usize = 10;

impl Random {
    /// With a seed, for tests.
    pub fn seeded(seed: u64) -> Self {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// The name of this process in leases: the configured name and a random part.
    pub fn owner(&mut self, name: &str) -> Owner {
        let suffix: String = (0..SUFFIX_CHARS).map(|_| char::from(ALPHABET[self.0.usize(..ALPHABET.len())])).collect();
        Owner(format!("{name}-{suffix}").into())
    }

    /// A tag for one statement, from the operating system's randomness: it must differ from every other
    /// process's.
    pub fn tag(&mut self) -> Tag {
        Tag(from_system().as_u128())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A draw from `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    /// A draw from `base/2 ..= base`: a wait that spreads relays that were woken together.
    pub fn jitter(&mut self, base: Duration) -> Duration {
        base.mul_f64(0.5 + 0.5 * self.0.f64())
    }

    /// The wait after one of `previous`: between `base` and three times the previous one, at most `cap`
    /// (decorrelated jitter). Start with `previous = base`.
    pub fn backoff(&mut self, base: Duration, cap: Duration, previous: Duration) -> Duration {
        let high = previous.saturating_mul(3).min(cap).max(base);
        (base + (high - base).mul_f64(self.0.f64())).min(cap)
    }
}

/// 122 bits from the operating system.
#[allow(clippy::disallowed_methods, reason = "the home of randomness")]
fn from_system() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_one_name_differ() {
        let mut random = Random::default();
        let (a, b) = (random.owner("relay"), random.owner("relay"));
        assert_ne!(a, b);
        assert!(a.0.starts_with("relay-") && a.0.len() == "relay-".len() + SUFFIX_CHARS);
        assert_ne!(random.tag(), random.tag());
    }

    #[test]
    fn generators_of_two_processes_differ() {
        assert_ne!(Random::default().number(), Random::default().number());
    }

    #[test]
    fn waits_stay_inside_their_bounds() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
        let mut random = Random::seeded(7);
        let mut wait = base;
        for _ in 0..1_000 {
            wait = random.backoff(base, cap, wait);
            assert!((base..=cap).contains(&wait), "{wait:?}");
            let jittered = random.jitter(base);
            assert!((base / 2..=base).contains(&jittered), "{jittered:?}");
        }
        assert_eq!(random.backoff(base, base / 2, Duration::MAX), base / 2, "the cap wins");
    }
}
