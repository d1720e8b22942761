//! Producers: each transaction locks its keys before it inserts, holds them until it ends, and commits or
//! rolls back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_core::lane::Moment;

use super::{Due, Plan, Simulation};

/// All producers.
pub(super) struct Writers {
    open: Vec<Option<Open>>,
    locked: BTreeSet<u32>,
    committed_at: BTreeMap<i64, Moment>,
}

struct Open {
    xid: u64,
    keys: Vec<u32>,
    /// Messages that it still writes before it ends.
    left: usize,
    ids: Vec<i64>,
}

impl Writers {
    pub(super) fn new(plan: &Plan) -> Self {
        let open = (0..plan.writers).map(|_| None).collect();
        Writers { open, locked: BTreeSet::new(), committed_at: BTreeMap::new() }
    }

    pub(super) fn are_idle(&self) -> bool {
        self.open.iter().all(Option::is_none)
    }

    /// Since when a message has been waiting.
    pub(super) fn waited(&self, id: i64, now: Moment) -> Option<Duration> {
        self.committed_at.get(&id).map(|at| now.saturating_sub(*at))
    }

    /// The database died: nobody's transaction is open any more.
    pub(super) fn forget(&mut self) {
        self.open.iter_mut().for_each(|open| *open = None);
        self.locked.clear();
    }
}

impl Simulation {
    pub(super) fn write(&mut self, writer: usize) {
        let after = match self.writers.open[writer].take() {
            None if self.quiet => return,
            None => self.open(writer),
            Some(open) if open.left > 0 => self.insert(writer, open),
            Some(open) => self.end(open),
        };
        let at = self.within(after / 2..after * 3 / 2 + 1);
        self.due.insert(Due::Writer(writer), at);
    }

    /// Begins a transaction: it has its id and its locks before its first message's id.
    fn open(&mut self, writer: usize) -> u64 {
        let mut keys = Vec::new();
        for _ in 0..self.rng.usize(1..=self.plan.messages_max) {
            let key = self.rng.u32(0..self.plan.keys);
            if self.writers.locked.insert(key) {
                keys.push(key);
            }
        }
        if !keys.is_empty() {
            let (xid, left) = (self.world.db.begin(), keys.len());
            self.writers.open[writer] = Some(Open { xid, keys, left, ids: Vec::new() });
        }
        self.hold()
    }

    fn insert(&mut self, writer: usize, mut open: Open) -> u64 {
        open.left -= 1;
        let key = open.keys[open.left];
        // Spreads keys over all slots.
        let slot = (key.wrapping_mul(2_654_435_761) >> 24) as u8;
        open.ids.push(self.world.db.insert(open.xid, slot, key, ()));
        self.writers.open[writer] = Some(open);
        self.hold()
    }

    fn hold(&mut self) -> u64 {
        let long = !self.quiet && self.rng.u32(0..1000) < self.plan.long_transactions;
        if long { 3_000_000 } else { 200 }
    }

    fn end(&mut self, open: Open) -> u64 {
        if self.rng.u32(0..1000) < self.plan.rollbacks {
            self.world.db.rollback(open.xid);
        } else {
            self.world.commit(open.xid);
            let now = self.world.now;
            self.writers.committed_at.extend(open.ids.iter().map(|id| (*id, now)));
        }
        for key in &open.keys {
            self.writers.locked.remove(key);
        }
        self.plan.pause_us
    }
}
