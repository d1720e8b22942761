//! The scenarios that are searched, with the number of states that each has, and the mutants with what must
//! catch them.

use super::Scenario;
use super::scenario::Script;
use crate::driver::Mutation;
use crate::verdict::Violation;

/// Scenarios for every test run, and their unique states.
pub fn small() -> Vec<(Scenario, usize)> {
    let (mixed, one) = (&[1, 2, 1], &[1, 1, 1]);
    vec![
        (Scenario::still("takeovers", mixed).with(|b| b.ticks = 2), 45_025),
        (Scenario::still("a mark stalls over a takeover", one).with(|b| (b.ticks, b.stalls) = (2, 1)), 85_963),
        (Scenario::still("sessions are lost", mixed).with(|b| (b.ticks, b.disconnects) = (1, 1)), 46_627),
        (Scenario::still("an answer of the broker is lost", mixed).with(|b| (b.ticks, b.lost_acks) = (1, 1)), 11_978),
        (Scenario::still("a relay dies", mixed).with(|b| (b.ticks, b.crashes, b.stalls) = (1, 1, 1)), 34_711),
        (Scenario::still("a mark is refused", mixed).with(|b| (b.ticks, b.refusals) = (1, 2)), 13_422),
        (Scenario::still("a claim's answer is lost", mixed).with(|b| (b.ticks, b.keeper_failures) = (1, 2)), 5_225),
        (Scenario::still("a claim's answer is late", one).with(|b| (b.ticks, b.late_replies) = (2, 1)), 69_427),
        (guilty("the first of a key is guilty", one, 1), 1_631),
        (guilty("the second of a key is guilty", one, 2), 26_791),
        (guilty("the last of a key is guilty", one, 3), 67_672),
        (guilty("the first is guilty, another key between", mixed, 1), 10_388),
        (guilty("another key is guilty", mixed, 2), 58_465),
        (guilty("the last is guilty, another key between", mixed, 3), 78_160),
        (by_client(guilty("the client refuses the second of a key", one, 2)), 4_974),
        (by_client(guilty("the client refuses another key", mixed, 2)), 4_974),
        (Scenario::live("two writers at once", &[1, 2]).rolls_back(0).with(|b| b.disconnects = 1), 116_686),
        (Scenario::live("one key, twice", &[1, 1]).in_turn(1, 0).with(|b| (b.ticks, b.stalls) = (1, 1)), 75_402),
        (Scenario::live("the database dies", &[1, 2]).with(|b| b.database_crashes = 1), 70_357),
    ]
}

fn guilty(name: &'static str, keys: &[u32], id: i64) -> Scenario {
    let scenario = Scenario::still(name, keys).guilty(id).with(|b| (b.ticks, b.lost_acks, b.crashes) = (1, 1, 1));
    Scenario { late_outcomes: true, ..scenario }
}

fn by_client(scenario: Scenario) -> Scenario {
    Scenario { client_refuses: true, ..scenario }
}

/// Scenarios for a machine with time.
pub fn big() -> Vec<Scenario> {
    let (mixed, one) = (&[1, 2, 1], &[1, 1, 1]);
    vec![
        Scenario::still("three units of time", mixed).with(|b| b.ticks = 3),
        Scenario::still("takeovers and lost sessions", mixed).with(|b| (b.ticks, b.disconnects) = (2, 1)),
        Scenario::still("takeovers, stalls, a death", one).with(|b| (b.ticks, b.stalls, b.crashes) = (2, 1, 1)),
        Scenario::live("one key twice, and another", &[1, 1, 2]).in_turn(1, 0),
        Scenario::live("three writers at once", &[1, 2, 3]),
        Scenario { relays: 2, ..Scenario::live("two writers, two relays", &[1, 2]).with(|b| b.ticks = 1) },
        Scenario::live("two deaths of the database", &[1, 2]).with(|b| b.database_crashes = 2),
    ]
}

/// A broken line of the protocol, and the invariant that its search finds broken; `None`: it is harmless in
/// at-least-once mode, for the reason given.
pub struct Mutant {
    /// What is searched.
    pub scenario: Scenario,
    /// What must be found.
    pub caught_as: Option<Violation>,
    /// Why, where it is not plain.
    pub reason: &'static str,
}

/// Every mutation, in a scenario that tells.
pub fn mutants() -> Vec<Mutant> {
    use Mutation::*;
    let (mixed, one) = (&[1, 2, 1], &[1, 1, 1]);
    let mutant = |scenario: Scenario, mutation, caught_as| {
        let scenario = scenario.mutated(mutation);
        Mutant { scenario, caught_as, reason: "" }
    };
    let late = |scenario| Scenario { late_outcomes: true, ..scenario };
    let expiry = || Scenario::still("takeovers", mixed).with(|b| b.ticks = 2);
    let stall = || Scenario::still("a stalled mark", one).with(|b| (b.ticks, b.stalls) = (2, 1));
    let poison = || late(Scenario::still("a guilty message", one).guilty(1));
    let slow_claim = Scenario::still("a late claim", mixed).with(|b| (b.ticks, b.late_replies) = (3, 1));
    vec![
        mutant(late(Scenario::still("a death", mixed).with(|b| b.crashes = 1)), FirstAckFirst, Some(Violation::Lost)),
        mutant(poison(), NotGapless, Some(Violation::Order)),
        mutant(poison(), NoWaitForOutcomes, Some(Violation::Order)),
        mutant(stall(), FreshNumbers, Some(Violation::Stale)),
        mutant(expiry(), NoGuard, Some(Violation::Stale)),
        mutant(stall(), NoKey, Some(Violation::Stale)),
        Mutant {
            reason: "the key alone refuses every mark behind a fence, and one before it was true when it was sent",
            ..mutant(stall(), NoLeaseCheck, None)
        },
        mutant(Scenario { relays: 1, ..slow_claim }, TrustFromReply, Some(Violation::Unleased)),
        mutant(stall(), SplitClaim, Some(Violation::Stale)),
        mutant(poison(), ResendBehind, Some(Violation::Order)),
        mutant(poison(), SkipGuilty, Some(Violation::Lost)),
        Mutant {
            reason: "a lost reply makes the worker read its position back; whatever row is there was true, and a \
                     position that is behind only repeats",
            ..mutant(Scenario::still("a lost reply", one).with(|b| (b.ticks, b.disconnects) = (1, 1)), AnyTag, None)
        },
        mutant(
            Scenario::live("the database dies", &[1, 2]).with(|b| b.database_crashes = 1),
            KeepPositions,
            Some(Violation::Lost),
        ),
    ]
}

impl Scenario {
    fn rolls_back(self, script: usize) -> Self {
        Scenario { rollback: Some(script), ..self }
    }

    /// One transaction begins after another has ended, as those of one key do.
    fn in_turn(mut self, script: usize, after: usize) -> Self {
        self.scripts[script] = Script::Waiting { after: Some(after) };
        self
    }
}
