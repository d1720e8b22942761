//! A lane that this relay holds, and what it knows of the others.

use std::collections::BTreeSet;

use super::LaneCount;
use crate::batch::BatchHead;
use crate::lane::{Generation, Moment, Slots, Tag};
use crate::page::Reading;
use crate::position::Position;

/// A held lane. Three places in the log, in this order: what the database has on record, what Kafka
/// has acknowledged, what has been read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) slots: Slots,
    pub(super) generation: Generation,
    pub(super) trusted_until: Moment,
    /// Number and tag of the newest row, as loaded or last written.
    pub(super) n: i64,
    pub(super) tag: Tag,
    pub(super) recorded: Position,
    pub(super) delivered: Position,
    pub(super) read: Position,
    pub(super) reading: Reading,
    /// Delivered and not on record yet.
    pub(super) unrecorded: Unrecorded,
    /// Ids beyond `delivered` that are acknowledged: not sent again when they are read again.
    pub(super) skip: BTreeSet<i64>,
    pub(super) flow: Flow,
    /// Up to this id a message that can't be published is looked for: rows are sent alone.
    pub(super) suspects_to: Option<i64>,
    /// Tries of the route in a row.
    pub(super) route_tries: u32,
}

/// Whether a held lane moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// It does.
    Running,
    /// Finishing what is in flight, then released.
    HandingOver,
    /// Its next message's topic can't be written; it is tried again at that moment.
    Waiting {
        /// When.
        until: Moment,
        /// The message.
        id: i64,
        /// The publisher's code.
        code: i16,
    },
    /// Its next message can never be published.
    Stopped {
        /// The message.
        id: i64,
        /// The publisher's code.
        code: i16,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unrecorded {
    pub(super) count: LaneCount,
    /// When the oldest of them was handed over and when the first of them was acknowledged.
    pub(super) since: Option<(Moment, Moment)>,
    pub(super) until: Moment,
}

impl Unrecorded {
    pub(super) fn add(&mut self, count: LaneCount, sent: Moment, now: Moment) {
        self.count.messages += count.messages;
        self.count.bytes += count.bytes;
        self.since.get_or_insert((sent, now));
        self.until = now;
    }
}

impl Held {
    pub(super) fn new(slots: Slots, head: &BatchHead, trusted_until: Moment) -> Self {
        Held {
            slots,
            generation: head.generation,
            trusted_until,
            n: head.n,
            tag: head.tag,
            recorded: head.position.clone(),
            delivered: head.position.clone(),
            read: head.position.clone(),
            reading: Reading::Index,
            unrecorded: Unrecorded::default(),
            skip: BTreeSet::new(),
            flow: Flow::Running,
            suspects_to: None,
            route_tries: 0,
        }
    }

    /// Reads on from what is delivered. A lane that had stopped at a later message stops there again; what
    /// lies before it must still go out.
    pub(super) fn rewind(&mut self) {
        if matches!(self.flow, Flow::Stopped { .. }) {
            self.flow = Flow::Running;
        }
        self.read = self.delivered.clone();
        self.reading = Reading::Index;
    }

    /// Goes back to what the database has on record: nothing that was learnt since counts.
    pub(super) fn reset(&mut self, head: &BatchHead) {
        self.n = head.n;
        self.tag = head.tag;
        self.recorded = head.position.clone();
        self.delivered = head.position.clone();
        self.unrecorded = Unrecorded::default();
        self.skip.clear();
        self.rewind();
    }

    /// Whether its rows may be read and sent at `now`.
    pub(super) fn may_read(&self, now: Moment) -> bool {
        match self.flow {
            Flow::Running => true,
            Flow::Waiting { until, .. } => now >= until,
            Flow::HandingOver | Flow::Stopped { .. } => false,
        }
    }
}

/// A lane as the lease table last showed it, and since when it has looked so by this relay's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watched {
    pub(super) slots: Slots,
    pub(super) pair: (Generation, Option<i64>),
    /// Somebody had it and did not give it back.
    pub(super) owned: bool,
    pub(super) since: Moment,
}
