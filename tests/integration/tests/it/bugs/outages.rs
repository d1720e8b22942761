//! The broker is away, frozen or slow: rows of themes 1, 5, 6 and 11 that need a broker of their own.

use std::time::Duration;

use fencepost_integration::database::TestDatabase;
use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::proxy::{Direction, Flow, Proxy};
use fencepost_integration::servers::PrivateKafka;
use fencepost_integration::wait;
use sqlx::PgConnection;

use super::{Came, DEADLINE, delivered, enqueue, key_in_lane, scaled, scaled_count};

/// A broker's network stands still, or moves again.
fn freeze(proxy: &Proxy, frozen: bool) {
    let flow = if frozen { Flow::Held } else { Flow::Open };
    proxy.set(Direction::ToServer, flow);
    proxy.set(Direction::ToClient, flow);
}

/// An outage is nobody's fault: nothing counts as delivered, nothing is given up, nothing overtakes.
#[tokio::test]
async fn b15_b71_b72_an_outage_of_the_broker_passes_in_order_and_is_charged_to_nobody() {
    let broker = PrivateKafka::start(&[]);
    let topic = broker.kafka().topic("b71", 4).await;
    let site = Site::of(TestDatabase::create("b71").await, topic, broker.address(), Lease::Medium);
    let site = site.with("kafka.delivery_deadline=2s");
    let mut writer = site.connect().await;
    let mut relay = site.start_watched("b71");
    enqueue(&mut writer, site.topic.name(), "'K'", 1..=25).await;
    Came::all(&site.topic, 1..=25, SOON).await;
    wait::until(SOON, "25 are marked", async || delivered(&mut writer).await == 25).await;

    broker.kill9();
    enqueue(&mut writer, site.topic.name(), "'K'", 26..=50).await;
    enqueue(&mut writer, site.topic.name(), "i", 61..=1_000).await;
    wait::until(SOON, "the relay is not ready", async || !relay.is_ready().await).await;
    relay.reaches("fencepost_failures_total", "", 25.0).await;
    wait::hold(scaled(30)).await;
    relay.process.kill9();
    let relay = site.start_watched("b71");
    relay.reaches("fencepost_lane_generation", "", 8.0).await;
    wait::hold(scaled(30)).await;
    assert_eq!(delivered(&mut writer).await, 25, "nothing is marked that no broker acknowledged");

    broker.restart();
    enqueue(&mut writer, site.topic.name(), "'K'", 51..=60).await;
    Came::all(&site.topic, 1..=1_000, DEADLINE).await.assert_in_order();
    relay.ready().await;
    assert_eq!(relay.metric("fencepost_lane_stopped", "").await, Some(0.0), "an outage stops no lane for good");
    wait::until(SOON, "all is marked", async || delivered(&mut writer).await == 1_000).await;
}

/// The rows that freeze a broker share one.
#[tokio::test]
async fn b21_b53_b54_b61_b143_a_frozen_broker() {
    let (broker, proxy) = PrivateKafka::behind_proxy(&[]).await;
    b21_a_stuck_path_blocks_no_other_relay(&broker, &proxy).await;
    b53_freezes_in_a_row_leave_no_gap(&broker, &proxy).await;
    b54_b61_a_timeout_is_no_failure(&broker, &proxy).await;
    b143_a_stop_flushes_or_gives_up_within_its_grace(&broker, &proxy).await;
}

/// One relay's path to Kafka is stuck while it sends; the other's messages go on, and no session of either
/// sits in an open transaction meanwhile.
async fn b21_a_stuck_path_blocks_no_other_relay(broker: &PrivateKafka, proxy: &Proxy) {
    let topic = broker.kafka().topic("b21", 4).await;
    let site = Site::of(TestDatabase::create("b21").await, topic, broker.address(), Lease::Medium);
    let mut writer = site.connect().await;
    let stuck = site.start_watched("stuck");
    site.shared_by(&["stuck"]).await;
    let past_the_proxy = broker.kafka();
    let _free = site.start_watched_with("free", &[("FENCEPOST__KAFKA__BROKERS", past_the_proxy.bootstrap())]);
    site.shared_by(&["stuck", "free"]).await;
    let of = async |writer: &mut PgConnection, name: &str| -> i16 {
        let sql = r#"SELECT min(lane) FROM "fencepost".lanes WHERE owner LIKE $1 || '%'"#;
        sqlx::query_scalar(sql).bind(name).fetch_one(writer).await.expect("the lanes can be read")
    };
    let (stuck_lane, free_lane) = (of(&mut writer, "stuck").await, of(&mut writer, "free").await);
    let (a, b) = (key_in_lane(&mut writer, stuck_lane.into()).await, key_in_lane(&mut writer, free_lane.into()).await);
    // a first message each, so that both know the topic
    enqueue(&mut writer, site.topic.name(), &format!("'{a}'"), 1..=1).await;
    enqueue(&mut writer, site.topic.name(), &format!("'{b}'"), 2..=2).await;
    Came::all(&site.topic, 1..=2, SOON).await;
    freeze(proxy, true);
    enqueue(&mut writer, site.topic.name(), &format!("'{a}'"), 3..=3).await;
    stuck.reaches("fencepost_in_flight_messages", "", 1.0).await;
    enqueue(&mut writer, site.topic.name(), &format!("'{b}'"), 4..=103).await;
    Came::all(&site.topic, 4..=103, SOON).await;
    let start = wait::now();
    while start.elapsed() < scaled(10) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND application_name LIKE 'fencepost%' AND state LIKE 'idle in transaction%'";
        let idle: i64 = sqlx::query_scalar(sql).fetch_one(&mut writer).await.expect("the server tells its sessions");
        assert_eq!(idle, 0, "no transaction is open while Kafka is awaited");
        wait::pause().await;
    }
    freeze(proxy, false);
    Came::all(&site.topic, 1..=103, SOON).await.assert_once().assert_in_order();
}

async fn b53_freezes_in_a_row_leave_no_gap(broker: &PrivateKafka, proxy: &Proxy) {
    let topic = broker.kafka().topic("b53", 4).await;
    let site = Site::of(TestDatabase::create("b53").await, topic, broker.address(), Lease::Medium);
    let deadline = scaled(30).as_millis();
    let site = site.with(&format!("kafka.delivery_deadline={deadline}ms"));
    let mut writer = site.connect().await;
    let relay = site.start_watched("b53");
    relay.ready().await;
    let (mut next, loops) = (1, scaled_count(10, 2));
    for _ in 0..loops {
        for (frozen, seconds) in [(true, 45), (false, 20)] {
            freeze(proxy, frozen);
            let start = wait::now();
            while start.elapsed() < scaled(seconds) {
                enqueue(&mut writer, site.topic.name(), "i % 20", next..=next + 19).await;
                next += 20;
                wait::hold(Duration::from_millis(100)).await;
            }
        }
    }
    Came::all(&site.topic, 1..=next - 1, DEADLINE).await.assert_in_order();
    relay.reaches("fencepost_producer_rebuilds_total", "", 1.0).await;
}

async fn b54_b61_a_timeout_is_no_failure(broker: &PrivateKafka, proxy: &Proxy) {
    let topic = broker.kafka().topic("b54", 4).await;
    let site = Site::of(TestDatabase::create("b54").await, topic, broker.address(), Lease::Medium);
    let deadline = scaled(5).as_millis().max(1_000);
    let site = site.with(&format!("kafka.delivery_deadline={deadline}ms"));
    let mut writer = site.connect().await;
    let relay = site.start_watched("b54");
    enqueue(&mut writer, site.topic.name(), "i", 1..=50).await;
    Came::all(&site.topic, 1..=50, SOON).await;
    freeze(proxy, true);
    enqueue(&mut writer, site.topic.name(), "i", 51..=250).await;
    relay.reaches("fencepost_in_flight_messages", "", 200.0).await;
    wait::hold(scaled(20)).await;
    // unknown, not failed: they count as possible repeats, and no lane stopped
    relay.reaches("fencepost_possible_repeats_total", "", 1.0).await;
    assert_eq!(relay.metric("fencepost_lane_stopped", "").await, Some(0.0));
    freeze(proxy, false);
    Came::all(&site.topic, 1..=250, DEADLINE).await.assert_in_order();
    wait::until(SOON, "all is marked", async || delivered(&mut writer).await == 250).await;
}

async fn b143_a_stop_flushes_or_gives_up_within_its_grace(broker: &PrivateKafka, proxy: &Proxy) {
    let grace = Duration::from_secs(4);
    let topic = broker.kafka().topic("b143", 4).await;
    let site = Site::of(TestDatabase::create("b143").await, topic, broker.address(), Lease::Medium);
    let site = site.with("relay.grace=4s").with("kafka.linger=100ms");
    let mut writer = site.connect().await;
    // the broker answers: what was handed over is flushed and marked, and nobody sends it again
    let mut relay = site.start_watched("up");
    site.shared_by(&["up"]).await;
    enqueue(&mut writer, site.topic.name(), "i", 1..=1_000).await;
    relay.reaches("fencepost_in_flight_messages", "", 1.0).await;
    relay.process.term();
    assert_eq!(relay.process.exited(grace).await.code(), Some(0));
    let acknowledged = Came::now(&site.topic).await.records.len() as i64;
    assert!(acknowledged > 0, "what was handed over went out");
    assert_eq!(delivered(&mut writer).await, acknowledged, "and is marked");
    let mut relay = site.start_watched("next");
    Came::all(&site.topic, 1..=1_000, SOON).await.assert_once();
    wait::until(SOON, "all is marked", async || delivered(&mut writer).await == 1_000).await;
    // it does not answer: the grace is kept, and nothing counts as published
    freeze(proxy, true);
    enqueue(&mut writer, site.topic.name(), "i", 1_001..=2_000).await;
    relay.reaches("fencepost_in_flight_messages", "", 1.0).await;
    relay.process.term();
    relay.process.exited(grace + Duration::from_secs(2)).await;
    assert_eq!(delivered(&mut writer).await, 1_000, "nothing is marked that no broker acknowledged");
    freeze(proxy, false);
    let _last = site.start("last");
    Came::all(&site.topic, 1..=2_000, DEADLINE).await.assert_in_order();
}
