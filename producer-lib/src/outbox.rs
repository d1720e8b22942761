//! Writes messages into one outbox, always inside the caller's open transaction.

use std::sync::Arc;

use fencepost_core::limits::MESSAGE_BYTES_MAX;
use fencepost_core::schema::Schema;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::array;
use crate::error::EnqueueError;
use crate::event::OutboxEvent;
use crate::message::Message;

/// Most rows of one statement.
const CHUNK_ROWS_MAX: usize = 1_000;
/// A statement takes no further row beyond so many bytes of messages.
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Where a message went. It counts only once the transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Its place in the log.
    pub id: i64,
    /// Its identity on the wire.
    pub message_id: Uuid,
}

/// One outbox: the tables in one schema of the caller's database.
///
/// It holds no connection. Every call runs on the transaction that it is given, and neither opens,
/// commits nor rolls back anything.
#[derive(Clone, Debug)]
pub struct Outbox {
    one: Arc<str>,
    many: Arc<str>,
    many_with_headers: Arc<str>,
    prepared: bool,
    message_bytes_max: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::new(&Schema::default())
    }
}

impl Outbox {
    /// The outbox in `schema`.
    pub fn new(schema: &Schema) -> Self {
        Outbox {
            one: schema.qualify(include_str!("sql/one.sql")).into(),
            many: schema.qualify(include_str!("sql/many.sql")).into(),
            many_with_headers: schema.qualify(include_str!("sql/many_with_headers.sql")).into(),
            prepared: true,
            message_bytes_max: MESSAGE_BYTES_MAX,
        }
    }

    /// Uses no named prepared statements: for poolers in transaction mode that don't know them (PgBouncer before 1.21).
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
    /// included, it can only be rolled back.
    pub async fn enqueue(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        message: &Message,
    ) -> Result<Receipt, EnqueueError> {
        self.check_size(0, message)?;
        let (names, values) = split(message);
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.one)))
            .bind(message.message_id)
            .bind(&message.tenant)
            .bind(&message.topic)
            .bind(&message.kind)
            .bind(message.key.as_deref())
            .bind(message.partition)
            .bind(message.content_type.as_deref())
            .bind(message.event_time)
            .bind(message.payload.as_deref())
            .bind(names)
            .bind(values)
            .persistent(self.prepared);
        let row = query.fetch_one(&mut **tx).await.map_err(EnqueueError::Database)?;
        receipt(&row)
    }

    /// Enqueues many messages in the caller's transaction, up to 1,000 a statement. Ids rise in the order given and receipts come in it. All sizes are checked before
    /// the first statement.
    ///
    /// # Errors
    /// As [`Outbox::enqueue`]; no message of the call counts then, because the transaction can't commit.
    pub async fn enqueue_many(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, EnqueueError> {
        for (index, message) in messages.iter().enumerate() {
            self.check_size(index, message)?;
        }
        let mut receipts = Vec::with_capacity(messages.len());
        let mut rest = messages;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(chunk_rows(rest));
            self.insert(tx, chunk, &mut receipts).await?;
            rest = later;
        }
        Ok(receipts)
    }

    /// Enqueues a typed event in the caller's transaction.
    ///
    /// # Errors
    /// Also [`EnqueueError::Serialize`] and [`EnqueueError::Invalid`], which leave the transaction usable.
    pub async fn enqueue_event<E: OutboxEvent + Sync>(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        event: &E,
    ) -> Result<Receipt, EnqueueError> {
        let message = event.to_builder()?.build()?;
        self.enqueue(tx, &message).await
    }

    async fn insert(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        chunk: &[Message],
        receipts: &mut Vec<Receipt>,
    ) -> Result<(), EnqueueError> {
        let with_headers = chunk.iter().any(|m| !m.headers.is_empty());
        let sql = if with_headers { &self.many_with_headers } else { &self.many };
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(sql)))
            .bind(column(chunk, |m| m.message_id))
            .bind(column(chunk, |m| m.tenant.as_str()))
            .bind(column(chunk, |m| m.topic.as_str()))
            .bind(column(chunk, |m| m.kind.as_str()))
            .bind(column(chunk, |m| m.key.as_deref()))
            .bind(column(chunk, |m| m.partition))
            .bind(column(chunk, |m| m.content_type.as_deref()))
            .bind(column(chunk, |m| m.event_time))
            .bind(column(chunk, |m| m.payload.as_deref()))
            .persistent(self.prepared);
        if with_headers {
            query = query.bind(column(chunk, |m| array::names(&m.headers)));
            query = query.bind(column(chunk, |m| array::values(&m.headers)));
        }
        let rows = query.fetch_all(&mut **tx).await.map_err(EnqueueError::Database)?;
        for row in &rows {
            receipts.push(receipt(row)?);
        }
        Ok(())
    }

    fn check_size(&self, index: usize, message: &Message) -> Result<(), EnqueueError> {
        let (bytes, max) = (message.size_bytes(), self.message_bytes_max);
        if bytes > max { Err(EnqueueError::TooLarge { index, bytes, max }) } else { Ok(()) }
    }
}

/// How many of the messages the next statement takes; at least one.
fn chunk_rows(messages: &[Message]) -> usize {
    let mut bytes = 0;
    let fits = messages.iter().take(CHUNK_ROWS_MAX).take_while(|m| {
        let before = bytes;
        bytes += m.size_bytes();
        before == 0 || bytes <= CHUNK_BYTES_MAX
    });
    fits.count().max(1)
}

fn column<'m, T>(messages: &'m [Message], part: impl Fn(&'m Message) -> T) -> Vec<T> {
    messages.iter().map(part).collect()
}

/// A message's headers as two columns: null without headers.
#[expect(clippy::type_complexity, reason = "two columns as sqlx binds them")]
fn split(message: &Message) -> (Option<Vec<&str>>, Option<Vec<Option<&[u8]>>>) {
    if message.headers.is_empty() {
        return (None, None);
    }
    let (names, values) = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).unzip();
    (Some(names), Some(values))
}

fn receipt(row: &PgRow) -> Result<Receipt, EnqueueError> {
    let read = || Ok(Receipt { id: row.try_get(0)?, message_id: row.try_get(1)? });
    read().map_err(EnqueueError::Database)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Message {
        Message::builder("t", "t", vec![0; bytes]).build().expect("valid")
    }

    /// Services spawn tasks: the calls' futures can move between threads.
    #[expect(dead_code, reason = "it only has to compile")]
    fn futures_are_send(outbox: &Outbox, tx: &mut Transaction<'_, Postgres>, messages: &[Message]) {
        fn send(_: impl Send) {}
        send(outbox.enqueue(tx, &messages[0]));
        send(outbox.enqueue_many(tx, messages));
    }

    #[test]
    fn chunks_have_bounds_and_at_least_one_row() {
        assert_eq!(chunk_rows(&vec![message(1); 1_500]), 1_000);
        assert_eq!(chunk_rows(&vec![message(1 << 20); 9]), 4);
        assert_eq!(chunk_rows(&[message(9 << 20), message(1)]), 1);
        assert_eq!(chunk_rows(&[message(0)]), 1);
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
