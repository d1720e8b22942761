//! What the actors count while the story runs, for the view and for deciding when things have come to rest. The
//! verdict counts for itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tally {
    /// Orders whose commit was confirmed.
    pub committed: Counter,
    /// Orders that were rolled back.
    pub rolled_back: Counter,
    /// Records that the auditor read.
    pub records: Counter,
    /// Distinct messages among them.
    pub distinct: Counter,
    /// Effects that the consumer applied.
    pub applied: Counter,
    /// Repeats that its ledger absorbed.
    pub absorbed: Counter,
}

impl Tally {
    /// Records that the consumer is done with.
    pub fn consumed(&self) -> u64 {
        self.applied.get() + self.absorbed.get()
    }
}
