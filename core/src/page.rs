//! Planning the next page of a window: which statement reads it, and where the cursor stands after.
//!
//! A window holds two kinds of rows, and all of the first have smaller ids than all of the second:
//! *stragglers* (`id <= lo.seq0`, their transaction ran at `lo` and has ended by `up`), found by
//! transaction id, and *fresh* rows, found by an id range. A page is of one kind.

use crate::position::{Floor, Position, Tick};

/// How far an id range reaches beyond the wanted rows: most ids of a busy range belong to the lanes
/// asked for, and a page must not walk a range that has none of them.
const SPAN_PER_ROW: i64 = 4;

/// Most rows of a page while nothing is known about their size.
pub const FIRST_PAGE_ROWS: u32 = 256;

/// One page of a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PagePlan {
    /// Rows that it sees are delivered already.
    pub lo: Floor,
    /// Rows that its snapshot doesn't see are left for a later window.
    pub up: Tick,
    /// Which rows of the window.
    pub span: Span,
    /// At most so many rows, at least 1.
    pub rows_max: u32,
}

/// The part of a window that a page covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    /// Rows of these transactions with `after < id <= lo.seq0`, through the transaction id index.
    Stragglers {
        /// The transactions that ran at `lo` and have ended by `up`.
        xids: Vec<u64>,
        /// The cursor.
        after: i64,
    },
    /// Rows with `after < id <= upto`, not seen by `lo`, seen by `up`.
    Range {
        /// The cursor.
        after: i64,
        /// Inclusive.
        upto: i64,
    },
}

/// What reading a page came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageEnd {
    /// Rows that were taken.
    pub rows: u32,
    /// Id of the last row that was taken; meaningless without rows.
    pub last_id: i64,
    /// How it ended.
    pub stop: PageStop,
}

/// Why a page ended where it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageStop {
    /// The span holds no further row.
    Exhausted,
    /// `rows_max` rows were taken; there may be more.
    Full,
    /// The taker stopped before a row (byte budget, a full client, a refused record); there is more.
    Cut,
}

/// How a position's next page reads stragglers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reading {
    /// Through the index on the transaction id.
    #[default]
    Index,
    /// A bulk transaction filled a whole page: scan the id range with the same filter instead, or each
    /// page would read all of its entries again.
    Scan,
}

/// Plans the next page of an open window.
pub fn plan(position: &Position, reading: Reading, rows_max: u32) -> Option<PagePlan> {
    let up = position.up.as_ref()?;
    let lo = &position.lo;
    let rows_max = rows_max.max(1);
    let page = |span| PagePlan { lo: lo.clone(), up: up.clone(), span, rows_max };
    let cursor = position.cursor;
    if cursor < lo.seq0 && reading == Reading::Index {
        let xids: Vec<u64> = lo.snapshot.ended_by(&up.snapshot).collect();
        if !xids.is_empty() {
            return Some(page(Span::Stragglers { xids, after: cursor }));
        }
    }
    let after = match reading {
        Reading::Index => cursor.max(lo.seq0),
        Reading::Scan => cursor,
    };
    let upto = after.saturating_add(SPAN_PER_ROW * i64::from(rows_max)).min(up.seq1);
    Some(page(Span::Range { after, upto: upto.max(after) }))
}

/// Where a lane stands after a page, and how it reads on.
///
/// `next_id` is the smallest id in the window above an exhausted range that gave no row, if a seek was made (a
/// sequence may jump by 2^53).
pub fn advance(plan: &PagePlan, end: PageEnd, next_id: Option<i64>) -> (Position, Reading) {
    let at = |cursor: i64, reading| {
        if cursor >= plan.up.seq1 && cursor >= plan.lo.seq0 {
            return (Position::at(&plan.up), Reading::Index);
        }
        (Position { lo: plan.lo.clone(), up: Some(plan.up.clone()), cursor }, reading)
    };
    match (&plan.span, end.stop) {
        (Span::Stragglers { .. }, PageStop::Exhausted) => at(plan.lo.seq0, Reading::Index),
        (Span::Stragglers { .. }, PageStop::Full) => at(end.last_id, Reading::Scan),
        (Span::Range { upto, .. }, PageStop::Exhausted) => {
            let upto = next_id.map_or(*upto, |id| (*upto).max(id - 1));
            let reading = if upto < plan.lo.seq0 { Reading::Scan } else { Reading::Index };
            at(upto, reading)
        }
        (Span::Range { .. }, PageStop::Full) => {
            let reading = if end.last_id < plan.lo.seq0 { Reading::Scan } else { Reading::Index };
            at(end.last_id, reading)
        }
        (span, PageStop::Cut) => {
            let (Span::Stragglers { after, .. } | Span::Range { after, .. }) = span;
            let cursor = if end.rows > 0 { end.last_id } else { *after };
            let reading = match span {
                Span::Range { .. } if cursor < plan.lo.seq0 => Reading::Scan,
                _ => Reading::Index,
            };
            at(cursor, reading)
        }
    }
}
