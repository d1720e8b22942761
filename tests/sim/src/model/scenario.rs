//! What may happen in a search: the messages, the faults and their number, and the start.

use std::time::Duration;

use fencepost_core::lane::LeaseTerms;
use fencepost_core::worker::Terms;

use super::State;
use crate::database::{FakeDatabase, Rules};
use crate::driver::{Mutation, ReaderOp, World};

/// Faults that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Units of time that pass at any moment. A lease lasts two, and is trusted for one.
    pub ticks: u8,
    /// Relays that die while they hold the lane.
    pub crashes: u8,
    /// Session pairs that are lost: a mark that was sent lands or not, before or after its relay looks.
    pub disconnects: u8,
    /// Marks that stall after their lease check.
    pub stalls: u8,
    /// Marks that are refused as a whole, without effect.
    pub refusals: u8,
    /// Acknowledgements that are lost.
    pub lost_acks: u8,
    /// Claims whose reply is late.
    pub late_replies: u8,
    /// Claims whose reply is lost, whether they ran or not.
    pub keeper_failures: u8,
    /// Deaths of the database.
    pub database_crashes: u8,
}

/// One producer transaction with one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    /// Not begun; it begins after another one has ended.
    Waiting {
        /// Which.
        after: Option<usize>,
    },
    /// Begun, under this transaction id, and its message is written.
    Open(u64),
    /// Committed or rolled back.
    Ended,
}

/// What a search covers.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For humans.
    pub name: &'static str,
    /// The key of each message.
    pub keys: Vec<u32>,
    /// The message that can never be published.
    pub guilty: Option<i64>,
    /// The client refuses it when it is handed over, instead of the broker later.
    pub client_refuses: bool,
    /// Faults.
    pub budget: Budget,
    /// All messages are committed before the start, and relays take no transaction ids.
    pub log_is_static: bool,
    /// Producers of a log that is not static.
    pub scripts: Vec<Script>,
    /// The one that may roll back.
    pub rollback: Option<usize>,
    /// A relay learns of a page's outcomes at any later moment, not at once.
    pub late_outcomes: bool,
    /// Number of relays.
    pub relays: usize,
    /// What is broken on purpose.
    pub mutation: Mutation,
}

impl Scenario {
    /// Messages of these keys in a log that nobody writes to any more, two relays, no fault.
    pub fn still(name: &'static str, keys: &[u32]) -> Self {
        Scenario {
            name,
            keys: keys.to_vec(),
            guilty: None,
            client_refuses: false,
            budget: Budget::default(),
            log_is_static: true,
            scripts: Vec::new(),
            rollback: None,
            late_outcomes: false,
            relays: 2,
            mutation: Mutation::Nothing,
        }
    }

    /// Messages of these keys, one transaction each, that begin and end at any moment.
    pub fn live(name: &'static str, keys: &[u32]) -> Self {
        let scripts = vec![Script::Waiting { after: None }; keys.len()];
        Scenario { log_is_static: false, scripts, relays: 1, ..Scenario::still(name, keys) }
    }

    /// With other faults.
    pub fn with(self, change: impl FnOnce(&mut Budget)) -> Self {
        let mut budget = self.budget;
        change(&mut budget);
        Scenario { budget, ..self }
    }

    /// With a message that can never be published.
    pub fn guilty(self, id: i64) -> Self {
        Scenario { guilty: Some(id), ..self }
    }

    /// With a line of the protocol broken.
    pub fn mutated(self, mutation: Mutation) -> Self {
        Scenario { mutation, ..self }
    }

    /// Whether transactions may end in another order than they began.
    pub(super) fn writes_at_once(&self) -> bool {
        self.scripts.iter().filter(|script| matches!(script, Script::Waiting { after: None })).count() > 1
    }

    fn terms(&self) -> Terms {
        let unit = Duration::from_secs(1);
        // With a log that does not change one look is enough.
        let sight = if self.log_is_static { unit * 1000 } else { Duration::ZERO };
        Terms {
            lease: LeaseTerms { lease: unit * 2, margin: unit },
            renew_every: unit * 8,
            survey_every: unit,
            mark_interval: Duration::ZERO,
            sight_busy: sight,
            sight_idle: sight,
            burn_interval: Duration::ZERO,
            page_rows: 1,
            page_bytes: 1_000,
            page_slots: 2,
            delivery_deadline: unit * 1000,
            backoff_base: Duration::ZERO,
            backoff_cap: Duration::ZERO,
            idle_mark_ids: 1_000,
        }
    }

    /// The world at the start: relays without sessions.
    pub(super) fn start(&self) -> State {
        let rules = Rules { relays_take_xids: !self.log_is_static, heartbeats: false, ..Rules::REAL };
        let db = FakeDatabase::new(rules, [0..=255]);
        let guilty: Vec<i64> = self.guilty.into_iter().collect();
        let (by_client, by_broker) = if self.client_refuses { (&guilty[..], &[][..]) } else { (&[][..], &guilty[..]) };
        let mut world = World::new(self.mutation, db, by_broker, self.terms());
        world.unsendable = by_client.iter().copied().collect();
        if self.log_is_static {
            let xid = world.db.begin();
            for key in &self.keys {
                world.db.insert(xid, 0, *key, ());
            }
            world.commit(xid);
        }
        for _ in 0..self.relays {
            world.add_relay(Duration::ZERO);
        }
        State { world, budget: self.budget, scripts: self.scripts.clone() }
    }

    /// Brings the world to where it gets interesting: the first relay holds the lane and is about to read, the
    /// others watch.
    pub(super) fn warm_up(&self, state: &mut State, hurry: impl Fn(&mut State)) {
        for index in 0..self.relays {
            state.world.connect(index);
            for _ in 0..8 {
                hurry(state);
                state.world.run_keeper(index);
                if !matches!(state.world.relays[index].reader, Some(ReaderOp::Page(_))) && index == 0 {
                    state.world.run_reader(index);
                }
            }
        }
        hurry(state);
        state.world.events.clear();
    }

    /// After a crash of the database every producer whose transaction was open begins again.
    pub(super) fn restart_scripts(&self, scripts: &mut [Script]) {
        for (script, original) in scripts.iter_mut().zip(&self.scripts) {
            if matches!(script, Script::Open(_)) {
                *script = *original;
            }
        }
    }
}
