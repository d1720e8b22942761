//! Leases: one holder at a time, generations that only grow, and nobody's lease touched by another.

use std::time::Duration;

use fencepost_core::batch::BatchHead;
use fencepost_core::lane::{Generation, LaneId, LaneRow, Owner};
use fencepost_core::position::Position;
use fencepost_relay::store::{LaneKeeper, MarkWriter, Store};
use futures_util::future::join_all;

use super::{Fixture, LEASE, claim, owner};

async fn lane<K: LaneKeeper>(keeper: &mut K, lane: i16) -> LaneRow {
    let survey = keeper.survey(LEASE).await.expect("a survey");
    survey.lanes.into_iter().find(|row| row.lane == LaneId(lane)).expect("the lane")
}

/// A free lane starts at its stored position; the claim's row is the lane's newest.
pub async fn a_claim_writes_a_fence_row<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let me = owner("me");
    let before = lane(&mut keeper, 5).await;
    assert_eq!((before.slots, before.owner, before.claimable), (160..=191, None, true));
    let head = claim(&mut keeper, &me, 5).await;
    assert_eq!((head.lane, head.n, &head.position), (LaneId(5), 1, &Position::beginning()));
    assert!(head.generation > before.generation);
    let after = lane(&mut keeper, 5).await;
    assert_eq!((after.owner, after.generation, after.claimable), (Some(me), head.generation, false));
    assert!(after.expires_at_us.is_some());
    let mut marker = fixture.store().marker().await.expect("a marker");
    assert_eq!(marker.newest(&[LaneId(5)]).await.expect("the newest row"), [head]);
    let fence = fixture.stored(LaneId(5)).await.pop().expect("a row");
    assert_eq!((fence.kind.as_str(), fence.owner.as_deref(), fence.counts), ("fence", Some("me"), (0, 0, 0)));
}

/// A fence row copies position and open-transaction fields as they are: what is open must still be resolved.
pub async fn a_fence_row_copies_what_is_open<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    claim(&mut keeper, &owner("old"), 0).await;
    fixture.leave_open(LaneId(0)).await;
    fixture.expire(LaneId(0)).await;
    // whether this relay goes on from such a row is another case's question
    let _ = keeper.claim(&owner("new"), LaneId(0), None, LEASE).await;
    let rows = fixture.stored(LaneId(0)).await;
    let [.., prepared, fence] = &rows[..] else { panic!("two rows at least") };
    assert_eq!((prepared.kind.as_str(), fence.kind.as_str()), ("prepared", "fence"));
    assert_eq!((fence.n, &fence.carried), (prepared.n + 1, &prepared.carried));
    assert_eq!((fence.owner.as_deref(), fence.generation), (Some("new"), prepared.generation + 1));
}

/// Eight claimers at once, fifty rounds: one wins, and no generation is handed out twice.
pub async fn b18_a_race_for_a_lane_has_one_winner<F: Fixture>(fixture: &mut F) {
    let mut keepers = Vec::new();
    for _ in 0..8 {
        keepers.push(fixture.store().keeper().await.expect("a keeper"));
    }
    let mut generations: Vec<Generation> = Vec::new();
    for round in 0..50_u16 {
        let claims = keepers.iter_mut().enumerate().map(async |(i, keeper)| {
            let me = owner(&format!("relay {i}"));
            keeper.claim(&me, LaneId(0), None, LEASE).await.expect("an answer").map(|head| (me, head))
        });
        let winners: Vec<(Owner, BatchHead)> = join_all(claims).await.into_iter().flatten().collect();
        let [(winner, head)] = &winners[..] else { panic!("round {round}: {winners:?}") };
        assert_eq!(head.n, i64::from(round) + 1, "one fence row a round");
        generations.push(head.generation);
        if round % 2 == 0 {
            fixture.expire(LaneId(0)).await;
        } else {
            let released = keepers[0].release(winner, &[(LaneId(0), head.generation)]).await.expect("an answer");
            assert_eq!(released, [LaneId(0)]);
        }
    }
    assert!(generations.is_sorted_by(|a, b| a < b), "{generations:?}");
}

/// The database's clock says what has expired.
pub async fn only_free_or_expired_lanes_are_claimed<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let (me, other) = (owner("me"), owner("other"));
    let head = claim(&mut keeper, &me, 0).await;
    for who in [&me, &other] {
        assert_eq!(keeper.claim(who, LaneId(0), None, LEASE).await.expect("an answer"), None, "{who:?}");
    }
    assert_eq!(fixture.stored(LaneId(0)).await.len(), 2, "a refused claim writes nothing");
    fixture.expire(LaneId(0)).await;
    assert!(lane(&mut keeper, 0).await.claimable);
    let taken = claim(&mut keeper, &other, 0).await;
    assert!((taken.n, taken.generation) > (head.n, head.generation));
    let short = keeper.claim(&me, LaneId(1), None, Duration::from_millis(1)).await.expect("an answer");
    assert!(short.is_some(), "a free lane");
    crate::wait::until(Duration::from_secs(10), "a lease of a millisecond runs out", async || {
        lane(&mut keeper, 1).await.claimable
    })
    .await;
}

/// A pair that stood unchanged for a whole lease is claimed whatever the stored expiry says (the database's
/// clock may have been set back); a renewal in between changes the pair and keeps the lane.
pub async fn b45_silence_claims_by_the_seen_pair<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let (me, other) = (owner("me"), owner("other"));
    let head = claim(&mut keeper, &me, 0).await;
    let seen = |row: &LaneRow| (row.generation, row.expires_at_us.expect("an expiry"));
    let stale = seen(&lane(&mut keeper, 0).await);
    let renewed = keeper.renew(&me, &[(LaneId(0), head.generation)], LEASE * 2).await.expect("an answer");
    assert_eq!(renewed, [LaneId(0)]);
    let fresh = seen(&lane(&mut keeper, 0).await);
    assert!(fresh.1 > stale.1, "a renewal shows");
    for pair in [stale, (Generation(fresh.0.0 + 1), fresh.1), (fresh.0, fresh.1 + 1)] {
        assert_eq!(keeper.claim(&other, LaneId(0), Some(pair), LEASE).await.expect("an answer"), None, "{pair:?}");
    }
    let taken = keeper.claim(&other, LaneId(0), Some(fresh), LEASE).await.expect("an answer").expect("claimed");
    assert!(taken.generation > head.generation);
    assert_eq!(lane(&mut keeper, 0).await.owner, Some(other));
}

/// Renewals and releases of an older generation, of another owner, or after expiry touch nothing.
pub async fn b27_b36_only_unexpired_own_leases_are_renewed_and_released<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let (old, new) = (owner("old"), owner("new"));
    let mut held = Vec::new();
    for number in 0..4 {
        held.push((LaneId(number), claim(&mut keeper, &old, number).await.generation));
    }
    fixture.expire(LaneId(0)).await;
    fixture.expire(LaneId(1)).await;
    claim(&mut keeper, &new, 1).await;
    let before = [lane(&mut keeper, 0).await, lane(&mut keeper, 1).await];
    held.push((LaneId(2), Generation(held[2].1.0 - 1)));
    let mut renewed = keeper.renew(&old, &held, LEASE).await.expect("an answer");
    renewed.sort();
    assert_eq!(renewed, [2, 3].map(LaneId), "expired and lost ones are not");
    assert_eq!(keeper.renew(&new, &held[2..], LEASE).await.expect("an answer"), [], "somebody else's are not");
    assert_eq!(keeper.release(&new, &held[2..]).await.expect("an answer"), []);
    let mut released = keeper.release(&old, &held).await.expect("an answer");
    released.sort();
    assert_eq!(released, [2, 3].map(LaneId));
    assert_eq!([lane(&mut keeper, 0).await, lane(&mut keeper, 1).await], before);
    let free = lane(&mut keeper, 2).await;
    assert_eq!((free.owner, free.expires_at_us, free.claimable), (None, None, true));
}

/// A claim whose reply was lost shows in the survey and in the newest row.
pub async fn b25_a_lost_claim_reply_can_be_found_out<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let me = owner("me");
    let lost = claim(&mut keeper, &me, 0).await;
    drop(keeper);
    let mut keeper = fixture.store().keeper().await.expect("another keeper");
    let row = lane(&mut keeper, 0).await;
    assert_eq!((row.owner, row.generation), (Some(me.clone()), lost.generation));
    let mut marker = fixture.store().marker().await.expect("a marker");
    assert_eq!(marker.newest(&[LaneId(0)]).await.expect("the newest row"), [lost]);
    let released = keeper.release(&me, &[(LaneId(0), row.generation)]).await.expect("an answer");
    assert_eq!(released, [LaneId(0)], "or it is kept: either way nothing needs repair");
}

/// Whatever happens between claims, the next generation is larger.
pub async fn generations_only_grow<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let me = owner("me");
    let mut last = Generation(0);
    for round in 0..6 {
        let head = claim(&mut keeper, &me, 0).await;
        assert!(head.generation > last);
        last = head.generation;
        match round % 3 {
            0 => fixture.expire(LaneId(0)).await,
            1 => assert_eq!(keeper.release(&me, &[(LaneId(0), last)]).await.expect("an answer"), [LaneId(0)]),
            _ => {
                let row = lane(&mut keeper, 0).await;
                assert_eq!(row.generation, last);
                fixture.expire(LaneId(0)).await;
            }
        }
    }
}

/// Heartbeats show who is alive; an old one does not, and who leaves is gone at once.
pub async fn relays_are_alive_by_their_heartbeat<F: Fixture>(fixture: &mut F) {
    let mut keeper = fixture.store().keeper().await.expect("a keeper");
    let (a, b) = (owner("a"), owner("b"));
    assert_eq!(keeper.survey(LEASE).await.expect("a survey").relays, []);
    for who in [&b, &a, &a] {
        keeper.beat(who).await.expect("a heartbeat");
    }
    assert_eq!(keeper.survey(LEASE).await.expect("a survey").relays, [a.clone(), b.clone()], "by name");
    keeper.claim(&b, LaneId(5), None, LEASE).await.expect("a claim").expect("a free lane");
    keeper.leave(&b).await.expect("gone");
    keeper.leave(&b).await.expect("gone already");
    keeper.claim(&a, LaneId(5), None, LEASE).await.expect("a claim").expect("given back by who left");
    assert_eq!(keeper.survey(LEASE).await.expect("a survey").relays, std::slice::from_ref(&a));
    fixture.age_heartbeats(LEASE * 2).await;
    let survey = keeper.survey(LEASE).await.expect("a survey");
    assert_eq!((survey.relays, survey.lanes.len()), (vec![], 8));
    keeper.beat(&a).await.expect("a heartbeat");
    assert_eq!(keeper.survey(LEASE).await.expect("a survey").relays, [a]);
}
