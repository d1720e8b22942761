//! Brings a schema to this program's version, tells where it stands, prints the SQL for a DBA, and
//! refuses drift. It keeps its own list of applied migrations and needs no right beyond
//! its schema; the schema is created only where it is missing. Each migration is one transaction under a
//! lock that ends with it, so neither a pooler nor a killed process leaves anything behind.

mod catalog;
mod roles;

use std::fmt::Write as _;
use std::time::Duration;

use fencepost_core::schema::Schema;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

pub use self::catalog::{Drift, describe};
pub use self::roles::{RolePrefix, RolePrefixError};
use crate::store::migration::{Applied, Mismatch, next_after};
pub use crate::store::migration::{Migration, Status};

const LOOKUP: &str = include_str!("migrate/lookup.sql");
const LOCK: &str = include_str!("migrate/lock.sql");
const BOOKKEEPING: &str = include_str!("migrate/bookkeeping.sql");
const APPLIED: &str = include_str!("migrate/applied.sql");
const RECORD: &str = include_str!("migrate/record.sql");

/// How long a migrator waits for another one, or for a table in use, unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// All migrations, oldest first. Landed ones never change.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "log", text: include_str!("../../../../migrations/postgres/0001_log.sql") },
    Migration { version: 2, name: "lanes", text: include_str!("../../../../migrations/postgres/0002_lanes.sql") },
    Migration { version: 3, name: "enqueue", text: include_str!("../../../../migrations/postgres/0003_enqueue.sql") },
    Migration { version: 4, name: "audit", text: include_str!("../../../../migrations/postgres/0004_audit.sql") },
];

/// Why a schema was not migrated or did not pass the check.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Another migrator, or a long transaction, held a lock for too long. Nothing changed in this step.
    #[error("waited {0:?} for a lock that another migration or a long transaction holds; end it and run again")]
    Busy(Duration),
    /// The role lacks a right. Nothing changed in this step.
    #[error("{what}: {why}; grant it, or give a DBA the output of `fencepost migrate sql`")]
    Denied {
        /// The step that was refused.
        what: String,
        /// The server's message.
        why: String,
    },
    /// The schema was migrated by a newer program.
    #[error("the schema has migration {0}, which this program does not know; run a program of that version or newer")]
    Unknown(i32),
    /// A migration's text is not the one that was applied, or an earlier one was left out.
    #[error(
        "migration {version} was applied as \"{name}\" with another text; restore the schema or the program that wrote it"
    )]
    Changed {
        /// Its number.
        version: i32,
        /// Its recorded name.
        name: String,
    },
    /// Migrations are still to be applied.
    #[error("the schema is at migration {at} of {newest}; run `fencepost migrate up`")]
    Pending {
        /// Newest one that was applied; 0 for none.
        at: i32,
        /// Newest one that this program knows.
        newest: i32,
    },
    /// The catalog is not what the migrations made.
    #[error("the schema differs from its migrations; undo by hand what changed it:\n{0}")]
    Drifted(Drift),
    /// Anything else. After a lost connection the step may have been committed: run again.
    #[error("{what}: {source}")]
    Database {
        /// The step that failed.
        what: String,
        /// The cause.
        source: sqlx::Error,
    },
}

/// Migrates one schema.
#[derive(Clone, Debug)]
pub struct Migrator {
    schema: Schema,
    lock_timeout: Duration,
}

/// Brings `schema` to this program's version with the default lock timeout.
///
/// # Errors
/// As [`Migrator::up`].
pub async fn up(connection: &mut PgConnection, schema: &Schema) -> Result<Vec<i32>, MigrateError> {
    Migrator::new(schema.clone()).up(connection).await
}

impl Migrator {
    /// For one schema, with [`LOCK_TIMEOUT`].
    pub fn new(schema: Schema) -> Self {
        Migrator { schema, lock_timeout: LOCK_TIMEOUT }
    }

    /// Waits at most so long for each lock; rounded up to a millisecond.
    #[must_use]
    pub fn lock_timeout(self, lock_timeout: Duration) -> Self {
        Migrator { lock_timeout, ..self }
    }

    /// Applies what is pending, each migration in a transaction of its own, and returns the numbers.
    /// A lost reply is harmless: run it again. The connection must not be inside a transaction.
    ///
    /// # Errors
    /// Where a step fails, the ones before it stay. See [`MigrateError`].
    pub async fn up(&self, connection: &mut PgConnection) -> Result<Vec<i32>, MigrateError> {
        let mut done = Vec::new();
        while let Some(version) = self.step(connection).await? {
            done.push(version);
        }
        Ok(done)
    }

    /// What was applied and what is pending.
    ///
    /// # Errors
    /// As [`Self::up`]; nothing is changed.
    pub async fn status(&self, connection: &mut PgConnection) -> Result<Vec<Status>, MigrateError> {
        Ok(Status::of(MIGRATIONS, &self.applied(connection).await?))
    }

    /// Passes only where exactly this program's migrations were applied with these texts, and the
    /// catalog is what they make.
    ///
    /// # Errors
    /// The first thing that differs; nothing is changed.
    pub async fn check(&self, connection: &mut PgConnection) -> Result<(), MigrateError> {
        let applied = self.applied(connection).await?;
        if let Some(next) = next_after(MIGRATIONS, &applied)? {
            let newest = MIGRATIONS.last().map_or(0, |m| m.version);
            return Err(MigrateError::Pending { at: next.version - 1, newest });
        }
        let drift =
            Drift::between(&describe(connection, &self.schema).await.map_err(|e| self.sort("reading the catalog", e))?);
        if drift.is_empty() { Ok(()) } else { Err(MigrateError::Drifted(drift)) }
    }

    /// The SQL of all migrations after number `after`, for a DBA to run with `psql`; made without a database.
    pub fn sql(&self, after: i32) -> String {
        let schema = self.schema.quoted();
        let mut out = format!(
            "-- Migrations of schema {schema}. Run with: psql -v ON_ERROR_STOP=1 -f FILE\n\\set ON_ERROR_ROLLBACK off\n"
        );
        for migration in MIGRATIONS.iter().filter(|m| m.version > after) {
            let Migration { version, name, text } = migration;
            let _ = write!(out, "\nBEGIN;\n{}\n", self.settings());
            if *version == 1 {
                let _ = write!(out, "CREATE SCHEMA IF NOT EXISTS {schema};\n{};\n", BOOKKEEPING.trim_end());
            }
            let checksum = migration.checksum();
            let _ = write!(
                out,
                "{text}\nINSERT INTO {schema}.schema_migrations (version, name, checksum)\nVALUES ({version}, '{name}', '{checksum}');\nCOMMIT;\n"
            );
        }
        self.schema.qualify(&out)
    }

    /// One transaction: the lock, a fresh look, and the next migration if there is one.
    async fn step(&self, connection: &mut PgConnection) -> Result<Option<i32>, MigrateError> {
        let mut tx = connection.begin().await.map_err(|e| self.sort("beginning a transaction", e))?;
        match self.step_in(&mut tx).await {
            Ok(version) => tx.commit().await.map_err(|e| self.sort("committing a migration", e)).map(|()| version),
            Err(error) => {
                // the first error is the one to tell
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    async fn step_in(&self, tx: &mut PgConnection) -> Result<Option<i32>, MigrateError> {
        self.run(tx, "setting up the session", self.settings()).await?;
        let lock = sqlx::query(LOCK).bind(self.schema.name()).persistent(false);
        lock.execute(&mut *tx).await.map_err(|e| self.sort("waiting for other migrators", e))?;
        let found = self.look_up(tx).await?;
        let applied = if found.has_bookkeeping { self.read_applied(tx).await? } else { Vec::new() };
        let Some(next) = next_after(MIGRATIONS, &applied)? else { return Ok(None) };
        if let Some(owner) = found.owner {
            // so that functions which run as their owner get the schema's, not the superuser who migrates
            self.run(tx, "acting as the schema's owner", format!("SET LOCAL ROLE {owner}")).await?;
        }
        if !found.has_schema {
            self.run(tx, "creating the schema", format!("CREATE SCHEMA {}", self.schema.quoted())).await?;
        }
        if !found.has_bookkeeping {
            self.run(tx, "creating schema_migrations", self.schema.qualify(BOOKKEEPING)).await?;
        }
        let what = format!("applying migration {} ({})", next.version, next.name);
        self.run(tx, &what, self.schema.qualify(next.text)).await?;
        let record = sqlx::query(AssertSqlSafe(self.schema.qualify(RECORD))).persistent(false);
        let record = record.bind(next.version).bind(next.name).bind(next.checksum());
        record.execute(tx).await.map_err(|e| self.sort(&what, e))?;
        Ok(Some(next.version))
    }

    /// Settings of one migration's transaction: nothing of the session shows through.
    fn settings(&self) -> String {
        let millis = self.lock_timeout.as_micros().div_ceil(1000).max(1);
        format!(
            "SET LOCAL lock_timeout = {millis}; SET LOCAL search_path = pg_catalog, pg_temp; \
             SET LOCAL standard_conforming_strings = on; SET LOCAL client_min_messages = warning;"
        )
    }

    async fn run(&self, tx: &mut PgConnection, what: &str, sql: String) -> Result<(), MigrateError> {
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(tx).await;
        done.map(drop).map_err(|e| self.sort(what, e))
    }

    async fn applied(&self, connection: &mut PgConnection) -> Result<Vec<Applied>, MigrateError> {
        // one transaction, so that a pooler gives all of it one server connection
        let mut tx = connection.begin().await.map_err(|e| self.sort("beginning a transaction", e))?;
        let found = self.look_up(&mut tx).await?;
        let applied = if found.has_bookkeeping { self.read_applied(&mut tx).await? } else { Vec::new() };
        tx.commit().await.map_err(|e| self.sort("reading schema_migrations", e))?;
        Ok(applied)
    }

    async fn look_up(&self, tx: &mut PgConnection) -> Result<Found, MigrateError> {
        let row = sqlx::query(LOOKUP).bind(self.schema.name()).persistent(false).fetch_one(tx).await;
        let found = row.and_then(|row| {
            Ok(Found { has_schema: row.try_get(0)?, has_bookkeeping: row.try_get(1)?, owner: row.try_get(2)? })
        });
        found.map_err(|e| self.sort("looking for the schema", e))
    }

    async fn read_applied(&self, tx: &mut PgConnection) -> Result<Vec<Applied>, MigrateError> {
        let sql = AssertSqlSafe(self.schema.qualify(APPLIED));
        let rows = sqlx::query(sql).persistent(false).fetch_all(tx).await;
        let applied = rows.and_then(|rows| rows.iter().map(read).collect());
        applied.map_err(|e| self.sort("reading schema_migrations", e))
    }

    /// What a failure means for the one who migrates.
    fn sort(&self, what: &str, error: sqlx::Error) -> MigrateError {
        let code = error.as_database_error().and_then(|e| e.code().map(|c| c.into_owned()));
        match code.as_deref() {
            Some("55P03") => MigrateError::Busy(self.lock_timeout),
            Some("42501") => {
                let why = error.as_database_error().map_or_else(String::new, |e| e.message().to_owned());
                MigrateError::Denied { what: what.to_owned(), why }
            }
            _ => MigrateError::Database { what: what.to_owned(), source: error },
        }
    }
}

struct Found {
    has_schema: bool,
    has_bookkeeping: bool,
    owner: Option<String>,
}

fn read(row: &sqlx::postgres::PgRow) -> Result<Applied, sqlx::Error> {
    let at: time::OffsetDateTime = row.try_get(3)?;
    Ok(Applied {
        version: row.try_get(0)?,
        name: row.try_get(1)?,
        checksum: row.try_get(2)?,
        applied_at_us: i64::try_from(at.unix_timestamp_nanos() / 1000).unwrap_or(i64::MAX),
    })
}

impl From<Mismatch> for MigrateError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Unknown(version) => MigrateError::Unknown(version),
            Mismatch::Changed { version, name } => MigrateError::Changed { version, name },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one() {
        crate::store::migration::tests::versions_count_from_one(MIGRATIONS);
    }
}
