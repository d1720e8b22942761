//! What the library needs of a database. The calls of [`Outbox`] are the same for each; what differs lies behind
//! [`Driver`], one module per database.

use sqlx::Database;

use self::sealed::Driver;

/// A database that can hold an outbox: `sqlx::Postgres` (feature `postgres`) or `sqlx::Sqlite` (feature `sqlite`). Services
/// don't implement it.
pub trait Backend: Driver {}

impl<DB: Driver> Backend for DB {}

/// Out of reach, so that nobody else implements it.
pub(crate) mod sealed {
    use super::Database;
    use crate::error::EnqueueError;
    use crate::message::Message;
    use crate::outbox::{Outbox, Receipt};

    /// The statements of one database. All run on the connection that they are given, inside its open transaction.
    pub trait Driver: Database {
        /// Inserts one message.
        fn insert_one(
            outbox: &Outbox,
            connection: &mut Self::Connection,
            message: &Message,
        ) -> impl Future<Output = Result<Receipt, sqlx::Error>> + Send;

        /// Inserts messages; ids rise in the order given, and receipts come in it. After an error none of them would be
        /// kept by a commit.
        fn insert_many(
            outbox: &Outbox,
            connection: &mut Self::Connection,
            messages: &[Message],
        ) -> impl Future<Output = Result<Vec<Receipt>, sqlx::Error>> + Send;

        /// What a failure means for the caller.
        fn failure(error: sqlx::Error) -> EnqueueError {
            EnqueueError::Database(error)
        }
    }
}
