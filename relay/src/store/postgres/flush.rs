//! For producers that turn `synchronous_commit` off: their commits are visible before they are on disk, and
//! a crash takes them back. A sighting is held until everything that it can see is flushed. Costs up to three
//! times `wal_writer_delay` (200 ms by default).

use std::time::Duration;

use super::connect::Session;
use crate::clock::pause;
use crate::store::StoreError;

/// PostgreSQL's page of write-ahead log, its header, and the longer header of a segment's first page.
const PAGE_BYTES: i64 = 8_192;
const PAGE_HEADER_BYTES: i64 = 24;
const SEGMENT_HEADER_BYTES: i64 = 40;

const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The writer flushes five times a second; a disk that needs longer is a failure to report.
const LOOKS_MAX: u32 = 2_000;

/// Waits until the log is flushed to where it stood when this was called.
///
/// # Errors
/// [`StoreError::Refused`] when the server does not flush for ten seconds.
pub(super) async fn wait(session: &mut Session) -> Result<(), StoreError> {
    let (target, mut flushed, segment) = look(session).await?;
    for _ in 0..LOOKS_MAX {
        if is_flushed(target, flushed, segment) {
            return Ok(());
        }
        pause(LOOK_AGAIN).await; // the server tells nobody when it has flushed
        flushed = look(session).await?.1;
    }
    Err(StoreError::Refused("the write-ahead log is not flushed for 10 s; look at the server's disk".into()))
}

async fn look(session: &mut Session) -> Result<(i64, i64, i64), StoreError> {
    let sql = include_str!("sql/flushed.sql");
    session.call(async |connection| sqlx::query_as(sql).fetch_one(connection).await).await
}

/// The place for the next record may lie behind a page header that nobody writes before there is a record.
fn is_flushed(target: i64, flushed: i64, segment: i64) -> bool {
    let header = if flushed % segment == 0 { SEGMENT_HEADER_BYTES } else { PAGE_HEADER_BYTES };
    flushed >= target || (flushed % PAGE_BYTES == 0 && target - flushed <= header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_alone_needs_no_flush() {
        const SEGMENT: i64 = 16 << 20;
        let flushed = |target, flushed| is_flushed(target, flushed, SEGMENT);
        assert!(flushed(100, 100) && flushed(100, 200));
        assert!(!flushed(101, 100), "a record is missing");
        assert!(flushed(PAGE_BYTES + 24, PAGE_BYTES), "the next page has begun and holds nothing");
        assert!(!flushed(PAGE_BYTES + 32, PAGE_BYTES), "the end of a record has spilled over");
        assert!(flushed(SEGMENT + 40, SEGMENT) && !flushed(SEGMENT + 48, SEGMENT), "a segment's header is longer");
        assert!(!flushed(PAGE_BYTES + 24, PAGE_BYTES - 8));
    }
}
