//! What goes into a step and what comes out of it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Flow;
use crate::batch::{BatchHead, MarkRow};
use crate::failure::Outcome;
use crate::lane::{Generation, LaneId, LeaseTerms, Moment, Slots, Survey, Tag};
use crate::page::{PageEnd, PagePlan};
use crate::position::{Position, Sighting};

/// The numbers that a worker works by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Leases and how far they are trusted.
    pub lease: LeaseTerms,
    /// Between renewals (and heartbeats); a third of the lease.
    pub renew_every: Duration,
    /// Between looks at the lease table.
    pub survey_every: Duration,
    /// Delivered batches wait at most so long to be merged into one mark.
    pub mark_interval: Duration,
    /// Between looks at the log while messages flow.
    pub sight_busy: Duration,
    /// The pause between looks grows up to this at rest.
    pub sight_idle: Duration,
    /// Least time between transaction ids that are taken for ticks alone.
    pub burn_interval: Duration,
    /// Most rows of a page.
    pub page_rows: u32,
    /// Bytes that a page should not exceed; one row always goes.
    pub page_bytes: u64,
    /// Pages that may wait for outcomes at once.
    pub page_slots: usize,
    /// An in-flight page older than this is purged and sent again.
    pub delivery_deadline: Duration,
    /// Pause after the first failure in a row; doubles up to `backoff_cap`.
    pub backoff_base: Duration,
    /// Longest pause after failures in a row, and between tries of a route.
    pub backoff_cap: Duration,
    /// A lane without messages writes its position down once the log has moved on by so many ids.
    pub idle_mark_ids: i64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time passed.
    Timer,
    /// Both sessions (reading and marking) are new.
    Connected,
    /// One of them was lost; the other was dropped with it. Replies that were awaited won't come; what a
    /// page took before has been reported.
    Disconnected,
    /// Reply to [`Action::LoadNewest`].
    Newest(Vec<BatchHead>),
    /// Reply to [`Action::Sight`].
    Sighted(Sighting),
    /// Reply to [`Action::Burn`].
    Burnt,
    /// [`Action::Sight`] or [`Action::Burn`] was refused (a timeout); the session lives.
    ReadFailed,
    /// [`Action::ReadPage`] ended.
    PageRead(PageReport),
    /// Every outcome of a page that sent rows is known.
    Settled(SettledPage),
    /// Reply to [`Action::Mark`]: the lanes that were written. Any other was refused by the compare-and-set.
    Marked(Vec<LaneId>),
    /// [`Action::Mark`] was refused as a whole (a timeout, a lock) and had no effect; the session lives.
    MarkRefused,
    /// Reply to [`Action::Survey`]; `sent` is when the statement was sent.
    Surveyed {
        /// What the tables show.
        survey: Survey,
        /// When it was asked for.
        sent: Moment,
    },
    /// Reply to [`Action::Claim`]; `None`: somebody else was faster.
    Claimed {
        /// The fence row.
        head: Option<BatchHead>,
        /// When the claim was sent: the trust in the lease counts from here.
        sent: Moment,
    },
    /// Reply to [`Action::Renew`].
    Renewed {
        /// The lanes whose lease was extended.
        lanes: Vec<LaneId>,
        /// When the renewal was sent: the trust in the lease counts from here.
        sent: Moment,
    },
    /// Reply to [`Action::Release`]: the lanes that were given back. Any other was no longer this relay's.
    Released(Vec<LaneId>),
    /// Reply to [`Action::Leave`], or it was given up.
    Left,
    /// The outstanding statement of the keeper failed or its reply was lost.
    KeeperFailed,
    /// The answer to [`Action::Resume`] was no: only a rebuild helps.
    Broken,
    /// Reply to [`Action::Rebuild`].
    Rebuilt,
    /// [`Action::Rebuild`] failed.
    RebuildFailed,
    /// Stop claiming, finish what is in flight, release, leave.
    Drain,
    /// The grace is nearly over: drop what is in flight, release, leave.
    DrainNow,
}

/// What to do. Each kind has at most one outstanding at a time, except [`Action::Note`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Look at the log: a snapshot, and then the sequence.
    Sight,
    /// Take a transaction id and commit it.
    Burn,
    /// Read a page and hand its rows to the publisher.
    ReadPage(PageRequest),
    /// Write the rows of one mark, in one statement.
    Mark {
        /// Of this statement; a repeat of the same statement has the same tag.
        tag: Tag,
        /// One per lane.
        rows: Vec<MarkRow>,
    },
    /// Read the newest row of each lane, on the marking session.
    LoadNewest(Vec<LaneId>),
    /// Read the lease table and the heartbeats.
    Survey,
    /// Claim a lane. `seen` as in the store's port.
    Claim {
        /// Which.
        lane: LaneId,
        /// The pair that stood unchanged for a whole lease by this relay's clock, if that is the reason.
        seen: Option<(Generation, i64)>,
    },
    /// Renew these leases (maybe none) and write the heartbeat.
    Renew(Vec<(LaneId, Generation)>),
    /// Give these leases back.
    Release(Vec<(LaneId, Generation)>),
    /// Remove the heartbeat.
    Leave,
    /// Purge the publisher's queue and flight.
    Purge,
    /// Replace the producer.
    Rebuild,
    /// Let the publisher take records again after failures without harm to the producer.
    Resume,
    /// Something worth a log line or a metric; asks for nothing.
    Note(Note),
    /// Everything is released; the worker is done.
    Finished,
}

/// A page to read and publish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageRequest {
    /// Where its outcomes go.
    pub slot: usize,
    /// What to read.
    pub plan: PagePlan,
    /// For whom: lanes that stand at one position.
    pub lanes: Vec<(LaneId, Slots, Generation)>,
    /// Ids that are acknowledged already: count them, don't send them.
    pub skip: BTreeSet<i64>,
    /// No row is sent at or after this moment.
    pub trusted_until: Moment,
}

/// How reading a page ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageReport {
    /// Rows that were taken (sent or skipped), and why it ended. A lost session reports what it took, cut.
    pub end: PageEnd,
    /// How many of them were handed to the publisher; without any no [`Input::Settled`] follows.
    pub sent: u32,
    /// What was taken, for each lane that had any.
    pub counts: Vec<(LaneId, LaneCount)>,
    /// Ids that were counted without being sent, because [`PageRequest::skip`] has them.
    pub skipped: Vec<i64>,
    /// The publisher takes nothing before a recovery.
    pub halted: bool,
    /// The row before which the page was cut because it can't be sent.
    pub refused: Option<RefusedRow>,
    /// After an exhausted range without rows: the next id in the log above it and within the window, if it
    /// was sought and found; `Some(i64::MAX)` if there is none.
    pub next_id: Option<i64>,
}

/// Messages of one lane in one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaneCount {
    /// Messages.
    pub messages: i64,
    /// Bytes of payloads, keys and headers.
    pub bytes: i64,
}

/// A row that the publisher refused when it was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RefusedRow {
    /// Its lane.
    pub lane: LaneId,
    /// Its id.
    pub id: i64,
    /// Class and code.
    pub outcome: Outcome,
}

/// A page whose outcomes are all known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SettledPage {
    /// Which.
    pub slot: usize,
    /// The rows that were not acknowledged, by rising id.
    pub failures: Vec<RowFailure>,
    /// The ids that were acknowledged or skipped, with their lanes, by rising id.
    pub acked: Vec<(LaneId, i64)>,
}

/// A row that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowFailure {
    /// Its lane.
    pub lane: LaneId,
    /// Its id.
    pub id: i64,
    /// Class, persistence and code; never [`Outcome::Acked`].
    pub outcome: Outcome,
}

/// Something that the operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A lane was taken.
    Claimed {
        /// Which.
        lane: LaneId,
        /// The new one.
        generation: Generation,
        /// Its former owner had not given it back.
        takeover: bool,
    },
    /// A lane was lost; everything about it was dropped.
    LeaseLost {
        /// Which.
        lane: LaneId,
        /// The lost one.
        generation: Generation,
        /// How it showed.
        reason: LossReason,
    },
    /// A lane waits for its route.
    LaneWaits {
        /// Which.
        lane: LaneId,
        /// The message that can't be routed.
        id: i64,
        /// The publisher's code.
        code: i16,
    },
    /// A lane stopped at a message that can never be published.
    LaneStopped {
        /// Which.
        lane: LaneId,
        /// The guilty message.
        id: i64,
        /// The publisher's code.
        code: i16,
    },
    /// Rows failed and are sent again in log order.
    Resending {
        /// By class, in the order of [`crate::failure::Class::ALL`].
        rows: [u32; 6],
    },
    /// A mark was written.
    MarkSaved {
        /// Rows.
        lanes: usize,
        /// Messages that they deliver.
        messages: i64,
    },
}

/// How a lost lease showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// This relay's own clock ended the trust before a renewal was confirmed.
    TrustEnded,
    /// A mark was refused by the compare-and-set.
    MarkRejected,
    /// A renewal was refused.
    RenewalRejected,
    /// After a reconnect the newest row was somebody else's.
    Superseded,
}

impl LossReason {
    /// Every reason, for metrics that must exist before the first loss.
    pub const ALL: [LossReason; 4] =
        [LossReason::TrustEnded, LossReason::MarkRejected, LossReason::RenewalRejected, LossReason::Superseded];

    /// Label value in metrics. Stable.
    pub const fn name(self) -> &'static str {
        match self {
            LossReason::TrustEnded => "trust_ended",
            LossReason::MarkRejected => "mark_rejected",
            LossReason::RenewalRejected => "renewal_rejected",
            LossReason::Superseded => "superseded",
        }
    }
}

/// How a held lane stands.
#[derive(Clone, Copy, Debug)]
pub struct LaneView<'a> {
    /// Which.
    pub lane: LaneId,
    /// Under which generation.
    pub generation: Generation,
    /// Whether it moves.
    pub flow: &'a Flow,
    /// Where the newest row says that it stands.
    pub position: &'a Position,
    /// Until when this relay acts on the lease.
    pub trusted_until: Moment,
}
