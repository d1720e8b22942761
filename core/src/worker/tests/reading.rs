//! When to look, when to take a transaction id, and which tick comes of it.

use super::bench::{Bench, MS, row, sighting};
use crate::lane::LaneId;
use crate::page::PageStop;
use crate::worker::{Action, Input};

/// A worker whose only window is read and delivered, with its mark out.
fn marking(last_id: i64) -> Bench {
    let mut bench = Bench::reading(&[0], last_id);
    let slot = bench.page().slot;
    let ids: Vec<i64> = (1..=last_id).collect();
    bench.sent(0, &ids, PageStop::Exhausted);
    bench.settled(slot, 0, &ids, &[]);
    bench.wait(20 * MS);
    bench
}

/// A look is a tick on the base that stood when it was asked for: one that came after is no news to it.
#[test]
fn a_tick_stands_on_the_base_of_its_send() {
    let mut bench = Bench::reading(&[0], 5);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2, 3, 4, 5], PageStop::Exhausted);
    bench.settled(slot, 0, &[1, 2, 3, 4, 5], &[]);
    bench.wait(5 * MS);
    assert!(bench.asks(&Action::Sight), "{:?}", bench.asked);
    bench.step(Input::Sighted(sighting(12, 8)));
    assert_eq!(bench.page().plan.up.seq0, 5, "the first base");
    bench.sent(0, &[6, 7, 8], PageStop::Exhausted);
    bench.wait(20 * MS);
    let asked_before = bench.asks(&Action::Sight);
    assert!(bench.asks_for_a_mark() && asked_before, "{:?}", bench.asked);
    // The mark's transaction id came after id 8 was seen, and after the look was asked for.
    bench.step(Input::Marked(vec![LaneId(0)]));
    bench.step(Input::Sighted(sighting(14, 9)));
    assert_eq!(bench.page().plan.up.seq0, 5, "still the first base");
    bench.sent(0, &[9], PageStop::Exhausted);
    bench.wait(5 * MS);
    bench.step(Input::Sighted(sighting(15, 10)));
    assert_eq!(bench.page().plan.up.seq0, 8, "the mark renewed it for the next look");
}

/// A transaction id is taken only when the base is stale and no mark will renew it, and once for one news.
#[test]
fn a_transaction_id_is_burnt_only_when_no_mark_comes() {
    let mut bench = marking(3);
    assert!(bench.asks_for_a_mark(), "{:?}", bench.asked);
    while !bench.asks(&Action::Sight) {
        bench.now = bench.worker.next_wake(bench.now);
        bench.step(Input::Timer);
    }
    // Ids that belong to other lanes: nothing of this lane will be marked.
    bench.step(Input::Sighted(sighting(12, 9)));
    bench.sent(0, &[], PageStop::Exhausted);
    assert!(!bench.asks(&Action::Burn), "the mark is still out: {:?}", bench.asked);
    bench.step(Input::Marked(vec![LaneId(0)]));
    assert!(bench.asks(&Action::Burn), "{:?}", bench.asked);
    let burns = bench.rest(bench.now + 1_000 * MS, &sighting(13, 9), &[row(0, Some("me"), 3)]).burns;
    assert_eq!(burns, 1, "the base is as new as the newest id");
}

/// At rest the pause between looks grows to its cap, and no transaction id is taken.
#[test]
fn looks_become_rare_at_rest() {
    let mut bench = marking(3);
    bench.step(Input::Marked(vec![LaneId(0)]));
    // The look that was asked for meanwhile.
    bench.step(Input::Sighted(sighting(12, 3)));
    let counts = bench.rest(bench.now + 10_000 * MS, &sighting(12, 3), &[row(0, Some("me"), 3)]);
    assert!((95..=110).contains(&counts.looks), "{counts:?} in ten seconds");
    assert_eq!((counts.burns, counts.marks), (0, 0));
}

/// A page that was asked for when its session was already lost is never begun; the next pair reads on.
#[test]
fn a_page_that_was_never_begun_does_not_block_the_next_session() {
    let mut bench = Bench::reading(&[0], 20);
    bench.sent(0, &[], PageStop::Cut);
    assert!(bench.asks_for_a_page(), "asked of a session that is gone");
    bench.step(Input::Disconnected);
    bench.step(Input::Connected);
    let head = crate::batch::BatchHead {
        lane: LaneId(0),
        n: 5,
        generation: crate::lane::Generation(3),
        tag: crate::lane::Tag(0),
        position: crate::position::Position::beginning(),
    };
    bench.step(Input::Newest(vec![head]));
    assert!(bench.asks(&Action::Sight), "{:?}", bench.asked);
}

/// An answer that nobody waits for changes nothing: above all it is no tick, and it ends no page.
#[test]
fn a_stray_answer_changes_nothing() {
    let mut bench = Bench::reading(&[0], 20);
    let page = bench.page();
    for stray in [Input::Sighted(sighting(99, 99)), Input::Burnt] {
        bench.step(stray);
        assert_eq!(bench.asked, []);
    }
    bench.sent(0, &[1, 2], PageStop::Cut);
    assert_eq!(bench.page().plan.up, page.plan.up, "the page was still awaited, and the window is the same");
}
