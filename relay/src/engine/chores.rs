//! What has time: the backlog for the metrics, old batch rows, and the audit. On a session of its own, so that a
//! look that takes long delays no renewal, and one that fails costs no lease.

use std::rc::Rc;
use std::time::Duration;

use fencepost_core::lane::{LaneId, Owner};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::audit::{Audit, Audited};
use super::{Backoff, Happened, Trouble};
use crate::random::Random;
use crate::store::{Finding, Housekeeper, LaneLag, Store, StoreError};

/// Batch rows that one pruning removes at most.
const PRUNE_ROWS: i64 = 5_000;

pub(super) struct Chores<S> {
    pub(super) store: Rc<S>,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    pub(super) told: UnboundedSender<Happened>,
}

/// What they found.
#[derive(Debug)]
pub(super) struct Done {
    /// Backlog by lane.
    pub(super) lag: Vec<LaneLag>,
    /// Of the held lanes.
    pub(super) audited: Audited,
    /// Findings that nobody has closed, of all lanes.
    pub(super) findings: Vec<Finding>,
}

impl<S: Store> Chores<S> {
    /// Does them once for all calls that came meanwhile, until the channel closes. A call names the held lanes.
    pub(super) async fn run(self, mut calls: UnboundedReceiver<Vec<LaneId>>, mut backoff: Backoff) {
        let mut random = Random::default();
        let mut session = None;
        let mut audit = Audit::default();
        while let Some(mut lanes) = calls.recv().await {
            while let Ok(newer) = calls.try_recv() {
                lanes = newer;
            }
            match self.once(&mut session, &mut audit, &lanes).await {
                Ok(done) => {
                    backoff.reset();
                    self.send(Happened::Chores(done));
                }
                Err(error) => {
                    if !matches!(error, StoreError::Refused(_)) {
                        session = None;
                    }
                    self.send(Happened::Trouble(Trouble::chore(&error)));
                    backoff.wait(&mut random).await;
                }
            }
        }
    }

    async fn once(
        &self,
        session: &mut Option<S::Keeper>,
        audit: &mut Audit,
        lanes: &[LaneId],
    ) -> Result<Done, StoreError> {
        let keeper = match session {
            Some(keeper) => keeper,
            None => session.insert(self.store.keeper().await?),
        };
        let lag = keeper.lag().await?;
        keeper.prune(self.lease, PRUNE_ROWS).await?;
        let audited = audit.turn(keeper, &self.owner, lanes).await?;
        let findings = keeper.findings().await?;
        Ok(Done { lag, audited, findings })
    }

    fn send(&self, happened: Happened) {
        // A loop that is gone needs no news.
        let _ = self.told.send(happened);
    }
}
