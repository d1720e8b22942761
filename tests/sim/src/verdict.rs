//! What must never be seen, judged on the whole world at the moment it happens, and what a good search must
//! have seen at least once.

use std::fmt;

/// A broken invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// A recorded position covers a committed message that is not in the topic (I1, I3).
    Lost,
    /// A message reached the topic before an earlier one of its key (I5).
    Order,
    /// A mark of a generation that is no longer current changed the batch log (I4).
    Stale,
    /// A message that is not committed reached the topic (I2).
    Phantom,
    /// A batch number was left out or used twice.
    Gap,
    /// A row was handed to Kafka without a lease that the database would confirm.
    Unleased,
}

impl Violation {
    /// Every one.
    pub const ALL: [Violation; 6] =
        [Violation::Lost, Violation::Order, Violation::Stale, Violation::Phantom, Violation::Gap, Violation::Unleased];
}

/// The invariants that a world has broken so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Verdict(u8);

impl Verdict {
    /// Adds one.
    pub fn add(&mut self, violation: Violation) {
        self.0 |= 1 << violation as u8;
    }

    /// Whether it was broken.
    pub fn has(self, violation: Violation) -> bool {
        self.0 & 1 << violation as u8 != 0
    }

    /// Whether none was broken.
    pub fn is_clean(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Violation::ALL.iter().filter(|violation| self.has(**violation))).finish()
    }
}

/// Something that happened, of which a search or a simulation that never saw it has shown little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// A lane was claimed.
    Claim,
    /// A lane whose lease had another owner was claimed.
    Takeover,
    /// A claim found that somebody else had been faster.
    ClaimLost,
    /// A mark was written.
    Mark,
    /// A statement wrote marks.
    MarkStatement,
    /// A mark was refused by the compare-and-set.
    MarkRejected,
    /// A mark that had passed its lease check before a takeover was refused by the key.
    StalledMarkRefused,
    /// A mark whose reply was lost was found written.
    LostReplySaved,
    /// A mark landed after its relay had read where the lane stood.
    LateMarkLanded,
    /// A message reached the topic for the first time.
    Published,
    /// A message reached the topic again.
    Repeat,
    /// A message of a producer that is gone reached the topic again.
    ZombieRepeat,
    /// A message that can never be published was refused.
    Guilty,
    /// A lane stopped at such a message.
    Stopped,
    /// An acknowledgement was lost.
    AckLost,
    /// A producer was purged.
    Purge,
    /// A producer was replaced.
    Rebuild,
    /// A straggler was published after a message with a larger id.
    Straggler,
    /// The database died and came back.
    DatabaseCrash,
    /// A lane was given back.
    Release,
    /// A message waited for its route.
    RouteWait,
    /// A look at the log.
    Sight,
    /// A transaction id was taken for a tick alone.
    Burn,
    /// A page was read.
    Page,
}
