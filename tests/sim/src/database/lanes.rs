//! Leases and the batch log. A mark runs in two phases, because a statement may stall after its lease check:
//! then only the key (lane, n) guards the log.

use std::time::Duration;

use fencepost_core::batch::{BatchHead, MarkRow};
use fencepost_core::lane::{Generation, LaneId, LaneRow, Moment, Owner, Slots, Survey, Tag};
use fencepost_core::position::Position;

use super::FakeDatabase;

/// A row of the lease table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The slots that it serves.
    pub slots: Slots,
    /// Who holds it, if anybody.
    pub owner: Option<Owner>,
    /// Of the last claim.
    pub generation: Generation,
    /// End of the lease by the database's clock.
    pub expires_at: Option<Moment>,
}

impl Lane {
    pub(super) fn free(slots: Slots) -> Self {
        Lane { slots, owner: None, generation: Generation(0), expires_at: None }
    }

    /// As microseconds, the way the relay sees it.
    fn expires_at_us(&self) -> Option<i64> {
        self.expires_at.map(|at| at.as_micros() as i64)
    }
}

/// What wrote a row of the batch log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The lane's first row.
    Init,
    /// A claim.
    Fence,
    /// A mark.
    Mark,
    /// An open broker transaction, as exactly-once mode writes it.
    Prepared,
}

impl Kind {
    /// As the column holds it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Init => "init",
            Kind::Fence => "fence",
            Kind::Mark => "mark",
            Kind::Prepared => "prepared",
        }
    }
}

/// A row of the batch log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// What wrote it.
    pub kind: Kind,
    /// Of its writer.
    pub generation: Generation,
    /// Its writer.
    pub owner: Option<Owner>,
    /// Of the statement.
    pub tag: Tag,
    /// Number of a broker transaction that may have been committed.
    pub open: Option<i64>,
    /// Where the lane stands.
    pub position: Position,
    /// Messages, bytes and time that the row records.
    pub counts: (i64, i64, Duration),
    /// When it was written, by the database's clock.
    pub written_at: Moment,
}

impl BatchRow {
    pub(super) fn init(now: Moment) -> Self {
        BatchRow {
            kind: Kind::Init,
            generation: Generation(0),
            owner: None,
            tag: Tag(0),
            open: None,
            position: Position::beginning(),
            counts: (0, 0, Duration::ZERO),
            written_at: now,
        }
    }

    fn head(&self, lane: LaneId, n: i64) -> BatchHead {
        BatchHead { lane, n, generation: self.generation, tag: self.tag, position: self.position.clone() }
    }
}

/// A mark that passed its lease check and has not landed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingMark {
    /// Who sent it.
    pub owner: Owner,
    /// Of the statement.
    pub tag: Tag,
    /// The rows that passed.
    pub rows: Vec<MarkRow>,
}

impl<M: Clone> FakeDatabase<M> {
    /// The number and row that are newest in a lane.
    pub fn newest(&self, lane: LaneId) -> Option<(i64, &BatchRow)> {
        let mut rows = self.batches.range((lane, i64::MIN)..=(lane, i64::MAX));
        rows.next_back().map(|((_, n), row)| (*n, row))
    }

    /// The newest rows as the relay reads them.
    pub fn heads(&self, lanes: &[LaneId]) -> Vec<BatchHead> {
        lanes.iter().filter_map(|lane| self.newest(*lane).map(|(n, row)| row.head(*lane, n))).collect()
    }

    /// All batch rows of a lane by number.
    pub fn batches(&self, lane: LaneId) -> impl Iterator<Item = (i64, &BatchRow)> {
        self.batches.range((lane, i64::MIN)..=(lane, i64::MAX)).map(|((_, n), row)| (*n, row))
    }

    /// First phase of a mark: which of its rows pass the check of owner, generation, lease and number.
    pub fn check_mark(&self, owner: &Owner, tag: Tag, rows: &[MarkRow]) -> PendingMark {
        let passes = |row: &&MarkRow| {
            let Some(lane) = self.lanes.get(&row.lane) else { return false };
            let held = lane.owner.as_ref() == Some(owner) && lane.generation == row.generation;
            let unexpired = lane.expires_at.is_some_and(|at| at > self.now);
            let follows = self.newest(row.lane).is_some_and(|(n, newest)| n + 1 == row.n && newest.open.is_none());
            (held && unexpired || !self.rules.lease_check)
                && (follows || self.rules.fresh_numbers || !self.rules.batch_key)
        };
        PendingMark { owner: owner.clone(), tag, rows: rows.iter().filter(passes).cloned().collect() }
    }

    /// Second phase: the rows go in where their number is free. Returns the lanes that were written.
    pub fn land_mark(&mut self, mark: &PendingMark) -> Vec<LaneId> {
        let mut saved = Vec::new();
        for row in &mark.rows {
            let newest = self.newest(row.lane).map_or(-1, |(n, _)| n);
            let taken = self.batches.contains_key(&(row.lane, row.n));
            if taken && self.rules.batch_key && !self.rules.fresh_numbers {
                continue;
            }
            let n = if taken || self.rules.fresh_numbers { newest + 1 } else { row.n };
            let counts = (row.messages, row.bytes, row.took);
            let (owner, written_at) = (Some(mark.owner.clone()), self.now);
            let (generation, tag, position) = (row.generation, mark.tag, row.position.clone());
            let row_of =
                BatchRow { kind: Kind::Mark, generation, owner, tag, open: None, position, counts, written_at };
            self.batches.insert((row.lane, n), row_of);
            saved.push(row.lane);
        }
        if !saved.is_empty() {
            self.relay_transaction(true);
        }
        saved
    }

    /// Takes a lane and writes its fence row, in one statement.
    pub fn claim(
        &mut self,
        owner: &Owner,
        lane: LaneId,
        seen: Option<(Generation, i64)>,
        lease: Duration,
    ) -> Option<BatchHead> {
        self.take_lease(owner, lane, seen, lease)?;
        self.write_fence(owner, lane)
    }

    /// The half of a claim that sets owner and generation.
    pub fn take_lease(
        &mut self,
        owner: &Owner,
        lane: LaneId,
        seen: Option<(Generation, i64)>,
        lease: Duration,
    ) -> Option<Generation> {
        let now = self.now;
        self.newest(lane)?;
        let row = self.lanes.get_mut(&lane)?;
        let free = row.owner.is_none() || row.expires_at.is_none_or(|at| at <= now);
        let silent = seen.is_some() && row.expires_at_us().map(|at| (row.generation, at)) == seen;
        if !free && !silent {
            return None;
        }
        row.owner = Some(owner.clone());
        row.generation = Generation(row.generation.0 + 1);
        row.expires_at = Some(now + lease);
        Some(row.generation)
    }

    /// The half of a claim that copies the newest row under the new generation.
    pub fn write_fence(&mut self, owner: &Owner, lane: LaneId) -> Option<BatchHead> {
        let generation = self.lanes.get(&lane)?.generation;
        let (n, newest) = self.newest(lane)?;
        let (n, mut fence) = (n + 1, newest.clone());
        let written_at = self.now;
        (fence.kind, fence.generation, fence.owner) = (Kind::Fence, generation, Some(owner.clone()));
        (fence.tag, fence.counts, fence.written_at) = (Tag(0), (0, 0, Duration::ZERO), written_at);
        let head = fence.head(lane, n);
        self.batches.insert((lane, n), fence);
        self.relay_transaction(true);
        Some(head)
    }

    fn holds(&self, owner: &Owner, lane: LaneId, generation: Generation) -> bool {
        self.is_leased(lane, generation) && self.lanes[&lane].owner.as_ref() == Some(owner)
    }

    /// Extends unexpired leases of `owner` under these generations.
    pub fn renew(&mut self, owner: &Owner, lanes: &[(LaneId, Generation)], lease: Duration) -> Vec<LaneId> {
        let held = lanes.iter().filter(|(lane, generation)| self.holds(owner, *lane, *generation));
        let held: Vec<LaneId> = held.map(|(lane, _)| *lane).collect();
        let until = self.now + lease;
        for lane in self.lanes.iter_mut().filter(|(id, _)| held.contains(id)) {
            lane.1.expires_at = Some(until);
        }
        held
    }

    /// Gives unexpired leases of `owner` under these generations back.
    pub fn release(&mut self, owner: &Owner, lanes: &[(LaneId, Generation)]) -> Vec<LaneId> {
        let held = lanes.iter().filter(|(lane, generation)| self.holds(owner, *lane, *generation));
        let held: Vec<LaneId> = held.map(|(lane, _)| *lane).collect();
        for lane in self.lanes.iter_mut().filter(|(id, _)| held.contains(id)) {
            (lane.1.owner, lane.1.expires_at) = (None, None);
        }
        held
    }

    /// Writes a relay's heartbeat.
    pub fn beat(&mut self, owner: &Owner) {
        if self.rules.heartbeats {
            self.beats.insert(owner.clone(), self.now);
        }
    }

    /// Removes a relay's heartbeat, and gives back what is still its own.
    pub fn leave(&mut self, owner: &Owner) {
        self.beats.remove(owner);
        for lane in self.lanes.values_mut().filter(|lane| lane.owner.as_ref() == Some(owner)) {
            (lane.owner, lane.expires_at) = (None, None);
        }
    }

    /// All lanes, and the relays whose heartbeat is not older than `lease`.
    pub fn survey(&self, lease: Duration) -> Survey {
        let row = |(id, lane): (&LaneId, &Lane)| LaneRow {
            lane: *id,
            slots: lane.slots.clone(),
            owner: lane.owner.clone(),
            generation: lane.generation,
            expires_at_us: lane.expires_at_us(),
            claimable: lane.owner.is_none() || lane.expires_at.is_none_or(|at| at <= self.now),
        };
        let alive = self.beats.iter().filter(|(_, at)| **at + lease >= self.now);
        Survey { lanes: self.lanes.iter().map(row).collect(), relays: alive.map(|(owner, _)| owner.clone()).collect() }
    }

    /// Deletes up to `limit` batch rows that are beyond the newest `keep` of their lane and were written more
    /// than `age` ago.
    pub fn prune(&mut self, keep: i64, age: Duration, limit: i64) -> u64 {
        let mut old = Vec::new();
        for lane in self.lanes.keys() {
            let newest = self.newest(*lane).map_or(0, |(n, _)| n);
            let rows = self.batches(*lane);
            let past = rows.filter(|(n, row)| *n <= newest - keep && row.written_at + age < self.now);
            old.extend(past.map(|(n, _)| (*lane, n)));
        }
        old.truncate(limit.max(0) as usize);
        for key in &old {
            self.batches.remove(key);
        }
        old.len() as u64
    }
}
