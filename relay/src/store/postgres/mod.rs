//! The PostgreSQL store: one source's log, lanes and batches through three held connections.
//!
//! [`PostgresStore`] connects; [`reader`], [`marker`], [`keeper`] and [`housekeeper`] are the port's parts; [`check`] decides whether
//! a source is fit before a connection is given out. Schema changes ([`migrate`]) are a program's verb of their own.

mod admin;
mod check;
mod connect;
mod direct;
mod error;
mod flush;
mod housekeeper;
mod keeper;
mod marker;
pub mod migrate;
mod position;
mod reader;
mod row;
mod sql;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fencepost_core::schema::Schema;
use sqlx::postgres::PgConnectOptions;

pub use self::admin::{PlainConnection, PostgresAdmin};
pub use self::connect::{PostgresSettings, STATEMENT_TIMEOUT_MAX};
pub use self::keeper::PostgresKeeper;
pub use self::marker::PostgresMarker;
pub use self::reader::PostgresReader;
use super::{Store, StoreError};
use connect::Session;

/// One source in one PostgreSQL database. Cheap to clone; clones share nothing but their settings.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    target: Arc<Target>,
}

/// Where to connect and what to check there.
struct Target {
    settings: PostgresSettings,
    options: PgConnectOptions,
    /// The advice about the owner role was given: once per process is enough.
    advised: AtomicBool,
    /// The reader that was given out last, as its server knows it; gone with the reader.
    reader: Mutex<Weak<Identity>>,
}

/// A session as the server knows it.
#[derive(Clone, Copy)]
struct Identity {
    pid: i32,
    started_us: i64,
}

impl PostgresStore {
    /// A store for these settings. Connects nothing.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] when URL or timeouts can't be used; the text has no secret in it.
    pub fn new(settings: PostgresSettings) -> Result<Self, StoreError> {
        let options = settings.options()?;
        Ok(PostgresStore {
            target: Arc::new(Target { settings, options, advised: AtomicBool::new(false), reader: Mutex::default() }),
        })
    }
}

impl Store for PostgresStore {
    type Reader = PostgresReader;
    type Marker = PostgresMarker;
    type Keeper = PostgresKeeper;

    async fn reader(&self) -> Result<PostgresReader, StoreError> {
        PostgresReader::connect(self.target.clone()).await
    }

    async fn marker(&self) -> Result<PostgresMarker, StoreError> {
        let mut session = self.target.connect(false).await?;
        self.target.beside_reader(&mut session).await?;
        Ok(PostgresMarker::new(session, self.target.schema()))
    }

    async fn keeper(&self) -> Result<PostgresKeeper, StoreError> {
        let session = self.target.connect(false).await?;
        Ok(PostgresKeeper::new(session, self.target.schema()))
    }
}

/// sqlx's options would print the password.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl Target {
    fn schema(&self) -> &Schema {
        &self.settings.schema
    }

    /// A connection that passed the checks: all of them, or those that every connection needs.
    async fn connect(&self, full: bool) -> Result<Session, StoreError> {
        let connect = async {
            let mut session = Session::open(&self.settings, &self.options).await?;
            check::connection(&mut session, self.schema()).await?;
            if full {
                let advice = check::source(&mut session, self.schema()).await?;
                self.advise(advice.as_deref());
            }
            Ok(session)
        };
        within(self.settings.connect_timeout, connect).await
    }

    /// A marker on another server than its reader (an address that moved between two connections) would mark
    /// there what was read here: positions of one server mean nothing on another.
    async fn beside_reader(&self, marker: &mut Session) -> Result<(), StoreError> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match reader {
            Some(reader) if !still_here(marker, &reader).await? => {
                Err(StoreError::Lost("the address leads to another server than before, or it restarted".into()))
            }
            _ => Ok(()),
        }
    }

    fn advise(&self, advice: Option<&str>) {
        if let Some(advice) = advice
            && !self.advised.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(schema = self.schema().name(), "{advice}");
        }
    }
}

/// Whether another session of ours still runs on the server of this one.
async fn still_here(session: &mut Session, other: &Identity) -> Result<bool, StoreError> {
    let Identity { pid, started_us } = *other;
    session
        .call(async |connection| {
            let query = sqlx::query_scalar(include_str!("sql/still_here.sql")).bind(pid).bind(started_us);
            query.fetch_one(connection).await
        })
        .await
}

/// The whole of a connection attempt within its time.
async fn within<T>(limit: Duration, connect: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Lost(format!("no connection within {limit:?}"));
    tokio::time::timeout(limit, connect).await.unwrap_or_else(|_| Err(late()))
}
