//! Long runs by hand.
//!
//! * `model [--big]`: every scenario with its number of states, its properties and its dead ends;
//! * `simulate FROM COUNT`: that many seeds, each with its own mix of faults.

use std::process::ExitCode;
use std::time::Duration;

use fencepost_sim::model::{Relays, Scenario, big, explore, small};
use fencepost_sim::simulate::{Plan, Simulation};
use stateright::{Checker, Model};

/// Where a search gives up.
const STATES_MAX: usize = 20_000_000;

fn main() -> ExitCode {
    #[allow(clippy::disallowed_methods, reason = "a tool of two verbs, without a parser")]
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["model"] => search(small().into_iter().map(|(scenario, _)| scenario).collect()),
        ["model", "--big"] => search(big()),
        ["simulate", from, count] => match (from.parse(), count.parse::<u64>()) {
            (Ok(from), Ok(count)) => simulate(from, count),
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: fencepost-sim model [--big] | simulate FROM COUNT");
    ExitCode::FAILURE
}

fn search(scenarios: Vec<Scenario>) -> ExitCode {
    let mut good = true;
    for scenario in scenarios {
        let name = scenario.name;
        let checker =
            Relays::new(scenario.clone()).checker().target_state_count(STATES_MAX).threads(2).spawn_bfs().join();
        let failures: Vec<&str> = checker.discoveries().into_keys().filter(|name| is_failure(&checker, name)).collect();
        let graph = explore(&Relays::new(scenario), STATES_MAX);
        println!(
            "{name}: {} states, {} dead ends, broken: {failures:?}",
            checker.unique_state_count(),
            graph.dead_ends
        );
        for act in graph.example.into_iter().flatten() {
            println!("  {act:?}");
        }
        good &= failures.is_empty() && graph.dead_ends == 0;
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_failure(checker: &impl Checker<Relays>, name: &str) -> bool {
    matches!(checker.discovery_classification(name), stateright::DiscoveryClassification::Counterexample)
}

fn simulate(from: u64, count: u64) -> ExitCode {
    for seed in from..from.saturating_add(count) {
        println!("seed {seed}");
        let mut simulation = Simulation::new(seed, Plan::any(seed));
        simulation.run_until(Duration::from_secs(60));
        simulation.settle(Duration::from_secs(180));
    }
    ExitCode::SUCCESS
}
