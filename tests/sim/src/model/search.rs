//! What a search has met, and a search of its own for dead ends: states from which no path leads to the
//! goal. (The checker's `eventually` would follow one path; here every state must have a way out.)

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stateright::Model;

use super::{Act, Relays, State};
use crate::verdict::{Event, Verdict};

/// The events that were met, over all paths. Shared by the clones of a model.
#[derive(Clone, Debug, Default)]
pub struct Coverage(Arc<AtomicU64>);

const SPIN: u64 = 1 << 63;

impl Coverage {
    pub(super) fn note(&self, events: &[Event]) {
        let bits = events.iter().fold(0, |bits, event| bits | 1 << *event as u64);
        if bits & !self.0.load(Ordering::Relaxed) != 0 {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }

    pub(super) fn note_spin(&self) {
        self.0.fetch_or(SPIN, Ordering::Relaxed);
    }

    /// Whether a timer was asked for that changed nothing and asked for itself again.
    pub fn spun(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SPIN != 0
    }

    /// Whether an event was met.
    pub fn saw(&self, event: Event) -> bool {
        self.0.load(Ordering::Relaxed) & 1 << event as u64 != 0
    }
}

/// All states of a model.
#[derive(Debug)]
pub struct Graph {
    /// How many.
    pub states: usize,
    /// States from which the goal is out of reach.
    pub dead_ends: usize,
    /// The shortest way to the first of them.
    pub example: Option<Vec<Act>>,
    /// The shortest way to a broken invariant, and which.
    pub broken: Option<(Verdict, Vec<Act>)>,
}

/// Visits every state of `model`, up to `states_max`, and looks for dead ends.
pub fn explore(model: &Relays, states_max: usize) -> Graph {
    let mut index: HashMap<u64, u32> = HashMap::new();
    let mut parents: Vec<(u32, Option<Act>)> = Vec::new();
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut good: Vec<u32> = Vec::new();
    let mut frontier: Vec<(u32, State)> = Vec::new();
    let mut broken = None;
    for state in model.init_states() {
        index.insert(key(&state), 0);
        parents.push((0, None));
        frontier.push((0, state));
    }
    while !frontier.is_empty() && index.len() < states_max {
        let mut next = Vec::new();
        for (from, state) in frontier {
            if model.is_done(&state) {
                good.push(from);
            }
            if broken.is_none() && !state.world.verdict.is_clean() {
                broken = Some((state.world.verdict, path(&parents, from)));
            }
            let mut actions = Vec::new();
            model.actions(&state, &mut actions);
            for act in actions {
                let Some(successor) = model.next_state(&state, act) else { continue };
                let number = parents.len() as u32;
                let to = match index.entry(key(&successor)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        new.insert(number);
                        parents.push((from, Some(act)));
                        next.push((number, successor));
                        number
                    }
                };
                edges.push((to, from));
            }
        }
        frontier = next;
    }
    let reached = reach(parents.len(), edges, good);
    let dead: Vec<usize> = (0..parents.len()).filter(|state| !reached[*state]).collect();
    let example = dead.first().map(|state| path(&parents, *state as u32));
    Graph { states: parents.len(), dead_ends: dead.len(), example, broken }
}

/// From where the goal can be reached: backwards along the edges.
fn reach(states: usize, mut edges: Vec<(u32, u32)>, good: Vec<u32>) -> Vec<bool> {
    edges.sort_unstable();
    let mut reached = vec![false; states];
    let mut todo = good;
    while let Some(state) = todo.pop() {
        if std::mem::replace(&mut reached[state as usize], true) {
            continue;
        }
        let start = edges.partition_point(|(to, _)| *to < state);
        todo.extend(edges[start..].iter().take_while(|(to, _)| *to == state).map(|(_, from)| *from));
    }
    reached
}

fn path(parents: &[(u32, Option<Act>)], mut state: u32) -> Vec<Act> {
    let mut acts = Vec::new();
    while let (parent, Some(act)) = parents[state as usize] {
        acts.push(act);
        state = parent;
    }
    acts.reverse();
    acts
}

fn key(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
