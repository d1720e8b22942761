//! Health, readiness and metrics of a running relay, while what it depends on is missing.

use std::net::TcpListener;
use std::time::Duration;

use fencepost_integration::database::TestDatabase;
use fencepost_integration::env;
use fencepost_integration::kafka::Kafka;
use fencepost_integration::process::{Fencepost, HttpAnswer, Launch, http_get};
use fencepost_integration::wait;

const DEADLINE: Duration = Duration::from_secs(30);

/// A port that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string()
}

fn relay(address: &str, url: &str, brokers: &str) -> Fencepost {
    let launch = Launch::new(&["run", "--set", &format!("http.listen={address}"), "--set", "log.level=trace"]);
    launch.env("FENCEPOST__SOURCE__0__URL", url).env("FENCEPOST__KAFKA__BROKERS", brokers).start("http")
}

async fn get(address: &str, path: &str) -> HttpAnswer {
    wait::until_some(DEADLINE, "an answer", async || http_get(address, path).await).await
}

#[tokio::test]
async fn it_answers_while_neither_database_nor_kafka_does() {
    let address = free_address();
    let mut relay = relay(&address, "postgres://me:SECRET123@127.0.0.1:1/app", "127.0.0.1:1");
    assert_eq!(get(&address, "/health").await.status, 200);
    let ready = get(&address, "/ready").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("\"ready\":false") && ready.body.contains("database: "), "{}", ready.body);
    assert_eq!(get(&address, "/ready/main").await.status, 503);
    assert_eq!(get(&address, "/ready/other").await.status, 404);
    let metrics = get(&address, "/metrics").await;
    assert!(metrics.body.contains("fencepost_source_up{source=\"main\"} 0"), "{}", metrics.body);
    assert_eq!(get(&address, "/").await.status, 404);
    let check = |args: &[&str]| {
        let all = [&["healthcheck", "--address", &address], args].concat();
        Launch::new(&all).env("FENCEPOST__SOURCE__0__URL", "postgres://me@db/app").run().status.code()
    };
    assert_eq!(check(&[]), Some(1), "not ready");
    relay.term();
    assert_eq!(relay.exited(DEADLINE).await.code(), Some(0), "nothing was held");
    assert_eq!(check(&["--timeout", "2s"]), Some(3), "nobody answers");
    assert!(!relay.log().contains("SECRET123"), "b164: no secret at any level");
}

#[tokio::test]
async fn a_served_source_is_ready() {
    let database = TestDatabase::create("http_ready").await;
    let address = free_address();
    let mut relay = relay(&address, &database.url(), &env::kafka());
    wait::until(DEADLINE, "ready", async || {
        http_get(&address, "/ready").await.is_some_and(|answer| answer.status == 200)
    })
    .await;
    let all_lanes = async || get(&address, "/ready").await.body.matches("\"phase\":\"running\"").count() == 8;
    wait::until(DEADLINE, "all lanes", all_lanes).await;
    let metrics = get(&address, "/metrics").await.body;
    assert!(metrics.contains("fencepost_source_ready{source=\"main\"} 1"), "{metrics}");
    assert!(metrics.contains("fencepost_lane_generation{lane=\"7\",source=\"main\"}"), "{metrics}");
    relay.term();
    assert_eq!(relay.exited(DEADLINE).await.code(), Some(0));
}

#[tokio::test]
async fn b164_it_listens_on_loopback_alone_unless_told_otherwise() {
    let config = Launch::new(&["config"]).env("FENCEPOST__SOURCE__0__URL", "postgres://me@db/app").run();
    let printed = String::from_utf8_lossy(&config.stdout).into_owned();
    assert!(printed.contains("listen = \"127.0.0.1:"), "{printed}");
    let address = free_address();
    let relay = relay(&address, "postgres://me@127.0.0.1:1/app", "127.0.0.1:1");
    assert_eq!(get(&address, "/health").await.status, 200);
    // Every listening socket of the process: local address in hexadecimal, state 0A.
    let inodes = sockets(relay.id());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
    let mine = table.lines().filter(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(3) == Some(&"0A") && fields.get(9).is_some_and(|inode| inodes.iter().any(|one| one == inode))
    });
    let addresses: Vec<_> = mine.filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(addresses.len(), 1, "{addresses:?}");
    assert!(addresses[0].starts_with("0100007F:"), "{addresses:?}");
}

/// Inode numbers of a process's sockets.
fn sockets(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("open files").flatten();
    let targets = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inode =
        |target: std::path::PathBuf| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    targets.filter_map(inode).collect()
}

#[tokio::test]
async fn an_address_in_use_ends_the_start_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut relay = relay(&address, "postgres://me@127.0.0.1:1/app", "127.0.0.1:1");
    assert_eq!(relay.exited(DEADLINE).await.code(), Some(1));
    assert!(relay.log().contains("change http.listen or free the address"), "{}", relay.log());
}

#[tokio::test]
async fn b164_no_message_is_in_a_log_or_an_answer_at_any_level() {
    let database = TestDatabase::create("http_secret").await;
    let topic = Kafka::shared().topic("http_secret", 2).await;
    let mut connection = database.connect().await;
    let sql = "SELECT \"fencepost\".enqueue(topic => t, type => 't', payload => 'SECRET123', key => 'SECRET123', \
               header_keys => ARRAY['h'], header_values => ARRAY['SECRET123'::bytea]) \
               FROM unnest(ARRAY[$1, 'no-such-topic', 'x', $1]) t";
    sqlx::query(sql).bind(topic.name()).execute(&mut connection).await.expect("enqueue");
    let address = free_address();
    let mut relay = relay(&address, &database.url(), &env::kafka());
    // One key, so one lane: the first is published, the others wait behind the topic that is missing.
    topic.read(1, DEADLINE).await;
    wait::until(DEADLINE, "the lane waits", async || get(&address, "/ready").await.body.contains("waiting")).await;
    let mut seen = relay.log();
    for path in ["/health", "/ready", "/ready/main", "/metrics", "/nothing"] {
        seen += &get(&address, path).await.body;
    }
    for verb in [&["status"][..], &["status", "--json"], &["lane", "list"], &["lane", "list", "--json"]] {
        let output = Launch::new(verb).env("FENCEPOST__SOURCE__0__URL", &database.url()).run();
        seen += &String::from_utf8_lossy(&[output.stdout, output.stderr].concat());
    }
    relay.term();
    relay.exited(DEADLINE).await;
    seen += &relay.log();
    assert!(seen.contains("TRACE") && !seen.contains("SECRET123"), "a message's content was shown");
}
