//! Looking at lanes, and repairing them.

use fencepost_core::lane::LaneId;
use serde::Serialize;

use crate::store::StoreError;
use crate::store::admin::{Admin, InitError, InitLanes, InitReport, LaneStatus};

/// A lane as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneLine {
    /// Its number.
    pub lane: i16,
    /// First and last slot.
    pub slots: (u8, u8),
    /// Who holds it, if anybody.
    pub owner: Option<String>,
    /// Of its lease.
    pub generation: i64,
    /// Until the lease ends; negative: it has ended.
    pub lease_seconds: Option<f64>,
    /// Since the owner's last heartbeat.
    pub owner_seen_seconds: Option<f64>,
    /// Number of its newest batch row; none: it has no position.
    pub n: Option<i64>,
    /// Ids up to here are delivered, but for transactions that were open.
    pub delivered_to: Option<i64>,
    /// Messages that wait, an upper bound.
    pub backlog: i64,
    /// Age of the oldest of them.
    pub oldest_seconds: Option<f64>,
}

impl From<&LaneStatus> for LaneLine {
    fn from(lane: &LaneStatus) -> Self {
        LaneLine {
            lane: lane.lane.0,
            slots: (*lane.slots.start(), *lane.slots.end()),
            owner: lane.owner.as_ref().map(|owner| owner.0.to_string()),
            generation: lane.generation.0,
            lease_seconds: lane.lease_ms.map(seconds),
            owner_seen_seconds: lane.owner_seen_ms.map(seconds),
            n: lane.position.map(|position| position.n),
            delivered_to: lane.position.map(|position| position.delivered_to),
            backlog: lane.backlog,
            oldest_seconds: lane.oldest.map(|oldest| oldest.as_secs_f64()),
        }
    }
}

/// Milliseconds as seconds; exact up to 2^53.
pub(super) fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

/// Every lane of a source.
///
/// # Errors
/// Of the store.
pub async fn list(admin: &mut impl Admin) -> Result<Vec<LaneLine>, StoreError> {
    Ok(admin.lanes().await?.iter().map(LaneLine::from).collect())
}

/// Makes lanes and positions that are missing.
///
/// # Errors
/// A refusal changes nothing. After a lost reply run it again: what was done is not done twice.
pub async fn init(admin: &mut impl Admin, init: InitLanes) -> Result<InitReport, InitError> {
    let report = admin.init_lanes(init).await?;
    if !init.dry_run {
        let lanes: Vec<_> = report.positioned.iter().map(|lane| lane.0).collect();
        tracing::info!(?lanes, made = report.made.len(), after_id = init.at.id(), "lanes initialised");
    }
    Ok(report)
}

/// Why a lane was not freed.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing was changed.
    #[error("{0}")]
    Refused(String),
}

/// Frees a lane whose owner is gone. Returns who held it; `None` if it was free.
///
/// # Errors
/// A live owner keeps its lane unless `force`: it would lose it with messages in flight, which are then
/// sent again. A claim or renewal in between is a refusal too.
pub async fn release(admin: &mut impl Admin, lane: LaneId, force: bool) -> Result<Option<String>, ReleaseError> {
    let lanes = admin.lanes().await?;
    let Some(seen) = lanes.iter().find(|one| one.lane == lane) else {
        let last = lanes.last().map_or(0, |last| last.lane.0);
        return Err(ReleaseError::Refused(format!("there is no lane {lane}; lanes go up to {last}")));
    };
    let Some(owner) = &seen.owner else { return Ok(None) };
    if is_alive(seen) && !force {
        let text = format!(
            "{} holds lane {lane} and is alive: it was seen {:.1} s ago; stop that relay, or add --force (messages in flight are then sent again)",
            owner.0,
            seconds(seen.owner_seen_ms.unwrap_or(0))
        );
        return Err(ReleaseError::Refused(text));
    }
    if !admin.release_lane(lane, owner, seen.generation).await? {
        return Err(ReleaseError::Refused(format!(
            "lane {lane} changed hands meanwhile; look again: fencepost lane list"
        )));
    }
    Ok(Some(owner.0.to_string()))
}

/// A relay renews and beats together. Its lease stands and its last beat is younger than what the lease has left
/// to run or has run already: an owner that died has missed beats by then.
fn is_alive(lane: &LaneStatus) -> bool {
    /// Beats come at least every half of a lease, and a lease lasts at least a second.
    const SILENCE_MS_MIN: i64 = 1_000;
    match (lane.lease_ms, lane.owner_seen_ms) {
        (Some(left), Some(seen)) => left > 0 && seen <= left.max(SILENCE_MS_MIN),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use fencepost_core::lane::{Generation, Owner};

    use super::*;
    use crate::store::admin::{FindingStatus, RelayStatus, SourceFacts};

    /// One lane, and whether the compare-and-set finds it as it was seen.
    struct OneLane {
        lane: LaneStatus,
        unchanged: bool,
        released: bool,
    }

    impl Admin for OneLane {
        async fn facts(&mut self) -> Result<SourceFacts, StoreError> {
            Ok(SourceFacts { source_id: None, schema_version: 1, newest_id: 0 })
        }
        async fn lanes(&mut self) -> Result<Vec<LaneStatus>, StoreError> {
            Ok(vec![self.lane.clone()])
        }
        async fn relays(&mut self) -> Result<Vec<RelayStatus>, StoreError> {
            Ok(Vec::new())
        }
        async fn init_lanes(&mut self, _: InitLanes) -> Result<InitReport, InitError> {
            Ok(InitReport::default())
        }
        async fn findings(&mut self, _: bool) -> Result<Vec<FindingStatus>, StoreError> {
            Ok(Vec::new())
        }
        async fn close_finding(&mut self, _: LaneId, _: i64, _: &str, _: &str) -> Result<bool, StoreError> {
            Ok(false)
        }
        async fn release_lane(&mut self, _: LaneId, owner: &Owner, generation: Generation) -> Result<bool, StoreError> {
            self.released =
                self.unchanged && self.lane.owner.as_ref() == Some(owner) && self.lane.generation == generation;
            ready(Ok(self.released)).await
        }
    }

    fn held(lease_ms: Option<i64>, seen_ms: Option<i64>) -> OneLane {
        let lane = LaneStatus {
            lane: LaneId(3),
            slots: 96..=127,
            owner: lease_ms.map(|_| Owner("a-1".into())),
            generation: Generation(7),
            lease_ms,
            owner_seen_ms: seen_ms,
            position: None,
            backlog: 0,
            oldest: None,
        };
        OneLane { lane, unchanged: true, released: false }
    }

    #[tokio::test]
    async fn a_live_owner_keeps_its_lane_unless_forced() {
        let mut alive = held(Some(12_000), Some(3_000));
        let why = release(&mut alive, LaneId(3), false).await.expect_err("alive").to_string();
        assert!(why.contains("a-1 holds lane 3 and is alive") && !alive.released, "{why}");
        assert_eq!(release(&mut alive, LaneId(3), true).await.expect("forced"), Some("a-1".into()));
        assert!(alive.released);
    }

    #[tokio::test]
    async fn a_gone_owners_lane_is_freed() {
        for (lease, seen) in [(Some(4_000), None), (Some(4_000), Some(11_000)), (Some(-5), Some(100))] {
            let mut gone = held(lease, seen);
            assert_eq!(
                release(&mut gone, LaneId(3), false).await.expect("gone"),
                Some("a-1".into()),
                "{lease:?} {seen:?}"
            );
        }
        assert_eq!(release(&mut held(None, None), LaneId(3), false).await.expect("free"), None);
    }

    #[tokio::test]
    async fn what_changed_meanwhile_is_not_touched() {
        let mut raced = OneLane { unchanged: false, ..held(Some(-5), None) };
        let why = release(&mut raced, LaneId(3), false).await.expect_err("raced").to_string();
        assert!(why.contains("changed hands"), "{why}");
        release(&mut raced, LaneId(4), false).await.expect_err("no such lane");
    }
}
