//! The Kafka publisher, at-least-once mode: one idempotent, gapless producer without timeouts of its own.
//!
//! Outcomes come by a thread of the producer's and land in per-slot arrays; the engine hears of a page when
//! its last outcome is in. After the first failure nothing more is taken until the engine says so, because a
//! later record of the failed one's key must not overtake it. Making and dropping producers, and asking
//! the cluster for topics, happens on threads of their own: librdkafka blocks there.
//!
//! What a broker would refuse is kept from it where its topic tells: batches stay below the topic's limit, a
//! record that may exceed it travels alone, and a compacted topic gets no null key. What it refuses all the same
//! must not be overtaken: the first record of a producer to a partition goes there alone (`openings`).

mod batch_size;
mod built_in;
mod classify;
mod context;
mod headers;
mod health;
mod inner;
mod line;
mod openings;
mod partitioner;
mod properties;
mod routes;
mod settings;
mod slots;
mod time_text;
mod topic;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use fencepost_core::failure::{Class, Outcome};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::context::Shared;
use self::headers::HeaderStyle;
use self::inner::{Inner, refused, retire};
use self::line::Line;
use self::routes::Answer;
use self::settings::Scrubber;
use self::slots::Slots;
use self::topic::{NO_CLIENT, Topic};
use super::{Event, PageSlot, Publisher, Refused};
use crate::message::MessageRef;

pub use self::built_in::built_in;
pub use self::settings::{Compression, KafkaSettings, RecordTime, SettingsError};

/// A client frees the room of a record just after its outcome was told: look again after this.
const ROOM_SOON: Duration = Duration::from_millis(1);
/// Look again after this although nothing was told.
const ROOM_LATE: Duration = Duration::from_millis(50);

/// Publishes to one Kafka cluster.
pub struct KafkaPublisher {
    inner: Arc<Inner>,
    headers: HeaderStyle,
    record_time: RecordTime,
    /// Whether a record is as large on the wire as it is here.
    uncompressed: bool,
    /// Topics to look up; a thread of its own serves them.
    lookups: mpsc::Sender<String>,
    /// Outcomes that had come when somebody last waited for room.
    room_seen: AtomicU64,
}

impl KafkaPublisher {
    /// Checks settings without connecting: bounds, refused names, and what librdkafka knows and was built
    /// with. May read the files that they name; takes some milliseconds.
    ///
    /// # Errors
    /// The first thing that is wrong, without secrets.
    pub fn validate(settings: &KafkaSettings) -> Result<(), SettingsError> {
        let scrubber = Scrubber::new(settings.secrets());
        properties::try_client(&properties::configuration(settings)?, &scrubber)
    }

    /// Makes the producer and starts to connect. The receiver gets every [`Event`]; it must be read.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn start(settings: &KafkaSettings) -> Result<(Self, UnboundedReceiver<Event>), SettingsError> {
        let config = properties::configuration(settings)?;
        let scrubber = Scrubber::new(settings.secrets());
        let (events, receiver) = unbounded_channel();
        let shared = Arc::new(Shared::new(Slots::new(settings.page_slots, settings.page_rows), scrubber, events));
        let inner = Arc::new(Inner::start(config, shared)?);
        let (lookups, questions) = mpsc::channel();
        let (answers, patience) = (Arc::downgrade(&inner), settings.route_timeout);
        let serve =
            Builder::new().name("kafka-topics".into()).spawn(move || topic::serve(&questions, &answers, patience));
        serve.map_err(|error| SettingsError::Client(format!("no thread to look topics up: {error}")))?;
        tracing::info!(
            bootstrap_servers = settings.bootstrap_servers,
            partitioner = properties::PARTITIONER,
            compression = settings.compression.name(),
            librdkafka = rdkafka::util::get_rdkafka_version().1,
            "publishing to Kafka"
        );
        let publisher = KafkaPublisher {
            inner,
            headers: HeaderStyle::new(settings.cloud_events, &settings.source),
            record_time: settings.record_time,
            uncompressed: settings.compression == Compression::None,
            lookups,
            room_seen: AtomicU64::new(0),
        };
        Ok((publisher, receiver))
    }

    /// How often the producer was replaced, for a metric.
    pub fn rebuilds(&self) -> u64 {
        self.inner.rebuilds()
    }

    /// Records whose outcome has not come yet, for a metric. Does not block.
    pub fn in_flight(&self) -> u64 {
        self.inner.line().as_ref().map_or(0, |line| line.context().in_flight())
    }

    /// `batch.size` in bytes of the newest producer: it shrinks after a broker found a batch too large.
    pub fn batch_size(&self) -> usize {
        batch_size::current(&self.inner.config())
    }

    /// The cluster's id, or `None` when it does not tell within `patience`.
    pub async fn cluster_id(&self, patience: Duration) -> Option<String> {
        let client = self.inner.client()?;
        let (sender, receiver) = oneshot::channel();
        let ask = move || {
            let _ = sender.send(client.client().fetch_cluster_id(patience));
        };
        Builder::new().name("kafka-cluster-id".into()).spawn(ask).ok()?;
        receiver.await.ok()?
    }

    /// Ends the producer within `grace`: what it still holds gets its outcome as far as the time allows.
    /// `false`: it did not end in time, and its thread is left behind. Never blocks the runtime's thread.
    pub async fn close(&self, grace: Duration) -> bool {
        let Some(line) = self.inner.line().take() else { return true };
        // with nothing in flight there is no outcome to wait for
        let idle = line.context().in_flight() == 0;
        let ended = retire(line);
        idle || matches!(timeout(grace, ended).await, Ok(Ok(())))
    }

    fn timestamp(&self, message: &MessageRef<'_>) -> Option<i64> {
        match self.record_time {
            RecordTime::Sent => None,
            RecordTime::Event => Some(record_time_ms(message.event_time_us.unwrap_or(message.created_at_us))),
        }
    }

    /// Whether the topic takes the record as far as its size is concerned, and the producer may have it now.
    fn admit_size(&self, line: &Line, topic: &Topic, fence: &str, message: &MessageRef<'_>) -> Result<(), Refused> {
        let Some(limit) = topic.limit else { return Ok(()) };
        if !line.fits(limit) {
            line.context().note_outdated();
            return Err(Refused::Halted);
        }
        if self.headers.record_bytes_max(fence, message) <= limit {
            return Ok(());
        }
        if self.uncompressed && message.size_bytes() > limit {
            return Err(Refused::Failed { class: Class::Message, code: Code::MessageSizeTooLarge as i16 });
        }
        // only the broker knows: alone, it harms no neighbour and nothing overtakes it
        if line.context().in_flight() > 0 {
            return Err(Refused::Full);
        }
        line.context().note_solo();
        Ok(())
    }
}

impl Publisher for KafkaPublisher {
    fn slots(&self) -> usize {
        self.inner.shared.slots.len()
    }

    fn open(&self, slot: PageSlot) {
        self.inner.shared.slots.open(slot);
    }

    fn send(&self, slot: PageSlot, row: u32, fence: &str, message: &MessageRef<'_>) -> Result<(), Refused> {
        debug_assert!(self.inner.shared.slots.holds(row), "a page has no more rows than its slot");
        let line = self.inner.line();
        let Some(line) = line.as_ref().filter(|line| !line.context().halted()) else { return Err(Refused::Halted) };
        if line.context().solo() {
            return Err(Refused::Full);
        }
        let routes = &self.inner.shared.routes;
        let topic = routes.admit(message.topic, message.partition, message.key.is_none())?;
        let delivery_opaque = slot << 32 | row as usize;
        let openings = line.context().openings();
        // without a key there is no order that the first record could lose
        if let Some(key) = message.key {
            let partition = partitioner::partition(message, key, topic.partitions);
            openings.admit(message.topic, partition, topic.partitions, delivery_opaque)?;
        }
        self.admit_size(line, &topic, fence, message).inspect_err(|_| openings.not_sent(delivery_opaque))?;
        let record = BaseRecord {
            topic: message.topic,
            partition: message.partition,
            payload: message.payload,
            key: message.key,
            timestamp: self.timestamp(message),
            headers: Some(self.headers.build(fence, message)),
            delivery_opaque,
        };
        if let Err((error, record)) = line.client().send(record) {
            openings.not_sent(record.delivery_opaque);
            return Err(refused(&error, line.context(), routes, message.topic));
        }
        line.context().note_taken();
        Ok(())
    }

    fn seal(&self, slot: PageSlot, sent: u32) {
        if self.inner.shared.slots.seal(slot, sent) {
            self.inner.shared.tell(Event::Settled(slot));
        }
    }

    fn failures(&self, slot: PageSlot) -> Option<Vec<Outcome>> {
        self.inner.shared.slots.failures(slot)
    }

    async fn check_route(&self, topic: &str) -> Result<(), (Class, i16)> {
        let receiver = match self.inner.shared.routes.ask(topic) {
            Answer::Ready(found) => return found.map(drop),
            Answer::Wait(receiver) => receiver,
            Answer::Ask(receiver) => {
                if self.lookups.send(topic.to_owned()).is_err() {
                    self.inner.shared.routes.learn(topic, NO_CLIENT);
                }
                receiver
            }
        };
        receiver.await.unwrap_or(NO_CLIENT).map(drop)
    }

    async fn room(&self) {
        let shared = &self.inner.shared;
        let outcomes = self.inner.line().as_ref().map_or(0, |line| line.context().outcomes());
        let told = self.room_seen.swap(outcomes, Ordering::Relaxed) != outcomes;
        if !told {
            shared.room_wanted.store(true, Ordering::Release);
        }
        // whether woken or not, the caller tries again
        let _ = timeout(if told { ROOM_SOON } else { ROOM_LATE }, shared.room.notified()).await;
    }

    fn resume(&self) -> bool {
        let line = self.inner.line();
        let Some(line) = line.as_ref().filter(|line| !line.is_broken()) else { return false };
        line.context().resume();
        true
    }

    fn purge(&self) {
        if let Some(line) = self.inner.line().as_ref() {
            line.purge();
        }
    }

    fn rebuild(&self) {
        let inner = Arc::clone(&self.inner);
        let shared = Arc::clone(&self.inner.shared);
        if let Err(error) = Builder::new().name("kafka-rebuild".into()).spawn(move || inner.rebuild()) {
            shared.tell(Event::RebuildFailed(format!("no thread to rebuild on: {error}")));
        }
    }
}

impl Drop for KafkaPublisher {
    fn drop(&mut self) {
        if let Some(line) = self.inner.line().take() {
            // nobody waits
            drop(retire(line));
        }
    }
}

/// A record's timestamp for a time in microseconds. To librdkafka 0 means "now", to Kafka -1 means "none": those two
/// milliseconds of 1970 are off by one.
fn record_time_ms(us: i64) -> i64 {
    match us.div_euclid(1_000) {
        0 => 1,
        -1 => -2,
        ms => ms,
    }
}

#[cfg(test)]
mod tests;
