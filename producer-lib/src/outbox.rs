//! Writes messages into one outbox, always inside the caller's open transaction.

use fencepost_core::limits::MESSAGE_BYTES_MAX;
use fencepost_core::schema::Schema;
use sqlx::Transaction;
use uuid::Uuid;

use crate::backend::Backend;
use crate::error::EnqueueError;
use crate::event::OutboxEvent;
use crate::message::Message;
#[cfg(feature = "postgres")]
use crate::postgres;

/// A statement takes no further row beyond so many bytes of messages.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Where a message went. It counts only once the transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Its place in the log.
    pub id: i64,
    /// Its identity on the wire.
    pub message_id: Uuid,
}

/// One outbox: the tables in one schema of the caller's PostgreSQL database, or in the caller's SQLite file.
///
/// It holds no connection. Every call runs on the transaction that it is given, and neither opens,
/// commits nor rolls back anything. Which database it is, the transaction tells.
#[derive(Clone, Debug)]
pub struct Outbox {
    #[cfg(feature = "postgres")]
    pub(crate) postgres: postgres::Statements,
    #[cfg(feature = "postgres")]
    pub(crate) prepared: bool,
    message_bytes_max: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::new(&Schema::default())
    }
}

impl Outbox {
    /// The outbox in `schema`. A SQLite file has no schemas: there the default is the one to give.
    pub fn new(schema: &Schema) -> Self {
        #[cfg(not(feature = "postgres"))]
        let _ = schema;
        Outbox {
            #[cfg(feature = "postgres")]
            postgres: postgres::Statements::new(schema),
            #[cfg(feature = "postgres")]
            prepared: true,
            message_bytes_max: MESSAGE_BYTES_MAX,
        }
    }

    /// Uses no named prepared statements: for poolers in transaction mode that don't know them (PgBouncer before 1.21).
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn unprepared(self) -> Self {
        Outbox { prepared: false, ..self }
    }

    /// Takes messages up to this size: bytes of payload, key and headers. Default 1,000,000, which with
    /// the relay's headers stays below Kafka's default limit of 1,048,588.
    #[must_use]
    pub fn message_bytes_max(self, message_bytes_max: usize) -> Self {
        Outbox { message_bytes_max, ..self }
    }

    /// Enqueues one message in the caller's transaction.
    ///
    /// # Errors
    /// [`EnqueueError::TooLarge`] leaves the transaction usable; after [`EnqueueError::Database`], a lost connection
    /// included, and [`EnqueueError::Locked`] it is to be rolled back.
    pub async fn enqueue<DB: Backend>(
        &self,
        tx: &mut Transaction<'_, DB>,
        message: &Message,
    ) -> Result<Receipt, EnqueueError> {
        self.check_size(0, message)?;
        DB::insert_one(self, tx, message).await.map_err(DB::failure)
    }

    /// Enqueues many messages in the caller's transaction, up to 1,000 a statement (128 in SQLite). Ids rise in
    /// the order given and receipts come in it. All sizes are checked before the first statement.
    ///
    /// # Errors
    /// As [`Outbox::enqueue`]; no message of the call counts then, whatever becomes of the transaction.
    pub async fn enqueue_many<DB: Backend>(
        &self,
        tx: &mut Transaction<'_, DB>,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, EnqueueError> {
        for (index, message) in messages.iter().enumerate() {
            self.check_size(index, message)?;
        }
        DB::insert_many(self, tx, messages).await.map_err(DB::failure)
    }

    /// Enqueues a typed event in the caller's transaction.
    ///
    /// # Errors
    /// Also [`EnqueueError::Serialize`] and [`EnqueueError::Invalid`], which leave the transaction usable.
    pub async fn enqueue_event<DB: Backend, E: OutboxEvent + Sync>(
        &self,
        tx: &mut Transaction<'_, DB>,
        event: &E,
    ) -> Result<Receipt, EnqueueError> {
        let message = event.to_builder()?.build()?;
        self.enqueue(tx, &message).await
    }

    fn check_size(&self, index: usize, message: &Message) -> Result<(), EnqueueError> {
        let (bytes, max) = (message.size_bytes(), self.message_bytes_max);
        if bytes > max { Err(EnqueueError::TooLarge { index, bytes, max }) } else { Ok(()) }
    }
}

/// How many of the messages the next statement takes, of at most `rows_max`; at least one.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn chunk_rows(messages: &[Message], rows_max: usize) -> usize {
    let mut bytes = 0;
    let fits = messages.iter().take(rows_max).take_while(|m| {
        let before = bytes;
        bytes += m.size_bytes();
        before == 0 || bytes <= CHUNK_BYTES_MAX
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Message {
        Message::builder("t", "t", vec![0; bytes]).build().expect("valid")
    }

    /// Services spawn tasks: the calls' futures can move between threads.
    #[cfg(feature = "postgres")]
    #[expect(dead_code, reason = "it only has to compile")]
    fn futures_are_send(outbox: &Outbox, tx: &mut Transaction<'_, sqlx::Postgres>, messages: &[Message]) {
        fn send(_: impl Send) {}
        send(outbox.enqueue(tx, &messages[0]));
        send(outbox.enqueue_many(tx, messages));
    }

    #[test]
    fn chunks_have_bounds_and_at_least_one_row() {
        assert_eq!(chunk_rows(&vec![message(1); 1_500], 1_000), 1_000);
        assert_eq!(chunk_rows(&vec![message(1 << 20); 9], 1_000), 4);
        assert_eq!(chunk_rows(&[message(9 << 20), message(1)], 1_000), 1);
        assert_eq!(chunk_rows(&[message(0)], 1_000), 1);
    }

    #[test]
    fn b67_size_counts_key_and_headers() {
        let outbox = Outbox::default();
        let with = |payload: usize| Message::builder("t", "t", vec![0; payload]);
        let too_large = |message: Message| match outbox.check_size(7, &message) {
            Err(EnqueueError::TooLarge { index: 7, bytes, max: 1_000_000 }) => bytes > 1_000_000,
            _ => false,
        };
        assert!(too_large(with(900_000).header("h", vec![0; 200_000]).build().expect("valid")));
        assert!(too_large(with(10).key(vec![0; 1_200_000]).build().expect("valid")));
        assert!(!too_large(with(999_000).key(vec![0; 1_000]).build().expect("valid")));
        assert!(outbox.message_bytes_max(9).check_size(0, &with(10).build().expect("valid")).is_err());
    }
}
