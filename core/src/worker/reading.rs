//! When to look at the log, when a tick needs a new base, and which page to read next.
//!
//! One statement serves as poll and tick: on a base that holds, every sighting is a tick. A mark that was
//! saved renews the base, since its transaction id was taken after the last sighting; at rest a burnt
//! transaction id does.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Drain, Flow, LaneId, Moment, PageReport, PageRequest, Reader, Sessions, Worker};
use crate::page::{self, Span};
use crate::position::{Base, Position, Sighting, Tick};

impl Worker {
    pub(super) fn read(&mut self, now: Moment, out: &mut Vec<Action>) {
        if !self.may_use_reader(now) || self.reader != Reader::Idle {
            return;
        }
        let (action, reader) = if let Some(request) = self.next_page(now) {
            (Action::ReadPage(request.clone()), Reader::Reading(request))
        } else if let Some(seq0) = self.burn_wanted(now) {
            self.last_burn = Some(now);
            (Action::Burn, Reader::Burning(seq0))
        } else if self.sight_wanted(now) && now >= self.next_sight {
            self.next_sight = now + self.sight_pause;
            (Action::Sight, Reader::Sighting(self.base))
        } else {
            return;
        };
        self.reader = reader;
        self.reader_since = now;
        out.push(action);
    }

    fn may_use_reader(&self, now: Moment) -> bool {
        self.sessions == Sessions::Up
            && self.recovery.is_none()
            && self.draining == Drain::No
            && now >= self.paused_until
            && !self.mark_is_stuck()
            && self.pages.iter().all(|page| !page.parts.is_empty())
    }

    /// A look at the log. It is a tick on the base that stood when it was asked for.
    pub(super) fn sighted(&mut self, sighting: Sighting, now: Moment) {
        let Reader::Sighting(base) = self.reader else { return };
        self.reader = Reader::Idle;
        if let Some(base) = base {
            let tick = Tick::new(base, &sighting);
            let behind = self.lanes.values().any(|held| held.read.up.is_none() && held.read.is_behind(&sighting));
            self.sight_pause = match behind {
                true => self.terms.sight_busy,
                false => (self.sight_pause * 2).min(self.terms.sight_idle),
            };
            self.next_sight = self.next_sight.max(self.reader_since + self.sight_pause);
            self.tick = Some(tick);
        }
        self.seen = Some(sighting);
        if base.is_none() {
            self.next_sight = now;
        }
    }

    pub(super) fn burnt(&mut self, now: Moment) {
        let Reader::Burning(seq0) = self.reader else { return };
        self.reader = Reader::Idle;
        self.renew_base(seq0);
        self.next_sight = now;
    }

    /// A transaction id that was taken after `seq0` was read has been committed.
    pub(super) fn renew_base(&mut self, seq0: i64) {
        let newest = self.base.map_or(seq0, |base| base.seq0.max(seq0));
        self.base = Some(Base { seq0: newest });
    }

    /// A page that was refused reports what it took besides, so that it is still awaited.
    pub(super) fn read_failed(&mut self, now: Moment) {
        match &self.reader {
            // A bulk transaction may be too large to be sorted through the index within the time.
            Reader::Reading(request) => self.scan_next = matches!(request.plan.span, Span::Stragglers { .. }),
            _ => self.reader = Reader::Idle,
        }
        self.paused_until = self.paused_until.max(now + self.terms.backoff_base);
    }

    /// Messages flow: look again soon. And learn how many rows fit a page.
    pub(super) fn after_page(&mut self, report: &PageReport, now: Moment) {
        let (mut messages, mut bytes) = (0u64, 0u64);
        for (_, count) in &report.counts {
            messages += count.messages as u64;
            bytes += count.bytes as u64;
        }
        if let Some(average) = bytes.max(1).checked_div(messages) {
            let fit = self.terms.page_bytes / average.max(1);
            let grown = u64::from(self.page_rows) * 4;
            self.page_rows = fit.min(grown).clamp(1, u64::from(self.terms.page_rows)) as u32;
            self.sight_pause = self.terms.sight_busy;
            self.next_sight = self.next_sight.min(now + self.sight_pause);
        }
    }

    /// The base is stale and no mark is coming that would renew it.
    fn burn_wanted(&self, now: Moment) -> Option<i64> {
        let seen = self.seen.as_ref()?.last_id;
        if self.base.is_none() {
            return Some(seen);
        }
        (self.base_is_stale(now) && now >= self.burn_due()).then_some(seen)
    }

    fn base_is_stale(&self, now: Moment) -> bool {
        let (Some(base), Some(seen)) = (self.base, &self.seen) else { return false };
        let mark_coming = self.marking.is_some() || !self.pages.is_empty() || self.has_unrecorded();
        base.seq0 < seen.last_id && !mark_coming && self.someone_at_tick(now)
    }

    fn burn_due(&self) -> Moment {
        self.last_burn.map_or(Duration::ZERO, |last| last + self.terms.burn_interval)
    }

    /// Somebody stands at a tick, and nobody is about to finish the newest window: lanes that read the
    /// same windows stay together.
    fn sight_wanted(&self, now: Moment) -> bool {
        let nearly_done = 2 * i64::from(self.terms.page_rows);
        let finishing = self.lanes.values().any(|held| {
            let near = |up: &Tick| up.seq1 - held.read.cursor.max(held.read.lo.seq0) <= nearly_done;
            held.may_read(now)
                && self.tick.is_some()
                && held.read.up == self.tick
                && self.tick.as_ref().is_some_and(near)
        });
        self.someone_at_tick(now) && !finishing
    }

    fn someone_at_tick(&self, now: Moment) -> bool {
        self.lanes.values().any(|held| held.may_read(now) && held.read.up.is_none())
    }

    pub(super) fn has_reading_work(&self) -> bool {
        let behind = |at: &Position| match (&at.up, &self.seen) {
            (Some(_), _) => true,
            (None, Some(seen)) => at.is_behind(seen),
            (None, None) => true,
        };
        self.lanes.values().any(|held| behind(&held.read) || held.unrecorded.count.messages > 0)
    }

    fn next_page(&mut self, now: Moment) -> Option<PageRequest> {
        let slot = (0..self.terms.page_slots).find(|slot| self.pages.iter().all(|page| page.slot != *slot))?;
        self.open_windows(now);
        let suspicious = self.lanes.values().any(|held| held.suspects_to.is_some() && held.may_read(now));
        if suspicious && !self.pages.is_empty() {
            return None;
        }
        let lead = self.next_reader(now)?;
        let held = &self.lanes[&lead];
        let probing = suspicious || matches!(held.flow, Flow::Waiting { .. });
        let rows_max = if probing { 1 } else { self.page_rows };
        let plan = page::plan(&held.read, held.reading, rows_max)?;
        let together = |lane: LaneId| {
            let other = &self.lanes[&lane];
            let apart = other.flow != Flow::Running || held.flow != Flow::Running;
            lane == lead
                || (!apart && other.may_read(now) && (&other.read, other.reading) == (&held.read, held.reading))
        };
        let group: Vec<LaneId> = self.lanes.keys().copied().filter(|lane| together(*lane)).collect();
        let members = || group.iter().map(|lane| (*lane, &self.lanes[lane]));
        let skip: BTreeSet<i64> = members().flat_map(|(_, held)| held.skip.iter().copied()).collect();
        let trusted_until = members().map(|(_, held)| held.trusted_until).min()?;
        let lanes = members().map(|(lane, held)| (lane, held.slots.clone(), held.generation)).collect();
        self.next_lane = LaneId(lead.0.wrapping_add(1));
        Some(PageRequest { slot, plan, lanes, skip, trusted_until })
    }

    /// Lanes that stand at an older tick than the newest open a window up to it, or step over it where
    /// it has nothing for anybody.
    fn open_windows(&mut self, now: Moment) {
        let Some(tick) = &self.tick else { return };
        let sighting = Sighting { snapshot: tick.snapshot.clone(), last_id: tick.seq1 };
        let mut stepped = Vec::new();
        for (lane, held) in &mut self.lanes {
            let older = held.read.up.is_none()
                && held.read.lo.snapshot != tick.snapshot
                && held.read.lo.snapshot.precedes(&tick.snapshot);
            if !older || !held.may_read(now) {
                continue;
            }
            if held.read.is_behind(&sighting) {
                held.read = held.read.opened(tick.clone());
            } else {
                held.read = Position::at(tick);
                stepped.push(*lane);
            }
        }
        for lane in stepped {
            self.settle_tail(lane);
        }
    }

    /// The next lane in turn with a window open.
    fn next_reader(&self, now: Moment) -> Option<LaneId> {
        let ready = |lane: &&LaneId| {
            let held = &self.lanes[*lane];
            held.may_read(now) && held.read.up.is_some()
        };
        let from = self.lanes.range(self.next_lane..).map(|(lane, _)| lane).find(ready);
        from.or_else(|| self.lanes.keys().find(ready)).copied()
    }

    pub(super) fn read_wake(&self, now: Moment) -> Moment {
        let mut wake = Moment::MAX;
        if self.paused_until > now {
            return self.paused_until;
        }
        for held in self.lanes.values() {
            match held.flow {
                Flow::Waiting { until, .. } if until > now => wake = wake.min(until),
                _ => {}
            }
        }
        if self.may_use_reader(now) && self.reader == Reader::Idle {
            if self.sight_wanted(now) {
                wake = wake.min(self.next_sight);
            }
            if self.base_is_stale(now) {
                wake = wake.min(self.burn_due());
            }
        }
        wake
    }
}
