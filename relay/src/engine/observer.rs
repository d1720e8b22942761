//! Turns what happened into log lines, metrics and status. It decides nothing and never blocks.

use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_core::failure::{Class, Outcome, Persistence};
use fencepost_core::lane::{LaneId, Moment};
use fencepost_core::worker::{Flow, Note, PageReport, Worker};

use super::Trouble;
use super::audit::Audited;
use super::chores::Done;
use super::paging::Taken;
use super::sessions::PAIR;
use crate::clock::wall_us;
use crate::metrics::SourceMetrics;
use crate::publisher::PageSlot;
use crate::status::{Backlog, LaneState, Obstacle, Phase, Reporter};
use crate::store::{Finding, LaneLag};

/// The eyes of one source's loop.
pub struct Observer {
    source: Rc<str>,
    metrics: SourceMetrics,
    reporter: Rc<Reporter>,
    lanes: Vec<LaneState>,
    in_flight: BTreeMap<PageSlot, (i64, i64)>,
    busy: bool,
    connected: bool,
    was_connected: bool,
    /// Why, by the part that has trouble.
    unwell: BTreeMap<&'static str, String>,
}

impl Observer {
    /// For the source of that name.
    pub fn new(source: &str, metrics: SourceMetrics, reporter: Rc<Reporter>) -> Self {
        Observer {
            source: source.into(),
            metrics,
            reporter,
            lanes: Vec::new(),
            in_flight: BTreeMap::new(),
            busy: false,
            connected: false,
            was_connected: false,
            unwell: BTreeMap::new(),
        }
    }

    pub(super) fn trouble(&mut self, trouble: &Trouble) {
        let source = &*self.source;
        let (of, why) = match trouble {
            Trouble::Connection { of, error } => {
                tracing::warn!(source, session = of, error, "database connection lost or refused; connecting again");
                (*of, format!("{of}: {error}"))
            }
            Trouble::Unfit { of, reason, repair } => {
                tracing::error!(source, reason, repair, "source is not fit to be relayed");
                (*of, format!("{reason}; {repair}"))
            }
            Trouble::Statement { of, error } => {
                tracing::warn!(source, session = of, error, "database statement refused; trying again");
                return;
            }
            Trouble::Chore { error } => {
                tracing::warn!(
                    source,
                    error,
                    "backlog not measured, old batch rows not pruned, or nothing audited; trying again"
                );
                return;
            }
        };
        self.unwell.insert(of, why);
        self.show_database();
    }

    /// A session that had trouble works again.
    pub(super) fn recovered(&mut self, of: &'static str) {
        self.unwell.remove(of);
        self.show_database();
    }

    pub(super) fn connected(&mut self, connected: bool) {
        self.connected = connected;
        if connected {
            if self.was_connected {
                self.metrics.reconnects.inc();
            }
            self.was_connected = true;
            self.unwell.remove(PAIR);
            tracing::info!(source = &*self.source, "connected to the database");
        }
        self.show_database();
    }

    /// A part that has trouble is a reason of its own, and its recovery takes back no other's.
    fn show_database(&self) {
        let state = match self.unwell.values().next() {
            Some(why) => Err(why.clone()),
            None if self.connected => Ok(()),
            None => Err("not connected".to_owned()),
        };
        self.metrics.up.set(i64::from(state.is_ok()));
        self.reporter.update(|status| status.database = state);
    }

    /// What the chores found out.
    pub(super) fn chores(&mut self, done: &Done) {
        self.lag(&done.lag);
        self.audited(&done.audited);
        self.metrics.audit_findings.set(done.findings.len() as i64);
        self.reporter.update(|status| status.findings.clone_from(&done.findings));
    }

    fn audited(&self, audited: &Audited) {
        self.metrics.audit_windows.inc_by(audited.windows);
        self.metrics.audit_messages.inc_by(audited.messages.unsigned_abs());
        self.metrics.audit_differences.inc_by(audited.differences.len() as u64);
        for Finding { lane, from_n, to_n, expected, found, ids } in &audited.differences {
            tracing::error!(
                source = &*self.source,
                lane = lane.0,
                from_n,
                to_n,
                expected,
                found,
                ?ids,
                "the log holds another number of messages than was delivered; look into these ids, then: fencepost audit close"
            );
        }
    }

    /// The backlog of the lanes that are held here; others are somebody else's to report.
    fn lag(&mut self, lag: &[LaneLag]) {
        let held = |lane: LaneId| self.lanes.iter().any(|state| state.lane == lane.0);
        let held: Vec<&LaneLag> = lag.iter().filter(|lag| held(lag.lane)).collect();
        let messages = held.iter().map(|lag| lag.messages).sum();
        let oldest = held.iter().map(|lag| lag.oldest).max().unwrap_or_default();
        self.metrics.lag_messages.set(messages);
        self.metrics.lag_seconds.set(oldest.as_secs_f64());
        self.reporter.update(|status| status.backlog = Some(Backlog { messages, oldest }));
    }

    pub(super) fn page_sent(&mut self, slot: PageSlot, report: &PageReport) {
        let sum = |of: fn(&fencepost_core::worker::LaneCount) -> i64| report.counts.iter().map(|(_, c)| of(c)).sum();
        if report.sent > 0 {
            self.in_flight.insert(slot, (sum(|count| count.messages), sum(|count| count.bytes)));
            self.show_in_flight();
        }
    }

    fn show_in_flight(&self) {
        self.metrics.in_flight_messages.set(self.in_flight.values().map(|(messages, _)| messages).sum());
        self.metrics.in_flight_bytes.set(self.in_flight.values().map(|(_, bytes)| bytes).sum());
    }

    pub(super) fn page_settled(&mut self, slot: PageSlot, page: &Taken, outcomes: Option<&[Outcome]>, now: Moment) {
        let (_, bytes) = self.in_flight.remove(&slot).unwrap_or_default();
        self.show_in_flight();
        self.metrics.batches.inc();
        self.reporter.progressed(now);
        let failed = outcomes.unwrap_or_default();
        for class in Class::ALL {
            let of = |outcome: &&Outcome| matches!(outcome, Outcome::Failed { class: c, .. } if *c == class);
            self.metrics.failed(class, failed.iter().filter(of).count() as u64);
        }
        let maybe = |o: &&Outcome| matches!(o, Outcome::Failed { persistence: Persistence::Possibly, .. });
        self.metrics.possible_repeats.inc_by(failed.iter().filter(maybe).count() as u64);
        let acked = match outcomes {
            None => page.rows.len(),
            Some(outcomes) => outcomes.iter().filter(|outcome| **outcome == Outcome::Acked).count(),
        };
        self.metrics.published_messages.inc_by(acked as u64);
        for (row, span) in &page.spans {
            let acked = outcomes.is_none_or(|outcomes| outcomes.get(*row) == Some(&Outcome::Acked));
            span.in_scope(|| tracing::debug!(acked, "record settled"));
        }
        if let (None, Some(oldest)) = (outcomes, page.oldest_us) {
            self.metrics.published_bytes.inc_by(bytes.unsigned_abs());
            self.metrics.commit_to_ack.observe((wall_us() - oldest).max(0) as f64 / 1e6);
        }
    }

    pub(super) fn rebuilt(&mut self, result: Result<(), String>) {
        let source = &*self.source;
        match result {
            Ok(()) => {
                self.metrics.rebuilds.inc();
                tracing::info!(source, "producer rebuilt");
            }
            Err(error) => {
                tracing::warn!(source, error, "producer can't be rebuilt; trying again");
                self.reporter.update(|status| status.destination = Err(error));
            }
        }
    }

    pub(super) fn destination(&mut self, state: Result<(), String>) {
        let source = &*self.source;
        self.metrics.destination_up.set(i64::from(state.is_ok()));
        match &state {
            Ok(()) => tracing::info!(source, "destination answers"),
            Err(reason) => tracing::warn!(source, reason, "destination is down; waiting"),
        }
        self.reporter.update(|status| status.destination = state);
    }

    pub(super) fn sighting(&mut self) {
        self.metrics.polls.inc();
    }

    pub(super) fn burning(&mut self) {
        self.metrics.burned_xids.inc();
    }

    /// Also the rows of lanes that were given up while the mark was on its way.
    pub(super) fn marked(&mut self, asked: usize, saved: usize) {
        self.metrics.rejected_marks.inc_by(asked.saturating_sub(saved) as u64);
    }

    pub(super) fn stopping(&mut self) {
        self.reporter.update(|status| status.stopping = true);
    }

    /// After each step: what is held and whether there is work. Tells only what changed.
    pub(super) fn stepped(&mut self, worker: &Worker, now: Moment) {
        let busy = !worker.is_idle();
        if !busy {
            self.reporter.progressed(now);
        }
        if busy != self.busy {
            self.busy = busy;
            self.reporter.update(|status| status.busy = busy);
        }
        let same = |view: &fencepost_core::worker::LaneView<'_>, state: &LaneState| {
            (view.lane.0, view.generation.0, phase(view.flow)) == (state.lane, state.generation, state.phase)
        };
        let unchanged = worker.lanes().count() == self.lanes.len()
            && worker.lanes().zip(&self.lanes).all(|(view, state)| same(&view, state));
        if unchanged {
            return;
        }
        let states = worker.lanes().map(|view| LaneState {
            lane: view.lane.0,
            generation: view.generation.0,
            phase: phase(view.flow),
        });
        let lanes: Vec<LaneState> = states.collect();
        self.show_lanes(&lanes);
        self.lanes.clone_from(&lanes);
        self.reporter.update(|status| status.lanes = lanes);
    }

    fn show_lanes(&self, lanes: &[LaneState]) {
        for gone in self.lanes.iter().filter(|old| !lanes.iter().any(|new| new.lane == old.lane)) {
            self.metrics.lane_gone(LaneId(gone.lane));
        }
        for state in lanes {
            let lane = LaneId(state.lane);
            self.metrics.lane_held(lane, fencepost_core::lane::Generation(state.generation));
            match state.phase {
                Phase::Waiting(at) | Phase::Stopped(at) => self.metrics.lane_stopped(lane, at.class),
                Phase::Running | Phase::HandingOver => self.metrics.lane_moves(lane),
            }
        }
    }

    pub(super) fn note(&mut self, note: &Note, now: Moment) {
        let source = &*self.source;
        match *note {
            Note::Claimed { lane, generation, takeover } => {
                self.metrics.claims.inc();
                self.metrics.takeovers.inc_by(u64::from(takeover));
                tracing::info!(source, lane = lane.0, generation = generation.0, takeover, "lane claimed");
            }
            Note::LeaseLost { lane, generation, reason } => {
                self.metrics.lost_lease(reason);
                let reason = reason.name();
                tracing::warn!(source, lane = lane.0, generation = generation.0, reason, "lease lost; lane dropped");
            }
            Note::LaneWaits { lane, id, code } => {
                tracing::warn!(
                    source,
                    lane = lane.0,
                    id,
                    code,
                    "lane waits: its next message's topic can't be written"
                );
            }
            Note::LaneStopped { lane, id, code } => {
                tracing::error!(
                    source,
                    lane = lane.0,
                    id,
                    code,
                    "lane stopped: its next message can never be sent as it is"
                );
            }
            Note::Resending { rows } => {
                for class in Class::ALL {
                    let rows = rows[class as usize];
                    if rows > 0 {
                        tracing::warn!(
                            source,
                            class = class.name(),
                            rows,
                            "records failed; sending again in log order"
                        );
                    }
                }
            }
            Note::MarkSaved { lanes, messages } => {
                self.metrics.marks.inc();
                self.metrics.mark_rows.inc_by(lanes as u64);
                self.reporter.progressed(now);
                tracing::debug!(source, lanes, messages, "mark saved");
            }
        }
    }
}

/// A lane's state as status shows it. A route is waited for; only a message stops a lane.
fn phase(flow: &Flow) -> Phase {
    match *flow {
        Flow::Running => Phase::Running,
        Flow::HandingOver => Phase::HandingOver,
        Flow::Waiting { id, code, .. } => Phase::Waiting(Obstacle { id, class: Class::Route, code }),
        Flow::Stopped { id, code } => Phase::Stopped(Obstacle { id, class: Class::Message, code }),
    }
}
