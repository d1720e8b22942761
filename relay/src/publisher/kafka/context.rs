//! What librdkafka calls: outcomes, errors, statistics and logs of one producer. All of it runs on that
//! producer's polling thread; nothing here blocks or panics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::failure::{Class, Outcome, Persistence};
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use super::classify::{classify, invalidates_route};
use super::health::{Change, Health, Statistics};
use super::openings::Openings;
use super::routes::Routes;
use super::settings::Scrubber;
use super::slots::Slots;
use crate::publisher::Event;

/// What outlives a producer: it is shared by the publisher and all its producers, one after the other.
pub(super) struct Shared {
    pub(super) slots: Slots,
    pub(super) routes: Routes,
    pub(super) scrubber: Scrubber,
    acked: AtomicU64,
    /// Whether somebody waits for room; keeps the wake-up off the hot path.
    pub(super) room_wanted: AtomicBool,
    pub(super) room: Notify,
    events: UnboundedSender<Event>,
    health: Mutex<Health>,
    /// `health.is_down()`, readable on the hot path.
    down: AtomicBool,
}

impl Shared {
    pub(super) fn new(slots: Slots, scrubber: Scrubber, events: UnboundedSender<Event>) -> Self {
        Shared {
            slots,
            routes: Routes::default(),
            scrubber,
            acked: AtomicU64::new(0),
            room_wanted: AtomicBool::new(false),
            room: Notify::new(),
            events,
            health: Mutex::default(),
            down: AtomicBool::new(false),
        }
    }

    /// Tells the engine. When it has gone, nobody needs to know.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// Changes the health and tells what changed.
    fn health(&self, change: impl FnOnce(&mut Health) -> Option<Change>) {
        let mut health = self.lock_health();
        if let Some(change) = change(&mut health) {
            self.down.store(health.is_down(), Ordering::Relaxed);
            self.tell(Event::Destination(change));
        }
    }

    fn lock_health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_room(&self) {
        if self.room_wanted.load(Ordering::Relaxed) && self.room_wanted.swap(false, Ordering::AcqRel) {
            self.room.notify_one();
        }
    }
}

/// One producer's context.
pub(super) struct Context {
    shared: Arc<Shared>,
    openings: Openings,
    /// Records taken, and outcomes told, so far.
    taken: AtomicU64,
    outcomes: AtomicU64,
    /// A record failed, or the producer was purged: nothing more is handed over.
    halted: AtomicBool,
    /// It was purged: sequences are lost, only a rebuild helps.
    purged: AtomicBool,
    /// It said that it can't go on.
    fatal: AtomicBool,
    /// A broker found a batch too large.
    too_large: AtomicBool,
    /// Its batches are too large for a topic: it must be replaced before anything goes there.
    outdated: AtomicBool,
    /// A record that may be too large is in flight: nothing else is taken before its outcome.
    solo: AtomicBool,
    /// It was replaced: its troubles are no longer the destination's.
    retired: AtomicBool,
}

impl Context {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let no = || AtomicBool::new(false);
        Context {
            shared,
            openings: Openings::default(),
            taken: AtomicU64::new(0),
            outcomes: AtomicU64::new(0),
            halted: no(),
            purged: no(),
            fatal: no(),
            too_large: no(),
            outdated: no(),
            solo: no(),
            retired: no(),
        }
    }

    pub(super) fn openings(&self) -> &Openings {
        &self.openings
    }

    /// The producer has taken a record.
    pub(super) fn note_taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Outcomes told so far.
    pub(super) fn outcomes(&self) -> u64 {
        self.outcomes.load(Ordering::Acquire)
    }

    /// Records taken whose outcome was not told yet.
    pub(super) fn in_flight(&self) -> u64 {
        // an outcome may be told before its record is counted
        self.taken.load(Ordering::Relaxed).saturating_sub(self.outcomes())
    }

    pub(super) fn halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    pub(super) fn purged(&self) -> bool {
        self.purged.load(Ordering::Acquire)
    }

    pub(super) fn fatal(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    pub(super) fn too_large(&self) -> bool {
        self.too_large.load(Ordering::Acquire)
    }

    pub(super) fn outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire)
    }

    pub(super) fn note_outdated(&self) {
        self.halt();
        self.outdated.store(true, Ordering::Release);
    }

    pub(super) fn solo(&self) -> bool {
        self.solo.load(Ordering::Acquire)
    }

    /// Until the next outcome.
    pub(super) fn note_solo(&self) {
        self.solo.store(true, Ordering::Release);
    }

    /// The record that was to be alone was not taken.
    pub(super) fn end_solo(&self) {
        self.solo.store(false, Ordering::Release);
    }

    /// Takes records again, once all outcomes are in.
    pub(super) fn resume(&self) {
        self.openings.restart();
        self.halted.store(false, Ordering::Release);
    }

    /// Takes no more records.
    pub(super) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    pub(super) fn note_purged(&self) {
        self.halt();
        self.purged.store(true, Ordering::Release);
    }

    pub(super) fn note_fatal(&self) {
        self.halt();
        self.fatal.store(true, Ordering::Release);
    }

    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Tells why the producer can't go on, if that concerns the destination (a missing permission).
    pub(super) fn report_fatal(&self, code: Code, reason: &str) {
        let reason = self.shared.scrubber.clean(reason);
        tracing::warn!(code = %code, reason, "the Kafka producer is broken and has to be rebuilt");
        self.report(code, &reason);
    }

    fn report(&self, code: Code, reason: &str) {
        if !self.retired.load(Ordering::Acquire) {
            self.shared.health(|health| health.error(code, reason));
        }
    }

    fn settle(&self, opaque: usize, outcome: Outcome) {
        let (slot, row) = (opaque >> 32, opaque as u32);
        if self.solo.load(Ordering::Relaxed) {
            // it was alone: this is its outcome
            self.end_solo();
        }
        if self.shared.slots.finish(slot, row, outcome) {
            self.shared.tell(Event::Settled(slot));
        }
        self.outcomes.fetch_add(1, Ordering::Release);
        self.shared.wake_room();
    }

    fn acked(&self) {
        self.shared.acked.fetch_add(1, Ordering::Relaxed);
        if self.shared.down.load(Ordering::Relaxed) {
            self.shared.health(Health::acked);
        }
    }

    fn failed(&self, error: &KafkaError, record: &BorrowedMessage<'_>) -> Outcome {
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        let persistence = persistence(record);
        let Some(class) = classify(persistence, code) else { return Outcome::Acked };
        self.halt();
        if code == Code::MessageSizeTooLarge || code == Code::MessageBatchTooLarge {
            self.too_large.store(true, Ordering::Release);
        }
        if invalidates_route(code) {
            self.shared.routes.forget(record.topic());
            self.openings.forget(record.topic());
        }
        Outcome::Failed { class, persistence, code: code as i16 }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let message = self.shared.scrubber.clean(message);
        match level {
            // connections that fail are told as the destination's state, once; here they would come each second
            _ if facility == "FAIL" || facility == "ERROR" => {
                tracing::debug!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", facility, "{message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn stats_raw(&self, json: &[u8]) {
        if self.retired.load(Ordering::Acquire) {
            return;
        }
        self.shared.routes.expire_failures();
        self.openings.tick();
        if let Some(statistics) = Statistics::parse(json) {
            let acked = self.shared.acked.load(Ordering::Relaxed);
            self.shared.health(|health| health.tick(&statistics, acked));
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        if code == Code::Fatal {
            // the polling thread asks for the cause
            self.note_fatal();
            return;
        }
        self.report(code, &self.shared.scrubber.clean(reason));
    }
}

impl ProducerContext for Context {
    /// Page slot in the upper, row in the lower 32 bits.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let outcome = match result {
            Ok(record) if record.offset() == OFFSET_INVALID => self.acked_by_inference(),
            Ok(_) => Outcome::Acked,
            Err((error, record)) => self.failed(error, record),
        };
        self.opened(result, opaque);
        if outcome == Outcome::Acked {
            self.acked();
        }
        self.settle(opaque, outcome);
    }
}

/// librdkafka's RD_KAFKA_OFFSET_INVALID.
const OFFSET_INVALID: i64 = -1001;

impl Context {
    /// Its first record's offset opens a partition.
    fn opened(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let record = result.as_ref().ok().filter(|record| record.offset() != OFFSET_INVALID);
        if let (false, Some(record)) = (self.openings.settled(opaque, record.map(Message::partition)), record) {
            self.shared.routes.forget(record.topic());
        }
    }

    /// librdkafka infers from the success of a later batch that an earlier one, whose answer it does not
    /// have, was written too, and reports it without an offset. For the first batches of a producer on a
    /// partition that is wrong: a broker without producer state takes any first sequence number, also
    /// when the batch before was refused. So it is sent again; at worst it repeats.
    fn acked_by_inference(&self) -> Outcome {
        self.halt();
        Outcome::Failed { class: Class::Ambiguous, persistence: Persistence::Possibly, code: Code::NoError as i16 }
    }
}

/// What librdkafka knows about the record being in the topic.
#[allow(unsafe_code, reason = "rdkafka has no safe call for a record's persistence status")]
fn persistence(record: &BorrowedMessage<'_>) -> Persistence {
    use rdkafka::bindings::{rd_kafka_message_status, rd_kafka_msg_status_t as Status};
    // SAFETY: `record` borrows a live message of a delivery report, and the call only reads it.
    match unsafe { rd_kafka_message_status(record.ptr()) } {
        Status::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persistence::Not,
        Status::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => Persistence::Possibly,
        Status::RD_KAFKA_MSG_STATUS_PERSISTED => Persistence::Persisted,
    }
}
