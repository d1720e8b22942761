//! Theme 6: messages that can't be published, and topics that come late.

use std::time::Duration;

use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::kafka::Kafka;
use fencepost_integration::servers::SecuredKafka;
use fencepost_integration::{env, random, wait};
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};

use super::{Came, DEADLINE, enqueue, key_in_lane, scaled_count};

/// One message is too large for its topic: it is found, its lane stops there and says so, and neither its
/// neighbours nor other topics notice. Once the topic takes it, the lane goes on with it, in order.
#[tokio::test]
async fn b65_b68_b69_one_message_too_large_stops_its_own_lane_alone() {
    let kafka = Kafka::shared();
    let small = kafka.topic_with("b65", 1, &[("max.message.bytes", "2000")]).await;
    let (second, third) = (kafka.topic("b68_second", 4).await, kafka.topic("b68_third", 4).await);
    let site = Site::of(TestDatabase::create("b65").await, small, &env::kafka(), Lease::Medium);
    let site = site.with("source.0.page_rows=2000").with("kafka.linger=50ms");
    let mut writer = site.connect().await;
    let (bad, good) = (key_in_lane(&mut writer, 0).await, key_in_lane(&mut writer, 1).await);
    let (bad, good) = (format!("'{bad}'"), format!("'{good}'"));
    enqueue(&mut writer, site.topic.name(), &bad, 1..=5).await;
    // 3 KB that don't compress, as a header, so that its number still is its payload
    let large = format!(
        r#"INSERT INTO "fencepost".outbox (topic, type, key, payload, header_keys, header_values)
           SELECT '{}', 't', {bad}, '6', ARRAY['large'], ARRAY[string_agg(sha256(i::text::bytea), ''::bytea)]
             FROM generate_series(1, 94) i"#,
        site.topic.name()
    );
    execute(&mut writer, large).await;
    enqueue(&mut writer, site.topic.name(), &good, 7..=56).await;
    enqueue(&mut writer, site.topic.name(), &bad, 57..=60).await;
    for topic in [&second, &third] {
        enqueue(&mut writer, topic.name(), &good, 1..=1_000).await;
    }
    let mut relay = site.start_watched("b65");
    Came::all(&site.topic, 7..=56, SOON).await.assert_once();
    for topic in [&second, &third] {
        Came::all(topic, 1..=1_000, SOON).await.assert_once().assert_in_order();
    }
    relay.reaches("fencepost_lane_stopped", "class=\"message\"", 1.0).await;
    let told = relay.get("/ready").await.expect("an answer");
    assert!(told.status == 503 && told.body.contains("lane 0 stopped at message 6"), "{}", told.body);
    let mut came = Came::now(&site.topic).await.assert_once().assert_in_order().numbers();
    came.sort_unstable();
    assert_eq!(came, (1..=5).chain(7..=56).collect::<Vec<_>>(), "rows behind it on its key wait for its fate");

    let raised = AlterConfig::new(ResourceSpecifier::Topic(site.topic.name())).set("max.message.bytes", "100000");
    kafka.admin().alter_configs([&raised], &AdminOptions::new()).await.expect("the broker answers");
    relay.process.term();
    relay.process.exited(SOON).await;
    let _next = site.start("b65");
    Came::all(&site.topic, 1..=60, SOON).await.assert_once().assert_in_order();
}

/// A topic that is made in the second in which its first message is written is waited for.
#[tokio::test]
async fn b86_topics_that_come_with_or_after_their_messages_are_waited_for() {
    let kafka = Kafka::shared();
    let site = Site::new("b86", Lease::Medium).await;
    let relay = site.start_watched("b86");
    site.shared_by(&["b86"]).await;
    let mut writer = site.connect().await;
    let prefix = format!("test.b86.{}", random::suffix());
    let names: Vec<String> = (0..scaled_count(200, 20)).map(|i| format!("{prefix}.{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        let i = i as i64;
        if i % 2 == 0 {
            enqueue(&mut writer, name, "i", i..=i).await;
            kafka.create(name, 1, &[]).await;
        } else {
            kafka.create(name, 1, &[]).await;
            enqueue(&mut writer, name, "i", i..=i).await;
        }
    }
    for (i, name) in names.iter().enumerate() {
        let mut reader = kafka.reader(name);
        reader.read_until(DEADLINE, &format!("the message of {name}"), |records| !records.is_empty()).await;
        assert_eq!(super::number(&reader.records()[0]), i as i64);
    }
    wait::until(Duration::from_secs(30), "ready again", async || relay.is_ready().await).await;
    for name in &names {
        kafka.delete(name).await;
    }
}

/// A relay without rights says so and charges nobody; one that may write to one topic of two writes there, and says
/// of the other that it was denied. Rights that come later need no restart.
#[tokio::test]
async fn b83_b85_a_missing_right_is_named_and_spoils_no_other_topic() {
    let broker = SecuredKafka::start();
    let kafka = broker.broker().kafka();
    let (allowed, denied) = (kafka.topic("b83", 1).await, kafka.topic("b83_denied", 1).await);
    let site = Site::of(TestDatabase::create("b83").await, allowed, broker.broker().address(), Lease::Medium);
    let mut writer = site.connect().await;
    let relay = site.start_watched_with(
        "b83",
        &[
            ("FENCEPOST__KAFKA__SASL__MECHANISM", "PLAIN"),
            ("FENCEPOST__KAFKA__SASL__USERNAME", SecuredKafka::USER),
            ("FENCEPOST__KAFKA__SASL__PASSWORD", SecuredKafka::PASSWORD),
        ],
    );
    let says = async |words: &str| {
        wait::until(SOON, &format!("the relay says {words:?}"), async || {
            let ready = relay.get("/ready").await;
            ready.is_some_and(|ready| ready.status == 503 && ready.body.to_lowercase().contains(words))
        })
        .await;
    };
    let (bad, good) = (key_in_lane(&mut writer, 0).await, key_in_lane(&mut writer, 1).await);
    let (bad, good) = (format!("'{bad}'"), format!("'{good}'"));
    enqueue(&mut writer, site.topic.name(), &good, 1..=1).await;
    says("authorization failed").await;
    broker.allow_write(site.topic.name());
    for number in 2..=100 {
        enqueue(&mut writer, site.topic.name(), &good, number..=number).await;
        enqueue(&mut writer, denied.name(), &bad, number..=number).await;
    }
    Came::all(&site.topic, 1..=100, DEADLINE).await.assert_once().assert_in_order();
    says("topic authorization failed").await;
    relay.reaches("fencepost_lane_stopped", "class=\"route\"", 1.0).await;
    assert!(!relay.process.log().contains(SecuredKafka::PASSWORD), "b165: no secret in the log");
    broker.allow_write(denied.name());
    Came::all(&denied, 2..=100, DEADLINE).await.assert_once().assert_in_order();
    relay.ready().await;
}
