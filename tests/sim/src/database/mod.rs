//! A database in memory with PostgreSQL's semantics as far as a relay can tell: transaction ids and
//! snapshots, a sequence that never rolls back, leases by the database's own clock, and a batch log whose
//! key is the last guard against a statement that stalls. Pure: a clone is another world.

mod audit;
mod hands;
mod lanes;
mod log;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::lane::{Generation, LaneId, Moment, Owner, Slots};

pub use audit::Found;
pub use lanes::{BatchRow, Kind, Lane, PendingMark};

/// What of the database's behaviour is switched off. All of it on is what the relay relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Marks, claims and burns take transaction ids. Off for a log that nobody writes to: snapshots stay
    /// equal, and far fewer states differ.
    pub relays_take_xids: bool,
    /// Heartbeats are kept. Off: each relay believes that it is alone, and may take any lane.
    pub heartbeats: bool,
    /// A mark names an unexpired lease.
    pub lease_check: bool,
    /// (lane, n) is a key of the batch log.
    pub batch_key: bool,
    /// A mark takes the number that follows the newest row when it lands, whatever it asked for.
    pub fresh_numbers: bool,
}

impl Rules {
    /// As the real database behaves.
    pub const REAL: Rules =
        Rules { relays_take_xids: true, heartbeats: true, lease_check: true, batch_key: true, fresh_numbers: false };
}

/// A message as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row<M> {
    /// The transaction that wrote it.
    pub xid: u64,
    /// The slot of its key.
    pub slot: u8,
    /// Whose order it keeps, and its partition in the fake Kafka.
    pub key: u32,
    /// When it was written, by the database's clock.
    pub created_at: Moment,
    /// Everything else.
    pub content: M,
}

/// The database. `M` is what a message carries beyond its place: nothing in the model and the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeDatabase<M = ()> {
    /// Its clock.
    pub now: Moment,
    /// How it behaves.
    pub rules: Rules,
    log: Arc<BTreeMap<i64, Row<M>>>,
    last_id: i64,
    next_xid: u64,
    newest_completed: u64,
    /// Open transactions and the messages that they wrote.
    running: BTreeMap<u64, Vec<i64>>,
    /// Next transaction id and newest message id that a crash would come back to.
    flushed: (u64, i64),
    lanes: BTreeMap<LaneId, Lane>,
    batches: BTreeMap<(LaneId, i64), BatchRow>,
    beats: BTreeMap<Owner, Moment>,
    findings: Vec<Found>,
}

impl<M: Clone> FakeDatabase<M> {
    /// An empty log with these lanes, which stand at its beginning.
    pub fn new(rules: Rules, lanes: impl IntoIterator<Item = Slots>) -> Self {
        FakeDatabase::new_at(Duration::ZERO, rules, lanes)
    }

    /// The same, with its clock at `now`.
    pub fn new_at(now: Moment, rules: Rules, lanes: impl IntoIterator<Item = Slots>) -> Self {
        let lanes = (0i16..).zip(lanes).map(|(lane, slots)| (LaneId(lane), Lane::free(slots)));
        let lanes: BTreeMap<LaneId, Lane> = lanes.collect();
        let batches = lanes.keys().map(|lane| ((*lane, 0), BatchRow::init(now))).collect();
        FakeDatabase {
            now,
            rules,
            log: Arc::default(),
            last_id: 0,
            next_xid: 10,
            newest_completed: 9,
            running: BTreeMap::new(),
            flushed: (10, 0),
            lanes,
            batches,
            beats: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    /// Gives a producer's transaction its id: what its first write does.
    pub fn begin(&mut self) -> u64 {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.running.insert(xid, Vec::new());
        xid
    }

    /// Writes a message in an open transaction; its id is given out now, and stays a gap if it rolls back.
    pub fn insert(&mut self, xid: u64, slot: u8, key: u32, content: M) -> i64 {
        self.last_id += 1;
        self.running.get_mut(&xid).expect("the transaction is open").push(self.last_id);
        let row = Row { xid, slot, key, created_at: self.now, content };
        Arc::make_mut(&mut self.log).insert(self.last_id, row);
        self.last_id
    }

    /// Commits, and waits for the flush. Returns the messages.
    pub fn commit(&mut self, xid: u64) -> Vec<i64> {
        let ids = self.end(xid);
        self.flush();
        ids
    }

    /// Rolls back. Nothing is flushed.
    pub fn rollback(&mut self, xid: u64) {
        self.undo(xid);
        self.newest_completed = self.newest_completed.max(xid);
    }

    fn undo(&mut self, xid: u64) {
        let log = Arc::make_mut(&mut self.log);
        for id in self.running.remove(&xid).into_iter().flatten() {
            log.remove(&id);
        }
    }

    fn end(&mut self, xid: u64) -> Vec<i64> {
        self.newest_completed = self.newest_completed.max(xid);
        self.running.remove(&xid).expect("the transaction is open")
    }

    fn flush(&mut self) {
        self.flushed = (self.next_xid, self.last_id);
    }

    /// The server dies and comes back: open transactions are gone, and transaction ids and message ids that
    /// only they and unflushed commits knew are handed out again. Committed rows, marks and leases stay.
    pub fn crash(&mut self) {
        for xid in self.running.keys().copied().collect::<Vec<_>>() {
            self.undo(xid);
        }
        (self.next_xid, self.last_id) = self.flushed;
        self.newest_completed = self.next_xid - 1;
    }

    /// Makes `next` the id that the next message gets.
    pub fn skip_ids(&mut self, next: i64) {
        self.last_id = next - 1;
    }

    /// Committed messages by id.
    pub fn committed(&self) -> impl Iterator<Item = (i64, &Row<M>)> {
        self.log.iter().filter(|(_, row)| !self.running.contains_key(&row.xid)).map(|(id, row)| (*id, row))
    }

    /// A message, whatever its transaction.
    pub fn row(&self, id: i64) -> Option<&Row<M>> {
        self.log.get(&id)
    }

    /// Whether a message's transaction is still open.
    pub fn is_open(&self, row: &Row<M>) -> bool {
        self.running.contains_key(&row.xid)
    }

    /// A statement of a relay that takes a transaction id and commits it.
    fn relay_transaction(&mut self, flush: bool) {
        if self.rules.relays_take_xids {
            let xid = self.begin();
            self.end(xid);
        }
        if flush {
            self.flush();
        }
    }

    /// A lane.
    pub fn lane(&self, lane: LaneId) -> &Lane {
        &self.lanes[&lane]
    }

    /// All lanes by number.
    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().map(|(id, lane)| (*id, lane))
    }

    /// Whether `generation` of `lane` is the current one and its lease has not expired.
    pub fn is_leased(&self, lane: LaneId, generation: Generation) -> bool {
        let lane = &self.lanes[&lane];
        lane.generation == generation && lane.expires_at.is_some_and(|at| at > self.now)
    }
}

/// Two databases behave alike if they agree on the newest batch row of each lane: numbers have no gaps, so
/// that the newest tells which are taken.
impl<M: Hash> Hash for FakeDatabase<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.rules, &self.log, self.last_id, self.next_xid, self.newest_completed).hash(state);
        (&self.running, self.flushed, &self.lanes, &self.beats).hash(state);
        for lane in self.lanes.keys() {
            if let Some(((_, n), row)) = self.batches.range((*lane, i64::MIN)..=(*lane, i64::MAX)).next_back() {
                (n, row.generation, row.tag, &row.position).hash(state);
            }
        }
    }
}
