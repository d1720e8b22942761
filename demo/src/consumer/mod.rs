//! The consumer: another service with a database of its own. It bills each order once, however often its message
//! comes: a row of its ledger and the bill are one transaction, and offsets are stored after that.

mod postgres;

use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use serde_json::Value;
use uuid::Uuid;

pub use postgres::PostgresBooks;

use crate::broker::Broker;
use crate::clock;
use crate::tally::Tally;

const GROUP: &str = "fencepost-demo-billing";
const MESSAGE_ID_HEADER: &str = "fencepost-message-id";
/// Records of one transaction at most: what has come by then, so that a slow disk is no bottleneck.
const BATCH: usize = 100;
/// While nothing comes.
const IDLE: Duration = Duration::from_millis(20);

/// The consumer can't go on.
#[derive(Debug, thiserror::Error)]
pub enum ConsumerError {
    /// Of Kafka's client.
    #[error("the consumer can't read the topic: {0}; is the broker still there?")]
    Kafka(#[from] KafkaError),
    /// Of its database.
    #[error("the consumer's database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// Somebody else writes to the topic.
    #[error("the record at offset {offset} of partition {partition} tells of no order: who else writes to this topic?")]
    NoOrder {
        /// Where it lies.
        partition: i32,
        /// In that partition.
        offset: i64,
    },
}

/// A record, as the consumer understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Of the message: the same in all its repeats.
    pub message_id: Uuid,
    /// The order that it tells of.
    pub order: String,
    /// Whom to bill.
    pub customer: String,
    /// How much.
    pub cents: i64,
}

/// What the consumer's database holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Billed {
    /// Bills.
    pub effects: u64,
    /// Distinct orders among them.
    pub orders: u64,
}

/// The consumer's database: ledger and bills.
#[derive(Clone, Debug)]
pub enum Books {
    /// In PostgreSQL.
    Postgres(PostgresBooks),
}

impl Books {
    /// Makes the tables.
    ///
    /// # Errors
    /// Of the database.
    pub async fn make(&self) -> Result<(), sqlx::Error> {
        match self {
            Books::Postgres(books) => books.make().await,
        }
    }

    /// Bills those that were not billed before, in one transaction. Returns how many that were.
    ///
    /// # Errors
    /// Of the database. After one from the commit nobody knows: apply them again, the ledger does.
    pub async fn apply(&self, batch: &[Delivery]) -> Result<u64, sqlx::Error> {
        match self {
            Books::Postgres(books) => books.apply(batch).await,
        }
    }

    /// What it holds.
    ///
    /// # Errors
    /// Of the database.
    pub async fn billed(&self) -> Result<Billed, sqlx::Error> {
        let (effects, orders) = match self {
            Books::Postgres(books) => books.billed().await?,
        };
        Ok(Billed { effects: effects.unsigned_abs(), orders: orders.unsigned_abs() })
    }
}

/// A member of a consumer group that reads the orders' topic from its beginning.
///
/// # Errors
/// Of Kafka's client.
pub fn subscribe(broker: &Broker) -> Result<BaseConsumer, KafkaError> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker.brokers())
        .set("group.id", GROUP)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.offset.store", "false")
        .set("fetch.wait.max.ms", "100")
        .create()?;
    consumer.subscribe(&[broker.topic()])?;
    Ok(consumer)
}

/// Applies what comes, until `stop` says so.
///
/// # Errors
/// See [`ConsumerError`].
pub async fn consume(
    consumer: BaseConsumer,
    books: Books,
    tally: Arc<Tally>,
    stop: impl Fn() -> bool,
) -> Result<(), ConsumerError> {
    while !stop() {
        let records = received(&consumer)?;
        if records.is_empty() {
            clock::pause(IDLE).await;
            continue;
        }
        let batch = records.iter().map(delivery).collect::<Result<Vec<_>, _>>()?;
        let applied = books.apply(&batch).await?;
        tally.applied.add(applied);
        tally.absorbed.add(batch.len() as u64 - applied);
        for record in &records {
            consumer.store_offset_from_message(record)?;
        }
    }
    Ok(())
}

/// What the client has received; it asks the broker on threads of its own.
fn received(consumer: &BaseConsumer) -> Result<Vec<BorrowedMessage<'_>>, KafkaError> {
    let polls = std::iter::from_fn(|| consumer.poll(Duration::ZERO));
    polls.take(BATCH).collect()
}

fn delivery(record: &BorrowedMessage<'_>) -> Result<Delivery, ConsumerError> {
    let no_order = ConsumerError::NoOrder { partition: record.partition(), offset: record.offset() };
    understood(record).ok_or(no_order)
}

fn understood(record: &BorrowedMessage<'_>) -> Option<Delivery> {
    let id = record.headers()?.iter().find(|header| header.key == MESSAGE_ID_HEADER)?;
    let order: Value = serde_json::from_slice(record.payload()?).ok()?;
    Some(Delivery {
        message_id: std::str::from_utf8(id.value?).ok()?.parse().ok()?,
        order: order["order"].as_str()?.to_owned(),
        customer: order["customer"].as_str()?.to_owned(),
        cents: order["cents"].as_i64()?,
    })
}
