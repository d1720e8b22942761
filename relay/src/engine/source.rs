//! The loop of one source: one input, one step of the worker, its actions.

use std::rc::Rc;
use std::time::Duration;

use fencepost_core::lane::{LaneId, Owner, Tag};
use fencepost_core::worker::{Action, Input, Terms, Worker};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::chores::Chores;
use super::keeper::{Keep, Keeper};
use super::observer::Observer;
use super::paging::Taken;
use super::sessions::{Numbered, Read, Sessions, Write};
use super::{Backoff, Happened, Stop};
use crate::clock::{Clock, FineTimer};
use crate::failpoint;
use crate::publisher::{Event, PageSlot, Publisher};
use crate::store::Store;

/// The timer never waits shorter: a step that asks for itself again must not spin.
const TICK: Duration = Duration::from_micros(200);
/// The timer never waits longer, so that status stays fresh.
const REST: Duration = Duration::from_secs(1);

/// What a source works by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This process in leases.
    pub owner: Owner,
    /// The worker's numbers.
    pub terms: Terms,
    /// Random start of the worker's statement tags.
    pub tags: Tag,
    /// Bounds of the waits between tries of a connection.
    pub backoff: (Duration, Duration),
}

/// Why a source's loop ended without being asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A task of the source panicked or ended; nothing of the source runs any more.
    #[error("a task of the source ended unexpectedly: {0}")]
    Task(String),
    /// The publisher's events ended.
    #[error("the publisher is gone")]
    Publisher,
}

/// A source at work.
pub struct Source<P> {
    worker: Worker,
    publisher: Rc<P>,
    observer: Observer,
    clock: Clock,
    /// The page in each slot that waits for its outcomes.
    slots: Vec<Option<Taken>>,
    /// Number of the session pair that commands are meant for.
    pair: u64,
    reads: UnboundedSender<Numbered<Read>>,
    writes: UnboundedSender<Numbered<Write>>,
    keeps: UnboundedSender<Keep>,
    chores: UnboundedSender<Vec<LaneId>>,
    /// Rows of the newest mark.
    mark_rows: usize,
    finished: bool,
}

impl<P: Publisher + 'static> Source<P> {
    /// Runs until a stop has been carried out. Must be called on a `LocalSet`.
    ///
    /// # Errors
    /// When one of its tasks ended: the source must be started anew, under a new owner name.
    pub async fn run<S: Store + 'static>(
        settings: Settings,
        store: Rc<S>,
        publisher: Rc<P>,
        mut events: UnboundedReceiver<Event>,
        observer: Observer,
        mut stop: watch::Receiver<Stop>,
    ) -> Result<(), EngineError> {
        let clock = Clock;
        let (told, mut happened) = mpsc::unbounded_channel();
        let (reads, read_commands) = mpsc::unbounded_channel();
        let (writes, write_commands) = mpsc::unbounded_channel();
        let (keeps, keep_commands) = mpsc::unbounded_channel();
        let (chores, chore_calls) = mpsc::unbounded_channel();
        let (base, cap) = settings.backoff;
        let mut tasks = JoinSet::new();
        let sessions = Sessions {
            store: Rc::clone(&store),
            publisher: Rc::clone(&publisher),
            owner: settings.owner.clone(),
            page_bytes: settings.terms.page_bytes,
            clock,
            told: told.clone(),
        };
        tasks.spawn_local(sessions.run(read_commands, write_commands, Backoff::new(base, cap)));
        let doer = Chores {
            store: Rc::clone(&store),
            owner: settings.owner.clone(),
            lease: settings.terms.lease.lease,
            told: told.clone(),
        };
        tasks.spawn_local(doer.run(chore_calls, Backoff::new(base, cap)));
        let keeper = Keeper { store, owner: settings.owner.clone(), lease: settings.terms.lease.lease, clock, told };
        tasks.spawn_local(keeper.run(keep_commands, Backoff::new(base, cap)));
        let slots = (0..settings.terms.page_slots).map(|_| None).collect();
        let worker = Worker::new(settings.owner, settings.terms, settings.tags);
        let mut source = Source {
            worker,
            publisher,
            observer,
            clock,
            slots,
            pair: 0,
            reads,
            writes,
            keeps,
            chores,
            mark_rows: 0,
            finished: false,
        };
        let timer = FineTimer::new().map_err(|error| EngineError::Task(format!("no timer: {error}")))?;
        while !source.finished {
            tokio::select! {
                biased;
                Some(event) = events.recv() => source.published(event),
                Some(happened) = happened.recv() => source.happened(happened),
                Ok(()) = stop.changed() => source.stop(*stop.borrow_and_update()),
                Some(ended) = tasks.join_next() => return Err(ended_early(ended)),
                () = timer.pause(source.rest()) => source.step(Input::Timer),
            }
        }
        Ok(())
    }

    fn rest(&self) -> Duration {
        let now = self.clock.now();
        self.worker.next_wake(now).saturating_sub(now).clamp(TICK, REST)
    }

    fn stop(&mut self, stop: Stop) {
        if stop != Stop::No {
            self.observer.stopping();
        }
        match stop {
            Stop::No => {}
            Stop::Drain => self.step(Input::Drain),
            Stop::Drop => self.step(Input::DrainNow),
        }
    }

    fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Input(input) => {
                match &input {
                    Input::Connected => self.pair += 1,
                    Input::Marked(saved) => self.observer.marked(self.mark_rows, saved.len()),
                    _ => {}
                }
                self.step(input);
            }
            Happened::Page { slot, page } => self.page_read(slot, page),
            Happened::Trouble(trouble) => self.observer.trouble(&trouble),
            Happened::Recovered(part) => self.observer.recovered(part),
            Happened::Chores(done) => self.observer.chores(&done),
        }
    }

    /// The worker learns of the page before any of its outcomes can settle it.
    fn page_read(&mut self, slot: PageSlot, mut page: Taken) {
        let Some(report) = page.report.take() else { return };
        let sent = report.sent;
        self.observer.page_sent(slot, &report);
        self.slots[slot] = Some(page);
        self.step(Input::PageRead(report));
        if sent > 0 {
            self.publisher.seal(slot, sent);
        }
    }

    fn published(&mut self, event: Event) {
        match event {
            Event::Settled(slot) => {
                let Some(page) = self.slots[slot].take() else { return };
                let outcomes = self.publisher.failures(slot);
                self.observer.page_settled(slot, &page, outcomes.as_deref(), self.clock.now());
                failpoint::hit(failpoint::AFTER_ACK);
                self.step(Input::Settled(page.settle(slot, outcomes)));
            }
            Event::Rebuilt => {
                self.observer.rebuilt(Ok(()));
                self.step(Input::Rebuilt);
            }
            Event::RebuildFailed(reason) => {
                self.observer.rebuilt(Err(reason));
                self.step(Input::RebuildFailed);
            }
            Event::Destination(state) => self.observer.destination(state),
        }
    }

    fn step(&mut self, input: Input) {
        let connection = match input {
            Input::Connected => Some(true),
            Input::Disconnected => Some(false),
            _ => None,
        };
        if let Some(connected) = connection {
            self.observer.connected(connected);
        }
        let now = self.clock.now();
        for action in self.worker.step(input, now) {
            self.act(action);
        }
        self.observer.stepped(&self.worker, now);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Sight => {
                self.observer.sighting();
                self.read(Read::Sight);
            }
            Action::Burn => {
                self.observer.burning();
                self.read(Read::Burn);
            }
            Action::ReadPage(request) => self.read(Read::Page(request)),
            Action::Mark { tag, rows } => {
                self.mark_rows = rows.len();
                self.write(Write::Mark { tag, rows });
            }
            Action::LoadNewest(lanes) => self.write(Write::Newest(lanes)),
            Action::Survey => self.keep(Keep::Survey),
            Action::Claim { lane, seen } => self.keep(Keep::Claim { lane, seen }),
            Action::Renew(lanes) => {
                let _ = self.chores.send(lanes.iter().map(|(lane, _)| *lane).collect());
                self.keep(Keep::Renew(lanes));
            }
            Action::Release(lanes) => self.keep(Keep::Release(lanes)),
            Action::Leave => self.keep(Keep::Leave),
            Action::Purge => self.publisher.purge(),
            Action::Rebuild => self.publisher.rebuild(),
            Action::Resume => {
                if !self.publisher.resume() {
                    self.step(Input::Broken);
                }
            }
            Action::Note(note) => self.observer.note(&note, self.clock.now()),
            Action::Finished => self.finished = true,
        }
    }

    // A task whose channel is closed has ended, which ends the loop in its next round.
    fn read(&self, command: Read) {
        let _ = self.reads.send((self.pair, command));
    }

    fn write(&self, command: Write) {
        let _ = self.writes.send((self.pair, command));
    }

    fn keep(&self, command: Keep) {
        let _ = self.keeps.send(command);
    }
}

fn ended_early(ended: Result<(), JoinError>) -> EngineError {
    match ended {
        Ok(()) => EngineError::Task("it returned".into()),
        Err(error) => EngineError::Task(error.to_string()),
    }
}
