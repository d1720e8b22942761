//! The completeness audit in real relays: silent under the worst traffic, loud about one message, and cheap.

use std::process::Output;

use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::evidence::Delivered;
use fencepost_integration::fleet::{Lease, SOON, Site, Watched};
use fencepost_integration::process::Launch;
use fencepost_integration::workload::Workload;
use fencepost_integration::{env, random, wait};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

/// Eight writers with holds, rollbacks, savepoints and late inserts; two relays, one of which is killed.
#[tokio::test]
async fn the_worst_traffic_is_audited_without_a_finding() {
    let site = Site::new("audit_traffic", Lease::Medium).await;
    let workload = Workload::new(site.database.url(), site.topic.name(), random::seed());
    let workload = Workload { duration: workload.duration.mul_f64(env::scale()), ..workload };
    workload.prepare(&mut site.connect().await).await;
    let mut victim = site.start("victim");
    let relay = site.start_watched("relay");
    site.shared_by(&["victim", "relay"]).await;
    let writing = tokio::spawn(async move { workload.run().await });
    relay.reaches("fencepost_audit_messages_total", "", 1.0).await;
    victim.kill9();
    let delivered = Delivered::all(&site, writing.await.expect("no writer panicked"), SOON).await;
    let verdict = delivered.assert_holds();
    site.recorded().await;
    // the dead relay's windows too, once its lanes were taken over
    relay.reaches("fencepost_audit_windows_total", "", 8.0).await;
    assert_eq!(relay.metric("fencepost_audit_differences_total", "").await, Some(0.0));
    relay.ready().await;
    let counted = site.assert_audited().await;
    assert!(counted > 0 && counted <= verdict.committed as i64, "{counted} of {} messages", verdict.committed);
}

fn fencepost(site: &Site, args: &[&str]) -> Output {
    Launch::new(args).env("FENCEPOST__SOURCE__0__URL", &site.database.url()).run()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

async fn smuggle(connection: &mut PgConnection) -> i64 {
    let sql = r#"INSERT INTO "fencepost".outbox (xid, topic, type, key, payload)
                 SELECT xid, topic, type, key, payload FROM "fencepost".outbox ORDER BY id LIMIT 1 RETURNING id"#;
    sqlx::query_scalar(sql).fetch_one(connection).await.expect("a row that no page will give")
}

/// A message that stands in the log as if it had been delivered: found, named, and not ready until somebody says why.
#[tokio::test]
async fn a_lost_message_is_named_and_unready_until_it_is_closed() {
    let site = Site::new("audit_lost", Lease::Long).await;
    let mut first = site.start_watched("first");
    for i in 0..20 {
        site.enqueue(&format!("message {i}")).await;
    }
    site.recorded().await;
    first.process.term();
    first.process.exited(SOON).await;
    let lost = smuggle(&mut site.connect().await).await;

    let mut relay = site.start_watched("second");
    relay.reaches("fencepost_audit_differences_total", "", 1.0).await;
    let why = told(&relay, "audit: lane").await;
    assert!(why.contains("and the log held") && why.contains("fencepost audit list"), "{why}");
    relay.process.logged(&format!("ids=[{lost}, "), SOON).await;
    assert_eq!(relay.metric("fencepost_audit_open_findings", "").await, Some(1.0));

    let found = json(&fencepost(&site, &["audit", "list", "--json"]));
    let finding = &found["main"][0];
    assert_eq!((&finding["ids"][0], &finding["closed_by"]), (&lost.into(), &Value::Null), "{found}");
    assert_eq!(finding["found"].as_i64(), finding["expected"].as_i64().map(|n| n + 1), "{found}");
    let status = fencepost(&site, &["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("audit finding: lane"), "{text}");

    let name = [&finding["lane"], &finding["to_n"]].map(ToString::to_string);
    let close = ["audit", "close", &name[0], &name[1], "--actor", "tester", "--reason", "written by a test"];
    assert_eq!(fencepost(&site, &close[..4]).status.code(), Some(2), "a reason is needed");
    assert_eq!(fencepost(&site, &close).status.code(), Some(0));
    let again = fencepost(&site, &close);
    assert!(again.status.code() == Some(1) && String::from_utf8_lossy(&again.stderr).contains("no open finding"));
    relay.ready().await;
    assert_eq!(json(&fencepost(&site, &["audit", "list", "--json"]))["main"], serde_json::json!([]));
    let closed = &json(&fencepost(&site, &["audit", "list", "--all", "--json"]))["main"][0];
    assert_eq!((&closed["closed_by"], &closed["reason"]), (&"tester".into(), &"written by a test".into()));

    relay.process.term();
    relay.process.exited(SOON).await;
    let third = site.start_watched("third");
    third.reaches("fencepost_audit_windows_total", "", 1.0).await;
    assert_eq!(third.metric("fencepost_audit_differences_total", "").await, Some(0.0), "not told again");
}

/// What `/ready` says, once it says that.
async fn told(relay: &Watched, text: &str) -> String {
    wait::until_some(SOON, text, async || {
        let answer = relay.get("/ready").await?;
        (answer.status == 503 && answer.body.contains(text)).then_some(answer.body)
    })
    .await
}

/// A count walks what its window holds, whatever bulk transactions are open inside it or came behind it.
#[tokio::test]
async fn a_count_costs_what_its_window_holds() {
    let database = TestDatabase::create("audit_cost").await;
    let mut connection = database.connect().await;
    let insert = |count: i32| {
        format!(
            r#"INSERT INTO "fencepost".outbox (topic, type, key) SELECT 't', 't', i::text::bytea FROM generate_series(1, {count}) i"#
        )
    };
    execute(&mut connection, insert(100)).await;
    let lo = snapshot(&mut connection).await;
    let mut bulk = database.connect().await;
    execute(&mut bulk, format!("BEGIN; {}", insert(50_000))).await;
    execute(&mut connection, insert(200)).await;
    let up = snapshot(&mut connection).await;
    execute(&mut connection, insert(20_000)).await;
    let (looked, open) = count(&mut connection, &lo, &up).await;
    execute(&mut bulk, "COMMIT").await;
    let (again, ended) = count(&mut connection, &lo, &up).await;
    assert_eq!((looked, again), (200, 200));
    assert!(open < 600 && ended < 600, "{open} buffers beside an open bulk transaction, {ended} once it ended");
    let late = snapshot(&mut connection).await;
    let (limited, buffers) = count(&mut connection, &up, &late).await;
    assert!(limited <= 2 * 1_001 && buffers < 6_000, "{limited} rows looked at, {buffers} buffers");
}

async fn snapshot(connection: &mut PgConnection) -> String {
    execute(connection, "SELECT pg_current_xact_id()").await;
    sqlx::query_scalar("SELECT pg_current_snapshot()::text").fetch_one(connection).await.expect("a snapshot")
}

/// Rows looked at, and buffers touched, with a bound of 1,000 rows and the settings of the relay's sessions.
async fn count(connection: &mut PgConnection, lo: &str, up: &str) -> (i64, i64) {
    let sql = include_str!("../../../../relay/src/store/postgres/sql/audit_count.sql");
    let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
                    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";
    execute(connection, format!("{settings}; PREPARE counted AS {sql}")).await;
    let call = format!("EXECUTE counted (0, '{lo}', '{up}', 1001)");
    let row = sqlx::raw_sql(AssertSqlSafe(call.clone())).fetch_one(&mut *connection).await.expect("a count");
    let looked: String = row.get_unchecked(0);
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}");
    let row = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *connection).await.expect("a plan");
    execute(connection, "DEALLOCATE counted").await;
    let plan: Value = serde_json::from_str(&row.get_unchecked::<String, _>(0)).expect("JSON");
    let buffers = |name: &str| plan[0]["Plan"][name].as_i64().expect("a number");
    (looked.parse().expect("a number"), buffers("Shared Hit Blocks") + buffers("Shared Read Blocks"))
}
