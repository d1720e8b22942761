//! Writing down what was delivered: one row per lane and mark, merged over the mark interval, under
//! compare-and-set. At most one mark is outstanding; its rows are repeated to the letter until their fate is known.

use std::time::Duration;

use super::keeping::lane_is_quiet;
use super::lanes::{Held, Unrecorded};
use super::{Action, Drain, Flow, LaneId, LossReason, Moment, Note, Sessions, Worker};
use crate::batch::MarkRow;
use crate::lane::Tag;

/// The outstanding mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Marking {
    tag: Tag,
    rows: Vec<MarkRow>,
    /// The newest id that had been seen before the statement was sent.
    seq0: Option<i64>,
    pub(super) sent: Moment,
    /// The statement was refused as a whole and is to be repeated then.
    retry: Option<Moment>,
    refusals: u32,
}

impl Marking {
    pub(super) fn forget(&mut self, lane: LaneId) {
        self.rows.retain(|row| row.lane != lane);
    }

    pub(super) fn has(&self, lane: LaneId) -> bool {
        self.rows.iter().any(|row| row.lane == lane)
    }
}

impl Worker {
    pub(super) fn mark(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.sessions != Sessions::Up {
            return;
        }
        if let Some(marking) = &mut self.marking {
            if marking.rows.is_empty() && marking.retry.is_some() {
                self.marking = None;
            } else if marking.retry.is_some_and(|at| now >= at) {
                marking.retry = None;
                out.push(Action::Mark { tag: marking.tag, rows: marking.rows.clone() });
                return;
            } else {
                return;
            }
        }
        if now < self.mark_due() {
            return;
        }
        let rows = self.take_rows();
        if rows.is_empty() {
            return;
        }
        self.tags = Tag(self.tags.0.wrapping_add(1));
        let tag = self.tags;
        let seq0 = self.seen.as_ref().map(|seen| seen.last_id);
        out.push(Action::Mark { tag, rows: rows.clone() });
        self.marking = Some(Marking { tag, rows, seq0, sent: now, retry: None, refusals: 0 });
    }

    /// When the oldest delivered and unrecorded batch wants to be written down.
    fn mark_due(&self) -> Moment {
        let mut due = Moment::MAX;
        for (lane, held) in &self.lanes {
            if let Some((_, acked)) = held.unrecorded.since {
                let at_once = held.flow == Flow::HandingOver || self.draining != Drain::No;
                due = due.min(if at_once { Duration::ZERO } else { acked + self.terms.mark_interval });
            } else if self.lags_on_record(held) && lane_is_quiet(&self.pages, *lane) {
                due = Duration::ZERO;
            }
        }
        due
    }

    /// An idle lane's position pins the log's retention.
    fn lags_on_record(&self, held: &Held) -> bool {
        held.delivered.lo.seq0.saturating_sub(held.recorded.lo.seq0) >= self.terms.idle_mark_ids
    }

    pub(super) fn mark_wake(&self) -> Moment {
        match &self.marking {
            _ if self.sessions != Sessions::Up => Moment::MAX,
            Some(marking) => marking.retry.unwrap_or(Moment::MAX),
            None => self.mark_due(),
        }
    }

    /// Rows for lanes that had messages; within a window also for those that did not, or the lanes would
    /// read the window apart after a restart.
    fn take_rows(&mut self) -> Vec<MarkRow> {
        let idle_mark_ids = self.terms.idle_mark_ids;
        let mut rows = Vec::new();
        for (lane, held) in &mut self.lanes {
            let within = held.delivered.up.is_some() && held.delivered != held.recorded;
            let lags = held.delivered.lo.seq0.saturating_sub(held.recorded.lo.seq0) >= idle_mark_ids;
            if held.unrecorded.count.messages == 0 && !within && !lags {
                continue;
            }
            let Unrecorded { count, since, until } = std::mem::take(&mut held.unrecorded);
            rows.push(MarkRow {
                lane: *lane,
                n: held.n + 1,
                generation: held.generation,
                position: held.delivered.clone(),
                messages: count.messages,
                bytes: count.bytes,
                took: since.map_or(Duration::ZERO, |(sent, _)| until.saturating_sub(sent)),
            });
        }
        rows
    }

    pub(super) fn marked(&mut self, saved: &[LaneId], out: &mut Vec<Action>) {
        let Some(Marking { tag, rows, seq0, .. }) = self.marking.take() else { return };
        let (mut lanes, mut messages) = (0, 0);
        for row in rows {
            if !saved.contains(&row.lane) {
                self.lose(row.lane, LossReason::MarkRejected, out);
            } else if let Some(held) = self.lanes.get_mut(&row.lane) {
                (held.n, held.tag, held.recorded) = (row.n, tag, row.position);
                (lanes, messages) = (lanes + 1, messages + row.messages);
            }
        }
        if lanes > 0 {
            out.push(Action::Note(Note::MarkSaved { lanes, messages }));
        }
        // The statement took its transaction id after `seq0` had been read, and has committed it.
        if let (false, Some(seq0)) = (saved.is_empty(), seq0) {
            self.renew_base(seq0);
        }
    }

    pub(super) fn mark_refused(&mut self, now: Moment) {
        let Some(refusals) = self.marking.as_ref().map(|marking| marking.refusals + 1) else { return };
        let retry = now + self.backoff(refusals);
        if let Some(marking) = &mut self.marking {
            (marking.refusals, marking.retry) = (refusals, Some(retry));
        }
    }

    /// Nothing new is published before a mark that was refused is saved.
    pub(super) fn mark_is_stuck(&self) -> bool {
        self.marking.as_ref().is_some_and(|marking| marking.refusals > 0)
    }

    pub(super) fn has_unrecorded(&self) -> bool {
        self.lanes.values().any(|held| held.unrecorded.count.messages > 0)
    }
}
