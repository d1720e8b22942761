//! One producer and the thread that polls it. The thread waits in librdkafka, not in a loop: a poll with a
//! long timeout costs nothing at rest and still serves outcomes at once (rdkafka's `ThreadedProducer`
//! spins through the last millisecond of every 100).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer, PurgeConfig};

use super::batch_size;
use super::context::Context;
use super::properties::settings_error;
use super::settings::{Scrubber, SettingsError};

/// rdkafka's producer with our context.
pub(super) type Client = BaseProducer<Context>;

/// rdkafka spins for the last millisecond of each poll: 0.1 % of a core at this length. Also the longest that
/// a retired producer lives on.
const POLL: Duration = Duration::from_secs(1);

/// A producer that is served.
pub(super) struct Line {
    client: Arc<Client>,
    stop: Arc<AtomicBool>,
    poller: JoinHandle<()>,
    batch_size: usize,
}

impl Line {
    /// Makes a producer and starts its polling thread. Connects in the background.
    ///
    /// # Errors
    /// librdkafka's message, without secrets.
    pub(super) fn start(config: &ClientConfig, context: Context, scrubber: &Scrubber) -> Result<Self, SettingsError> {
        let client: Client = config.create_with_context(context).map_err(|error| settings_error(error, scrubber))?;
        let client = Arc::new(client);
        let stop = Arc::new(AtomicBool::new(false));
        let (polled, stopped) = (Arc::clone(&client), Arc::clone(&stop));
        let poller = Builder::new().name("kafka-outcomes".into()).spawn(move || poll(&polled, &stopped));
        let poller = poller.map_err(|error| SettingsError::Client(format!("no thread for its outcomes: {error}")))?;
        Ok(Line { client, stop, poller, batch_size: batch_size::current(config) })
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(super) fn context(&self) -> &Context {
        self.client.context()
    }

    /// Whether its batches fit a topic with this limit.
    pub(super) fn fits(&self, limit: usize) -> bool {
        self.batch_size <= batch_size::within(limit)
    }

    /// Whether only another producer can go on.
    pub(super) fn is_broken(&self) -> bool {
        let context = self.context();
        context.purged() || context.fatal() || context.outdated() || self.client.client().fatal_error().is_some()
    }

    /// Drops what is queued and in flight; outcomes come by the polling thread. Does not block.
    pub(super) fn purge(&self) {
        self.context().note_purged();
        self.client.purge(everything());
    }

    /// Ends the producer: what it still holds gets its outcome. **Blocks**, usually up to a second and for
    /// as long as a broker's thread hangs in the operating system: never on the runtime's thread.
    pub(super) fn retire(self) {
        self.context().retire();
        self.purge();
        self.stop.store(true, Ordering::Release);
        // it can only have ended by a panic, which was printed
        let _ = self.poller.join();
        drop(self.client);
    }
}

fn everything() -> PurgeConfig {
    PurgeConfig::default().queue().inflight().non_blocking()
}

fn poll(client: &Client, stop: &AtomicBool) {
    let mut reported = false;
    while !stop.load(Ordering::Acquire) {
        client.poll(POLL);
        let context = client.context();
        if !reported && let Some((code, reason)) = client.client().fatal_error() {
            reported = true;
            context.note_fatal();
            context.report_fatal(code, &reason);
        }
        // records that slipped in while the client was being purged or broke would stay for ever
        if context.purged() {
            client.purge(everything());
        } else if context.fatal() {
            client.purge(PurgeConfig::default().queue().non_blocking());
        }
    }
}
