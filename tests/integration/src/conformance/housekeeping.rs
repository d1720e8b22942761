//! What is refused at connect, what is pruned, and what lag shows.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core::lane::{LaneId, Tag};
use fencepost_core::position::Position;
use fencepost_relay::store::{Housekeeper, LaneKeeper, LaneLag, MarkWriter, Store};

use super::{Fixture, LEASE, NewMessage, Walk, Writer, claim, connect, next_mark, owner, repair, tick};

/// A lane whose batch log is gone has no position: the reader refuses the source and a claim refuses the lane.
pub async fn b12_missing_positions_are_never_made_up<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    fixture.forget_batches(LaneId(4)).await;
    assert!(repair(fixture.store().reader().await).contains("lane init"));
    let refused = keeper.claim(&owner("me"), LaneId(4), None, LEASE).await;
    assert!(repair(refused).contains("lane init"));
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let free = keeper.survey(LEASE).await.expect("a survey").lanes.swap_remove(4);
    assert_eq!((free.owner, free.claimable), (None, true), "the lane was left alone");
    claim(&mut keeper, &owner("me"), 5).await;
}

/// Every slot is in exactly one lane, or the source is refused.
pub async fn missing_lanes_are_refused<F: Fixture>(fixture: &mut F) {
    fixture.forget_lane(LaneId(7)).await;
    assert!(repair(fixture.store().reader().await).contains("lane init"));
}

/// An open broker transaction is for exactly-once mode to resolve: neither its outcome nor its position is guessed.
pub async fn an_open_row_is_not_continued<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    claim(&mut keeper, &owner("old"), 2).await;
    fixture.leave_open(LaneId(2)).await;
    fixture.expire(LaneId(2)).await;
    repair(fixture.store().reader().await);
    repair(marker.newest(&[LaneId(2)]).await);
    repair(keeper.claim(&owner("new"), LaneId(2), None, LEASE).await);
}

/// Beyond the newest 10,000 and ten leases, at most as many as asked for, from the oldest on.
pub async fn old_batches_are_pruned<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    let head = claim(&mut keeper, &me, 0).await;
    fixture.pad_batches(LaneId(0), 10_029).await;
    let lease = Duration::from_secs(1);
    assert_eq!(keeper.prune(lease, 1_000).await.expect("pruned"), 0, "younger than ten leases");
    fixture.age_batches(LaneId(0), lease * 9).await;
    assert_eq!(keeper.prune(lease * 2, 1_000).await.expect("pruned"), 0, "younger than ten leases");
    fixture.age_batches(LaneId(0), lease * 2).await;
    for expected in [20, 11, 0] {
        assert_eq!(keeper.prune(lease, 20).await.expect("pruned"), expected);
    }
    let rows = fixture.stored(LaneId(0)).await;
    assert_eq!((rows.len(), rows[0].n, rows[9_999].n), (10_000, 31, 10_030));
    assert_eq!(fixture.stored(LaneId(1)).await.len(), 1, "a lane's first row is its newest");
    let newest = marker.newest(&[LaneId(0)]).await.expect("the newest row").remove(0);
    assert_eq!(newest.n, head.n + 10_029);
    let row = next_mark(&newest, Position::beginning());
    assert_eq!(marker.mark(&me, Tag(1), &[row]).await.expect("a mark"), [LaneId(0)]);
}

/// Writes messages and returns how many each lane got.
async fn spread<F: Fixture>(fixture: &F, count: usize) -> BTreeMap<LaneId, i64> {
    let mut writer = fixture.begin().await;
    for i in 0..count {
        writer.enqueue(&NewMessage::keyed(&format!("key {i}"))).await;
    }
    writer.commit().await;
    let mut walk = Walk::new(1_000);
    walk.window(&mut fixture.store().reader().await.expect("a reader")).await;
    let mut lanes = BTreeMap::new();
    for read in walk.read.iter().rev().take(count) {
        *lanes.entry(LaneId(i16::from(read.slot / 32))).or_insert(0) += 1;
    }
    lanes
}

fn waiting(lag: &[LaneLag]) -> BTreeMap<LaneId, i64> {
    lag.iter().map(|lag| (lag.lane, lag.messages)).collect()
}

/// Few messages are counted exactly, by lane; a late commit counts once it is there; what is marked does not.
pub async fn lag_counts_what_waits<F: Fixture>(fixture: &mut F) {
    let (mut reader, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    assert_eq!(keeper.lag().await.expect("lag"), []);
    let mut late = fixture.begin().await;
    late.enqueue(&NewMessage::keyed("late")).await;
    let lanes = spread(fixture, 40).await;
    let lag = keeper.lag().await.expect("lag");
    assert_eq!(waiting(&lag), lanes);
    let up = tick(&mut reader).await;
    let mut rows = Vec::new();
    for lane in 0..8 {
        rows.push(next_mark(&claim(&mut keeper, &me, lane).await, Position::at(&up)));
    }
    assert_eq!(marker.mark(&me, Tag(1), &rows).await.expect("marks").len(), 8);
    assert_eq!(keeper.lag().await.expect("lag"), [], "the open transaction's message does not wait for the relay");
    late.commit().await;
    let lag = keeper.lag().await.expect("lag");
    assert_eq!(lag.iter().map(|lag| lag.messages).collect::<Vec<_>>(), [1], "a straggler");
}

/// The age of what waits comes from the log, not from work done: it rises while nobody serves a lane.
pub async fn b161_lag_of_an_unserved_lane<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let lanes = spread(fixture, 3).await;
    let first = keeper.lag().await.expect("lag");
    let later = crate::wait::until_some(Duration::from_secs(10), "an age that rises", async || {
        let lag = keeper.lag().await.expect("lag");
        (lag[0].oldest > first[0].oldest + Duration::from_millis(20)).then_some(lag)
    })
    .await;
    assert_eq!(waiting(&later), lanes);
    // more than is looked at: an upper bound, and still not younger than the oldest
    spread(fixture, 2_500).await;
    let lag = keeper.lag().await.expect("lag");
    assert_eq!(lag.len(), 8);
    for lag in &lag {
        let own = 2_500 / 16;
        assert!(lag.messages >= own && lag.messages <= 2_503, "{lag:?}");
    }
}
