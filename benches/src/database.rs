//! A database of one measurement, and what its server tells.

use std::fmt;

use serde::Serialize;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, FromRow, PgConnection};

use crate::error::{Error, Result};

/// How the bench's own sessions are told from those of whom it measures.
const APPLICATION: &str = "fencepost-bench";

/// The server that measurements use, by a superuser's URL.
#[derive(Clone)]
pub(crate) struct Server {
    url: String,
}

/// What a reader of the figures must know of the server.
#[derive(Clone, Debug, Serialize, FromRow)]
pub(crate) struct ServerFacts {
    version: String,
    fsync: String,
    synchronous_commit: String,
    shared_buffers: String,
    max_wal_size: String,
    full_page_writes: String,
    other_sessions: i64,
}

impl fmt::Display for ServerFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: fsync {}, synchronous_commit {}, full_page_writes {}, shared_buffers {}, max_wal_size {}",
            self.version,
            self.fsync,
            self.synchronous_commit,
            self.full_page_writes,
            self.shared_buffers,
            self.max_wal_size
        )?;
        if self.other_sessions > 0 {
            write!(f, "\nwarning: {} other sessions use this server: their work counts too", self.other_sessions)?;
        }
        Ok(())
    }
}

/// The server's odometers; only differences mean anything.
#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct Counters {
    pub(crate) wal_bytes: i64,
    pub(crate) next_xid: i64,
    pub(crate) other_transactions: i64,
}

impl Server {
    pub(crate) fn new(url: &str) -> Self {
        Server { url: url.to_owned() }
    }

    /// The URL of another database on the same server.
    fn url_of(&self, database: &str) -> Result<String> {
        let start = self.url.find("://").map(|at| at + 3).ok_or_else(not_a_url)?;
        let path = self.url[start..].find('/').map_or(self.url.len(), |at| start + at);
        let query = self.url.find('?').map_or("", |at| &self.url[at..]);
        let authority = self.url[..path].split('?').next().unwrap_or_default();
        Ok(format!("{authority}/{database}{query}"))
    }

    async fn connect(&self) -> Result<PgConnection> {
        connect(&self.url).await
    }

    /// What a reader of the figures must know of it.
    pub(crate) async fn facts(&self) -> Result<ServerFacts> {
        let mut session = self.connect().await?;
        Ok(sqlx::query_as(include_str!("../sql/facts.sql")).fetch_one(&mut session).await?)
    }

    /// The postmaster's process id as the server knows it.
    pub(crate) async fn postmaster_pid(&self) -> Result<u32> {
        let mut session = self.connect().await?;
        let pid: i32 = sqlx::query_scalar(include_str!("../sql/postmaster.sql")).fetch_one(&mut session).await?;
        u32::try_from(pid).map_err(|_| Error::other("the server has no process id"))
    }

    /// A fresh, empty database.
    pub(crate) async fn create(&self, name: &str) -> Result<Database> {
        self.connect().await?.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        Ok(Database { url: self.url_of(name)?, name: name.to_owned() })
    }

    /// Drops a database, whoever is still in it.
    pub(crate) async fn drop(&self, database: &Database) -> Result<()> {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", database.name);
        self.connect().await?.execute(AssertSqlSafe(drop)).await?;
        Ok(())
    }
}

fn not_a_url() -> Error {
    Error::other("the PostgreSQL address is not a URL: write postgres://user@host:port/database")
}

async fn connect(url: &str) -> Result<PgConnection> {
    let options: PgConnectOptions = url.parse()?;
    Ok(PgConnection::connect_with(&options.application_name(APPLICATION)).await?)
}

/// A database of one measurement.
pub(crate) struct Database {
    url: String,
    pub(crate) name: String,
}

impl Database {
    /// The superuser's URL, for the processes that are measured.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn connect(&self) -> Result<PgConnection> {
        connect(&self.url).await
    }
}

/// Reads the odometers.
pub(crate) async fn counters(session: &mut PgConnection) -> Result<Counters> {
    Ok(sqlx::query_as(include_str!("../sql/counters.sql")).fetch_one(session).await?)
}

/// Fresh statistics, and nothing left for a checkpoint to write in the middle of a measurement.
pub(crate) async fn settle(session: &mut PgConnection) -> Result<()> {
    session.execute("ANALYZE").await?;
    session.execute("CHECKPOINT").await?;
    Ok(())
}

/// How many sessions of the measured process are inside a statement or a transaction.
pub(crate) async fn busy_sessions(session: &mut PgConnection) -> Result<i64> {
    Ok(sqlx::query_scalar(include_str!("../sql/busy_sessions.sql")).fetch_one(session).await?)
}

/// Process id of this session's server side, where the server runs on this machine.
pub(crate) async fn backend_pid(session: &mut PgConnection) -> Result<u32> {
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(session).await?;
    u32::try_from(pid).map_err(|_| Error::other("the session has no process id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        let url = |text: &str| Server::new(text).url_of("b").ok();
        assert_eq!(
            url("postgres://u:p@h:1/a?sslmode=disable").as_deref(),
            Some("postgres://u:p@h:1/b?sslmode=disable")
        );
        assert_eq!(url("postgres://u@h:1/a").as_deref(), Some("postgres://u@h:1/b"));
        assert_eq!(url("postgres://u@h:1").as_deref(), Some("postgres://u@h:1/b"));
        assert_eq!(url("postgres://u@h?x=/y").as_deref(), Some("postgres://u@h/b?x=/y"));
        assert_eq!(url("nonsense"), None);
    }
}
