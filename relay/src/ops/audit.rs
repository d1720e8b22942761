//! Looking at what the completeness audit found, and closing it.

use fencepost_core::lane::LaneId;
use serde::Serialize;

use super::lane::seconds;
use crate::store::StoreError;
use crate::store::admin::{Admin, FindingStatus};

/// Longest reason and longest name of an actor, in bytes: as the schema has it.
const REASON_BYTES_MAX: usize = 2_000;
const ACTOR_BYTES_MAX: usize = 255;

/// A finding as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingLine {
    /// Lane whose window it is.
    pub lane: i16,
    /// Number of the batch row where the window begins.
    pub from_n: i64,
    /// Number of the batch row where it ends: with the lane, the finding's name.
    pub to_n: i64,
    /// Messages that were delivered.
    pub expected: i64,
    /// Messages that the log held.
    pub found: i64,
    /// Ids of some of these.
    pub ids: Vec<i64>,
    /// Since it was found.
    pub age_seconds: f64,
    /// Who closed it; none: it is open.
    pub closed_by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

impl From<FindingStatus> for FindingLine {
    fn from(status: FindingStatus) -> Self {
        let (closed_by, reason) = status.closed.map(|closed| (closed.by, closed.reason)).unzip();
        FindingLine {
            lane: status.finding.lane.0,
            from_n: status.finding.from_n,
            to_n: status.finding.to_n,
            expected: status.finding.expected,
            found: status.finding.found,
            ids: status.finding.ids,
            age_seconds: seconds(status.age_ms),
            closed_by,
            reason,
        }
    }
}

/// The open findings of a source, or all.
///
/// # Errors
/// Of the store.
pub async fn list(admin: &mut impl Admin, all: bool) -> Result<Vec<FindingLine>, StoreError> {
    Ok(admin.findings(all).await?.into_iter().map(FindingLine::from).collect())
}

/// Why a finding was not closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing was changed.
    #[error("{0}")]
    Refused(String),
}

/// Closes a finding. After a lost reply look again: a closed one is refused and stays as it was closed.
///
/// # Errors
/// An empty or overlong reason or name, and a finding that is not there or closed already, are refused.
pub async fn close(
    admin: &mut impl Admin,
    lane: LaneId,
    to_n: i64,
    actor: &str,
    reason: &str,
) -> Result<(), CloseError> {
    let (actor, reason) = (actor.trim(), reason.trim());
    if actor.is_empty() || actor.len() > ACTOR_BYTES_MAX {
        return Err(CloseError::Refused(format!("the actor's name must have 1 to {ACTOR_BYTES_MAX} bytes")));
    }
    if reason.is_empty() || reason.len() > REASON_BYTES_MAX {
        return Err(CloseError::Refused(format!("the reason must have 1 to {REASON_BYTES_MAX} bytes")));
    }
    if !admin.close_finding(lane, to_n, actor, reason).await? {
        let text = format!("lane {lane} has no open finding that ends at batch {to_n}; see: fencepost audit list");
        return Err(CloseError::Refused(text));
    }
    tracing::info!(lane = lane.0, to_n, actor, reason, "audit finding closed");
    Ok(())
}
