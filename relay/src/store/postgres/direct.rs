//! A connection that has its server session to itself. Behind a transaction pooler the session's settings would
//! leak into producers' sessions (an empty `search_path`, disabled plans), so this is known before
//! anything is set: two clients that are connected at once must never speak to one backend.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Executor, Row};

use super::error::{of_connect, pooler};
use crate::store::StoreError;

/// Connects. A pooler with an idle server connection gives it to whoever asks next, so a second client
/// meets the first one's backend; a busy one changes the backend from statement to statement.
///
/// # Errors
/// [`StoreError::Unfit`] behind a transaction pooler; else as any failure to connect.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let open = || async { PgConnection::connect_with(options).await.map_err(|e| of_connect(&e)) };
    let (mut mine, mut other) = (open().await?, open().await?);
    let pids =
        [backend(&mut mine).await?, backend(&mut other).await?, backend(&mut mine).await?, backend(&mut other).await?];
    // its end is not worth waiting for an error
    let _ = other.close().await;
    if is_own(pids) { Ok(mine) } else { Err(pooler()) }
}

/// Backends that two clients saw by turns.
fn is_own([mine, other, mine_again, other_again]: [i32; 4]) -> bool {
    mine == mine_again && other == other_again && mine != other
}

/// A simple statement: prepared ones take two transactions, which a pooler may part.
async fn backend(connection: &mut PgConnection) -> Result<i32, StoreError> {
    let row = connection.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()")).await.map_err(|e| of_connect(&e))?;
    row.try_get(0).map_err(|e| of_connect(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b103_two_clients_on_one_backend_have_a_pooler_between() {
        assert!(is_own([1, 2, 1, 2]));
        for shared in [[1, 1, 1, 1], [1, 2, 2, 1], [1, 2, 3, 2], [1, 2, 1, 3]] {
            assert!(!is_own(shared), "{shared:?}");
        }
    }
}
