//! What has time, on the fake database.

use std::time::Duration;

use fencepost_core::audit::{Recorded, Window};
use fencepost_core::lane::{LaneId, Owner, Slots};
use fencepost_relay::store::{Finding, Housekeeper, LaneLag, StoreError};

use super::{FakeSession, Message};
use crate::database::{FakeDatabase, Found, Row};

/// Batch rows of a lane that pruning leaves alone.
const BATCHES_KEPT: i64 = 10_000;

impl Housekeeper for FakeSession {
    async fn lag(&mut self) -> Result<Vec<LaneLag>, StoreError> {
        Ok(self.0.run(|database| {
            let lanes = database.lanes().map(|(id, lane)| (id, lane.slots.clone()));
            lanes.filter_map(|(lane, slots)| lag_of(database, lane, &slots)).collect()
        }))
    }

    async fn prune(&mut self, lease: Duration, limit: i64) -> Result<u64, StoreError> {
        Ok(self.0.run(|database| database.prune(BATCHES_KEPT, lease * 10, limit)))
    }

    async fn recorded(&mut self, lane: LaneId, from: i64, limit: i64) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.0.run(|database| database.recorded(lane, from, limit)))
    }

    async fn count(&mut self, window: &Window, rows_max: i64) -> Result<Option<i64>, StoreError> {
        let found = self.0.run(|database| database.between(window).len() as i64);
        Ok((found <= rows_max).then_some(found))
    }

    async fn report(&mut self, _: &Owner, window: &Window, found: i64) -> Result<Finding, StoreError> {
        Ok(self.0.run(|database| finding(&database.report(window, found))))
    }

    async fn findings(&mut self) -> Result<Vec<Finding>, StoreError> {
        Ok(self.0.run(|database| database.findings().map(finding).collect()))
    }
}

fn finding(found: &Found) -> Finding {
    let Window { lane, from_n, to_n, expected, .. } = found.window;
    Finding { lane, from_n, to_n, expected, found: found.found, ids: found.ids.clone() }
}

fn lag_of(database: &FakeDatabase<Message>, lane: LaneId, slots: &Slots) -> Option<LaneLag> {
    let (_, newest) = database.newest(lane)?;
    let waits = |(id, row): &(i64, &Row<Message>)| {
        slots.contains(&row.slot) && !FakeDatabase::<Message>::covers(&newest.position, *id, row.xid)
    };
    let waiting: Vec<Duration> = database.committed().filter(waits).map(|(_, row)| row.created_at).collect();
    let oldest = database.now.saturating_sub(*waiting.iter().min()?);
    Some(LaneLag { lane, messages: waiting.len() as i64, oldest })
}
