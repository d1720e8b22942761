//! A worker on a bench: inputs in, actions out, time by hand.

use std::collections::VecDeque;
use std::time::Duration;

use crate::batch::{BatchHead, MarkRow};
use crate::failure::{Class, Outcome, Persistence};
use crate::lane::{Generation, LaneId, LaneRow, LeaseTerms, Owner, Survey, Tag};
use crate::page::{PageEnd, PageStop};
use crate::position::{Position, Sighting, Snapshot};
use crate::worker::{Action, Input, LaneCount, PageReport, PageRequest, RowFailure, SettledPage, Terms, Worker};

pub(super) const MS: Duration = Duration::from_millis(1);

pub(super) fn terms() -> Terms {
    Terms {
        lease: LeaseTerms { lease: 15_000 * MS, margin: 2_000 * MS },
        renew_every: 5_000 * MS,
        survey_every: 500 * MS,
        mark_interval: 20 * MS,
        sight_busy: MS,
        sight_idle: 100 * MS,
        burn_interval: 20 * MS,
        page_rows: 10,
        page_bytes: 1_000_000,
        page_slots: 3,
        delivery_deadline: 30_000 * MS,
        backoff_base: 100 * MS,
        backoff_cap: 1_000 * MS,
        idle_mark_ids: 1_000,
    }
}

pub(super) fn owner(name: &str) -> Owner {
    Owner(name.into())
}

/// How often the worker did what costs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) looks: u32,
    pub(super) burns: u32,
    pub(super) marks: u32,
}

/// A worker, the time, and what it last asked for.
pub(super) struct Bench {
    pub(super) worker: Worker,
    pub(super) now: Duration,
    pub(super) asked: Vec<Action>,
}

impl Bench {
    /// A worker with sessions and nothing else.
    pub(super) fn connected() -> Self {
        let worker = Worker::new(owner("me"), terms(), Tag(100));
        let mut bench = Bench { worker, now: 1_000 * MS, asked: Vec::new() };
        bench.step(Input::Connected);
        assert_eq!(bench.asked, [Action::Renew(Vec::new())]);
        bench.step(Input::Renewed { lanes: Vec::new(), sent: bench.now });
        assert_eq!(bench.asked, [Action::Survey]);
        bench
    }

    /// A worker that has claimed these lanes; its next action is to look.
    pub(super) fn holding(lanes: &[i16]) -> Self {
        let mut bench = Bench::connected();
        let free = |lane: &i16| row(*lane, None, 0);
        bench.surveyed(lanes.iter().map(free).collect(), &["me"]);
        for lane in lanes {
            bench.claimed(*lane, Position::beginning());
        }
        bench
    }

    /// One that holds these lanes and has a tick: ids up to `last_id` in one window. Its next action reads.
    pub(super) fn reading(lanes: &[i16], last_id: i64) -> Self {
        let mut bench = Bench::holding(lanes);
        bench.step(Input::Sighted(sighting(10, last_id)));
        assert!(bench.asked.contains(&Action::Burn), "no base yet: {:?}", bench.asked);
        bench.step(Input::Burnt);
        assert!(bench.asked.contains(&Action::Sight));
        bench.step(Input::Sighted(sighting(11, last_id)));
        bench
    }

    pub(super) fn step(&mut self, input: Input) {
        self.asked = self.worker.step(input, self.now);
    }

    /// Time passes, and the timer rings.
    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.step(Input::Timer);
    }

    pub(super) fn surveyed(&mut self, lanes: Vec<LaneRow>, relays: &[&str]) {
        let relays = relays.iter().map(|name| owner(name)).collect();
        self.step(Input::Surveyed { survey: Survey { lanes, relays }, sent: self.now });
    }

    /// Answers the outstanding claim of `lane`.
    pub(super) fn claimed(&mut self, lane: i16, position: Position) {
        let lane = LaneId(lane);
        let head = BatchHead { lane, n: 5, generation: Generation(3), tag: Tag(0), position };
        let claim = |action: &Action| matches!(action, Action::Claim { lane: of, .. } if *of == lane);
        assert!(self.asked.iter().any(claim), "{:?}", self.asked);
        self.step(Input::Claimed { head: Some(head), sent: self.now });
    }

    /// The page that was just asked for.
    pub(super) fn page(&self) -> PageRequest {
        let page = self.asked.iter().find_map(|action| match action {
            Action::ReadPage(request) => Some(request.clone()),
            _ => None,
        });
        page.unwrap_or_else(|| panic!("no page is asked for: {:?}", self.asked))
    }

    /// Lets other lanes read nothing until a page of `lane` is asked for.
    pub(super) fn turn_of(&mut self, lane: i16) -> PageRequest {
        for _ in 0..10 {
            let page = self.page();
            if page.lanes.iter().any(|(of, ..)| *of == LaneId(lane)) {
                return page;
            }
            self.sent(lane, &[], PageStop::Cut);
        }
        panic!("lane {lane} never gets its turn: {:?}", self.asked)
    }

    pub(super) fn asks_for_a_page(&self) -> bool {
        self.asked.iter().any(|action| matches!(action, Action::ReadPage(_)))
    }

    /// Answers a page: it sent these rows of one lane, and ended so.
    pub(super) fn sent(&mut self, lane: i16, ids: &[i64], stop: PageStop) {
        self.step(Input::PageRead(report(lane, ids, stop)));
    }

    /// All rows of a page were acknowledged, except these.
    pub(super) fn settled(&mut self, slot: usize, lane: i16, acked: &[i64], failed: &[(i64, Class)]) {
        let lane = LaneId(lane);
        let failures =
            failed.iter().map(|(id, class)| RowFailure { lane, id: *id, outcome: failure(*class) }).collect();
        let acked = acked.iter().map(|id| (lane, *id)).collect();
        self.step(Input::Settled(SettledPage { slot, failures, acked }));
    }

    /// Lets a log at rest and the keeper answer everything until `until`; returns what it asked for.
    pub(super) fn rest(&mut self, until: Duration, seen: &Sighting, lanes: &[LaneRow]) -> Counts {
        let mut counts = Counts::default();
        while self.now < until {
            let mut asked: VecDeque<Action> = std::mem::take(&mut self.asked).into();
            while let Some(action) = asked.pop_front() {
                match action {
                    Action::Sight => counts.looks += 1,
                    Action::Burn => counts.burns += 1,
                    Action::Mark { .. } => counts.marks += 1,
                    _ => {}
                }
                // Each transaction id that is taken moves the snapshot on.
                let seen = sighting(seen.snapshot.xmax() + u64::from(counts.burns), seen.last_id);
                if let Some(input) = self.answer(action, &seen, lanes) {
                    self.step(input);
                    asked.extend(self.asked.drain(..));
                }
            }
            let wake = self.worker.next_wake(self.now);
            assert!(wake > self.now, "a timer for nothing");
            self.now = wake;
            self.step(Input::Timer);
        }
        counts
    }

    fn answer(&self, action: Action, seen: &Sighting, lanes: &[LaneRow]) -> Option<Input> {
        Some(match action {
            Action::Sight => Input::Sighted(seen.clone()),
            Action::Burn => Input::Burnt,
            Action::ReadPage(_) => Input::PageRead(report(0, &[], PageStop::Exhausted)),
            Action::Mark { rows, .. } => Input::Marked(rows.iter().map(|row| row.lane).collect()),
            Action::Renew(held) => {
                Input::Renewed { lanes: held.iter().map(|(lane, _)| *lane).collect(), sent: self.now }
            }
            Action::Survey => {
                let survey = Survey { lanes: lanes.to_vec(), relays: vec![owner("me")] };
                Input::Surveyed { survey, sent: self.now }
            }
            _ => return None,
        })
    }

    /// The mark that was just asked for.
    pub(super) fn mark(&self) -> (Tag, Vec<MarkRow>) {
        let mark = self.asked.iter().find_map(|action| match action {
            Action::Mark { tag, rows } => Some((*tag, rows.clone())),
            _ => None,
        });
        mark.unwrap_or_else(|| panic!("no mark is asked for: {:?}", self.asked))
    }

    pub(super) fn asks_for_a_mark(&self) -> bool {
        self.asked.iter().any(|action| matches!(action, Action::Mark { .. }))
    }

    pub(super) fn asks(&self, action: &Action) -> bool {
        self.asked.contains(action)
    }
}

pub(super) fn failure(class: Class) -> Outcome {
    Outcome::Failed { class, persistence: Persistence::Not, code: 7 }
}

/// Nothing runs, and transactions below `xmax` have ended.
pub(super) fn sighting(xmax: u64, last_id: i64) -> Sighting {
    Sighting { snapshot: Snapshot::new(xmax, xmax, &[]), last_id }
}

pub(super) fn report(lane: i16, ids: &[i64], stop: PageStop) -> PageReport {
    let count = LaneCount { messages: ids.len() as i64, bytes: 100 * ids.len() as i64 };
    PageReport {
        end: PageEnd { rows: ids.len() as u32, last_id: ids.last().copied().unwrap_or_default(), stop },
        sent: ids.len() as u32,
        counts: if ids.is_empty() { Vec::new() } else { vec![(LaneId(lane), count)] },
        skipped: Vec::new(),
        halted: false,
        refused: None,
        next_id: None,
    }
}

/// A lane of 32 slots in the lease table.
pub(super) fn row(lane: i16, holder: Option<&str>, generation: i64) -> LaneRow {
    let first = lane as u8 * 32;
    LaneRow {
        lane: LaneId(lane),
        slots: first..=first + 31,
        owner: holder.map(owner),
        generation: Generation(generation),
        expires_at_us: holder.map(|_| 77),
        claimable: holder.is_none(),
    }
}
