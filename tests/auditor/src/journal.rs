//! What producers did, written down by the workload itself: one entry per message, in memory or as
//! lines of JSON.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::{Audit, MessageId};

/// What became of the transaction that wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The database confirmed the commit: it must be published.
    Committed,
    /// It, or the savepoint around the message, was rolled back: it must not be published.
    RolledBack,
    /// The reply to the commit was lost: either is right, but its order counts if it was published.
    InDoubt,
}

/// One message of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which.
    pub id: MessageId,
    /// What became of it.
    pub fate: Fate,
    /// What orders it: tenant, topic and key in one text of the workload's choice; absent for a message without a
    /// key, which has no order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its number within the key, given under the lock of the key's aggregate: grows, gaps are fine.
    pub seq: u64,
}

/// What producers did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// In any order.
    pub entries: Vec<Entry>,
}

/// The journal can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be read or written.
    #[error("the journal can't be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not an entry.
    #[error("line {line} of the journal is not an entry: {source}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A message stands in it twice.
    #[error("message {0} stands twice in the journal: write each message once, when its fate is known")]
    Twice(MessageId),
}

impl Journal {
    /// Notes one message.
    pub fn note(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// How many messages have this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.entries.iter().filter(|entry| entry.fate == fate).count()
    }

    /// An audit that knows everything in the journal and has observed nothing.
    ///
    /// # Errors
    /// [`JournalError::Twice`].
    pub fn audit(&self) -> Result<Audit, JournalError> {
        let mut audit = Audit::default();
        for entry in &self.entries {
            audit.note(entry)?;
        }
        Ok(audit)
    }

    /// Reads lines of JSON; empty lines are skipped.
    ///
    /// # Errors
    /// The first line that is not an entry, or an I/O error.
    pub fn read(from: impl BufRead) -> Result<Self, JournalError> {
        let mut journal = Journal::default();
        for (index, line) in from.lines().enumerate() {
            let line = line?;
            if !line.trim().is_empty() {
                let entry =
                    serde_json::from_str(&line).map_err(|source| JournalError::Line { line: index + 1, source })?;
                journal.note(entry);
            }
        }
        Ok(journal)
    }

    /// Writes one line of JSON per entry.
    ///
    /// # Errors
    /// An I/O error; some lines may be written then.
    pub fn write(&self, mut to: impl Write) -> Result<(), JournalError> {
        for entry in &self.entries {
            serde_json::to_writer(&mut to, entry).map_err(std::io::Error::from)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }
}
