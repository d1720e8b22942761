//! Records, topics and producers that fail.

use std::time::Duration;

use fencepost_core::failure::{Class, Outcome, Persistence};
use fencepost_integration::kafka::{Kafka, TestTopic};
use fencepost_integration::{random, wait};
use fencepost_relay::message::MessageRef;
use fencepost_relay::publisher::kafka::{Compression, KafkaSettings};
use fencepost_relay::publisher::{Publisher, Refused};
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};

use super::{DEADLINE, FENCE, Rig, message, number, settings};

const TOO_LARGE: Outcome = Outcome::Failed { class: Class::Message, persistence: Persistence::Not, code: 10 };

/// Uncompressed, and in no hurry to fill its batches.
fn plain() -> KafkaSettings {
    let mut settings = settings(&Kafka::shared());
    settings.linger = Duration::from_millis(50);
    settings.compression = Compression::None;
    settings
}

/// One record that is too large for its topic, and 50 small ones behind it.
fn big_and_small<'a>(topic: &'a str, big: &'a [u8], small: &'a [u8]) -> Vec<MessageRef<'a>> {
    let mut messages = vec![message(topic, 0, big)];
    messages.extend((1..=50).map(|number| message(topic, number, small)));
    messages
}

/// Sends what the publisher takes and returns why it did not take the rest, by row.
async fn send_what_is_taken(rig: &mut Rig, messages: &[MessageRef<'_>]) -> Vec<(usize, Refused)> {
    rig.publisher.open(0);
    let (mut sent, mut refused) = (0, Vec::new());
    for (row, message) in messages.iter().enumerate() {
        match rig.taken(0, sent, message).await {
            Ok(()) => sent += 1,
            Err(why) => refused.push((row, why)),
        }
    }
    rig.publisher.seal(0, sent);
    assert_eq!(rig.settled(0).await, None);
    refused
}

#[tokio::test]
async fn b65_a_record_that_is_certainly_too_large_is_refused_and_its_neighbours_go_out() {
    let topic = Kafka::shared().topic_with("b65", 1, &[("max.message.bytes", "2000")]).await;
    let mut rig = Rig::start(&plain());
    let (big, small) = ([b'x'; 3_000], [b'x'; 100]);
    let messages = big_and_small(topic.name(), &big, &small);
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    assert_eq!(rig.publisher.send(0, 0, FENCE, &messages[0]), Err(Refused::Halted), "batches would be too large");
    rig.rebuild().await;
    assert!(rig.publisher.batch_size() < 2_000, "batches stay below the topic's limit");

    let refused = send_what_is_taken(&mut rig, &messages).await;
    assert_eq!(refused, [(0, Refused::Failed { class: Class::Message, code: 10 })]);
    assert_eq!(numbers(&topic).await, (1..=50).collect::<Vec<_>>());
    assert_eq!(rig.publisher.rebuilds(), 1);
    rig.close().await;
}

#[tokio::test]
async fn b65_a_record_that_may_be_too_large_travels_alone_and_fails_alone() {
    let topic = Kafka::shared().topic_with("b65-solo", 1, &[("max.message.bytes", "2000")]).await;
    let mut rig = Rig::shared();
    let (hard, soft, small) = (incompressible(3_000), [b'x'; 3_000], [b'x'; 100]);
    let mut messages = big_and_small(topic.name(), &hard, &small);
    messages.insert(1, message(topic.name(), 60, &soft));
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    assert_eq!(rig.publisher.send(0, 0, FENCE, &messages[0]), Err(Refused::Halted));
    rig.rebuild().await;

    rig.publisher.open(0);
    assert_eq!(rig.publisher.send(0, 0, FENCE, &messages[0]), Ok(()));
    let behind = rig.publisher.send(0, 1, FENCE, &messages[1]);
    assert!(matches!(behind, Err(Refused::Full | Refused::Halted)), "nothing goes behind it: {behind:?}");
    rig.publisher.seal(0, 1);
    assert_eq!(rig.settled(0).await, Some(vec![TOO_LARGE]));
    let size = rig.publisher.batch_size();
    rig.rebuild().await;
    assert_eq!(rig.publisher.batch_size(), size, "one record that is too large alone does not shrink batches");

    assert_eq!(rig.publish(&messages[1..]).await, None, "what compresses below the limit is published");
    let expected: Vec<u128> = [60].into_iter().chain(1..=50).collect();
    assert_eq!(numbers(&topic).await, expected);
    rig.close().await;
}

/// Bytes that no codec makes smaller.
fn incompressible(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test]
async fn a_limit_that_was_lowered_fails_a_whole_request_and_is_learnt() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("lowered", 1).await;
    let mut rig = Rig::start(&plain());
    let (big, small) = ([b'x'; 3_000], [b'x'; 100]);
    let messages = big_and_small(topic.name(), &big, &small);
    assert_eq!(rig.publish(&[message(topic.name(), 99, &small)]).await, None);
    let lower = AlterConfig::new(ResourceSpecifier::Topic(topic.name())).set("max.message.bytes", "2000");
    let altered = kafka.admin().alter_configs([&lower], &AdminOptions::new()).await.expect("the broker answers");
    assert!(altered.iter().all(Result::is_ok), "{altered:?}");

    let outcomes = rig.publish(&messages).await.expect("the broker refuses the request");
    assert_eq!(outcomes, vec![TOO_LARGE; 51], "innocent neighbours fail with it");
    assert_eq!(rig.publisher.send(0, 0, FENCE, &messages[1]), Err(Refused::Halted));
    rig.rebuild().await;
    assert!(rig.publisher.batch_size() < 2_000, "{}", rig.publisher.batch_size());
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    let refused = send_what_is_taken(&mut rig, &messages).await;
    assert_eq!(refused, [(0, Refused::Failed { class: Class::Message, code: 10 })]);
    let expected: Vec<u128> = [99].into_iter().chain(1..=50).collect();
    assert_eq!(numbers(&topic).await, expected);
    rig.close().await;
}

#[tokio::test]
async fn a_compacted_topic_takes_no_null_key_and_its_neighbours_go_out() {
    let topic = Kafka::shared().topic_with("compacted", 1, &[("cleanup.policy", "compact")]).await;
    let mut rig = Rig::shared();
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    let mut messages: Vec<_> = (0..3).map(|number| message(topic.name(), number, b"p")).collect();
    messages[1].key = None;
    let refused = send_what_is_taken(&mut rig, &messages).await;
    assert_eq!(refused, [(1, Refused::Failed { class: Class::Message, code: 87 })]);
    assert_eq!(numbers(&topic).await, [0, 2]);
    rig.close().await;
}

/// The numbers of a topic's messages in the order of its one partition.
async fn numbers(topic: &TestTopic) -> Vec<u128> {
    topic.read_to_end(DEADLINE).await.iter().filter_map(number).collect()
}

#[tokio::test]
async fn full_batches_to_a_narrow_topic_go_out_after_one_rebuild() {
    let topic = Kafka::shared().topic_with("narrow", 1, &[("max.message.bytes", "20000")]).await;
    let mut rig = Rig::start(&plain());
    let payload = [b'x'; 300];
    let messages: Vec<_> = (0..200).map(|number| message(topic.name(), number, &payload)).collect();
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    assert_eq!(rig.publisher.send(0, 0, FENCE, &messages[0]), Err(Refused::Halted));
    rig.rebuild().await;
    assert_eq!(rig.publish(&messages).await, None);
    assert_eq!(numbers(&topic).await, (0..200).collect::<Vec<_>>());
    rig.close().await;
}

#[tokio::test]
async fn b67_what_the_client_itself_finds_too_large_is_refused_alone() {
    let topic = Kafka::shared().topic("b67", 1).await;
    let mut rig = Rig::shared();
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    let key = vec![b'k'; 1_200_000];
    let sent = MessageRef { key: Some(&key), ..message(topic.name(), 1, b"ten bytes.") };
    rig.publisher.open(0);
    assert_eq!(rig.publisher.send(0, 0, FENCE, &sent), Err(Refused::Failed { class: Class::Message, code: 10 }));
    let innocent = message(topic.name(), 2, b"payload");
    assert_eq!(rig.publisher.send(0, 0, FENCE, &innocent), Ok(()), "the producer goes on");
    rig.publisher.seal(0, 1);
    assert_eq!(rig.settled(0).await, None);
    rig.close().await;
}

#[tokio::test]
async fn b81_bad_topic_names_are_refused_at_once_and_spoil_nothing() {
    let topic = Kafka::shared().topic("b81", 1).await;
    let mut rig = Rig::shared();
    let long = "a".repeat(250);
    let names =
        ["", ".", "..", "orders v1", "a/b", "\u{437}\u{430}\u{43a}\u{430}\u{437}\u{44b}", "\u{1f600}", long.as_str()];
    for (number, name) in names.iter().enumerate() {
        assert_eq!(rig.publisher.check_route(name).await, Err((Class::Message, 17)), "{name:?}");
        assert_eq!(
            rig.publisher.send(0, 0, FENCE, &message(name, 0, b"p")),
            Err(Refused::RouteUnknown),
            "{name:?} is never handed over"
        );
        assert_eq!(rig.publish(&[message(topic.name(), number as u32, b"p")]).await, None);
    }
    assert_eq!(topic.read_to_end(DEADLINE).await.len(), names.len());
    rig.close().await;
}

#[tokio::test]
async fn an_unknown_topic_is_told_soon_and_found_once_it_exists() {
    let kafka = Kafka::shared();
    let name = format!("test.late.{}", random::suffix());
    let rig = Rig::shared();
    assert_eq!(rig.publisher.send(0, 0, FENCE, &message(&name, 0, b"p")), Err(Refused::RouteUnknown));
    let start = wait::now();
    assert_eq!(rig.publisher.check_route(&name).await, Err((Class::Route, 3)));
    assert!(start.elapsed() < Duration::from_secs(6), "took {:?}", start.elapsed());
    let (first, second) = tokio::join!(rig.publisher.check_route(&name), rig.publisher.check_route(&name));
    assert_eq!((first, second), (Err((Class::Route, 3)), Err((Class::Route, 3))));

    kafka.create(&name, 1, &[]).await;
    wait::until(DEADLINE, "the new topic is found", async || rig.publisher.check_route(&name).await.is_ok()).await;
    let mut rig = rig;
    assert_eq!(rig.publish(&[message(&name, 0, b"p")]).await, None);
    kafka.delete(&name).await;
    rig.close().await;
}

#[tokio::test]
async fn a_partition_that_does_not_exist_is_a_route_failure_of_that_record_alone() {
    let topic = Kafka::shared().topic("partition", 2).await;
    let mut rig = Rig::shared();
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    let high = MessageRef { partition: Some(2), ..message(topic.name(), 1, b"p") };
    rig.publisher.open(0);
    assert_eq!(rig.publisher.send(0, 0, FENCE, &high), Err(Refused::Failed { class: Class::Route, code: -190 }));
    rig.publisher.seal(0, 0);
    assert_eq!(rig.settled(0).await, None);
    let low = MessageRef { partition: Some(1), ..message(topic.name(), 2, b"p") };
    assert_eq!(rig.publish(&[low]).await, None, "the topic is looked up again and goes on");
    rig.close().await;
}
