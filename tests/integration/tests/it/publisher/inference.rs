//! What librdkafka takes for acknowledged without having seen an answer. On its own mock cluster, which refuses a
//! given request and keeps no producer state, as a broker that hears of a producer for the first time.

use std::time::Duration;

use fencepost_core::failure::Class;
use fencepost_integration::kafka::Kafka;
use fencepost_integration::wait;
use fencepost_relay::publisher::{Publisher, Refused};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{FENCE, Rig, class, message, settings};

const BATCHES: usize = 20;

#[tokio::test]
async fn an_acknowledgement_by_inference_is_none() {
    let mock: MockCluster<'static, DefaultProducerContext> = MockCluster::new(1).expect("a mock cluster");
    mock.create_topic("inferred", 1, 1).expect("a topic");
    let mut settings = settings(&Kafka::at(&mock.bootstrap_servers()));
    settings.page_slots = BATCHES + 1;
    let mut rig = Rig::start(&settings);
    mock.create_topic("warm", 1, 1).expect("a topic");
    for topic in ["inferred", "warm"] {
        rig.publisher.check_route(topic).await.expect("a topic of the mock");
    }
    // The producer has its id and its connection before the records that matter.
    rig.send(0, &[message("warm", 999, b"warm")]).await;
    assert_eq!(rig.settled(0).await, None);

    // The first request is refused, and refused late: the second is on its way by then.
    mock.broker_round_trip_time(1, Duration::from_millis(1_500)).expect("a slow broker");
    let refusal = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS];
    mock.request_errors(RDKafkaApiKey::Produce, &refusal);
    rig.send(0, &[message("inferred", 0, b"first"), message("inferred", 1, b"second")]).await;
    let mut halted = false;
    for slot in 1..=BATCHES {
        wait::hold(Duration::from_millis(100)).await;
        let five: Vec<_> = (0..5).map(|row| message("inferred", (slot * 5 + row) as u32, b"later")).collect();
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
