//! Where a lane stands in the log: snapshots, ticks, windows and positions.
//!
//! A *tick* is a consistent point of the log, a *window* is what lies between two ticks, and a
//! *position* is a window with a cursor inside. `docs/ARCHITECTURE.md` has the proof of completeness.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A PostgreSQL snapshot (`pg_snapshot`): which transactions had ended when it was taken.
///
/// `xip` is *not* the set of running transactions: one with an id at or above `xmax` may run too.
/// That is why a [`Tick`] needs a transaction id that was taken and committed before its snapshot.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Snapshot {
    xmin: u64,
    xmax: u64,
    xip: Arc<[u64]>,
}

impl Snapshot {
    /// A snapshot from its parts; `xip` is sorted and each id in it lies in `xmin..xmax`.
    pub fn new(xmin: u64, xmax: u64, xip: &[u64]) -> Self {
        debug_assert!(xmin <= xmax && xip.is_sorted());
        Snapshot { xmin, xmax, xip: xip.into() }
    }

    /// The snapshot that sees nothing: where the log begins.
    pub fn beginning() -> Self {
        Snapshot::new(1, 1, &[])
    }

    /// Whether transaction `xid` had ended (committed or not) when the snapshot was taken.
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && self.xip.binary_search(&xid).is_err())
    }

    /// First transaction id that the snapshot says nothing about.
    pub fn xmax(&self) -> u64 {
        self.xmax
    }

    /// Ids below `xmax` of transactions that still ran.
    pub fn running(&self) -> &[u64] {
        &self.xip
    }

    /// Whether `later` sees everything that `self` sees. Two snapshots of one server are always in such an
    /// order, one way or the other.
    pub fn precedes(&self, later: &Snapshot) -> bool {
        let ran_here = |xid: &u64| *xid >= self.xmax || !self.sees(*xid);
        self.xmax <= later.xmax && later.xip.iter().all(ran_here)
    }

    /// Ids that ran at `self` and have ended by `later`: their rows may lie below the range that a
    /// window scans.
    pub fn ended_by<'a>(&'a self, later: &'a Snapshot) -> impl Iterator<Item = u64> + 'a {
        self.xip.iter().copied().filter(|xid| later.sees(*xid))
    }
}

impl fmt::Display for Snapshot {
    /// PostgreSQL's text form, `xmin:xmax:xip,xip`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (i, xid) in self.xip.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{xid}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSnapshotError;

impl fmt::Display for ParseSnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a pg_snapshot in the form xmin:xmax:xip,xip")
    }
}

impl std::error::Error for ParseSnapshotError {}

impl FromStr for Snapshot {
    type Err = ParseSnapshotError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |s: &str| s.parse::<u64>().map_err(|_| ParseSnapshotError);
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or(ParseSnapshotError);
        let (xmin, xmax, list) = (number(part()?)?, number(part()?)?, part()?);
        let xip =
            if list.is_empty() { Vec::new() } else { list.split(',').map(number).collect::<Result<Vec<_>, _>>()? };
        let inside = xip.iter().all(|x| (xmin..xmax).contains(x));
        if xmin > xmax || !inside || !xip.is_sorted_by(|a, b| a < b) {
            return Err(ParseSnapshotError);
        }
        Ok(Snapshot { xmin, xmax, xip: xip.into() })
    }
}

/// What one cheap statement tells: a snapshot, and the newest id given out, read *after* it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sighting {
    /// Taken first.
    pub snapshot: Snapshot,
    /// Newest id that the sequence had given out by then; 0 for none.
    pub last_id: i64,
}

/// A point that ticks can stand on: a sequence value, and the knowledge that a transaction id taken
/// after it was read has been committed since.
///
/// Every row with `id <= seq0` has a transaction id below that one (the column default takes the
/// transaction id before the sequence value). A snapshot taken later has its `xmax` above it, so
/// each such row's transaction is either seen by that snapshot or listed in its `xip`. This holds
/// for *every* later snapshot, so one base serves many ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Base {
    /// The sequence value that was read before the transaction id was taken.
    pub seq0: i64,
}

/// A consistent point of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tick {
    /// Which transactions count as ended.
    pub snapshot: Snapshot,
    /// Rows up to here whose transaction the snapshot doesn't see are in its `xip`.
    pub seq0: i64,
    /// No row that the snapshot sees has a larger id. Read after the snapshot.
    pub seq1: i64,
}

impl Tick {
    /// The tick that a sighting makes on a base: the base's transaction id was committed before
    /// `sighting` was asked for.
    pub fn new(base: Base, sighting: &Sighting) -> Self {
        Tick { snapshot: sighting.snapshot.clone(), seq0: base.seq0, seq1: sighting.last_id }
    }
}

/// The lower bound of a window: everything that its snapshot sees is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Floor {
    /// What is delivered.
    pub snapshot: Snapshot,
    /// Rows above it are found by an id range, rows up to it by their transaction id.
    pub seq0: i64,
}

/// Where a lane stands: a window from `lo` to `up`, read up to and including id `cursor`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Everything seen by it is delivered.
    pub lo: Floor,
    /// The window's end; `None` where the lane stands exactly at `lo`.
    pub up: Option<Tick>,
    /// Rows of the window up to this id are delivered; 0 at the window's start or without one.
    pub cursor: i64,
}

impl Position {
    /// Before the first message of the log.
    pub fn beginning() -> Self {
        Position { lo: Floor { snapshot: Snapshot::beginning(), seq0: 0 }, up: None, cursor: 0 }
    }

    /// Exactly at `tick`: everything that it sees is delivered.
    pub fn at(tick: &Tick) -> Self {
        let lo = Floor { snapshot: tick.snapshot.clone(), seq0: tick.seq0 };
        Position { lo, up: None, cursor: 0 }
    }

    /// The same place with a window open up to `up`. The position stands at `lo`.
    pub fn opened(&self, up: Tick) -> Self {
        debug_assert!(self.up.is_none());
        Position { lo: self.lo.clone(), up: Some(up), cursor: 0 }
    }

    /// Whether a sighting shows that something may have been committed since `lo`.
    ///
    /// An equal snapshot means that no transaction ended since. Else a new message has an id above
    /// `seq0`, or its transaction is one of `xip` that has ended.
    pub fn is_behind(&self, sighting: &Sighting) -> bool {
        self.lo.snapshot != sighting.snapshot
            && (sighting.last_id > self.lo.seq0 || self.lo.snapshot.ended_by(&sighting.snapshot).next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        text.parse().expect("snapshot")
    }

    #[test]
    fn sees_what_ended() {
        let s = snapshot("10:20:12,15");
        for (xid, seen) in [(9, true), (10, true), (12, false), (13, true), (15, false), (19, true), (20, false)] {
            assert_eq!(s.sees(xid), seen, "xid {xid}");
        }
        assert_eq!(s.to_string(), "10:20:12,15");
    }

    #[test]
    fn refuses_what_is_no_snapshot() {
        for text in ["", "1:2", "2:1:", "1:5:7", "1:5:3,2", "1:5:2,2", "a:b:", "1:5:,"] {
            assert!(text.parse::<Snapshot>().is_err(), "{text:?}");
        }
        assert_eq!(snapshot("5:5:"), Snapshot::new(5, 5, &[]));
    }

    #[test]
    fn stragglers_are_those_that_ended_between() {
        let ended: Vec<u64> = snapshot("10:20:10,12,15").ended_by(&snapshot("12:22:12,21")).collect();
        assert_eq!(ended, [10, 15]);
    }

    #[test]
    fn a_later_snapshot_sees_all_that_an_earlier_one_sees() {
        let order = |a: &str, b: &str| snapshot(a).precedes(&snapshot(b));
        assert!(order("10:20:12,15", "12:22:12,21") && !order("12:22:12,21", "10:20:12,15"));
        assert!(order("10:20:12", "10:20:12"));
        assert!(!order("10:20:", "10:25:12"), "12 had ended");
    }

    #[test]
    fn news_is_a_new_id_or_an_ended_straggler() {
        let at = |s: &str, seq0| Position { lo: Floor { snapshot: snapshot(s), seq0 }, up: None, cursor: 0 };
        let sight = |s: &str, last_id| Sighting { snapshot: snapshot(s), last_id };
        assert!(!at("10:20:12", 7).is_behind(&sight("10:20:12", 9)), "nothing ended");
        assert!(!at("10:20:12", 7).is_behind(&sight("10:21:12", 7)), "something without a message ended");
        assert!(at("10:20:12", 7).is_behind(&sight("20:21:", 7)), "a straggler ended");
        assert!(at("10:20:12", 7).is_behind(&sight("10:22:12", 8)), "a new id");
    }
}
