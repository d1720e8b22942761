//! A publisher that acknowledges everything at once and sends nothing: what the rest of the path costs
//! without Kafka. For benchmarks.

use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_core::failure::{Class, Outcome};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Event, PageSlot, Publisher, Refused};
use crate::message::MessageRef;

/// Acknowledges everything at its seal.
pub struct NullPublisher {
    slots: usize,
    events: UnboundedSender<Event>,
    taken: AtomicU64,
}

impl NullPublisher {
    /// With so many page slots; the receiver gets every [`Event`].
    pub fn start(slots: usize) -> (Self, UnboundedReceiver<Event>) {
        let (events, receiver) = unbounded_channel();
        (NullPublisher { slots, events, taken: AtomicU64::new(0) }, receiver)
    }

    /// Records taken so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Publisher for NullPublisher {
    fn slots(&self) -> usize {
        self.slots
    }

    fn open(&self, _slot: PageSlot) {}

    fn send(&self, _slot: PageSlot, _row: u32, _fence: &str, _message: &MessageRef<'_>) -> Result<(), Refused> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn seal(&self, slot: PageSlot, _sent: u32) {
        // when the engine has gone, nobody needs to know
        let _ = self.events.send(Event::Settled(slot));
    }

    fn failures(&self, _slot: PageSlot) -> Option<Vec<Outcome>> {
        None
    }

    async fn check_route(&self, _topic: &str) -> Result<(), (Class, i16)> {
        Ok(())
    }

    /// There is always room.
    async fn room(&self) {}

    fn resume(&self) -> bool {
        true
    }

    fn purge(&self) {}

    fn rebuild(&self) {
        let _ = self.events.send(Event::Rebuilt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_settles_at_its_seal_without_failures() {
        let (publisher, mut events) = NullPublisher::start(2);
        publisher.open(1);
        publisher.seal(1, 0);
        assert_eq!(events.try_recv(), Ok(Event::Settled(1)));
        assert_eq!(publisher.failures(1), None);
    }
}
