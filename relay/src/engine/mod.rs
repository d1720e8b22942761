//! Drives one source: executes what the worker in `core` decides, against a store and a publisher, and
//! tells it what came of it. Nothing is decided here.
//!
//! * `source` is the loop: one input, one step, its actions;
//! * `sessions` owns the pair of database sessions that read pages and write marks;
//! * `paging` carries one page from the database to the publisher;
//! * `keeper` owns the session that claims, renews and releases;
//! * `chores` owns the session for what has time: the backlog, old batch rows, and the `audit`;
//! * `observer` turns what happened into metrics, status and log lines.
//!
//! Everything runs on one thread; the tasks talk through channels and share nothing that could be locked.

mod audit;
mod chores;
mod keeper;
mod observer;
mod paging;
mod sessions;
mod source;

use std::future::Future;
use std::time::Duration;

use fencepost_core::worker::Input;

use crate::clock::pause;
use crate::publisher::PageSlot;
use crate::random::Random;

pub use observer::Observer;
pub use source::{EngineError, Settings, Source};

/// How far a stop has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// No stop.
    No,
    /// Finish what is in flight, release, leave.
    Drain,
    /// The grace is nearly over: drop what is in flight, release, leave.
    Drop,
}

/// What the tasks of a source tell its loop.
#[derive(Debug)]
enum Happened {
    /// Something for the worker.
    Input(Input),
    /// A page was read and handed over.
    Page { slot: PageSlot, page: paging::Taken },
    /// A session can't be had or a statement failed; the text has no secret in it.
    Trouble(Trouble),
    /// A session that had trouble works again.
    Recovered(&'static str),
    /// The chores were done.
    Chores(chores::Done),
}

/// Trouble with the database, for status and logs.
#[derive(Debug)]
enum Trouble {
    /// A connection was lost or can't be made.
    Connection { of: &'static str, error: String },
    /// The source failed its check.
    Unfit { of: &'static str, reason: String, repair: String },
    /// Something that has time failed; nothing that matters to messages.
    Chore { error: String },
    /// A statement was refused.
    Statement { of: &'static str, error: String },
}

/// Waits before the next try, longer each time, with jitter.
pub struct Backoff {
    base: Duration,
    cap: Duration,
    last: Duration,
}

impl Backoff {
    /// The first wait is about `base`; none is longer than `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Backoff { base, cap, last: base }
    }

    fn reset(&mut self) {
        self.last = self.base;
    }

    /// Waits.
    pub async fn wait(&mut self, random: &mut Random) {
        self.last = random.backoff(self.base, self.cap, self.last);
        pause(self.last).await;
    }
}

/// Gives a future at most so long.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        value = future => Some(value),
        () = pause(limit) => None,
    }
}
