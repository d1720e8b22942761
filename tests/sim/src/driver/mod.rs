//! Relays that run the real worker over the fake database and the fake Kafka: what the engine does, one
//! event at a time. Every method is one event; who calls them in which order is the model checker's or
//! the simulator's choice. The world judges itself: each event that breaks an invariant is noted.

mod publish;
mod statements;

use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::lane::{LaneId, Moment, Owner, Tag};
use fencepost_core::worker::{Action, Input, Note, PageReport, PageRequest, SettledPage, Terms, Worker};

use crate::database::{self, FakeDatabase, PendingMark};
use crate::kafka::{self, FakeKafka};
use crate::verdict::{Event, Verdict, Violation};

/// A line of the protocol that is broken on purpose, to show that the search would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// None: the protocol as it is.
    Nothing,
    /// The batch that is acknowledged first is marked first.
    FirstAckFirst,
    /// Behind a failed record the producer goes on.
    NotGapless,
    /// After a failure new pages are sent before all outcomes are in.
    NoWaitForOutcomes,
    /// A mark takes a fresh `max(n) + 1` when it lands.
    FreshNumbers,
    /// A mark does not look at the lease.
    NoLeaseCheck,
    /// (lane, n) is no key.
    NoKey,
    /// Neither of the two.
    NoGuard,
    /// A lease is trusted from the reply instead of from the send.
    TrustFromReply,
    /// Claim and fence are two statements.
    SplitClaim,
    /// After a failure what was sent is sent again, without a look at what of it may go out.
    ResendBehind,
    /// A message that can never be published counts as delivered.
    SkipGuilty,
    /// A number that this relay's generation wrote counts as saved, whatever its tag.
    AnyTag,
    /// Positions in memory are kept over a crash of the database.
    KeepPositions,
}

impl Mutation {
    /// Every one that breaks something.
    pub const ALL: [Mutation; 13] = [
        Mutation::FirstAckFirst,
        Mutation::NotGapless,
        Mutation::NoWaitForOutcomes,
        Mutation::FreshNumbers,
        Mutation::NoLeaseCheck,
        Mutation::NoKey,
        Mutation::NoGuard,
        Mutation::TrustFromReply,
        Mutation::SplitClaim,
        Mutation::ResendBehind,
        Mutation::SkipGuilty,
        Mutation::AnyTag,
        Mutation::KeepPositions,
    ];
}

/// What the reading session has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReaderOp {
    /// [`Action::Sight`].
    Sight,
    /// [`Action::Burn`].
    Burn,
    /// [`Action::ReadPage`].
    Page(PageRequest),
}

/// What the marking session has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MarkerOp {
    /// [`Action::Mark`], not looked at yet.
    Mark(Mark),
    /// A mark that has passed its lease check and stalls.
    Checked(Mark, PendingMark),
    /// [`Action::LoadNewest`].
    Newest(Vec<LaneId>),
}

/// A mark as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Its tag.
    pub tag: Tag,
    /// Its rows.
    pub rows: Vec<fencepost_core::batch::MarkRow>,
}

/// What the keeping session has to do, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeeperOp {
    /// What was asked.
    pub action: Action,
    /// When.
    pub sent: Moment,
    /// The reply, once the statement has run.
    pub reply: Option<Input>,
    /// The lease of a claim is set, its fence row is not.
    pub split: bool,
}

/// A page that waits for outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    rows: Vec<(LaneId, i64, Option<fencepost_core::failure::Outcome>)>,
    skipped: Vec<(LaneId, i64)>,
    sealed: bool,
}

/// One relay process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Relay {
    /// The code under test.
    pub worker: Worker,
    /// Its name.
    pub owner: Owner,
    /// Starts of this relay so far.
    pub starts: u32,
    /// Whether the process runs.
    pub alive: bool,
    /// Added to the world's time by its monotonic clock.
    pub clock_offset: Duration,
    /// Whether the pair of sessions is up.
    pub connected: bool,
    /// On the reading session.
    pub reader: Option<ReaderOp>,
    /// On the marking session.
    pub marker: Option<MarkerOp>,
    /// On the keeping session.
    pub keeper: Option<KeeperOp>,
    /// Pages whose outcomes are known and were not told.
    pub settled: VecDeque<SettledPage>,
    /// The producer is being replaced.
    pub rebuilding: bool,
    /// The worker is done.
    pub finished: bool,
    slots: Vec<Option<InFlight>>,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct World {
    /// The world's clock. The database has its own, since it may jump.
    pub now: Moment,
    /// The database.
    pub db: FakeDatabase,
    /// The cluster.
    pub kafka: FakeKafka,
    /// The relays.
    pub relays: Vec<Relay>,
    /// Marks whose sender no longer waits: each may still reach the database.
    pub orphans: Vec<(Mark, Option<PendingMark>, Owner)>,
    /// Broken invariants.
    pub verdict: Verdict,
    /// What is broken on purpose.
    pub mutation: Mutation,
    /// Whether [`Violation::Unleased`] is judged: not where the database's clock steps, which no trust survives.
    pub judges_leases: bool,
    /// Messages that the client refuses for good when they are handed over, as one that is too large.
    pub unsendable: BTreeSet<i64>,
    /// Topics can't be written for these keys now.
    pub closed_routes: BTreeSet<u32>,
    /// Committed messages that are not in the topic, by key and id.
    unpublished: BTreeSet<(u32, i64)>,
    terms: Arc<Terms>,
    /// What happened in the last event. No part of the state.
    pub events: Vec<Event>,
}

impl World {
    /// Lanes that stand at the beginning of an empty log, and no relay.
    pub fn new(mutation: Mutation, mut db: FakeDatabase, guilty: &[i64], terms: Terms) -> Self {
        db.rules = database_rules(mutation, db.rules);
        World {
            now: Duration::ZERO,
            db,
            kafka: FakeKafka::new(kafka_rules(mutation), 0, guilty.iter().copied()),
            relays: Vec::new(),
            orphans: Vec::new(),
            verdict: Verdict::default(),
            mutation,
            judges_leases: true,
            unsendable: BTreeSet::new(),
            closed_routes: BTreeSet::new(),
            unpublished: BTreeSet::new(),
            terms: Arc::new(terms),
            events: Vec::new(),
        }
    }

    /// Starts another relay.
    pub fn add_relay(&mut self, clock_offset: Duration) -> usize {
        self.kafka.add_producer();
        let index = self.relays.len();
        let relay = Relay::new(index, 0, clock_offset, &self.terms);
        self.relays.push(relay);
        index
    }

    /// A relay's own monotonic clock.
    pub fn moment(&self, relay: usize) -> Moment {
        self.now + self.relays[relay].clock_offset
    }

    /// Time passes.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
        self.db.now += by;
    }

    /// One step of a relay's worker, and its actions.
    pub fn step(&mut self, relay: usize, input: Input) {
        let now = self.moment(relay);
        for action in self.relays[relay].worker.step(input, now) {
            self.act(relay, action, now);
        }
    }

    fn act(&mut self, index: usize, action: Action, now: Moment) {
        let relay = &mut self.relays[index];
        match action {
            Action::Sight => set(&mut relay.reader, ReaderOp::Sight),
            Action::Burn => set(&mut relay.reader, ReaderOp::Burn),
            Action::ReadPage(request) => set(&mut relay.reader, ReaderOp::Page(request)),
            Action::Mark { tag, rows } => set(&mut relay.marker, MarkerOp::Mark(Mark { tag, rows })),
            Action::LoadNewest(lanes) => set(&mut relay.marker, MarkerOp::Newest(lanes)),
            Action::Survey | Action::Claim { .. } | Action::Renew(_) | Action::Release(_) | Action::Leave => {
                set(&mut relay.keeper, KeeperOp { action, sent: now, reply: None, split: false });
            }
            Action::Purge => self.purge(index),
            Action::Rebuild => relay.rebuilding = true,
            Action::Resume => {
                if !self.kafka.resume(index) {
                    self.step(index, Input::Broken);
                }
            }
            Action::Note(Note::LaneStopped { .. }) => self.events.push(Event::Stopped),
            Action::Note(Note::LaneWaits { .. }) => self.events.push(Event::RouteWait),
            Action::Note(_) => {}
            Action::Finished => relay.finished = true,
        }
    }

    /// A producer's commit: its messages are promised from now on.
    pub fn commit(&mut self, xid: u64) {
        for id in self.db.commit(xid) {
            let Some(row) = self.db.row(id) else { continue };
            self.unpublished.insert((row.key, id));
            if self.is_recorded(id, row.slot, xid) {
                self.verdict.add(Violation::Lost);
            }
        }
    }

    /// Whether the newest position of a message's lane says that it is delivered.
    fn is_recorded(&self, id: i64, slot: u8, xid: u64) -> bool {
        let lane = self.db.lanes().find(|(_, lane)| lane.slots.contains(&slot));
        let newest = lane.and_then(|(lane, _)| self.db.newest(lane));
        newest.is_some_and(|(_, newest)| FakeDatabase::<()>::covers(&newest.position, id, xid))
    }

    /// Committed messages that are not in the topic, by key and id.
    pub fn unpublished(&self) -> &BTreeSet<(u32, i64)> {
        &self.unpublished
    }

    /// Whether the newest position of each lane covers every message that it serves, up to but without `end`.
    pub fn all_recorded_before(&self, end: i64) -> bool {
        self.db.committed().all(|(id, row)| id >= end || self.is_recorded(id, row.slot, row.xid))
    }

    /// What the newest positions promise must be in the topic.
    fn judge_positions(&mut self, lanes: &[LaneId]) {
        let lost = lanes.iter().any(|lane| {
            let slots = &self.db.lane(*lane).slots;
            let Some((_, newest)) = self.db.newest(*lane) else { return false };
            self.unpublished.iter().any(|(_, id)| {
                let row = self.db.row(*id).filter(|row| slots.contains(&row.slot));
                row.is_some_and(|row| FakeDatabase::<()>::covers(&newest.position, *id, row.xid))
            })
        });
        if lost {
            self.verdict.add(Violation::Lost);
        }
    }

    /// The process dies, and another one starts under the same configured name. What it sent may still land.
    pub fn crash(&mut self, index: usize) {
        self.orphan_mark(index);
        self.kafka.crash(index);
        let (starts, offset) = (self.relays[index].starts + 1, self.relays[index].clock_offset);
        self.relays[index] = Relay::new(index, starts, offset, &self.terms);
    }

    /// The pair of sessions is lost: what was being read is cut, and a mark that was sent may land or not.
    pub fn disconnect(&mut self, index: usize) {
        self.orphan_mark(index);
        self.relays[index].connected = false;
        if let Some(ReaderOp::Page(_)) = self.relays[index].reader.take() {
            self.step(index, Input::PageRead(cut_page()));
        }
        self.step(index, Input::Disconnected);
        // Nothing may be asked of sessions that are gone, and what was asked in between is void.
        (self.relays[index].reader, self.relays[index].marker) = (None, None);
    }

    /// A new pair of sessions.
    pub fn connect(&mut self, index: usize) {
        self.relays[index].connected = true;
        self.step(index, Input::Connected);
    }

    /// The database dies and comes back: every session and every statement is gone.
    pub fn crash_database(&mut self) {
        self.events.push(Event::DatabaseCrash);
        self.orphans.clear();
        self.db.crash();
        if self.mutation == Mutation::KeepPositions {
            return;
        }
        for index in 0..self.relays.len() {
            if self.relays[index].connected {
                self.disconnect(index);
            }
            self.orphans.clear();
            if self.relays[index].keeper.take().is_some() {
                self.step(index, Input::KeeperFailed);
            }
        }
    }

    fn orphan_mark(&mut self, index: usize) {
        let owner = self.relays[index].owner.clone();
        match self.relays[index].marker.take() {
            Some(MarkerOp::Mark(mark)) => self.orphans.push((mark, None, owner)),
            Some(MarkerOp::Checked(mark, pending)) => self.orphans.push((mark, Some(pending), owner)),
            Some(MarkerOp::Newest(_)) | None => {}
        }
    }
}

impl Relay {
    fn new(index: usize, starts: u32, clock_offset: Duration, terms: &Terms) -> Self {
        let owner = Owner(format!("relay-{index}.{starts}").into());
        Relay {
            worker: Worker::new(
                owner.clone(),
                terms.clone(),
                Tag((index as u128 + 1) << 32 | u128::from(starts) << 16),
            ),
            owner,
            starts,
            alive: true,
            clock_offset,
            connected: false,
            reader: None,
            marker: None,
            keeper: None,
            settled: VecDeque::new(),
            rebuilding: false,
            finished: false,
            slots: vec![None; terms.page_slots],
        }
    }
}

/// One outstanding operation of a kind at a time is what the worker promises.
fn set<T: std::fmt::Debug>(place: &mut Option<T>, op: T) {
    assert!(place.is_none(), "{op:?} while {place:?} is outstanding");
    *place = Some(op);
}

/// A page whose session was lost before any row came.
fn cut_page() -> PageReport {
    use fencepost_core::page::{PageEnd, PageStop};
    PageReport {
        end: PageEnd { rows: 0, last_id: 0, stop: PageStop::Cut },
        sent: 0,
        counts: Vec::new(),
        skipped: Vec::new(),
        halted: false,
        refused: None,
        next_id: None,
    }
}

fn database_rules(mutation: Mutation, rules: database::Rules) -> database::Rules {
    let unchecked = matches!(mutation, Mutation::NoLeaseCheck | Mutation::NoGuard);
    let keyless = matches!(mutation, Mutation::NoKey | Mutation::NoGuard);
    database::Rules {
        lease_check: rules.lease_check && !unchecked,
        batch_key: rules.batch_key && !keyless,
        fresh_numbers: rules.fresh_numbers || mutation == Mutation::FreshNumbers,
        ..rules
    }
}

fn kafka_rules(mutation: Mutation) -> kafka::Rules {
    kafka::Rules {
        gapless: mutation != Mutation::NotGapless,
        rebuilds_itself: mutation == Mutation::NoWaitForOutcomes,
        resends_itself: mutation == Mutation::ResendBehind,
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        (self.now, &self.db, &self.kafka, &self.relays) == (other.now, &other.db, &other.kafka, &other.relays)
            && (&self.orphans, self.verdict) == (&other.orphans, other.verdict)
    }
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, &self.db, &self.kafka, &self.relays, &self.orphans, self.verdict).hash(state);
    }
}
