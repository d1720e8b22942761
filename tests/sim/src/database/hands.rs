//! Hands that reach behind the relay, for tests of a store: what an operator, a clock or an accident would do.

use std::time::Duration;

use fencepost_core::lane::{LaneId, Tag};
use fencepost_core::position::{Base, Position, Sighting, Snapshot, Tick};

use super::{FakeDatabase, Kind};

impl<M: Clone> FakeDatabase<M> {
    /// Makes a lane's lease expired; owner and generation stay.
    pub fn expire(&mut self, lane: LaneId) {
        let before = self.now.saturating_sub(Duration::from_millis(1));
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.expires_at = Some(before);
        }
    }

    /// Shifts the times at which a lane's batch rows were written into the past.
    pub fn age_batches(&mut self, lane: LaneId, by: Duration) {
        for (_, row) in self.batches.iter_mut().filter(|((of, _), _)| *of == lane) {
            row.written_at = row.written_at.saturating_sub(by);
        }
    }

    /// Shifts all heartbeats into the past.
    pub fn age_heartbeats(&mut self, by: Duration) {
        for at in self.beats.values_mut() {
            *at = at.saturating_sub(by);
        }
    }

    /// Appends copies of a lane's newest row.
    pub fn pad_batches(&mut self, lane: LaneId, count: i64) {
        let Some((n, newest)) = self.newest(lane) else { return };
        let newest = newest.clone();
        self.batches.extend((1..=count).map(|i| ((lane, n + i), newest.clone())));
    }

    /// Appends a row with an open broker transaction, as exactly-once mode writes it.
    pub fn leave_open(&mut self, lane: LaneId) {
        let Some((n, newest)) = self.newest(lane) else { return };
        let mut row = newest.clone();
        let up = Sighting { snapshot: Snapshot::new(9, 12, &[]), last_id: 60 };
        (row.kind, row.open, row.tag) = (Kind::Prepared, Some(n + 1), Tag(n.unsigned_abs().into()));
        row.position = Position { up: Some(Tick::new(Base { seq0: 50 }, &up)), cursor: 55, ..row.position };
        self.batches.insert((lane, n + 1), row);
    }

    /// Changes how many messages a batch row says it delivered.
    pub fn recount(&mut self, lane: LaneId, n: i64, messages: i64) {
        if let Some(row) = self.batches.get_mut(&(lane, n)) {
            row.counts.0 = messages;
        }
    }

    /// Copies a committed message under a new id and its old transaction id, and returns the id.
    pub fn smuggle(&mut self, id: i64) -> i64 {
        let row = self.log[&id].clone();
        self.last_id += 1;
        std::sync::Arc::make_mut(&mut self.log).insert(self.last_id, row);
        self.last_id
    }

    /// Deletes all batch rows of a lane.
    pub fn forget_batches(&mut self, lane: LaneId) {
        self.batches.retain(|(of, _), _| *of != lane);
    }

    /// Deletes a lane.
    pub fn forget_lane(&mut self, lane: LaneId) {
        self.lanes.remove(&lane);
    }
}
