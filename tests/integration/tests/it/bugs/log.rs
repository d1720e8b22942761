//! Theme 1: commit order, cursor gaps, snapshots, restores.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost_integration::database::{TestDatabase, connect, execute};
use fencepost_integration::evidence::message_id;
use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::kafka::Kafka;
use fencepost_integration::process::Launch;
use fencepost_integration::servers::PrivatePostgres;
use fencepost_integration::{env, wait};

use super::{Came, DEADLINE, delivered, enqueue, key_in_lane, scaled, scaled_count};

/// How soon after its commit a message must be in the topic: a poll at rest is 100 ms, the rest is a busy machine's.
const ONE_POLL: Duration = Duration::from_secs(5);

#[tokio::test]
async fn b01_a_row_whose_transaction_is_still_open_comes_after_its_commit() {
    let site = Site::new("b01", Lease::Medium).await;
    let _relay = site.start("b01");
    let (mut a, mut b) = (site.connect().await, site.connect().await);
    execute(&mut a, "BEGIN").await;
    enqueue(&mut a, site.topic.name(), "'a'", 1..=1).await;
    enqueue(&mut b, site.topic.name(), "'b'", 2..=2).await;
    Came::all(&site.topic, 2..=2, SOON).await;
    wait::hold(scaled(5)).await;
    assert_eq!(Came::now(&site.topic).await.numbers(), [2], "nothing of an open transaction");
    execute(&mut a, "COMMIT").await;
    Came::all(&site.topic, 1..=2, ONE_POLL).await.assert_once();
    execute(&mut a, "BEGIN").await;
    enqueue(&mut a, site.topic.name(), "'a'", 3..=3).await;
    execute(&mut a, "ROLLBACK").await;
    enqueue(&mut b, site.topic.name(), "'b'", 4..=4).await;
    assert_eq!(Came::all(&site.topic, 4..=4, SOON).await.assert_once().records.len(), 3, "nothing of a rollback");
}

/// However long; a relay that started in the middle too.
#[tokio::test]
async fn b04_a_transaction_is_waited_for_however_long_it_holds() {
    let holds: &[u64] = if env::scale() < 1.0 { &[15] } else { &[15, 300, 1200] };
    for hold in holds {
        let site = Site::new("b04", Lease::Medium).await;
        let mut relay = site.start("b04-first");
        site.shared_by(&["b04-first"]).await;
        let (mut slow, mut other) = (site.connect().await, site.connect().await);
        execute(&mut slow, "BEGIN").await;
        enqueue(&mut slow, site.topic.name(), "i", 1..=10).await;
        enqueue(&mut other, site.topic.name(), "i", 11..=11).await;
        Came::all(&site.topic, 11..=11, SOON).await;
        wait::hold(scaled(*hold) / 2).await;
        relay.kill9();
        let _next = site.start("b04-next");
        enqueue(&mut other, site.topic.name(), "i", 12..=12).await;
        Came::all(&site.topic, 12..=12, SOON).await;
        wait::hold(scaled(*hold) / 2).await;
        execute(&mut slow, "COMMIT").await;
        Came::all(&site.topic, 1..=12, ONE_POLL).await;
    }
}

/// A reader that takes several statements for a poll skips rows that are slow to write, with no threshold at all.
#[tokio::test]
async fn b04_no_large_row_is_passed_by_while_it_is_written() {
    const WRITERS: i64 = 32;
    let site = Site::new("b04_large", Lease::Medium).await;
    let _relay = site.start("b04-large");
    let each = scaled_count(60, 6);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (url, topic) = (site.database.url(), site.topic.name().to_owned());
        writers.spawn(async move {
            let mut connection = connect(&url).await;
            for number in writer * each + 1..=(writer + 1) * each {
                let sql = format!(
                    r#"INSERT INTO "fencepost".outbox (topic, type, key, payload, header_keys, header_values)
                       SELECT '{topic}', 't', '{writer}', '{number}', ARRAY['large'],
                              ARRAY[convert_to(repeat('0123456789', 90000), 'UTF8')]"#
                );
                execute(&mut connection, "BEGIN").await;
                execute(&mut connection, sql).await;
                wait::hold(Duration::from_millis(((number * 7919) % 500) as u64)).await;
                execute(&mut connection, "COMMIT").await;
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("a writer did not panic");
    }
    Came::all(&site.topic, 1..=WRITERS * each, DEADLINE).await.assert_once().assert_in_order();
}

#[tokio::test]
async fn b06_open_and_prepared_transactions_of_others_hold_nothing_up() {
    let server = PrivatePostgres::start(&["max_prepared_transactions=5", "fsync=off"]);
    let database = TestDatabase::create_on(server.url(), "b06").await;
    let other = TestDatabase::plain_on(server.url(), "b06_other").await;
    let site = Site::of(database, Kafka::shared().topic("b06", 4).await, &env::kafka(), Lease::Medium);
    let mut writer = site.connect().await;
    let mut elsewhere = other.connect().await;
    execute(&mut elsewhere, "BEGIN; CREATE TABLE x ()").await;
    let mut here = site.connect().await;
    execute(&mut here, "CREATE TABLE y (); BEGIN; CREATE TABLE z (); PREPARE TRANSACTION 'left behind'").await;
    let _relay = site.start("b06");
    site.shared_by(&["b06"]).await;
    enqueue(&mut writer, site.topic.name(), "i", 1..=100).await;
    Came::all(&site.topic, 1..=100, ONE_POLL).await;
    wait::hold(scaled(10)).await;
    enqueue(&mut writer, site.topic.name(), "i", 101..=200).await;
    Came::all(&site.topic, 101..=200, ONE_POLL).await.assert_once();
    execute(&mut here, "ROLLBACK PREPARED 'left behind'").await;
}

/// With the aggregate's lock the order is the commits'. Without it the order of two open transactions is
/// nobody's, and both messages come.
#[tokio::test]
async fn b09_a_key_follows_its_aggregates_lock() {
    let site = Site::new("b09", Lease::Medium).await;
    let _relay = site.start("b09");
    let (mut one, mut two) = (site.connect().await, site.connect().await);
    execute(&mut one, "CREATE TABLE aggregate (id int); INSERT INTO aggregate VALUES (1)").await;
    execute(&mut one, "BEGIN").await;
    enqueue(&mut one, site.topic.name(), "'K'", 1..=1).await;
    enqueue(&mut two, site.topic.name(), "'K'", 2..=2).await;
    Came::all(&site.topic, 2..=2, SOON).await;
    execute(&mut one, "COMMIT").await;
    Came::all(&site.topic, 1..=2, SOON).await.assert_once();

    const LOCK: &str = "BEGIN; SELECT id FROM aggregate FOR UPDATE";
    execute(&mut one, LOCK).await;
    let (url, topic) = (site.database.url(), site.topic.name().to_owned());
    let second = tokio::spawn(async move {
        let mut two = connect(&url).await;
        execute(&mut two, LOCK).await;
        enqueue(&mut two, &topic, "'L'", 4..=4).await;
        execute(&mut two, "COMMIT").await;
    });
    wait::hold(scaled(2)).await;
    enqueue(&mut one, site.topic.name(), "'L'", 3..=3).await;
    execute(&mut one, "COMMIT").await;
    second.await.expect("the second writer did not panic");
    let came = Came::all(&site.topic, 3..=4, SOON).await.assert_once();
    assert_eq!(came.numbers().into_iter().filter(|number| *number > 2).collect::<Vec<_>>(), [3, 4]);
}

/// The stored transaction ids lie ahead of the new cluster's: the relay refuses, and names the way on.
#[tokio::test]
async fn b11_a_dump_in_another_cluster_is_refused_with_the_way_on() {
    let site = Site::new("b11", Lease::Medium).await;
    let mut writer = site.connect().await;
    let burn = format!(
        "DO $$ BEGIN FOR i IN 1..{} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
        scaled_count(100_000, 10_000)
    );
    execute(&mut writer, "SET synchronous_commit = off").await;
    execute(&mut writer, burn).await;
    enqueue(&mut writer, site.topic.name(), "i", 1..=100).await;
    let mut relay = site.start("b11");
    Came::all(&site.topic, 1..=100, SOON).await;
    relay.term();
    relay.exited(SOON).await;

    let server = PrivatePostgres::start(&["fsync=off"]);
    let restored = TestDatabase::plain_on(server.url(), "b11_restored").await;
    copy(&site.database.url(), &restored.url());
    let Site { topic, .. } = site;
    let site = Site::of(restored, topic, &env::kafka(), Lease::Medium);
    let mut writer = site.connect().await;
    enqueue(&mut writer, site.topic.name(), "i", 101..=110).await;
    let relay = site.start_watched("b11-restored");
    relay.process.logged("copied from another cluster", SOON).await;
    relay.process.logged("lane init --from-beginning --force", SOON).await;
    assert!(!relay.is_ready().await, "a source that is refused is not ready");

    // what the refusal says, word for word
    execute(
        &mut writer,
        r#"BEGIN; SET search_path = "fencepost"; UPDATE outbox SET xid = pg_current_xact_id();
           UPDATE origin SET canary = pg_current_xact_id(); COMMIT; RESET search_path"#,
    )
    .await;
    let repair = Launch::new(&["lane", "init", "--from-beginning", "--force", "--yes"]);
    let repaired = repair.env("FENCEPOST__SOURCE__0__URL", &site.database.url()).run();
    assert!(repaired.status.success(), "{}", String::from_utf8_lossy(&repaired.stderr));
    Came::all(&site.topic, 1..=110, DEADLINE).await;
}

/// As a database administrator copies a database.
fn copy(from: &str, to: &str) {
    let mut dump = Command::new("pg_dump").arg(from).stdout(Stdio::piped()).spawn().expect("pg_dump is on the PATH");
    let dumped = dump.stdout.take().expect("a pipe");
    let restore = Command::new("psql").args(["-q", "-v", "ON_ERROR_STOP=1", to]).stdin(dumped).output();
    let restore = restore.expect("psql is on the PATH");
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    assert!(dump.wait().expect("pg_dump ends").success(), "pg_dump failed");
}

/// The lane of the failing key waits; no other does, and none of its own rows is passed by.
#[tokio::test]
async fn b13_a_batch_that_fails_early_leaves_nobody_behind() {
    let site = Site::new("b13", Lease::Medium).await;
    let kafka = Kafka::shared();
    let missing = format!("{}.missing", site.topic.name());
    let mut writer = site.connect().await;
    let (a, b) = (key_in_lane(&mut writer, 0).await, key_in_lane(&mut writer, 1).await);
    execute(
        &mut writer,
        format!(
            r#"INSERT INTO "fencepost".outbox (topic, type, key, payload)
               SELECT CASE i % 2 WHEN 1 THEN '{missing}' ELSE '{}' END, 't',
                      CASE i % 2 WHEN 1 THEN '{a}' ELSE '{b}' END::bytea, i::text::bytea
                 FROM generate_series(10, 15) i"#,
            site.topic.name()
        ),
    )
    .await;
    let relay = site.start_watched("b13");
    let even = site.topic.read(3, SOON).await;
    assert_eq!(even.iter().map(super::number).collect::<Vec<_>>(), [10, 12, 14]);
    relay.reaches("fencepost_lane_stopped", "class=\"route\"", 1.0).await;
    // the other keys of the missing topic's lane are none of its business
    enqueue(&mut writer, site.topic.name(), &format!("'{b}'"), 16..=16).await;
    site.topic.read(4, ONE_POLL).await;
    kafka.create(&missing, 1, &[]).await;
    let mut reader = kafka.reader(&missing);
    reader.read_until(DEADLINE, "the rows of the topic that was missing", |records| records.len() >= 3).await;
    assert_eq!(reader.records().iter().map(super::number).collect::<Vec<_>>(), [11, 13, 15]);
    relay.ready().await;
    kafka.delete(&missing).await;
}

/// One statement gives all rows one time, and one that is truncated to seconds at that.
#[tokio::test]
async fn b14_many_rows_of_one_time_survive_a_kill_in_the_middle() {
    const ROWS: i64 = 10_000;
    let site = Site::new("b14", Lease::Short).await.with("source.0.page_rows=200").with("source.0.page_slots=1");
    let mut writer = site.connect().await;
    execute(
        &mut writer,
        format!(
            r#"INSERT INTO "fencepost".outbox (topic, type, key, payload, created_at)
               SELECT '{}', 't', (i % 100)::text::bytea, i::text::bytea, date_trunc('second', now())
                 FROM generate_series(1, {ROWS}) i ORDER BY i.i"#,
            site.topic.name()
        ),
    )
    .await;
    let mut relay = site.start("b14");
    let mut reader = site.topic.reader();
    reader.read_until(SOON, "3,000 records", |records| records.len() >= 3_000).await;
    relay.kill9();
    let delivered = delivered(&mut writer).await;
    assert!(delivered < ROWS, "the kill came too late to show anything");
    let _next = site.start("b14");
    let came = Came::all(&site.topic, 1..=ROWS, DEADLINE).await.assert_in_order();
    let ids: BTreeSet<_> = came.records.iter().map(message_id).collect();
    assert_eq!(ids.len() as i64, ROWS);
}
