//! The port for operators: how a source's lanes stand, and the two repairs that the relay itself refuses to do.
//! Each repair is one transaction; after a lost reply, look again and repeat: both are safe to repeat.

use std::future::Future;
use std::time::Duration;

use fencepost_core::lane::{Generation, LaneId, Owner, Slots};
use fencepost_core::limits::{LANES_MAX, SLOTS};
use uuid::Uuid;

use super::{Finding, StoreError};

/// Looks at a source and repairs its lanes. Needs the rights of the admin role.
pub trait Admin {
    /// Facts about the source as a whole.
    fn facts(&mut self) -> impl Future<Output = Result<SourceFacts, StoreError>>;

    /// Every lane, by number.
    fn lanes(&mut self) -> impl Future<Output = Result<Vec<LaneStatus>, StoreError>>;

    /// Every relay that left a heartbeat, by name.
    fn relays(&mut self) -> impl Future<Output = Result<Vec<RelayStatus>, StoreError>>;

    /// Makes lanes that are missing and gives a position to lanes without one.
    ///
    /// # Errors
    /// [`InitError::Refused`] changes nothing.
    fn init_lanes(&mut self, init: InitLanes) -> impl Future<Output = Result<InitReport, InitError>>;

    /// What the audit found, oldest first: what nobody has closed, or everything that is still on record.
    fn findings(&mut self, all: bool) -> impl Future<Output = Result<Vec<FindingStatus>, StoreError>>;

    /// Closes a finding, for good: who did it and why stay on record. Whether there was an open one of that name.
    fn close_finding(
        &mut self,
        lane: LaneId,
        to_n: i64,
        actor: &str,
        reason: &str,
    ) -> impl Future<Output = Result<bool, StoreError>>;

    /// Frees a lane that is still held by this owner under this generation; whether it was. The next claim takes
    /// the next generation, so a late mark of the former owner changes nothing.
    fn release_lane(
        &mut self,
        lane: LaneId,
        owner: &Owner,
        generation: Generation,
    ) -> impl Future<Output = Result<bool, StoreError>>;
}

/// A source as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// Its identity; none if the origin row is gone.
    pub source_id: Option<Uuid>,
    /// Newest migration that a relay must know.
    pub schema_version: i32,
    /// Newest id that was given out; 0 for none.
    pub newest_id: i64,
}

/// How a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// Which.
    pub lane: LaneId,
    /// The slots that it serves.
    pub slots: Slots,
    /// Who holds its lease, if anybody.
    pub owner: Option<Owner>,
    /// Of the last claim.
    pub generation: Generation,
    /// Milliseconds until its lease ends by the database's clock; negative: it has ended. None: free.
    pub lease_ms: Option<i64>,
    /// Milliseconds since its owner's last heartbeat; none: it left, or never beat.
    pub owner_seen_ms: Option<i64>,
    /// Where it stands; none: it has no position, and no relay can serve it.
    pub position: Option<PositionIds>,
    /// Messages that wait; an upper bound.
    pub backlog: i64,
    /// Age of the oldest of them.
    pub oldest: Option<Duration>,
}

/// A position by its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionIds {
    /// Number of its batch row.
    pub n: i64,
    /// All ids up to here are delivered, but for transactions that were open.
    pub delivered_to: i64,
    /// End of the window that is being read, if one is.
    pub window_end: Option<i64>,
    /// A Kafka transaction may be open on it.
    pub open: bool,
}

impl LaneStatus {
    /// Whether a lease is held and has not ended by the database's clock.
    pub fn is_leased(&self) -> bool {
        self.lease_ms.is_some_and(|ms| ms > 0)
    }
}

/// A relay's heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayStatus {
    /// Who.
    pub owner: Owner,
    /// Since when.
    pub up_ms: i64,
    /// Since the last beat.
    pub seen_ms: i64,
    /// Lanes that it holds, by unexpired leases.
    pub lanes: i64,
}

/// What the audit found, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingStatus {
    /// What it found.
    pub finding: Finding,
    /// Since it was found.
    pub age_ms: i64,
    /// Who closed it and why; none: it is open.
    pub closed: Option<Closed>,
}

/// The end of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Who closed it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What to do about lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitLanes {
    /// Where a lane without a position starts.
    pub at: InitAt,
    /// Move lanes that have a position too.
    pub force: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// Where a lane starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitAt {
    /// At the first message that is still in the log: messages may be published again.
    Beginning,
    /// After this id: every message with an id up to it that is committed now counts as delivered. Everything
    /// else is published: what is above the id, and what is below it in a transaction that is still open.
    AfterId(i64),
}

impl InitAt {
    /// The id after which rows are read.
    pub fn id(self) -> i64 {
        match self {
            InitAt::Beginning => 0,
            InitAt::AfterId(id) => id,
        }
    }
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitReport {
    /// Lanes that were made.
    pub made: Vec<(LaneId, Slots)>,
    /// Lanes that got a position.
    pub positioned: Vec<LaneId>,
    /// Newest id of the log at that time.
    pub newest_id: i64,
}

/// Why lanes were not touched.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing was changed.
    #[error("{reason}; {repair}")]
    Refused {
        /// What stands against it.
        reason: String,
        /// What to do.
        repair: String,
    },
}

impl InitError {
    fn refused(reason: impl Into<String>, repair: impl Into<String>) -> Self {
        InitError::Refused { reason: reason.into(), repair: repair.into() }
    }
}

/// Lanes of a fresh installation.
const LANES: i16 = 8;

/// Lanes to make so that every slot has one. A lane of the fresh installation's layout comes back under its own number,
/// other gaps get numbers that never were used: `numbers_used_to` is the largest ever.
pub fn missing_lanes(lanes: &[(LaneId, Slots)], numbers_used_to: Option<LaneId>) -> Vec<(LaneId, Slots)> {
    let mut covered = [false; SLOTS];
    for (_, slots) in lanes {
        covered[usize::from(*slots.start())..=usize::from(*slots.end())].fill(true);
    }
    let mut made = Vec::new();
    let width = SLOTS / LANES.unsigned_abs() as usize;
    for lane in 0..LANES {
        let range = lane.unsigned_abs() as usize * width..(lane.unsigned_abs() as usize + 1) * width;
        let is_free = lanes.iter().all(|(used, _)| used.0 != lane);
        if is_free && covered[range.clone()].iter().all(|slot| !slot) {
            covered[range.clone()].fill(true);
            made.push((LaneId(lane), slots(range.start, range.end - 1)));
        }
    }
    let used =
        lanes.iter().map(|(lane, _)| lane.0).chain(numbers_used_to.map(|lane| lane.0)).max().unwrap_or(LANES - 1);
    let mut next = used.max(LANES - 1) + 1;
    let mut start = 0;
    while let Some(gap) = covered[start..].iter().position(|slot| !slot).map(|at| start + at) {
        let end = covered[gap..].iter().position(|slot| *slot).map_or(SLOTS, |length| gap + length);
        made.push((LaneId(next), slots(gap, end - 1)));
        next += 1;
        start = end;
        if start == SLOTS {
            break;
        }
    }
    made
}

fn slots(first: usize, last: usize) -> Slots {
    let slot = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    slot(first)..=slot(last)
}

/// The lanes to position, of lanes that all exist by now.
///
/// # Errors
/// Why none may be.
pub fn lanes_to_position(lanes: &[LaneStatus], init: InitLanes, newest_id: i64) -> Result<Vec<LaneId>, InitError> {
    let id = init.at.id();
    if !(0..=newest_id).contains(&id) {
        let reason = format!("id {id} is not in 0 to {newest_id}, the newest id that was given out");
        return Err(InitError::refused(reason, "give an id of the log: messages above it are published"));
    }
    if lanes.len() > LANES_MAX {
        return Err(InitError::refused("there would be more than 256 lanes", "restore the table lanes from a backup"));
    }
    let chosen: Vec<_> = lanes.iter().filter(|lane| init.force || lane.position.is_none()).collect();
    if chosen.is_empty() {
        let repair = "nothing needs a repair; to move lanes all the same, stop the relays and add --force";
        return Err(InitError::refused("every lane has a position", repair));
    }
    for lane in &chosen {
        if let (true, Some(owner)) = (lane.is_leased(), &lane.owner) {
            let reason = format!("lane {} is held by {}", lane.lane, owner.0);
            return Err(InitError::refused(reason, "stop that relay, or wait for the end of its lease"));
        }
        if lane.position.is_some_and(|position| position.open) {
            let reason = format!("a Kafka transaction may be open on lane {}", lane.lane);
            return Err(InitError::refused(reason, "let a relay resolve it first"));
        }
    }
    Ok(chosen.into_iter().map(|lane| lane.lane).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_lanes() -> Vec<(LaneId, Slots)> {
        (0..8u8).map(|lane| (LaneId(lane.into()), lane * 32..=lane * 32 + 31)).collect()
    }

    fn lane(number: i16, n: Option<i64>) -> LaneStatus {
        let position = n.map(|n| PositionIds { n, delivered_to: 0, window_end: None, open: false });
        LaneStatus {
            lane: LaneId(number),
            slots: 0..=31,
            owner: None,
            generation: Generation(1),
            lease_ms: None,
            owner_seen_ms: None,
            position,
            backlog: 0,
            oldest: None,
        }
    }

    const INIT: InitLanes = InitLanes { at: InitAt::Beginning, force: false, dry_run: false };

    #[test]
    fn lost_lanes_come_back_under_their_numbers() {
        assert_eq!(missing_lanes(&[], None), default_lanes());
        assert_eq!(missing_lanes(&default_lanes(), None), []);
        let mut lanes = default_lanes();
        let lost = [lanes.remove(7), lanes.remove(3)];
        assert_eq!(missing_lanes(&lanes, Some(LaneId(7))), [lost[1].clone(), lost[0].clone()]);
    }

    #[test]
    fn other_gaps_get_numbers_that_never_were_used() {
        // Lane 0 was split: its first half is lane 0, its second was lane 11.
        let mut lanes = default_lanes();
        lanes[0].1 = 0..=15;
        assert_eq!(missing_lanes(&lanes, Some(LaneId(11))), [(LaneId(12), 16..=31)]);
        lanes.remove(7);
        lanes.remove(1);
        lanes.push((LaneId(1), 250..=255));
        let made = missing_lanes(&lanes, None);
        assert_eq!(made, [(LaneId(8), 16..=63), (LaneId(9), 224..=249)]);
    }

    #[test]
    fn only_lanes_without_a_position_are_moved_unless_forced() {
        let lanes = [lane(0, Some(5)), lane(1, None)];
        assert_eq!(lanes_to_position(&lanes, INIT, 9).expect("one"), [LaneId(1)]);
        let force = InitLanes { force: true, ..INIT };
        assert_eq!(lanes_to_position(&lanes, force, 9).expect("both"), [LaneId(0), LaneId(1)]);
        let none = lanes_to_position(&lanes[..1], INIT, 9).expect_err("nothing to do").to_string();
        assert!(none.contains("every lane has a position"), "{none}");
    }

    #[test]
    fn what_is_held_or_open_is_left_alone() {
        let held = |ms| LaneStatus { owner: Some(Owner("a".into())), lease_ms: Some(ms), ..lane(0, None) };
        assert!(lanes_to_position(&[held(1)], INIT, 9).expect_err("held").to_string().contains("held by a"));
        lanes_to_position(&[held(0)], INIT, 9).expect("its lease has ended");
        // A lane that isn't touched may be held.
        lanes_to_position(&[LaneStatus { position: lane(0, Some(1)).position, ..held(1) }, lane(1, None)], INIT, 9)
            .expect("one");
        let mut open = lane(0, Some(4));
        open.position = open.position.map(|position| PositionIds { open: true, ..position });
        lanes_to_position(&[open], InitLanes { force: true, ..INIT }, 9).expect_err("open");
    }

    #[test]
    fn an_id_beyond_the_log_would_skip_messages_to_come() {
        let at = |id| InitLanes { at: InitAt::AfterId(id), ..INIT };
        lanes_to_position(&[lane(0, None)], at(9), 9).expect("the newest");
        for id in [-1, 10] {
            lanes_to_position(&[lane(0, None)], at(id), 9).expect_err("outside");
        }
    }
}
