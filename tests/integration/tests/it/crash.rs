//! Kill -9 at each step of the relay's loop, under traffic, again and again: nothing is lost, nothing
//! invented, first occurrences are in order, and only what was not on record is sent again.

use fencepost_integration::evidence::{Delivered, Traffic};
use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::{env, random};
use fencepost_relay::failpoint::{self, Point};
use tokio::task::{JoinSet, LocalSet};

/// Kills at each point in full length.
const ROUNDS: f64 = 20.0;

/// What a death may repeat: three pages in flight, the one that is being read, and what was acknowledged within
/// the mark interval.
const REPEATS_MAX: u64 = 5 * 100;

/// Points that only a stop reaches.
fn needs_a_stop(point: Point) -> bool {
    [failpoint::BEFORE_RELEASE, failpoint::AFTER_RELEASE].contains(&point)
}

/// A hit up to this number comes soon in every life of a relay under traffic.
fn hits_max(point: Point) -> u64 {
    match point {
        failpoint::BEFORE_CLAIM | failpoint::AFTER_CLAIM => 8,
        failpoint::BEFORE_RENEW | failpoint::AFTER_RENEW => 3,
        failpoint::BEFORE_RELEASE | failpoint::AFTER_RELEASE => 1,
        failpoint::AFTER_TICK => 60,
        _ => 12,
    }
}

async fn killed_at(point: Point, rounds: u32, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    eprintln!("kills at {}, seed {seed}", point.name());
    let site = Site::new(&format!("kill_{}", point.name()), Lease::Short).await;
    let traffic = Traffic::start(&site).await;
    let mut calm = true;
    for _ in 0..rounds {
        let hit = random.u64(1..=hits_max(point));
        let mut relay = site.start_armed("victim", point, &format!("kill@{hit}"));
        if needs_a_stop(point) {
            relay.logged("lane claimed", SOON).await;
            relay.term();
        }
        let status = relay.exited(SOON).await;
        assert_eq!(status.code(), None, "ended by itself, not by the signal: {status}\n{}", relay.log());
        calm &= !relay.log().contains("lease lost") && !relay.log().contains("records failed");
    }
    let survivor = site.start("survivor");
    let journal = traffic.end().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    let verdict = delivered.assert_holds();
    assert!(verdict.repeats <= u64::from(rounds) * REPEATS_MAX, "more than one death's flight each:\n{verdict}");
    delivered.assert_nothing_recorded_was_sent_again(&site).await;
    calm &= !survivor.log().contains("lease lost");
    assert!(!calm || delivered.repeated_by_one_relay() == 0, "a relay that had no failure repeated");
    eprintln!("kills at {}: {} of {} messages repeated", point.name(), verdict.repeats, verdict.committed);
}

/// Every point in every run; the number of kills is scaled.
#[tokio::test]
async fn a_kill_at_each_point_of_the_loop_loses_nothing() {
    let rounds = (ROUNDS * env::scale()).ceil() as u32;
    let mut waiting: Vec<Point> = failpoint::ALL.into();
    let (local, mut running) = (LocalSet::new(), JoinSet::new());
    let all = async {
        // most of a round is waiting for a lease to run out, so several points go side by side
        loop {
            while running.len() < 4 && !waiting.is_empty() {
                let point = waiting.remove(0);
                running.spawn_local(killed_at(point, rounds, random::seed()));
            }
            let Some(ended) = running.join_next().await else { return };
            ended.expect("no failure at this point; the lines above name it");
        }
    };
    local.run_until(all).await;
}
