//! From SQLite's errors to the port's: what a failure says about the connection, about the statement, and what to do.
//!
//! A statement that fails is undone as a whole, and a transaction that fails before its end is rolled back. Only where
//! the file itself could not be read or written (an I/O error) a commit may have reached it.

use rusqlite::ffi;

use crate::store::StoreError;

/// Longest text taken over from the library, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// What a failure means. No text quotes a value or the statement.
pub(super) fn of(error: &rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(error, text) => of_code(error.extended_code, text.as_deref()),
        rusqlite::Error::SqlInputError { error, msg, .. } => of_code(error.extended_code, Some(msg)),
        // A column of another type than the migrations made: somebody wrote to our tables by hand.
        other => StoreError::Refused(clip(&other.to_string())),
    }
}

/// By SQLite's extended result code.
fn of_code(extended: i32, text: Option<&str>) -> StoreError {
    let text = clip(text.unwrap_or("no text"));
    let said = format!("{text} (SQLite's code {extended})");
    match extended & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => StoreError::Refused(format!(
            "another connection writes to the file or keeps it locked: {said}; end the transaction that it holds open"
        )),
        ffi::SQLITE_FULL => StoreError::Refused(format!("the disk is full: {said}; free some space")),
        ffi::SQLITE_READONLY if extended == ffi::SQLITE_READONLY_DBMOVED => {
            StoreError::Lost(format!("the file was moved or replaced while it was in use: {said}"))
        }
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => unfit(
            format!("the file can't be written: {said}"),
            "let the relay's user write the file and its folder, and mount the disk writable",
        ),
        ffi::SQLITE_CANTOPEN => unfit(
            format!("the file can't be opened: {said}"),
            "correct the source's URL, and let the relay's user read and write the file and its folder",
        ),
        ffi::SQLITE_NOTADB => unfit(format!("the file is no SQLite database: {said}"), "correct the source's URL"),
        ffi::SQLITE_CORRUPT => unfit(
            format!("the file is damaged: {said}"),
            "stop everything that writes to it, keep a copy, and restore a backup or run the sqlite3 shell's .recover",
        ),
        ffi::SQLITE_ERROR => {
            unfit(format!("the schema is not the one that this relay knows: {said}"), "run: fencepost migrate check")
        }
        ffi::SQLITE_CONSTRAINT | ffi::SQLITE_NOMEM | ffi::SQLITE_TOOBIG | ffi::SQLITE_SCHEMA => {
            StoreError::Refused(said)
        }
        // SQLITE_IOERR, SQLITE_INTERRUPT, SQLITE_PROTOCOL, and what nobody expects.
        _ => StoreError::Lost(said),
    }
}

/// Whether it failed because of another connection's lock.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
}

/// A source that is not usable as it is.
pub(super) fn unfit(reason: impl Into<String>, repair: impl Into<String>) -> StoreError {
    StoreError::Unfit { reason: reason.into(), repair: repair.into() }
}

/// The first characters of `text`, on one line.
pub(super) fn clip(text: &str) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT_CHARS_MAX).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_became_of_the_statement() {
        let refused = [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_LOCKED, ffi::SQLITE_FULL];
        for code in refused {
            assert!(matches!(of_code(code, None), StoreError::Refused(_)), "{code}");
        }
        let lost =
            [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_INTERRUPT, ffi::SQLITE_READONLY_DBMOVED, 999];
        for code in lost {
            assert!(of_code(code, None).lost_reply(), "{code}");
        }
        let unfit = [
            ffi::SQLITE_READONLY,
            ffi::SQLITE_READONLY_DIRECTORY,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_NOTADB,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_ERROR,
        ];
        for code in unfit {
            assert!(matches!(of_code(code, None), StoreError::Unfit { .. }), "{code}");
        }
    }

    #[test]
    fn texts_are_bounded_on_one_line_and_without_the_statement() {
        let StoreError::Lost(text) = of_code(ffi::SQLITE_IOERR, Some(&"a\n".repeat(1_000))) else { panic!("lost") };
        assert!(text.chars().count() < TEXT_CHARS_MAX + 40 && !text.contains('\n'), "{text}");
        let connection = rusqlite::Connection::open_in_memory().expect("a database");
        let error = connection.prepare("SELECT secret FROM absent").expect_err("no such table");
        let text = of(&error).to_string();
        assert!(text.contains("no such table: absent") && !text.contains("secret"), "{text}");
    }
}
