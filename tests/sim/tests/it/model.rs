//! Every order of events within a budget of faults, around the real step function.

use fencepost_sim::model::{Relays, explore, mutants, small};
use stateright::{Checker, HasDiscoveries, Model};

/// All properties hold, and the number of states is the known one: a search that got smaller has lost
/// something.
#[test]
fn every_scenario_holds() {
    let mut wrong = Vec::new();
    for (scenario, states) in small() {
        let name = scenario.name;
        let checker = Relays::new(scenario).checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        let seen = checker.unique_state_count();
        if seen != states {
            wrong.push(format!("{name}: {seen} states, not {states}"));
        }
    }
    assert!(wrong.is_empty(), "pin these if the change is meant:\n{}", wrong.join("\n"));
}

/// From every state there is a way on to everything delivered, or to a lane that stands at its guilty message.
#[test]
fn no_scenario_has_a_dead_end() {
    for (scenario, states) in small().into_iter().filter(|(_, states)| *states < 40_000) {
        let name = scenario.name;
        let graph = explore(&Relays::new(scenario), usize::MAX);
        assert_eq!(graph.dead_ends, 0, "{name}: {:?}", graph.example);
        assert_eq!(graph.states, states, "{name}: both searches see the same states");
    }
}

/// Each line of the protocol that is broken on purpose is found out, or known to be harmless.
#[test]
fn every_mutation_is_caught() {
    for mutant in mutants() {
        let what = format!("{:?} in {}", mutant.scenario.mutation, mutant.scenario.name);
        let graph = explore(&Relays::new(mutant.scenario.clone()), usize::MAX);
        match (mutant.caught_as, graph.broken) {
            (Some(violation), Some((verdict, _))) => assert!(verdict.has(violation), "{what}: {verdict:?}"),
            (Some(violation), None) => panic!("{what}: {violation:?} was not found"),
            (None, Some((verdict, acts))) => panic!("{what} is not harmless: {verdict:?} by {acts:?}"),
            (None, None) => assert!(!mutant.reason.is_empty(), "{what}: say why it is harmless"),
        }
        let checker =
            Relays::new(mutant.scenario).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let failed = checker.discoveries().keys().any(|name| is_counterexample(&checker, name));
        assert_eq!(failed, mutant.caught_as.is_some(), "{what}: the checker agrees");
    }
}

fn is_counterexample(checker: &impl Checker<Relays>, name: &str) -> bool {
    matches!(checker.discovery_classification(name), stateright::DiscoveryClassification::Counterexample)
}
