//! Enqueue messages in the transaction that changes the domain: both commit, or neither does. A relay
//! publishes what was committed, in order per key.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] mod example {
//! use fencepost_producer::{Message, Outbox};
//! use sqlx::PgPool;
//!
//! async fn place_order(pool: &PgPool, outbox: &Outbox, order: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     let mut tx = pool.begin().await?;
//!     // lock the aggregate first: order per key is the order of these locks
//!     sqlx::query("INSERT INTO orders (number) VALUES ($1)").bind(order).execute(&mut *tx).await?;
//!     let message = Message::builder("orders", "order.placed", format!("{{\"order\":\"{order}\"}}"))
//!         .key(order)
//!         .content_type("application/json")
//!         .build()?;
//!     outbox.enqueue(&mut tx, &message).await?;
//!     tx.commit().await?;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! The same works on a SQLite file (feature `sqlite`): the transaction tells which. Begin it with
//! `begin_with("BEGIN IMMEDIATE")`, so that it waits for its turn to write before it reads.
//!
//! The library never opens, commits or rolls back a transaction and takes no connection of its own. Validation runs
//! before any SQL, so a refused message leaves the transaction usable.

mod backend;
mod error;
mod event;
mod message;
mod outbox;
#[cfg(feature = "postgres")]
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use backend::Backend;
pub use error::{EnqueueError, InvalidMessage, Label};
pub use event::OutboxEvent;
pub use fencepost_core::limits::TopicNameError;
pub use fencepost_core::schema::{Schema, SchemaNameError};
pub use message::{Message, MessageBuilder};
pub use outbox::{Outbox, Receipt};
#[cfg(feature = "postgres")]
pub use pool::has_left_transactions;
