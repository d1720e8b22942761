//! The outbox in a SQLite file: one statement for up to 128 messages. Each statement is a round trip to the connection's thread,
//! which costs more than a row.

mod json;

use std::sync::{Arc, LazyLock};

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _, Sqlite};

use crate::backend::sealed::Driver;
use crate::error::EnqueueError;
use crate::message::Message;
use crate::outbox::{Outbox, Receipt, chunk_rows};

const ONE: &str = include_str!("../sql/sqlite/one.sql");

/// Statements for 1, 2, 4, ... 128 rows: few, since a connection prepares each of them once.
static STATEMENTS: LazyLock<[Arc<str>; 8]> = LazyLock::new(|| std::array::from_fn(|power| statement(1 << power)));

/// Most rows of one statement.
const CHUNK_ROWS_MAX: usize = 128;

/// SQLite's primary result codes: somebody else holds the lock.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;

fn statement(rows: usize) -> Arc<str> {
    let one = ONE.trim_end();
    let list = one.rsplit_once("VALUES ").map_or("", |(_, list)| list);
    std::iter::once(one).chain(std::iter::repeat_n(list, rows - 1)).collect::<Vec<_>>().join(", ").into()
}

impl Driver for Sqlite {
    async fn insert_one(
        _: &Outbox,
        connection: &mut SqliteConnection,
        message: &Message,
    ) -> Result<Receipt, sqlx::Error> {
        let mut receipts = Vec::with_capacity(1);
        insert(connection, std::slice::from_ref(message), &mut receipts).await?;
        Ok(receipts.remove(0))
    }

    async fn insert_many(
        _: &Outbox,
        connection: &mut SqliteConnection,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, sqlx::Error> {
        let mut receipts = Vec::with_capacity(messages.len());
        if rows_of_statement(messages) == messages.len() {
            if !messages.is_empty() {
                insert(connection, messages, &mut receipts).await?;
            }
            return Ok(receipts);
        }
        // A statement that fails undoes itself alone: a caller who commits all the same must not commit a part.
        let mut savepoint = connection.begin().await?;
        let mut rest = messages;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(rows_of_statement(rest));
            insert(&mut savepoint, chunk, &mut receipts).await?;
            rest = later;
        }
        savepoint.commit().await?;
        Ok(receipts)
    }

    /// Somebody else's lock is told apart: a caller may try again.
    fn failure(error: sqlx::Error) -> EnqueueError {
        let code = error.as_database_error().and_then(|e| e.code()).and_then(|code| code.parse::<u32>().ok());
        match code.map(|code| code & 0xff) {
            Some(BUSY | LOCKED) => EnqueueError::Locked(error),
            _ => EnqueueError::Database(error),
        }
    }
}

/// A power of two, of a statement that is there.
fn rows_of_statement(messages: &[Message]) -> usize {
    let rows = chunk_rows(messages, CHUNK_ROWS_MAX);
    if messages.is_empty() { 0 } else { 1 << rows.ilog2() }
}

/// One statement; as many rows as one of [`STATEMENTS`] has.
async fn insert(
    connection: &mut SqliteConnection,
    chunk: &[Message],
    receipts: &mut Vec<Receipt>,
) -> Result<(), sqlx::Error> {
    let sql = Arc::clone(&STATEMENTS[chunk.len().ilog2() as usize]);
    let query = chunk.iter().fold(sqlx::query(AssertSqlSafe(sql)), bind);
    let last = query.execute(connection).await?.last_insert_rowid();
    let ids = last - chunk.len() as i64 + 1..=last;
    receipts.extend(ids.zip(chunk).map(|(id, message)| Receipt { id, message_id: message.message_id }));
    Ok(())
}

fn bind<'q>(query: Query<'q, Sqlite, SqliteArguments>, message: &'q Message) -> Query<'q, Sqlite, SqliteArguments> {
    let event_time = message.event_time.map(|time| time.unix_timestamp_nanos().div_euclid(1_000) as i64);
    query
        .bind(message.message_id)
        .bind(&message.tenant)
        .bind(&message.topic)
        .bind(&message.kind)
        .bind(message.key.as_deref())
        .bind(message.partition)
        .bind(message.content_type.as_deref())
        .bind(event_time)
        .bind(message.payload.as_deref())
        .bind(json::names(&message.headers))
        .bind(json::values(&message.headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(rows: usize, bytes: usize) -> Vec<Message> {
        vec![Message::builder("t", "t", vec![0; bytes]).build().expect("valid"); rows]
    }

    #[test]
    fn statements_repeat_the_list_of_values() {
        assert_eq!(&*statement(1), ONE.trim_end());
        for (power, sql) in STATEMENTS.iter().enumerate() {
            assert_eq!(sql.matches('?').count(), 11 << power, "{sql}");
            assert_eq!(sql.matches("VALUES (").count(), 1);
        }
    }

    #[test]
    fn chunks_are_powers_of_two() {
        let sizes = |rows, bytes| {
            let messages = messages(rows, bytes);
            let (mut rest, mut sizes) = (&messages[..], Vec::new());
            while !rest.is_empty() {
                sizes.push(rows_of_statement(rest));
                rest = &rest[sizes[sizes.len() - 1]..];
            }
            sizes
        };
        assert_eq!(sizes(1_000, 1), [128, 128, 128, 128, 128, 128, 128, 64, 32, 8]);
        assert_eq!(sizes(7, 1 << 20), [4, 2, 1], "4 MiB a statement");
        assert_eq!(sizes(2, 9 << 20), [1, 1]);
        assert_eq!(rows_of_statement(&[]), 0);
    }

    /// Services spawn tasks: the calls' futures can move between threads.
    #[expect(dead_code, reason = "it only has to compile")]
    fn futures_are_send(outbox: &Outbox, tx: &mut sqlx::Transaction<'_, Sqlite>, messages: &[Message]) {
        fn send(_: impl Send) {}
        send(outbox.enqueue(tx, &messages[0]));
        send(outbox.enqueue_many(tx, messages));
    }
}
