//! The one place that draws: names of this run, customers, amounts.

use uuid::Uuid;

/// A source of random numbers.
#[derive(Debug)]
#[allow(clippy::disallowed_methods, reason = "the home of randomness")]
pub struct Random(fastrand::Rng);

#[allow(clippy::disallowed_methods, reason = "the home of randomness")]
impl Default for Random {
    fn default() -> Self {
        Random(fastrand::Rng::new())
    }
}

impl Random {
    /// Six characters that tell this run's things from those of others.
    pub fn suffix(&mut self) -> String {
        (0..6).map(|_| self.0.lowercase()).collect()
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0.u32(..end)
    }

    /// A new identity (UUIDv4).
    pub fn id(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(self.0.u128(..).to_be_bytes()).into_uuid()
    }
}
