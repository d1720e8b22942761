//! Rows of the batch log: what a mark writes and what a lane's newest row tells.
//!
//! At-least-once mode writes `fence` rows (a claim copies the newest row) and `mark` rows. The newest
//! row of a lane is its position *and* its fence: whoever writes row n+1 has it.

use std::time::Duration;

use crate::lane::{Generation, LaneId, Tag};
use crate::position::Position;

/// One row of a mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkRow {
    /// Which lane.
    pub lane: LaneId,
    /// Its next number: the newest row that was loaded or written, plus one. Never a fresh maximum.
    pub n: i64,
    /// The generation under which the batch was published.
    pub generation: Generation,
    /// Where the lane stands now.
    pub position: Position,
    /// Messages that the row delivers; 0 for a row that only moves the position on.
    pub messages: i64,
    /// Their bytes.
    pub bytes: i64,
    /// From the first message's read to the last acknowledgement.
    pub took: Duration,
}

/// The newest row of a lane's batch log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchHead {
    /// Which lane.
    pub lane: LaneId,
    /// Its number.
    pub n: i64,
    /// Generation of its writer.
    pub generation: Generation,
    /// Tag of the statement that wrote it.
    pub tag: Tag,
    /// Where the lane stands.
    pub position: Position,
}
