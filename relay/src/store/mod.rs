//! The port to a source's database: what the engine asks of a store, by intent. Each part lives on a
//! connection of its own, so that a slow page never delays a mark and neither delays a renewal.
//!
//! Every statement is one autocommit transaction. A statement whose reply is lost ([`StoreError::lost_reply`])
//! may or may not have taken effect; only marks and claims change anything, and both can be settled by
//! reading the newest rows again.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::time::Duration;

pub use fencepost_core::audit::{Recorded, Window};
pub use fencepost_core::batch::{BatchHead, MarkRow};
pub use fencepost_core::lane::Survey;
use fencepost_core::lane::{Generation, LaneId, Owner, Slots, Tag};
use fencepost_core::page::{PageEnd, PagePlan};
use fencepost_core::position::Sighting;

use uuid::Uuid;

use crate::message::MessageRef;

pub mod admin;
pub mod migration;
pub mod postgres;
pub mod sqlite;

/// Reads the log: ticks and pages.
pub trait LogReader {
    /// The outbox's own UUID: the first part of the fence header.
    fn source_id(&mut self) -> impl Future<Output = Result<Uuid, StoreError>>;

    /// One cheap statement: a snapshot, and then the newest id given out.
    fn sight(&mut self) -> impl Future<Output = Result<Sighting, StoreError>>;

    /// Takes a transaction id and commits it.
    fn burn(&mut self) -> impl Future<Output = Result<(), StoreError>>;

    /// Reads one page of the given slots, by rising id, into `take`, which may break before any row.
    fn read_page(
        &mut self,
        plan: &PagePlan,
        slots: &[Slots],
        take: &mut dyn FnMut(&MessageRef<'_>) -> ControlFlow<()>,
    ) -> impl Future<Output = Result<PageEnd, StoreError>>;

    /// Smallest id in the log with `after < id <= upto`, whatever its transaction or slot.
    fn next_id(&mut self, after: i64, upto: i64) -> impl Future<Output = Result<Option<i64>, StoreError>>;
}

/// Writes marks: the fence and the compare-and-set in one statement.
pub trait MarkWriter {
    /// Writes one row per lane; each only where the lane's lease is `owner`'s under the row's generation
    /// and unexpired, its row n-1 is the newest and has nothing open, and n is free. Returns the
    /// lanes that were written. A lane that is missing from the reply was refused: read
    /// [`Self::newest`] to learn why.
    fn mark(
        &mut self,
        owner: &Owner,
        tag: Tag,
        rows: &[MarkRow],
    ) -> impl Future<Output = Result<Vec<LaneId>, StoreError>>;

    /// The newest batch row of each lane.
    fn newest(&mut self, lanes: &[LaneId]) -> impl Future<Output = Result<Vec<BatchHead>, StoreError>>;
}

/// Takes, renews and gives back leases, and watches the other relays.
pub trait LaneKeeper {
    /// All lanes, and the relays whose heartbeat is not older than `lease` (this one included, once it beat).
    fn survey(&mut self, lease: Duration) -> impl Future<Output = Result<Survey, StoreError>>;

    /// Writes this relay's heartbeat.
    fn beat(&mut self, owner: &Owner) -> impl Future<Output = Result<(), StoreError>>;

    /// Takes a lane and writes its fence row, in one statement. `seen` is the pair that the caller's own
    /// clock saw unchanged for a whole lease, if that is why it claims; else the lane must be
    /// free or expired by the database's clock. `None`: somebody else was faster.
    fn claim(
        &mut self,
        owner: &Owner,
        lane: LaneId,
        seen: Option<(Generation, i64)>,
        lease: Duration,
    ) -> impl Future<Output = Result<Option<BatchHead>, StoreError>>;

    /// Extends unexpired leases of `owner` under these generations; returns those that were extended.
    fn renew(
        &mut self,
        owner: &Owner,
        lanes: &[(LaneId, Generation)],
        lease: Duration,
    ) -> impl Future<Output = Result<Vec<LaneId>, StoreError>>;

    /// Gives unexpired leases of `owner` under these generations back; returns those that were.
    fn release(
        &mut self,
        owner: &Owner,
        lanes: &[(LaneId, Generation)],
    ) -> impl Future<Output = Result<Vec<LaneId>, StoreError>>;

    /// Removes this relay's heartbeat, so that the others share its lanes at once, and gives back every lane that
    /// is still `owner`'s by the table: its claim's or release's reply was lost.
    fn leave(&mut self, owner: &Owner) -> impl Future<Output = Result<(), StoreError>>;
}

/// What has time: measures, tidies up and audits. On the kind of connection that keeps leases, but another one.
pub trait Housekeeper {
    /// Age of the oldest message that the newest positions do not cover, by lane, for lag metrics;
    /// bounded cost whatever the backlog. Empty for a lane without backlog.
    fn lag(&mut self) -> impl Future<Output = Result<Vec<LaneLag>, StoreError>>;

    /// Deletes batch rows beyond the newest 10,000 of a lane and older than ten leases, at most `limit`.
    fn prune(&mut self, lease: Duration, limit: i64) -> impl Future<Output = Result<u64, StoreError>>;

    /// Rows of a lane's batch log, newest first: from number `from` on and behind what a finding covers
    /// already, at most `limit`.
    fn recorded(
        &mut self,
        lane: LaneId,
        from: i64,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Recorded>, StoreError>>;

    /// Counts the lane's messages that `window.up` sees and `window.lo` does not, by their transaction ids. `None` where
    /// that would mean to look at more than about `rows_max` messages.
    fn count(&mut self, window: &Window, rows_max: i64) -> impl Future<Output = Result<Option<i64>, StoreError>>;

    /// Writes down that `found` messages were counted in a window, and returns the finding with ids of the window's
    /// messages: those first that no page can have read, then the newest. Repeating it writes nothing more.
    fn report(
        &mut self,
        owner: &Owner,
        window: &Window,
        found: i64,
    ) -> impl Future<Output = Result<Finding, StoreError>>;

    /// Findings that nobody has closed, oldest first, at most [`FINDINGS_MAX`].
    fn findings(&mut self) -> impl Future<Output = Result<Vec<Finding>, StoreError>>;
}

/// Findings that are shown at most.
pub const FINDINGS_MAX: usize = 20;
/// Ids that a finding names at most.
pub const FINDING_IDS_MAX: usize = 20;

/// One source's three connections. Every connection passes the checks of its kind before it is given out.
pub trait Store {
    /// Reads.
    type Reader: LogReader;
    /// Marks.
    type Marker: MarkWriter;
    /// Leases.
    type Keeper: LaneKeeper + Housekeeper;

    /// Connects for reading, after the full check of the source (identity, schema version, sequence,
    /// grants, lanes and positions).
    fn reader(&self) -> impl Future<Output = Result<Self::Reader, StoreError>>;
    /// Connects for marking.
    fn marker(&self) -> impl Future<Output = Result<Self::Marker, StoreError>>;
    /// Connects for leases.
    fn keeper(&self) -> impl Future<Output = Result<Self::Keeper, StoreError>>;
}

/// A lane's backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLag {
    /// Which lane.
    pub lane: LaneId,
    /// Messages that wait, estimated from ids; an upper bound.
    pub messages: i64,
    /// Age of the oldest that waits.
    pub oldest: Duration,
}

/// A window of a lane in which the log holds another number of messages than was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whose window.
    pub lane: LaneId,
    /// Number of the batch row where it begins.
    pub from_n: i64,
    /// Number of the batch row where it ends; with the lane it names the finding.
    pub to_n: i64,
    /// Messages that the rows in between delivered.
    pub expected: i64,
    /// Messages that the log held.
    pub found: i64,
    /// Ids of some of these, at most [`FINDING_IDS_MAX`].
    pub ids: Vec<i64>,
}

/// Without the ids.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { lane, from_n, to_n, expected, found, .. } = self;
        let first = from_n + 1;
        write!(f, "lane {lane} delivered {expected} messages in batches {first} to {to_n} and the log held {found}")
    }
}

/// What a store could not do, and whether that says anything about its effect.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The connection is gone or the server is going away: connect again. The statement may have taken effect.
    #[error("the connection to the database was lost: {0}")]
    Lost(String),
    /// The server refused or cancelled the statement (timeout, lock, read-only): it had no effect.
    #[error("the database refused: {0}")]
    Refused(String),
    /// The source failed a check at connect; it stays unready until it is repaired.
    #[error("{reason}; {repair}")]
    Unfit {
        /// What is wrong, in words.
        reason: String,
        /// What to run or to do.
        repair: String,
    },
}

impl StoreError {
    /// Whether a statement that ended so may have taken effect.
    pub fn lost_reply(&self) -> bool {
        matches!(self, StoreError::Lost(_))
    }
}
