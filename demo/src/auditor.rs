//! The auditor's eyes: reads the topic live, from its beginning, outside any consumer group, and tells the journal
//! what it saw. It judges by what the records carry alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost_auditor::{MessageId, Place};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{Broker, PARTITIONS};
use crate::shop::Journal;
use crate::tally::Tally;

/// Part of the wire contract, spelled here on purpose.
const MESSAGE_ID_HEADER: &str = "fencepost-message-id";
const POLL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(10);

/// A thread that reads.
pub struct Auditor {
    finish: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), KafkaError>>,
}

impl Auditor {
    /// Starts reading.
    ///
    /// # Errors
    /// Of the client.
    pub fn start(broker: &Broker, journal: Journal, tally: Arc<Tally>) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", broker.brokers())
            .set("group.id", "fencepost-demo-auditor")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "100")
            .create()?;
        let mut places = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            places.add_partition_offset(broker.topic(), partition, Offset::Beginning)?;
        }
        consumer.assign(&places)?;
        let finish = Arc::new(AtomicBool::new(false));
        let mut reader = Reader {
            consumer,
            topic: broker.topic().to_owned(),
            next: vec![0; PARTITIONS as usize],
            seen: HashSet::new(),
            journal,
            tally,
        };
        let until = Arc::clone(&finish);
        let thread = std::thread::spawn(move || reader.read(&until));
        Ok(Auditor { finish, thread })
    }

    /// Reads to the ends that the partitions have now, and stops. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// Of the client. An end that can't be reached is not awaited for ever: the count will be wrong.
    pub async fn finish(self) -> Result<(), KafkaError> {
        self.finish.store(true, Ordering::Release);
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await;
        joined.expect("nothing cancels it").expect("the auditor does not panic")
    }
}

struct Reader {
    consumer: BaseConsumer,
    topic: String,
    /// Offset behind the last record that was read, by partition.
    next: Vec<i64>,
    seen: HashSet<MessageId>,
    journal: Journal,
    tally: Arc<Tally>,
}

impl Reader {
    fn read(&mut self, finish: &AtomicBool) -> Result<(), KafkaError> {
        while !finish.load(Ordering::Acquire) {
            self.poll()?;
        }
        let mut ends = Vec::with_capacity(self.next.len());
        for partition in 0..PARTITIONS {
            ends.push(self.consumer.fetch_watermarks(&self.topic, partition, TIMEOUT)?.1);
        }
        let mut idle = Duration::ZERO;
        while self.next.iter().zip(&ends).any(|(next, end)| next < end) && idle < TIMEOUT {
            idle = if self.poll()? { Duration::ZERO } else { idle + POLL };
        }
        Ok(())
    }

    /// Whether there was a record.
    fn poll(&mut self) -> Result<bool, KafkaError> {
        let Some(polled) = self.consumer.poll(POLL) else { return Ok(false) };
        let record = polled?;
        let place = Place { partition: record.partition(), offset: record.offset() };
        self.next[record.partition() as usize] = record.offset() + 1;
        // A record without an identity is one that nobody wrote.
        let id = message_id(&record).unwrap_or(MessageId(0));
        self.tally.records.add(1);
        if self.seen.insert(id) {
            self.tally.distinct.add(1);
        }
        self.journal.with(|audit| audit.observed(id, place));
        Ok(true)
    }
}

fn message_id(record: &BorrowedMessage<'_>) -> Option<MessageId> {
    let headers = record.headers()?;
    let header = headers.iter().find(|header| header.key == MESSAGE_ID_HEADER)?;
    std::str::from_utf8(header.value?).ok()?.parse().ok()
}
