//! Turns what happened into log lines, metrics and status. It decides nothing and never blocks.

use std::rc::Rc;

use fencepost_core::failure::{Class, Outcome};
use fencepost_core::lane::Moment;
use fencepost_core::worker::{Note, PageReport, Worker};

use super::Trouble;
use super::paging::Taken;
use crate::store::LaneLag;

/// The eyes of one source's loop.
pub struct Observer {
    source: Rc<str>,
}

impl Observer {
    /// For the source of that name.
    pub fn new(source: &str) -> Self {
        Observer { source: source.into() }
    }

    pub(super) fn trouble(&mut self, trouble: &Trouble) {
        let source = &*self.source;
        match trouble {
            Trouble::Connection { of, error } => tracing::warn!(source, session = of, error, "database connection lost"),
            Trouble::Statement { of, error } => tracing::warn!(source, session = of, error, "database statement refused"),
            Trouble::Unfit { reason, repair } => tracing::error!(source, reason, repair, "source is not fit to be relayed"),
        }
    }

    pub(super) fn lag(&mut self, _lag: &[LaneLag]) {}

    pub(super) fn page_sent(&mut self, _report: &PageReport) {}

    pub(super) fn page_settled(&mut self, _page: &Taken, _outcomes: Option<&[Outcome]>) {}

    pub(super) fn rebuilt(&mut self, result: Result<(), String>) {
        let source = &*self.source;
        match result {
            Ok(()) => tracing::info!(source, "producer rebuilt"),
            Err(error) => tracing::warn!(source, error, "producer can't be rebuilt"),
        }
    }

    pub(super) fn destination(&mut self, state: Result<(), String>) {
        let source = &*self.source;
        match state {
            Ok(()) => tracing::info!(source, "destination answers"),
            Err(reason) => tracing::warn!(source, reason, "destination is down; waiting"),
        }
    }

    pub(super) fn connected(&mut self, connected: bool) {
        tracing::info!(source = &*self.source, connected, "database sessions");
    }

    pub(super) fn burning(&mut self) {}

    pub(super) fn stepped(&mut self, _worker: &Worker, _now: Moment) {}

    pub(super) fn note(&mut self, note: &Note) {
        let source = &*self.source;
        match note {
            Note::Claimed { lane, generation } => {
                tracing::info!(source, lane = lane.0, generation = generation.0, "lane claimed");
            }
            Note::LeaseLost { lane, generation, reason } => {
                let reason = reason.name();
                tracing::warn!(source, lane = lane.0, generation = generation.0, reason, "lease lost; lane dropped");
            }
            Note::LaneWaits { lane, id, code } => {
                tracing::warn!(source, lane = lane.0, id, code, "lane waits: the topic of its next message can't be written");
            }
            Note::LaneStopped { lane, id, code } => {
                tracing::error!(source, lane = lane.0, id, code, "lane stopped: its next message can never be published");
            }
            Note::Resending { rows } => {
                for class in Class::ALL {
                    let rows = rows[class as usize];
                    if rows > 0 {
                        tracing::warn!(source, class = class.name(), rows, "records failed; sending again in log order");
                    }
                }
            }
            Note::MarkSaved { lanes, messages } => tracing::debug!(source, lanes, messages, "mark saved"),
        }
    }
}
