//! Where the records go: a broker inside this process (librdkafka's mock cluster, which child processes reach over
//! TCP), or the Kafka that was named. Either way one topic of this run.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaErrorCode;

use crate::clock;

/// Partitions of the topic: more than one, so that order per key and order of the topic differ.
pub const PARTITIONS: i32 = 8;
const TIMEOUT: Duration = Duration::from_secs(20);
const ROUTE_TIMEOUT: Duration = Duration::from_secs(5);
const EMBEDDED_ROUTE_TIMEOUT: Duration = Duration::from_millis(400);

/// What a broker inside the process is not. Said on the screen: the demo claims nothing that it did not show.
pub const NOT_SHOWN: [&str; 3] = [
    "The embedded broker keeps its records in memory, one copy each: durability and replication were not shown,",
    "nor a change of a partition's leader, quotas and access rights, or Kafka's transactions. The same on real servers:",
    "make demo DATABASE=postgres://user@host/database KAFKA=host:port",
];

/// The broker can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The mock cluster did not start.
    #[error("the embedded broker did not start: {0}; it needs free ports on 127.0.0.1")]
    Embedded(KafkaError),
    /// A real cluster refused or can't be reached.
    #[error("Kafka at {brokers} can't be used: {reason}; check --kafka, and that this machine may make topics there")]
    Real {
        /// Bootstrap servers.
        brokers: String,
        /// Why.
        reason: String,
    },
}

/// A broker and the topic of this run in it.
pub struct Broker {
    /// It lives as long as this value.
    embedded: Option<MockCluster<'static, DefaultProducerContext>>,
    brokers: String,
    topic: String,
}

impl Broker {
    /// The cluster at `kafka` (`host:port,host:port`), else an embedded one; makes the topic.
    ///
    /// # Errors
    /// When it can't be reached or refuses.
    pub async fn open(kafka: Option<&str>, topic: &str) -> Result<Self, BrokerError> {
        let Some(brokers) = kafka else { return Self::embedded(topic).map_err(BrokerError::Embedded) };
        let broker = Broker { embedded: None, brokers: brokers.to_owned(), topic: topic.to_owned() };
        broker.make_topic().await.map_err(|reason| broker.refused(reason))?;
        Ok(broker)
    }

    fn embedded(topic: &str) -> Result<Self, KafkaError> {
        let cluster = MockCluster::new(1)?;
        cluster.create_topic(topic, PARTITIONS, 1)?;
        let brokers = cluster.bootstrap_servers();
        Ok(Broker { embedded: Some(cluster), brokers, topic: topic.to_owned() })
    }

    /// Bootstrap servers, `host:port` with commas.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Whether it lives in this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// How long a relay lets it take to tell of a topic. The embedded one has no controller and never tells of a topic's
    /// settings; what is not told is not known, and does no harm.
    pub fn route_timeout(&self) -> Duration {
        if self.is_embedded() { EMBEDDED_ROUTE_TIMEOUT } else { ROUTE_TIMEOUT }
    }

    /// Deletes the topic; an embedded broker goes with the process.
    ///
    /// # Errors
    /// When the cluster refuses: the topic stays.
    pub async fn remove_topic(&self) -> Result<(), BrokerError> {
        if self.is_embedded() {
            return Ok(());
        }
        let remove = async {
            let results = self.admin()?.delete_topics(&[&self.topic], &options()).await;
            first(results.map_err(|error| error.to_string())?)
        };
        remove.await.map_err(|reason| self.refused(reason))
    }

    async fn make_topic(&self) -> Result<(), String> {
        let admin = self.admin()?;
        let topic = NewTopic::new(&self.topic, PARTITIONS, TopicReplication::Fixed(-1));
        let results = admin.create_topics([&topic], &options()).await.map_err(|error| error.to_string())?;
        first(results)?;
        // The controller answers before the brokers' own metadata know the topic.
        let led = async || {
            let metadata = admin.inner().fetch_metadata(Some(&self.topic), TIMEOUT);
            let led = metadata.map(|metadata| {
                let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
                partitions.filter(|partition| partition.leader() >= 0).count()
            });
            led.is_ok_and(|led| led == PARTITIONS as usize)
        };
        if clock::until(TIMEOUT, led).await { Ok(()) } else { Err("the new topic has no leaders".into()) }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, String> {
        ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .create()
            .map_err(|error: KafkaError| error.to_string())
    }

    fn refused(&self, reason: String) -> BrokerError {
        BrokerError::Real { brokers: self.brokers.clone(), reason }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT))
}

/// The outcome for the only topic that was asked for.
fn first(results: Vec<Result<String, (String, RDKafkaErrorCode)>>) -> Result<(), String> {
    match results.into_iter().next() {
        Some(Err((topic, code))) => Err(format!("topic {topic}: {code}")),
        _ => Ok(()),
    }
}
