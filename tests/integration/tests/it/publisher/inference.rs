//! What librdkafka takes for acknowledged without having seen an answer. On its own mock cluster, which refuses a
//! given request and keeps no producer state, as a broker that hears of a producer for the first time.

use std::time::Duration;

use fencepost_core::failure::Class;
use fencepost_integration::kafka::{Kafka, Record};
use fencepost_integration::wait;
use fencepost_relay::message::MessageRef;
use fencepost_relay::publisher::{Publisher, Refused};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{DEADLINE, FENCE, Rig, class, message, number, settings};

const BATCHES: usize = 20;

const TOPIC: &str = "mocked";

type Mock = MockCluster<'static, DefaultProducerContext>;

/// A producer that has everything it needs to send at once, and has sent nothing to partition 0.
async fn warm() -> (Mock, Rig) {
    let mock: Mock = MockCluster::new(1).expect("a mock cluster");
    mock.create_topic(TOPIC, 2, 1).expect("a topic");
    let mut settings = settings(&Kafka::at(&mock.bootstrap_servers()));
    settings.page_slots = BATCHES + 1;
    let mut rig = Rig::start(&settings);
    let other = MessageRef { partition: Some(1), ..message(TOPIC, 999, b"warm") };
    assert_eq!(rig.publish(&[other]).await, None);
    (mock, rig)
}

/// With the key that every message has here, and on partition 0.
fn keyed(number: u32) -> MessageRef<'static> {
    MessageRef { partition: Some(0), ..message(TOPIC, number, b"payload") }
}

fn keyless(number: u32) -> MessageRef<'static> {
    MessageRef { key: None, ..keyed(number) }
}

/// The next request is refused, and refused late: others may be on their way by then.
fn refuse_late(mock: &Mock) {
    mock.broker_round_trip_time(1, Duration::from_millis(500)).expect("a slow broker");
    mock.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS]);
}

/// Without keys, since the order of those without one is not kept: the second request follows at once.
#[tokio::test]
async fn an_acknowledgement_by_inference_is_none() {
    let (mock, mut rig) = warm().await;
    refuse_late(&mock);
    rig.send(0, &[keyless(0), keyless(1)]).await;
    let mut halted = false;
    for slot in 1..=BATCHES {
        wait::hold(Duration::from_millis(100)).await;
        let five: Vec<_> = (0..5).map(|row| keyless((slot * 5 + row) as u32)).collect();
        rig.publisher.open(slot);
        let taken = five
            .iter()
            .zip(0..)
            .take_while(|(message, row)| rig.publisher.send(slot, *row, FENCE, message) != Err(Refused::Halted));
        let taken = taken.count() as u32;
        halted |= taken < 5;
        if taken > 0 {
            rig.publisher.seal(slot, taken);
        }
    }
    assert!(halted, "nothing more is taken once a record's fate is in doubt");

    let outcomes = rig.settled(0).await.expect("the refused records were not acknowledged by anybody");
    assert!(outcomes.iter().all(|outcome| class(outcome) == Some(Class::Ambiguous)), "{outcomes:?}");
}

/// A broker that hears of a producer for the first time takes any first number: the second request would be
/// written, and the first one, refused and sent again, would come behind it.
#[tokio::test]
async fn a_refused_first_request_is_overtaken_by_nothing() {
    let (mock, rig) = warm().await;
    refuse_late(&mock);
    let mut sent = 0;
    for slot in 0..BATCHES {
        rig.publisher.open(slot);
        let taken = rig.publisher.send(slot, 0, FENCE, &keyed(sent)) == Ok(());
        rig.publisher.seal(slot, u32::from(taken));
        sent += u32::from(taken);
        wait::hold(Duration::from_millis(100)).await;
    }
    mock.broker_round_trip_time(1, Duration::ZERO).expect("a quick broker");
    wait::until(DEADLINE, "all outcomes", async || rig.publisher.in_flight() == 0).await;
    let mut reader = Kafka::at(&mock.bootstrap_servers()).reader(TOPIC);
    let mine = |record: &Record| (record.partition == 0).then(|| number(record)).flatten();
    let order: Vec<u128> = reader.read_to_end(DEADLINE).await.iter().filter_map(mine).collect();
    assert_eq!(order, (0..u128::from(sent)).collect::<Vec<_>>());
    assert!(sent > 1, "more was sent behind the first record once it was acknowledged");
}
