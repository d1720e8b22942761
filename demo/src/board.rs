//! What there is to see at one moment. The view draws it, the story waits on it.

use std::time::Duration;

use crate::child::State;
use crate::database::Lane;
use crate::relay::Counts;

/// A relay at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayLine {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub state: State,
    /// What it counted.
    pub counts: Counts,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    /// Since the program began.
    pub elapsed: Duration,
    /// Which kinds of database and broker.
    pub place: String,
    /// Orders committed.
    pub committed: u64,
    /// Of them in the last two seconds, per second.
    pub rate: f64,
    /// Orders rolled back.
    pub rolled_back: u64,
    /// Records in the topic, as far as the auditor has read.
    pub records: u64,
    /// Distinct messages among them.
    pub distinct: u64,
    /// Effects applied.
    pub applied: u64,
    /// Repeats absorbed.
    pub absorbed: u64,
    /// The relays.
    pub relays: Vec<RelayLine>,
    /// The lanes.
    pub lanes: Vec<Lane>,
}

impl Board {
    /// Orders whose message the auditor has not seen yet.
    pub fn lag(&self) -> u64 {
        self.committed.saturating_sub(self.distinct)
    }

    /// Numbers of the lanes that this relay holds.
    pub fn lanes_of(&self, relay: &str) -> Vec<i64> {
        self.lanes.iter().filter(|lane| lane.owner.as_deref() == Some(relay)).map(|lane| lane.lane).collect()
    }

    /// Whether these relays hold all lanes, each about the same number.
    pub fn shared_by(&self, relays: &[&str]) -> bool {
        let fair = self.lanes.len() / relays.len();
        let held: Vec<usize> = relays.iter().map(|relay| self.lanes_of(relay).len()).collect();
        !self.lanes.is_empty() && held.iter().sum::<usize>() == self.lanes.len() && held.iter().all(|n| *n >= fair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_means_all_lanes_and_fairly() {
        let lane = |lane, owner: &str| Lane { lane, owner: Some(owner.into()), generation: 1 };
        let board = |owners: [&str; 4]| Board {
            lanes: (0..).zip(owners).map(|(n, o)| lane(n, o)).collect(),
            ..Board::default()
        };
        assert!(board(["a", "b", "a", "b"]).shared_by(&["a", "b"]));
        assert!(board(["b", "b", "b", "b"]).shared_by(&["b"]));
        assert!(!board(["a", "b", "b", "b"]).shared_by(&["a", "b"]));
        assert!(!board(["a", "b", "a", "c"]).shared_by(&["a", "b"]));
        assert!(!Board::default().shared_by(&["a"]));
    }
}
