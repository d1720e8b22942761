//! Judges from outside: compares a journal of what producers committed and rolled back with what the
//! topic holds, and says what was lost, invented, repeated or out of order.
//!
//! It shares no code with the relay, the producer library or `core`, so that it doesn't share their
//! mistakes: the journal is written by the workload itself, the records are read from Kafka. The
//! judgement ([`Audit`]) is pure; [`topic`] and the program `fencepost-auditor` are its two hands.

mod audit;
mod id;
mod journal;
pub mod topic;
mod verdict;

pub use audit::{Audit, Place};
pub use id::{MessageId, ParseMessageIdError};
pub use journal::{Entry, Fate, Journal, JournalError};
pub use verdict::{Disorder, Findings, Verdict};
