//! Which partitions a producer may write to freely. A broker that knows nothing of a producer takes any first
//! sequence number: where a producer's first request to a partition is refused while the second is on its way, the
//! second is written, and the first comes behind it. So the first record to a partition goes there alone:
//! nothing else is taken for it until that one was acknowledged with an offset.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::publisher::Refused;

/// Brokers forget a producer that wrote nothing to a partition for `producer.id.expiration.ms`, by default a day.
/// A partition that got nothing for so many statistics ticks (of 1 to 10 s: 1 to 10 hours) is opened anew.
const IDLE_TICKS: u32 = 3_600;

/// The partitions of one producer.
#[derive(Default)]
pub(super) struct Openings {
    tick: AtomicU32,
    /// Partitions that are being opened; keeps the lock off the polling thread's hot path.
    pending: AtomicUsize,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    topics: HashMap<String, Vec<State>>,
    /// The first records that are in flight, by their opaque.
    first: HashMap<usize, (String, i32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Its first record is in flight.
    Opening,
    /// The broker knows the producer; when a record was last sent there, in ticks.
    Open(u32),
}

impl Openings {
    /// Whether a record may go to a partition now. `opaque` names the record in [`Self::settled`]; `partitions` is
    /// the topic's number.
    ///
    /// # Errors
    /// [`Refused::Full`] while the partition is being opened by an earlier record.
    pub(super) fn admit(&self, topic: &str, partition: i32, partitions: i32, opaque: usize) -> Result<(), Refused> {
        let tick = self.tick.load(Ordering::Relaxed);
        let mut places = self.lock();
        match places.state(topic, partition) {
            Some(State::Opening) => return Err(Refused::Full),
            Some(State::Open(last)) if tick.wrapping_sub(*last) <= IDLE_TICKS => *last = tick,
            _ => {
                places.begin(topic, partition, partitions, opaque);
                self.note_pending(&places);
            }
        }
        Ok(())
    }

    /// An admitted record was not sent after all.
    pub(super) fn not_sent(&self, opaque: usize) {
        self.settled(opaque, None);
    }

    /// An outcome; `partition` where the record was acknowledged with an offset. `false`: that was another
    /// partition than the expected one: the topic has more of them than was known.
    pub(super) fn settled(&self, opaque: usize, partition: Option<i32>) -> bool {
        if self.pending.load(Ordering::Acquire) == 0 {
            return true;
        }
        let tick = self.tick.load(Ordering::Relaxed);
        let mut places = self.lock();
        let Some((topic, expected)) = places.first.remove(&opaque) else { return true };
        places.set(&topic, expected, State::Closed);
        if let Some(partition) = partition {
            places.set(&topic, partition, State::Open(tick));
        }
        self.note_pending(&places);
        partition.is_none_or(|partition| partition == expected)
    }

    /// The topic may have been made anew: its partitions know nothing of the producer.
    pub(super) fn forget(&self, topic: &str) {
        self.lock().topics.remove(topic);
    }

    /// Nothing is in flight any more: what was being opened is not.
    pub(super) fn restart(&self) {
        let mut places = self.lock();
        for (topic, partition) in std::mem::take(&mut places.first).into_values() {
            places.set(&topic, partition, State::Closed);
        }
        self.note_pending(&places);
    }

    /// A statistics tick has passed.
    pub(super) fn tick(&self) {
        self.tick.fetch_add(1, Ordering::Relaxed);
    }

    fn note_pending(&self, places: &Places) {
        self.pending.store(places.first.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // a panic elsewhere leaves at worst a partition closed
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn state(&mut self, topic: &str, partition: i32) -> Option<&mut State> {
        self.topics.get_mut(topic)?.get_mut(usize::try_from(partition).ok()?)
    }

    /// Where the topic was forgotten meanwhile, nothing is noted.
    fn set(&mut self, topic: &str, partition: i32, new: State) {
        if let Some(state) = self.state(topic, partition) {
            *state = new;
        }
    }

    /// A partition that does not exist was refused before.
    fn begin(&mut self, topic: &str, partition: i32, partitions: i32, opaque: usize) {
        let states = self.topics.entry(topic.to_owned()).or_default();
        let known = usize::try_from(partitions).unwrap_or_default().max(states.len());
        states.resize(known, State::Closed);
        self.set(topic, partition, State::Opening);
        self.first.insert(opaque, (topic.to_owned(), partition));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Result<(), Refused> = Err(Refused::Full);

    #[test]
    fn the_first_record_to_a_partition_goes_alone() {
        let openings = Openings::default();
        assert_eq!(openings.admit("t", 0, 2, 10), Ok(()));
        assert_eq!(openings.admit("t", 0, 2, 11), FULL);
        assert_eq!(openings.admit("t", 1, 2, 12), Ok(()), "another partition");
        assert_eq!(openings.admit("u", 0, 2, 13), Ok(()), "another topic");
        assert!(openings.settled(99, Some(0)), "another record's outcome opens nothing");
        assert_eq!(openings.admit("t", 0, 2, 14), FULL);
        assert!(openings.settled(10, Some(0)));
        assert_eq!((openings.admit("t", 0, 2, 15), openings.admit("t", 0, 2, 16)), (Ok(()), Ok(())));
        assert_eq!(openings.admit("t", 1, 2, 17), FULL);
    }

    #[test]
    fn only_an_offset_opens() {
        let openings = Openings::default();
        assert_eq!(openings.admit("t", 0, 1, 1), Ok(()));
        assert!(openings.settled(1, None));
        assert_eq!(openings.admit("t", 0, 1, 2), Ok(()), "the next one is the first");
        assert_eq!(openings.admit("t", 0, 1, 3), FULL);
        openings.not_sent(2);
        assert_eq!(openings.admit("t", 0, 1, 4), Ok(()));
        openings.restart();
        assert_eq!((openings.admit("t", 0, 1, 5), openings.admit("t", 0, 1, 6)), (Ok(()), FULL));
    }

    #[test]
    fn an_idle_partition_and_a_topic_made_anew_are_opened_again() {
        let openings = Openings::default();
        for opaque in [1, 2] {
            assert_eq!(openings.admit("t", 0, 1, opaque), Ok(()));
            openings.settled(opaque, Some(0));
        }
        (0..IDLE_TICKS).for_each(|_| openings.tick());
        assert_eq!((openings.admit("t", 0, 1, 3), openings.admit("t", 0, 1, 4)), (Ok(()), Ok(())), "in use");
        (0..=IDLE_TICKS).for_each(|_| openings.tick());
        assert_eq!((openings.admit("t", 0, 1, 5), openings.admit("t", 0, 1, 6)), (Ok(()), FULL), "idle");
        openings.settled(5, Some(0));
        openings.forget("t");
        assert_eq!((openings.admit("t", 0, 1, 7), openings.admit("t", 0, 1, 8)), (Ok(()), FULL), "made anew");
    }

    #[test]
    fn an_unexpected_partition_tells_that_the_topic_has_grown() {
        let openings = Openings::default();
        assert_eq!(openings.admit("t", 0, 1, 1), Ok(()));
        assert!(!openings.settled(1, Some(2)));
        assert_eq!(openings.admit("t", 2, 3, 2), Ok(()));
        assert_eq!(openings.admit("t", 2, 3, 3), FULL, "what is beyond the known number was not noted");
    }
}
