//! A cluster that is silent, dies, comes back, or never was.

use std::time::Duration;

use fencepost_core::failure::{Class, Outcome, Persistence};
use fencepost_integration::kafka::{Kafka, Record};
use fencepost_integration::proxy::{Direction, Flow};
use fencepost_integration::random;
use fencepost_integration::servers::PrivateKafka;
use fencepost_integration::wait;
use fencepost_relay::message::MessageRef;
use fencepost_relay::publisher::{Event, Publisher, Refused};

use super::{DEADLINE, FENCE, Rig, class, message, settings};

fn page(topic: &str, first: u32) -> Vec<MessageRef<'_>> {
    (first..first + 500).map(|number| message(topic, number, b"payload")).collect()
}

/// Message ids in the order of their first occurrence.
fn first_occurrences(records: &[Record]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    records.iter().filter_map(|record| record.header("fencepost-message-id")).filter(|id| seen.insert(*id)).collect()
}

#[tokio::test]
async fn a_purge_gives_every_record_its_outcome_and_a_resend_loses_nothing() {
    let (broker, proxy) = PrivateKafka::behind_proxy(&[]).await;
    let topic = broker.kafka().topic("purge", 1).await;
    let mut rig = Rig::start(&settings(&Kafka::at(broker.address())));
    assert_eq!(rig.publish(&page(topic.name(), 0)).await, None);

    proxy.set(Direction::ToClient, Flow::Held);
    for slot in 0..3 {
        rig.send(slot, &page(topic.name(), 500 * (slot as u32 + 1))).await;
    }
    let arrived = broker.kafka().reader(topic.name());
    let mut arrived = arrived;
    arrived.read_until(DEADLINE, "records that nobody acknowledges", |records| records.len() > 500).await;
    rig.publisher.purge();
    assert_eq!(rig.publisher.send(0, 0, FENCE, &message(topic.name(), 0, b"p")), Err(Refused::Halted));
    let mut failed = 0;
    for slot in 0..3 {
        let outcomes = rig.settled(slot).await.expect("purged");
        failed += outcomes
            .iter()
            .filter(|outcome| matches!(class(outcome), Some(Class::Ambiguous | Class::Collateral)))
            .count();
        assert!(outcomes.iter().all(is_honest), "{outcomes:?}");
    }
    assert_eq!(failed, 1_500, "each record once");

    proxy.set(Direction::ToClient, Flow::Open);
    rig.rebuild().await;
    for slot in 0..3 {
        rig.send(slot, &page(topic.name(), 500 * (slot as u32 + 1))).await;
        assert_eq!(rig.settled(slot).await, None);
    }
    let records = topic.read_to_end(DEADLINE).await;
    let expected: Vec<String> = (0..2_000).map(|number| uuid::Uuid::from_u128(number).to_string()).collect();
    assert_eq!(first_occurrences(&records), expected, "nothing lost, first occurrences in order");
    rig.close().await;
}

/// What left the queue may be in the topic; what did not, is not.
fn is_honest(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed { class: Class::Ambiguous, persistence, .. } => *persistence == Persistence::Possibly,
        Outcome::Failed { class: Class::Collateral, persistence, .. } => *persistence == Persistence::Not,
        _ => false,
    }
}

#[tokio::test]
async fn records_wait_out_a_dead_broker_which_is_told_once_and_its_return_too() {
    let broker = PrivateKafka::start(&[]);
    let topic = broker.kafka().topic("outage", 2).await;
    let mut rig = Rig::start(&settings(&Kafka::at(broker.address())));
    assert_eq!(rig.publish(&page(topic.name(), 0)).await, None);
    broker.kill9();
    rig.send(0, &page(topic.name(), 500)).await;
    let reason = rig.down().await;
    assert!(reason.contains("no broker"), "{reason}");
    broker.restart();
    assert_eq!(rig.settled(0).await, None, "charged nothing, failed nothing");
    assert_eq!(rig.destination.len(), 2, "{:?}", rig.destination);
    assert_eq!(rig.destination[1], Ok(()));
    let records = topic.read_to_end(DEADLINE).await;
    assert_eq!((records.len(), first_occurrences(&records).len()), (1_000, 1_000), "nothing lost or repeated");
    rig.close().await;
}

#[tokio::test]
async fn a_silent_broker_is_a_stall() {
    let (broker, proxy) = PrivateKafka::behind_proxy(&[]).await;
    let topic = broker.kafka().topic("silent", 1).await;
    let mut rig = Rig::start(&settings(&Kafka::at(broker.address())));
    assert_eq!(rig.publish(&page(topic.name(), 0)).await, None);
    proxy.set(Direction::ToClient, Flow::Held);
    rig.send(0, &page(topic.name(), 500)).await;
    let reason = rig.down().await;
    assert!(reason.contains("acknowledge nothing"), "{reason}");
    proxy.set(Direction::ToClient, Flow::Open);
    assert_eq!(rig.settled(0).await, None);
    assert_eq!(rig.destination.last(), Some(&Ok(())));
    rig.close().await;
}

#[tokio::test]
async fn b63_closing_with_undelivered_records_keeps_the_runtime_ticking_and_the_grace() {
    let (broker, proxy) = PrivateKafka::behind_proxy(&[]).await;
    let topic = broker.kafka().topic("b63", 1).await;
    let mut rig = Rig::start(&settings(&Kafka::at(broker.address())));
    assert_eq!(rig.publish(&page(topic.name(), 0)).await, None);
    proxy.set(Direction::ToServer, Flow::Held);
    rig.send(0, &page(topic.name(), 500)).await;
    proxy.refuse(true);
    proxy.cut_all();

    let start = wait::now();
    let Rig { publisher, mut events, .. } = rig;
    let longest = tokio::select! {
        ended = publisher.close(Duration::from_secs(5)) => { assert!(ended, "within the grace"); Duration::ZERO }
        gap = longest_gap() => gap,
    };
    assert!(start.elapsed() < Duration::from_secs(6), "took {:?}", start.elapsed());
    assert!(longest < Duration::from_secs(1));
    let mut settled = false;
    while let Ok(event) = events.try_recv() {
        settled |= event == Event::Settled(0);
    }
    assert!(settled, "also what was never delivered got its outcome");
    assert_eq!(publisher.failures(0).map(|outcomes| outcomes.len()), Some(500));
}

/// Ends with the first gap of a second between two turns of the runtime; else never.
async fn longest_gap() -> Duration {
    loop {
        let before = wait::now();
        wait::pause().await;
        if before.elapsed() > Duration::from_secs(1) {
            return before.elapsed();
        }
    }
}

#[tokio::test]
async fn a_cluster_that_never_was_is_told_and_lookups_end_in_time() {
    let nowhere = Kafka::at(&format!("127.0.0.1:{}", random::free_port()));
    let mut settings = settings(&nowhere);
    settings.route_timeout = Duration::from_secs(2);
    let mut rig = Rig::start(&settings);
    let start = wait::now();
    let (class, _) = rig.publisher.check_route("orders").await.expect_err("nobody answers");
    assert_eq!(class, Class::DestinationDown);
    assert!(start.elapsed() < Duration::from_secs(4), "took {:?}", start.elapsed());
    let reason = rig.down().await;
    assert!(reason.contains("no broker"), "{reason}");
    rig.close().await;
}

#[tokio::test]
async fn b51_lost_acknowledgements_repeat_nothing() {
    const PAGES: u32 = 10;
    let (broker, proxy) = PrivateKafka::behind_proxy(&[]).await;
    let topic = broker.kafka().topic("b51", 2).await;
    let mut rig = Rig::start(&settings(&Kafka::at(broker.address())));
    assert_eq!(rig.publish(&page(topic.name(), 0)).await, None);
    for number in 1..PAGES {
        // the broker's next answer, which is to the page's first request, dies with its connection
        proxy.cut_after(Direction::ToClient, 0);
        rig.send(0, &page(topic.name(), 500 * number)).await;
        assert_eq!(rig.settled(0).await, None);
        assert_eq!(proxy.cuts(), u64::from(number), "an answer was lost");
    }
    let records = topic.read_to_end(DEADLINE).await;
    let count = 500 * PAGES as usize;
    assert_eq!((records.len(), first_occurrences(&records).len()), (count, count), "nothing lost or repeated");
    rig.close().await;
}
