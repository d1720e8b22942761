//! The publisher without any broker: what needs a hand inside the producer.

use std::time::Duration;

use fencepost_core::failure::{Class, Outcome};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use uuid::Uuid;

use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn b101_record_times_are_milliseconds_also_before_1970() {
    assert_eq!(record_time_ms(1_700_000_000_123_456), 1_700_000_000_123);
    assert_eq!(record_time_ms(-1_001), -2);
    assert_eq!(record_time_ms(-86_400_000_000), -86_400_000);
    assert_eq!((record_time_ms(999), record_time_ms(-1)), (1, -2), "never now, never none");
}

fn message(topic: &str) -> MessageRef<'_> {
    MessageRef {
        id: 1,
        slot: 0,
        message_id: Uuid::nil(),
        tenant: "default",
        topic,
        key: Some(b"key"),
        partition: None,
        kind: "order.placed",
        content_type: None,
        headers: &[],
        payload: Some(b"payload"),
        event_time_us: None,
        created_at_us: 0,
    }
}

/// A publisher that reaches nobody and believes that the topic `orders` exists.
fn without_a_broker() -> (KafkaPublisher, UnboundedReceiver<Event>) {
    let (publisher, events) = KafkaPublisher::start(&KafkaSettings::new("127.0.0.1:1", "orders")).unwrap();
    publisher.inner.shared.routes.learn("orders", Ok(Topic { partitions: 1, ..Topic::default() }));
    open_partition(&publisher);
    (publisher, events)
}

/// As if the newest producer's first record had been acknowledged.
fn open_partition(publisher: &KafkaPublisher) {
    let line = publisher.inner.line();
    let openings = line.as_ref().expect("a producer").context().openings();
    openings.admit("orders", 0, 1, usize::MAX).expect("nothing was sent there");
    assert!(openings.settled(usize::MAX, Some(0)));
}

async fn told(events: &mut UnboundedReceiver<Event>, wanted: &Event) {
    let wait = async { while events.recv().await.expect("the publisher lives") != *wanted {} };
    timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("{wanted:?} was not told"));
}

fn send_page(publisher: &KafkaPublisher, rows: u32) {
    publisher.open(0);
    for row in 0..rows {
        assert_eq!(publisher.send(0, row, "fence", &message("orders")), Ok(()), "row {row}");
    }
    publisher.seal(0, rows);
}

/// Makes the producer break as an impossible sequence would.
#[allow(unsafe_code, reason = "librdkafka's hook for tests has no safe call")]
fn break_producer(publisher: &KafkaPublisher) {
    let client = publisher.inner.client().expect("a producer");
    let code = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: the client lives as long as `client`, and the reason is a C string.
    unsafe { rdkafka::bindings::rd_kafka_test_fatal_error(client.client().native_ptr(), code, c"test".as_ptr()) };
}

#[tokio::test]
async fn b55_a_broken_producer_gives_all_outcomes_and_a_rebuilt_one_goes_on() {
    let (publisher, mut events) = without_a_broker();
    send_page(&publisher, 500);
    break_producer(&publisher);
    told(&mut events, &Event::Settled(0)).await;
    let outcomes = publisher.failures(0).expect("nothing was delivered");
    assert_eq!(outcomes.len(), 500);
    let collateral = |outcome: &Outcome| matches!(outcome, Outcome::Failed { class: Class::Collateral, .. });
    assert!(outcomes.iter().all(collateral), "no row is charged: {outcomes:?}");
    assert_eq!(publisher.send(0, 0, "fence", &message("orders")), Err(Refused::Halted));
    assert!(!publisher.resume(), "only a rebuild helps");

    publisher.rebuild();
    told(&mut events, &Event::Rebuilt).await;
    assert_eq!(publisher.rebuilds(), 1);
    publisher.open(0);
    let sends = [0, 1].map(|row| publisher.send(0, row, "fence", &message("orders")));
    assert_eq!(sends, [Ok(()), Err(Refused::Full)], "the new producer opens its partitions anew");
    publisher.seal(0, 1);
    assert!(publisher.close(DEADLINE).await);
    told(&mut events, &Event::Settled(0)).await;
}

#[tokio::test]
async fn a_producer_that_breaks_at_rest_takes_nothing_more() {
    let (publisher, mut events) = without_a_broker();
    break_producer(&publisher);
    publisher.open(0);
    assert_eq!(publisher.send(0, 0, "fence", &message("orders")), Err(Refused::Halted));
    publisher.seal(0, 0);
    told(&mut events, &Event::Settled(0)).await;
    assert!(!publisher.resume());
}

#[tokio::test]
async fn b63_a_dropped_publisher_settles_what_it_holds_behind_the_callers_back() {
    let (publisher, mut events) = without_a_broker();
    send_page(&publisher, 1_000);
    let outcomes = Arc::clone(&publisher.inner);
    drop(publisher);
    told(&mut events, &Event::Settled(0)).await;
    assert_eq!(outcomes.shared.slots.failures(0).map(|outcomes| outcomes.len()), Some(1_000));
}

#[tokio::test]
async fn after_a_failure_without_harm_the_same_producer_resumes() {
    let (publisher, _events) = without_a_broker();
    publisher.inner.line().as_ref().expect("a producer").context().halt();
    assert_eq!(publisher.send(0, 0, "fence", &message("orders")), Err(Refused::Halted));
    assert!(publisher.resume());
    publisher.open(0);
    assert_eq!(publisher.send(0, 0, "fence", &message("orders")), Ok(()));
}

#[tokio::test]
async fn a_lookup_during_a_rebuild_gets_an_answer() {
    let (publisher, _events) = without_a_broker();
    let line = publisher.inner.line().take().expect("a producer");
    let answer = timeout(DEADLINE, publisher.check_route("payments")).await.expect("an answer");
    assert_eq!(answer.map_err(|(class, _)| class), Err(Class::DestinationDown));
    *publisher.inner.line() = Some(line);
}
