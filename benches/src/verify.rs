//! The verifying reader: after the clock has stopped it reads everything back and counts what was lost,
//! repeated or misordered. It keeps a bit a message and a number a key, nothing else.

use rdkafka::Message;
use serde::Serialize;

use crate::error::Result;
use crate::payload::Stamp;
use crate::topic::Topic;

/// What the topic holds of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Messages of the run that the topic doesn't hold.
    pub(crate) lost: u64,
    /// Records beyond the first of their message.
    pub(crate) repeated: u64,
    /// First occurrences behind a younger message of their key.
    pub(crate) misordered: u64,
    /// Records that no feed wrote.
    pub(crate) foreign: u64,
}

impl Check {
    /// Nothing lost, repeated, misordered or foreign; `ordered` says whether order was promised.
    pub(crate) fn holds(&self, ordered: bool) -> bool {
        self.lost == 0 && self.repeated == 0 && self.foreign == 0 && (self.misordered == 0 || !ordered)
    }
}

/// Counts the records of one run.
pub(crate) struct Tally {
    run: u32,
    messages: u64,
    seen: Vec<u64>,
    distinct: u64,
    newest: Vec<u32>,
    check: Check,
    first_append_ms: i64,
    last_append_ms: i64,
}

impl Tally {
    /// For a run of `messages` with keys below `keys`.
    pub(crate) fn new(run: u32, messages: u64, keys: u32) -> Self {
        let words = messages.div_ceil(64) as usize;
        Tally {
            run,
            messages,
            seen: vec![0; words],
            distinct: 0,
            newest: vec![0; keys as usize],
            check: Check::default(),
            first_append_ms: i64::MAX,
            last_append_ms: 0,
        }
    }

    /// A record, in offset order within its partition; records of other runs are passed over.
    pub(crate) fn observe(&mut self, payload: &[u8], append_ms: i64) {
        let Some(stamp) = Stamp::read(payload) else {
            self.check.foreign += 1;
            return;
        };
        if stamp.run != self.run {
            return;
        }
        let newest = self.newest.get_mut(stamp.key as usize).filter(|_| stamp.number < self.messages);
        let Some(newest) = newest else {
            self.check.foreign += 1;
            return;
        };
        self.first_append_ms = self.first_append_ms.min(append_ms);
        self.last_append_ms = self.last_append_ms.max(append_ms);
        let (word, bit) = (&mut self.seen[(stamp.number / 64) as usize], 1_u64 << (stamp.number % 64));
        if *word & bit != 0 {
            self.check.repeated += 1;
            return;
        }
        *word |= bit;
        self.distinct += 1;
        if stamp.seq < *newest {
            self.check.misordered += 1;
        } else {
            *newest = stamp.seq;
        }
    }

    pub(crate) fn check(&self) -> Check {
        Check { lost: self.messages - self.distinct, ..self.check }
    }

    /// Broker's append time of the run's first and last record, wall clock milliseconds.
    pub(crate) fn appended_ms(&self) -> Option<(i64, i64)> {
        (self.distinct > 0).then_some((self.first_append_ms, self.last_append_ms))
    }
}

/// Reads the whole topic into the tally.
pub(crate) fn read_back(topic: &Topic, tally: &mut Tally) -> Result<()> {
    topic.read_all(|record| {
        tally.observe(record.payload().unwrap_or_default(), record.timestamp().to_millis().unwrap_or(0));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(numbers_keys_seqs: &[(u64, u32, u32)]) -> Check {
        let mut random = fastrand::Rng::with_seed(1);
        let mut tally = Tally::new(1, 4, 2);
        for (number, key, seq) in numbers_keys_seqs {
            let stamp = Stamp { run: 1, number: *number, key: *key, seq: *seq };
            tally.observe(&stamp.payload(300, &mut random), 5);
        }
        tally.observe(&Stamp { run: 0, number: 99, key: 99, seq: 1 }.payload(300, &mut random), 1);
        tally.check()
    }

    #[test]
    fn each_fault_is_counted_as_what_it_is() {
        let whole = [(0, 0, 1), (1, 1, 1), (2, 0, 2), (3, 1, 2)];
        assert_eq!(told(&whole), Check::default());
        assert_eq!(told(&whole[..3]), Check { lost: 1, ..Check::default() });
        let repeated = [whole[0], whole[1], whole[2], whole[3], whole[0]];
        assert_eq!(told(&repeated), Check { repeated: 1, ..Check::default() });
        let swapped = [whole[2], whole[1], whole[0], whole[3]];
        assert_eq!(told(&swapped), Check { misordered: 1, ..Check::default() });
        let foreign = [whole[0], whole[1], whole[2], whole[3], (4, 0, 3), (0, 2, 1)];
        assert_eq!(told(&foreign), Check { foreign: 2, ..Check::default() });
    }

    #[test]
    fn a_payload_without_a_stamp_is_foreign() {
        let mut tally = Tally::new(1, 1, 1);
        tally.observe(b"{}", 1);
        assert_eq!(tally.check(), Check { foreign: 1, lost: 1, ..Check::default() });
        assert!(tally.appended_ms().is_none() && !tally.check().holds(false));
    }
}
