//! The completeness audit as a chore: a sample of what the held lanes delivered is counted again, by transaction
//! ids. Which stretch is counted is decided in `core`.

use std::collections::BTreeMap;

use fencepost_core::audit::{Window, choose};
use fencepost_core::lane::{LaneId, Owner};

use crate::store::{Finding, Housekeeper, StoreError};

/// Ids that one turn goes over at most, and messages that one count looks at: about ten milliseconds of the database's.
const IDS_MAX: i64 = 20_000;
/// Batch rows of a lane that one turn reads at most.
const ROWS_MAX: i64 = 1_000;

/// What the turns of one source remember.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Number of the batch row behind which each lane is looked at next.
    resume: BTreeMap<LaneId, i64>,
    /// The lane that was looked at last.
    last: Option<LaneId>,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub(super) struct Audited {
    /// Windows that were counted.
    pub(super) windows: u64,
    /// Messages that they held.
    pub(super) messages: i64,
    /// Differences.
    pub(super) differences: Vec<Finding>,
}

impl Audit {
    /// Goes round the held lanes, each once at most, until enough was counted.
    pub(super) async fn turn<K: Housekeeper>(
        &mut self,
        keeper: &mut K,
        owner: &Owner,
        lanes: &[LaneId],
    ) -> Result<Audited, StoreError> {
        self.resume.retain(|lane, _| lanes.contains(lane));
        let mut audited = Audited::default();
        let mut left = IDS_MAX;
        for lane in self.round(lanes) {
            if left <= 0 {
                break;
            }
            self.last = Some(lane);
            let from = self.resume.get(&lane).copied().unwrap_or(0);
            let rows = keeper.recorded(lane, from, ROWS_MAX).await?;
            let Some(choice) = choose(lane, &rows, IDS_MAX) else { continue };
            if let Some(window) = &choice.window
                && let Some(found) = count(keeper, window).await?
            {
                left -= window.ids();
                audited.windows += 1;
                audited.messages += found;
                if found != window.expected {
                    audited.differences.push(keeper.report(owner, window, found).await?);
                }
            }
            // Not before it is reported: a turn that failed is repeated.
            self.resume.insert(lane, choice.resume);
        }
        Ok(audited)
    }

    /// All lanes, beginning behind the one that was looked at last.
    fn round(&self, lanes: &[LaneId]) -> Vec<LaneId> {
        let mut sorted = lanes.to_vec();
        sorted.sort_unstable();
        let behind = sorted.iter().position(|lane| Some(*lane) > self.last).unwrap_or(0);
        sorted.rotate_left(behind);
        sorted
    }
}

/// A count that takes too long is one of too much: the lane's next window may be lighter.
async fn count<K: Housekeeper>(keeper: &mut K, window: &Window) -> Result<Option<i64>, StoreError> {
    match keeper.count(window, IDS_MAX).await {
        Err(StoreError::Refused(_)) => Ok(None),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_its_turn() {
        let lanes = [LaneId(5), LaneId(1), LaneId(3)];
        let from = |last: Option<i16>| {
            let audit = Audit { last: last.map(LaneId), ..Audit::default() };
            audit.round(&lanes).iter().map(|lane| lane.0).collect::<Vec<_>>()
        };
        assert_eq!(from(None), [1, 3, 5]);
        assert_eq!(from(Some(1)), [3, 5, 1]);
        assert_eq!(from(Some(4)), [5, 1, 3], "a lane that is gone");
        assert_eq!(from(Some(5)), [1, 3, 5]);
        assert_eq!(Audit::default().round(&[]), []);
    }
}
