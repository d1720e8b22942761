//! Marks: one compare-and-set on owner, generation, unexpired lease and number. Who fails it changes nothing.

use fencepost_core::batch::{BatchHead, MarkRow};
use fencepost_core::lane::{Generation, LaneId, Tag};
use fencepost_core::position::{Base, Position, Sighting, Snapshot, Tick};
use fencepost_relay::store::{LaneKeeper, MarkWriter, Store};

use super::{Fixture, claim, connect, next_mark, owner};

/// A position inside a window, with every field set.
fn inside() -> Position {
    let up = Sighting { snapshot: Snapshot::new(9, 20, &[11, 15]), last_id: 88 };
    Position { up: Some(Tick::new(Base { seq0: 70 }, &up)), cursor: 33, ..exactly() }
}

/// A position at a tick.
fn exactly() -> Position {
    let lo = Sighting { snapshot: Snapshot::new(5, 9, &[5, 7]), last_id: 44 };
    Position::at(&Tick::new(Base { seq0: 40 }, &lo))
}

async fn newest<M: MarkWriter>(marker: &mut M, lane: i16) -> BatchHead {
    let mut heads = marker.newest(&[LaneId(lane)]).await.expect("the newest rows");
    assert_eq!(heads.len(), 1);
    heads.remove(0)
}

/// The newest row shows what was marked, field by field, and the next mark follows it.
pub async fn a_mark_moves_its_lane<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    let mut head = claim(&mut keeper, &me, 3).await;
    for (tag, position) in [(Tag(u128::MAX), inside()), (Tag(0), exactly()), (Tag(7), Position::beginning())] {
        let row = next_mark(&head, position.clone());
        assert_eq!(marker.mark(&me, tag, std::slice::from_ref(&row)).await.expect("a mark"), [LaneId(3)]);
        let saved = BatchHead { lane: LaneId(3), n: head.n + 1, generation: head.generation, tag, position };
        head = newest(&mut marker, 3).await;
        assert_eq!(head, saved);
    }
    let last = fixture.stored(LaneId(3)).await.pop().expect("a row");
    assert_eq!((last.kind.as_str(), last.owner.as_deref(), last.counts), ("mark", Some("me"), (3, 300, 7)));
    assert_eq!(marker.mark(&me, Tag(1), &[]).await.expect("no rows, no marks"), []);
}

/// Another owner, another generation, an expired lease, a lane that nobody holds: refused, nothing changes.
pub async fn only_the_owner_marks_its_lanes<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let (me, other) = (owner("me"), owner("other"));
    let head = claim(&mut keeper, &me, 0).await;
    let row = next_mark(&head, exactly());
    let before = fixture.stored(LaneId(0)).await;
    let older = MarkRow { generation: Generation(head.generation.0 - 1), ..row.clone() };
    let newer = MarkRow { generation: Generation(head.generation.0 + 1), ..row.clone() };
    let free = MarkRow { lane: LaneId(1), n: 1, ..row.clone() };
    let unknown = MarkRow { lane: LaneId(99), n: 1, ..row.clone() };
    for (owner, row) in [(&other, &row), (&me, &older), (&me, &newer), (&me, &free), (&me, &unknown)] {
        let written = marker.mark(owner, Tag(5), std::slice::from_ref(row)).await.expect("an answer");
        assert_eq!(written, [], "{row:?}");
    }
    fixture.expire(LaneId(0)).await;
    assert_eq!(marker.mark(&me, Tag(5), std::slice::from_ref(&row)).await.expect("an answer"), [], "expired");
    assert_eq!(fixture.stored(LaneId(0)).await, before);
    assert_eq!(fixture.stored(LaneId(1)).await.len(), 1);
}

/// A number is taken once, and none is left out.
pub async fn a_gap_and_a_taken_number_are_refused<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    let head = claim(&mut keeper, &me, 0).await;
    let row = next_mark(&head, exactly());
    assert_eq!(marker.mark(&me, Tag(1), std::slice::from_ref(&row)).await.expect("a mark"), [LaneId(0)]);
    let before = fixture.stored(LaneId(0)).await;
    for n in [head.n - 1, head.n, head.n + 1, head.n + 3] {
        let wrong = MarkRow { n, position: inside(), ..row.clone() };
        assert_eq!(marker.mark(&me, Tag(2), &[wrong]).await.expect("an answer"), [], "number {n}");
    }
    assert_eq!(fixture.stored(LaneId(0)).await, before);
}

/// At-least-once marks don't follow a row with an open broker transaction.
pub async fn an_open_row_is_never_marked_over<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    let head = claim(&mut keeper, &me, 0).await;
    fixture.leave_open(LaneId(0)).await;
    let before = fixture.stored(LaneId(0)).await;
    let row = MarkRow { n: head.n + 2, ..next_mark(&head, exactly()) };
    assert_eq!(marker.mark(&me, Tag(2), &[row]).await.expect("an answer"), []);
    assert_eq!(fixture.stored(LaneId(0)).await, before);
}

/// One statement marks several lanes; the one that was lost does not keep the others.
pub async fn each_lane_is_judged_by_itself<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    let mut rows = Vec::new();
    for lane in 0..8 {
        rows.push(next_mark(&claim(&mut keeper, &me, lane).await, if lane % 2 == 0 { exactly() } else { inside() }));
    }
    fixture.expire(LaneId(2)).await;
    claim(&mut keeper, &owner("other"), 2).await;
    let mut written = marker.mark(&me, Tag(9), &rows).await.expect("marks");
    written.sort();
    assert_eq!(written, [0, 1, 3, 4, 5, 6, 7].map(LaneId));
    let lanes: Vec<LaneId> = (0..8).map(LaneId).collect();
    let mut heads = marker.newest(&lanes).await.expect("the newest rows");
    heads.sort();
    for (head, row) in heads.iter().zip(&rows) {
        let mine = (head.tag, &head.position) == (Tag(9), &row.position);
        assert_eq!(mine, head.lane != LaneId(2), "{head:?}");
    }
}

/// After a lost reply the newest row's tag tells whether it was saved, and the same statement again writes
/// nothing twice.
pub async fn b50_a_lost_reply_is_settled_by_the_tag<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let me = owner("me");
    let head = claim(&mut keeper, &me, 0).await;
    let row = next_mark(&head, exactly());
    let _lost = marker.mark(&me, Tag(77), std::slice::from_ref(&row)).await.expect("a mark");
    drop(marker);
    let mut marker = fixture.store().marker().await.expect("another marker");
    let saved = newest(&mut marker, 0).await;
    assert_eq!((saved.n, saved.tag), (row.n, Tag(77)), "saved, and mine");
    assert_eq!(marker.mark(&me, Tag(77), std::slice::from_ref(&row)).await.expect("an answer"), []);
    assert_eq!(newest(&mut marker, 0).await, saved);
}

/// A relay that was taken over marks nothing, under its old number or the next one.
pub async fn b27_a_stale_mark_changes_nothing<F: Fixture>(fixture: &mut F) {
    let (_, mut marker, mut keeper) = connect(fixture.store()).await;
    let (old, new) = (owner("old"), owner("new"));
    let stale = claim(&mut keeper, &old, 0).await;
    fixture.expire(LaneId(0)).await;
    let fence = claim(&mut keeper, &new, 0).await;
    assert_eq!((fence.n, &fence.position), (stale.n + 1, &stale.position));
    let before = fixture.stored(LaneId(0)).await;
    for n in [stale.n + 1, fence.n + 1] {
        let row = MarkRow { n, ..next_mark(&stale, exactly()) };
        assert_eq!(marker.mark(&old, Tag(1), &[row]).await.expect("an answer"), []);
    }
    let renewed = keeper.renew(&old, &[(LaneId(0), stale.generation)], super::LEASE).await.expect("an answer");
    assert_eq!(renewed, []);
    assert_eq!(fixture.stored(LaneId(0)).await, before);
    let row = next_mark(&fence, exactly());
    assert_eq!(marker.mark(&new, Tag(2), &[row]).await.expect("a mark"), [LaneId(0)]);
}
