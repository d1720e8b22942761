//! What a failed row means for its lane and for the others.

use std::time::Duration;

use super::bench::{Bench, MS, failure, report};
use crate::failure::Class;
use crate::lane::LaneId;
use crate::page::{PageStop, Span};
use crate::worker::{Action, Flow, Input, Note, PageReport, RefusedRow};

fn flow(bench: &Bench, lane: i16) -> Flow {
    let view = bench.worker.lanes().find(|view| view.lane == LaneId(lane));
    *view.expect("the lane is held").flow
}

fn after(bench: &Bench) -> i64 {
    match bench.page().plan.span {
        Span::Stragglers { after, .. } | Span::Range { after, .. } => after,
    }
}

/// Delivered up to just before the first failed row; what was acknowledged behind it is not sent again.
#[test]
fn the_prefix_before_a_failed_row_is_delivered() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2, 3, 4, 5], PageStop::Cut);
    let second = bench.page().slot;
    bench.sent(0, &[6, 7], PageStop::Cut);
    bench.sent(0, &[], PageStop::Cut);
    bench.settled(slot, 0, &[1, 2, 4, 5], &[(3, Class::DestinationDown)]);
    bench.sent(0, &[], PageStop::Cut);
    assert!(!bench.asks(&Action::Rebuild), "all outcomes first: {:?}", bench.asked);
    bench.settled(second, 0, &[6], &[(7, Class::Collateral)]);
    assert!(bench.asks(&Action::Rebuild), "{:?}", bench.asked);
    bench.wait(20 * MS);
    let (_, rows) = bench.mark();
    assert_eq!((rows[0].messages, rows[0].position.cursor), (2, 2));
    bench.step(Input::Rebuilt);
    assert!(!bench.asks_for_a_page(), "it waits, since the destination is down");
    bench.wait(100 * MS);
    assert_eq!((after(&bench), bench.page().skip), (2, [4, 5, 6].into()));
}

/// Skipped rows that fail to be delivered a second time, behind another failure, are still skipped.
#[test]
fn skipped_rows_stay_skipped_behind_another_failure() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2, 3], PageStop::Cut);
    bench.sent(0, &[], PageStop::Cut);
    bench.settled(slot, 0, &[2, 3], &[(1, Class::Collateral)]);
    bench.sent(0, &[], PageStop::Cut);
    bench.step(Input::Rebuilt);
    assert_eq!(bench.page().skip, [2, 3].into());
    let slot = bench.page().slot;
    bench.sent(0, &[1], PageStop::Cut);
    // Nothing of this page is sent: its rows are in the topic.
    let skipped = PageReport { sent: 0, skipped: vec![2, 3], ..report(0, &[2, 3], PageStop::Cut) };
    bench.step(Input::PageRead(skipped));
    bench.settled(slot, 0, &[], &[(1, Class::Collateral)]);
    bench.sent(0, &[], PageStop::Cut);
    bench.step(Input::Rebuilt);
    assert_eq!((after(&bench), bench.page().skip), (0, [2, 3].into()));
}

/// A message that a broker refuses is looked for alone, in order; then its lane stops there, and others go on.
#[test]
fn a_guilty_message_is_found_alone_and_stops_its_lane() {
    let mut bench = Bench::reading(&[0, 1], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2], PageStop::Cut);
    bench.sent(1, &[], PageStop::Cut);
    bench.settled(slot, 0, &[], &[(1, Class::Message), (2, Class::Message)]);
    bench.sent(0, &[], PageStop::Cut);
    assert!(matches!(flow(&bench, 0), Flow::Running), "its neighbour may be the guilty one");
    bench.step(Input::Rebuilt);
    let alone = bench.turn_of(0);
    assert_eq!((alone.plan.rows_max, after(&bench)), (1, 0));
    let slot = alone.slot;
    bench.sent(0, &[1], PageStop::Full);
    assert!(!bench.asks_for_a_page(), "nothing beside it: {:?}", bench.asked);
    bench.settled(slot, 0, &[1], &[]);
    let alone = bench.turn_of(0);
    assert_eq!((alone.plan.rows_max, after(&bench)), (1, 1));
    let slot = alone.slot;
    bench.sent(0, &[2], PageStop::Full);
    bench.settled(slot, 0, &[], &[(2, Class::Message)]);
    let stopped = Action::Note(Note::LaneStopped { lane: LaneId(0), id: 2, code: 7 });
    assert!(bench.asks(&stopped) && bench.asks(&Action::Rebuild), "{:?}", bench.asked);
    bench.step(Input::Rebuilt);
    assert_eq!(flow(&bench, 0), Flow::Stopped { id: 2, code: 7 });
    let lanes: Vec<LaneId> = bench.page().lanes.iter().map(|(lane, ..)| *lane).collect();
    assert_eq!((lanes, bench.page().plan.rows_max), (vec![LaneId(1)], 10));
}

/// A route that is closed is tried again by one row, after a pause that doubles; meanwhile other lanes read.
#[test]
fn a_closed_route_waits_longer_each_time() {
    let mut bench = Bench::reading(&[0], 20);
    for pause in [100, 200, 400] {
        let refused = RefusedRow { lane: LaneId(0), id: 1, outcome: failure(Class::Route) };
        bench.step(Input::PageRead(PageReport { refused: Some(refused), ..report(0, &[], PageStop::Cut) }));
        let Flow::Waiting { until, id: 1, code: 7 } = flow(&bench, 0) else { panic!("{:?}", flow(&bench, 0)) };
        assert!((pause / 2 * MS..=pause * MS).contains(&(until - bench.now)), "{:?}", until - bench.now);
        assert!(!bench.asks_for_a_page());
        bench.wait(until - bench.now - MS);
        assert!(!bench.asks_for_a_page(), "too early");
        assert!(bench.worker.next_wake(bench.now) > bench.now, "and no timer for nothing");
        bench.wait(MS);
        assert_eq!(bench.page().plan.rows_max, 1, "a probe");
    }
    let slot = bench.page().slot;
    bench.sent(0, &[1], PageStop::Full);
    bench.settled(slot, 0, &[1], &[]);
    assert_eq!(flow(&bench, 0), Flow::Running);
}

/// A page that gets no outcome is purged at the deadline, once.
#[test]
fn an_overdue_page_is_purged_once() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1, 2], PageStop::Cut);
    bench.sent(0, &[], PageStop::Cut);
    let deadline = bench.now + 30_000 * MS;
    while bench.now < deadline - 5_000 * MS {
        bench.wait(5_000 * MS);
        bench.step(Input::Renewed { lanes: vec![LaneId(0)], sent: bench.now });
        assert!(!bench.asks(&Action::Purge));
    }
    bench.now = deadline;
    bench.step(Input::Timer);
    assert!(bench.asks(&Action::Purge), "{:?}", bench.asked);
    bench.sent(0, &[], PageStop::Cut);
    assert!(!bench.asks(&Action::Purge));
    assert!(bench.worker.next_wake(bench.now) > bench.now, "it waits for the outcomes without a timer");
    bench.settled(slot, 0, &[1], &[(2, Class::Ambiguous)]);
    assert!(bench.asks(&Action::Rebuild), "{:?}", bench.asked);
}

/// A producer that can't be rebuilt is tried again after a pause, not at once.
#[test]
fn a_failed_rebuild_is_tried_again_later() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1], PageStop::Cut);
    bench.sent(0, &[], PageStop::Cut);
    bench.settled(slot, 0, &[], &[(1, Class::Producer)]);
    bench.sent(0, &[], PageStop::Cut);
    assert!(bench.asks(&Action::Rebuild), "{:?}", bench.asked);
    bench.step(Input::RebuildFailed);
    assert!(!bench.asks(&Action::Rebuild));
    let wake = bench.worker.next_wake(bench.now);
    assert!(wake > bench.now && wake <= bench.now + Duration::from_secs(1));
    bench.now = wake.max(bench.now + 200 * MS);
    bench.step(Input::Timer);
    assert!(bench.asks(&Action::Rebuild), "{:?}", bench.asked);
}

/// A lane that stopped at a message which the client refused goes back when a row before it fails after all, and
/// stops again where it must.
#[test]
fn a_row_before_the_stop_still_goes_out() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1], PageStop::Cut);
    let refused = || RefusedRow { lane: LaneId(0), id: 2, outcome: failure(Class::Message) };
    bench.step(Input::PageRead(PageReport { refused: Some(refused()), ..report(0, &[], PageStop::Cut) }));
    assert_eq!(flow(&bench, 0), Flow::Stopped { id: 2, code: 7 });
    bench.settled(slot, 0, &[], &[(1, Class::Collateral)]);
    assert!(bench.asks(&Action::Rebuild), "{:?}", bench.asked);
    bench.step(Input::Rebuilt);
    assert_eq!(after(&bench), 0, "the first row is sent again");
    let slot = bench.page().slot;
    bench.step(Input::PageRead(PageReport { refused: Some(refused()), ..report(0, &[1], PageStop::Cut) }));
    bench.settled(slot, 0, &[1], &[]);
    assert_eq!(flow(&bench, 0), Flow::Stopped { id: 2, code: 7 });
    assert!(!bench.asks_for_a_page());
}
