//! Theme 5: the producer client's queue, its fatal states, and topics that vanish under it.

use std::time::Duration;

use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::kafka::Kafka;
use fencepost_integration::proxy::Proxy;
use fencepost_integration::{database::TestDatabase, env, random, wait};

use super::{Came, DEADLINE, delivered, enqueue, scaled, scaled_count};

/// A full client queue, and a broker that comes long after the relay, are back-pressure: no restart, no
/// rebuild, no repeat.
#[tokio::test]
async fn b59_a_backlog_behind_a_tiny_queue_waits_and_repeats_nothing() {
    let total = scaled_count(50_000, 5_000);
    let port = random::free_port();
    let topic = Kafka::shared().topic("b59", 4).await;
    let database = TestDatabase::create("b59").await;
    let site = Site::of(database, topic, &format!("127.0.0.1:{port}"), Lease::Medium);
    let mut writer = site.connect().await;
    enqueue(&mut writer, site.topic.name(), "i % 100", 1..=total).await;
    let tiny = [("MESSAGES", "100"), ("KBYTES", "1024")];
    let tiny = tiny.map(|(what, most)| (format!("FENCEPOST__KAFKA__PROPERTIES__QUEUE_BUFFERING_MAX_{what}"), most));
    let tiny: Vec<(&str, &str)> = tiny.iter().map(|(name, most)| (name.as_str(), *most)).collect();
    let relay = site.start_watched_with("b59", &tiny);
    wait::hold(scaled(20)).await;
    let broker = Proxy::bind(port, &env::kafka()).await;
    Came::all(&site.topic, 1..=total, DEADLINE).await.assert_once().assert_in_order();
    assert_eq!(relay.metric("fencepost_producer_rebuilds_total", "").await, Some(0.0), "a full queue is no failure");
    assert_eq!(relay.metric("fencepost_lost_leases_total", "").await, Some(0.0), "and costs no lane");
    wait::until(SOON, "all is marked", async || delivered(&mut writer).await == total).await;
    drop(broker);
}

/// The topic is deleted while it is written, and made again with other partitions: the client's sequence
/// numbers mean nothing to the new one. Rows wait meanwhile and are not given up.
#[tokio::test]
async fn b55_b88_a_topic_deleted_and_made_again_is_written_on() {
    let kafka = Kafka::shared();
    let site = Site::new("b88_site", Lease::Medium).await;
    let name = format!("test.b88.{}", random::suffix());
    kafka.create(&name, 4, &[]).await;
    let mut relay = site.start_watched("b88");
    let mut writer = site.connect().await;
    let mut next = 1;
    let mut write = async |for_: Duration| {
        let start = wait::now();
        while start.elapsed() < for_ {
            enqueue(&mut writer, &name, "i % 20", next..=next + 9).await;
            next += 10;
            wait::hold(Duration::from_millis(20)).await;
        }
        next
    };
    write(Duration::from_secs(2)).await;
    relay.reaches("fencepost_published_messages_total", "", 1.0).await;
    kafka.delete(&name).await;
    write(scaled(60).min(Duration::from_secs(60))).await;
    relay.reaches("fencepost_lane_stopped", "class=\"route\"", 1.0).await;
    assert!(relay.process.is_running());
    kafka.create(&name, 7, &[]).await;
    let since = write(Duration::ZERO).await;
    let end = write(Duration::from_secs(1)).await;
    let mut reader = kafka.reader(&name);
    let what = "what was written since the topic is back";
    let wanted = (end - since) as usize;
    reader
        .read_until(DEADLINE, what, |records| {
            records.iter().filter(|record| super::number(record) >= since).count() >= wanted
        })
        .await;
    // what the deleted topic never acknowledged comes too: without a hole up to the newest
    let numbers: std::collections::BTreeSet<i64> = reader.records().iter().map(super::number).collect();
    let first = *numbers.first().expect("records");
    assert_eq!(numbers.len() as i64, end - first, "a hole among {first}..{end}");
    relay.ready().await;
    kafka.delete(&name).await;
}
