//! Theme 8 and its relatives: locks of others, cancelled calls, a primary that turns read-only, connections
//! that fall silent, a broker that is not there yet.

use std::time::Duration;

use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::fleet::{Lease, SOON, Site, Watched};
use fencepost_integration::kafka::Kafka;
use fencepost_integration::proxy::{Direction, Flow, Proxy};
use fencepost_integration::servers::PrivatePostgres;
use fencepost_integration::{env, random, wait};
use sqlx::PgConnection;

use super::{Came, DEADLINE, delivered, enqueue, scaled};

/// Waits until `/ready` says no and gives a reason that holds `text`.
async fn not_ready_because(relay: &Watched, text: &str, deadline: Duration) {
    wait::until(deadline, &format!("not ready because of {text:?}"), async || {
        relay.get("/ready").await.is_some_and(|answer| answer.status == 503 && answer.body.contains(text))
    })
    .await;
}

/// A row that somebody holds is nothing to a relay that updates none; a table that somebody locks is waited for
/// with a bound, and seen.
#[tokio::test]
async fn b22_forgotten_locks_are_waited_for_with_a_bound() {
    let site = Site::new("b22", Lease::Medium).await;
    let relay = site.start_watched("b22");
    site.shared_by(&["b22"]).await;
    let (mut writer, mut forgetful) = (site.connect().await, site.connect().await);
    enqueue(&mut writer, site.topic.name(), "i", 1..=10).await;
    execute(&mut forgetful, r#"BEGIN; UPDATE "fencepost".outbox SET created_at = created_at WHERE id = 1"#).await;
    enqueue(&mut writer, site.topic.name(), "i", 11..=20).await;
    Came::all(&site.topic, 1..=20, SOON).await.assert_once();
    execute(&mut forgetful, r#"ROLLBACK; BEGIN; LOCK TABLE "fencepost".outbox IN SHARE MODE"#).await;
    wait::until(SOON, "marks don't wait for it", async || delivered(&mut writer).await == 20).await;
    execute(&mut forgetful, "ROLLBACK").await;

    // what the relay writes is locked: marks wait, and then everything goes on by itself
    execute(&mut forgetful, r#"BEGIN; LOCK TABLE "fencepost".batches IN SHARE MODE"#).await;
    enqueue(&mut writer, site.topic.name(), "i", 21..=30).await;
    relay.process.logged("database statement refused", SOON).await;
    wait::hold(scaled(30)).await;
    execute(&mut forgetful, "ROLLBACK").await;
    enqueue(&mut writer, site.topic.name(), "i", 31..=40).await;
    Came::all(&site.topic, 1..=40, SOON).await.assert_in_order();
    wait::until(SOON, "all is marked", async || delivered(&mut writer).await >= 40).await;

    execute(&mut forgetful, r#"BEGIN; LOCK TABLE "fencepost".outbox IN ACCESS EXCLUSIVE MODE"#).await;
    wait::hold(scaled(30)).await;
    execute(&mut forgetful, "ROLLBACK").await;
    enqueue(&mut writer, site.topic.name(), "i", 41..=50).await;
    Came::all(&site.topic, 1..=50, SOON).await.assert_in_order();
    relay.ready().await;
}

/// The address stays, and what answers there takes no writes for a while.
#[tokio::test]
async fn b110_a_primary_that_turns_read_only_is_left_and_found_again() {
    let server = PrivatePostgres::start(&["fsync=off"]);
    let database = TestDatabase::create_on(server.url(), "b110").await;
    let site = Site::of(database, Kafka::shared().topic("b110", 4).await, &env::kafka(), Lease::Medium);
    let mut writer = site.connect().await;
    execute(&mut writer, "SET default_transaction_read_only = off").await;
    let relay = site.start_watched("b110");
    enqueue(&mut writer, site.topic.name(), "i", 1..=10).await;
    Came::all(&site.topic, 1..=10, SOON).await;
    let read_only = async |writer: &mut PgConnection, on: &str| {
        execute(writer, format!("ALTER SYSTEM SET default_transaction_read_only = {on}")).await;
        execute(writer, "SELECT pg_reload_conf()").await;
    };
    read_only(&mut writer, "on").await;
    enqueue(&mut writer, site.topic.name(), "i", 11..=20).await;
    not_ready_because(&relay, "read-only", SOON).await;
    wait::hold(scaled(30)).await;
    enqueue(&mut writer, site.topic.name(), "i", 21..=30).await;
    read_only(&mut writer, "off").await;
    Came::all(&site.topic, 1..=30, Duration::from_secs(30)).await.assert_in_order();
    relay.ready().await;
    wait::until(SOON, "all is marked", async || delivered(&mut writer).await >= 30).await;
}

/// Packets vanish and nobody says so: found within a minute, shown, and over once packets pass.
#[tokio::test]
async fn b114_connections_that_fall_silent_are_noticed_and_replaced() {
    let site = Site::new("b114", Lease::Medium).await;
    let proxy = Proxy::to(site.database.server_address()).await;
    let site = site.through(&proxy.address());
    let relay = site.start_watched("b114");
    let mut writer = site.connect().await;
    enqueue(&mut writer, site.topic.name(), "i", 1..=10).await;
    Came::all(&site.topic, 1..=10, SOON).await;
    proxy.set(Direction::ToServer, Flow::Lost);
    proxy.set(Direction::ToClient, Flow::Lost);
    enqueue(&mut writer, site.topic.name(), "i", 11..=20).await;
    not_ready_because(&relay, "database: ", Duration::from_secs(60)).await;
    wait::hold(scaled(30)).await;
    proxy.cut_all();
    proxy.set(Direction::ToServer, Flow::Open);
    proxy.set(Direction::ToClient, Flow::Open);
    Came::all(&site.topic, 1..=20, DEADLINE).await.assert_in_order();
    relay.ready().await;
}

/// Each session of the relay is lost by itself: it is replaced, and the source is ready again.
#[tokio::test]
async fn b114_a_session_that_is_lost_alone_is_replaced() {
    let site = Site::new("b114_alone", Lease::Medium).await;
    let relay = site.start_watched("b114-alone");
    let mut writer = site.connect().await;
    enqueue(&mut writer, site.topic.name(), "i", 1..=10).await;
    Came::all(&site.topic, 1..=10, SOON).await;
    relay.ready().await;
    let sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                    AND application_name LIKE 'fencepost%'";
    let pids: Vec<i32> = sqlx::query_scalar(sessions).fetch_all(&mut writer).await.expect("sessions");
    assert!(pids.len() >= 3, "reader, marker and keeper: {pids:?}");
    let mut next = 11;
    for pid in pids {
        let before = delivered(&mut writer).await;
        // one that went with an earlier loss is gone already
        let _ = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut writer).await;
        enqueue(&mut writer, site.topic.name(), "i", next..=next + 9).await;
        next += 10;
        Came::all(&site.topic, 1..=next - 1, SOON).await.assert_in_order();
        wait::until(SOON, "marks go on", async || delivered(&mut writer).await >= before + 10).await;
        // longer than it takes to renew: whoever lost its session has used it since
        wait::hold(Lease::Medium.length() / 2).await;
        relay.ready().await;
    }
}

/// Alive, not ready, with the reason; the database is left in peace; no restart is needed.
#[tokio::test]
async fn b147_a_broker_that_comes_late_is_waited_for() {
    let (port, hanging) = (random::free_port(), Proxy::to(&env::kafka()).await);
    hanging.set(Direction::ToServer, Flow::Held);
    let nobody = format!("127.0.0.1:{port}");
    let hanging_address = hanging.address();
    let mut waiting = Vec::new();
    for (name, brokers) in
        [("nobody", nobody.as_str()), ("hangs", &hanging_address), ("unknown", "no.such.host.invalid:9092")]
    {
        let topic = Kafka::shared().topic(name, 1).await;
        let site = Site::of(TestDatabase::create("b147").await, topic, brokers, Lease::Medium);
        let mut writer = site.connect().await;
        enqueue(&mut writer, site.topic.name(), "i", 1..=10).await;
        let relay = site.start_watched(name);
        waiting.push((site, relay, writer));
    }
    for (_, relay, _) in &waiting {
        not_ready_because(relay, "destination: ", SOON).await;
        assert!(relay.get("/health").await.is_some_and(|answer| answer.status == 200), "alive");
    }
    let transactions = async |writer: &mut PgConnection| -> i64 {
        let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar(sql).fetch_one(writer).await.expect("the server counts transactions")
    };
    let (quiet, mut before) = (scaled(60).max(Duration::from_secs(5)), Vec::new());
    for (_, _, writer) in &mut waiting {
        before.push(transactions(writer).await);
    }
    wait::hold(quiet).await;
    for ((_, relay, writer), before) in waiting.iter_mut().zip(before) {
        let rate = (transactions(writer).await - before) as f64 / quiet.as_secs_f64();
        assert!(rate < 60.0, "{rate} transactions a second while nothing can be sent");
        assert!(relay.process.is_running());
    }
    let _broker = Proxy::bind(port, &env::kafka()).await;
    hanging.set(Direction::ToServer, Flow::Open);
    for (site, relay, _) in &waiting[..2] {
        Came::all(&site.topic, 1..=10, DEADLINE).await.assert_once();
        relay.ready().await;
    }
}
