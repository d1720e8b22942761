//! The relay's store port over the fake database, so that the conformance suite judges the fake by the same
//! cases as PostgreSQL. Every future is ready at once, and every statement takes a millisecond of the
//! database's own clock.

mod housekeeper;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use fencepost_core::lane::{Generation, LaneId, Owner, Slots, Tag};
use fencepost_core::page::{PageEnd, PagePlan};
use fencepost_core::position::Sighting;
use fencepost_relay::message::MessageRef;
use fencepost_relay::store::{BatchHead, LaneKeeper, LogReader, MarkRow, MarkWriter, Store, StoreError, Survey};
use uuid::Uuid;

use crate::database::{FakeDatabase, Row, Rules};

/// A statement's time.
const STATEMENT: Duration = Duration::from_millis(1);
/// Far enough from the clock's zero that tests can shift times into the past.
const START: Duration = Duration::from_secs(10_000_000);

/// A message's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in the relay's message")]
pub struct Message {
    pub tenant: String,
    pub topic: String,
    pub key: Option<Vec<u8>>,
    pub partition: Option<i32>,
    pub kind: String,
    pub content_type: Option<String>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub payload: Option<Vec<u8>>,
    pub event_time_us: Option<i64>,
}

/// A source in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct FakeStore(Rc<RefCell<FakeDatabase<Message>>>);

/// Each of the store's three connections.
pub struct FakeSession(FakeStore);

/// A producer's transaction; dropped, it rolls back. It has no transaction id before its first write.
pub struct FakeWriter {
    store: FakeStore,
    xid: Option<u64>,
}

impl Default for FakeStore {
    /// An empty log and eight lanes of 32 slots.
    fn default() -> Self {
        let lanes = (0..8u8).map(|lane| lane * 32..=lane * 32 + 31);
        let database = FakeDatabase::new_at(START, Rules::REAL, lanes);
        FakeStore(Rc::new(RefCell::new(database)))
    }
}

impl FakeStore {
    /// Begins a producer's transaction.
    pub fn begin(&self) -> FakeWriter {
        FakeWriter { store: self.clone(), xid: None }
    }

    /// Looks into the database, or reaches into it.
    pub fn with<T>(&self, reach: impl FnOnce(&mut FakeDatabase<Message>) -> T) -> T {
        reach(&mut self.0.borrow_mut())
    }

    /// One statement.
    fn run<T>(&self, statement: impl FnOnce(&mut FakeDatabase<Message>) -> T) -> T {
        self.with(|database| {
            database.now += STATEMENT;
            statement(database)
        })
    }

    /// Every slot has one lane, and every lane a position with nothing open.
    fn check(&self) -> Result<(), StoreError> {
        self.with(|database| {
            let mut lanes: Vec<&Slots> = database.lanes().map(|(_, lane)| &lane.slots).collect();
            lanes.sort_by_key(|slots| *slots.start());
            let mut next = 0;
            for slots in lanes {
                if u16::from(*slots.start()) != next {
                    return Err(unfit("lanes don't cover all slots"));
                }
                next = u16::from(*slots.end()) + 1;
            }
            if next != 256 {
                return Err(unfit("lanes don't cover all slots"));
            }
            database.lanes().try_for_each(|(lane, _)| usable(database, lane))
        })
    }
}

/// Whether a lane's newest row is one that at-least-once mode goes on from.
fn usable(database: &FakeDatabase<Message>, lane: LaneId) -> Result<(), StoreError> {
    match database.newest(lane) {
        None => Err(unfit("a lane has no position")),
        Some((_, row)) if row.open.is_some() => Err(unfit("a lane has an open broker transaction")),
        Some(_) => Ok(()),
    }
}

fn unfit(reason: &str) -> StoreError {
    StoreError::Unfit { reason: reason.into(), repair: "run `lane init`, or serve it in exactly-once mode".into() }
}

impl Store for FakeStore {
    type Reader = FakeSession;
    type Marker = FakeSession;
    type Keeper = FakeSession;

    async fn reader(&self) -> Result<FakeSession, StoreError> {
        self.check().map(|()| FakeSession(self.clone()))
    }

    async fn marker(&self) -> Result<FakeSession, StoreError> {
        Ok(FakeSession(self.clone()))
    }

    async fn keeper(&self) -> Result<FakeSession, StoreError> {
        Ok(FakeSession(self.clone()))
    }
}

impl LogReader for FakeSession {
    async fn source_id(&mut self) -> Result<Uuid, StoreError> {
        Ok(Uuid::from_u128(1))
    }

    async fn sight(&mut self) -> Result<Sighting, StoreError> {
        Ok(self.0.run(|database| database.sight()))
    }

    async fn burn(&mut self) -> Result<(), StoreError> {
        self.0.run(FakeDatabase::burn);
        Ok(())
    }

    async fn read_page(
        &mut self,
        plan: &PagePlan,
        slots: &[Slots],
        take: &mut dyn FnMut(&MessageRef<'_>) -> ControlFlow<()>,
    ) -> Result<PageEnd, StoreError> {
        Ok(self.0.run(|database| database.read_page(plan, slots, |id, row| hand(id, row, take))))
    }

    async fn next_id(&mut self, after: i64, upto: i64) -> Result<Option<i64>, StoreError> {
        Ok(self.0.run(|database| database.next_id(after, upto)))
    }
}

fn hand(id: i64, row: &Row<Message>, take: &mut dyn FnMut(&MessageRef<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    let message = &row.content;
    let headers: Vec<_> = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    take(&MessageRef {
        id,
        slot: row.slot,
        message_id: Uuid::from_u128(id.unsigned_abs().into()),
        tenant: &message.tenant,
        topic: &message.topic,
        key: message.key.as_deref(),
        partition: message.partition,
        kind: &message.kind,
        content_type: message.content_type.as_deref(),
        headers: &headers,
        payload: message.payload.as_deref(),
        event_time_us: message.event_time_us,
        created_at_us: row.created_at.as_micros() as i64,
    })
}

impl MarkWriter for FakeSession {
    async fn mark(&mut self, owner: &Owner, tag: Tag, rows: &[MarkRow]) -> Result<Vec<LaneId>, StoreError> {
        Ok(self.0.run(|database| {
            let checked = database.check_mark(owner, tag, rows);
            database.land_mark(&checked)
        }))
    }

    async fn newest(&mut self, lanes: &[LaneId]) -> Result<Vec<BatchHead>, StoreError> {
        self.0.run(|database| {
            lanes.iter().try_for_each(|lane| usable(database, *lane))?;
            Ok(database.heads(lanes))
        })
    }
}

impl LaneKeeper for FakeSession {
    async fn survey(&mut self, lease: Duration) -> Result<Survey, StoreError> {
        Ok(self.0.run(|database| database.survey(lease)))
    }

    async fn beat(&mut self, owner: &Owner) -> Result<(), StoreError> {
        self.0.run(|database| database.beat(owner));
        Ok(())
    }

    async fn claim(
        &mut self,
        owner: &Owner,
        lane: LaneId,
        seen: Option<(Generation, i64)>,
        lease: Duration,
    ) -> Result<Option<BatchHead>, StoreError> {
        self.0.run(|database| {
            if database.newest(lane).is_none() {
                return Err(unfit("the lane has no position"));
            }
            let Some(head) = database.claim(owner, lane, seen, lease) else { return Ok(None) };
            usable(database, lane).map(|()| Some(head))
        })
    }

    async fn renew(
        &mut self,
        owner: &Owner,
        lanes: &[(LaneId, Generation)],
        lease: Duration,
    ) -> Result<Vec<LaneId>, StoreError> {
        Ok(self.0.run(|database| database.renew(owner, lanes, lease)))
    }

    async fn release(&mut self, owner: &Owner, lanes: &[(LaneId, Generation)]) -> Result<Vec<LaneId>, StoreError> {
        Ok(self.0.run(|database| database.release(owner, lanes)))
    }

    async fn leave(&mut self, owner: &Owner) -> Result<(), StoreError> {
        self.0.run(|database| database.leave(owner));
        Ok(())
    }
}

impl FakeWriter {
    /// Takes a transaction id.
    pub fn touch(&mut self) -> u64 {
        *self.xid.get_or_insert_with(|| self.store.run(FakeDatabase::begin))
    }

    /// Writes a message and returns its id. Keys spread over the slots, though not as PostgreSQL spreads them.
    pub fn enqueue(&mut self, message: Message) -> i64 {
        let xid = self.touch();
        let key = message.key.as_deref().unwrap_or_default();
        let hash = key.iter().fold(2_166_136_261u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619));
        self.store.run(|database| database.insert(xid, (hash >> 24 ^ hash) as u8, hash, message))
    }

    /// Commits.
    pub fn commit(mut self) {
        if let Some(xid) = self.xid.take() {
            self.store.run(|database| database.commit(xid));
        }
    }
}

impl Drop for FakeWriter {
    fn drop(&mut self) {
        if let Some(xid) = self.xid.take() {
            self.store.run(|database| database.rollback(xid));
        }
    }
}
