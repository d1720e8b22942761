//! The judgement. Pure: it is told what was committed and what the topic holds, in any order, and
//! compares when asked.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use crate::verdict::{Disorder, Findings};
use crate::{Entry, Fate, JournalError, MessageId, Verdict};

/// Where a record lies in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Partition of the topic.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
}

/// Compares what was committed with what one topic holds.
///
/// The order of a key is judged on *first occurrences*: at-least-once delivery may repeat a record
/// later, consumers drop it by its message id.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    keys: HashMap<String, u32>,
    known: HashMap<MessageId, Known>,
    seen: HashMap<MessageId, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    fate: Fate,
    key: Option<u32>,
    seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Place,
    times: u64,
    scattered: bool,
}

/// First occurrence of a message that has a key.
struct First {
    place: Place,
    seq: u64,
    id: MessageId,
}

impl Audit {
    /// The database confirmed the commit of this message.
    ///
    /// # Errors
    /// [`JournalError::Twice`] where the message is known already.
    pub fn committed(&mut self, id: MessageId, key: Option<&str>, seq: u64) -> Result<(), JournalError> {
        self.know(id, Fate::Committed, key, seq)
    }

    /// This message was rolled back.
    ///
    /// # Errors
    /// [`JournalError::Twice`] where the message is known already.
    pub fn rolled_back(&mut self, id: MessageId) -> Result<(), JournalError> {
        self.know(id, Fate::RolledBack, None, 0)
    }

    /// The reply to this message's commit was lost.
    ///
    /// # Errors
    /// [`JournalError::Twice`] where the message is known already.
    pub fn in_doubt(&mut self, id: MessageId, key: Option<&str>, seq: u64) -> Result<(), JournalError> {
        self.know(id, Fate::InDoubt, key, seq)
    }

    /// An entry of a journal.
    ///
    /// # Errors
    /// [`JournalError::Twice`] where the message is known already.
    pub fn note(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.know(entry.id, entry.fate, entry.key.as_deref(), entry.seq)
    }

    fn know(&mut self, id: MessageId, fate: Fate, key: Option<&str>, seq: u64) -> Result<(), JournalError> {
        let key = key.map(|key| self.intern(key));
        match self.known.entry(id) {
            Slot::Occupied(_) => Err(JournalError::Twice(id)),
            Slot::Vacant(slot) => {
                slot.insert(Known { fate, key, seq });
                Ok(())
            }
        }
    }

    fn intern(&mut self, key: &str) -> u32 {
        if let Some(number) = self.keys.get(key) {
            return *number;
        }
        let number = self.keys.len() as u32;
        self.keys.insert(key.to_owned(), number);
        number
    }

    /// The topic holds a record of this message at `place`. Each record is told once, in any order.
    pub fn observed(&mut self, id: MessageId, place: Place) {
        match self.seen.entry(id) {
            Slot::Vacant(slot) => {
                slot.insert(Seen { first: place, times: 1, scattered: false });
            }
            Slot::Occupied(mut slot) => {
                let seen = slot.get_mut();
                seen.times += 1;
                seen.scattered |= seen.first.partition != place.partition;
                seen.first = seen.first.min(place);
            }
        }
    }

    /// How many committed messages have been observed: what a test waits on.
    pub fn delivered(&self) -> usize {
        self.known.iter().filter(|(id, known)| known.fate == Fate::Committed && self.seen.contains_key(id)).count()
    }

    /// Compares.
    pub fn verdict(&self) -> Verdict {
        let lost = self.known.iter().filter(|(id, known)| known.fate == Fate::Committed && !self.seen.contains_key(id));
        let fate = |id: &MessageId| self.known.get(id).map(|known| known.fate);
        let seen_with = |wanted| self.seen.keys().filter(move |id| fate(id) == wanted).copied();
        let (disorders, scattered) = self.judge_order();
        Verdict {
            committed: self.with_fate(Fate::Committed),
            rolled_back: self.with_fate(Fate::RolledBack),
            in_doubt: self.with_fate(Fate::InDoubt),
            in_doubt_published: seen_with(Some(Fate::InDoubt)).count() as u64,
            records: self.seen.values().map(|seen| seen.times).sum(),
            lost: Findings::new(lost.map(|(id, _)| *id)),
            invented_rolled_back: Findings::new(seen_with(Some(Fate::RolledBack))),
            invented_unknown: Findings::new(seen_with(None)),
            repeated: Findings::new(self.seen.iter().filter(|(_, seen)| seen.times > 1).map(|(id, _)| *id)),
            repeats: self.seen.values().map(|seen| seen.times - 1).sum(),
            misordered: Findings::new(disorders),
            scattered: Findings::new(scattered),
        }
    }

    fn with_fate(&self, fate: Fate) -> u64 {
        self.known.values().filter(|known| known.fate == fate).count() as u64
    }

    /// First occurrences that came behind a younger one of their key, and messages that left the
    /// partition of their key.
    fn judge_order(&self) -> (Vec<Disorder>, Vec<MessageId>) {
        let mut by_key: HashMap<u32, Vec<First>> = HashMap::new();
        let (mut disorders, mut scattered) = (Vec::new(), Vec::new());
        for (id, seen) in &self.seen {
            let Some(Known { key: Some(key), seq, .. }) = self.known.get(id) else { continue };
            if seen.scattered {
                scattered.push(*id);
            }
            by_key.entry(*key).or_default().push(First { place: seen.first, seq: *seq, id: *id });
        }
        for firsts in by_key.values_mut() {
            firsts.sort_unstable_by_key(|first| first.place);
            judge_key(firsts, &mut disorders, &mut scattered);
        }
        (disorders, scattered)
    }
}

/// `firsts` are the first occurrences of one key by place.
fn judge_key(firsts: &[First], disorders: &mut Vec<Disorder>, scattered: &mut Vec<MessageId>) {
    let Some(mut newest) = firsts.first() else { return };
    let home = newest.place.partition;
    for first in &firsts[1..] {
        if first.place.partition != home {
            scattered.push(first.id);
        } else if first.seq <= newest.seq {
            disorders.push(Disorder { late: first.id, behind: newest.id });
        } else {
            newest = first;
        }
    }
}
