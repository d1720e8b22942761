//! What is particular to the PostgreSQL store: checks at connect, deadlines, cancelled statements, and
//! a mark that stalls between its lease check and its insert.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fencepost_core::batch::MarkRow;
use fencepost_core::lane::{LaneId, Tag};
use fencepost_core::position::Position;
use fencepost_core::schema::Schema;
use fencepost_integration::conformance::postgres::PostgresFixture;
use fencepost_integration::conformance::{Fixture, LEASE, NewMessage, Walk, Writer, claim, next_mark, owner, repair};
use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::proxy::{Direction, Flow, Proxy};
use fencepost_integration::{random, wait};
use fencepost_relay::store::postgres::migrate::{Migrator, RolePrefix};
use fencepost_relay::store::postgres::{PostgresSettings, PostgresStore};
use fencepost_relay::store::{Housekeeper, LaneKeeper, LogReader, MarkWriter, Store, StoreError};
use sqlx::{AssertSqlSafe, PgConnection};

const SOON: Duration = Duration::from_secs(20);

async fn scalar(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.expect("a number")
}

fn unfit<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(error @ StoreError::Unfit { .. }) => error.to_string(),
        Err(other) => panic!("unfit was expected, not: {other}"),
        Ok(_) => panic!("unfit was expected"),
    }
}

/// Transaction ids of another cluster: refused, and the printed repair makes the log readable again.
#[tokio::test]
async fn b11_a_restored_log_is_refused_and_repaired_as_told() {
    let mut fixture = PostgresFixture::create("b11").await;
    let mut writer = fixture.begin().await;
    for i in 0..10 {
        writer.enqueue(&NewMessage::keyed(&format!("{i}"))).await;
    }
    writer.commit().await;
    let xid = "(pg_current_xact_id()::text::bigint + 1000000)::text::xid8";
    execute(&mut fixture.admin, format!(r#"UPDATE "fencepost".outbox SET xid = {xid}"#)).await;
    fixture.store().reader().await.expect("rows alone don't tell");
    execute(&mut fixture.admin, format!(r#"UPDATE "fencepost".origin SET canary = {xid}"#)).await;
    let text = unfit(fixture.store().reader().await);
    assert!(text.contains("another cluster") && text.contains("lane init --from-beginning"), "{text}");
    let (_, commands) = text.split_once("run UPDATE").expect("commands");
    let (commands, _) = commands.split_once("; then").expect("commands");
    let sql =
        format!("SET search_path = fencepost; BEGIN; UPDATE{commands}; COMMIT").replace(" and UPDATE", "; UPDATE");
    execute(&mut fixture.admin, sql).await;
    let mut reader = fixture.store().reader().await.expect("repaired");
    let mut walk = Walk::new(100);
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), (1..=10).collect::<Vec<_>>());
}

/// Stored positions from the future, though the canary fits.
#[tokio::test]
async fn positions_from_the_future_are_refused() {
    let mut fixture = PostgresFixture::create("future").await;
    let sql = r#"UPDATE "fencepost".batches SET pos_after.lo = '900000000000:900000000000:' WHERE lane = 3"#;
    execute(&mut fixture.admin, sql).await;
    assert!(unfit(fixture.store().reader().await).contains("lanes 3 lie in the future"));
}

/// A sequence that caches, jumps or was set back, at connect and under a connection in use.
#[tokio::test]
async fn a_changed_sequence_is_refused() {
    let mut fixture = PostgresFixture::create("sequence").await;
    let mut reader = fixture.store().reader().await.expect("a reader");
    execute(&mut fixture.admin, r#"ALTER SEQUENCE "fencepost".outbox_id_seq CACHE 20"#).await;
    assert!(unfit(reader.sight().await).contains("outbox_id_seq was changed"));
    let text = unfit(fixture.store().reader().await);
    let (_, command) = text.split_once("run: ").expect("a command");
    execute(&mut fixture.admin, format!("SET search_path = fencepost; {command}")).await;
    let mut writer = fixture.begin().await;
    for _ in 0..5 {
        writer.enqueue(&NewMessage::keyed("k")).await;
    }
    writer.commit().await;
    fixture.skip_ids(3).await;
    let text = unfit(fixture.store().reader().await);
    assert!(text.contains("set back"), "{text}");
    let (_, command) = text.split_once("run: ").expect("a command");
    execute(&mut fixture.admin, command.replace(" in the outbox's schema", "")).await;
    fixture.store().reader().await.expect("repaired");
}

/// Both versions are named, on every kind of connection.
#[tokio::test]
async fn b125_a_schema_of_another_version_is_refused() {
    let mut fixture = PostgresFixture::create("version").await;
    let known = scalar(&mut fixture.admin, r#"SELECT schema_version::bigint FROM "fencepost".settings"#).await;
    for (schema, command) in [(known - 1, "migrate up"), (known + 2, "run a relay of the schema's version")] {
        execute(&mut fixture.admin, format!(r#"UPDATE "fencepost".settings SET schema_version = {schema}"#)).await;
        let store = fixture.store();
        let texts = [unfit(store.reader().await), unfit(store.marker().await), unfit(store.keeper().await)];
        for text in texts {
            let named = text.contains(&format!("version {schema}")) && text.contains(&format!("versions {known} and"));
            assert!(named && text.contains(command), "{text}");
        }
    }
    execute(&mut fixture.admin, format!(r#"UPDATE "fencepost".settings SET schema_version = {}"#, known + 1)).await;
    fixture.store().reader().await.expect("a rollout migrates first");
}

/// A database without the schema, and one that is not there.
#[tokio::test]
async fn an_empty_database_is_refused() {
    let database = TestDatabase::plain("empty").await;
    let store = PostgresStore::new(PostgresSettings::new(database.url(), LEASE)).expect("settings");
    assert!(repair(store.keeper().await).contains("migrate up"));
    let settings = PostgresSettings::new(database.url().replace(database.name(), "not_there"), LEASE);
    repair(PostgresStore::new(settings).expect("settings").keeper().await);
}

/// The relay's role suffices for every method; without its grants the missing ones are named.
#[tokio::test]
async fn the_relay_role_is_enough_and_less_is_not() {
    let fixture = PostgresFixture::create("grants").await;
    let prefix = format!("t{}", random::suffix());
    let (relay, login) = (format!("{prefix}_relay"), format!("{prefix}_login"));
    let mut admin = fixture.database.connect().await;
    let roles = RolePrefix::new(&prefix).expect("a prefix");
    Migrator::new(Schema::default()).roles(&mut admin, &roles).await.expect("roles");
    execute(&mut admin, format!("CREATE ROLE {login} LOGIN; GRANT USAGE ON SCHEMA fencepost TO {login}")).await;
    execute(&mut admin, format!("GRANT SELECT ON fencepost.settings TO {login}")).await;
    let store = PostgresStore::new(PostgresSettings::new(fixture.database.url_for(&login), LEASE)).expect("settings");
    let text = unfit(store.reader().await);
    assert!(text.contains("SELECT on outbox, ") && text.contains("migrate roles"), "{text}");
    execute(&mut admin, format!("GRANT {relay} TO {login}")).await;
    let (mut reader, mut marker) = (store.reader().await.expect("fit"), store.marker().await.expect("a marker"));
    let (mut keeper, me) = (store.keeper().await.expect("a keeper"), owner("me"));
    Walk::new(10).window(&mut reader).await;
    keeper.beat(&me).await.expect("a heartbeat");
    let head = claim(&mut keeper, &me, 0).await;
    let row = next_mark(&head, Position::beginning());
    assert_eq!(marker.mark(&me, Tag(1), &[row]).await.expect("a mark"), [LaneId(0)]);
    let held = [(LaneId(0), head.generation)];
    assert_eq!(keeper.renew(&me, &held, LEASE).await.expect("renewed"), [LaneId(0)]);
    assert_eq!(keeper.release(&me, &held).await.expect("released"), [LaneId(0)]);
    keeper.lag().await.expect("lag");
    keeper.prune(LEASE, 10).await.expect("pruned");
    keeper.leave(&me).await.expect("gone");
    execute(&mut admin, "ALTER TABLE fencepost.outbox ENABLE ROW LEVEL SECURITY").await;
    assert!(unfit(store.reader().await).contains("row level security would hide rows of outbox"));
    let refused = Walk::new(10);
    drop((reader, marker, keeper, refused));
    let all = format!("{prefix}_owner, {prefix}_producer, {relay}, {prefix}_admin, {login}");
    execute(&mut admin, format!("DROP OWNED BY {all} CASCADE; DROP ROLE {all}")).await;
}

/// A read-only server is refused at connect, and a write that it refuses gives the connection up.
#[tokio::test]
async fn b110_a_read_only_server_is_left() {
    let mut fixture = PostgresFixture::create("read_only").await;
    let (mut keeper, me) = (fixture.store().keeper().await.expect("a keeper"), owner("me"));
    // as a demoted server answers
    let raise = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON fencepost.batches EXECUTE FUNCTION public.refuse()";
    execute(&mut fixture.admin, raise).await;
    let error = keeper.claim(&me, LaneId(0), None, LEASE).await.expect_err("refused");
    assert!(error.lost_reply(), "{error}");
    assert!(keeper.beat(&me).await.expect_err("given up").lost_reply());
    let name = fixture.database.name().to_owned();
    execute(&mut fixture.admin, format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    assert!(unfit(fixture.store().marker().await).contains("read-only"));
    execute(&mut fixture.admin, format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    fixture.store().marker().await.expect("writable again");
}

/// A forgotten lock: the wait is bounded, the statement had no effect, and the connection goes on.
#[tokio::test]
async fn b22_a_lock_is_waited_for_a_bounded_time() {
    let mut fixture = PostgresFixture::create("locked").await;
    let settings = PostgresSettings { lock_timeout: Duration::from_millis(100), ..fixture.settings() };
    let store = PostgresStore::new(settings).expect("settings");
    let mut keeper = store.keeper().await.expect("a keeper");
    execute(&mut fixture.admin, "BEGIN; LOCK TABLE fencepost.lanes IN SHARE MODE").await;
    let error = keeper.claim(&owner("me"), LaneId(0), None, LEASE).await.expect_err("locked");
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("55P03")), "{error}");
    keeper.survey(LEASE).await.expect("the connection goes on");
    execute(&mut fixture.admin, "COMMIT").await;
    claim(&mut keeper, &owner("me"), 0).await;
}

/// Packets that vanish: the client's own deadline finds it, whatever the server's settings.
#[tokio::test]
async fn b114_a_half_open_connection_is_noticed() {
    let fixture = PostgresFixture::create("half_open").await;
    let proxy = Proxy::to(fixture.database.server_address()).await;
    let url = fixture.database.url_at(&proxy.address());
    let short = Duration::from_millis(200);
    let settings =
        PostgresSettings { statement_timeout: short, lock_timeout: short, ..PostgresSettings::new(url, LEASE) };
    let store = PostgresStore::new(settings).expect("settings");
    let mut reader = store.reader().await.expect("a reader");
    reader.sight().await.expect("a sighting");
    proxy.set(Direction::ToClient, Flow::Held);
    let start = wait::now();
    let error = reader.sight().await.expect_err("silence");
    assert!(error.lost_reply() && start.elapsed() < SOON, "{error}");
    assert!(reader.burn().await.expect_err("given up").lost_reply());
}

/// A statement whose future is dropped at any point leaves no transaction open, and the connection goes on.
#[tokio::test]
async fn b107_dropped_statements_leave_no_transaction() {
    let mut fixture = PostgresFixture::create("dropped").await;
    let proxy = Proxy::to(fixture.database.server_address()).await;
    let settings = PostgresSettings {
        application_name: "b107".into(),
        ..PostgresSettings::new(fixture.database.url_at(&proxy.address()), LEASE)
    };
    let store = PostgresStore::new(settings).expect("settings");
    let (mut keeper, mut marker) = (store.keeper().await.expect("a keeper"), store.marker().await.expect("a marker"));
    let me = owner("me");
    proxy.set(Direction::ToClient, Flow::Delayed(Duration::from_millis(10)));
    let mut generation = 0;
    for round in 0..24_u32 {
        let limit = Duration::from_millis(u64::from(round) * 2);
        let _ = tokio::time::timeout(limit, keeper.beat(&me)).await;
        let _ = tokio::time::timeout(limit, keeper.claim(&me, LaneId(0), None, LEASE)).await;
        let survey = keeper.survey(LEASE).await.expect("the connection goes on");
        let row = &survey.lanes[0];
        assert!(row.generation.0 == generation || row.generation.0 == generation + 1, "once or not at all");
        if row.claimable {
            claim(&mut keeper, &me, 0).await;
        }
        let row = &keeper.survey(LEASE).await.expect("a survey").lanes[0];
        generation = row.generation.0;
        let head = marker.newest(&[LaneId(0)]).await.expect("the newest row").remove(0);
        assert_eq!(head.generation, row.generation, "with its fence row");
        let mark: [MarkRow; 1] = [next_mark(&head, Position::beginning())];
        let _ = tokio::time::timeout(limit, marker.mark(&me, Tag(u128::from(round)), &mark)).await;
        let n = marker.newest(&[LaneId(0)]).await.expect("the newest row").remove(0).n;
        assert!(n == head.n || n == head.n + 1);
        fixture.expire(LaneId(0)).await;
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'b107' AND state LIKE 'idle in%'";
    assert_eq!(scalar(&mut fixture.admin, open).await, 0);
}

/// A mark that passed its lease check and then stalls lands behind a takeover: the key refuses it.
#[tokio::test]
async fn a_mark_that_stalls_meets_the_fence_row() {
    let mut fixture = PostgresFixture::create("stalled").await;
    let (mut keeper, me) = (fixture.store().keeper().await.expect("a keeper"), owner("me"));
    let mut marker = fixture.store().marker().await.expect("a marker");
    let head = claim(&mut keeper, &me, 0).await;
    // a takeover that wrote its fence row and has not committed: the mark's snapshot sees the old lease
    let fence = r#"BEGIN;
        UPDATE "fencepost".lanes SET owner = 'new', generation = generation + 1 WHERE lane = 0;
        INSERT INTO "fencepost".batches (lane, n, kind, generation, owner, tag, pos_after)
        SELECT lane, n + 1, 'fence', generation + 1, 'new', gen_random_uuid(), pos_after
          FROM "fencepost".batches WHERE lane = 0 ORDER BY n DESC LIMIT 1"#;
    execute(&mut fixture.admin, fence).await;
    let row = [next_mark(&head, Position::beginning())];
    let mut watcher = fixture.database.connect().await;
    let stalled = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%''mark''%'
                      AND datname = current_database() AND pid <> pg_backend_pid()";
    let mut mark = pin!(marker.mark(&me, Tag(5), &row));
    wait::until(SOON, "the mark waits for the key", async || {
        let answered = poll_fn(|context| Poll::Ready(mark.as_mut().poll(context).is_ready())).await;
        assert!(!answered, "the mark did not wait");
        scalar(&mut watcher, stalled).await == 1
    })
    .await;
    execute(&mut fixture.admin, "COMMIT").await;
    assert_eq!(mark.await.expect("an answer"), [], "refused");
    let rows = fixture.stored(LaneId(0)).await;
    assert_eq!(rows.last().map(|row| (row.kind.as_str(), row.n)), Some(("fence", head.n + 1)));
}

/// A claim that meets the former owner's last mark under its number takes nothing.
#[tokio::test]
async fn a_claim_that_meets_a_mark_takes_nothing() {
    let mut fixture = PostgresFixture::create("late_mark").await;
    let (mut keeper, old) = (fixture.store().keeper().await.expect("a keeper"), owner("old"));
    let head = claim(&mut keeper, &old, 0).await;
    fixture.expire(LaneId(0)).await;
    let mark = r#"BEGIN;
        INSERT INTO "fencepost".batches (lane, n, kind, generation, owner, tag, pos_after)
        SELECT lane, n + 1, 'mark', generation, owner, gen_random_uuid(), pos_after
          FROM "fencepost".batches WHERE lane = 0 ORDER BY n DESC LIMIT 1"#;
    execute(&mut fixture.admin, mark).await;
    let mut watcher = fixture.database.connect().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'WITH taken%'
                      AND datname = current_database() AND pid <> pg_backend_pid()";
    let new = owner("new");
    {
        let mut claim = pin!(keeper.claim(&new, LaneId(0), None, LEASE));
        wait::until(SOON, "the claim waits for the key", async || {
            let answered = poll_fn(|context| Poll::Ready(claim.as_mut().poll(context).is_ready())).await;
            assert!(!answered, "the claim did not wait");
            scalar(&mut watcher, waiting).await == 1
        })
        .await;
        execute(&mut fixture.admin, "COMMIT").await;
        assert_eq!(claim.await.expect("an answer"), None);
    }
    let row = keeper.survey(LEASE).await.expect("a survey").lanes.swap_remove(0);
    assert_eq!((row.owner, row.generation), (Some(old), head.generation), "all of it was undone");
    assert_eq!(claim(&mut keeper, &new, 0).await.n, head.n + 2, "the next try takes it");
}

/// A terminated backend is a lost reply, and the old session of a replaced page is gone.
#[tokio::test]
async fn sessions_end_and_are_replaced() {
    let mut fixture = PostgresFixture::create("replaced").await;
    let settings = PostgresSettings { application_name: "replaced".into(), ..fixture.settings() };
    let store = PostgresStore::new(settings).expect("settings");
    let mut writer = fixture.begin().await;
    for _ in 0..12 {
        writer.enqueue(&NewMessage { payload: Some(vec![1; 1 << 20]), ..NewMessage::keyed("large") }).await;
    }
    writer.commit().await;
    let mut reader = store.reader().await.expect("a reader");
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'replaced' AND datname = current_database()";
    let pid = "SELECT max(pid)::bigint FROM pg_stat_activity WHERE application_name = 'replaced' AND datname = current_database()";
    let before = scalar(&mut fixture.admin, pid).await;
    let mut walk = Walk::new(100);
    let up = fencepost_integration::conformance::tick(&mut reader).await;
    walk.open(up.clone());
    walk.page(&mut reader, 1).await;
    assert!(reader.sight().await.expect("on another session").last_id >= up.seq1);
    wait::until(SOON, "the old session ends", async || scalar(&mut fixture.admin, sessions).await == 1).await;
    assert_ne!(scalar(&mut fixture.admin, pid).await, before);
    // when the old session is gone before the new one looks, the server may have restarted meanwhile
    walk.page(&mut reader, 1).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name = 'replaced' AND datname = current_database()";
    assert!(scalar(&mut fixture.admin, end).await >= 1);
    wait::until(SOON, "the session ends", async || scalar(&mut fixture.admin, sessions).await == 0).await;
    assert!(reader.sight().await.expect_err("no proof").lost_reply());
    let mut reader = store.reader().await.expect("a reader");
    assert!(scalar(&mut fixture.admin, end).await >= 1);
    assert!(reader.sight().await.expect_err("terminated").lost_reply());
}

/// Passwords are in no text of a store.
#[tokio::test]
async fn b165_no_secret_in_errors_or_debug() {
    let url = "postgres://nobody:SECRET123@127.0.0.1:1/x";
    let store = PostgresStore::new(PostgresSettings::new(url, LEASE)).expect("settings");
    let error = store.reader().await.err().expect("nobody listens");
    let text = format!("{store:?} {error} {error:?}");
    assert!(!text.contains("SECRET123"), "{text}");
}
