//! The Kafka publisher, at-least-once mode: one idempotent, gapless producer without timeouts of its own.
//!
//! Outcomes come by a thread of the producer's and land in per-slot arrays; the engine hears of a page when
//! its last outcome is in. After the first failure nothing more is taken until the engine says so, because a
//! later record of the failed one's key must not overtake it. Making and dropping producers, and asking
//! the cluster for topics, happens on threads of their own: librdkafka blocks there.

mod batch_size;
mod built_in;
mod classify;
mod context;
mod headers;
mod health;
mod line;
mod properties;
mod routes;
mod settings;
mod slots;
mod time_text;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use fencepost_core::failure::Class;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::classify::{class_of_unwritten, invalidates_route};
use self::context::{Context, Shared};
use self::headers::HeaderStyle;
use self::line::{Client, Line};
use self::routes::{Answer, Lookup, Routes};
use self::slots::Slots;
use super::{Event, PageSlot, Publisher, Refused};
use crate::message::MessageRef;
use fencepost_core::failure::Outcome;

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
    route_timeout: Duration,
    /// Outcomes that had come when somebody last waited for room.
    room_seen: AtomicU64,
}

/// What the publisher shares with the threads that rebuild its producer and drop the old one.
struct Inner {
    shared: Arc<Shared>,
    /// `None` while the producer is being rebuilt, and after a close.
    line: Mutex<Option<Line>>,
    /// As of the newest producer: `batch.size` shrinks.
    config: Mutex<ClientConfig>,
    rebuilds: AtomicU64,
}

impl KafkaPublisher {
    /// Checks settings without connecting: bounds, refused names, and what librdkafka knows and was built
    /// with. May read the files that they name; takes some milliseconds.
    ///
    /// # Errors
    /// The first thing that is wrong, without secrets.
    pub fn validate(settings: &KafkaSettings) -> Result<(), SettingsError> {
        let scrubber = settings::Scrubber::new(settings.secrets());
        properties::try_client(&properties::configuration(settings)?, &scrubber)
    }

    /// Makes the producer and starts to connect. The receiver gets every [`Event`]; it must be read.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn start(settings: &KafkaSettings) -> Result<(Self, UnboundedReceiver<Event>), SettingsError> {
        let config = properties::configuration(settings)?;
        let scrubber = settings::Scrubber::new(settings.secrets());
        let (events, receiver) = unbounded_channel();
        let shared = Arc::new(Shared::new(Slots::new(settings.page_slots, settings.page_rows), scrubber, events));
        let line = Line::start(&config, Context::new(Arc::clone(&shared)), &shared.scrubber)?;
        tracing::info!(
            bootstrap_servers = settings.bootstrap_servers,
            partitioner = properties::PARTITIONER,
            compression = settings.compression.name(),
            librdkafka = rdkafka::util::get_rdkafka_version().1,
            "publishing to Kafka"
        );
        let publisher = KafkaPublisher {
            inner: Arc::new(Inner {
                shared,
                line: Mutex::new(Some(line)),
                config: Mutex::new(config),
                rebuilds: AtomicU64::new(0),
            }),
            headers: HeaderStyle::new(settings.cloud_events, &settings.source),
            record_time: settings.record_time,
            route_timeout: settings.route_timeout,
            room_seen: AtomicU64::new(0),
        };
        Ok((publisher, receiver))
    }

    /// How often the producer was replaced, for a metric.
    pub fn rebuilds(&self) -> u64 {
        self.inner.rebuilds.load(Ordering::Relaxed)
    }

    /// Records whose outcome has not come yet, for a metric. Does not block.
    pub fn in_flight(&self) -> u64 {
        let line = self.inner.line();
        line.as_ref().map_or(0, |line| u64::try_from(line.in_flight()).unwrap_or_default())
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
        let idle = line.in_flight() == 0;
        let ended = retire(line);
        idle || matches!(timeout(grace, ended).await, Ok(Ok(())))
    }

    fn timestamp(&self, message: &MessageRef<'_>) -> Option<i64> {
        match self.record_time {
            RecordTime::Sent => None,
            RecordTime::Event => Some(record_time_ms(message.event_time_us.unwrap_or(message.created_at_us))),
        }
    }

    /// Starts a lookup of a topic on a thread of its own.
    fn look_up(&self, topic: &str) {
        // tells whoever waits in any case, also when there is no client, no thread, or a panic
        let mut answer = RouteAnswer {
            shared: Arc::clone(&self.inner.shared),
            topic: topic.to_owned(),
            found: Err((Class::DestinationDown, Code::BrokerDestroy as i16)),
        };
        let Some(client) = self.inner.client() else { return };
        let patience = self.route_timeout;
        let ask = move || answer.found = routes::look_up(&client, &answer.topic, patience);
        if let Err(error) = Builder::new().name("kafka-route".into()).spawn(ask) {
            tracing::warn!(%error, "no thread to look a topic up; it is tried again");
        }
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
        self.inner.shared.routes.admit(message.topic, message.partition)?;
        let record = BaseRecord {
            topic: message.topic,
            partition: message.partition,
            payload: message.payload,
            key: message.key,
            timestamp: self.timestamp(message),
            headers: Some(self.headers.build(fence, message)),
            delivery_opaque: slot << 32 | row as usize,
        };
        line.client()
            .send(record)
            .map_err(|(error, _)| refused(&error, line.context(), &self.inner.shared.routes, message.topic))
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
                self.look_up(topic);
                receiver
            }
        };
        receiver.await.unwrap_or(Err((Class::DestinationDown, Code::BrokerDestroy as i16))).map(drop)
    }

    async fn room(&self) {
        let shared = &self.inner.shared;
        let outcomes = shared.outcomes.load(Ordering::Relaxed);
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

impl Inner {
    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        // the line is only ever replaced whole
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(&self) -> MutexGuard<'_, ClientConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.line().as_ref().map(|line| Arc::clone(line.client()))
    }

    /// Puts a new producer in the place of the old one. Blocks.
    fn rebuild(&self) {
        let old = self.line().take();
        if let Some(old) = &old {
            old.context().retire();
            if old.context().too_large() {
                self.shrink_batches();
            }
        }
        let config = self.config().clone();
        let event = match Line::start(&config, Context::new(Arc::clone(&self.shared)), &self.shared.scrubber) {
            Ok(line) => {
                *self.line() = Some(line);
                self.rebuilds.fetch_add(1, Ordering::Relaxed);
                Event::Rebuilt
            }
            Err(error) => Event::RebuildFailed(error.to_string()),
        };
        self.shared.tell(event);
        if let Some(old) = old {
            old.retire();
        }
    }

    fn shrink_batches(&self) {
        let config = self.config().clone();
        let size = batch_size::next(&config, &self.shared.routes.known());
        tracing::warn!(
            batch_size = size,
            "a broker found a batch too large; batches are kept below the topics' limits"
        );
        self.config().set("batch.size", size.to_string());
    }
}

/// Drops a producer on a thread of its own; the receiver learns when it has gone.
fn retire(line: Line) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    let drop_it = move || {
        line.retire();
        let _ = sender.send(());
    };
    if let Err(error) = Builder::new().name("kafka-retire".into()).spawn(drop_it) {
        tracing::warn!(%error, "no thread to drop a Kafka producer on");
    }
    receiver
}

/// Why the client did not take a record.
fn refused(error: &KafkaError, context: &Context, routes: &Routes, topic: &str) -> Refused {
    // the only other error is a NUL in the topic's name
    let code = error.rdkafka_error_code().unwrap_or(Code::InvalidTopic);
    if code == Code::QueueFull {
        return Refused::Full;
    }
    let class = class_of_unwritten(code);
    if class == Class::Producer {
        context.note_fatal();
        return Refused::Halted;
    }
    if invalidates_route(code) {
        routes.forget(topic);
    }
    Refused::Failed { class, code: code as i16 }
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

/// Stores a lookup's result when it goes.
struct RouteAnswer {
    shared: Arc<Shared>,
    topic: String,
    found: Lookup,
}

impl Drop for RouteAnswer {
    fn drop(&mut self) {
        self.shared.routes.learn(&self.topic, self.found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b101_record_times_are_milliseconds_also_before_1970() {
        assert_eq!(record_time_ms(1_700_000_000_123_456), 1_700_000_000_123);
        assert_eq!(record_time_ms(-1_001), -2);
        assert_eq!(record_time_ms(-86_400_000_000), -86_400_000);
        assert_eq!((record_time_ms(999), record_time_ms(-1)), (1, -2), "never now, never none");
    }
}
