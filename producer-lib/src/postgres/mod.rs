//! The outbox in PostgreSQL: its statements, and how messages become their parameters.

mod array;

use std::sync::Arc;

use fencepost_core::schema::Schema;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row};

use crate::backend::sealed::Driver;
use crate::message::Message;
use crate::outbox::{Outbox, Receipt, chunk_rows};

/// Most rows of one statement.
const CHUNK_ROWS_MAX: usize = 1_000;

/// The statements, with the schema's name in them.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    one: Arc<str>,
    many: Arc<str>,
    many_with_headers: Arc<str>,
}

impl Statements {
    /// For the tables in `schema`.
    pub(crate) fn new(schema: &Schema) -> Self {
        Statements {
            one: schema.qualify(include_str!("../sql/postgres/one.sql")).into(),
            many: schema.qualify(include_str!("../sql/postgres/many.sql")).into(),
            many_with_headers: schema.qualify(include_str!("../sql/postgres/many_with_headers.sql")).into(),
        }
    }
}

impl Driver for Postgres {
    async fn insert_one(
        outbox: &Outbox,
        connection: &mut PgConnection,
        message: &Message,
    ) -> Result<Receipt, sqlx::Error> {
        let (names, values) = split(message);
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&outbox.postgres.one)))
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
            .persistent(outbox.prepared);
        receipt(&query.fetch_one(connection).await?)
    }

    async fn insert_many(
        outbox: &Outbox,
        connection: &mut PgConnection,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, sqlx::Error> {
        let mut receipts = Vec::with_capacity(messages.len());
        let mut rest = messages;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(chunk_rows(rest, CHUNK_ROWS_MAX));
            receipts.extend(insert(outbox, connection, chunk).await?);
            rest = later;
        }
        Ok(receipts)
    }
}

/// One statement. If it fails, its transaction can't commit any more.
async fn insert(
    outbox: &Outbox,
    connection: &mut PgConnection,
    chunk: &[Message],
) -> Result<Vec<Receipt>, sqlx::Error> {
    let with_headers = chunk.iter().any(|m| !m.headers.is_empty());
    let sql = if with_headers { &outbox.postgres.many_with_headers } else { &outbox.postgres.many };
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
        .persistent(outbox.prepared);
    if with_headers {
        query = query.bind(column(chunk, |m| array::names(&m.headers)));
        query = query.bind(column(chunk, |m| array::values(&m.headers)));
    }
    query.fetch_all(connection).await?.iter().map(receipt).collect()
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

fn receipt(row: &PgRow) -> Result<Receipt, sqlx::Error> {
    Ok(Receipt { id: row.try_get(0)?, message_id: row.try_get(1)? })
}
