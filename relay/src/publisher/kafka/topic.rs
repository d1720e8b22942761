//! What of a topic's configuration decides whether a record can be taken. It is asked for before the first
//! record goes there, because a broker's refusal comes too late: it fails a whole request, and behind
//! the first request of a new producer to a partition Kafka takes the later ones that are in flight
//! already (it knows no sequence yet), so that later records of the failed one's key overtake it.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencepost_core::failure::Class;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::Producer;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::Inner;
use super::classify::{class_of_unwritten, refuses_client};
use super::line::Client;

/// An admin client costs threads and a connection: it is kept while lookups come, and no longer than this.
const IDLE: Duration = Duration::from_secs(10);

/// A topic that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) partitions: i32,
    /// `max.message.bytes`, which bounds a whole record batch; `None` if this client may not know.
    pub(super) limit: Option<usize>,
    /// Whether it is compacted: such a topic takes no null keys.
    pub(super) compacted: bool,
}

/// What a lookup found: the topic, or why not.
pub(super) type Lookup = Result<Topic, (Class, i16)>;

/// No answer: there was no client to ask with.
pub(super) const NO_CLIENT: Lookup = Err((Class::DestinationDown, Code::BrokerDestroy as i16));

/// Serves lookups, one after the other, until nobody can ask any more.
pub(super) fn serve(questions: &Receiver<String>, inner: &Weak<Inner>, patience: Duration) {
    let mut admin = None;
    loop {
        let topic = match &admin {
            None => questions.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => questions.recv_timeout(IDLE),
        };
        match topic {
            Ok(topic) => {
                let Some(inner) = inner.upgrade() else { return };
                answer(&inner, &topic, &mut admin, patience);
            }
            Err(RecvTimeoutError::Timeout) => admin = None,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Asks for one topic and tells those who wait.
fn answer(inner: &Arc<Inner>, topic: &str, admin: &mut Option<Describer>, patience: Duration) {
    let mut found = inner.client().map_or(NO_CLIENT, |client| look_up(&client, topic, patience));
    if let Ok(found) = &mut found {
        if admin.is_none() {
            *admin = Describer::new(&inner.config(), patience);
        }
        let described = admin.as_ref().and_then(|admin| admin.describe(&[topic.to_owned()])?.pop().flatten());
        if let Some(described) = described {
            (found.limit, found.compacted) = (limit(&described), compacted(&described));
        }
    }
    inner.shared.routes.learn(topic, found);
}

/// Asks the cluster whether a topic exists. Blocks up to `patience`.
fn look_up(client: &Client, topic: &str, patience: Duration) -> Lookup {
    let metadata = client.client().fetch_metadata(Some(topic), patience).map_err(|error| {
        let code = error.rdkafka_error_code().unwrap_or(Code::OperationTimedOut);
        (Class::DestinationDown, code as i16)
    })?;
    let missing = Err((Class::Route, Code::UnknownTopicOrPartition as i16));
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else { return missing };
    match found.error().map(Code::from) {
        // while a leader is elected the topic exists all the same
        None | Some(Code::NoError | Code::LeaderNotAvailable) => match i32::try_from(found.partitions().len()) {
            Ok(0) | Err(_) => missing,
            Ok(partitions) => Ok(Topic { partitions, ..Topic::default() }),
        },
        Some(code) if refuses_client(code) => Err((Class::DestinationDown, code as i16)),
        Some(code) => Err((class_of_unwritten(code), code as i16)),
    }
}

/// Reads topics' configurations.
pub(super) struct Describer {
    admin: AdminClient<DefaultClientContext>,
    runtime: tokio::runtime::Runtime,
    patience: Duration,
}

impl Describer {
    /// `None` if no client can be made; then nothing is known of the topics.
    pub(super) fn new(config: &ClientConfig, patience: Duration) -> Option<Self> {
        let mut config = config.clone();
        // what only a producer of records needs
        for name in ["enable.idempotence", "enable.gapless.guarantee", "statistics.interval.ms"] {
            config.remove(name);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        Some(Describer { admin: config.create().ok()?, runtime, patience })
    }

    /// By topic, `None` where this client may not know; `None` for all if the cluster does not answer in time.
    pub(super) fn describe(&self, topics: &[String]) -> Option<Vec<Option<ConfigResource>>> {
        let resources: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
        let options = AdminOptions::new().request_timeout(Some(self.patience)).operation_timeout(Some(self.patience));
        let described = self.runtime.block_on(async {
            tokio::time::timeout(self.patience, self.admin.describe_configs(&resources, &options)).await.ok()?.ok()
        })?;
        Some(described.into_iter().map(Result::ok).collect())
    }
}

/// `max.message.bytes`.
pub(super) fn limit(topic: &ConfigResource) -> Option<usize> {
    topic.get("max.message.bytes")?.value.as_deref()?.parse().ok()
}

fn compacted(topic: &ConfigResource) -> bool {
    topic
        .get("cleanup.policy")
        .and_then(|entry| entry.value.as_deref())
        .is_some_and(|policy| policy.contains("compact"))
}
