//! What has time: the backlog for the metrics, and old batch rows. On a session of its own, so that a look that
//! takes long delays no renewal, and one that fails costs no lease.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::{Backoff, Happened, Trouble};
use crate::random::Random;
use crate::store::{LaneKeeper, LaneLag, Store, StoreError};

/// Batch rows that one pruning removes at most.
const PRUNE_ROWS: i64 = 5_000;

pub(super) struct Chores<S> {
    pub(super) store: Rc<S>,
    pub(super) lease: Duration,
    pub(super) told: UnboundedSender<Happened>,
}

impl<S: Store> Chores<S> {
    /// Does them once for all calls that came meanwhile, until the channel closes.
    pub(super) async fn run(self, mut calls: UnboundedReceiver<()>, mut backoff: Backoff) {
        let mut random = Random::default();
        let mut session = None;
        while calls.recv().await.is_some() {
            while calls.try_recv().is_ok() {}
            match self.once(&mut session).await {
                Ok(lag) => {
                    backoff.reset();
                    self.send(Happened::Lag(lag));
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

    async fn once(&self, session: &mut Option<S::Keeper>) -> Result<Vec<LaneLag>, StoreError> {
        let keeper = match session {
            Some(keeper) => keeper,
            None => session.insert(self.store.keeper().await?),
        };
        let lag = keeper.lag().await?;
        keeper.prune(self.lease, PRUNE_ROWS).await?;
        Ok(lag)
    }

    fn send(&self, happened: Happened) {
        // A loop that is gone needs no news.
        let _ = self.told.send(happened);
    }
}
