//! Topics of one test on a real broker, and a reader that verifies: it is assigned all partitions from
//! their beginning, and stops at a condition.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::{env, random, wait};

const ADMIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A cluster, and the client properties to reach it.
#[derive(Clone)]
pub struct Kafka {
    config: ClientConfig,
}

impl Kafka {
    /// The shared test cluster.
    pub fn shared() -> Self {
        Self::at(&env::kafka())
    }

    /// The cluster behind these bootstrap servers.
    pub fn at(bootstrap: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        Kafka { config }
    }

    /// Adds a librdkafka property (security, `isolation.level`) for all clients made from here on.
    pub fn with(mut self, property: &str, value: &str) -> Self {
        self.config.set(property, value);
        self
    }

    /// The bootstrap servers.
    pub fn bootstrap(&self) -> &str {
        self.config.get("bootstrap.servers").expect("set by the constructor")
    }

    /// Properties for a client of one's own.
    pub fn client_config(&self) -> ClientConfig {
        self.config.clone()
    }

    /// A new topic, `name_hint` with a random suffix, with one replica.
    ///
    /// # Panics
    /// When the broker refuses.
    pub async fn topic(&self, name_hint: &str, partitions: i32) -> TestTopic {
        self.topic_with(name_hint, partitions, &[]).await
    }

    /// As [`Self::topic`], with topic properties such as `max.message.bytes`.
    ///
    /// # Panics
    /// When the broker refuses.
    pub async fn topic_with(&self, name_hint: &str, partitions: i32, properties: &[(&str, &str)]) -> TestTopic {
        let name = format!("test.{name_hint}.{}", random::suffix());
        self.create(&name, partitions, properties).await;
        TestTopic { name, partitions, kafka: self.clone() }
    }

    /// Creates a topic under exactly this name; the caller deletes it.
    ///
    /// # Panics
    /// When the broker refuses.
    pub async fn create(&self, name: &str, partitions: i32, properties: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (property, value) in properties {
            topic = topic.set(property, value);
        }
        let admin = self.admin();
        let results = admin.create_topics([&topic], &options()).await.expect("the broker answers");
        for result in results {
            result.unwrap_or_else(|(topic, code)| panic!("topic {topic} was not created: {code}"));
        }
        // the controller answers before the broker's own metadata know the topic
        wait::until(ADMIN_TIMEOUT, "leaders of the new topic", async || {
            let metadata = admin.inner().fetch_metadata(Some(name), ADMIN_TIMEOUT).expect("the broker answers");
            let led = metadata.topics().iter().flat_map(|topic| topic.partitions()).filter(|p| p.leader() >= 0).count();
            led == partitions as usize
        })
        .await;
    }

    /// Deletes a topic.
    ///
    /// # Panics
    /// When the broker refuses.
    pub async fn delete(&self, name: &str) {
        let results = self.admin().delete_topics(&[name], &options()).await.expect("the broker answers");
        for result in results {
            result.unwrap_or_else(|(topic, code)| panic!("topic {topic} was not deleted: {code}"));
        }
    }

    /// An admin client.
    pub fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config.create().expect("an admin client")
    }

    /// A reader of a topic from the beginning of all its partitions.
    pub fn reader(&self, topic: &str) -> Reader {
        Reader::open(&self.config, topic)
    }
}

/// A topic of one test: deleted when the test passes, kept and named when it fails.
pub struct TestTopic {
    name: String,
    partitions: i32,
    kafka: Kafka,
}

impl TestTopic {
    /// The topic's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number of partitions.
    pub fn partitions(&self) -> i32 {
        self.partitions
    }

    /// A reader from the beginning of all partitions.
    pub fn reader(&self) -> Reader {
        self.kafka.reader(&self.name)
    }

    /// Reads exactly the first `count` records that can be read.
    ///
    /// # Panics
    /// When there are fewer after `deadline`.
    pub async fn read(&self, count: usize, deadline: Duration) -> Vec<Record> {
        let mut reader = self.reader();
        reader.read_until(deadline, &format!("{count} records in the topic"), |seen| seen.len() >= count).await;
        reader.into_records()
    }

    /// Reads all records that the topic holds now.
    ///
    /// # Panics
    /// When they can't be read within `deadline`.
    pub async fn read_to_end(&self, deadline: Duration) -> Vec<Record> {
        let mut reader = self.reader();
        reader.read_to_end(deadline).await;
        reader.into_records()
    }
}

impl Drop for TestTopic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("topic kept: {}", self.name);
            return;
        }
        let (kafka, name) = (self.kafka.clone(), self.name.clone());
        let delete = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // a test that killed its broker has nothing left to delete: not worth failing for
            let patience = AdminOptions::new().request_timeout(Some(Duration::from_secs(5)));
            let _ = runtime.block_on(kafka.admin().delete_topics(&[&name], &patience));
        });
        let _ = delete.join();
    }
}

/// A record as Kafka holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Partition.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
    /// Key; `None` is a null key.
    pub key: Option<Vec<u8>>,
    /// Payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Headers in their order, with repeats.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Timestamp, milliseconds since the Unix epoch.
    pub timestamp_ms: Option<i64>,
}

impl Record {
    fn copy(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
        });
        Record {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers,
            timestamp_ms: message.timestamp().to_millis(),
        }
    }

    /// Value of the first header of that name, as text.
    ///
    /// # Panics
    /// When the value is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        value.as_deref().map(|bytes| std::str::from_utf8(bytes).expect("a header of text"))
    }
}

/// Reads a topic from the beginning of all its partitions; belongs to no consumer group.
pub struct Reader {
    consumer: BaseConsumer,
    topic: String,
    records: Vec<Record>,
}

impl Reader {
    fn open(config: &ClientConfig, topic: &str) -> Self {
        let mut config = config.clone();
        // the client wants a group to exist, but an assigned reader never joins it
        config.set("group.id", "fencepost-test-reader").set("enable.auto.commit", "false");
        config.set("enable.partition.eof", "false").set("fetch.wait.max.ms", "20");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut assignment = TopicPartitionList::new();
        for partition in partitions(&consumer, topic) {
            assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
        }
        consumer.assign(&assignment).expect("an assignment");
        Reader { consumer, topic: topic.into(), records: Vec::new() }
    }

    /// What was read so far; in offset order within a partition.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Gives up the reader for what it read.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }

    /// Reads on until `enough` says so of all records so far, and returns them.
    ///
    /// # Panics
    /// When it has not after `deadline`, with the number of records that came.
    pub async fn read_until(
        &mut self,
        deadline: Duration,
        what: &str,
        mut enough: impl FnMut(&[Record]) -> bool,
    ) -> &[Record] {
        let start = wait::now();
        while !enough(&self.records) {
            let passed = start.elapsed();
            assert!(passed < deadline, "{what}: not within {deadline:?}, {} records came", self.records.len());
            if !self.take_one() {
                wait::pause().await;
            }
        }
        &self.records
    }

    /// Reads on to the end that each partition has now, and returns all records so far. Records of aborted
    /// transactions, and control records, count as passed.
    ///
    /// # Panics
    /// When that end isn't reached within `deadline`.
    pub async fn read_to_end(&mut self, deadline: Duration) -> &[Record] {
        let mut ends = Vec::new();
        for partition in partitions(&self.consumer, &self.topic) {
            let marks = self.consumer.fetch_watermarks(&self.topic, partition, ADMIN_TIMEOUT);
            let (low, high) = marks.expect("the broker tells the ends of its partitions");
            if high > low {
                ends.push((partition, high));
            }
        }
        let start = wait::now();
        while !self.passed(&ends) {
            assert!(start.elapsed() < deadline, "the end of {}: not reached within {deadline:?}", self.topic);
            if !self.take_one() {
                wait::pause().await;
            }
        }
        &self.records
    }

    /// Whether the reader stands at or behind all `ends`.
    fn passed(&self, ends: &[(i32, i64)]) -> bool {
        let positions = self.consumer.position().expect("an assigned reader has positions");
        ends.iter().all(|(partition, end)| {
            let place = positions.find_partition(&self.topic, *partition).map(|entry| entry.offset());
            matches!(place, Some(Offset::Offset(offset)) if offset >= *end)
        })
    }

    /// Takes the next record that the client has fetched already; false when there is none.
    fn take_one(&mut self) -> bool {
        match self.consumer.poll(Duration::ZERO) {
            None => false,
            Some(Ok(message)) => {
                self.records.push(Record::copy(&message));
                true
            }
            // connections that break while a test restarts the broker heal by themselves
            Some(Err(_)) => false,
        }
    }
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> Vec<i32> {
    let metadata = consumer.fetch_metadata(Some(topic), ADMIN_TIMEOUT).expect("the broker describes the topic");
    let found = metadata.topics().iter().find(|entry| entry.name() == topic).expect("the topic that was asked for");
    let partitions: Vec<i32> = found.partitions().iter().map(|partition| partition.id()).collect();
    assert!(!partitions.is_empty(), "topic {topic} does not exist");
    partitions
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ADMIN_TIMEOUT)).operation_timeout(Some(ADMIN_TIMEOUT))
}
