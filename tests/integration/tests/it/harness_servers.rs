//! The harness's private servers and processes: they die, come back, and stand behind a proxy as told.

use std::time::Duration;

use fencepost_integration::database::{TestDatabase, connect, execute};
use fencepost_integration::kafka::Kafka;
use fencepost_integration::proxy::Direction;
use fencepost_integration::servers::{PrivateKafka, PrivatePostgres, SecuredKafka};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Message};

const DEADLINE: Duration = Duration::from_secs(30);

/// A context that tells the outcome of each record over a channel.
struct Outcomes(std::sync::mpsc::Sender<Result<i64, KafkaError>>);

impl ClientContext for Outcomes {}

impl ProducerContext for Outcomes {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let outcome = result.as_ref().map(Message::offset).map_err(|(error, _)| error.clone());
        self.0.send(outcome).expect("the test listens");
    }
}

/// Sends one record and returns its outcome.
fn send(kafka: &Kafka, topic: &str) -> Result<i64, KafkaError> {
    let (sender, outcomes) = std::sync::mpsc::channel();
    let mut config = kafka.client_config();
    config.set("message.timeout.ms", "20000").set("topic.metadata.propagation.max.ms", "2000");
    let producer: BaseProducer<_> = config.create_with_context(Outcomes(sender)).unwrap();
    producer.send(BaseRecord::<(), str>::to(topic).payload("one")).map_err(|(error, _)| error).unwrap();
    producer.flush(DEADLINE).unwrap();
    outcomes.recv().unwrap()
}

#[tokio::test]
async fn a_private_postgres_keeps_what_was_committed_before_a_crash() {
    let server = PrivatePostgres::start(&["wal_level=logical"]);
    let database = TestDatabase::plain_on(server.url(), "crash").await;
    let mut connection = database.connect().await;
    execute(&mut connection, "CREATE TABLE t AS SELECT current_setting('wal_level') AS level").await;
    server.crash();
    assert!(sqlx::query("SELECT 1").execute(&mut connection).await.is_err());
    server.restart();
    let mut connection = connect(&database.url()).await;
    let level: String = sqlx::query_scalar("SELECT level FROM t").fetch_one(&mut connection).await.unwrap();
    assert_eq!(level, "logical");
    server.stop();
}

#[tokio::test]
async fn a_private_kafka_keeps_its_topics_over_a_kill_and_its_clients_behind_the_proxy() {
    let (broker, proxy) = PrivateKafka::behind_proxy(&["message.max.bytes=2000"]).await;
    let topic = broker.kafka().topic("harness", 1).await;
    let client = Kafka::at(broker.address());
    let sent = {
        let (client, name) = (client.clone(), topic.name().to_owned());
        tokio::task::spawn_blocking(move || send(&client, &name)).await.unwrap()
    };
    assert_eq!(sent, Ok(0));
    let through = proxy.bytes(Direction::ToServer);
    assert!(through > 0, "the client came through the proxy");
    broker.kill9();
    broker.restart();
    assert_eq!(topic.read(1, DEADLINE).await.len(), 1);
    assert_eq!(proxy.bytes(Direction::ToServer), through, "the harness did not");
}

#[tokio::test]
async fn a_secured_kafka_lets_a_user_write_where_it_may() {
    let server = SecuredKafka::start();
    let topic = server.broker().kafka().topic("harness", 1).await;
    server.allow_write(topic.name());
    assert_eq!(send(&server.user(), topic.name()), Ok(0));
    server.deny_write(topic.name());
    let refused = RDKafkaErrorCode::TopicAuthorizationFailed;
    assert_eq!(send(&server.user(), topic.name()), Err(KafkaError::MessageProduction(refused)));
    assert_eq!(topic.read_to_end(DEADLINE).await.len(), 1);
}
