//! The completeness audit's side of the database, and the same audit over everything, for the simulator.

use fencepost_core::audit::{Recorded, Step, Window, choose};
use fencepost_core::lane::LaneId;

use super::{BatchRow, FakeDatabase, Kind};

/// A window that held another number of messages than was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub window: Window,
    /// Messages that it held.
    pub found: i64,
    /// Some of their ids.
    pub ids: Vec<i64>,
    /// Somebody looked into it.
    pub closed: bool,
}

/// Ids that a finding names.
const IDS_MAX: usize = 20;

impl<M: Clone> FakeDatabase<M> {
    /// Rows of a lane's batch log, newest first, behind what a finding covers.
    pub fn recorded(&self, lane: LaneId, from: i64, limit: i64) -> Vec<Recorded> {
        let told = self.findings.iter().filter(|found| found.window.lane == lane).map(|found| found.window.to_n);
        let from = told.max().unwrap_or(0).max(from);
        let rows = self.batches.range((lane, from)..=(lane, i64::MAX)).rev();
        rows.take(limit.max(0) as usize).map(|((_, n), row)| step(*n, row)).collect()
    }

    /// Ids of the lane's committed messages that lie between the window's snapshots.
    pub fn between(&self, window: &Window) -> Vec<i64> {
        let Some(lane) = self.lanes.get(&window.lane) else { return Vec::new() };
        let (lo, up) = (&window.lo.snapshot, &window.up.snapshot);
        let inside = self.committed().filter(|(_, row)| !lo.sees(row.xid) && up.sees(row.xid));
        inside.filter(|(_, row)| lane.slots.contains(&row.slot)).map(|(id, _)| id).collect()
    }

    /// Writes a difference down once, and returns it.
    pub fn report(&mut self, window: &Window, found: i64) -> Found {
        let lo = &window.lo;
        let mut ids = self.between(window);
        let unreadable = |id: &i64| self.log.get(id).is_some_and(|row| *id <= lo.seq0 && row.xid >= lo.snapshot.xmax());
        ids.sort_by_key(|id| (!unreadable(id), -id));
        ids.truncate(IDS_MAX);
        let finding = Found { window: window.clone(), found, ids, closed: false };
        let same = |told: &Found| (told.window.lane, told.window.to_n) == (window.lane, window.to_n);
        if !self.findings.iter().any(same) {
            self.findings.push(finding.clone());
        }
        finding
    }

    /// What was found and nobody has closed.
    pub fn findings(&self) -> impl Iterator<Item = &Found> {
        self.findings.iter().filter(|found| !found.closed)
    }

    /// Every finding is looked into.
    pub fn close_findings(&mut self) {
        self.findings.iter_mut().for_each(|found| found.closed = true);
    }

    /// Audits all of every lane, as a whole and in stretches of at most `ids` ids: each window with what it holds.
    pub fn audit(&self, ids: i64) -> Vec<(Window, i64)> {
        let mut audited = Vec::new();
        for lane in self.lanes.keys() {
            let rows: Vec<Recorded> = self.batches(*lane).map(|(n, row)| step(n, row)).collect();
            let rows: Vec<Recorded> = rows.into_iter().rev().collect();
            let mut windows: Vec<Window> = choose(*lane, &rows, i64::MAX).and_then(|c| c.window).into_iter().collect();
            let mut top = 0;
            while top < rows.len() {
                let window = choose(*lane, &rows[top..], ids).and_then(|choice| choice.window);
                let next = window.as_ref().and_then(|window| rows.iter().position(|row| row.n == window.from_n));
                top = next.unwrap_or(top + 1);
                windows.extend(window);
            }
            audited.extend(windows.into_iter().map(|window| {
                let found = self.between(&window).len() as i64;
                (window, found)
            }));
        }
        audited
    }
}

fn step(n: i64, row: &BatchRow) -> Recorded {
    let moved = matches!(row.kind, Kind::Mark | Kind::Fence) && row.open.is_none();
    let step = if moved { Step::Moved(row.counts.0) } else { Step::Other };
    Recorded { n, step, position: row.position.clone() }
}
