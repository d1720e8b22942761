//! Fills an outbox with a backlog, a thousand rows a transaction, as a busy service leaves it.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::payload::{Feed, key_text};
use crate::rig::message_id;

const ROWS_PER_TRANSACTION: u64 = 1_000;

/// Which table is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    /// The relay's log.
    Log,
    /// The baseline's table.
    Skip,
}

impl Outbox {
    /// Writes the feed's next `messages` for `topic`, in the feed's order.
    pub(crate) async fn fill(
        self,
        session: &mut PgConnection,
        topic: &str,
        feed: &mut Feed,
        messages: u64,
    ) -> Result<()> {
        let mut left = messages;
        while left > 0 {
            let rows = left.min(ROWS_PER_TRANSACTION);
            let (keys, payloads) = (0..rows).map(|_| feed.next()).map(|(s, p)| (key_text(s.key), p)).unzip();
            match self {
                Outbox::Log => into_log(session, topic, keys, payloads).await?,
                Outbox::Skip => into_skip(session, topic, keys, payloads).await?,
            }
            left -= rows;
        }
        Ok(())
    }
}

/// One transaction of the log.
pub(crate) async fn into_log(
    session: &mut PgConnection,
    topic: &str,
    keys: Vec<String>,
    payloads: Vec<Vec<u8>>,
) -> Result<()> {
    let ids: Vec<Uuid> = keys.iter().map(|_| message_id()).collect();
    let keys: Vec<Vec<u8>> = keys.into_iter().map(String::into_bytes).collect();
    let insert = sqlx::query(include_str!("../sql/fill_log.sql")).bind(topic).bind(ids).bind(keys).bind(payloads);
    insert.execute(session).await?;
    Ok(())
}

async fn into_skip(session: &mut PgConnection, topic: &str, keys: Vec<String>, payloads: Vec<Vec<u8>>) -> Result<()> {
    let insert = sqlx::query(include_str!("../sql/fill_skip.sql")).bind(topic).bind(keys).bind(payloads);
    insert.execute(session).await?;
    Ok(())
}
