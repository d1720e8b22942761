//! What the suite needs of a backend besides the port: producers, and hands that reach behind the relay.

use std::time::Duration;

use fencepost_core::lane::LaneId;
use fencepost_relay::message::MessageRef;
use fencepost_relay::store::Store;

/// Header names and values in order.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// A source of one test: fresh, with eight lanes of 32 slots that stand before the first message.
#[allow(async_fn_in_trait, reason = "the suite runs on one thread")]
pub trait Fixture: Sized {
    /// The store under test.
    type Store: Store;
    /// A producer's open transaction.
    type Writer: Writer;

    /// A fresh source; `case` names it.
    async fn create(case: &str) -> Self;
    /// The store.
    fn store(&self) -> &Self::Store;
    /// Begins a producer's transaction. It has no transaction id before its first write.
    async fn begin(&self) -> Self::Writer;
    /// Makes `next` the next id that is given out.
    async fn skip_ids(&mut self, next: i64);
    /// Makes a lane's lease expired by the store's clock; owner and generation stay.
    async fn expire(&mut self, lane: LaneId);
    /// Shifts all times that a lane's batch rows were written at into the past.
    async fn age_batches(&mut self, lane: LaneId, by: Duration);
    /// Shifts all heartbeats into the past.
    async fn age_heartbeats(&mut self, by: Duration);
    /// Appends rows that copy the newest one, under the lane's owner and generation.
    async fn pad_batches(&mut self, lane: LaneId, count: i64);
    /// Appends a `prepared` row with an open broker transaction, as exactly-once mode does.
    async fn leave_open(&mut self, lane: LaneId);
    /// Changes how many messages a batch row says it delivered.
    async fn recount(&mut self, lane: LaneId, n: i64, messages: i64);
    /// Copies a message under a new id and its old transaction id, as no producer can, and returns the id.
    async fn smuggle(&mut self, id: i64) -> i64;
    /// Closes all findings of the audit.
    async fn close_findings(&mut self);
    /// Deletes all batch rows of a lane.
    async fn forget_batches(&mut self, lane: LaneId);
    /// Deletes a lane's row.
    async fn forget_lane(&mut self, lane: LaneId);
    /// All batch rows of a lane by number.
    async fn stored(&mut self, lane: LaneId) -> Vec<StoredBatch>;
}

/// A producer's transaction. Dropping it rolls back.
#[allow(async_fn_in_trait, reason = "the suite runs on one thread")]
pub trait Writer {
    /// Takes a transaction id without writing a message.
    async fn touch(&mut self);
    /// Writes a message and returns its id.
    async fn enqueue(&mut self, message: &NewMessage) -> i64;
    /// Commits.
    async fn commit(self);
    /// Rolls back.
    async fn rollback(self);
}

/// A message as a producer writes it and as the relay must see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Tenant.
    pub tenant: String,
    /// Topic.
    pub topic: String,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Explicit partition.
    pub partition: Option<i32>,
    /// Type.
    pub kind: String,
    /// Content type.
    pub content_type: Option<String>,
    /// Headers; empty where there are none.
    pub headers: Headers,
    /// Payload.
    pub payload: Option<Vec<u8>>,
    /// The event's time in microseconds since the Unix epoch.
    pub event_time_us: Option<i64>,
}

impl NewMessage {
    /// A plain message under a key.
    pub fn keyed(key: &str) -> Self {
        NewMessage {
            tenant: "default".into(),
            topic: "orders".into(),
            key: Some(key.as_bytes().to_vec()),
            partition: None,
            kind: "order.placed".into(),
            content_type: None,
            headers: Vec::new(),
            payload: Some(b"{}".to_vec()),
            event_time_us: None,
        }
    }

    /// What the relay saw of a message.
    pub fn seen(message: &MessageRef<'_>) -> Self {
        let header = |(name, value): &(&str, Option<&[u8]>)| ((*name).to_owned(), value.map(<[u8]>::to_vec));
        NewMessage {
            tenant: message.tenant.to_owned(),
            topic: message.topic.to_owned(),
            key: message.key.map(<[u8]>::to_vec),
            partition: message.partition,
            kind: message.kind.to_owned(),
            content_type: message.content_type.map(str::to_owned),
            headers: message.headers.iter().map(header).collect(),
            payload: message.payload.map(<[u8]>::to_vec),
            event_time_us: message.event_time_us,
        }
    }
}

/// A batch row, with everything that a fence row must copy as one comparable text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBatch {
    /// Its number.
    pub n: i64,
    /// `init`, `fence`, `mark`, `prepared` or `resolved`.
    pub kind: String,
    /// Of its writer.
    pub generation: i64,
    /// Its writer.
    pub owner: Option<String>,
    /// `eff`, `open`, `open_tag`, `pos_before`, `pos_after` and `intent`, in any form that shows a change.
    pub carried: String,
    /// Messages, bytes and milliseconds.
    pub counts: (i64, i64, i64),
}
