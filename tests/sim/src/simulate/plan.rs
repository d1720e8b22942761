//! What a simulation may do.

use std::time::Duration;

use fastrand::Rng;
use fencepost_core::lane::LeaseTerms;
use fencepost_core::worker::Terms;

/// The relay's defaults, with pages that a simulation fills.
pub fn real_terms() -> Terms {
    let (second, milli) = (Duration::from_secs(1), Duration::from_millis(1));
    Terms {
        lease: LeaseTerms { lease: second * 15, margin: second * 2 },
        renew_every: second * 5,
        survey_every: milli * 500,
        mark_interval: milli * 20,
        sight_busy: milli,
        sight_idle: milli * 100,
        burn_interval: milli * 20,
        page_rows: 40,
        page_bytes: 3_000,
        page_slots: 3,
        delivery_deadline: second * 10,
        backoff_base: milli * 100,
        backoff_cap: second * 10,
        idle_mark_ids: 500,
    }
}

/// Weights of what may happen; 0 is never.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Lanes; divides 256.
    pub lanes: usize,
    /// Relays.
    pub relays: usize,
    /// Relays start within 20 s instead of at once.
    pub staggered: bool,
    /// Producers that write at once.
    pub writers: usize,
    /// Mean pause between a producer's transactions, microseconds.
    pub pause_us: u64,
    /// Most messages of a transaction.
    pub messages_max: usize,
    /// Per thousand: transactions that are held for seconds, not microseconds.
    pub long_transactions: u32,
    /// Per thousand: transactions that roll back.
    pub rollbacks: u32,
    /// Order keys.
    pub keys: u32,
    /// Messages that can never be published: the broker refuses them.
    pub guilty: Vec<i64>,
    /// Messages that can never be published: the client refuses them when they are handed over.
    pub unsendable: Vec<i64>,
    /// Per thousand: statements that take up to 400 ms.
    pub slow_statements: u32,
    /// Per thousand: marks that stall for up to 40 s after their lease check.
    pub stalled_marks: u32,
    /// Per 100,000 records: acknowledgements that are lost.
    pub lost_acks: u32,
    /// Relays that freeze for up to 40 s.
    pub freezes: u32,
    /// Relays that die, and start again within 30 s.
    pub crashes: u32,
    /// Relays that are stopped in order, and start again within 30 s.
    pub drains: u32,
    /// Session pairs that are lost.
    pub disconnects: u32,
    /// Statements that are refused.
    pub refusals: u32,
    /// Deaths of the database.
    pub database_crashes: u32,
    /// Steps of the database's clock by up to 20 s, back and forth.
    pub clock_steps: u32,
    /// Times without Kafka, of up to 20 s.
    pub outages: u32,
    /// Keys whose topic can't be written for up to 20 s.
    pub closed_routes: u32,
    /// Brokers that answer a relay nothing for up to 30 s: longer than the delivery deadline.
    pub stuck: u32,
}

impl Plan {
    /// Three relays, eight lanes, a mixed load, and no fault.
    pub fn calm() -> Self {
        Plan {
            lanes: 8,
            relays: 3,
            staggered: true,
            writers: 8,
            pause_us: 30_000,
            messages_max: 4,
            long_transactions: 5,
            rollbacks: 50,
            keys: 60,
            guilty: Vec::new(),
            unsendable: Vec::new(),
            slow_statements: 0,
            stalled_marks: 0,
            lost_acks: 0,
            freezes: 0,
            crashes: 0,
            drains: 0,
            disconnects: 0,
            refusals: 0,
            database_crashes: 0,
            clock_steps: 0,
            outages: 0,
            closed_routes: 0,
            stuck: 0,
        }
    }

    /// Relays join and leave; nothing fails.
    pub fn scaling() -> Self {
        Plan { drains: 1, ..Plan::calm() }
    }

    /// Everything fails, except that the database's clock is right.
    pub fn chaos() -> Self {
        Plan {
            slow_statements: 20,
            stalled_marks: 2,
            lost_acks: 30,
            freezes: 2,
            crashes: 2,
            drains: 1,
            disconnects: 3,
            refusals: 3,
            database_crashes: 2,
            outages: 1,
            closed_routes: 1,
            stuck: 1,
            ..Plan::calm()
        }
    }

    /// A mix of load and faults that a seed draws: each fault is absent, rare or frequent, so that some schedules
    /// get far with one kind that others would hide.
    pub fn any(seed: u64) -> Self {
        let mut rng = Rng::with_seed(!seed);
        let mut some = |most: u32| if rng.bool() { 0 } else { rng.u32(1..=most) };
        let faults = Plan {
            slow_statements: some(100),
            stalled_marks: some(10),
            lost_acks: some(200),
            freezes: some(4),
            crashes: some(4),
            drains: some(4),
            disconnects: some(4),
            refusals: some(4),
            database_crashes: some(4),
            clock_steps: some(2),
            outages: some(2),
            closed_routes: some(4),
            stuck: some(2),
            long_transactions: some(100),
            rollbacks: some(500),
            ..Plan::calm()
        };
        Plan {
            lanes: [1, 2, 4, 8, 16][rng.usize(0..5)],
            relays: rng.usize(1..=4),
            keys: [3, 20, 500][rng.usize(0..3)],
            writers: rng.usize(1..=8),
            pause_us: [10_000, 30_000, 300_000][rng.usize(0..3)],
            guilty: if rng.u8(0..4) == 0 { vec![rng.i64(1..500)] } else { Vec::new() },
            unsendable: if rng.u8(0..4) == 0 { vec![rng.i64(1..500)] } else { Vec::new() },
            staggered: rng.bool(),
            ..faults
        }
    }

    /// Whether there is any fault to draw.
    pub fn has_faults(&self) -> bool {
        self.weights().iter().any(|weight| *weight > 0)
    }

    /// Of the faults, in the order in which they are drawn.
    pub(super) fn weights(&self) -> [u32; 10] {
        [
            self.freezes,
            self.crashes,
            self.drains,
            self.disconnects,
            self.refusals,
            self.database_crashes,
            self.clock_steps,
            self.outages,
            self.closed_routes,
            self.stuck,
        ]
    }
}
