//! Pages on their way to Kafka, and their outcomes on the way back.

use std::ops::ControlFlow;

use fencepost_core::failure::{Class, Outcome, Persistence};
use fencepost_core::lane::LaneId;
use fencepost_core::page::{PageStop, Span};
use fencepost_core::worker::{Input, LaneCount, PageReport, PageRequest, RefusedRow, RowFailure, SettledPage};

use super::{InFlight, Mutation, World};
use crate::kafka::{Entry, FakeKafka, Settled};
use crate::verdict::{Event, Violation};

/// What a row counts against the byte budget.
const ROW_BYTES: i64 = 100;

impl World {
    /// The outstanding page runs: rows go from the database to the producer.
    pub(super) fn read_page(&mut self, index: usize, request: &PageRequest) {
        self.events.push(Event::Page);
        let now = self.moment(index);
        let slots: Vec<_> = request.lanes.iter().map(|(_, slots, _)| slots.clone()).collect();
        let mut page = Page { sent: Vec::new(), skipped: Vec::new(), taken: Vec::new(), halted: false, refused: None };
        let (db, kafka, closed, unsendable) = (&self.db, &mut self.kafka, &self.closed_routes, &self.unsendable);
        let refusal = |id: i64, key: u32| match () {
            () if closed.contains(&key) => Some(Class::Route),
            () if unsendable.contains(&id) => Some(Class::Message),
            () => None,
        };
        let mut end = db.read_page(&request.plan, &slots, |id, row| {
            let lane = request.lanes.iter().find(|(_, slots, _)| slots.contains(&row.slot)).map(|(lane, ..)| *lane);
            let Some(lane) = lane else { return ControlFlow::Continue(()) };
            let enough =
                !page.sent.is_empty() && (page.sent.len() as i64 + 1) * ROW_BYTES > self.terms.page_bytes as i64;
            if request.skip.contains(&id) {
                page.skipped.push((lane, id));
            } else if enough || now >= request.trusted_until {
                return ControlFlow::Break(());
            } else if let Some(class) = refusal(id, row.key) {
                let outcome = Outcome::Failed { class, persistence: Persistence::Not, code: 3 };
                page.refused = Some(RefusedRow { lane, id, outcome });
                return ControlFlow::Break(());
            } else if !kafka.send(index, Entry { slot: Some(request.slot), id, key: row.key }) {
                page.halted = true;
                return ControlFlow::Break(());
            } else {
                page.sent.push((lane, id));
            }
            page.taken.push(lane);
            ControlFlow::Continue(())
        });
        if page.taken.is_empty() && end.stop != PageStop::Exhausted {
            end.rows = 0;
        }
        self.judge_leases(request, &page);
        let next_id = match &request.plan.span {
            Span::Range { upto, .. }
                if end.stop == PageStop::Exhausted && end.rows == 0 && *upto < request.plan.up.seq1 =>
            {
                Some(self.db.next_id(*upto, request.plan.up.seq1).unwrap_or(i64::MAX))
            }
            _ => None,
        };
        let report = PageReport {
            end,
            sent: page.sent.len() as u32,
            counts: page.counts(),
            skipped: page.skipped.iter().map(|(_, id)| *id).collect(),
            halted: page.halted,
            refused: page.refused,
            next_id,
        };
        let sent = !page.sent.is_empty();
        if sent {
            let rows = page.sent.iter().map(|(lane, id)| (*lane, *id, None)).collect();
            self.relays[index].slots[request.slot] = Some(InFlight { rows, skipped: page.skipped, sealed: false });
        }
        self.step(index, Input::PageRead(report));
        if sent {
            if let Some(page) = &mut self.relays[index].slots[request.slot] {
                page.sealed = true;
            }
            self.settle(index, request.slot);
        }
    }

    /// Nothing is handed over under a lease that has ended.
    fn judge_leases(&mut self, request: &PageRequest, page: &Page) {
        let unleased = request.lanes.iter().any(|(lane, _, generation)| {
            page.sent.iter().any(|(of, _)| of == lane) && !self.db.is_leased(*lane, *generation)
        });
        if unleased && self.judges_leases {
            self.verdict.add(Violation::Unleased);
        }
    }

    /// The broker appends a record of a relay's producer and acknowledges it.
    pub fn append(&mut self, index: usize, place: usize) {
        self.judge_record(self.kafka.queue(index)[place].id, false);
        let settled = self.kafka.append(index, place);
        self.outcomes(index, vec![settled]);
    }

    /// The broker appends a record, and the acknowledgement is lost.
    pub fn append_silently(&mut self, index: usize, place: usize) {
        self.events.push(Event::AckLost);
        self.judge_record(self.kafka.queue(index)[place].id, false);
        let settled = self.kafka.append_silently(index, place);
        self.outcomes(index, settled);
    }

    /// The broker refuses a record for good, with `neighbours` more of its request.
    pub fn refuse_record(&mut self, index: usize, place: usize, neighbours: usize) {
        self.events.push(Event::Guilty);
        let settled = self.kafka.refuse(index, place, neighbours);
        self.outcomes(index, settled);
    }

    /// The broker refuses a record because its topic can't be written now.
    pub fn refuse_route(&mut self, index: usize, place: usize) {
        let settled = self.kafka.refuse_route(index, place);
        self.outcomes(index, settled);
    }

    /// Everything that a relay's producer holds fails because the cluster can't be reached.
    pub fn destination_down(&mut self, index: usize) {
        let settled = self.kafka.go_down(index);
        self.outcomes(index, settled);
    }

    pub(super) fn purge(&mut self, index: usize) {
        self.events.push(Event::Purge);
        let settled = self.kafka.purge(index);
        self.outcomes(index, settled);
    }

    /// The producer has been replaced.
    pub fn rebuild(&mut self, index: usize) {
        if std::mem::take(&mut self.relays[index].rebuilding) {
            self.events.push(Event::Rebuild);
            self.kafka.rebuild(index);
            self.step(index, Input::Rebuilt);
        }
    }

    /// The producer could not be replaced.
    pub fn fail_rebuild(&mut self, index: usize) {
        if std::mem::take(&mut self.relays[index].rebuilding) {
            self.step(index, Input::RebuildFailed);
        }
    }

    /// A record of a producer that is gone is appended after all.
    pub fn drain_zombie(&mut self, zombie: usize, place: usize) {
        let id = self.kafka.zombies()[zombie][place].id;
        if !self.kafka.is_guilty(id) {
            self.judge_record(id, true);
        }
        self.kafka.drain_zombie(zombie, place);
    }

    /// Places in a relay's producer that the broker may take next.
    pub fn appendable(&self, index: usize) -> Vec<usize> {
        FakeKafka::firsts(self.kafka.queue(index)).collect()
    }

    fn judge_record(&mut self, id: i64, zombie: bool) {
        if self.kafka.topic().contains(&id) {
            self.events.push(if zombie { Event::ZombieRepeat } else { Event::Repeat });
            return;
        }
        let Some(row) = self.db.row(id).filter(|row| !self.db.is_open(row)) else {
            self.verdict.add(Violation::Phantom);
            return;
        };
        let key = row.key;
        if self.unpublished.range((key, i64::MIN)..(key, id)).next().is_some() {
            self.verdict.add(Violation::Order);
        }
        if self.kafka.topic().last().is_some_and(|newest| *newest > id) {
            self.events.push(Event::Straggler);
        }
        self.unpublished.remove(&(key, id));
        self.events.push(Event::Published);
    }

    fn outcomes(&mut self, index: usize, settled: Vec<Settled>) {
        let mut touched = Vec::new();
        for (entry, outcome) in settled {
            let Some(slot) = entry.slot else { continue };
            let (slot, id) = self.credited(index, slot, entry.id, outcome);
            let outcome = self.told(outcome);
            let page = self.relays[index].slots[slot].as_mut();
            let row = page.and_then(|page| page.rows.iter_mut().find(|(_, of, o)| *of == id && o.is_none()));
            if let Some((.., place)) = row {
                *place = Some(outcome);
                touched.push(slot);
            }
        }
        for slot in touched {
            self.settle(index, slot);
        }
    }

    /// For [`Mutation::FirstAckFirst`]: an acknowledgement counts for the oldest row that waits.
    fn credited(&self, index: usize, slot: usize, id: i64, outcome: Outcome) -> (usize, i64) {
        if self.mutation != Mutation::FirstAckFirst || outcome != Outcome::Acked {
            return (slot, id);
        }
        let pages = self.relays[index].slots.iter().enumerate().filter_map(|(slot, page)| Some((slot, page.as_ref()?)));
        let waiting = pages.flat_map(|(slot, page)| {
            page.rows.iter().filter(|(.., outcome)| outcome.is_none()).map(move |(_, id, _)| (slot, *id))
        });
        waiting.min_by_key(|(_, id)| *id).unwrap_or((slot, id))
    }

    fn told(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Failed { class: Class::Message, .. } if self.mutation == Mutation::SkipGuilty => Outcome::Acked,
            outcome => outcome,
        }
    }

    /// A page whose outcomes are all in waits to be told.
    fn settle(&mut self, index: usize, slot: usize) {
        let relay = &mut self.relays[index];
        let done = |page: &InFlight| page.sealed && page.rows.iter().all(|(.., outcome)| outcome.is_some());
        if !relay.slots[slot].as_ref().is_some_and(done) {
            return;
        }
        let Some(page) = relay.slots[slot].take() else { return };
        let (mut failures, mut acked) = (Vec::new(), page.skipped);
        for (lane, id, outcome) in page.rows {
            match outcome {
                Some(outcome @ Outcome::Failed { .. }) => failures.push(RowFailure { lane, id, outcome }),
                _ => acked.push((lane, id)),
            }
        }
        acked.sort_by_key(|(_, id)| *id);
        relay.settled.push_back(SettledPage { slot, failures, acked });
    }

    /// Tells a relay of the oldest page whose outcomes are all in.
    pub fn tell_settled(&mut self, index: usize) {
        if let Some(page) = self.relays[index].settled.pop_front() {
            self.step(index, Input::Settled(page));
        }
    }
}

struct Page {
    sent: Vec<(LaneId, i64)>,
    skipped: Vec<(LaneId, i64)>,
    taken: Vec<LaneId>,
    halted: bool,
    refused: Option<RefusedRow>,
}

impl Page {
    fn counts(&self) -> Vec<(LaneId, LaneCount)> {
        let mut counts: Vec<(LaneId, LaneCount)> = Vec::new();
        for lane in &self.taken {
            let count = LaneCount { messages: 1, bytes: ROW_BYTES };
            match counts.iter_mut().find(|(of, _)| of == lane) {
                Some((_, sum)) => (sum.messages, sum.bytes) = (sum.messages + 1, sum.bytes + ROW_BYTES),
                None => counts.push((*lane, count)),
            }
        }
        counts
    }
}
