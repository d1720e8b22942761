//! Claims, trust, hand-over and release.

use super::bench::{Bench, MS, row};
use crate::lane::{Generation, LaneId};
use crate::page::PageStop;
use crate::position::Position;
use crate::worker::{Action, Input, LossReason, Note};

fn lost(lane: i16, reason: LossReason) -> Action {
    Action::Note(Note::LeaseLost { lane: LaneId(lane), generation: Generation(3), reason })
}

/// The trust counts from the send of the claim, ends a margin before the lease, and with it everything in flight.
#[test]
fn the_trust_windows_end_drops_the_lane_and_purges() {
    let mut bench = Bench::reading(&[0], 20);
    let page = bench.page();
    assert_eq!(page.trusted_until, bench.now + 13_000 * MS);
    bench.sent(0, &[1, 2], PageStop::Cut);
    bench.now = page.trusted_until - MS;
    bench.step(Input::Timer);
    assert!(!bench.asks(&Action::Purge));
    assert!(bench.worker.next_wake(bench.now) <= page.trusted_until);
    bench.now = page.trusted_until;
    bench.step(Input::Timer);
    assert!(bench.asks(&lost(0, LossReason::TrustEnded)) && bench.asks(&Action::Purge), "{:?}", bench.asked);
    assert_eq!(bench.worker.lanes().count(), 0);
    bench.settled(page.slot, 0, &[1, 2], &[]);
    bench.wait(100 * MS);
    assert!(!bench.asks_for_a_mark(), "nothing of it is marked: {:?}", bench.asked);
}

/// A renewal extends the trust from its own send, and one that was refused ends it at once.
#[test]
fn a_renewal_counts_from_its_send() {
    let mut bench = Bench::reading(&[0], 20);
    bench.wait(5_000 * MS);
    let asked = vec![(LaneId(0), Generation(3))];
    assert!(bench.asks(&Action::Renew(asked)), "{:?}", bench.asked);
    let sent = bench.now;
    bench.now += 700 * MS;
    bench.step(Input::Renewed { lanes: vec![LaneId(0)], sent });
    assert_eq!(bench.worker.lanes().next().map(|view| view.trusted_until), Some(sent + 13_000 * MS));
    bench.surveyed(vec![row(0, Some("me"), 3)], &["me"]);
    bench.wait(5_000 * MS);
    assert!(bench.asks(&Action::Renew(vec![(LaneId(0), Generation(3))])), "{:?}", bench.asked);
    bench.step(Input::Renewed { lanes: vec![], sent: bench.now });
    assert!(bench.asks(&lost(0, LossReason::RenewalRejected)), "{:?}", bench.asked);
}

/// Surplus is handed over: nothing new is read, what is in flight is finished and marked at once, and only then
/// the lane is released.
#[test]
fn a_lane_is_handed_over_when_it_is_quiet() {
    let mut bench = Bench::reading(&[0, 1], 20);
    let slot = bench.page().slot;
    bench.sent(1, &[1], PageStop::Cut);
    assert!(bench.asks_for_a_page());
    bench.wait(500 * MS);
    assert!(bench.asks(&Action::Survey), "{:?}", bench.asked);
    bench.surveyed(vec![row(0, Some("me"), 3), row(1, Some("me"), 3)], &["me", "you"]);
    let release = Action::Release(vec![(LaneId(1), Generation(3))]);
    assert!(!bench.asks(&release), "it is read and in flight");
    bench.step(Input::PageRead(super::bench::report(0, &[2], PageStop::Cut)));
    assert!(!bench.asks(&release), "its first page is in flight");
    assert!(bench.page().lanes.iter().all(|(lane, ..)| *lane == LaneId(0)), "nothing new of it is read");
    bench.settled(slot, 1, &[1], &[]);
    let (_, rows) = bench.mark();
    let counts: Vec<(LaneId, i64)> = rows.iter().map(|row| (row.lane, row.messages)).collect();
    assert_eq!(counts, [(LaneId(0), 0), (LaneId(1), 1)], "at once, with the lane that reads the same window");
    assert!(!bench.asks(&release), "its mark is out");
    bench.step(Input::Marked(vec![LaneId(0), LaneId(1)]));
    assert!(bench.asks(&release), "{:?}", bench.asked);
}

/// Only free lanes are claimed, one's own after a lost reply, and a silent one after lease and margin.
#[test]
fn claims_name_their_reason() {
    let mut bench = Bench::connected();
    let rows = || vec![row(0, Some("you"), 9), row(1, Some("me"), 4)];
    bench.surveyed(rows(), &["me"]);
    let seen = Some((Generation(4), 77));
    assert!(bench.asks(&Action::Claim { lane: LaneId(1), seen }), "under its own name: {:?}", bench.asked);
    bench.step(Input::Claimed { head: None, sent: bench.now });
    for _ in 0..2 {
        bench.wait(16_990 * MS / 2);
        if bench.asks(&Action::Renew(vec![])) {
            bench.step(Input::Renewed { lanes: vec![], sent: bench.now });
        }
        bench.surveyed(rows(), &["me"]);
        bench.step(Input::Claimed { head: None, sent: bench.now });
        assert!(!bench.asks(&Action::Claim { lane: LaneId(0), seen: Some((Generation(9), 77)) }), "{:?}", bench.asked);
    }
}

/// Without sessions nothing is claimed, and a claim that comes then is not taken up.
#[test]
fn a_claim_that_comes_without_sessions_is_left() {
    let mut bench = Bench::connected();
    bench.surveyed(vec![row(0, None, 0)], &["me"]);
    bench.step(Input::Disconnected);
    let claim = Action::Claim { lane: LaneId(0), seen: None };
    assert!(!bench.asks(&claim));
    let head = crate::batch::BatchHead {
        lane: LaneId(0),
        n: 1,
        generation: Generation(1),
        tag: crate::lane::Tag(0),
        position: Position::beginning(),
    };
    bench.step(Input::Claimed { head: Some(head), sent: bench.now });
    assert_eq!(bench.worker.lanes().count(), 0);
}

/// A claim whose reply comes during a drain is given back before the relay leaves.
#[test]
fn a_claim_during_a_drain_is_released() {
    let mut bench = Bench::connected();
    bench.surveyed(vec![row(0, None, 0)], &["me"]);
    bench.step(Input::Drain);
    assert!(!bench.asks(&Action::Leave), "a claim is out");
    let head = crate::batch::BatchHead {
        lane: LaneId(0),
        n: 1,
        generation: Generation(1),
        tag: crate::lane::Tag(0),
        position: Position::beginning(),
    };
    bench.step(Input::Claimed { head: Some(head), sent: bench.now });
    assert!(bench.asks(&Action::Release(vec![(LaneId(0), Generation(1))])), "{:?}", bench.asked);
    bench.step(Input::Released(vec![LaneId(0)]));
    assert!(bench.asks(&Action::Leave), "{:?}", bench.asked);
    bench.step(Input::Left);
    assert_eq!(bench.asked, [Action::Finished]);
}

/// A drain finishes what is in flight; when the grace is nearly over, it purges it.
#[test]
fn a_drain_finishes_and_then_drops() {
    let mut bench = Bench::reading(&[0], 20);
    let slot = bench.page().slot;
    bench.sent(0, &[1], PageStop::Cut);
    bench.step(Input::Drain);
    assert!(!bench.asks(&Action::Purge));
    bench.step(Input::DrainNow);
    assert!(bench.asks(&Action::Purge), "{:?}", bench.asked);
    bench.sent(0, &[2], PageStop::Cut);
    bench.settled(1, 0, &[], &[(2, crate::failure::Class::Collateral)]);
    bench.settled(slot, 0, &[], &[(1, crate::failure::Class::Ambiguous)]);
    assert!(bench.asks(&Action::Release(vec![(LaneId(0), Generation(3))])), "{:?}", bench.asked);
}
