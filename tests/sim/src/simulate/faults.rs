//! Faults: drawn by weight, every few seconds of virtual time.

use std::time::Duration;

use fencepost_core::worker::Input;

use super::{Due, Simulation};
use crate::driver::MarkerOp;

impl Simulation {
    pub(super) fn fault(&mut self) {
        let weights = self.plan.weights();
        let mut draw = self.rng.u32(0..weights.iter().sum());
        let relay = self.rng.usize(0..self.plan.relays);
        for (fault, weight) in weights.iter().enumerate() {
            if draw < *weight {
                self.strike(fault, relay);
                break;
            }
            draw -= weight;
        }
        let at = self.within(300_000..6_000_000);
        self.due.insert(Due::Fault, at);
    }

    fn strike(&mut self, fault: usize, relay: usize) {
        if !self.world.relays[relay].alive {
            return;
        }
        match fault {
            0 => self.freeze(relay),
            1 => self.crash(relay),
            2 => self.world.step(relay, Input::Drain),
            3 if self.world.relays[relay].connected => self.world.disconnect(relay),
            4 => self.refuse(relay),
            5 => {
                self.world.crash_database();
                self.writers.forget();
            }
            6 => self.step_clock(),
            7 => self.kafka_down = true,
            8 => {
                let key = self.rng.u32(0..self.plan.keys);
                self.world.closed_routes.insert(key);
            }
            9 => {
                self.stuck_until[relay] = self.within(1_000_000..30_000_000);
                self.due.remove(&Due::Broker(relay));
            }
            _ => {}
        }
        if matches!(fault, 7 | 8) {
            let at = self.within(1_000_000..20_000_000);
            self.due.insert(Due::Heal, at);
        }
    }

    fn freeze(&mut self, relay: usize) {
        let until = self.within(100_000..40_000_000);
        self.frozen_until[relay] = until;
        for (due, at) in &mut self.due {
            if due.process() == Some(relay) {
                *at = (*at).max(until);
            }
        }
    }

    /// The process dies, and does not come back by itself; the broker may still get what it had sent.
    pub fn kill(&mut self, relay: usize) {
        self.world.crash(relay);
        self.world.relays[relay].alive = false;
    }

    pub(super) fn crash(&mut self, relay: usize) {
        self.kill(relay);
        let at = self.within(100_000..30_000_000);
        self.due.insert(Due::Start(relay), at);
    }

    /// The process has left in order.
    pub(super) fn left(&mut self, relay: usize) {
        self.crash(relay);
    }

    fn refuse(&mut self, relay: usize) {
        match self.rng.u8(0..3) {
            0 if matches!(self.world.relays[relay].marker, Some(MarkerOp::Mark(_))) => self.world.refuse_mark(relay),
            1 => self.world.refuse_read(relay),
            _ => self.world.fail_keeper(relay),
        }
    }

    fn step_clock(&mut self) {
        let step = Duration::from_micros(self.rng.u64(0..20_000_000));
        let now = self.world.db.now;
        self.world.db.now = if self.rng.bool() { now + step } else { now.saturating_sub(step) };
    }

    /// Kafka and all topics are there again.
    pub(super) fn heal(&mut self) {
        self.kafka_down = false;
        self.world.closed_routes.clear();
        self.stuck_until.fill(Duration::ZERO);
    }
}
