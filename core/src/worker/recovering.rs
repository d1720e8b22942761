//! After a failure: all outcomes first, then each lane back to just behind its last acknowledged row in
//! order, then a new producer where the old one is of no more use, then on in log order. No new page before.

use std::collections::BTreeMap;
use std::time::Duration;

use super::settling::{Page, Part};
use super::{Action, Drain, LaneCount, LaneId, LossReason, Moment, Note, Reader, RowFailure, Sessions, Worker};
use crate::batch::BatchHead;
use crate::failure::{Class, Outcome};
use crate::position::Position;

/// A recovery in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    purged: bool,
    applied: bool,
    pub(super) rebuild: bool,
    rebuilding: bool,
    /// A rebuild failed: not tried again before.
    rebuild_from: Moment,
    /// Since when a new producer is wanted.
    pub(super) broken_since: Option<Moment>,
}

impl Worker {
    /// Purges what the client still holds; the outcomes come as settled pages.
    pub(super) fn purge(&mut self, out: &mut Vec<Action>) {
        let recovery = self.recovery.get_or_insert_default();
        if !recovery.purged {
            recovery.purged = true;
            recovery.rebuild = true;
            out.push(Action::Purge);
        }
    }

    pub(super) fn drop_in_flight(&mut self, out: &mut Vec<Action>) {
        self.draining = self.draining.max(Drain::Dropping);
        if !self.pages.is_empty() {
            self.purge(out);
        }
    }

    /// The pause after so many failures in a row: doubled each time up to the cap; half of it by a draw
    /// that differs between relays, so that what failed together does not try again together.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let half = self.terms.backoff_base.saturating_mul(doubled).min(self.terms.backoff_cap) / 2;
        half + half.mul_f64(self.draw(failures))
    }

    /// A number in `0.0..1.0` from the process's random tags. The mixing is splitmix64's (Steele, Lea,
    /// Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn draw(&self, salt: u32) -> f64 {
        let mut mixed = (self.tags.0 as u64).wrapping_add(u64::from(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Reads nothing for a while, longer with each failure in a row.
    pub(super) fn pause(&mut self, now: Moment) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.paused_until = now + self.backoff(self.failures_in_a_row);
    }

    pub(super) fn recover(&mut self, now: Moment, out: &mut Vec<Action>) {
        let overdue = |page: &Page| page.outcome.is_none() && now >= page.sent + self.terms.delivery_deadline;
        if self.pages.iter().any(overdue) {
            self.purge(out);
        }
        let waits = matches!(self.reader, Reader::Reading(_)) || self.pages.iter().any(|page| page.outcome.is_none());
        if self.recovery.is_none() || waits {
            return;
        }
        if self.recovery.is_some_and(|recovery| !recovery.applied) {
            self.apply_failures(now, out);
        }
        self.restore_producer(now, out);
    }

    pub(super) fn recover_wake(&self) -> Moment {
        let awaited = self.pages.iter().filter(|page| page.outcome.is_none());
        let overdue = awaited.map(|page| page.sent + self.terms.delivery_deadline).min();
        match self.recovery {
            Some(Recovery { rebuild: true, applied: true, rebuilding: false, rebuild_from, .. }) => rebuild_from,
            Some(Recovery { purged: true, .. }) => Moment::MAX,
            _ => overdue.unwrap_or(Moment::MAX),
        }
    }

    fn restore_producer(&mut self, now: Moment, out: &mut Vec<Action>) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.applied = true;
        if self.draining != Drain::No {
            self.recovery = None;
        } else if !recovery.rebuild {
            self.recovery = None;
            out.push(Action::Resume);
        } else if !recovery.rebuilding && now >= recovery.rebuild_from {
            recovery.broken_since.get_or_insert(now);
            recovery.rebuilding = true;
            out.push(Action::Rebuild);
        }
    }

    pub(super) fn rebuilt(&mut self) {
        self.recovery = None;
    }

    pub(super) fn rebuild_failed(&mut self, now: Moment) {
        self.pause(now);
        if let Some(recovery) = &mut self.recovery {
            (recovery.rebuilding, recovery.rebuild_from) = (false, self.paused_until);
        }
    }

    /// Takes the settled pages apart: each lane's acknowledged prefix counts as delivered, what was
    /// acknowledged beyond it is remembered, and the lane reads on from the prefix.
    fn apply_failures(&mut self, now: Moment, out: &mut Vec<Action>) {
        let pages = std::mem::take(&mut self.pages);
        let alone = pages.len() == 1 && pages[0].alone;
        let mut failures: BTreeMap<LaneId, Vec<RowFailure>> = BTreeMap::new();
        let mut rows = [0u32; Class::ALL.len()];
        for page in pages {
            let Some(settled) = page.outcome else { continue };
            for failure in &settled.failures {
                if let Outcome::Failed { class, .. } = failure.outcome {
                    rows[class as usize] += 1;
                }
            }
            for (lane, part) in page.parts {
                let broken_before = failures.contains_key(&lane);
                let failed = settled.failures.iter().filter(|failure| failure.lane == lane);
                let first_id = failed.clone().map(|failure| failure.id).next();
                if first_id.is_some() {
                    failures.entry(lane).or_default().extend(failed.copied());
                }
                let acked = settled.acked.iter().filter(|(of, _)| *of == lane).map(|(_, id)| *id);
                match (broken_before, first_id) {
                    (false, None) => self.deliver(lane, part, page.sent, now),
                    (false, Some(id)) => self.deliver_up_to(lane, &part, id, acked, page.sent, now),
                    (true, _) => self.keep_acked(lane, acked),
                }
            }
        }
        self.judge(&failures, alone, now, out);
        if rows.iter().any(|rows| *rows > 0) {
            out.push(Action::Note(Note::Resending { rows }));
        }
        self.choose_repair(&rows, now);
    }

    /// The first page in which a row of the lane failed: delivered up to just before that row.
    fn deliver_up_to(
        &mut self,
        lane: LaneId,
        part: &Part,
        first_failed: i64,
        acked: impl Iterator<Item = i64>,
        sent: Moment,
        now: Moment,
    ) {
        let Some(held) = self.lanes.get_mut(&lane) else { return };
        let (before, beyond): (Vec<i64>, Vec<i64>) = acked.partition(|id| *id < first_failed);
        held.delivered = Position { cursor: part.before.cursor.max(first_failed - 1), ..part.before.clone() };
        if !before.is_empty() {
            held.unrecorded.add(LaneCount { messages: before.len() as i64, bytes: 0 }, sent, now);
        }
        held.skip.extend(beyond);
    }

    fn keep_acked(&mut self, lane: LaneId, acked: impl Iterator<Item = i64>) {
        if let Some(held) = self.lanes.get_mut(&lane) {
            held.skip.extend(acked);
        }
    }

    /// What each lane's failures mean for it.
    fn judge(&mut self, failures: &BTreeMap<LaneId, Vec<RowFailure>>, alone: bool, now: Moment, out: &mut Vec<Action>) {
        for (lane, rows) in failures {
            let Some(held) = self.lanes.get_mut(lane) else { continue };
            held.rewind();
            let of = |wanted: Class| {
                rows.iter().filter_map(move |row| match row.outcome {
                    Outcome::Failed { class, code, .. } if class == wanted => Some((row.id, code)),
                    _ => None,
                })
            };
            if let Some((id, code)) = of(Class::Message).next_back() {
                if alone {
                    self.stop_lane(*lane, id, code, out);
                } else {
                    held.suspects_to = Some(held.suspects_to.map_or(id, |to| to.max(id)));
                }
            } else if let Some((id, code)) = of(Class::Route).next() {
                self.wait_for_route(*lane, id, code, now, out);
            }
        }
    }

    fn choose_repair(&mut self, rows: &[u32], now: Moment) {
        let any = |class: Class| rows[class as usize] > 0;
        let only_route = !Class::ALL.iter().any(|class| *class != Class::Route && any(*class));
        let recovery = self.recovery.get_or_insert_default();
        recovery.rebuild |= !only_route;
        if any(Class::DestinationDown) || any(Class::Ambiguous) || any(Class::Producer) {
            self.pause(now);
        }
    }

    pub(super) fn disconnected(&mut self, now: Moment) {
        (self.sessions, self.sessions_since) = (Sessions::Down, now);
        (self.base, self.tick, self.seen) = (None, None, None);
        (self.sight_pause, self.next_sight) = (self.terms.sight_busy, now);
        // Also a page: what it took was reported before, and one that was asked for since was never begun.
        self.reader = Reader::Idle;
        // What was read through the lost session counts for nothing when it is acknowledged.
        for page in &mut self.pages {
            page.parts.clear();
        }
    }

    pub(super) fn connected(&mut self, out: &mut Vec<Action>) {
        self.sessions = Sessions::Loading;
        self.load_newest(out);
    }

    /// Reads where the lanes stand, once nothing that was read before is in flight any more.
    pub(super) fn load_newest(&mut self, out: &mut Vec<Action>) {
        if self.lanes.is_empty() {
            self.sessions = Sessions::Up;
            self.marking = None;
        } else {
            out.push(Action::LoadNewest(self.lanes.keys().copied().collect()));
        }
    }

    /// Every lane goes on from what the database has on record. A row of the lane's own generation is
    /// this relay's, also if its reply was lost; any other is a successor's.
    pub(super) fn reloaded(&mut self, heads: &[BatchHead], out: &mut Vec<Action>) {
        if self.sessions != Sessions::Loading {
            return;
        }
        self.marking = None;
        for lane in self.lanes.keys().copied().collect::<Vec<_>>() {
            let head = heads.iter().find(|head| head.lane == lane);
            match (head, self.lanes.get_mut(&lane)) {
                (Some(head), Some(held)) if head.generation == held.generation => held.reset(head),
                _ => self.lose(lane, LossReason::Superseded, out),
            }
        }
        self.sessions = Sessions::Up;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Terms, Worker};
    use crate::lane::{LeaseTerms, Owner, Tag};

    fn worker(tags: u128, base: Duration, cap: Duration) -> Worker {
        let second = Duration::from_secs(1);
        let terms = Terms {
            lease: LeaseTerms { lease: 15 * second, margin: second },
            renew_every: 5 * second,
            survey_every: second,
            mark_interval: Duration::ZERO,
            sight_busy: Duration::ZERO,
            sight_idle: second,
            burn_interval: Duration::ZERO,
            page_rows: 1,
            page_bytes: 1,
            page_slots: 1,
            delivery_deadline: 60 * second,
            backoff_base: base,
            backoff_cap: cap,
            idle_mark_ids: 1,
        };
        Worker::new(Owner("relay".into()), terms, Tag(tags))
    }

    #[test]
    fn b48_a_pause_keeps_its_bounds_at_any_count() {
        let hour = Duration::from_secs(3_600);
        for (base, cap) in [(Duration::from_millis(1), Duration::from_secs(10)), (hour, hour), (hour, Duration::MAX)] {
            let worker = worker(7, base, cap);
            for failures in [1, 2, 30, 31, 32, 33, 63, 64, 65, 1_000, u32::MAX] {
                let pause = worker.backoff(failures);
                assert!(pause >= base / 2 && pause <= cap, "{failures}: {pause:?}");
            }
        }
    }

    #[test]
    fn b74_relays_that_failed_together_pause_differently() {
        let pause = |tags| worker(tags, Duration::from_secs(1), Duration::from_secs(10)).backoff(3);
        let mut pauses: Vec<Duration> = (0..1_000).map(pause).collect();
        pauses.sort();
        pauses.dedup();
        assert!(pauses.len() > 990, "{} different pauses", pauses.len());
        let spread = pauses.last().copied().unwrap_or_default() - pauses[0];
        assert!(spread > Duration::from_millis(1_800), "a draw uses half of the pause: {spread:?}");
    }
}
