//! A guard for the caller's pool. sqlx up to 0.9.0 returns a connection to its pool inside an open transaction when
//! `begin()` is cancelled in flight (a timeout, a lost branch of `select!`): whoever gets it next writes into that
//! transaction and never commits.

use sqlx::{Executor, PgConnection, Row};

/// Whether a connection that returns to its pool has left every transaction: for
/// [`sqlx::pool::PoolOptions::after_release`], where `false` closes it. Costs a round trip.
///
/// ```no_run
/// # fn pool() -> sqlx::postgres::PgPoolOptions {
/// use sqlx::postgres::PgPoolOptions;
///
/// PgPoolOptions::new()
///     .after_release(|connection, _| Box::pin(fencepost_producer::has_left_transactions(connection)))
/// # }
/// ```
///
/// # Errors
/// The connection is of no more use: lost, or inside an aborted transaction. The pool closes it then as well.
pub async fn has_left_transactions(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // A statement outside of any transaction begins its own, at its own time. By the simple protocol: in the
    // extended one Bind begins the transaction, and Execute is a moment later.
    let row = connection.fetch_one(sqlx::raw_sql("SELECT transaction_timestamp() = statement_timestamp()")).await?;
    row.try_get(0)
}
