//! What each source's engine tells about itself, for HTTP. The engine publishes through a [`Reporter`]; readers see
//! the newest state through the [`Board`]. Nobody waits for anybody.

use std::fmt;
use std::time::Duration;

use fencepost_core::failure::Class;
use fencepost_core::lane::Moment;
use serde::Serialize;
use tokio::sync::watch;

use crate::store::Finding;

/// One source as its relay sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// Whether the database is connected and passed its checks, else why not and what to do. No secrets.
    pub database: Result<(), String>,
    /// Whether Kafka answers, else why not. No secrets.
    pub destination: Result<(), String>,
    /// The lanes that this relay holds, by number. None is fine: others may hold them all.
    pub lanes: Vec<LaneState>,
    /// What waits in the lanes that this relay holds, as of the last look.
    pub backlog: Option<Backlog>,
    /// What the audit found and nobody has closed, of all lanes, as of the last look.
    pub findings: Vec<Finding>,
    /// Whether there is something to do: in flight, unmarked, or behind. Without it no progress is no stall.
    pub busy: bool,
    /// When something was last delivered or marked, or nothing was left to do.
    pub progress_at: Moment,
    /// The relay was asked to stop.
    pub stopping: bool,
}

/// Messages that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// How many; an upper bound.
    pub messages: i64,
    /// Age of the oldest.
    pub oldest: Duration,
}

/// A lane that this relay holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneState {
    /// Its number.
    pub lane: i16,
    /// Of the lease.
    pub generation: i64,
    /// Whether it moves.
    #[serde(flatten)]
    pub phase: Phase,
}

/// Whether a lane moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// It does.
    Running,
    /// It is given to another relay once nothing is in flight.
    HandingOver,
    /// Its next message can't be sent now; it is tried again.
    Waiting(Obstacle),
    /// Its next message can never be sent; an operator must act.
    Stopped(Obstacle),
}

/// What a lane stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// Id of the message in the log.
    pub id: i64,
    /// Class of the failure.
    #[serde(serialize_with = "class_name")]
    pub class: Class,
    /// The client's own code.
    pub code: i16,
}

/// Class, code and, where Kafka's protocol has a name for it, that.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, code) = (self.class.name(), self.code);
        match kafkas_words(code) {
            Some(words) => write!(f, "{class} ({code}, {words})"),
            None => write!(f, "{class} ({code})"),
        }
    }
}

/// What Kafka's protocol calls the codes at which a lane may stand.
fn kafkas_words(code: i16) -> Option<&'static str> {
    Some(match code {
        3 => "unknown topic or partition",
        10 => "message too large",
        17 => "invalid topic name",
        18 => "record batch too large",
        29 => "topic authorization failed",
        32 => "invalid timestamp",
        44 => "policy violation",
        87 => "invalid record",
        _ => return None,
    })
}

fn class_name<S: serde::Serializer>(class: &Class, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(class.name())
}

impl SourceStatus {
    /// Before anything is known: not connected.
    pub fn starting(name: &str) -> Self {
        SourceStatus {
            name: name.to_owned(),
            database: Err("not connected yet".into()),
            destination: Ok(()),
            lanes: Vec::new(),
            backlog: None,
            findings: Vec::new(),
            busy: false,
            progress_at: Moment::ZERO,
            stopping: false,
        }
    }

    /// Every reason why the source is not served as it should be; empty: it is ready.
    pub fn reasons(&self, now: Moment, stall_after: Duration) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.stopping {
            reasons.push("the relay is stopping".to_owned());
        }
        reasons.extend(self.database.as_ref().err().map(|why| format!("database: {why}")));
        reasons.extend(self.destination.as_ref().err().map(|why| format!("destination: {why}")));
        reasons.extend(self.lanes.iter().filter_map(LaneState::complaint));
        reasons.extend(self.findings.iter().map(|finding| format!("audit: {finding}; see: fencepost audit list")));
        let still = now.saturating_sub(self.progress_at);
        if self.busy && still > stall_after {
            reasons.push(format!("no progress for {} s although there is work", still.as_secs()));
        }
        reasons
    }
}

impl LaneState {
    fn complaint(&self) -> Option<String> {
        let lane = self.lane;
        match self.phase {
            Phase::Running | Phase::HandingOver => None,
            Phase::Waiting(at) => Some(format!("lane {lane} waits at message {}: {at}; it is tried again", at.id)),
            Phase::Stopped(at) => {
                Some(format!("lane {lane} stopped at message {}: {at}; it can never be sent as it is", at.id))
            }
        }
    }
}

/// The writing end: one per source, held by its engine.
#[derive(Debug)]
pub struct Reporter(watch::Sender<SourceStatus>);

impl Reporter {
    /// Changes what is known.
    pub fn update(&self, change: impl FnOnce(&mut SourceStatus)) {
        self.0.send_modify(change);
    }

    /// Something moved, or there is nothing to move. Cheap enough for every turn of a loop: wakes nobody.
    pub fn progressed(&self, now: Moment) {
        self.0.send_if_modified(|status| {
            status.progress_at = now;
            false
        });
    }
}

/// The reading end: all sources. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board(Vec<watch::Receiver<SourceStatus>>);

impl Board {
    /// Adds a source and returns its writing end.
    pub fn add(&mut self, name: &str) -> Reporter {
        let (sender, receiver) = watch::channel(SourceStatus::starting(name));
        self.0.push(receiver);
        Reporter(sender)
    }

    /// All sources as of now, in the order in which they were added.
    pub fn sources(&self) -> Vec<SourceStatus> {
        self.0.iter().map(|source| source.borrow().clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    fn ready() -> SourceStatus {
        SourceStatus { database: Ok(()), ..SourceStatus::starting("main") }
    }

    #[test]
    fn a_source_is_ready_only_once_it_is_connected() {
        assert_eq!(SourceStatus::starting("main").reasons(STALL, STALL), ["database: not connected yet"]);
        assert!(ready().reasons(STALL, STALL).is_empty());
    }

    #[test]
    fn only_work_without_progress_is_a_stall() {
        let late = STALL + Duration::from_secs(1);
        let idle = ready();
        assert!(idle.reasons(late, STALL).is_empty());
        let busy = SourceStatus { busy: true, ..ready() };
        assert!(busy.reasons(STALL, STALL).is_empty());
        assert_eq!(busy.reasons(late, STALL), ["no progress for 31 s although there is work"]);
    }

    #[test]
    fn every_obstacle_is_a_reason() {
        let obstacle = Obstacle { id: 7, class: Class::Route, code: 3 };
        let lane = |lane, phase| LaneState { lane, generation: 1, phase };
        let lanes = vec![
            lane(0, Phase::Running),
            lane(1, Phase::HandingOver),
            lane(2, Phase::Waiting(obstacle)),
            lane(3, Phase::Stopped(Obstacle { class: Class::Message, code: 10, ..obstacle })),
        ];
        let status = SourceStatus { lanes, destination: Err("no broker answers".into()), stopping: true, ..ready() };
        assert_eq!(
            status.reasons(STALL, STALL),
            [
                "the relay is stopping",
                "destination: no broker answers",
                "lane 2 waits at message 7: route (3, unknown topic or partition); it is tried again",
                "lane 3 stopped at message 7: message (10, message too large); it can never be sent as it is",
            ]
        );
    }

    #[test]
    fn an_open_finding_is_a_reason() {
        let lane = fencepost_core::lane::LaneId(3);
        let finding = Finding { lane, from_n: 5, to_n: 9, expected: 10, found: 11, ids: vec![7] };
        let status = SourceStatus { findings: vec![finding], ..ready() };
        assert_eq!(
            status.reasons(STALL, STALL),
            ["audit: lane 3 delivered 10 messages in batches 6 to 9 and the log held 11; see: fencepost audit list"]
        );
    }

    #[test]
    fn readers_see_the_newest_state_of_every_source() {
        let mut board = Board::default();
        let (a, b) = (board.add("a"), board.add("b"));
        let reader = board.clone();
        a.update(|status| status.database = Ok(()));
        b.progressed(STALL);
        let seen = reader.sources();
        assert_eq!((seen[0].database.clone(), seen[1].progress_at), (Ok(()), STALL));
    }
}
