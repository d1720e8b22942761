//! How a connection to a source's file is opened.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::{of, unfit};
use super::file::identify;
use crate::store::StoreError;

/// What SQLite shortens its write-ahead log to once a long reader has left.
const WAL_BYTES_KEPT: i64 = 64 << 20;

/// Opens the file. It is made only where `create` says so; its rights are those that SQLite and the umask give it.
///
/// # Errors
/// [`StoreError::Unfit`] where it is missing, no database, or not writable.
pub(super) fn open(path: &Path, lock_timeout: Duration, create: bool) -> Result<Connection, StoreError> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    } else {
        identify(path)?;
    }
    let connection = Connection::open_with_flags(path, flags).map_err(|e| of(&e))?;
    prepare(&connection, lock_timeout).map_err(|e| of(&e))?;
    // SQLite opens what it may not write for reading, and says nothing.
    if connection.is_readonly(rusqlite::MAIN_DB).map_err(|e| of(&e))? {
        return Err(unfit(
            format!("{} can't be written by this user", path.display()),
            "let the relay's user write the file and its folder, and mount the disk writable",
        ));
    }
    let encoding: String = connection.pragma_query_value(None, "encoding", |row| row.get(0)).map_err(|e| of(&e))?;
    if encoding != "UTF-8" {
        return Err(unfit(
            format!("the file's texts are {encoding}, which the outbox can't use"),
            "make a new file with PRAGMA encoding = 'UTF-8' and copy the data there",
        ));
    }
    Ok(connection)
}

/// What each connection sets explicitly. A commit is on disk when it is told: what depends on a mark or on a lease
/// may rely on it.
fn prepare(connection: &Connection, lock_timeout: Duration) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(lock_timeout)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)
}
