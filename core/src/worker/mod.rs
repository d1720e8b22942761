//! The relay's worker for one source, as a step function: inputs tell what happened in the world and
//! what time it is, actions tell what to do next. The engine executes actions against PostgreSQL and
//! Kafka; the simulator and the model checker execute the same actions against models of them.
//!
//! * `reading` decides when to look, when to tick and which page to read;
//! * `settling` takes pages whose outcomes are known and finds each lane's delivered prefix;
//! * `marking` writes the delivered prefixes down, oldest first, under compare-and-set;
//! * `keeping` claims, renews, hands over and releases lanes;
//! * `recovering` brings everything back to the delivered prefix after a failure.

mod keeping;
mod lanes;
mod marking;
mod reading;
mod recovering;
mod settling;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::lane::{LaneId, Moment, Owner, Tag};
use crate::page::FIRST_PAGE_ROWS;
use crate::position::{Base, Sighting, Tick};

use keeping::Keeping;
use lanes::{Held, Watched};
use marking::Marking;
use recovering::Recovery;
use settling::Page;

pub use lanes::Flow;
pub use types::{
    Action, Input, LaneCount, LaneView, LossReason, Note, PageReport, PageRequest, RefusedRow, RowFailure, SettledPage,
    Terms,
};

/// The decisions of one relay about one source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    terms: Terms,
    me: Owner,
    lanes: BTreeMap<LaneId, Held>,
    watched: BTreeMap<LaneId, Watched>,
    pages: VecDeque<Page>,
    sessions: Sessions,
    sessions_since: Moment,
    /// The page of stragglers that is being read was refused: read its range instead.
    scan_next: bool,
    reader: Reader,
    base: Option<Base>,
    /// A sequence value that was read before a transaction id that is being taken or still to be taken.
    seen: Option<Sighting>,
    tick: Option<Tick>,
    next_sight: Moment,
    page_rows: u32,
    reader_since: Moment,
    paused_until: Moment,
    sight_pause: Duration,
    last_burn: Option<Moment>,
    next_lane: LaneId,
    marking: Option<Marking>,
    tags: Tag,
    keeping: Keeping,
    recovery: Option<Recovery>,
    failures_in_a_row: u32,
    draining: Drain,
}

/// The pair of database sessions that reads and marks: replaced together, since a position read through
/// a session that is gone may rest on transaction ids that the server hands out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sessions {
    Down,
    Loading,
    Up,
}

/// What the reading session is busy with; one thing at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reader {
    Idle,
    Sighting(Option<Base>),
    Burning(i64),
    Reading(PageRequest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Drain {
    No,
    Finishing,
    Dropping,
    Leaving,
    Finished,
}

impl Worker {
    /// A worker that holds nothing and has no session. `tags` is drawn at random: its statements' tags count up from it.
    pub fn new(me: Owner, terms: Terms, tags: Tag) -> Self {
        Worker {
            me,
            lanes: BTreeMap::new(),
            watched: BTreeMap::new(),
            pages: VecDeque::new(),
            sessions: Sessions::Down,
            sessions_since: Duration::ZERO,
            scan_next: false,
            reader: Reader::Idle,
            base: None,
            seen: None,
            tick: None,
            next_sight: Duration::ZERO,
            page_rows: FIRST_PAGE_ROWS.min(terms.page_rows),
            reader_since: Duration::ZERO,
            paused_until: Duration::ZERO,
            sight_pause: terms.sight_busy,
            last_burn: None,
            next_lane: LaneId(0),
            marking: None,
            tags,
            keeping: Keeping::new(),
            recovery: None,
            failures_in_a_row: 0,
            draining: Drain::No,
            terms,
        }
    }

    /// Takes in what happened and returns what to do. `now` never decreases.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Action> {
        let mut out = Vec::new();
        self.expire(now, &mut out);
        self.take_in(input, now, &mut out);
        self.recover(now, &mut out);
        self.mark(now, &mut out);
        self.keep(now, &mut out);
        self.read(now, &mut out);
        out
    }

    fn take_in(&mut self, input: Input, now: Moment, out: &mut Vec<Action>) {
        match input {
            Input::Timer => {}
            Input::Connected => self.connected(out),
            Input::Disconnected => self.disconnected(now),
            Input::Newest(heads) => self.reloaded(&heads, out),
            Input::Sighted(sighting) => self.sighted(sighting, now),
            Input::Burnt => self.burnt(now),
            Input::ReadFailed => self.read_failed(now),
            Input::PageRead(report) => self.page_read(report, now, out),
            Input::Settled(page) => self.settled(page, now),
            Input::Marked(saved) => self.marked(&saved, out),
            Input::MarkRefused => self.mark_refused(now),
            Input::Surveyed { survey, sent } => self.surveyed(survey, sent, now),
            Input::Claimed { head, sent } => self.claimed(head, sent, now, out),
            Input::Renewed { lanes, sent } => self.renewed(&lanes, sent, now, out),
            Input::Released(lanes) => self.released(&lanes, now),
            Input::Left => self.draining = Drain::Finished,
            Input::KeeperFailed => self.keeper_failed(now),
            Input::Broken => self.recovery.get_or_insert_default().rebuild = true,
            Input::Rebuilt => self.rebuilt(),
            Input::RebuildFailed => self.rebuild_failed(now),
            Input::Drain => self.draining = self.draining.max(Drain::Finishing),
            Input::DrainNow => self.drop_in_flight(out),
        }
        if self.draining == Drain::Finished {
            out.push(Action::Finished);
        }
    }

    /// Drops lanes whose lease this relay no longer trusts. Nothing of theirs is sent or marked after.
    fn expire(&mut self, now: Moment, out: &mut Vec<Action>) {
        let expired: Vec<LaneId> =
            self.lanes.iter().filter(|(_, held)| now >= held.trusted_until).map(|(lane, _)| *lane).collect();
        for lane in expired {
            self.lose(lane, LossReason::TrustEnded, out);
        }
    }

    /// Forgets a lane that is somebody else's, or may be. What is still queued in the client is purged:
    /// it could only repeat.
    fn lose(&mut self, lane: LaneId, reason: LossReason, out: &mut Vec<Action>) {
        let Some(held) = self.lanes.remove(&lane) else { return };
        out.push(Action::Note(Note::LeaseLost { lane, generation: held.generation, reason }));
        let mut in_flight = false;
        for page in &mut self.pages {
            in_flight |= page.forget(lane);
        }
        if let Some(marking) = &mut self.marking {
            marking.forget(lane);
        }
        if in_flight {
            self.purge(out);
        }
    }

    /// When to step with [`Input::Timer`] if nothing else happens before.
    pub fn next_wake(&self, now: Moment) -> Moment {
        let surveys = self.sessions == Sessions::Up && self.draining == Drain::No;
        let mut wake = self.keeping.next_wake(surveys, self.could_serve());
        wake = wake.min(self.read_wake(now)).min(self.mark_wake());
        for held in self.lanes.values() {
            wake = wake.min(held.trusted_until);
        }
        wake.min(self.recover_wake()).max(now)
    }

    /// How the lanes that are held stand, for status and metrics.
    pub fn lanes(&self) -> impl Iterator<Item = LaneView<'_>> {
        self.lanes.iter().map(|(lane, held)| LaneView {
            lane: *lane,
            generation: held.generation,
            flow: &held.flow,
            position: &held.recorded,
            trusted_until: held.trusted_until,
        })
    }

    /// When the oldest page that still waits for outcomes was handed over.
    pub fn oldest_in_flight(&self) -> Option<Moment> {
        self.pages.front().map(|page| page.sent)
    }

    /// Whether the worker has lanes, sessions and a working producer, so that messages move.
    pub fn is_flowing(&self) -> bool {
        self.sessions == Sessions::Up && self.recovery.is_none() && self.draining == Drain::No
    }

    /// Whether everything committed before the newest tick has been delivered and marked, as far as this
    /// relay's lanes go.
    pub fn is_idle(&self) -> bool {
        self.is_flowing() && self.pages.is_empty() && self.marking.is_none() && !self.has_reading_work()
    }
}

impl PartialOrd for Drain {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Drain {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as u8).cmp(&(*other as u8))
    }
}
