//! Where outcomes land: one array per page slot, written by the polling thread and read by the engine
//! after the slot has settled. No locks, no allocation per record.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fencepost_core::failure::{Class, Outcome, Persistence};

/// What `left` starts with, so that outcomes may come while rows are still being sent: it can't reach
/// zero before the seal has taken the bias off.
const BIAS: u32 = 1 << 31;

const PENDING: u32 = 0;
const ACKED: u32 = 1;
const FAILED: u32 = 2;

/// All slots of a publisher.
pub(super) struct Slots(Box<[Slot]>);

struct Slot {
    /// Outcomes that are missing, plus [`BIAS`] while the slot is open.
    left: AtomicU32,
    sent: AtomicU32,
    any_failed: AtomicBool,
    outcomes: Box<[AtomicU32]>,
}

impl Slots {
    /// `slots` slots of `rows` rows each.
    pub(super) fn new(slots: usize, rows: u32) -> Self {
        let slot = |_| Slot {
            left: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            any_failed: AtomicBool::new(false),
            outcomes: (0..rows).map(|_| AtomicU32::new(PENDING)).collect(),
        };
        Slots((0..slots).map(slot).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `row` exists in each slot.
    pub(super) fn holds(&self, row: u32) -> bool {
        self.0.first().is_some_and(|slot| (row as usize) < slot.outcomes.len())
    }

    /// Starts a page. The former one has settled, or had no rows: nobody else touches the slot now.
    pub(super) fn open(&self, slot: usize) {
        let slot = &self.0[slot];
        let left = slot.left.load(Ordering::Relaxed);
        debug_assert!(left == 0 || left == BIAS, "a slot is opened again only after it settled");
        for outcome in &slot.outcomes[..slot.sent.load(Ordering::Relaxed) as usize] {
            outcome.store(PENDING, Ordering::Relaxed);
        }
        slot.any_failed.store(false, Ordering::Relaxed);
        slot.sent.store(0, Ordering::Relaxed);
        slot.left.store(BIAS, Ordering::Release);
    }

    /// Ends a page of `sent` rows. `true`: all outcomes are in already.
    pub(super) fn seal(&self, slot: usize, sent: u32) -> bool {
        let slot = &self.0[slot];
        debug_assert!(sent as usize <= slot.outcomes.len(), "a page fits its slot");
        slot.sent.store(sent, Ordering::Relaxed);
        slot.left.fetch_sub(BIAS - sent, Ordering::AcqRel) == BIAS - sent
    }

    /// Notes one row's outcome. `true`: it was the last of a sealed slot. A second outcome of a row, or one
    /// of a row that does not exist, changes nothing.
    pub(super) fn finish(&self, slot: usize, row: u32, outcome: Outcome) -> bool {
        let Some(slot) = self.0.get(slot) else { return false };
        let Some(cell) = slot.outcomes.get(row as usize) else { return false };
        if cell.load(Ordering::Relaxed) != PENDING {
            return false;
        }
        cell.store(encode(outcome), Ordering::Relaxed);
        if outcome != Outcome::Acked {
            slot.any_failed.store(true, Ordering::Relaxed);
        }
        // releases the two stores above to whoever sees the slot settled
        slot.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Outcomes of a settled slot by row, or `None` if all were acknowledged.
    pub(super) fn failures(&self, slot: usize) -> Option<Vec<Outcome>> {
        let slot = &self.0[slot];
        slot.left.load(Ordering::Acquire);
        if !slot.any_failed.load(Ordering::Relaxed) {
            return None;
        }
        let sent = slot.sent.load(Ordering::Relaxed) as usize;
        Some(slot.outcomes[..sent].iter().map(|cell| decode(cell.load(Ordering::Relaxed))).collect())
    }
}

/// Bits from the lowest: two for the kind, three for the class, two for the persistence; the code is the upper half.
fn encode(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Acked => ACKED,
        Outcome::Failed { class, persistence, code } => {
            let class = Class::ALL.iter().position(|known| *known == class).unwrap_or_default() as u32;
            let persistence = match persistence {
                Persistence::Not => 0,
                Persistence::Possibly => 1,
                Persistence::Persisted => 2,
            };
            FAILED | class << 2 | persistence << 5 | u32::from(code.cast_unsigned()) << 16
        }
    }
}

fn decode(bits: u32) -> Outcome {
    if bits & 3 == ACKED {
        return Outcome::Acked;
    }
    let persistence = match bits >> 5 & 3 {
        0 => Persistence::Not,
        1 => Persistence::Possibly,
        _ => Persistence::Persisted,
    };
    Outcome::Failed { class: Class::ALL[(bits >> 2 & 7) as usize], persistence, code: (bits >> 16) as i16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: Class) -> Outcome {
        Outcome::Failed { class, persistence: Persistence::Possibly, code: -151 }
    }

    #[test]
    fn every_outcome_survives_its_encoding() {
        assert_eq!(decode(encode(Outcome::Acked)), Outcome::Acked);
        for class in Class::ALL {
            for persistence in [Persistence::Not, Persistence::Possibly, Persistence::Persisted] {
                for code in [i16::MIN, -199, -1, 0, 10, i16::MAX] {
                    let outcome = Outcome::Failed { class, persistence, code };
                    assert_eq!(decode(encode(outcome)), outcome);
                }
            }
        }
    }

    #[test]
    fn a_slot_settles_once_whether_the_seal_or_an_outcome_is_last() {
        let slots = Slots::new(2, 4);
        slots.open(1);
        assert!(!slots.finish(1, 0, Outcome::Acked), "an open slot does not settle");
        assert!(!slots.finish(1, 1, Outcome::Acked));
        assert!(slots.seal(1, 2), "the seal came last");
        assert_eq!(slots.failures(1), None);

        slots.open(1);
        assert!(!slots.finish(1, 1, Outcome::Acked));
        assert!(!slots.seal(1, 2));
        assert!(slots.finish(1, 0, failed(Class::Collateral)), "an outcome came last");
        assert_eq!(slots.failures(1), Some(vec![failed(Class::Collateral), Outcome::Acked]));
    }

    #[test]
    fn an_empty_page_settles_at_its_seal() {
        let slots = Slots::new(1, 1);
        slots.open(0);
        assert!(slots.seal(0, 0));
        assert_eq!(slots.failures(0), None);
    }

    #[test]
    fn a_second_outcome_of_a_row_changes_nothing() {
        let slots = Slots::new(1, 2);
        slots.open(0);
        assert!(!slots.finish(0, 0, Outcome::Acked));
        assert!(!slots.finish(0, 0, failed(Class::Message)));
        assert!(!slots.finish(0, 7, Outcome::Acked), "no such row");
        assert!(!slots.seal(0, 2), "row 1 is still missing");
        assert!(slots.finish(0, 1, Outcome::Acked));
        assert_eq!(slots.failures(0), None);
    }
}
