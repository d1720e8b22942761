//! What must always hold, and what a search must have met at least once to have shown anything.

use stateright::Property;

use super::{Relays, Scenario, State};
use crate::verdict::{Event, Violation};

/// The properties of a scenario.
pub(super) fn of(scenario: &Scenario) -> Vec<Property<Relays>> {
    let mut properties: Vec<_> = Violation::ALL.into_iter().map(never).collect();
    properties.push(Property::always("no timer for nothing", |model: &Relays, _| !model.coverage.spun()));
    properties.push(Property::sometimes("all is delivered", |model: &Relays, state| model.is_done(state)));
    properties.extend(expected(scenario).into_iter().map(met));
    properties
}

fn never(violation: Violation) -> Property<Relays> {
    match violation {
        Violation::Lost => Property::always("nothing is lost", |_, s| holds(s, Violation::Lost)),
        Violation::Order => Property::always("keys stay in order", |_, s| holds(s, Violation::Order)),
        Violation::Stale => Property::always("stale marks change nothing", |_, s| holds(s, Violation::Stale)),
        Violation::Phantom => Property::always("nothing is invented", |_, s| holds(s, Violation::Phantom)),
        Violation::Gap => Property::always("batch numbers have no gaps", |_, s| holds(s, Violation::Gap)),
        Violation::Unleased => Property::always("nothing is sent unleased", |_, s| holds(s, Violation::Unleased)),
    }
}

fn holds(state: &State, violation: Violation) -> bool {
    !state.world.verdict.has(violation)
}

/// The events that a scenario is about.
fn expected(scenario: &Scenario) -> Vec<Event> {
    let mut events = Vec::new();
    let mut when = |wanted: bool, seen: &[Event]| {
        if wanted {
            events.extend(seen);
        }
    };
    let budget = &scenario.budget;
    let expires = scenario.relays > 1 && budget.ticks > 1;
    when(scenario.guilty != Some(1), &[Event::Published, Event::Mark]);
    when(expires, &[Event::Takeover, Event::MarkRejected, Event::Repeat]);
    when(expires && budget.stalls > 0, &[Event::StalledMarkRefused]);
    when(budget.disconnects > 0, &[Event::LostReplySaved, Event::LateMarkLanded]);
    when(budget.lost_acks > 0 && scenario.guilty != Some(1), &[Event::AckLost, Event::Repeat]);
    when(budget.crashes > 0 && scenario.guilty.is_none(), &[Event::Repeat, Event::ZombieRepeat]);
    when(scenario.guilty.is_some(), &[Event::Stopped]);
    when(scenario.guilty.is_some() && !scenario.client_refuses, &[Event::Guilty, Event::Rebuild]);
    when(budget.database_crashes > 0, &[Event::DatabaseCrash]);
    when(!scenario.log_is_static, &[Event::Burn]);
    when(scenario.writes_at_once(), &[Event::Straggler]);
    events.sort_unstable();
    events.dedup();
    events
}

fn met(event: Event) -> Property<Relays> {
    match event {
        Event::Published => Property::sometimes("a message is published", |m, _| m.coverage.saw(Event::Published)),
        Event::Mark => Property::sometimes("a mark is written", |m, _| m.coverage.saw(Event::Mark)),
        Event::Takeover => Property::sometimes("a lane is taken over", |m, _| m.coverage.saw(Event::Takeover)),
        Event::MarkRejected => Property::sometimes("a mark is rejected", |m, _| m.coverage.saw(Event::MarkRejected)),
        Event::StalledMarkRefused => {
            Property::sometimes("a stalled mark is refused", |m, _| m.coverage.saw(Event::StalledMarkRefused))
        }
        Event::LostReplySaved => {
            Property::sometimes("a lost reply is found saved", |m, _| m.coverage.saw(Event::LostReplySaved))
        }
        Event::LateMarkLanded => Property::sometimes("a mark lands late", |m, _| m.coverage.saw(Event::LateMarkLanded)),
        Event::Repeat => Property::sometimes("a message repeats", |m, _| m.coverage.saw(Event::Repeat)),
        Event::ZombieRepeat => Property::sometimes("a zombie repeats", |m, _| m.coverage.saw(Event::ZombieRepeat)),
        Event::AckLost => Property::sometimes("an answer is lost", |m, _| m.coverage.saw(Event::AckLost)),
        Event::Guilty => Property::sometimes("a message is refused", |m, _| m.coverage.saw(Event::Guilty)),
        Event::Stopped => Property::sometimes("a lane stops", |m, _| m.coverage.saw(Event::Stopped)),
        Event::Rebuild => Property::sometimes("a producer is rebuilt", |m, _| m.coverage.saw(Event::Rebuild)),
        Event::Straggler => Property::sometimes("a straggler comes late", |m, _| m.coverage.saw(Event::Straggler)),
        Event::DatabaseCrash => Property::sometimes("the database dies", |m, _| m.coverage.saw(Event::DatabaseCrash)),
        Event::Burn => Property::sometimes("a transaction id is burnt", |m, _| m.coverage.saw(Event::Burn)),
        event => unreachable!("{event:?} is expected of no scenario"),
    }
}
