//! The demo as CI sees it: not a terminal, and shortened. That it fails when a count is wrong is shown beside its verdict
//! (`every_wrong_count_fails`).

use std::time::Duration;

use fencepost_integration::database::TestDatabase;
use fencepost_integration::kafka::Kafka;
use fencepost_integration::process::{Fencepost, Launch};
use fencepost_integration::{env, wait};

/// The limit for a run.
const WITHIN: Duration = Duration::from_secs(60);
/// The end of an interrupted one: far less than a session of Kafka's lasts.
const SOON: Duration = Duration::from_secs(20);
/// An early freeze and no encore.
const BRIEFLY: [&str; 4] = ["--freeze-at", "20", "--encore", "0"];

fn launch(args: &[&str]) -> Launch {
    Launch::of(&env::demo_bin(), &[&BRIEFLY, args].concat())
}

/// Exit code and output of a whole run.
async fn told(mut demo: Fencepost) -> (Option<i32>, String) {
    let status = demo.exited(WITHIN).await;
    (status.code(), demo.log())
}

/// The last line of the verdict.
fn verdict(log: &str) -> &str {
    log.lines().find(|line| line.starts_with("verdict: ")).unwrap_or_else(|| panic!("no verdict in:\n{log}"))
}

/// The number before `words` in the verdict.
fn count(verdict: &str, words: &str) -> u64 {
    let before = verdict.split_once(&format!(" {words}")).unwrap_or_else(|| panic!("no {words:?} in: {verdict}")).0;
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn assert_passed(code: Option<i32>, log: &str) {
    let verdict = verdict(log);
    assert!(code == Some(0) && verdict.starts_with("verdict: pass: "), "exit code {code:?}\n{log}");
    let committed = count(verdict, "orders committed");
    assert!(committed > 100, "{verdict}");
    assert_eq!(count(verdict, "messages in the topic"), committed);
    assert_eq!(count(verdict, "effects applied"), committed);
    assert!(count(verdict, "stale marks rejected") >= 1, "{verdict}");
    assert_eq!(count(verdict, "order violations"), 0);
    for told in ["stands still: it has checked its lease", "took over lanes", "is rejected:", "lanes taken over"] {
        assert!(log.contains(told), "{told:?} is not in:\n{log}");
    }
    assert!(!log.contains('\u{1b}'), "a stream that is no terminal gets plain lines:\n{log}");
}

/// Schemas of demos in the database.
async fn schemas_left(database: &TestDatabase) -> i64 {
    let sql = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'fencepost%'";
    sqlx::query_scalar(sql).fetch_one(&mut database.connect().await).await.expect("a count")
}

#[tokio::test]
async fn the_story_passes_on_postgres_and_the_embedded_broker() {
    let database = TestDatabase::plain("demo").await;
    let (code, log) = told(launch(&["--database", &database.url()]).start("demo")).await;
    assert_passed(code, &log);
    assert!(log.contains("durability and replication were not shown"), "{log}");
    let folder = log.lines().find_map(|line| line.split_once(" files ")).expect("where its files are").1.trim();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
}

#[tokio::test]
async fn the_story_passes_on_real_servers_and_leaves_nothing_there() {
    let database = TestDatabase::plain("demo").await;
    let (url, kafka) = (database.url(), env::kafka());
    let (code, log) = told(launch(&["--database", &url, "--kafka", &kafka]).start("demo")).await;
    assert_passed(code, &log);
    assert!(!log.contains("were not shown"), "real servers show it:\n{log}");
    assert_eq!(schemas_left(&database).await, 0, "schemas are left");
    let topic = log.split_once(", topic ").expect("the topic's name").1.lines().next().expect("a line");
    let admin = Kafka::shared().admin();
    wait::until(WITHIN, "the topic is gone", async || {
        let metadata = admin.inner().fetch_metadata(None, WITHIN).expect("the broker answers");
        metadata.topics().iter().all(|known| known.name() != topic)
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_story_ends_at_once_and_leaves_nothing() {
    let database = TestDatabase::plain("demo").await;
    let mut demo = launch(&["--database", &database.url()]).start("demo");
    demo.logged("stands still", WITHIN).await;
    demo.term();
    // A frozen relay, and the consumer's group, must not hold it up.
    let status = demo.exited(SOON).await;
    assert_eq!(status.code(), Some(130), "{}", demo.log());
    assert!(!demo.log().contains("verdict: "), "{}", demo.log());
    assert_eq!(schemas_left(&database).await, 0, "schemas are left");
}
