//! Producers at their worst, through the real relay to the real broker, judged by the auditor.

use std::time::Duration;

use fencepost_integration::evidence::Delivered;
use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::workload::Workload;
use fencepost_integration::{env, random, wait};

/// Eight writers for 20 s in full: random holds, rollbacks, savepoints, early transaction ids, late inserts.
#[tokio::test]
async fn eight_writers_at_their_worst_lose_and_repeat_nothing() {
    let site = Site::new("traffic", Lease::Long).await;
    let workload = Workload::new(site.database.url(), site.topic.name(), random::seed());
    let workload = Workload {
        duration: workload.duration.mul_f64(env::scale()),
        long_hold: workload.long_hold.mul_f64(env::scale()).max(Duration::from_millis(500)),
        ..workload
    };
    workload.prepare(&mut site.connect().await).await;
    let relay = site.start("relay");
    let journal = workload.run().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    delivered.assert_holds_without_repeats();
    assert!(!relay.log().contains("lease lost"), "{}", relay.log());
}

/// Two relays that fight over the lanes with short leases change nothing of it but the repeats.
#[tokio::test]
async fn eight_writers_and_relays_that_come_and_go_lose_nothing() {
    let site = Site::new("traffic_churn", Lease::Short).await.with("log.level=debug");
    let workload = Workload::new(site.database.url(), site.topic.name(), random::seed());
    let workload = Workload {
        duration: workload.duration.mul_f64(env::scale()),
        long_hold: workload.long_hold.mul_f64(env::scale()).max(Duration::from_millis(500)),
        ..workload
    };
    workload.prepare(&mut site.connect().await).await;
    let writing = tokio::spawn(async move { workload.run().await });
    let mut lives = 0;
    let mut relay = site.start("first");
    let _steady = site.start("steady");
    while !writing.is_finished() {
        // without traffic there is nothing to mark
        let marked = async || relay.log().contains("mark saved") || writing.is_finished();
        wait::until(SOON, "the relay marks something", marked).await;
        match lives % 2 {
            0 => relay.kill9(),
            _ => {
                relay.term();
                relay.exited(SOON).await;
            }
        }
        lives += 1;
        relay = site.start("next");
    }
    let journal = writing.await.expect("no writer panicked");
    let delivered = Delivered::all(&site, journal, SOON).await;
    let verdict = delivered.assert_holds();
    delivered.assert_nothing_recorded_was_sent_again(&site).await;
    site.assert_fenced_log().await;
    site.assert_audited().await;
    eprintln!("{lives} lives, {} of {} messages repeated", verdict.repeats, verdict.committed);
}
