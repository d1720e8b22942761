//! The model: two relays on one lane, every order of events within a budget of faults. Freezes need no
//! event of their own: a relay that gets no step while time passes is frozen.

mod catalogue;
mod properties;
mod scenario;
mod search;

use std::time::Duration;

use fencepost_core::worker::{Action, Flow, Input};
use stateright::{Model, Property};

use crate::driver::{MarkerOp, ReaderOp, World};

pub use catalogue::{big, mutants, small};
pub use scenario::{Budget, Scenario, Script};
pub use search::{Coverage, Graph, explore};

/// Beyond this the search would not end: a relay that is still busy then is stuck.
const TIME_MAX: Duration = Duration::from_secs(40);

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the driver's methods")]
pub enum Act {
    Advance,
    Timer(usize),
    Read(usize),
    Mark(usize),
    CheckMark(usize),
    RefuseMark(usize),
    LandOrphan(usize),
    Keep(usize),
    ExecuteKeep(usize),
    AnswerKeep(usize),
    FailKeep(usize),
    Append(usize, usize),
    AppendSilently(usize, usize),
    Refuse(usize, usize, usize),
    Zombie(usize, usize),
    Tell(usize),
    Rebuild(usize),
    Crash(usize),
    Disconnect(usize),
    Connect(usize),
    CrashDatabase,
    Begin(usize),
    Commit(usize),
    Rollback(usize),
}

/// The world with what is left of the budget and of the producers' scripts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Everything.
    pub world: World,
    /// Faults that may still happen.
    pub budget: Budget,
    /// Each producer transaction: not begun, open with its id, or ended.
    pub scripts: Vec<Script>,
}

/// A scenario to search.
#[derive(Clone, Debug)]
pub struct Relays {
    /// What may happen.
    pub scenario: Scenario,
    /// What was seen.
    pub coverage: Coverage,
}

impl Relays {
    /// The model of a scenario.
    pub fn new(scenario: Scenario) -> Self {
        Relays { scenario, coverage: Coverage::default() }
    }

    /// Everything that can be delivered is delivered and recorded, and nothing is open.
    pub fn is_done(&self, state: &State) -> bool {
        let world = &state.world;
        let ended = state.scripts.iter().all(|script| *script == Script::Ended);
        match self.scenario.guilty {
            None => ended && world.unpublished().is_empty() && world.all_recorded_before(i64::MAX),
            Some(guilty) => {
                let out_before =
                    world.unpublished().iter().all(|(_, id)| *id >= guilty) && world.all_recorded_before(guilty);
                let stopped = |flow: &Flow| matches!(flow, Flow::Stopped { id, .. } if *id == guilty);
                ended
                    && out_before
                    && world.relays.iter().any(|relay| relay.worker.lanes().any(|view| stopped(view.flow)))
            }
        }
    }

    fn relay_actions(&self, state: &State, index: usize, actions: &mut Vec<Act>) {
        let (world, left) = (&state.world, &state.budget);
        let relay = &world.relays[index];
        if relay.worker.next_wake(world.moment(index)) <= world.moment(index) {
            actions.push(Act::Timer(index));
        }
        if !relay.connected {
            actions.push(Act::Connect(index));
        } else if left.disconnects > 0 && (relay.marker.is_some() || relay.reader.is_some()) {
            actions.push(Act::Disconnect(index));
        }
        if relay.reader.is_some() {
            actions.push(Act::Read(index));
        }
        match &relay.marker {
            Some(MarkerOp::Mark(_)) => {
                actions.push(Act::Mark(index));
                if left.stalls > 0 {
                    actions.push(Act::CheckMark(index));
                }
                if left.refusals > 0 {
                    actions.push(Act::RefuseMark(index));
                }
            }
            Some(_) => actions.push(Act::Mark(index)),
            None => {}
        }
        self.keeper_actions(state, index, actions);
        if !relay.settled.is_empty() {
            actions.push(Act::Tell(index));
        }
        if relay.rebuilding {
            actions.push(Act::Rebuild(index));
        }
        if left.crashes > 0 && relay.worker.lanes().next().is_some() {
            actions.push(Act::Crash(index));
        }
        self.kafka_actions(state, index, actions);
    }

    fn keeper_actions(&self, state: &State, index: usize, actions: &mut Vec<Act>) {
        let Some(op) = &state.world.relays[index].keeper else { return };
        let is_claim = matches!(op.action, Action::Claim { .. });
        if op.reply.is_some() {
            actions.push(Act::AnswerKeep(index));
        } else if op.split || (is_claim && state.budget.late_replies > 0) {
            actions.push(Act::ExecuteKeep(index));
        }
        if op.reply.is_none() && !op.split {
            actions.push(Act::Keep(index));
        }
        if state.budget.keeper_failures > 0 && is_claim {
            actions.push(Act::FailKeep(index));
        }
    }

    fn kafka_actions(&self, state: &State, index: usize, actions: &mut Vec<Act>) {
        let world = &state.world;
        let queue = world.kafka.queue(index);
        for place in world.appendable(index) {
            if world.kafka.is_guilty(queue[place].id) {
                actions.push(Act::Refuse(index, place, 0));
                continue;
            }
            actions.push(Act::Append(index, place));
            if state.budget.lost_acks > 0 {
                actions.push(Act::AppendSilently(index, place));
            }
            // One request with an innocent record first and the guilty one behind it fails as a whole.
            let mut behind = queue[place + 1..].iter().filter(|entry| entry.key == queue[place].key);
            if behind.next().is_some_and(|next| world.kafka.is_guilty(next.id)) {
                actions.push(Act::Refuse(index, place, 1));
            }
        }
    }

    fn producer_actions(&self, state: &State, actions: &mut Vec<Act>) {
        for (index, script) in state.scripts.iter().enumerate() {
            match script {
                Script::Waiting { after } => {
                    if after.is_none_or(|after| state.scripts[after] == Script::Ended) {
                        actions.push(Act::Begin(index));
                    }
                }
                Script::Open(_) => {
                    actions.push(Act::Commit(index));
                    if self.scenario.rollback == Some(index) {
                        actions.push(Act::Rollback(index));
                    }
                }
                Script::Ended => {}
            }
        }
    }

    /// Reads and replies whose moment makes no difference happen at once.
    fn hurry(&self, state: &mut State) {
        for index in 0..state.world.relays.len() {
            loop {
                let relay = &state.world.relays[index];
                let looks =
                    self.scenario.log_is_static && matches!(relay.reader, Some(ReaderOp::Sight | ReaderOp::Burn));
                let keeps = matches!(&relay.keeper, Some(op) if !matches!(op.action, Action::Claim { .. }));
                let tells = !self.scenario.late_outcomes && !relay.settled.is_empty();
                if looks {
                    state.world.run_reader(index);
                } else if keeps {
                    state.world.run_keeper(index);
                } else if tells {
                    state.world.tell_settled(index);
                } else {
                    break;
                }
            }
        }
    }

    fn apply(&self, state: &mut State, act: Act) {
        let (world, left) = (&mut state.world, &mut state.budget);
        match act {
            Act::Advance => {
                left.ticks = left.ticks.saturating_sub(1);
                world.advance(Duration::from_secs(1));
            }
            Act::Timer(i) => world.step(i, Input::Timer),
            Act::Read(i) => world.run_reader(i),
            Act::Mark(i) => world.run_marker(i),
            Act::CheckMark(i) => (left.stalls -= 1, world.check_mark(i)).1,
            Act::RefuseMark(i) => (left.refusals -= 1, world.refuse_mark(i)).1,
            Act::LandOrphan(orphan) => world.land_orphan(orphan),
            Act::Keep(i) => world.run_keeper(i),
            Act::ExecuteKeep(i) => {
                left.late_replies = left.late_replies.saturating_sub(1);
                world.execute_keeper(i);
            }
            Act::AnswerKeep(i) => world.answer_keeper(i),
            Act::FailKeep(i) => (left.keeper_failures -= 1, world.fail_keeper(i)).1,
            Act::Append(i, place) => world.append(i, place),
            Act::AppendSilently(i, place) => (left.lost_acks -= 1, world.append_silently(i, place)).1,
            Act::Refuse(i, place, neighbours) => world.refuse_record(i, place, neighbours),
            Act::Zombie(zombie, place) => world.drain_zombie(zombie, place),
            Act::Tell(i) => world.tell_settled(i),
            Act::Rebuild(i) => world.rebuild(i),
            Act::Crash(i) => (left.crashes -= 1, world.crash(i)).1,
            Act::Disconnect(i) => (left.disconnects -= 1, world.disconnect(i)).1,
            Act::Connect(i) => world.connect(i),
            Act::CrashDatabase => {
                left.database_crashes -= 1;
                world.crash_database();
                self.scenario.restart_scripts(&mut state.scripts);
            }
            Act::Begin(i) => {
                let xid = world.db.begin();
                world.db.insert(xid, 0, self.scenario.keys[i], ());
                state.scripts[i] = Script::Open(xid);
            }
            Act::Commit(i) => {
                if let Script::Open(xid) = state.scripts[i] {
                    world.commit(xid);
                    state.scripts[i] = Script::Ended;
                }
            }
            Act::Rollback(i) => {
                if let Script::Open(xid) = state.scripts[i] {
                    world.db.rollback(xid);
                    state.scripts[i] = Script::Ended;
                }
            }
        }
    }
}

impl Model for Relays {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        let mut state = self.scenario.start();
        self.hurry(&mut state);
        self.scenario.warm_up(&mut state, |state| self.hurry(state));
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Act>) {
        for index in 0..state.world.relays.len() {
            self.relay_actions(state, index, actions);
        }
        actions.extend((0..state.world.orphans.len()).map(Act::LandOrphan));
        for (zombie, queue) in state.world.kafka.zombies().iter().enumerate() {
            actions.extend(crate::kafka::FakeKafka::firsts(queue).map(|place| Act::Zombie(zombie, place)));
        }
        self.producer_actions(state, actions);
        if state.budget.database_crashes > 0 {
            actions.push(Act::CrashDatabase);
        }
        let stuck = actions.is_empty() && !self.is_done(state) && state.world.now < TIME_MAX;
        if state.budget.ticks > 0 || stuck {
            actions.push(Act::Advance);
        }
    }

    fn next_state(&self, last: &State, act: Act) -> Option<State> {
        let mut next = last.clone();
        next.world.events.clear();
        self.apply(&mut next, act);
        self.hurry(&mut next);
        self.coverage.note(&next.world.events);
        if matches!(act, Act::Timer(_)) && next == *last {
            self.coverage.note_spin();
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.scenario)
    }
}
