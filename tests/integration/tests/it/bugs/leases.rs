//! Theme 3: leases, fencing, stale workers, hand-over.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_integration::database::connect;
use fencepost_integration::evidence::fence;
use fencepost_integration::fleet::{Lease, SOON, Site, holders};
use fencepost_integration::proxy::{Direction, Flow, Proxy};
use fencepost_integration::servers::PrivateKafka;
use fencepost_integration::{database::TestDatabase, wait};
use sqlx::PgConnection;

use super::{Came, DEADLINE, enqueue, scaled, scaled_count};

/// Owners that wrote under one generation of a lane: more than one would be two owners at once.
async fn assert_one_owner_per_generation(connection: &mut PgConnection) {
    let sql = r#"SELECT lane, generation FROM "fencepost".batches WHERE generation > 0
                  GROUP BY lane, generation HAVING count(DISTINCT owner) > 1"#;
    let shared: Vec<(i16, i64)> = sqlx::query_as(sql).fetch_all(connection).await.expect("the batch log can be read");
    assert!(shared.is_empty(), "lanes with two owners under one generation: {shared:?}");
}

/// One broker whose answers come late, for three rows: slow sends while relays come and go; acknowledgements
/// that take four leases; batches that are longer under way than their lease.
#[tokio::test]
async fn b26_b31_b32_slow_acknowledgements_move_no_lane_and_repeat_nothing() {
    let (broker, proxy) = PrivateKafka::behind_proxy(&[]).await;
    let topic = broker.kafka().topic("b26", 4).await;
    let database = TestDatabase::create("b26").await;
    let site = Site::of(database, topic, broker.address(), Lease::Medium).with("source.0.page_rows=500");
    let mut writer = site.connect().await;

    // b31: each acknowledgement takes 200 ms while relays join and leave
    let one = site.start("one");
    site.shared_by(&["one"]).await;
    proxy.set(Direction::ToClient, Flow::Delayed(Duration::from_millis(200)));
    let total = scaled_count(2_000, 400);
    let (url, name) = (site.database.url(), site.topic.name().to_owned());
    let writing = tokio::spawn(async move {
        let mut writer = connect(&url).await;
        for number in 1..=total {
            enqueue(&mut writer, &name, "i % 50", number..=number).await;
        }
    });
    let mut two = site.start("two");
    site.shared_by(&["one", "two"]).await;
    let three = site.start("three");
    site.shared_by(&["one", "two", "three"]).await;
    two.term();
    assert_eq!(two.exited(SOON).await.code(), Some(0), "what was in flight was finished");
    site.shared_by(&["one", "three"]).await;
    writing.await.expect("the writer did not panic");
    Came::all(&site.topic, 1..=total, DEADLINE).await.assert_once().assert_in_order();
    assert_one_owner_per_generation(&mut writer).await;

    // b26, b32: an acknowledgement takes four leases
    let before = site.generations().await;
    proxy.set(Direction::ToClient, Flow::Delayed(Lease::Medium.length() * 4));
    enqueue(&mut writer, site.topic.name(), "i % 50", total + 1..=total + 550).await;
    Came::all(&site.topic, total + 1..=total + 550, DEADLINE).await.assert_once().assert_in_order();
    let holding = holders(&mut writer).await;
    assert!(holding.iter().all(Option::is_some), "both are alive and renew: {holding:?}");
    proxy.set(Direction::ToClient, Flow::Open);
    wait::until(SOON, "all is marked", async || super::delivered(&mut writer).await == total + 550).await;
    assert_eq!(site.generations().await, before, "no lane changed hands");
    Came::now(&site.topic).await.assert_once();
    drop((one, three));
}

/// Who is late learns from the compare-and-set, not from a map of its own.
#[tokio::test]
async fn b30_relays_that_see_a_death_at_different_times_never_share_a_lane() {
    let site = Site::new("b30", Lease::Medium).await;
    let proxy = Proxy::to(site.database.server_address()).await;
    let slow_url = site.database.url_at(&proxy.address());
    let mut a = site.start("a");
    let _b = site.start_watched_with("b", &[("FENCEPOST__SOURCE__0__URL", &slow_url)]);
    let _c = site.start("c");
    site.shared_by(&["a", "b", "c"]).await;
    let mut writer = site.connect().await;
    enqueue(&mut writer, site.topic.name(), "i % 100", 1..=300).await;
    Came::all(&site.topic, 1..=300, SOON).await;
    proxy.set(Direction::ToClient, Flow::Delayed(scaled(10)));
    a.kill9();
    enqueue(&mut writer, site.topic.name(), "i % 100", 301..=700).await;
    wait::hold(scaled(10)).await;
    proxy.set(Direction::ToClient, Flow::Open);
    enqueue(&mut writer, site.topic.name(), "i % 100", 701..=1_000).await;
    let came = Came::all(&site.topic, 1..=1_000, DEADLINE).await.assert_in_order();
    assert_one_owner_per_generation(&mut writer).await;
    let fences: BTreeSet<_> = came.records.iter().map(fence).collect();
    assert!(fences.len() > 8, "the dead relay's lanes were taken over: {fences:?}");
}

/// Resets of every connection cost no lane, no message and little time.
#[tokio::test]
async fn b35_resets_of_all_connections_are_shrugged_off() {
    let site = Site::new("b35", Lease::Long).await;
    let proxy = Proxy::to(site.database.server_address()).await;
    let site = site.through(&proxy.address());
    let relay = site.start_watched("b35");
    site.shared_by(&["b35"]).await;
    let before = site.generations().await;
    let mut writer = site.connect().await;
    let resets = scaled_count(12, 4);
    for reset in 0..resets {
        let first = reset * 100 + 1;
        enqueue(&mut writer, site.topic.name(), "i % 10", first..=first + 49).await;
        wait::hold(scaled(10) / 2).await;
        proxy.cut_all();
        enqueue(&mut writer, site.topic.name(), "i % 10", first + 50..=first + 99).await;
        Came::all(&site.topic, first..=first + 99, Duration::from_secs(10)).await;
    }
    Came::now(&site.topic).await.assert_in_order();
    assert_eq!(site.generations().await, before, "a reset is no reason to lose a lease");
    relay.ready().await;
    relay.reaches("fencepost_reconnects_total", "", resets as f64).await;
}

/// The owner of a lease is a process, not a name.
#[tokio::test]
async fn b37_a_restart_under_the_same_name_is_another_owner() {
    let site = Site::new("b37", Lease::Medium).await.with("source.0.page_rows=1").with("source.0.page_slots=1");
    let mut relay = site.start("same");
    site.shared_by(&["same"]).await;
    let mut writer = site.connect().await;
    let owner = holders(&mut writer).await[0].clone();
    let before = site.generations().await;
    enqueue(&mut writer, site.topic.name(), "i", 1..=100).await;
    site.topic.read(1, SOON).await;
    relay.kill9();
    let again = wait::now();
    let _again = site.start("same");
    wait::until(SOON, "the new process has all lanes", async || {
        holders(&mut writer).await.iter().all(|holder| holder.is_some() && *holder != owner)
    })
    .await;
    let waited = again.elapsed();
    assert!(waited < Lease::Medium.length() + Duration::from_secs(8), "lanes came back after {waited:?}");
    let after = site.generations().await;
    assert!(before.iter().zip(&after).all(|(old, new)| new.1 > old.1), "{before:?} {after:?}");
    Came::all(&site.topic, 1..=100, DEADLINE).await.assert_in_order();
    assert_one_owner_per_generation(&mut writer).await;
}

/// There is one path to Kafka: no fast path and poll that could both take a row.
#[tokio::test]
async fn b41_many_producers_and_a_quick_poll_repeat_nothing() {
    const PRODUCERS: i64 = 16;
    let site = Site::new("b41", Lease::Long).await.with("source.0.poll_idle=50ms");
    let _relays = (site.start("one"), site.start("two"));
    site.shared_by(&["one", "two"]).await;
    let (each, per_statement) = (scaled_count(50_000, 4_000) / PRODUCERS, 25);
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let (url, topic) = (site.database.url(), site.topic.name().to_owned());
        producers.spawn(async move {
            let mut writer = connect(&url).await;
            let (mut next, last) = (producer * each + 1, (producer + 1) * each);
            while next <= last {
                let end = last.min(next + per_statement - 1);
                enqueue(&mut writer, &topic, "i % 500", next..=end).await;
                next = end + 1;
            }
        });
    }
    while let Some(producer) = producers.join_next().await {
        producer.expect("a producer did not panic");
    }
    Came::all(&site.topic, 1..=PRODUCERS * each, DEADLINE).await.assert_once();
}

/// A relay judges its own lease by differences of its own clock, and another's by the database's: where its
/// clocks stand doesn't matter.
#[tokio::test]
async fn b43_a_relay_whose_clock_is_ahead_or_behind_takes_nothing_early() {
    let site = Site::new("b43", Lease::Medium).await;
    let mut writer = site.connect().await;
    let _healthy = site.start("healthy");
    site.shared_by(&["healthy"]).await;
    let total = scaled_count(1_000, 400);
    for (turn, (name, seconds)) in [("ahead", 600), ("behind", -600)].into_iter().enumerate() {
        let mut other = site.start_at_offset(name, seconds);
        site.shared_by(&["healthy", name]).await;
        let before = site.generations().await;
        for part in 0..10 {
            let first = turn as i64 * total + part * total / 10 + 1;
            enqueue(&mut writer, site.topic.name(), "i % 50", first..=turn as i64 * total + (part + 1) * total / 10)
                .await;
            wait::hold(Lease::Medium.length() / 4).await;
        }
        Came::all(&site.topic, 1..=(turn as i64 + 1) * total, DEADLINE).await.assert_once().assert_in_order();
        assert_eq!(site.generations().await, before, "{name}: no lane changed hands in more than two leases");
        other.term();
        assert_eq!(other.exited(SOON).await.code(), Some(0), "{name}: a clean stop");
        site.shared_by(&["healthy"]).await;
    }
    assert_one_owner_per_generation(&mut writer).await;
}
