//! Lanes, their leases, and the relay's trust in a lease by its own clock.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Time since an arbitrary start by one machine's monotonic clock that runs through a suspend.
/// Only differences on one machine mean anything.
pub type Moment = Duration;

/// Number of a lane within its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub i16);

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Fencing number of a lane's lease. It only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub i64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The relay process that holds a lease: a configured name and a random part per process start, so
/// that a restart under the same name is somebody else.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub Arc<str>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A random number per mark statement, stored with the rows that it wrote: after a lost reply it
/// tells one's own rows from another's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u128);

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// The slots that a lane serves.
pub type Slots = RangeInclusive<u8>;

/// A lane as the database's table shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneRow {
    /// Which.
    pub lane: LaneId,
    /// The slots that it serves.
    pub slots: Slots,
    /// Who holds the lease, if anybody; it may have expired.
    pub owner: Option<Owner>,
    /// Of the last claim.
    pub generation: Generation,
    /// The stored expiry, opaque: microseconds by the database's clock. Compared only for equality.
    pub expires_at_us: Option<i64>,
    /// Whether the lane is free, or the database's clock has passed the expiry.
    pub claimable: bool,
}

/// How long leases last and how much of one is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTerms {
    /// Length of a lease from the moment the database grants or renews it.
    pub lease: Duration,
    /// Taken off the local trust for clocks that run at different rates, and for the last send.
    pub margin: Duration,
}

impl LeaseTerms {
    /// Until when a holder may act on a lease whose claim or renewal was *sent* at `sent`.
    ///
    /// The database grants `lease` from some moment after `sent`, so the holder's window always ends
    /// before the lease does, as long as the two clocks' rates differ by less than margin / lease.
    pub fn trusted_until(&self, sent: Moment) -> Moment {
        sent + self.lease.saturating_sub(self.margin)
    }

    /// For how long a pair (generation, expiry) must stand unchanged under one's own clock before its
    /// lease counts as expired whatever the database's clock says: it may have been set back.
    pub fn silence(&self) -> Duration {
        self.lease + self.margin
    }
}

/// What the lease table and the heartbeats show.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Survey {
    /// Every lane, by number.
    pub lanes: Vec<LaneRow>,
    /// Relays that are alive by the database's clock, by name.
    pub relays: Vec<Owner>,
}
