//! Relays that come and go in good order: shares are fair, lanes change hands at once, and nothing is sent
//! twice.

use std::time::Duration;

use fencepost_integration::evidence::{Delivered, Traffic};
use fencepost_integration::fleet::{LANES, Lease, SOON, Site, holders};
use fencepost_integration::wait;

#[tokio::test]
async fn scaling_out_and_in_repeats_nothing() {
    let site = Site::new("scale", Lease::Long).await;
    let traffic = Traffic::start(&site).await;
    let mut relays = Vec::new();
    let names = ["a", "b", "c"];
    for (number, name) in names.iter().enumerate() {
        relays.push(site.start(name));
        site.shared_by(&names[..=number]).await;
    }
    for number in 0..2 {
        relays[number].term();
        assert_eq!(relays[number].exited(SOON).await.code(), Some(0), "{}", relays[number].log());
        site.shared_by(&names[number + 1..]).await;
    }
    let journal = traffic.end().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    delivered.assert_holds_without_repeats();
    site.assert_fenced_log().await;
    for relay in &relays {
        let log = relay.log();
        assert!(
            !log.contains("lease lost") && !log.contains("records failed"),
            "a lane changed hands by force:\n{log}"
        );
    }
}

/// With a lease of ten minutes nobody could wait for its end.
#[tokio::test]
async fn b144_a_stop_gives_lanes_back_long_before_their_lease_ends() {
    let site = Site::new("handover", Lease::Long).await.with("lease.length=10m");
    let traffic = Traffic::start(&site).await;
    let mut first = site.start("first");
    site.shared_by(&["first"]).await;
    let _second = site.start("second");
    site.shared_by(&["first", "second"]).await;
    first.term();
    assert_eq!(first.exited(SOON).await.code(), Some(0), "{}", first.log());
    let (start, mut connection) = (wait::now(), site.connect().await);
    wait::until(Duration::from_secs(2), "the second relay holds all lanes", async || {
        let held = holders(&mut connection).await;
        held.iter().flatten().filter(|owner| owner.starts_with("second")).count() == LANES
    })
    .await;
    eprintln!("taken over after {:?}", start.elapsed());
    let journal = traffic.end().await;
    Delivered::all(&site, journal, SOON).await.assert_holds_without_repeats();
}
