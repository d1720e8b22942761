//! Reads what a topic holds, for an [`Audit`](crate::Audit): every record from the first offset to
//! the end that each partition had when reading began.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::{MessageId, Place};

/// Header that carries the message id. Part of the wire contract, spelled here on purpose: the
/// auditor must notice when the relay changes it.
const MESSAGE_ID_HEADER: &str = "fencepost-message-id";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// The topic could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// Kafka or its client refused.
    #[error("the topic can't be read: {0}")]
    Kafka(#[from] KafkaError),
    /// It has no partitions, or doesn't exist.
    #[error("topic {0} has no partitions: check its name and the brokers' addresses")]
    Missing(String),
    /// A record without a legible message id.
    #[error("the record at partition {} offset {} has no legible message id header", .0.partition, .0.offset)]
    NoMessageId(Place),
    /// The end was not reached in time.
    #[error("{missing} offsets of the topic were not readable within {} s", .after.as_secs())]
    Slow {
        /// Offsets below the ends that were not reached.
        missing: i64,
        /// How long it was tried.
        after: Duration,
    },
}

/// Which records to read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Bootstrap servers.
    pub brokers: &'a str,
    /// Which topic.
    pub topic: &'a str,
    /// Skip records of open or aborted Kafka transactions.
    pub read_committed: bool,
    /// How long it may take altogether.
    pub within: Duration,
}

/// Tells `each` the message id and the place of every record, partition by partition in offset order.
///
/// # Errors
/// See [`TopicError`]; some records may have been told by then.
pub fn read(reading: Reading<'_>, mut each: impl FnMut(MessageId, Place)) -> Result<(), TopicError> {
    let isolation = if reading.read_committed { "read_committed" } else { "read_uncommitted" };
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", reading.brokers)
        .set("group.id", "fencepost-auditor")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "false")
        .set("isolation.level", isolation)
        .create()?;
    let mut ends = assign(&consumer, reading.topic)?;
    drain(&consumer, &mut ends, reading.within, &mut each)
}

/// First unread and end offset of one partition.
struct End {
    partition: i32,
    next: i64,
    end: i64,
}

fn assign(consumer: &BaseConsumer, topic: &str) -> Result<Vec<End>, TopicError> {
    let metadata = consumer.fetch_metadata(Some(topic), REQUEST_TIMEOUT)?;
    let partitions = metadata.topics().first().map(|topic| topic.partitions()).unwrap_or_default();
    if partitions.is_empty() {
        return Err(TopicError::Missing(topic.to_owned()));
    }
    let mut ends = Vec::with_capacity(partitions.len());
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        let (low, high) = consumer.fetch_watermarks(topic, partition.id(), REQUEST_TIMEOUT)?;
        list.add_partition_offset(topic, partition.id(), Offset::Offset(low))?;
        ends.push(End { partition: partition.id(), next: low, end: high });
    }
    consumer.assign(&list)?;
    Ok(ends)
}

#[allow(clippy::disallowed_methods, reason = "a deadline for the wait; the judgement reads no clock")]
fn drain(
    consumer: &BaseConsumer,
    ends: &mut [End],
    within: Duration,
    each: &mut impl FnMut(MessageId, Place),
) -> Result<(), TopicError> {
    let deadline = Instant::now() + within;
    while ends.iter().any(|end| end.next < end.end) {
        if let Some(message) = consumer.poll(POLL) {
            take(&message?, ends, each)?;
        } else {
            // Control records and aborted ones at the end are never handed out, but move the position.
            catch_up(consumer, ends)?;
        }
        if Instant::now() > deadline {
            let missing = ends.iter().map(|end| (end.end - end.next).max(0)).sum();
            return Err(TopicError::Slow { missing, after: within });
        }
    }
    Ok(())
}

fn take(
    message: &BorrowedMessage<'_>,
    ends: &mut [End],
    each: &mut impl FnMut(MessageId, Place),
) -> Result<(), TopicError> {
    let place = Place { partition: message.partition(), offset: message.offset() };
    let Some(end) = ends.iter_mut().find(|end| end.partition == place.partition) else { return Ok(()) };
    end.next = place.offset + 1;
    if place.offset < end.end {
        each(message_id(message).ok_or(TopicError::NoMessageId(place))?, place);
    }
    Ok(())
}

fn catch_up(consumer: &BaseConsumer, ends: &mut [End]) -> Result<(), TopicError> {
    for element in consumer.position()?.elements() {
        if let (Offset::Offset(next), Some(end)) =
            (element.offset(), ends.iter_mut().find(|end| end.partition == element.partition()))
        {
            end.next = end.next.max(next);
        }
    }
    Ok(())
}

fn message_id(message: &BorrowedMessage<'_>) -> Option<MessageId> {
    let headers = message.headers()?;
    let header = headers.iter().find(|header| header.key == MESSAGE_ID_HEADER)?;
    std::str::from_utf8(header.value?).ok()?.parse().ok()
}
