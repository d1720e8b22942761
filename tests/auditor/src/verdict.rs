//! What an audit found, for people and for scripts. Names messages by id only.

use std::fmt;

use serde::Serialize;

use crate::MessageId;

/// Most findings of one kind that a verdict spells out; the count is always whole.
const SPELLED_OUT_MAX: usize = 20;

/// Everything of one kind that an audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings<T> {
    /// How many.
    pub count: u64,
    /// The smallest of them, at most 20.
    pub first: Vec<T>,
}

impl<T: Ord> Findings<T> {
    pub(crate) fn new(found: impl IntoIterator<Item = T>) -> Self {
        let mut first: Vec<T> = found.into_iter().collect();
        let count = first.len() as u64;
        first.sort_unstable();
        first.truncate(SPELLED_OUT_MAX);
        Findings { count, first }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A message whose first occurrence came after that of a younger message of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Disorder {
    /// The older message, which came late.
    pub late: MessageId,
    /// The younger one, which came before it.
    pub behind: MessageId,
}

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Messages whose commit was confirmed.
    pub committed: u64,
    /// Messages that were rolled back.
    pub rolled_back: u64,
    /// Messages whose commit's reply was lost.
    pub in_doubt: u64,
    /// Those of them that were published.
    pub in_doubt_published: u64,
    /// Records that the topic holds.
    pub records: u64,
    /// Committed, not in the topic.
    pub lost: Findings<MessageId>,
    /// Rolled back, in the topic.
    pub invented_rolled_back: Findings<MessageId>,
    /// In the topic, unknown to the journal.
    pub invented_unknown: Findings<MessageId>,
    /// In the topic more than once.
    pub repeated: Findings<MessageId>,
    /// Records beyond the first of their message.
    pub repeats: u64,
    /// First occurrences out of their key's order.
    pub misordered: Findings<Disorder>,
    /// Messages that lie outside the partition of their key.
    pub scattered: Findings<MessageId>,
}

impl Verdict {
    /// Nothing lost, invented, misordered or scattered. Repeats are what at-least-once allows.
    pub fn holds(&self) -> bool {
        self.lost.is_empty()
            && self.invented_rolled_back.is_empty()
            && self.invented_unknown.is_empty()
            && self.misordered.is_empty()
            && self.scattered.is_empty()
    }

    /// [`Self::holds`], and each message at most once.
    pub fn holds_exactly_once(&self) -> bool {
        self.holds() && self.repeats == 0
    }
}

impl fmt::Display for Verdict {
    /// A line per kind; ids only where something is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "journal: {} committed, {} rolled back, {} in doubt",
            self.committed, self.rolled_back, self.in_doubt
        )?;
        writeln!(f, "topic: {} records, {} in doubt published", self.records, self.in_doubt_published)?;
        line(f, "lost", &self.lost)?;
        line(f, "invented, rolled back", &self.invented_rolled_back)?;
        line(f, "invented, unknown", &self.invented_unknown)?;
        line(f, "misordered", &self.misordered)?;
        line(f, "scattered over partitions", &self.scattered)?;
        writeln!(f, "repeated: {} messages, {} records", self.repeated.count, self.repeats)?;
        f.write_str(if self.holds() { "holds" } else { "broken" })
    }
}

fn line<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, what: &str, findings: &Findings<T>) -> fmt::Result {
    write!(f, "{what}: {}", findings.count)?;
    for found in &findings.first {
        write!(f, "\n  {found:?}")?;
    }
    writeln!(f)
}
