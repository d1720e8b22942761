//! The producer in use, and its replacement. Shared with the threads that rebuild it, look topics up, and
//! drop what was replaced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use fencepost_core::failure::Class;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

use super::batch_size;
use super::classify::{class_of_unwritten, invalidates_route};
use super::context::{Context, Shared};
use super::line::{Client, Line};
use super::routes::Routes;
use super::settings::SettingsError;
use crate::publisher::{Event, Refused};

/// The producer in use.
pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    /// `None` while the producer is being rebuilt, and after a close.
    line: Mutex<Option<Line>>,
    /// As of the newest producer: `batch.size` shrinks.
    config: Mutex<ClientConfig>,
    rebuilds: AtomicU64,
}

impl Inner {
    /// Makes the first producer.
    ///
    /// # Errors
    /// librdkafka's message, without secrets.
    pub(super) fn start(config: ClientConfig, shared: Arc<Shared>) -> Result<Self, SettingsError> {
        let line = Line::start(&config, Context::new(Arc::clone(&shared)), &shared.scrubber)?;
        Ok(Inner { shared, line: Mutex::new(Some(line)), config: Mutex::new(config), rebuilds: AtomicU64::new(0) })
    }

    pub(super) fn line(&self) -> MutexGuard<'_, Option<Line>> {
        // the line is only ever replaced whole
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn config(&self) -> MutexGuard<'_, ClientConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn client(&self) -> Option<Arc<Client>> {
        self.line().as_ref().map(|line| Arc::clone(line.client()))
    }

    pub(super) fn rebuilds(&self) -> u64 {
        self.rebuilds.load(Ordering::Relaxed)
    }

    /// Puts a new producer in the place of the old one. Blocks.
    pub(super) fn rebuild(&self) {
        let old = self.line().take();
        if let Some(old) = &old {
            old.context().retire();
            self.shrink_batches(old.context().too_large());
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

    /// Keeps the next producer's batches below the limits of the topics in use.
    fn shrink_batches(&self, refused_by_broker: bool) {
        let config = self.config().clone();
        let current = batch_size::current(&config);
        let known = self.shared.routes.smallest_limit().map_or(current, batch_size::within);
        let mut size = known.min(current);
        if refused_by_broker {
            // what is known of the topics may be out of date, or nothing is
            size = size.min(batch_size::after_refusal(&config, &self.shared.routes.forget_all()));
        }
        if size < current {
            tracing::warn!(batch_size = size, "batches are kept below the topics' max.message.bytes from here on");
            self.config().set("batch.size", size.to_string());
        }
    }
}

/// Drops a producer on a thread of its own; the receiver learns when it has gone.
pub(super) fn retire(line: Line) -> oneshot::Receiver<()> {
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
pub(super) fn refused(error: &KafkaError, context: &Context, routes: &Routes, topic: &str) -> Refused {
    context.end_solo();
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
