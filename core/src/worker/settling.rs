//! Pages in flight, and what their outcomes mean for each lane: its delivered prefix.

use std::collections::BTreeMap;

use super::{Action, Drain, Flow, LaneId, Moment, Note, RefusedRow};
use super::{LaneCount, PageReport, Reader, SettledPage, Worker};
use crate::failure::{Class, Outcome};
use crate::lane::Generation;
use crate::page::{self, Reading};
use crate::position::Position;

/// A page that was handed over and waits for its outcomes, or for an older page's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Page {
    pub(super) slot: usize,
    pub(super) sent: Moment,
    /// It had one row and nothing else was in flight: its failure is its own.
    pub(super) alone: bool,
    pub(super) parts: BTreeMap<LaneId, Part>,
    pub(super) outcome: Option<SettledPage>,
}

/// A lane's share of a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) count: LaneCount,
    /// Where the lane stood before and stands after.
    pub(super) before: Position,
    pub(super) after: Position,
}

impl Page {
    /// Forgets a lane that was lost; whether it still had rows in flight.
    pub(super) fn forget(&mut self, lane: LaneId) -> bool {
        self.parts.remove(&lane).is_some() && self.outcome.is_none()
    }
}

impl Worker {
    pub(super) fn page_read(&mut self, report: PageReport, now: Moment, out: &mut Vec<Action>) {
        let Reader::Reading(request) = &self.reader else { return };
        let request = request.clone();
        self.reader = Reader::Idle;
        let counts: BTreeMap<LaneId, LaneCount> = report.counts.iter().copied().collect();
        let alone = report.end.rows == 1 && self.pages.is_empty();
        let scan = std::mem::take(&mut self.scan_next);
        let mut page = Page { slot: request.slot, sent: now, alone, parts: BTreeMap::new(), outcome: None };
        let mut skipped = Vec::new();
        for (lane, _, generation) in &request.lanes {
            let Some(held) = self.lanes.get_mut(lane).filter(|held| held.generation == *generation) else { continue };
            let before = held.read.clone();
            skipped.extend(report.skipped.iter().filter(|id| held.skip.remove(id)).map(|id| (*lane, *id)));
            let (after, reading) = page::advance(&request.plan, report.end, report.next_id);
            (held.read, held.reading) = (after.clone(), if scan { Reading::Scan } else { reading });
            let count = counts.get(lane).copied().unwrap_or_default();
            if count.messages > 0 {
                page.parts.insert(*lane, Part { count, before, after });
            }
        }
        if report.sent > 0 || !page.parts.is_empty() {
            if report.sent == 0 {
                page.outcome = Some(SettledPage { slot: request.slot, failures: Vec::new(), acked: skipped });
            }
            self.pages.push_back(page);
        }
        for (lane, ..) in &request.lanes {
            self.settle_tail(*lane);
        }
        let lost = |(lane, _, generation): &(LaneId, _, Generation)| {
            self.lanes.get(lane).is_none_or(|held| held.generation != *generation)
        };
        if report.sent > 0 && (request.lanes.iter().any(lost) || self.draining == Drain::Dropping) {
            self.purge(out);
        }
        if report.halted {
            self.recovery.get_or_insert_default();
        }
        if let Some(row) = report.refused {
            self.refused(row, now, out);
        }
        self.collect(now);
        self.after_page(&report, now);
    }

    /// The publisher refused a row when it was handed over: its lane goes back to just before it and
    /// stops or waits; the others go on.
    fn refused(&mut self, row: RefusedRow, now: Moment, out: &mut Vec<Action>) {
        let Outcome::Failed { class, code, .. } = row.outcome else { return };
        match class {
            Class::Message => self.stop_lane(row.lane, row.id, code, out),
            Class::Route => self.wait_for_route(row.lane, row.id, code, now, out),
            _ => {
                self.pause(now);
                if class == Class::Producer {
                    self.recovery.get_or_insert_default().rebuild = true;
                }
            }
        }
    }

    pub(super) fn stop_lane(&mut self, lane: LaneId, id: i64, code: i16, out: &mut Vec<Action>) {
        let Some(held) = self.lanes.get_mut(&lane) else { return };
        held.flow = Flow::Stopped { id, code };
        held.suspects_to = None;
        out.push(Action::Note(Note::LaneStopped { lane, id, code }));
    }

    pub(super) fn wait_for_route(&mut self, lane: LaneId, id: i64, code: i16, now: Moment, out: &mut Vec<Action>) {
        let Some(held) = self.lanes.get(&lane) else { return };
        let tries = held.route_tries.saturating_add(1);
        let until = now + self.backoff(tries);
        let Some(held) = self.lanes.get_mut(&lane) else { return };
        held.route_tries = tries;
        if held.flow != Flow::HandingOver {
            held.flow = Flow::Waiting { until, id, code };
        }
        out.push(Action::Note(Note::LaneWaits { lane, id, code }));
    }

    pub(super) fn settled(&mut self, settled: SettledPage, now: Moment) {
        let failed = !settled.failures.is_empty();
        // The newest page of the slot: a slot is reused only after it settled, and it settles once.
        if let Some(page) = self.pages.iter_mut().find(|page| page.slot == settled.slot && page.outcome.is_none()) {
            page.outcome = Some(settled);
        }
        if failed {
            self.recovery.get_or_insert_default();
        }
        self.collect(now);
    }

    /// Retires complete pages from the front. A later complete page waits for an older one: batches are
    /// marked oldest first. A page with failures stays for the recovery.
    pub(super) fn collect(&mut self, now: Moment) {
        while let Some(page) = self.pages.front() {
            if page.outcome.as_ref().is_none_or(|outcome| !outcome.failures.is_empty()) {
                return;
            }
            let Some(page) = self.pages.pop_front() else { return };
            self.failures_in_a_row = 0;
            for (lane, part) in page.parts {
                self.deliver(lane, part, page.sent, now);
            }
        }
    }

    /// Counts a page's messages of one lane as delivered.
    pub(super) fn deliver(&mut self, lane: LaneId, part: Part, sent: Moment, now: Moment) {
        let Some(held) = self.lanes.get_mut(&lane) else { return };
        held.unrecorded.add(part.count, sent, now);
        held.delivered = part.after;
        // A page that was in flight before the route failed says nothing about the route.
        if matches!(held.flow, Flow::Waiting { .. }) && held.may_read(now) {
            held.flow = Flow::Running;
        }
        if held.flow == Flow::Running {
            held.route_tries = 0;
        }
        let passed = |to: i64| held.delivered.up.is_none() || held.delivered.cursor >= to;
        if held.suspects_to.is_some_and(passed) {
            held.suspects_to = None;
        }
        self.settle_tail(lane);
    }

    /// A lane without anything in flight has had everything that was read delivered: pages without
    /// messages of its own lie between.
    pub(super) fn settle_tail(&mut self, lane: LaneId) {
        if self.pages.iter().any(|page| page.parts.contains_key(&lane)) {
            return;
        }
        if let Some(held) = self.lanes.get_mut(&lane) {
            held.delivered = held.read.clone();
        }
    }
}
