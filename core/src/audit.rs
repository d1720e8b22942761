//! The completeness audit: which stretch of a lane's batch log can be checked against the log itself.
//!
//! Between two rows that stand exactly at ticks the lane has delivered what the later tick sees and the earlier
//! one does not. What the rows between say they delivered must be what the log holds there *by transaction id*,
//! which is another way to it than the pages took: those went by ids.

use crate::lane::LaneId;
use crate::position::{Floor, Position};

/// One row of a lane's batch log, as far as the audit looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub n: i64,
    /// What it did.
    pub step: Step,
    /// Where the lane stood after it.
    pub position: Position,
}

/// What a row of the batch log did to its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A mark: so many messages are behind the lane since the row before. A claim: none.
    Moved(i64),
    /// Anything that the audit can't count across: an operator's move, a Kafka transaction.
    Other,
}

/// A stretch of a lane between two rows at ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Whose.
    pub lane: LaneId,
    /// Number of the row where it begins.
    pub from_n: i64,
    /// Number of the row where it ends.
    pub to_n: i64,
    /// What the first row sees is not in it.
    pub lo: Floor,
    /// What the last row sees is.
    pub up: Floor,
    /// Messages that the rows in between delivered.
    pub expected: i64,
}

impl Window {
    /// Ids that were given out between its ticks, whatever lane or transaction they belong to.
    pub fn ids(&self) -> i64 {
        self.up.seq0.saturating_sub(self.lo.seq0)
    }
}

/// What to audit next in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The stretch, if one can be counted.
    pub window: Option<Window>,
    /// Where the next look begins.
    pub resume: i64,
}

/// Chooses the longest stretch of at most `ids_max` ids that ends at the newest tick. `rows` are consecutive
/// and newest first, as many as were read; the last may be the row where the look before ended.
///
/// None is right where nothing moved since. A stretch that is longer than `ids_max` is passed over: the audit is a sample.
pub fn choose(lane: LaneId, rows: &[Recorded], ids_max: i64) -> Option<Choice> {
    let resume = rows.iter().find(|row| row.position.up.is_none())?.n;
    let mut window: Option<Window> = None;
    let (mut last, mut expected) = (None, 0);
    for row in rows {
        let at_tick = row.position.up.is_none();
        match last {
            None if at_tick => last = Some(row),
            Some(last) if at_tick && ids(row, last) > ids_max => break,
            Some(last) if at_tick => window = Some(between(lane, row, last, expected)),
            _ => {}
        }
        match row.step {
            Step::Moved(messages) if last.is_some() => expected += messages,
            Step::Moved(_) => {}
            // It may begin a stretch, not lie in one.
            Step::Other if last.is_some() => break,
            Step::Other => return None,
        }
    }
    Some(Choice { window: window.filter(|window| window.lo != window.up), resume })
}

fn ids(first: &Recorded, last: &Recorded) -> i64 {
    last.position.lo.seq0.saturating_sub(first.position.lo.seq0)
}

fn between(lane: LaneId, first: &Recorded, last: &Recorded, expected: i64) -> Window {
    let (lo, up) = (first.position.lo.clone(), last.position.lo.clone());
    Window { lane, from_n: first.n, to_n: last.n, lo, up, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::{Snapshot, Tick};

    const LANE: LaneId = LaneId(3);

    fn floor(seq0: i64) -> Floor {
        let xmax = 100 + seq0.unsigned_abs();
        Floor { snapshot: Snapshot::new(xmax, xmax, &[]), seq0 }
    }

    fn at(n: i64, messages: i64, seq0: i64) -> Recorded {
        Recorded { n, step: Step::Moved(messages), position: Position { lo: floor(seq0), up: None, cursor: 0 } }
    }

    fn inside(n: i64, messages: i64, seq0: i64, cursor: i64) -> Recorded {
        let up = Tick { snapshot: floor(seq0 + 9).snapshot, seq0: seq0 + 9, seq1: seq0 + 9 };
        let position = Position { up: Some(up), cursor, ..at(n, messages, seq0).position };
        Recorded { position, ..at(n, messages, seq0) }
    }

    fn moved(n: i64, seq0: i64) -> Recorded {
        Recorded { step: Step::Other, ..at(n, 0, seq0) }
    }

    fn chosen(rows: &[Recorded], ids_max: i64) -> Option<(i64, i64, i64)> {
        let window = choose(LANE, rows, ids_max)?.window?;
        assert_eq!((window.lane, &window.up), (LANE, &floor(window.up.seq0)));
        Some((window.from_n, window.to_n, window.expected))
    }

    #[test]
    fn the_longest_stretch_that_fits_is_counted() {
        let rows = [at(9, 4, 40), inside(8, 3, 20, 25), at(7, 0, 20), at(6, 2, 20), at(5, 7, 0)];
        assert_eq!(chosen(&rows, 100), Some((5, 9, 9)), "the first row's own messages lie before it");
        assert_eq!(chosen(&rows, 20), Some((6, 9, 7)), "a claim among them");
        assert_eq!(chosen(&rows, 19), None, "too long");
        assert_eq!(choose(LANE, &rows, 19).map(|choice| choice.resume), Some(9), "and passed over");
    }

    #[test]
    fn it_ends_at_the_newest_tick() {
        let rows = [inside(9, 5, 20, 30), inside(8, 3, 20, 25), at(7, 2, 20), at(6, 1, 0)];
        assert_eq!(chosen(&rows, 100), Some((6, 7, 2)), "what lies inside an open window waits");
        assert_eq!(choose(LANE, &rows, 100).map(|choice| choice.resume), Some(7));
        assert_eq!(choose(LANE, &rows[..2], 100), None, "no tick at all");
        assert_eq!(choose(LANE, &[], 100), None);
    }

    #[test]
    fn nothing_is_counted_across_what_moved_the_lane_otherwise() {
        let rows = [at(9, 5, 40), at(8, 4, 30), moved(7, 20), at(6, 1, 0)];
        assert_eq!(chosen(&rows, 100), Some((7, 9, 9)), "such a row may begin a stretch");
        assert_eq!(chosen(&[moved(9, 40), at(8, 4, 30)], 100), None, "and ends none");
        assert_eq!(chosen(&[inside(9, 1, 40, 45), moved(8, 40), at(7, 1, 20)], 100), None);
    }

    #[test]
    fn a_lane_that_stands_has_nothing_to_count() {
        let rows = [at(9, 0, 40), at(8, 0, 40)];
        assert_eq!(choose(LANE, &rows, 100), Some(Choice { window: None, resume: 9 }));
        assert_eq!(choose(LANE, &rows[..1], 100), Some(Choice { window: None, resume: 9 }));
    }
}
