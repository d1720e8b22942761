//! The session that keeps leases: one command at a time, on a connection of its own, so that neither a
//! slow page nor a slow mark delays a renewal.

use std::rc::Rc;
use std::time::Duration;

use fencepost_core::lane::{Generation, LaneId, Owner};
use fencepost_core::worker::Input;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::{Backoff, Happened, Trouble};
use crate::clock::Clock;
use crate::failpoint;
use crate::random::Random;
use crate::store::{LaneKeeper, Store, StoreError};

/// What troubles call this session.
const PART: &str = "lease";

#[derive(Debug)]
pub(super) enum Keep {
    Survey,
    Claim { lane: LaneId, seen: Option<(Generation, i64)> },
    Renew(Vec<(LaneId, Generation)>),
    Release(Vec<(LaneId, Generation)>),
    Leave,
}

pub(super) struct Keeper<S> {
    pub(super) store: Rc<S>,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    pub(super) clock: Clock,
    pub(super) told: UnboundedSender<Happened>,
}

impl<S: Store> Keeper<S> {
    /// Serves commands until the channel closes.
    pub(super) async fn run(self, mut commands: UnboundedReceiver<Keep>, mut backoff: Backoff) {
        let mut random = Random::default();
        let mut session: Option<S::Keeper> = None;
        let mut well = true;
        while let Some(command) = commands.recv().await {
            match self.serve(&mut session, command).await {
                Ok(input) => {
                    backoff.reset();
                    if !std::mem::replace(&mut well, true) {
                        self.send(Happened::Recovered(PART));
                    }
                    self.send(Happened::Input(input));
                }
                Err(error) => {
                    if !matches!(error, StoreError::Refused(_)) {
                        session = None;
                    }
                    well = false;
                    self.send(Happened::Trouble(Trouble::of(PART, error)));
                    if session.is_none() {
                        backoff.wait(&mut random).await;
                    }
                    self.send(Happened::Input(Input::KeeperFailed));
                }
            }
        }
    }

    async fn serve(&self, session: &mut Option<S::Keeper>, command: Keep) -> Result<Input, StoreError> {
        let keeper = match session {
            Some(keeper) => keeper,
            None => session.insert(self.store.keeper().await?),
        };
        let sent = self.clock.now();
        Ok(match command {
            Keep::Survey => Input::Surveyed { survey: keeper.survey(self.lease).await?, sent },
            Keep::Claim { lane, seen } => {
                failpoint::hit(failpoint::BEFORE_CLAIM);
                let head = keeper.claim(&self.owner, lane, seen, self.lease).await?;
                failpoint::hit(failpoint::AFTER_CLAIM);
                Input::Claimed { head, sent }
            }
            Keep::Renew(lanes) => {
                failpoint::hit(failpoint::BEFORE_RENEW);
                let lanes = match lanes.is_empty() {
                    true => Vec::new(),
                    false => keeper.renew(&self.owner, &lanes, self.lease).await?,
                };
                keeper.beat(&self.owner).await?;
                failpoint::hit(failpoint::AFTER_RENEW);
                Input::Renewed { lanes, sent }
            }
            Keep::Release(lanes) => {
                failpoint::hit(failpoint::BEFORE_RELEASE);
                let lanes = keeper.release(&self.owner, &lanes).await?;
                failpoint::hit(failpoint::AFTER_RELEASE);
                Input::Released(lanes)
            }
            Keep::Leave => {
                keeper.leave(&self.owner).await?;
                Input::Left
            }
        })
    }

    fn send(&self, happened: Happened) {
        let _ = self.told.send(happened);
    }
}
