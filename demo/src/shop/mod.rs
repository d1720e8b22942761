//! The shop: services that commit orders. Each order is one transaction of the domain row and the outbox row; now
//! and then one is rolled back, and no trace of it may reach the topic.

mod postgres;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_auditor::{Audit, MessageId};
use fencepost_producer::{EnqueueError, InvalidMessage, Message};
use uuid::Uuid;

pub use postgres::PostgresShop;

use crate::clock::{self, Clock};
use crate::random::Random;
use crate::tally::Tally;

/// How many customers order: keys of the messages.
const CUSTOMERS: u32 = 40;
/// One transaction of so many is rolled back.
const ROLLED_BACK_OF: u32 = 20;

/// An order could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum ShopError {
    /// Of the database.
    #[error("the shop's database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The outbox refused the message.
    #[error("the message can't be enqueued: {0}")]
    Enqueue(#[from] EnqueueError),
    /// The message can't be built.
    #[error("the message can't be built: {0}")]
    Message(#[from] InvalidMessage),
}

/// An order that a customer asks for.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its identity.
    pub id: Uuid,
    /// Who ordered: the message's key.
    pub customer: String,
    /// What it costs.
    pub cents: i64,
}

impl Order {
    /// The message that tells of it, as the `number`-th of its customer.
    fn message(&self, topic: &str, number: i64) -> Result<Message, InvalidMessage> {
        let payload = serde_json::json!({
            "order": self.id.to_string(), "customer": self.customer, "number": number, "cents": self.cents,
        });
        Message::builder(topic, "order.placed", payload.to_string())
            .key(self.customer.as_str())
            .content_type("application/json")
            .build()
    }
}

/// What a transaction came to.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Of the message that it enqueued.
    pub message_id: Uuid,
    /// The order's number within its customer, given under the customer's lock.
    pub number: i64,
}

/// The shop's database.
#[derive(Clone, Debug)]
pub enum Shop {
    /// In PostgreSQL.
    Postgres(PostgresShop),
}

impl Shop {
    /// Makes the tables and the customers.
    ///
    /// # Errors
    /// Of the database.
    pub async fn make(&self) -> Result<(), ShopError> {
        let customers: Vec<String> = (0..CUSTOMERS).map(customer).collect();
        match self {
            Shop::Postgres(shop) => shop.make(&customers).await,
        }
    }

    /// Places an order: its row and its message, in one transaction; commits it or rolls it back.
    ///
    /// # Errors
    /// Of the database. After one from the commit nobody knows whether it was committed.
    pub async fn place(&self, order: &Order, commit: bool) -> Result<Placed, ShopError> {
        match self {
            Shop::Postgres(shop) => shop.place(order, commit).await,
        }
    }

    /// How many orders it holds.
    ///
    /// # Errors
    /// Of the database.
    pub async fn count(&self) -> Result<u64, ShopError> {
        match self {
            Shop::Postgres(shop) => shop.count().await,
        }
    }
}

fn customer(number: u32) -> String {
    format!("customer-{number:02}")
}

/// What the services write down about each of their transactions, for the auditor.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Audit>>);

impl Journal {
    /// The auditor's knowledge, to add to or to judge.
    pub fn with<T>(&self, look: impl FnOnce(&mut Audit) -> T) -> T {
        // A panic elsewhere must not hide what was seen.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, order: &Order, placed: Placed, commit: bool) {
        let id = MessageId(placed.message_id.as_u128());
        let noted = self.with(|audit| match commit {
            true => audit.committed(id, Some(&order.customer), placed.number.unsigned_abs()),
            false => audit.rolled_back(id),
        });
        debug_assert!(noted.is_ok(), "a message id is drawn once");
    }
}

/// One order service: orders of random customers at a pace, until `stop` says so.
///
/// # Errors
/// Of the database.
pub async fn serve(
    shop: Shop,
    every: Duration,
    journal: Journal,
    tally: Arc<Tally>,
    stop: impl Fn() -> bool,
) -> Result<(), ShopError> {
    let (mut random, clock) = (Random::default(), Clock::start());
    let mut due = Duration::ZERO;
    while !stop() {
        let customer = customer(random.below(CUSTOMERS));
        let order = Order { id: random.id(), customer, cents: 100 + i64::from(random.below(9_900)) };
        let commit = random.below(ROLLED_BACK_OF) > 0;
        let placed = shop.place(&order, commit).await?;
        journal.note(&order, placed, commit);
        if commit {
            tally.committed.add(1)
        } else {
            tally.rolled_back.add(1)
        }
        due += every;
        clock::pause(due.saturating_sub(clock.elapsed())).await;
    }
    Ok(())
}
