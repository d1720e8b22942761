//! The harness itself: its database, topics, proxy and waiting do what the tests rely on.

use std::time::Duration;

use fencepost_integration::database::{TestDatabase, connect, execute};
use fencepost_integration::kafka::{Kafka, TestTopic};
use fencepost_integration::proxy::{Direction, Flow, Proxy};
use fencepost_integration::{env, wait};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const DEADLINE: Duration = Duration::from_secs(20);

async fn exists(name: &str) -> bool {
    let mut admin = connect(&env::postgres()).await;
    let found: Option<i32> = sqlx::query_scalar("SELECT 1 FROM pg_database WHERE datname = $1")
        .bind(name)
        .fetch_optional(&mut admin)
        .await
        .unwrap();
    found.is_some()
}

#[tokio::test]
async fn a_database_is_dropped_when_its_test_passes() {
    let database = TestDatabase::plain("harness drop").await;
    let mut open = database.connect().await;
    execute(&mut open, "CREATE TABLE t (a int)").await;
    let name = database.name().to_owned();
    assert!(exists(&name).await);
    drop(database);
    assert!(!exists(&name).await, "{name}, also with a connection open");
}

#[tokio::test]
async fn a_database_is_kept_when_its_test_fails() {
    let database = TestDatabase::plain("harness keep").await;
    let name = database.name().to_owned();
    let failed = std::thread::spawn(move || {
        let _database = database;
        panic!("a test that fails, on purpose");
    });
    assert!(failed.join().is_err());
    assert!(exists(&name).await);
    execute(&mut connect(&env::postgres()).await, format!("DROP DATABASE {name}")).await;
}

#[tokio::test]
async fn migrated_databases_are_copies_with_origins_of_their_own() {
    let mut origins = Vec::new();
    for _ in 0..2 {
        let database = TestDatabase::create("harness copy").await;
        let origin =
            r#"SELECT source_id, (canary::text::bigint & 4294967295) = xmin::text::bigint FROM "fencepost".origin"#;
        let origin: (uuid::Uuid, bool) = sqlx::query_as(origin).fetch_one(&mut database.connect().await).await.unwrap();
        assert!(origin.1, "the canary tells that the row was written here");
        origins.push(origin.0);
    }
    assert_ne!(origins[0], origins[1]);
}

fn send(topic: &TestTopic, records: i32) {
    let producer: ThreadedProducer<_> = Kafka::shared().client_config().create().unwrap();
    for n in 0..records {
        let value = n.to_string();
        let headers = OwnedHeaders::new()
            .insert(Header { key: "n", value: Some(&value) })
            .insert(Header { key: "same", value: Some("first") })
            .insert(Header { key: "same", value: Some("") })
            .insert(Header::<&str> { key: "same", value: None });
        let record = BaseRecord::<str, str>::to(topic.name()).partition(n % topic.partitions()).headers(headers);
        let record = if n == 0 { record.payload("first") } else { record.key(&value) };
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
}

#[tokio::test]
async fn a_reader_sees_all_partitions_byte_for_byte() {
    let topic = Kafka::shared().topic("harness", 3).await;
    assert!(topic.read_to_end(DEADLINE).await.is_empty());
    send(&topic, 10);
    let mut records = topic.read(10, DEADLINE).await;
    records.sort_by_key(|record| record.header("n").unwrap().parse::<i32>().unwrap());
    let places: Vec<_> = records.iter().map(|record| (record.partition, record.offset)).collect();
    let expected = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (0, 3)];
    assert_eq!(places, expected);
    assert_eq!((&records[0].key, &records[0].payload), (&None, &Some(b"first".to_vec())));
    assert_eq!((&records[1].key, &records[1].payload), (&Some(b"1".to_vec()), &None));
    let same: Vec<_> = records[1].headers[1..].iter().map(|(_, value)| value.as_deref()).collect();
    assert_eq!(same, [Some(b"first".as_slice()), Some(b"".as_slice()), None]);
    assert_eq!(topic.read_to_end(DEADLINE).await.len(), 10);
}

/// A server that sends back what it gets, behind a proxy.
async fn echo() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    Proxy::to(&target).await
}

/// What comes until the connection ends.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // a connection that is reset has ended as well
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("the connection ends");
    bytes
}

async fn say(stream: &mut TcpStream, text: &[u8]) -> Vec<u8> {
    stream.write_all(text).await.unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_proxy_cuts_behind_the_nth_byte_of_either_direction() {
    for direction in [Direction::ToServer, Direction::ToClient] {
        for bytes in 0..5 {
            let proxy = echo().await;
            let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
            assert_eq!(say(&mut stream, b"before").await, b"before");
            proxy.cut_after(direction, bytes);
            stream.write_all(b"12345").await.unwrap();
            let came = rest(&mut stream).await;
            assert_eq!(proxy.bytes(direction), 6 + bytes);
            assert_eq!(proxy.cuts(), 1);
            if direction == Direction::ToClient {
                assert_eq!(came, b"12345"[..bytes as usize]);
            }
            let mut next = TcpStream::connect(proxy.address()).await.unwrap();
            assert_eq!(say(&mut next, b"after").await, b"after", "a cut comes once");
        }
    }
}

#[tokio::test]
async fn the_proxy_loses_the_reply_to_a_phrase_on_the_connection_that_said_it() {
    let proxy = echo().await;
    let mut one = TcpStream::connect(proxy.address()).await.unwrap();
    let mut other = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.cut_once_said(b"mark", Direction::ToClient, 0);
    assert_eq!(say(&mut other, b"something else").await, b"something else");
    let before = proxy.bytes(Direction::ToServer);
    one.write_all(b"a mark").await.unwrap();
    assert_eq!(rest(&mut one).await, b"");
    assert_eq!(proxy.bytes(Direction::ToServer), before + 6, "the server got all of it");
    assert_eq!(say(&mut other, b"mark").await, b"mark");
}

#[tokio::test]
async fn the_proxy_holds_loses_refuses_and_cuts() {
    let proxy = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Direction::ToServer, Flow::Held);
    stream.write_all(b"late").await.unwrap();
    let mut answer = [0; 4];
    let early = tokio::time::timeout(Duration::from_millis(50), stream.read_exact(&mut answer)).await;
    assert!(early.is_err(), "nothing comes while the direction is held");
    proxy.set(Direction::ToServer, Flow::Delayed(Duration::from_millis(30)));
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"late");
    let start = wait::now();
    say(&mut stream, b"slow").await;
    assert!(start.elapsed() >= Duration::from_millis(30));
    proxy.set(Direction::ToServer, Flow::Lost);
    stream.write_all(b"gone").await.unwrap();
    proxy.refuse(true);
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(rest(&mut refused).await, b"");
    assert_eq!(proxy.connections(), 1);
    proxy.cut_all();
    assert_eq!(rest(&mut stream).await, b"");
    wait::until(DEADLINE, "no connection is left", async || proxy.connections() == 0).await;
}

#[tokio::test]
async fn a_database_is_reached_through_the_proxy_until_it_is_cut() {
    let database = TestDatabase::plain("harness proxy").await;
    let proxy = Proxy::to(database.server_address()).await;
    let mut connection = connect(&database.url_at(&proxy.address())).await;
    execute(&mut connection, "SELECT 1").await;
    proxy.cut_all();
    assert!(sqlx::query("SELECT 1").execute(&mut connection).await.is_err());
}

#[tokio::test]
#[should_panic(expected = "never true did not come true within 20ms")]
async fn waiting_ends_at_the_deadline() {
    wait::until(Duration::from_millis(20), "never true", async || false).await;
}
