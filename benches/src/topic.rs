//! The topic of one measurement, and how far it is filled.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{Offset, message::BorrowedMessage};

use crate::clock;
use crate::error::{Error, Result};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const READY_WITHIN: Duration = Duration::from_secs(30);
const GAP: Duration = Duration::from_millis(50);

/// A topic whose records carry the broker's append time: the clock of a drain.
pub(crate) struct Topic {
    pub(crate) name: String,
    brokers: String,
    partitions: i32,
    watcher: BaseConsumer,
}

impl Topic {
    /// A fresh topic, ready to be written.
    pub(crate) async fn create(brokers: &str, name: &str, partitions: i32) -> Result<Self> {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let topic = topic.set("message.timestamp.type", "LogAppendTime");
        for outcome in admin(brokers)?.create_topics([&topic], &options()).await? {
            outcome.map_err(|(name, code)| Error::other(format!("topic {name} can't be made: {code}")))?;
        }
        let topic =
            Topic { name: name.to_owned(), brokers: brokers.to_owned(), partitions, watcher: consumer(brokers)? };
        // the controller answers before the broker leads the partitions
        clock::until("leaders of the topic", READY_WITHIN, GAP, async || Ok(topic.led()?.then_some(()))).await?;
        Ok(topic)
    }

    fn led(&self) -> Result<bool> {
        let metadata = self.watcher.fetch_metadata(Some(&self.name), REQUEST_TIMEOUT)?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        Ok(partitions.filter(|partition| partition.leader() >= 0).count() == self.partitions as usize)
    }

    pub(crate) async fn delete(&self) -> Result<()> {
        for outcome in admin(&self.brokers)?.delete_topics(&[&self.name], &options()).await? {
            outcome.map_err(|(name, code)| Error::other(format!("topic {name} can't be deleted: {code}")))?;
        }
        Ok(())
    }

    /// End offset of each partition.
    pub(crate) fn ends(&self) -> Result<Vec<i64>> {
        let end = |partition| Ok(self.watcher.fetch_watermarks(&self.name, partition, REQUEST_TIMEOUT)?.1);
        (0..self.partitions).map(end).collect()
    }

    /// Records that the topic holds, in all partitions.
    pub(crate) fn records(&self) -> Result<u64> {
        Ok(self.ends()?.iter().sum::<i64>() as u64)
    }

    /// Waits until the topic holds `records`. A topic that gains none for `patience` is an error.
    pub(crate) async fn filled(&self, records: u64, patience: Duration, gap: Duration) -> Result<()> {
        let mut seen = 0;
        let mut progress_ns = clock::now_ns();
        loop {
            let now = self.records()?;
            if now >= records {
                return Ok(());
            }
            if now > seen {
                (seen, progress_ns) = (now, clock::now_ns());
            } else if clock::now_ns() - progress_ns > patience.as_nanos() as u64 {
                let what = format!("{records} records in the topic, which stopped at {now},");
                return Err(Error::Slow { what, seconds: patience.as_secs() });
            }
            clock::pause(gap).await;
        }
    }

    /// A consumer that stands at these offsets, one for each partition.
    pub(crate) fn reader(&self, offsets: &[i64]) -> Result<BaseConsumer> {
        let reader = consumer(&self.brokers)?;
        let mut places = TopicPartitionList::new();
        for (partition, offset) in (0..self.partitions).zip(offsets) {
            places.add_partition_offset(&self.name, partition, Offset::Offset(*offset))?;
        }
        reader.assign(&places)?;
        Ok(reader)
    }

    /// Hands every record that the topic holds now to `each`, in offset order within a partition.
    pub(crate) fn read_all(&self, mut each: impl FnMut(&BorrowedMessage<'_>)) -> Result<()> {
        let ends = self.ends()?;
        let reader = self.reader(&vec![0; ends.len()])?;
        let mut left: i64 = ends.iter().sum();
        let mut silent = 0;
        while left > 0 {
            let Some(message) = reader.poll(REQUEST_TIMEOUT) else {
                silent += 1;
                if silent > 3 {
                    return Err(Error::other(format!("{left} records of topic {} can't be read", self.name)));
                }
                continue;
            };
            let message = message?;
            left -= 1;
            each(&message);
        }
        Ok(())
    }
}

fn consumer(brokers: &str) -> Result<BaseConsumer> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "fencepost-bench");
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
    // a reader of millions of records in one process must not hold them all
    config.set("queued.max.messages.kbytes", "8192").set("fetch.message.max.bytes", "1048576");
    Ok(config.create()?)
}

fn admin(brokers: &str) -> Result<AdminClient<DefaultClientContext>> {
    Ok(ClientConfig::new().set("bootstrap.servers", brokers).create()?)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(READY_WITHIN)).operation_timeout(Some(READY_WITHIN))
}
