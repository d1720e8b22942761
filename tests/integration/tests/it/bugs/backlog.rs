//! Themes 10 and 13: large backlogs, large rows, and lanes that nobody serves.

use std::time::Duration;

use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::fleet::{Lease, SOON, Site, Watched};
use fencepost_integration::kafka::{Kafka, TestTopic};
use fencepost_integration::process::Launch;
use fencepost_integration::{env, wait};
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;

use super::{DEADLINE, delivered, enqueue, key_in_lane, scaled_count};

/// What a relay may use of memory in these tests.
const MEMORY_BYTES: u64 = 256 << 20;

/// Records in a topic, without reading them.
fn records_in(topic: &TestTopic) -> i64 {
    let consumer: BaseConsumer = Kafka::shared().client_config().create().expect("a consumer");
    let ends = (0..topic.partitions()).map(|partition| {
        let marks = consumer.fetch_watermarks(topic.name(), partition, SOON);
        let (low, high) = marks.expect("the broker tells the ends of its partitions");
        high - low
    });
    ends.sum()
}

/// Most memory that the relay's process ever had.
fn peak_bytes(relay: &Watched) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.process.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[tokio::test]
async fn b133_large_rows_are_taken_by_their_bytes() {
    const ROW_BYTES: u64 = 8_000_000;
    let topic = Kafka::shared().topic_with("b133", 4, &[("max.message.bytes", "10000000")]).await;
    let site = Site::of(TestDatabase::create("b133").await, topic, &env::kafka(), Lease::Long);
    let mut writer = site.connect().await;
    let rows = scaled_count(100, 20);
    execute(
        &mut writer,
        format!(
            r#"INSERT INTO "fencepost".outbox (topic, type, key, payload)
               SELECT '{}', 't', i::text::bytea, convert_to(repeat('0123456789', {}), 'UTF8')
                 FROM generate_series(1, {rows}) i"#,
            site.topic.name(),
            ROW_BYTES / 10
        ),
    )
    .await;
    let relay = site.start_watched_with("b133", &[("FENCEPOST__KAFKA__PROPERTIES__MESSAGE_MAX_BYTES", "9000000")]);
    wait::until(DEADLINE, "all is marked", async || delivered(&mut writer).await == rows).await;
    assert_eq!(records_in(&site.topic), rows);
    let peak = peak_bytes(&relay);
    assert!(peak < MEMORY_BYTES, "{} MiB for rows of {ROW_BYTES} bytes", peak >> 20);
}

/// The relay was off for hours. Its start is quick, its memory steady, and its stop in the middle orderly.
#[tokio::test]
async fn b134_a_huge_backlog_is_eaten_in_small_bites() {
    let site = Site::new("b134", Lease::Long).await.with("source.0.page_rows=2000");
    let mut writer = site.connect().await;
    let total = scaled_count(2_000_000, 200_000);
    // a quarter of it in one transaction
    for (first, last) in [(1, total / 4), (total / 4 + 1, total * 5 / 8), (total * 5 / 8 + 1, total)] {
        enqueue(&mut writer, site.topic.name(), "i % 1000", first..=last).await;
    }
    let start = wait::now();
    let mut relay = site.start_watched("b134");
    wait::until(SOON, "a first record", async || records_in(&site.topic) > 0).await;
    let first = start.elapsed();
    assert!(first < Duration::from_secs(5), "the first record came after {first:?}");
    let middle = (total / 10) as f64;
    relay.reaches("fencepost_published_messages_total", "", middle).await;
    let peak = peak_bytes(&relay);
    relay.process.term();
    assert_eq!(relay.process.exited(Duration::from_secs(15)).await.code(), Some(0));
    assert!(peak < MEMORY_BYTES, "{} MiB", peak >> 20);
    let published = records_in(&site.topic);
    assert!(published < total, "the stop came too late to show anything");
    assert_eq!(delivered(&mut writer).await, published, "everything that went out is marked");
}

/// A lane whose owner does nothing (for less than a lease: then it is taken) shows by the age of what waits in it, which comes from the table.
#[tokio::test]
async fn b161_an_unserved_lane_shows_by_the_age_of_its_oldest_message() {
    let site = Site::new("b161", Lease::Long).await;
    let mut writer = site.connect().await;
    let ghost = r#"UPDATE "fencepost".lanes SET owner = 'ghost-1', generation = 1,
                   lease_expires_at = now() + interval '1 hour' WHERE lane = 3"#;
    execute(&mut writer, ghost).await;
    let mut relay = site.start_watched("b161");
    relay.reaches("fencepost_lane_generation", "", 7.0).await;
    let key = key_in_lane(&mut writer, 3).await;
    enqueue(&mut writer, site.topic.name(), &format!("'{key}'"), 1..=5).await;
    let ask = |verb: &[&str]| -> Value {
        let output = Launch::new(verb).env("FENCEPOST__SOURCE__0__URL", &site.database.url()).run();
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    wait::until(SOON, "the age rises", async || {
        ask(&["status", "--json"])[0]["oldest_seconds"].as_f64().is_some_and(|age| age > 2.0)
    })
    .await;
    assert_eq!(ask(&["status", "--json"])[0]["backlog"], 5);
    let lane = &ask(&["lane", "list", "--json"])["main"][3];
    assert_eq!((&lane["owner"], &lane["backlog"]), (&"ghost-1".into(), &5.into()));
    assert!(lane["owner_seen_seconds"].is_null() && lane["oldest_seconds"].as_f64() > Some(2.0), "{lane}");
    relay.process.term();
    relay.process.exited(SOON).await;
    let status = &ask(&["status", "--json"])[0];
    assert_eq!((&status["lanes_held"], &status["backlog"]), (&1.into(), &5.into()), "only the ghost's lane is held");
}
