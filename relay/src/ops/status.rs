//! One look at a source: its lanes in sum, and the relays that serve it.

use serde::Serialize;

use super::audit::{self, FindingLine};
use super::lane::seconds;
use crate::store::StoreError;
use crate::store::admin::{Admin, LaneStatus, RelayStatus};

/// A source in sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceSummary {
    /// Its UUID; none if the origin row is gone.
    pub source_id: Option<String>,
    /// Newest migration.
    pub schema_version: i32,
    /// Newest id that was given out.
    pub newest_id: i64,
    /// How many lanes there are.
    pub lanes: usize,
    /// How many have an unexpired lease.
    pub lanes_held: usize,
    /// Lanes without a position, which no relay can serve.
    pub lanes_without_position: Vec<i16>,
    /// Messages that wait; an upper bound.
    pub backlog: i64,
    /// Age of the oldest of them.
    pub oldest_seconds: Option<f64>,
    /// What the audit found and nobody has closed.
    pub findings: Vec<FindingLine>,
    /// Relays that left a heartbeat.
    pub relays: Vec<RelayLine>,
}

/// A relay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelayLine {
    /// Its name.
    pub owner: String,
    /// Since its start.
    pub up_seconds: f64,
    /// Since its last heartbeat.
    pub seen_seconds: f64,
    /// Lanes that it holds.
    pub lanes: i64,
}

/// Looks at a source.
///
/// # Errors
/// Of the store.
pub async fn look(admin: &mut impl Admin) -> Result<SourceSummary, StoreError> {
    let facts = admin.facts().await?;
    let lanes = admin.lanes().await?;
    let relays = admin.relays().await?;
    let findings = audit::list(admin, false).await?;
    let without = lanes.iter().filter(|lane| lane.position.is_none()).map(|lane| lane.lane.0);
    Ok(SourceSummary {
        source_id: facts.source_id.map(|id| id.to_string()),
        schema_version: facts.schema_version,
        newest_id: facts.newest_id,
        lanes: lanes.len(),
        lanes_held: lanes.iter().filter(|lane| lane.is_leased()).count(),
        lanes_without_position: without.collect(),
        backlog: lanes.iter().map(|lane| lane.backlog).sum(),
        oldest_seconds: oldest_seconds(&lanes),
        findings,
        relays: relays.iter().map(RelayLine::from).collect(),
    })
}

fn oldest_seconds(lanes: &[LaneStatus]) -> Option<f64> {
    lanes.iter().filter_map(|lane| lane.oldest).max().map(|oldest| oldest.as_secs_f64())
}

impl From<&RelayStatus> for RelayLine {
    fn from(relay: &RelayStatus) -> Self {
        RelayLine {
            owner: relay.owner.0.to_string(),
            up_seconds: seconds(relay.up_ms),
            seen_seconds: seconds(relay.seen_ms),
            lanes: relay.lanes,
        }
    }
}
