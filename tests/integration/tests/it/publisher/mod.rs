//! The Kafka publisher against a real broker, through its port alone.

mod access;
mod bytes;
mod failures;
mod flow;
mod inference;
mod outages;

use std::time::Duration;

use fencepost_core::failure::{Class, Outcome};
use fencepost_integration::kafka::{Kafka, Record};
use fencepost_integration::wait;
use fencepost_relay::message::MessageRef;
use fencepost_relay::publisher::kafka::{KafkaPublisher, KafkaSettings};
use fencepost_relay::publisher::{Event, Publisher, Refused};
use tokio::sync::mpsc::UnboundedReceiver;
use uuid::Uuid;

const DEADLINE: Duration = Duration::from_secs(30);
const FENCE: &str = "01900000-0000-7000-8000-000000000001/3/7";

/// A publisher and what it told.
struct Rig {
    publisher: KafkaPublisher,
    events: UnboundedReceiver<Event>,
    /// What was told about the destination, oldest first.
    destination: Vec<Result<(), String>>,
    /// How often the client's queue was full.
    full: u32,
}

impl Rig {
    /// On the shared cluster.
    fn shared() -> Self {
        Self::start(&settings(&Kafka::shared()))
    }

    fn start(settings: &KafkaSettings) -> Self {
        let (publisher, events) = KafkaPublisher::start(settings).expect("usable settings");
        Rig { publisher, events, destination: Vec::new(), full: 0 }
    }

    /// Sends one page into a slot and seals it.
    async fn send(&mut self, slot: usize, messages: &[MessageRef<'_>]) {
        self.publisher.open(slot);
        for (row, message) in messages.iter().enumerate() {
            assert_eq!(self.taken(slot, row as u32, message).await, Ok(()), "row {row}");
        }
        self.publisher.seal(slot, messages.len() as u32);
    }

    /// Hands one record over, as soon as there is room for it.
    async fn taken(&mut self, slot: usize, row: u32, message: &MessageRef<'_>) -> Result<(), Refused> {
        loop {
            match self.publisher.send(slot, row, FENCE, message) {
                Err(Refused::Full) => {
                    self.full += 1;
                    self.publisher.room().await;
                }
                taken => return taken,
            }
        }
    }

    /// Waits until a slot has settled.
    async fn settled(&mut self, slot: usize) -> Option<Vec<Outcome>> {
        self.event(&format!("slot {slot} settled"), |event| *event == Event::Settled(slot)).await;
        self.publisher.failures(slot)
    }

    /// Waits for the first event that `wanted` likes, and keeps what is told about the destination on the way.
    async fn event(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> Event {
        let start = wait::now();
        loop {
            let left = DEADLINE.saturating_sub(start.elapsed());
            let event = tokio::time::timeout(left, self.events.recv()).await;
            let event =
                event.unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}")).expect("the publisher lives");
            if let Event::Destination(state) = &event {
                self.destination.push(state.clone());
            }
            if wanted(&event) {
                return event;
            }
        }
    }

    /// Why the destination is down.
    async fn down(&mut self) -> String {
        self.event("the destination is down", |event| matches!(event, Event::Destination(Err(_)))).await;
        self.destination.last().cloned().and_then(Result::err).expect("the event that was waited for")
    }

    /// Looks the topics up and publishes one page.
    async fn publish(&mut self, messages: &[MessageRef<'_>]) -> Option<Vec<Outcome>> {
        for message in messages {
            self.publisher.check_route(message.topic).await.expect("the topic exists");
        }
        self.send(0, messages).await;
        self.settled(0).await
    }

    /// Replaces the producer.
    async fn rebuild(&mut self) {
        assert!(!self.publisher.resume(), "only a broken producer has to be rebuilt");
        self.publisher.rebuild();
        self.event("the producer was rebuilt", |event| *event == Event::Rebuilt).await;
    }

    async fn close(self) {
        assert!(self.publisher.close(DEADLINE).await, "the producer ends");
    }
}

/// Settings for a cluster, with quick statistics.
fn settings(kafka: &Kafka) -> KafkaSettings {
    let mut settings = KafkaSettings::new(kafka.bootstrap(), "orders");
    settings.statistics_interval = Duration::from_secs(1);
    settings
}

/// A message whose id and message id are `number`.
fn message<'a>(topic: &'a str, number: u32, payload: &'a [u8]) -> MessageRef<'a> {
    MessageRef {
        id: i64::from(number),
        slot: 0,
        message_id: Uuid::from_u128(u128::from(number)),
        tenant: "default",
        topic,
        key: Some(b"key"),
        partition: None,
        kind: "order.placed",
        content_type: None,
        headers: &[],
        payload: Some(payload),
        event_time_us: None,
        created_at_us: 1_700_000_000_000_000,
    }
}

/// The number of a record's message.
fn number(record: &Record) -> Option<u128> {
    record.header("fencepost-message-id").and_then(|id| Uuid::parse_str(id).ok()).map(|id| id.as_u128())
}

/// The class of a failure.
fn class(outcome: &Outcome) -> Option<Class> {
    match outcome {
        Outcome::Acked => None,
        Outcome::Failed { class, .. } => Some(*class),
    }
}
