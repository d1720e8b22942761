//! A cluster that knows its users: what it refuses shows as a reason, not as a hang.

use std::time::Duration;

use fencepost_core::failure::Class;
use fencepost_integration::kafka::Kafka;
use fencepost_integration::servers::SecuredKafka;
use fencepost_integration::wait;
use fencepost_relay::publisher::Publisher;
use fencepost_relay::publisher::kafka::KafkaSettings;

use super::{DEADLINE, Rig, class, message, settings};

/// How to log in to a secured broker.
fn logged_in(broker: &SecuredKafka, password: &str) -> KafkaSettings {
    let mut settings = settings(&Kafka::at(broker.broker().address()));
    let properties = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", SecuredKafka::USER),
        ("sasl.password", password),
    ];
    settings.properties.extend(properties.map(|(name, value)| (name.to_owned(), value.to_owned())));
    settings
}

#[tokio::test]
async fn b85_a_client_that_may_get_no_producer_id_is_told_why_within_30_s() {
    let broker = SecuredKafka::start();
    let topic = broker.broker().kafka().topic("b85", 1).await;
    let mut rig = Rig::start(&logged_in(&broker, SecuredKafka::PASSWORD));
    let reason = rig.down().await;
    assert!(reason.to_lowercase().contains("authorization failed"), "{reason}");
    // the right comes later: a rebuilt producer goes on
    broker.allow_write(topic.name());
    rig.rebuild().await;
    assert_eq!(rig.publish(&[message(topic.name(), 1, b"p")]).await, None);
    assert_eq!(rig.destination.last(), Some(&Ok(())));
    rig.close().await;
}

#[tokio::test]
async fn a_wrong_password_is_told_without_the_password() {
    let broker = SecuredKafka::start();
    let mut rig = Rig::start(&logged_in(&broker, "wrong-password"));
    let mut reason = rig.down().await;
    if !reason.contains("Authentication") {
        reason = rig.down().await;
    }
    assert!(reason.contains("Authentication"), "{reason}");
    assert!(!rig.destination.iter().any(|told| format!("{told:?}").contains("wrong-password")));
    rig.close().await;
}

#[tokio::test]
async fn b83_a_denied_topic_fails_by_itself_with_the_true_reason() {
    let broker = SecuredKafka::start();
    let kafka = broker.broker().kafka();
    let (allowed, denied) = (kafka.topic("allowed", 1).await, kafka.topic("denied", 1).await);
    broker.allow_write(allowed.name());
    let mut rig = Rig::start(&logged_in(&broker, SecuredKafka::PASSWORD));
    for number in 0..20 {
        assert_eq!(rig.publisher.check_route(denied.name()).await, Err((Class::Route, 29)));
        assert_eq!(rig.publish(&[message(allowed.name(), number, b"p")]).await, None);
    }
    // a right that is taken away while the topic is known
    broker.deny_write(allowed.name());
    let start = wait::now();
    let outcomes = loop {
        match rig.publish(&[message(allowed.name(), 99, b"p")]).await {
            Some(outcomes) => break outcomes,
            None => assert!(start.elapsed() < Duration::from_secs(20), "the broker still takes records"),
        }
    };
    assert_eq!(class(&outcomes[0]), Some(Class::Route));
    assert!(allowed.read_to_end(DEADLINE).await.len() >= 20);
    rig.close().await;
}
