//! What a relay's three sessions do in the database.

use fencepost_core::lane::LaneId;
use fencepost_core::worker::{Action, Input};

use super::{KeeperOp, Mark, MarkerOp, Mutation, ReaderOp, World};
use crate::database::PendingMark;
use crate::verdict::{Event, Violation};

impl World {
    /// The outstanding read runs and is answered.
    pub fn run_reader(&mut self, index: usize) {
        match self.relays[index].reader.take() {
            Some(ReaderOp::Sight) => {
                self.events.push(Event::Sight);
                let sighting = self.db.sight();
                self.step(index, Input::Sighted(sighting));
            }
            Some(ReaderOp::Burn) => {
                self.events.push(Event::Burn);
                self.db.burn();
                self.step(index, Input::Burnt);
            }
            Some(ReaderOp::Page(request)) => self.read_page(index, &request),
            None => {}
        }
    }

    /// The outstanding look or transaction id is refused; its session lives.
    pub fn refuse_read(&mut self, index: usize) {
        if matches!(self.relays[index].reader, Some(ReaderOp::Sight | ReaderOp::Burn)) {
            self.relays[index].reader = None;
            self.step(index, Input::ReadFailed);
        }
    }

    /// The outstanding mark passes its lease check, and stalls.
    pub fn check_mark(&mut self, index: usize) {
        if let Some(MarkerOp::Mark(mark)) = self.relays[index].marker.take() {
            let pending = self.db.check_mark(&self.relays[index].owner, mark.tag, &mark.rows);
            self.relays[index].marker = Some(MarkerOp::Checked(mark, pending));
        }
    }

    /// The outstanding statement of the marking session runs to its end and is answered.
    pub fn run_marker(&mut self, index: usize) {
        match self.relays[index].marker.take() {
            Some(MarkerOp::Mark(mark)) => {
                let pending = self.db.check_mark(&self.relays[index].owner, mark.tag, &mark.rows);
                self.finish_mark(index, &mark, &pending);
            }
            Some(MarkerOp::Checked(mark, pending)) => self.finish_mark(index, &mark, &pending),
            Some(MarkerOp::Newest(lanes)) => {
                let heads = self.db.heads(&lanes);
                let tags: Vec<_> =
                    self.relays[index].worker.lanes().map(|view| (view.lane, view.position.clone())).collect();
                if heads.iter().any(|head| tags.iter().any(|(lane, at)| *lane == head.lane && *at != head.position)) {
                    self.events.push(Event::LostReplySaved);
                }
                self.step(index, Input::Newest(heads));
            }
            None => {}
        }
    }

    fn finish_mark(&mut self, index: usize, mark: &Mark, pending: &PendingMark) {
        let mut saved = self.land(mark, pending);
        if self.mutation == Mutation::AnyTag {
            let mine = |row: &&fencepost_core::batch::MarkRow| {
                self.db.newest(row.lane).is_some_and(|(n, newest)| n == row.n && newest.generation == row.generation)
            };
            saved = mark.rows.iter().filter(mine).map(|row| row.lane).collect();
        }
        if saved.len() < mark.rows.len() {
            self.events.push(Event::MarkRejected);
        }
        self.step(index, Input::Marked(saved));
    }

    /// The outstanding mark is refused as a whole and has no effect; its session lives.
    pub fn refuse_mark(&mut self, index: usize) {
        if let Some(MarkerOp::Mark(_)) = self.relays[index].marker {
            self.relays[index].marker = None;
            self.step(index, Input::MarkRefused);
        }
    }

    /// A mark whose sender no longer waits passes its lease check, and stalls.
    pub fn check_orphan(&mut self, orphan: usize) {
        let (mark, pending, owner) = &mut self.orphans[orphan];
        *pending = Some(self.db.check_mark(owner, mark.tag, &mark.rows));
    }

    /// A mark whose sender no longer waits lands.
    pub fn land_orphan(&mut self, orphan: usize) {
        let (mark, pending, owner) = self.orphans.remove(orphan);
        let pending = pending.unwrap_or_else(|| self.db.check_mark(&owner, mark.tag, &mark.rows));
        if !self.land(&mark, &pending).is_empty() {
            self.events.push(Event::LateMarkLanded);
        }
    }

    /// The insert of a mark, judged.
    fn land(&mut self, mark: &Mark, pending: &PendingMark) -> Vec<LaneId> {
        let before: Vec<(LaneId, i64)> = mark.rows.iter().map(|row| (row.lane, self.newest_n(row.lane))).collect();
        let saved = self.db.land_mark(pending);
        for row in &pending.rows {
            let is_current = self.db.lane(row.lane).generation == row.generation;
            match saved.contains(&row.lane) {
                true if !is_current => self.verdict.add(Violation::Stale),
                true => self.events.push(Event::Mark),
                false if !is_current => self.events.push(Event::StalledMarkRefused),
                false => {}
            }
        }
        if !saved.is_empty() {
            self.events.push(Event::MarkStatement);
        }
        let gap = |(lane, n): &(LaneId, i64)| saved.contains(lane) && self.newest_n(*lane) != n + 1;
        if before.iter().any(gap) {
            self.verdict.add(Violation::Gap);
        }
        self.judge_positions(&saved);
        saved
    }

    fn newest_n(&self, lane: LaneId) -> i64 {
        self.db.newest(lane).map_or(-1, |(n, _)| n)
    }

    /// The outstanding statement of the keeping session runs; nobody is told yet.
    pub fn execute_keeper(&mut self, index: usize) {
        let Some(mut op) = self.relays[index].keeper.take() else { return };
        if op.reply.is_none() {
            op.reply = self.keep(index, &mut op);
        }
        self.relays[index].keeper = Some(op);
    }

    /// The reply of the keeping session arrives.
    pub fn answer_keeper(&mut self, index: usize) {
        let has_reply = self.relays[index].keeper.as_ref().is_some_and(|op| op.reply.is_some());
        let Some(op) = self.relays[index].keeper.take_if(|_| has_reply) else { return };
        let Some(mut reply) = op.reply else { return };
        if self.mutation == Mutation::TrustFromReply {
            let now = self.moment(index);
            if let Input::Claimed { sent, .. } | Input::Renewed { sent, .. } = &mut reply {
                *sent = now;
            }
        }
        self.step(index, reply);
    }

    /// The outstanding statement of the keeping session runs and is answered.
    pub fn run_keeper(&mut self, index: usize) {
        self.execute_keeper(index);
        self.answer_keeper(index);
    }

    /// The keeping session is lost, whether its statement has run or not.
    pub fn fail_keeper(&mut self, index: usize) {
        if self.relays[index].keeper.take().is_some() {
            self.step(index, Input::KeeperFailed);
        }
    }

    fn keep(&mut self, index: usize, op: &mut KeeperOp) -> Option<Input> {
        let owner = self.relays[index].owner.clone();
        let (lease, sent) = (self.terms.lease.lease, op.sent);
        Some(match &op.action {
            Action::Survey => Input::Surveyed { survey: self.db.survey(lease), sent },
            Action::Renew(lanes) => {
                let lanes = self.db.renew(&owner, lanes, lease);
                self.db.beat(&owner);
                Input::Renewed { lanes, sent }
            }
            Action::Release(lanes) => {
                self.events.push(Event::Release);
                Input::Released(self.db.release(&owner, lanes))
            }
            Action::Leave => {
                self.db.leave(&owner);
                Input::Left
            }
            Action::Claim { lane, seen } => {
                let (lane, seen) = (*lane, *seen);
                if !op.split {
                    let former = self.db.lane(lane).owner.clone();
                    let Some(_) = self.db.take_lease(&owner, lane, seen, lease) else {
                        self.events.push(Event::ClaimLost);
                        return Some(Input::Claimed { head: None, sent });
                    };
                    self.events.push(Event::Claim);
                    if former.is_some_and(|former| former != owner) {
                        self.events.push(Event::Takeover);
                    }
                    if self.mutation == Mutation::SplitClaim {
                        op.split = true;
                        return None;
                    }
                }
                Input::Claimed { head: self.db.write_fence(&owner, lane), sent }
            }
            _ => return None,
        })
    }
}
