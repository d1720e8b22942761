//! The command line against a real database: exit codes by kind, data apart from complaints, and the repairs.

use std::ops::RangeInclusive;
use std::process::Output;
use std::time::Duration;

use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::env;
use fencepost_integration::kafka::{Kafka, Record};
use fencepost_integration::process::Launch;
use serde_json::Value;
use sqlx::{Connection, PgConnection, Row};

const DEADLINE: Duration = Duration::from_secs(30);

/// What a verb left behind.
struct Ran {
    code: i32,
    data: String,
    notes: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ran { code: output.status.code().expect("an exit"), data: text(output.stdout), notes: text(output.stderr) }
    }
}

impl Ran {
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.data, self.notes);
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data))
    }
}

fn fencepost(database: &TestDatabase, args: &[&str]) -> Ran {
    Launch::new(args).env("FENCEPOST__SOURCE__0__URL", &database.url()).run().into()
}

async fn number(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(connection).await.expect(sql).get(0)
}

async fn enqueue(connection: &mut PgConnection, count: i32) {
    enqueue_to(connection, "orders", count).await;
}

/// Messages whose payload and key are their number, from 1.
async fn enqueue_to(connection: &mut PgConnection, topic: &str, count: i32) {
    let sql = "SELECT \"fencepost\".enqueue(topic => $1, type => 't', payload => convert_to(i::text, 'UTF8'), \
               key => int4send(i)) FROM generate_series(1, $2::int) i";
    sqlx::query(sql).bind(topic).bind(count).execute(connection).await.expect("enqueue");
}

#[test]
fn wrong_arguments_are_told_from_failures() {
    let run = |args: &[&str]| Ran::from(Launch::new(args).run());
    assert!(run(&["--help"]).expect(0).data.contains("Usage: fencepost"));
    for args in [
        &["rnu"][..],
        &["lane", "init"],
        &["lane", "init", "--from-beginning", "--after-id", "3"],
        &["lane", "release", "-1"],
    ] {
        let ran = run(args).expect(2);
        assert!(ran.data.is_empty() && !ran.notes.is_empty(), "{}", ran.notes);
    }
    let nowhere = Launch::new(&["status"]).env("FENCEPOST__SOURCE__0__URL", "postgres://me@127.0.0.1:1/app").run();
    assert!(Ran::from(nowhere).expect(3).notes.contains("source main: "), "unreachable");
}

#[tokio::test]
async fn a_schema_goes_up_is_checked_and_drift_is_told() {
    let database = TestDatabase::plain("cli_migrate").await;
    assert!(fencepost(&database, &["status"]).expect(4).notes.contains("fencepost migrate up"));
    assert!(fencepost(&database, &["migrate", "check"]).expect(4).notes.contains("fencepost migrate up"));
    assert!(fencepost(&database, &["migrate", "status"]).expect(0).data.contains("pending"));
    assert!(fencepost(&database, &["migrate", "up"]).expect(0).data.contains("applied 1, 2, 3, 4"));
    assert!(fencepost(&database, &["migrate", "up"]).expect(0).data.contains("nothing to apply"));
    let status = fencepost(&database, &["migrate", "status", "--json"]).expect(0).json();
    assert!(status.as_array().is_some_and(|lines| lines.iter().all(|line| line["applied_at"].is_string())), "{status}");
    fencepost(&database, &["migrate", "check"]).expect(0);
    execute(&mut database.connect().await, "ALTER TABLE \"fencepost\".outbox ADD COLUMN extra int").await;
    assert!(fencepost(&database, &["migrate", "check"]).expect(4).notes.contains("extra"));
}

#[tokio::test]
async fn the_printed_sql_makes_a_schema_that_passes_the_check() {
    let database = TestDatabase::plain("cli_sql").await;
    let sql = Ran::from(Launch::new(&["migrate", "sql", "--schema", "my outbox"]).run()).expect(0).data;
    // psql's own commands are for psql.
    let plain: Vec<_> = sql.lines().filter(|line| !line.starts_with('\\')).collect();
    execute(&mut database.connect().await, plain.join("\n")).await;
    fencepost(&database, &["migrate", "check", "--set", "source.main.schema=my outbox"]).expect(0);
    let roles = Ran::from(Launch::new(&["migrate", "sql", "--roles", "--role-prefix", "shop"]).run()).expect(0).data;
    assert!(roles.contains("shop_relay") && !roles.contains("fencepost_relay"));
}

#[tokio::test]
async fn lanes_are_listed_with_lease_position_and_backlog() {
    let database = TestDatabase::create("cli_list").await;
    let mut connection = database.connect().await;
    enqueue(&mut connection, 100).await;
    execute(
        &mut connection,
        "UPDATE \"fencepost\".lanes SET owner = 'a-1', generation = 9, \
        lease_expires_at = now() + interval '1 hour' WHERE lane = 3",
    )
    .await;
    let lanes = fencepost(&database, &["lane", "list", "--json"]).expect(0).json();
    let lanes = lanes["main"].as_array().expect("lanes");
    assert_eq!(lanes.len(), 8);
    assert_eq!((&lanes[3]["owner"], &lanes[3]["generation"]), (&Value::from("a-1"), &Value::from(9)));
    assert_eq!(lanes[3]["slots"], serde_json::json!([96, 127]));
    assert!(lanes.iter().all(|lane| lane["n"] == 0 && lane["delivered_to"] == 0), "{lanes:?}");
    let waiting: i64 = lanes.iter().filter_map(|lane| lane["backlog"].as_i64()).sum();
    assert_eq!(waiting, 100);
    let table = fencepost(&database, &["lane", "list"]).expect(0).data;
    assert!(table.starts_with("SOURCE  LANE  SLOTS") && table.contains("a-1"), "{table}");
    let status = fencepost(&database, &["status", "--json"]).expect(0).json();
    assert_eq!(
        (&status[0]["lanes"], &status[0]["lanes_held"], &status[0]["backlog"]),
        (&8.into(), &1.into(), &100.into())
    );
    fencepost(&database, &["lane", "list", "--source", "mian"]).expect(2);
}

#[tokio::test]
async fn b12_lost_lanes_are_made_again_and_never_start_at_the_newest() {
    let database = TestDatabase::create("cli_init").await;
    let mut connection = database.connect().await;
    enqueue(&mut connection, 50).await;
    execute(
        &mut connection,
        "DELETE FROM \"fencepost\".lanes; DELETE FROM \"fencepost\".batches; DELETE FROM \"fencepost\".relays",
    )
    .await;
    let dry = fencepost(&database, &["lane", "init", "--from-beginning"]).expect(1);
    assert!(
        dry.data.contains("lane 7 for slots 224 to 255 would be made") && dry.notes.contains("--yes"),
        "{}",
        dry.data
    );
    assert_eq!(
        number(&mut connection, "SELECT count(*) FROM \"fencepost\".lanes").await,
        0,
        "a dry run changes nothing"
    );
    fencepost(&database, &["lane", "init", "--from-beginning", "--yes"]).expect(0);
    let covered = "SELECT sum(last_slot - first_slot + 1) FROM \"fencepost\".lanes l JOIN \"fencepost\".batches b USING (lane) \
                   WHERE b.n = 0 AND b.kind = 'init' AND (b.pos_after).lo_seq0 = 0";
    assert_eq!(number(&mut connection, covered).await, 256);
    let grown = "SELECT min(generation) FROM \"fencepost\".lanes";
    assert!(number(&mut connection, grown).await > 1_000_000_000, "a generation only grows, also over lost rows");
    let status = fencepost(&database, &["status", "--json"]).expect(0).json();
    assert_eq!(status[0]["backlog"], 50, "everything is still to be published");
    assert!(
        fencepost(&database, &["lane", "init", "--from-beginning", "--yes"])
            .expect(1)
            .notes
            .contains("every lane has a position")
    );
}

#[tokio::test]
async fn b12_a_transaction_that_is_open_at_the_repair_is_not_skipped() {
    let database = TestDatabase::create("cli_open").await;
    let topic = Kafka::shared().topic("cli_open", 1).await;
    let (mut writer, mut admin) = (database.connect().await, database.connect().await);
    execute(&mut writer, "BEGIN").await;
    enqueue_to(&mut writer, topic.name(), 1).await;
    enqueue_to(&mut admin, topic.name(), 3).await;
    fencepost(&database, &["lane", "init", "--after-id", "3", "--force", "--yes"]).expect(0);
    let launch = Launch::new(&["run", "--set", "http.listen="]).env("FENCEPOST__SOURCE__0__URL", &database.url());
    let mut relay = launch.env("FENCEPOST__KAFKA__BROKERS", &env::kafka()).start("cli_open");
    let numbers = |records: Vec<Record>| -> Vec<_> { records.iter().map(number_in).collect() };
    assert_eq!(numbers(topic.read(1, DEADLINE).await), [3], "id 4; ids 2 and 3 count as delivered");
    execute(&mut writer, "COMMIT").await;
    assert_eq!(numbers(topic.read(2, DEADLINE).await), [3, 1], "and id 1, which was open");
    relay.term();
    relay.exited(DEADLINE).await;
}

/// A relay over a source whose lanes are lost says what to do; after the repair it publishes exactly these of
/// the messages 1 to 50.
async fn publishes_after(repair: &[&str], expected: RangeInclusive<i32>) {
    let database = TestDatabase::create("cli_repair").await;
    let topic = Kafka::shared().topic("cli_repair", 2).await;
    let mut connection = database.connect().await;
    enqueue_to(&mut connection, topic.name(), 50).await;
    execute(&mut connection, "DELETE FROM \"fencepost\".lanes; DELETE FROM \"fencepost\".batches").await;
    let launch = Launch::new(&["run", "--set", "http.listen="]).env("FENCEPOST__SOURCE__0__URL", &database.url());
    let mut relay = launch.env("FENCEPOST__KAFKA__BROKERS", &env::kafka()).start("cli_repair");
    relay.logged("fencepost lane init", DEADLINE).await;
    fencepost(&database, &[&["lane", "init", "--yes"], repair].concat()).expect(0);
    topic.read(expected.clone().count(), DEADLINE).await;
    relay.term();
    assert_eq!(relay.exited(DEADLINE).await.code(), Some(0));
    let mut published: Vec<_> = topic.read_to_end(DEADLINE).await.iter().map(number_in).collect();
    published.sort_unstable();
    assert_eq!(published, expected.collect::<Vec<_>>());
}

/// The number that a record's payload spells.
fn number_in(record: &Record) -> i32 {
    let payload = record.payload.as_deref().expect("a payload");
    std::str::from_utf8(payload).expect("text").parse().expect("a number")
}

#[tokio::test]
async fn b12_after_a_repair_from_the_beginning_everything_is_published() {
    publishes_after(&["--from-beginning"], 1..=50).await;
}

#[tokio::test]
async fn b12_after_a_repair_after_an_id_only_what_is_above_is_published() {
    publishes_after(&["--after-id", "20"], 21..=50).await;
}

#[tokio::test]
async fn b12_a_lane_whose_batch_rows_survived_goes_on_where_it_stood() {
    let database = TestDatabase::create("cli_survived").await;
    let mut connection = database.connect().await;
    execute(&mut connection, "INSERT INTO \"fencepost\".batches (lane, n, kind, generation, owner, tag, pos_after) \
        SELECT 2, 1, 'mark', 41, 'a-1', gen_random_uuid(), ROW('700:700:', 5, NULL, NULL, NULL, 0, NULL)::\"fencepost\".position; \
        DELETE FROM \"fencepost\".lanes WHERE lane = 2").await;
    fencepost(&database, &["lane", "init", "--from-beginning", "--yes"]).expect(0);
    let lanes = fencepost(&database, &["lane", "list", "--json"]).expect(0).json();
    let lane = &lanes["main"][2];
    assert_eq!((&lane["generation"], &lane["n"], &lane["delivered_to"]), (&41.into(), &1.into(), &5.into()), "{lane}");
}

#[tokio::test]
async fn a_lane_starts_after_an_id_only_if_asked_for_and_inside_the_log() {
    let database = TestDatabase::create("cli_after").await;
    let mut connection = database.connect().await;
    enqueue(&mut connection, 50).await;
    assert!(fencepost(&database, &["lane", "init", "--after-id", "20", "--yes"]).expect(1).notes.contains("--force"));
    let beyond = fencepost(&database, &["lane", "init", "--after-id", "51", "--force", "--yes"]).expect(1);
    assert!(beyond.notes.contains("the newest id that was given out"), "{}", beyond.notes);
    execute(
        &mut connection,
        "UPDATE \"fencepost\".lanes SET owner = 'a-1', lease_expires_at = now() + interval '1 hour' WHERE lane = 3",
    )
    .await;
    let held = fencepost(&database, &["lane", "init", "--after-id", "20", "--force", "--yes"]).expect(1);
    assert!(held.notes.contains("lane 3 is held by a-1"), "{}", held.notes);
    execute(&mut connection, "UPDATE \"fencepost\".lanes SET owner = NULL, lease_expires_at = NULL").await;
    fencepost(&database, &["lane", "init", "--after-id", "20", "--force", "--yes"]).expect(0);
    let status = fencepost(&database, &["status", "--json"]).expect(0).json();
    assert_eq!(status[0]["backlog"], 30, "ids 21 to 50");
    assert_eq!(
        number(&mut connection, "SELECT min(n) FROM (SELECT max(n) AS n FROM \"fencepost\".batches GROUP BY lane) x")
            .await,
        1
    );
}

#[tokio::test]
async fn a_lane_is_freed_only_from_an_owner_that_is_gone() {
    let database = TestDatabase::create("cli_release").await;
    let mut connection = database.connect().await;
    execute(
        &mut connection,
        "UPDATE \"fencepost\".lanes SET owner = 'a-1', generation = 9, lease_expires_at = now() + interval '10 s' \
        WHERE lane = 3; INSERT INTO \"fencepost\".relays (owner) VALUES ('a-1')",
    )
    .await;
    let alive = fencepost(&database, &["lane", "release", "3"]).expect(1);
    assert!(alive.notes.contains("a-1 holds lane 3 and is alive"), "{}", alive.notes);
    execute(&mut connection, "DELETE FROM \"fencepost\".relays").await;
    assert!(fencepost(&database, &["lane", "release", "3"]).expect(0).data.contains("lane 3 was freed; a-1 held it"));
    assert_eq!(
        number(&mut connection, "SELECT generation FROM \"fencepost\".lanes WHERE lane = 3 AND owner IS NULL").await,
        9
    );
    assert!(fencepost(&database, &["lane", "release", "3"]).expect(0).data.contains("free already"));
    assert!(fencepost(&database, &["lane", "release", "99"]).expect(1).notes.contains("there is no lane 99"));
}

#[tokio::test]
async fn the_admin_role_may_repair_and_the_relay_role_may_not() {
    let database = TestDatabase::create("cli_roles").await;
    let prefix = database.name();
    fencepost(&database, &["migrate", "roles", "--role-prefix", prefix]).expect(0);
    let mut connection = database.connect().await;
    let logins: String = ["relay", "admin"]
        .map(|kind| format!("CREATE ROLE \"{prefix}_{kind}_login\" LOGIN IN ROLE \"{prefix}_{kind}\";"))
        .concat();
    execute(&mut connection, logins + "DELETE FROM \"fencepost\".batches").await;
    let as_role = |kind: &str, args: &[&str]| {
        let url = database.url_for(&format!("{prefix}_{kind}_login"));
        Ran::from(Launch::new(args).env("FENCEPOST__SOURCE__0__URL", &url).run())
    };
    let init = ["lane", "init", "--from-beginning", "--yes"];
    assert!(as_role("relay", &init).expect(4).notes.contains("permission denied"));
    as_role("admin", &init).expect(0);
    as_role("admin", &["status"]).expect(0);
    as_role("relay", &["status"]).expect(0);
    let mut drop = String::new();
    for role in ["relay_login", "admin_login"] {
        drop += &format!("DROP ROLE \"{prefix}_{role}\";");
    }
    drop += "DROP SCHEMA \"fencepost\" CASCADE;";
    for role in ["owner", "producer", "relay", "admin"] {
        drop += &format!("DROP OWNED BY \"{prefix}_{role}\"; DROP ROLE \"{prefix}_{role}\";");
    }
    execute(&mut connection, drop).await;
    connection.close().await.expect("closed");
}
