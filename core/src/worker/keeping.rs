//! Leases: claiming free lanes up to one's share, renewing, handing surplus over, releasing. One
//! statement at a time, on a session of its own.

use std::collections::VecDeque;
use std::time::Duration;

use super::lanes::{Held, Watched};
use super::settling::Page;
use super::{Action, Drain, Flow, LaneId, LossReason, Moment, Note, Reader, Sessions, Worker};
use crate::batch::BatchHead;
use crate::lane::{Generation, LaneRow, Survey};
use crate::share::share;

/// What the keeper's session is busy with, and what it does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Keeping {
    busy: Option<Op>,
    next_renew: Moment,
    next_survey: Moment,
    wanted: VecDeque<(LaneId, Option<(Generation, i64)>)>,
    /// Tries of the leave that failed.
    leaves_failed: u8,
}

/// A heartbeat that is left behind keeps its share of the lanes from everybody for a lease.
const LEAVE_TRIES: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Op {
    Survey,
    Claim(LaneId),
    Renew(Vec<(LaneId, Generation)>),
    Release,
    Leave,
}

/// Whether nothing of the lane is in flight. A page whose lanes were forgotten may have rows of any.
pub(super) fn lane_is_quiet(pages: &VecDeque<Page>, lane: LaneId) -> bool {
    pages.iter().all(|page| !page.parts.contains_key(&lane) && !page.parts.is_empty())
}

impl Keeping {
    pub(super) fn new() -> Self {
        let start = Duration::ZERO;
        Keeping { busy: None, next_renew: start, next_survey: start, wanted: VecDeque::new(), leaves_failed: 0 }
    }

    /// When the keeper has something to do by itself, of the kinds that it may do now.
    pub(super) fn next_wake(&self, surveys: bool, renews: bool) -> Moment {
        let due = |wanted: bool, at: Moment| if wanted { at } else { Moment::MAX };
        match self.busy {
            Some(_) => Moment::MAX,
            None => due(surveys, self.next_survey).min(due(renews, self.next_renew)),
        }
    }
}

impl Worker {
    pub(super) fn keep(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.keeping.busy.is_some() || self.draining >= Drain::Leaving {
            return;
        }
        let (op, action) = if let Some(next) = self.next_renewal(now) {
            next
        } else if let Some(next) = self.next_release() {
            next
        } else if self.draining != Drain::No {
            if !self.lanes.is_empty() {
                return;
            }
            self.draining = Drain::Leaving;
            (Op::Leave, Action::Leave)
        } else if let Some((lane, seen)) = self.next_claim() {
            (Op::Claim(lane), Action::Claim { lane, seen })
        } else if self.sessions == Sessions::Up && now >= self.keeping.next_survey {
            (Op::Survey, Action::Survey)
        } else {
            return;
        };
        self.keeping.busy = Some(op);
        out.push(action);
    }

    /// Renewal is bound to progress: a worker whose statements hang, or that can't get its sessions back,
    /// gives its lanes up. One that could serve no lane does not count itself among the relays.
    fn next_renewal(&mut self, now: Moment) -> Option<(Op, Action)> {
        if now < self.keeping.next_renew || !self.could_serve() {
            return None;
        }
        self.keeping.next_renew = now + self.terms.renew_every;
        let lease = self.terms.lease.lease;
        let reader_hangs = self.reader != Reader::Idle && now >= self.reader_since + lease;
        let mark_hangs = self.marking.as_ref().is_some_and(|marking| now >= marking.sent + lease);
        let gone = self.sessions != Sessions::Up && now >= self.sessions_since + lease;
        let no_producer = self.recovery.and_then(|recovery| recovery.broken_since).is_some_and(|at| now >= at + lease);
        if reader_hangs || mark_hangs || gone || no_producer {
            return None;
        }
        let lanes: Vec<_> = self.lanes.iter().map(|(lane, held)| (*lane, held.generation)).collect();
        Some((Op::Renew(lanes.clone()), Action::Renew(lanes)))
    }

    /// A heartbeat of one that is leaving would make the others hand lanes over to it.
    pub(super) fn could_serve(&self) -> bool {
        !self.lanes.is_empty() || self.sessions == Sessions::Up && self.draining == Drain::No
    }

    /// Lanes that are handed over and have nothing left to finish. They are no longer this relay's from
    /// the moment the release is sent.
    fn next_release(&mut self) -> Option<(Op, Action)> {
        let draining = self.draining != Drain::No;
        let dropping = self.draining == Drain::Dropping && self.sessions != Sessions::Up;
        let reads =
            |lane: LaneId| matches!(&self.reader, Reader::Reading(r) if r.lanes.iter().any(|(l, ..)| *l == lane));
        let done = |lane: LaneId, held: &Held| {
            let recorded =
                held.unrecorded.count.messages == 0 && !self.marking.as_ref().is_some_and(|marking| marking.has(lane));
            (draining || held.flow == Flow::HandingOver)
                && lane_is_quiet(&self.pages, lane)
                && !reads(lane)
                && (recorded || dropping)
        };
        let lanes: Vec<_> =
            self.lanes.iter().filter(|(l, h)| done(**l, h)).map(|(lane, held)| (*lane, held.generation)).collect();
        if lanes.is_empty() {
            return None;
        }
        for (lane, _) in &lanes {
            self.lanes.remove(lane);
        }
        Some((Op::Release, Action::Release(lanes)))
    }

    fn next_claim(&mut self) -> Option<(LaneId, Option<(Generation, i64)>)> {
        if self.sessions != Sessions::Up || self.recovery.is_some() {
            self.keeping.wanted.clear();
        }
        self.keeping.wanted.pop_front()
    }

    pub(super) fn surveyed(&mut self, survey: Survey, sent: Moment, now: Moment) {
        self.keeping.busy = None;
        self.keeping.next_survey = now + self.terms.survey_every;
        for row in &survey.lanes {
            let pair = (row.generation, row.expires_at_us);
            let owned = row.owner.is_some();
            let fresh = Watched { slots: row.slots.clone(), pair, owned, since: now };
            let watched = self.watched.entry(row.lane).or_insert_with(|| fresh.clone());
            if (watched.pair, watched.owned, &watched.slots) != (pair, owned, &row.slots) {
                *watched = fresh;
            }
        }
        if self.draining == Drain::No {
            self.balance(&survey, sent);
        }
    }

    /// Takes what is free while below one's share; hands over what is above it.
    fn balance(&mut self, survey: &Survey, sent: Moment) {
        let share = share(&self.me, survey);
        let staying = self.lanes.values().filter(|held| held.flow != Flow::HandingOver).count();
        let candidates = survey.lanes.iter().filter(|row| !self.lanes.contains_key(&row.lane));
        let free = candidates.filter_map(|row| self.claim_reason(row, sent).map(|seen| (row.lane, seen)));
        self.keeping.wanted = free.take(share.saturating_sub(staying)).collect();
        let surplus = staying.saturating_sub(share);
        let last_first = self.lanes.values_mut().rev().filter(|held| held.flow != Flow::HandingOver);
        last_first.take(surplus).for_each(|held| held.flow = Flow::HandingOver);
    }

    /// Whether a lane may be claimed: free or expired by the database's clock; this very process's by the
    /// table, after a reply was lost; or unchanged for a whole lease by one's own clock.
    fn claim_reason(&self, row: &LaneRow, sent: Moment) -> Option<Option<(Generation, i64)>> {
        if row.claimable {
            return Some(None);
        }
        let pair = (row.generation, row.expires_at_us?);
        let watched = self.watched.get(&row.lane)?;
        let silent = sent >= watched.since + self.terms.lease.silence();
        (silent || row.owner.as_ref() == Some(&self.me)).then_some(Some(pair))
    }

    pub(super) fn claimed(&mut self, head: Option<BatchHead>, sent: Moment, now: Moment, out: &mut Vec<Action>) {
        let Some(Op::Claim(lane)) = self.keeping.busy.take() else { return };
        let until = self.terms.lease.trusted_until(sent);
        // Without sessions or in the middle of a recovery it is taken anew later, under its own name. One
        // that comes during a drain is given back at once.
        let welcome = self.sessions == Sessions::Up && self.recovery.is_none() || self.draining != Drain::No;
        let (Some(head), Some(watched)) = (head, self.watched.get(&lane)) else { return };
        if !welcome || now >= until || head.lane != lane {
            return;
        }
        out.push(Action::Note(Note::Claimed { lane, generation: head.generation, takeover: watched.owned }));
        self.lanes.insert(lane, Held::new(watched.slots.clone(), &head, until));
        self.sight_pause = self.terms.sight_busy;
        self.next_sight = now;
    }

    pub(super) fn renewed(&mut self, lanes: &[LaneId], sent: Moment, now: Moment, out: &mut Vec<Action>) {
        let Some(Op::Renew(asked)) = self.keeping.busy.take() else { return };
        let until = self.terms.lease.trusted_until(sent);
        for (lane, generation) in asked {
            let Some(held) = self.lanes.get_mut(&lane).filter(|held| held.generation == generation) else { continue };
            if lanes.contains(&lane) {
                held.trusted_until = held.trusted_until.max(until);
            } else {
                self.lose(lane, LossReason::RenewalRejected, out);
            }
        }
        self.keeping.next_renew = self.keeping.next_renew.max(now + self.terms.renew_every / 2);
    }

    pub(super) fn released(&mut self, _lanes: &[LaneId], now: Moment) {
        self.keeping.busy = None;
        self.keeping.next_survey = self.keeping.next_survey.max(now + self.terms.survey_every / 2);
    }

    /// The statement failed or its reply was lost. A lease that may have been granted shows in the next
    /// survey; one that may not have been extended is not trusted longer.
    pub(super) fn keeper_failed(&mut self, now: Moment) {
        let soon = now + self.terms.renew_every / 8;
        match self.keeping.busy.take() {
            Some(Op::Renew(_)) => self.keeping.next_renew = soon,
            Some(Op::Leave) => {
                self.keeping.leaves_failed += 1;
                let again = self.keeping.leaves_failed < LEAVE_TRIES;
                self.draining = if again { Drain::Dropping } else { Drain::Finished };
            }
            _ => self.keeping.next_survey = soon,
        }
        self.keeping.wanted.clear();
    }
}
