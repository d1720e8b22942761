//! What the library needs of a database. The calls of [`Outbox`] are the same for each; what differs lies behind
//! [`Driver`], one module per database.

use sqlx::Database;

use self::sealed::Driver;

/// A database that can hold an outbox: [`sqlx::Postgres`]. Services don't implement it.
pub trait Backend: Driver {}

impl<DB: Driver> Backend for DB {}

/// Out of reach, so that nobody else implements it.
pub(crate) mod sealed {
    use super::Database;
    use crate::message::Message;
    use crate::outbox::{Outbox, Receipt};

    /// The statements of one database. All run on the connection that they are given, inside its open transaction.
    pub trait Driver: Database {
        /// Most rows that [`Self::insert_many`] takes at once.
        const CHUNK_ROWS_MAX: usize;

        /// Inserts one message.
        fn insert_one(
            outbox: &Outbox,
            connection: &mut Self::Connection,
            message: &Message,
        ) -> impl Future<Output = Result<Receipt, sqlx::Error>> + Send;

        /// Inserts messages by one statement; ids rise in the order given, and receipts come in it.
        fn insert_many(
            outbox: &Outbox,
            connection: &mut Self::Connection,
            messages: &[Message],
        ) -> impl Future<Output = Result<Vec<Receipt>, sqlx::Error>> + Send;
    }
}
