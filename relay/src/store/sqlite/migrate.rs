//! Brings a file to this program's version, tells where it stands, prints the SQL, and refuses drift. It keeps its own
//! list of applied migrations. Each migration is one transaction that begins with SQLite's write lock, so a killed process
//! leaves nothing behind. The file is made where it is missing, and set to write-ahead logging: readers and the
//! writer don't wait for one another.

use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use super::connect::open;
use super::error::{clip, is_busy, of, unfit};
use crate::store::StoreError;
use crate::store::migration::{Applied, Mismatch, next_after};
pub use crate::store::migration::{Migration, Status};

const BOOKKEEPING: &str = include_str!("migrate/bookkeeping.sql");
const LOOKUP: &str = include_str!("migrate/lookup.sql");
const APPLIED: &str = include_str!("migrate/applied.sql");
const RECORD: &str = include_str!("migrate/record.sql");
const DESCRIBE: &str = include_str!("migrate/describe.sql");

/// How long a migrator waits for another connection's write, unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// All migrations, oldest first. Landed ones never change.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "log", text: include_str!("../../../../migrations/sqlite/0001_log.sql") },
    Migration { version: 2, name: "lanes", text: include_str!("../../../../migrations/sqlite/0002_lanes.sql") },
];

/// Why a file was not migrated or did not pass the check.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Another connection held the file for too long. Nothing changed in this step.
    #[error("waited {0:?} for another connection that writes to the file or keeps it locked; end it and run again")]
    Busy(Duration),
    /// The file was migrated by a newer program.
    #[error("the file has migration {0}, which this program does not know; run a program of that version or newer")]
    Unknown(i32),
    /// A migration's text is not the one that was applied, or an earlier one was left out.
    #[error(
        "migration {version} was applied as \"{name}\" with another text; restore the file or the program that wrote it"
    )]
    Changed {
        /// Its number.
        version: i32,
        /// Its recorded name.
        name: String,
    },
    /// Migrations are still to be applied.
    #[error("the file is at migration {at} of {newest}; run `fencepost migrate up`")]
    Pending {
        /// Newest one that was applied; 0 for none.
        at: i32,
        /// Newest one that this program knows.
        newest: i32,
    },
    /// The tables are not what the migrations made.
    #[error("the tables differ from their migrations; undo by hand what changed them:\n{0}")]
    Drifted(Drift),
    /// Anything else.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Mismatch> for MigrateError {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Unknown(version) => MigrateError::Unknown(version),
            Mismatch::Changed { version, name } => MigrateError::Changed { version, name },
        }
    }
}

/// What is missing or was not expected: tables, indexes and triggers, by the words that made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    missing: Vec<String>,
    unexpected: Vec<String>,
}

impl Drift {
    fn between(actual: &[String], expected: &[String]) -> Self {
        let only = |a: &[String], b: &[String]| a.iter().filter(|line| !b.contains(line)).cloned().collect();
        Drift { missing: only(expected, actual), unexpected: only(actual, expected) }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (said, lines) in [("missing", &self.missing), ("not expected", &self.unexpected)] {
            for line in lines {
                writeln!(f, "  {said}: {}", clip(line))?;
            }
        }
        Ok(())
    }
}

/// Migrates one file. Its calls block for as long as SQLite needs.
#[derive(Clone, Debug)]
pub struct Migrator {
    path: PathBuf,
    lock_timeout: Duration,
}

/// Brings the file at `path` to this program's version with the default lock timeout.
///
/// # Errors
/// As [`Migrator::up`].
pub fn up(path: &Path) -> Result<Vec<i32>, MigrateError> {
    Migrator::new(path).up()
}

impl Migrator {
    /// For one file, with [`LOCK_TIMEOUT`].
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Migrator { path: path.into(), lock_timeout: LOCK_TIMEOUT }
    }

    /// Waits at most so long for each lock.
    #[must_use]
    pub fn lock_timeout(self, lock_timeout: Duration) -> Self {
        Migrator { lock_timeout, ..self }
    }

    /// Applies what is pending, each migration in a transaction of its own, and returns the numbers. Safe to repeat.
    ///
    /// # Errors
    /// Where a step fails, the ones before it stay. See [`MigrateError`].
    pub fn up(&self) -> Result<Vec<i32>, MigrateError> {
        let mut connection = open(&self.path, self.lock_timeout, true)?;
        self.log_ahead(&connection)?;
        let mut done = Vec::new();
        while let Some(version) = self.step(&mut connection)? {
            done.push(version);
        }
        Ok(done)
    }

    /// What was applied and what is pending.
    ///
    /// # Errors
    /// As [`Self::up`]; nothing is changed, and no file is made.
    pub fn status(&self) -> Result<Vec<Status>, MigrateError> {
        Ok(Status::of(MIGRATIONS, &self.applied(&open(&self.path, self.lock_timeout, false)?)?))
    }

    /// Passes only where exactly this program's migrations were applied with these texts, and the tables, indexes
    /// and triggers are what they make.
    ///
    /// # Errors
    /// The first thing that differs; nothing is changed.
    pub fn check(&self) -> Result<(), MigrateError> {
        let connection = open(&self.path, self.lock_timeout, false)?;
        if let Some(next) = next_after(MIGRATIONS, &self.applied(&connection)?)? {
            let newest = MIGRATIONS.last().map_or(0, |m| m.version);
            return Err(MigrateError::Pending { at: next.version - 1, newest });
        }
        let drift = Drift::between(&self.describe(&connection)?, &self.expected()?);
        if drift == Drift::default() { Ok(()) } else { Err(MigrateError::Drifted(drift)) }
    }

    /// The SQL of all migrations after number `after`, for the `sqlite3` shell; made without a file.
    pub fn sql(after: i32) -> String {
        let mut out =
            String::from("-- Migrations of a file. Run with: sqlite3 -bail FILE < THIS\nPRAGMA journal_mode = WAL;\n");
        for migration in MIGRATIONS.iter().filter(|m| m.version > after) {
            let Migration { version, name, text } = migration;
            out.push_str("\nBEGIN IMMEDIATE;\n");
            if *version == 1 {
                let _ = writeln!(out, "{};", BOOKKEEPING.trim_end());
            }
            let checksum = migration.checksum();
            let _ = write!(
                out,
                "{text}\nINSERT INTO fencepost_schema_migrations (version, name, checksum)\nVALUES ({version}, '{name}', '{checksum}');\nCOMMIT;\n"
            );
        }
        out
    }

    /// The mode is a property of the file and holds for every program that opens it from now on.
    fn log_ahead(&self, connection: &Connection) -> Result<(), MigrateError> {
        let set = "PRAGMA journal_mode = WAL";
        let mode: String = connection.query_row(set, [], |row| row.get(0)).map_err(|e| self.sort(&e))?;
        if mode.eq_ignore_ascii_case("wal") {
            return Ok(());
        }
        let reason = format!("the file stays in journal mode {mode}: its disk does not allow a write-ahead log");
        Err(unfit(reason, "put the file on a local disk").into())
    }

    /// One transaction: the lock, a fresh look, and the next migration if there is one.
    fn step(&self, connection: &mut Connection) -> Result<Option<i32>, MigrateError> {
        let sort = |e| self.sort(&e);
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sort)?;
        let applied = self.applied(&tx)?;
        let Some(next) = next_after(MIGRATIONS, &applied)? else { return Ok(None) };
        if applied.is_empty() && !self.has_bookkeeping(&tx)? {
            tx.execute_batch(BOOKKEEPING).map_err(sort)?;
        }
        tx.execute_batch(next.text).map_err(sort)?;
        tx.execute(RECORD, params![next.version, next.name, next.checksum()]).map_err(sort)?;
        tx.commit().map_err(sort)?;
        Ok(Some(next.version))
    }

    fn has_bookkeeping(&self, connection: &Connection) -> Result<bool, MigrateError> {
        connection.query_row(LOOKUP, [], |row| row.get(0)).map_err(|e| self.sort(&e))
    }

    fn applied(&self, connection: &Connection) -> Result<Vec<Applied>, MigrateError> {
        if !self.has_bookkeeping(connection)? {
            return Ok(Vec::new());
        }
        let read = || -> Result<Vec<Applied>, rusqlite::Error> {
            let mut statement = connection.prepare(APPLIED)?;
            let rows = statement.query_map([], |row| {
                Ok(Applied {
                    version: row.get(0)?,
                    name: row.get(1)?,
                    checksum: row.get(2)?,
                    applied_at_us: row.get(3)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|e| self.sort(&e))
    }

    fn describe(&self, connection: &Connection) -> Result<Vec<String>, MigrateError> {
        let read = || -> Result<Vec<String>, rusqlite::Error> {
            let mut statement = connection.prepare(DESCRIBE)?;
            let lines = statement.query_map([], |row| row.get(0))?;
            lines.collect()
        };
        read().map_err(|e| self.sort(&e))
    }

    /// What the migrations make, by making it in memory.
    fn expected(&self) -> Result<Vec<String>, MigrateError> {
        let connection = Connection::open_in_memory().map_err(|e| self.sort(&e))?;
        for text in [BOOKKEEPING].into_iter().chain(MIGRATIONS.iter().map(|m| m.text)) {
            connection.execute_batch(text).map_err(|e| self.sort(&e))?;
        }
        self.describe(&connection)
    }

    fn sort(&self, error: &rusqlite::Error) -> MigrateError {
        if is_busy(error) { MigrateError::Busy(self.lock_timeout) } else { of(error).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one() {
        crate::store::migration::tests::versions_count_from_one(MIGRATIONS);
    }

    #[test]
    fn names_what_differs() {
        let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let drift = Drift::between(&lines(&["a", "c"]), &lines(&["a", "b"]));
        assert_eq!(drift.to_string(), "  missing: b\n  not expected: c\n");
    }
}
