//! Reading the log: snapshots, pages and the next id.

use std::ops::ControlFlow;

use fencepost_core::lane::Slots;
use fencepost_core::page::{PageEnd, PagePlan, PageStop, Span};
use fencepost_core::position::{Position, Sighting, Snapshot};

use super::{FakeDatabase, Row};

impl<M: Clone> FakeDatabase<M> {
    /// A snapshot as PostgreSQL takes it: `xmax` follows the newest transaction that has *completed*, so that
    /// running ones above it are not listed.
    pub fn snapshot(&self) -> Snapshot {
        let xmax = self.newest_completed + 1;
        let running: Vec<u64> = self.running.range(..xmax).map(|(xid, _)| *xid).collect();
        Snapshot::new(running.first().copied().unwrap_or(xmax), xmax, &running)
    }

    /// A snapshot, and then the newest id.
    pub fn sight(&self) -> Sighting {
        Sighting { snapshot: self.snapshot(), last_id: self.last_id }
    }

    /// Takes a transaction id and commits it. It writes nothing, so that nobody waits for a flush.
    pub fn burn(&mut self) {
        self.relay_transaction(false);
    }

    /// Reads one page of the given slots, by rising id, into `take`, which may break before any row.
    pub fn read_page(
        &self,
        plan: &PagePlan,
        slots: &[Slots],
        mut take: impl FnMut(i64, &Row<M>) -> ControlFlow<()>,
    ) -> PageEnd {
        let mut end = PageEnd { rows: 0, last_id: 0, stop: PageStop::Exhausted };
        let (after, upto) = match &plan.span {
            Span::Stragglers { after, .. } => (*after, plan.lo.seq0),
            Span::Range { after, upto } => (*after, *upto),
        };
        if after >= upto {
            return end;
        }
        for (id, row) in self.log.range(after + 1..=upto).filter(|(_, row)| self.is_on_page(plan, slots, row)) {
            if take(*id, row).is_break() {
                end.stop = PageStop::Cut;
                return end;
            }
            end.rows += 1;
            end.last_id = *id;
            if end.rows == plan.rows_max {
                end.stop = PageStop::Full;
                return end;
            }
        }
        end
    }

    fn is_on_page(&self, plan: &PagePlan, slots: &[Slots], row: &Row<M>) -> bool {
        let straggler = match &plan.span {
            Span::Stragglers { xids, .. } => xids.contains(&row.xid),
            Span::Range { .. } => true,
        };
        let in_window = !plan.lo.snapshot.sees(row.xid) && plan.up.snapshot.sees(row.xid);
        straggler && in_window && !self.is_open(row) && slots.iter().any(|slots| slots.contains(&row.slot))
    }

    /// Smallest committed id with `after < id <= upto`, whatever its transaction or slot.
    pub fn next_id(&self, after: i64, upto: i64) -> Option<i64> {
        if after >= upto {
            return None;
        }
        self.log.range(after + 1..=upto).find(|(_, row)| !self.is_open(row)).map(|(id, _)| *id)
    }

    /// Whether `position` says that message `id` of transaction `xid` is delivered.
    pub fn covers(position: &Position, id: i64, xid: u64) -> bool {
        let within = position.up.as_ref().is_some_and(|up| up.snapshot.sees(xid) && id <= position.cursor);
        position.lo.snapshot.sees(xid) || within
    }
}
