//! Seeded simulation: the real worker with real terms, in virtual time, on random schedules. One seed gives
//! one schedule; what a plan does not ask for does not happen.

mod faults;
mod plan;
mod writers;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use fencepost_core::audit::Window;
use fencepost_core::lane::{Moment, Tag};
use fencepost_core::worker::Input;

use crate::database::{FakeDatabase, Rules};
use crate::driver::{MarkerOp, Mutation, World};
use crate::verdict::Event;
use writers::Writers;

pub use plan::{Plan, real_terms};

/// Ids that are given out while a short transaction is open, at most.
const STRAGGLING_IDS: i64 = 60;

/// About how many ids a window of the audit at the end has.
const AUDITED_IDS: i64 = 100;

/// Something that is due at a moment. One of a kind at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Timer(usize),
    Read(usize),
    CheckMark(usize),
    LandMark(usize),
    Keep(usize),
    Answer(usize),
    Tell(usize),
    Rebuild(usize),
    Broker(usize),
    Connect(usize),
    Start(usize),
    Orphan(Tag),
    Zombie,
    Writer(usize),
    Fault,
    Heal,
}

impl Due {
    /// The relay whose process must run for it; the rest happens in a server or nowhere.
    fn process(self) -> Option<usize> {
        match self {
            Due::Timer(i) | Due::Read(i) | Due::LandMark(i) | Due::Answer(i) => Some(i),
            Due::Tell(i) | Due::Rebuild(i) | Due::Connect(i) => Some(i),
            _ => None,
        }
    }
}

/// A simulation at some moment.
pub struct Simulation {
    /// Everything.
    pub world: World,
    /// What may happen.
    pub plan: Plan,
    /// How often each event happened.
    pub tally: BTreeMap<Event, u64>,
    /// From commit to the topic, of each message that was published.
    pub latencies: Vec<Duration>,
    /// Windows that the audit at the end counted.
    pub windows_audited: usize,
    rng: Rng,
    due: BTreeMap<Due, Moment>,
    frozen_until: Vec<Moment>,
    stuck_until: Vec<Moment>,
    writers: Writers,
    kafka_down: bool,
    quiet: bool,
}

impl Simulation {
    /// The start of a plan under a seed.
    pub fn new(seed: u64, plan: Plan) -> Self {
        let width = 256 / plan.lanes;
        let lanes = (0..plan.lanes).map(|lane| (lane * width) as u8..=(lane * width + width - 1) as u8);
        let db = FakeDatabase::new(Rules::REAL, lanes);
        let mut world = World::new(Mutation::Nothing, db, &plan.guilty, real_terms());
        let mut rng = Rng::with_seed(seed);
        world.unsendable = plan.unsendable.iter().copied().collect();
        world.judges_leases = plan.clock_steps == 0;
        for _ in 0..plan.relays {
            world.add_relay(Duration::from_micros(rng.u64(0..1_000_000_000)));
        }
        let mut simulation = Simulation {
            frozen_until: vec![Duration::ZERO; plan.relays],
            stuck_until: vec![Duration::ZERO; plan.relays],
            writers: Writers::new(&plan),
            due: BTreeMap::new(),
            tally: BTreeMap::new(),
            latencies: Vec::new(),
            windows_audited: 0,
            kafka_down: false,
            quiet: false,
            world,
            plan,
            rng,
        };
        simulation.begin();
        simulation
    }

    fn begin(&mut self) {
        for index in 0..self.plan.relays {
            let after = if self.plan.staggered { self.within(0..20_000_000) } else { self.within(0..100_000) };
            self.world.relays[index].alive = false;
            self.due.insert(Due::Start(index), after);
        }
        for writer in 0..self.plan.writers {
            let at = self.within(0..1_000_000);
            self.due.insert(Due::Writer(writer), at);
        }
        if self.plan.has_faults() {
            let at = self.within(1_000_000..3_000_000);
            self.due.insert(Due::Fault, at);
        }
    }

    /// Random moment that many microseconds from now.
    fn within(&mut self, micros: Range<u64>) -> Moment {
        self.world.now + Duration::from_micros(self.rng.u64(micros))
    }

    /// Runs until `until`.
    ///
    /// # Panics
    /// When an invariant breaks, or a worker asks for a timer that does nothing.
    pub fn run_until(&mut self, until: Moment) {
        loop {
            self.refresh();
            let Some((due, at)) = self.due.iter().min_by_key(|(_, at)| **at).map(|(due, at)| (*due, *at)) else {
                break;
            };
            if at > until {
                break;
            }
            self.world.advance(at.saturating_sub(self.world.now));
            self.due.remove(&due);
            self.handle(due);
            self.note();
        }
        self.world.advance(until.saturating_sub(self.world.now));
    }

    fn note(&mut self) {
        let verdict = self.world.verdict;
        assert!(verdict.is_clean(), "{verdict:?} at {:?}", self.world.now);
        for event in std::mem::take(&mut self.world.events) {
            *self.tally.entry(event).or_default() += 1;
        }
    }

    /// How often an event happened.
    pub fn count(&self, event: Event) -> u64 {
        self.tally.get(&event).copied().unwrap_or_default()
    }

    /// Gives everything that is outstanding a moment, and forgets what is no longer.
    fn refresh(&mut self) {
        for index in 0..self.world.relays.len() {
            for (due, wanted, micros) in self.wanted(index) {
                if !wanted {
                    self.due.remove(&due);
                } else if !self.due.contains_key(&due) {
                    let at = self.within(micros);
                    self.due.insert(due, self.thawed(due, at));
                }
            }
            let (now, moment) = (self.world.now, self.world.moment(index));
            self.due.remove(&Due::Timer(index));
            if self.world.relays[index].alive {
                let wait = self.world.relays[index].worker.next_wake(moment).saturating_sub(moment);
                self.due.insert(Due::Timer(index), self.thawed(Due::Timer(index), now.saturating_add(wait)));
            }
        }
        for orphan in 0..self.world.orphans.len() {
            let due = Due::Orphan(self.world.orphans[orphan].0.tag);
            if !self.due.contains_key(&due) {
                let at = self.within(1_000..10_000_000);
                self.due.insert(due, at);
            }
        }
        if !self.world.kafka.zombies().is_empty() && !self.due.contains_key(&Due::Zombie) {
            let at = self.within(1_000..2_000_000);
            self.due.insert(Due::Zombie, at);
        }
    }

    fn thawed(&self, due: Due, at: Moment) -> Moment {
        match due {
            Due::Broker(relay) => at.max(self.stuck_until[relay]),
            due => due.process().map_or(at, |relay| at.max(self.frozen_until[relay])),
        }
    }

    /// What is outstanding at a relay, and how long it takes.
    fn wanted(&mut self, index: usize) -> Vec<(Due, bool, Range<u64>)> {
        let slow = !self.quiet && self.plan.slow_statements > 0 && self.rng.u32(0..1000) < self.plan.slow_statements;
        let statement = if slow { 5_000..400_000 } else { 150..600 };
        let stalls = !self.quiet && self.rng.u32(0..1000) < self.plan.stalled_marks;
        let landing = if stalls { 1_000_000..40_000_000 } else { statement.clone() };
        let relay = &self.world.relays[index];
        let alive = relay.alive;
        let (unsent, checked) = match &relay.marker {
            Some(MarkerOp::Mark(_)) => (true, false),
            Some(_) => (false, true),
            None => (false, false),
        };
        let reply = relay.keeper.as_ref().map(|op| op.reply.is_some());
        vec![
            (Due::Read(index), alive && relay.reader.is_some(), statement.clone()),
            (Due::CheckMark(index), alive && unsent, statement.clone()),
            (Due::LandMark(index), alive && checked, landing),
            (Due::Keep(index), alive && reply == Some(false), statement.clone()),
            (Due::Answer(index), alive && reply == Some(true), 50..300),
            (Due::Tell(index), alive && !relay.settled.is_empty(), 10..100),
            (Due::Rebuild(index), alive && relay.rebuilding, 50_000..700_000),
            (Due::Broker(index), alive && !self.world.kafka.queue(index).is_empty(), 300..1_500),
            (Due::Connect(index), alive && !relay.connected, 2_000..50_000),
        ]
    }

    fn handle(&mut self, due: Due) {
        match due {
            Due::Timer(index) => self.timer(index),
            Due::Read(index) => self.world.run_reader(index),
            Due::CheckMark(index) => self.world.check_mark(index),
            Due::LandMark(index) => self.world.run_marker(index),
            Due::Keep(index) => self.world.execute_keeper(index),
            Due::Answer(index) => self.world.answer_keeper(index),
            Due::Tell(index) => self.world.tell_settled(index),
            Due::Rebuild(index) if self.kafka_down => self.world.fail_rebuild(index),
            Due::Rebuild(index) => self.world.rebuild(index),
            Due::Broker(index) => self.broker(index),
            Due::Connect(index) => self.world.connect(index),
            Due::Start(index) => self.world.relays[index].alive = true,
            Due::Orphan(tag) => self.orphan(tag),
            Due::Zombie => self.zombie(),
            Due::Writer(writer) => self.write(writer),
            Due::Fault => self.fault(),
            Due::Heal => self.heal(),
        }
        for index in 0..self.world.relays.len() {
            if self.world.relays[index].finished && self.world.relays[index].alive {
                self.left(index);
            }
        }
    }

    fn timer(&mut self, index: usize) {
        self.world.step(index, Input::Timer);
        let (relay, moment) = (&self.world.relays[index], self.world.moment(index));
        let wake = relay.worker.next_wake(moment);
        assert!(wake > moment || relay.finished, "a timer for nothing: {:#?}", relay.worker);
    }

    fn orphan(&mut self, tag: Tag) {
        if let Some(orphan) = self.world.orphans.iter().position(|(mark, ..)| mark.tag == tag) {
            self.world.land_orphan(orphan);
        }
    }

    fn zombie(&mut self) {
        if self.world.kafka.zombies().is_empty() {
            return;
        }
        if self.rng.u8(0..10) == 0 {
            self.world.kafka.drop_zombies();
        } else {
            self.world.drain_zombie(0, 0);
        }
    }

    /// The broker takes some of what a relay's producer holds.
    fn broker(&mut self, index: usize) {
        if self.kafka_down {
            self.world.destination_down(index);
            return;
        }
        for _ in 0..self.rng.usize(1..=self.world.kafka.queue(index).len()) {
            let mut place = 0;
            if self.rng.u8(0..8) == 0 {
                let firsts = self.world.appendable(index);
                place = firsts[self.rng.usize(0..firsts.len())];
            }
            let entry = self.world.kafka.queue(index)[place];
            if self.world.kafka.is_guilty(entry.id) {
                return self.world.refuse_record(index, place, self.rng.usize(0..3));
            }
            if self.world.closed_routes.contains(&entry.key) {
                return self.world.refuse_route(index, place);
            }
            if !self.quiet && self.rng.u32(0..100_000) < self.plan.lost_acks {
                return self.world.append_silently(index, place);
            }
            let waited = self.writers.waited(entry.id, self.world.now);
            if !self.world.kafka.topic().contains(&entry.id) {
                self.latencies.extend(waited);
            }
            self.world.append(index, place);
        }
    }

    /// No further fault and no further message; what is down comes up. Runs until everything is delivered
    /// and recorded, or until `patience` is over.
    ///
    /// # Panics
    /// When something is left undelivered, or the batch log counts otherwise than the log.
    pub fn settle(&mut self, patience: Duration) {
        self.quiet = true;
        self.due.remove(&Due::Fault);
        self.heal();
        let end = self.world.now + patience;
        while self.world.now < end {
            self.run_until(self.world.now + Duration::from_millis(100));
            if self.is_done() {
                let audited = self.world.db.audit(AUDITED_IDS);
                self.windows_audited = audited.len();
                let differs = |(window, found): &(Window, i64)| window.expected != *found;
                assert!(!audited.iter().any(differs), "the audit finds what nobody lost: {audited:#?}");
                return;
            }
        }
        let left = self.world.unpublished().len();
        panic!("{left} messages are not delivered, or not recorded, after {patience:?}:\n{:#?}", self.world.relays);
    }

    /// Whether every message is delivered and recorded; of a lane with a message that can never be published
    /// whatever lies before that.
    pub fn is_done(&self) -> bool {
        let lane = |id: i64| {
            let slot = self.world.db.row(id)?.slot;
            self.world.db.lanes().find(|(_, lane)| lane.slots.contains(&slot)).map(|(lane, _)| lane)
        };
        let stops: Vec<i64> = self.plan.guilty.iter().chain(&self.plan.unsendable).copied().collect();
        // A transaction that is open meanwhile may write a smaller id and end behind the stop.
        let before = if self.plan.long_transactions > 0 { i64::MAX } else { STRAGGLING_IDS };
        let may_wait = |id: i64| stops.iter().any(|stop| id.saturating_add(before) > *stop && lane(*stop) == lane(id));
        let recorded = !stops.is_empty() || self.world.all_recorded_before(i64::MAX);
        self.writers.are_idle() && self.world.unpublished().iter().all(|(_, id)| may_wait(*id)) && recorded
    }

    /// Lanes that each relay holds by its own account.
    pub fn lanes_held(&self) -> Vec<usize> {
        self.world.relays.iter().filter(|relay| relay.alive).map(|relay| relay.worker.lanes().count()).collect()
    }

    /// Transaction ids that relays have taken for marks and ticks.
    pub fn transaction_ids(&self) -> u64 {
        self.count(Event::Burn) + self.count(Event::MarkStatement)
    }
}
