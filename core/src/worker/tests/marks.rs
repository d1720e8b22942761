//! What is written down, when, and by which statement.

use super::bench::{Bench, MS, row, sighting};
use crate::lane::LaneId;
use crate::page::PageStop;
use crate::worker::{Action, Input, LossReason, Note};

/// A later complete batch waits for an older one; then one row covers both.
#[test]
fn the_oldest_batch_is_marked_first() {
    let mut bench = Bench::reading(&[0], 20);
    let first = bench.page().slot;
    bench.sent(0, &[1, 2], PageStop::Cut);
    let second = bench.page().slot;
    bench.sent(0, &[3, 4], PageStop::Cut);
    bench.settled(second, 0, &[3, 4], &[]);
    bench.wait(50 * MS);
    assert!(!bench.asks_for_a_mark(), "{:?}", bench.asked);
    bench.settled(first, 0, &[1, 2], &[]);
    assert!(!bench.asks_for_a_mark(), "merged over the mark interval");
    bench.wait(20 * MS);
    let (_, rows) = bench.mark();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].n, rows[0].messages, rows[0].position.cursor), (6, 4, 4));
}

/// A refused mark is repeated to the letter, after a pause, and nothing new is published before.
#[test]
fn a_refused_mark_is_repeated_alone() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2], PageStop::Cut);
    bench.sent(0, &[], PageStop::Cut);
    bench.settled(slot, 0, &[1, 2], &[]);
    bench.wait(20 * MS);
    let mark = bench.mark();
    bench.step(Input::MarkRefused);
    assert!(!bench.asks_for_a_mark());
    bench.sent(0, &[], PageStop::Cut);
    assert!(!bench.asks_for_a_page(), "nothing new before it is saved: {:?}", bench.asked);
    bench.wait(49 * MS);
    assert!(!bench.asks_for_a_mark(), "not before half of the pause");
    bench.wait(51 * MS);
    assert_eq!(bench.mark(), mark);
    bench.step(Input::Marked(vec![LaneId(0)]));
    assert!(bench.asks(&Action::Note(Note::MarkSaved { lanes: 1, messages: 2 })));
    assert!(bench.asks_for_a_page(), "{:?}", bench.asked);
}

/// A lane that is missing from the reply is lost; the others are not.
#[test]
fn a_lane_that_the_mark_did_not_write_is_lost() {
    let mut bench = Bench::reading(&[0, 1], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1], PageStop::Cut);
    bench.sent(1, &[2], PageStop::Cut);
    bench.settled(slot, 0, &[1], &[]);
    bench.settled(1, 1, &[2], &[]);
    bench.wait(20 * MS);
    assert_eq!(bench.mark().1.len(), 2);
    bench.step(Input::Marked(vec![LaneId(1)]));
    let lost = |action: &Action| {
        matches!(action, Action::Note(Note::LeaseLost { lane: LaneId(0), reason: LossReason::MarkRejected, .. }))
    };
    assert!(bench.asked.iter().any(lost), "{:?}", bench.asked);
    assert_eq!(bench.worker.lanes().map(|view| view.lane).collect::<Vec<_>>(), [LaneId(1)]);
}

/// After a lost reply the position is read back; a row of the lane's own generation is this relay's.
#[test]
fn a_lost_reply_is_settled_by_the_newest_row() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2], PageStop::Cut);
    bench.settled(slot, 0, &[1, 2], &[]);
    bench.wait(20 * MS);
    let (tag, rows) = bench.mark();
    bench.step(Input::Disconnected);
    bench.step(Input::Connected);
    assert_eq!(bench.asked, [Action::LoadNewest(vec![LaneId(0)])]);
    let row = rows[0].clone();
    let head =
        crate::batch::BatchHead { lane: row.lane, n: row.n, generation: row.generation, tag, position: row.position };
    bench.step(Input::Newest(vec![head.clone()]));
    assert_eq!(bench.worker.lanes().next().map(|view| view.position.clone()), Some(head.position.clone()));
    assert_eq!(bench.page().plan, crate::page::plan(&head.position, Default::default(), 10).expect("a window"));
    let successor = crate::batch::BatchHead { generation: crate::lane::Generation(4), ..head };
    bench.step(Input::Disconnected);
    bench.step(Input::Connected);
    bench.step(Input::Newest(vec![successor]));
    assert_eq!(bench.worker.lanes().count(), 0, "another generation's row is a successor's");
}

/// What was in flight over a reconnect counts for nothing, and nothing is read before it has settled.
#[test]
fn acknowledgements_of_a_lost_session_count_for_nothing() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2], PageStop::Cut);
    let before = bench.worker.lanes().next().map(|view| view.position.clone()).expect("a lane");
    bench.step(Input::Disconnected);
    bench.step(Input::Connected);
    let head = crate::batch::BatchHead {
        lane: LaneId(0),
        n: 5,
        generation: crate::lane::Generation(3),
        tag: crate::lane::Tag(0),
        position: before.clone(),
    };
    bench.step(Input::Newest(vec![head]));
    assert!(!bench.asks(&Action::Sight), "its records are still out: {:?}", bench.asked);
    bench.settled(slot, 0, &[1, 2], &[]);
    assert!(bench.asks(&Action::Sight), "{:?}", bench.asked);
    bench.wait(1_000 * MS);
    assert!(!bench.asks_for_a_mark(), "{:?}", bench.asked);
}

/// A lane without messages writes its position once the log has moved on by enough, and not before.
#[test]
fn an_idle_lane_writes_its_position_now_and_then() {
    let mut bench = Bench::reading(&[0], 20);
    bench.sent(0, &[], PageStop::Exhausted);
    let held = [row(0, Some("me"), 3)];
    for (xmax, last_id, marks) in [(20, 999, 0), (30, 1_000, 1), (40, 1_999, 0), (50, 2_000, 1)] {
        let counts = bench.rest(bench.now + 1_000 * MS, &sighting(xmax, last_id), &held);
        assert_eq!(counts.marks, marks, "at id {last_id}: {counts:?}");
    }
    let lane = bench.worker.lanes().next().expect("a lane");
    assert_eq!((lane.position.lo.seq0, lane.position.up.as_ref()), (2_000, None));
}
