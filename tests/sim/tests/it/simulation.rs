//! Random schedules of the real worker in virtual time. Each prints its seed; `FENCEPOST_SIM_SEED=N` runs that
//! one alone.

use std::time::Duration;

use fencepost_core::worker::Flow;
use fencepost_sim::seeds;
use fencepost_sim::simulate::{Plan, Simulation, real_terms};
use fencepost_sim::verdict::Event;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Wall clock for random seeds, of each test.
const BUDGET: Duration = Duration::from_secs(3);

/// Seeds that failed once.
const PINNED: [u64; 3] = [0, 1, 2];

/// Calls `run` with the pinned seeds, and with new ones until the budget is spent.
fn for_seeds(run: impl Fn(u64)) {
    seeds::for_seeds(&PINNED, BUDGET, run);
}

/// Runs one schedule to its end: everything is delivered and recorded.
fn run(seed: u64, plan: Plan, length: Duration) -> Simulation {
    let mut simulation = Simulation::new(seed, plan);
    simulation.run_until(length);
    simulation.settle(MINUTE * 3);
    simulation
}

#[test]
fn nothing_is_lost_or_reordered_in_chaos() {
    for_seeds(|seed| {
        let end = run(seed, Plan::chaos(), MINUTE * 2);
        assert!(end.count(Event::Takeover) + end.count(Event::Repeat) > 0, "chaos had an effect: {:?}", end.tally);
        assert!(end.windows_audited > 50, "the log was counted again: {} windows", end.windows_audited);
    });
}

#[test]
fn nothing_is_lost_or_reordered_under_any_mix_of_faults() {
    for_seeds(|seed| {
        run(seed, Plan::any(seed), MINUTE);
    });
}

#[test]
fn a_database_clock_that_steps_freezes_no_lane() {
    for_seeds(|seed| {
        let plan = Plan { clock_steps: 5, crashes: 1, freezes: 1, ..Plan::calm() };
        run(seed, plan, MINUTE * 2);
    });
}

#[test]
fn scaling_in_and_out_repeats_nothing_and_ends_fair() {
    for_seeds(|seed| {
        let mut end = run(seed, Plan::scaling(), MINUTE * 2);
        assert_eq!(end.count(Event::Repeat) + end.count(Event::ZombieRepeat), 0, "{:?}", end.tally);
        assert!(end.count(Event::Release) > 0, "lanes were handed over: {:?}", end.tally);
        let terms = real_terms();
        let rest = end.world.now + MINUTE + terms.lease.lease;
        end.run_until(rest);
        let mut held = end.lanes_held();
        held.sort_unstable();
        assert_eq!(held, [2, 3, 3], "each relay has its fair share");
    });
}

#[test]
fn a_dead_relays_lanes_are_taken_over_in_time() {
    for_seeds(|seed| {
        let mut simulation = Simulation::new(seed, Plan { relays: 2, staggered: false, ..Plan::calm() });
        simulation.run_until(SECOND * 40);
        assert_eq!(simulation.lanes_held(), [4, 4], "both serve");
        simulation.kill(0);
        let terms = real_terms();
        let latest = simulation.world.now + terms.lease.lease + terms.lease.margin + terms.survey_every;
        simulation.run_until(latest);
        assert_eq!(simulation.lanes_held(), [8], "the other one serves all");
        simulation.settle(MINUTE);
    });
}

#[test]
fn at_rest_there_is_little_to_do() {
    for_seeds(|seed| {
        let mut simulation = Simulation::new(seed, Plan { writers: 0, staggered: false, relays: 2, ..Plan::calm() });
        simulation.run_until(MINUTE);
        let before = simulation.tally.clone();
        simulation.run_until(MINUTE * 2);
        let since = |event| simulation.count(event) - before.get(&event).copied().unwrap_or_default();
        // Each of two relays looks once per idle pause.
        let looks = 2 * 60 * 10;
        assert!((looks * 9 / 10..=looks + 2).contains(&since(Event::Sight)), "{} looks", since(Event::Sight));
        assert_eq!((since(Event::Burn), since(Event::MarkStatement), since(Event::Page)), (0, 0, 0), "no work at rest");
        assert_eq!(since(Event::Claim), 0, "lanes stay where they are");
    });
}

#[test]
fn a_steady_load_burns_few_transaction_ids_and_waits_little() {
    for_seeds(|seed| {
        let writers = Plan { writers: 20, pause_us: 20_000, messages_max: 1, long_transactions: 0, ..Plan::calm() };
        let mut simulation = Simulation::new(seed, Plan { relays: 1, keys: 10_000, staggered: false, ..writers });
        simulation.run_until(SECOND * 5);
        let (ids, published) = (simulation.transaction_ids(), simulation.count(Event::Published));
        simulation.latencies.clear();
        simulation.run_until(SECOND * 15);
        let rate = (simulation.count(Event::Published) - published) / 10;
        assert!((800..1_200).contains(&rate), "{rate} messages per second");
        let burnt = (simulation.transaction_ids() - ids) / 10;
        assert!(burnt <= 500, "{burnt} transaction ids per second");
        simulation.latencies.sort_unstable();
        let at = |percent: usize| simulation.latencies[simulation.latencies.len() * percent / 100];
        assert!(at(50) <= Duration::from_millis(4) && at(99) <= Duration::from_millis(10), "{:?} {:?}", at(50), at(99));
    });
}

/// Message 500 can never be published: its lane stops there, everything before it and all other lanes go on.
fn stops_its_lane_alone(seed: u64, plan: Plan) {
    let mut end = run(seed, plan, MINUTE);
    let rest = end.world.now + SECOND * 20;
    end.run_until(rest);
    let stopped = |flow: &Flow| matches!(flow, Flow::Stopped { id: 500, .. });
    let views = end.world.relays.iter().flat_map(|relay| relay.worker.lanes());
    let stopped = views.filter(|view| stopped(view.flow)).count();
    let is_there = end.world.db.committed().any(|(id, _)| id == 500);
    assert_eq!(stopped, usize::from(is_there), "one lane stands, unless the message was rolled back");
    assert!(!end.world.kafka.topic().contains(&500));
}

fn steady() -> Plan {
    Plan { relays: 2, long_transactions: 0, lost_acks: 300, ..Plan::calm() }
}

#[test]
fn a_message_that_the_broker_refuses_stops_its_lane_alone() {
    for_seeds(|seed| stops_its_lane_alone(seed, Plan { guilty: vec![500], ..steady() }));
}

#[test]
fn a_message_that_the_client_refuses_stops_its_lane_alone() {
    for_seeds(|seed| stops_its_lane_alone(seed, Plan { unsendable: vec![500], ..steady() }));
}
