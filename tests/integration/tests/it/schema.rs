//! Migrations against a real server: what they make, under which names and rights, and how drift shows.

use std::time::Duration;

use fencepost_core::schema::Schema;
use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::random;
use fencepost_integration::wait;
use fencepost_relay::store::postgres::migrate::{self, MIGRATIONS, MigrateError, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// All versions, as `up` returns them on an empty database.
fn all() -> Vec<i32> {
    MIGRATIONS.iter().map(|m| m.version).collect()
}

async fn scalar<T>(connection: &mut PgConnection, sql: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap_or_else(|e| panic!("{e}, in: {sql}"))
}

/// The code and the constraint (or the message) of a refusal.
async fn refused(connection: &mut PgConnection, sql: &str) -> (String, String) {
    let error = sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.err();
    let error = error.unwrap_or_else(|| panic!("not refused: {sql}"));
    let error = error.into_database_error().expect("the server's refusal");
    let what = error.constraint().unwrap_or(error.message()).to_owned();
    (error.code().expect("a code").into_owned(), what)
}

/// The catalog after all migrations is what `migrate check` expects on every server.
#[tokio::test]
async fn catalog_is_the_snapshot() {
    let database = TestDatabase::plain("catalog").await;
    let mut connection = database.connect().await;
    let schema = Schema::default();
    migrate::up(&mut connection, &schema).await.expect("migrations");
    let lines = migrate::describe(&mut connection, &schema).await.expect("catalog");
    let text = lines.join("\n") + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres/catalog.txt");
    let expected = std::fs::read_to_string(file).expect("migrations/postgres/catalog.txt");
    if text != expected {
        std::fs::write(format!("{file}.new"), &text).expect("the new snapshot");
        panic!(
            "the catalog differs from migrations/postgres/catalog.txt; look at catalog.txt.new and rename it if it is right"
        );
    }
}

/// The schema's name stands nowhere but in the token: every line that the substitution touches, pinned.
#[test]
fn substitution_is_the_snapshot() {
    let migrator = Migrator::new(Schema::new("x\"y").expect("a name"));
    let text = migrator.sql(0) + &migrator.roles_sql(&migrate::RolePrefix::new("r\"s").expect("a prefix"));
    assert!(!text.contains("\"fencepost\"") && !text.contains("\"fencepost_"));
    let touched: Vec<&str> = text.lines().map(str::trim).filter(|l| l.contains("\"\"")).collect();
    insta::assert_snapshot!(touched.join("\n"));
}

#[tokio::test]
async fn up_is_repeatable_and_status_tells() {
    let database = TestDatabase::plain("up").await;
    let mut connection = database.connect().await;
    let migrator = Migrator::new(Schema::default());
    let before = migrator.status(&mut connection).await.expect("status of nothing");
    assert!(before.iter().all(|s| s.applied_at_us.is_none()) && before.len() == MIGRATIONS.len());
    let unmigrated = migrator.check(&mut connection).await;
    assert!(matches!(unmigrated, Err(MigrateError::Pending { at: 0, .. })), "{unmigrated:?}");
    assert_eq!(migrator.up(&mut connection).await.expect("first"), all());
    assert_eq!(migrator.up(&mut connection).await.expect("second"), Vec::<i32>::new());
    let after = migrator.status(&mut connection).await.expect("status");
    assert!(after.iter().all(|s| s.applied_at_us.is_some()) && after.len() == MIGRATIONS.len());
    migrator.check(&mut connection).await.expect("no drift");
    let version: i32 = scalar(&mut connection, "SELECT schema_version FROM \"fencepost\".settings").await;
    assert_eq!(Some(&version), all().last());
}

/// Eight lanes before the first message, on all slots; the identity belongs to this cluster.
#[tokio::test]
async fn a_new_source_starts_at_the_beginning() {
    let database = TestDatabase::plain("start").await;
    let mut connection = database.connect().await;
    migrate::up(&mut connection, &Schema::default()).await.expect("migrations");
    let slots = "SELECT count(*) FROM \"fencepost\".lanes, generate_series(first_slot::int, last_slot)";
    assert_eq!(scalar::<i64>(&mut connection, slots).await, 256);
    let heads = "SELECT count(*) FROM \"fencepost\".lanes JOIN \"fencepost\".batches USING (lane)
                  WHERE n = 0 AND kind = 'init' AND pos_before IS NULL AND open IS NULL AND eff IS NULL
                    AND pos_after::text = '(1:1:,0,,,,0,)' AND batches.owner IS NULL AND lanes.owner IS NULL";
    assert_eq!(scalar::<i64>(&mut connection, heads).await, 8);
    let canary = "SELECT (canary::text::bigint & 4294967295) = xmin::text::bigint FROM \"fencepost\".origin";
    assert!(scalar::<bool>(&mut connection, canary).await);
    let (code, _) =
        refused(&mut connection, "INSERT INTO \"fencepost\".origin (source_id) VALUES (gen_random_uuid())").await;
    assert_eq!(code, "23505", "one row only");
    let uuids = "SELECT count(DISTINCT id) FROM generate_series(1, 1000), LATERAL (SELECT \"fencepost\".uuid_v7() AS id WHERE generate_series > 0) x
                  WHERE id::text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
                    AND abs(('x0000' || left(replace(id::text, '-', ''), 12))::bit(64)::bigint - extract(epoch FROM clock_timestamp()) * 1000) < 60000";
    assert_eq!(scalar::<i64>(&mut connection, uuids).await, 1000, "version 7, variant 10, today, distinct");
}

#[tokio::test]
async fn a_savepoint_is_refused() {
    let database = TestDatabase::plain("savepoint").await;
    let mut connection = database.connect().await;
    let mut tx = connection.begin().await.expect("a transaction");
    let error = migrate::up(&mut tx, &Schema::default()).await.expect_err("inside a savepoint");
    assert!(error.to_string().contains("savepoint"), "{error}");
    tx.rollback().await.expect("rollback");
    assert_eq!(migrate::up(&mut connection, &Schema::default()).await.expect("outside"), all());
}

/// B124: names that need quotes, and two that are equal in 40 characters, side by side in one database.
#[tokio::test]
async fn b124_any_name_is_quoted_everywhere() {
    let database = TestDatabase::plain("names").await;
    let mut connection = database.connect().await;
    let (long_a, long_b) = (format!("{}a", "n".repeat(49)), format!("{}b", "n".repeat(49)));
    let names = ["Order", "my-app", "select", "a.b", "x\"y", "naïve", "a b; --", &long_a, &long_b, &"n".repeat(63)];
    for name in names {
        let migrator = Migrator::new(Schema::new(name).expect(name));
        assert_eq!(migrator.up(&mut connection).await.expect(name), all());
        migrator.check(&mut connection).await.expect(name);
    }
    for name in names {
        let schema = Schema::new(name).expect(name);
        let call = schema.qualify("SELECT id FROM \"fencepost\".enqueue(topic => 't', type => 't', payload => NULL)");
        assert_eq!(scalar::<i64>(&mut connection, &call).await, 1, "{name}: a sequence of its own");
    }
    assert!(Schema::new(&"n".repeat(70)).is_err());
}

/// B118: an application's sqlx migrations in the same database stay as they are, in either order.
#[tokio::test]
async fn b118_sqlx_bookkeeping_is_untouched() {
    const APPLICATION: &str = "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, description text NOT NULL,
        installed_on timestamptz NOT NULL DEFAULT now(), success boolean NOT NULL, checksum bytea NOT NULL, execution_time bigint NOT NULL);
        INSERT INTO _sqlx_migrations VALUES (20240101000000, 'app', now(), true, '\\x00', 1)";
    const STATE: &str =
        "SELECT oid::text || xmin::text || (SELECT string_agg(m::text || m.xmin::text, '') FROM _sqlx_migrations m)
                           FROM pg_class WHERE oid = '_sqlx_migrations'::regclass";
    for application_first in [true, false] {
        let database = TestDatabase::plain("bookkeeping").await;
        let mut connection = database.connect().await;
        if !application_first {
            migrate::up(&mut connection, &Schema::default()).await.expect("library first");
        }
        execute(&mut connection, APPLICATION).await;
        let before: String = scalar(&mut connection, STATE).await;
        migrate::up(&mut connection, &Schema::default()).await.expect("library");
        migrate::up(&mut connection, &Schema::new("second").expect("a name")).await.expect("a second service");
        assert_eq!(before, scalar::<String>(&mut connection, STATE).await);
    }
}

/// B119: a role without CREATE on the database and on public migrates the schema that a DBA made for it,
/// without extensions; elsewhere it is told what it lacks, and the printed SQL does the same in a DBA's hands.
#[tokio::test]
async fn b119_a_locked_down_role_migrates_its_schema() {
    let database = TestDatabase::plain("locked").await;
    let mut dba = database.connect().await;
    let role = format!("locked_{}", random::suffix());
    execute(
        &mut dba,
        format!(
            "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; REVOKE CREATE ON DATABASE {} FROM PUBLIC;
             CREATE SCHEMA svc_a AUTHORIZATION {role}",
            database.name()
        ),
    )
    .await;
    let mut locked = database.connect_as(&role).await;
    let mine = Migrator::new(Schema::new("svc_a").expect("a name"));
    assert_eq!(mine.up(&mut locked).await.expect("its own schema"), all());
    mine.check(&mut locked).await.expect("no drift");
    let extensions = "SELECT count(*) FROM pg_extension WHERE extname <> 'plpgsql'";
    assert_eq!(scalar::<i64>(&mut dba, extensions).await, 0);

    let other = Migrator::new(Schema::new("svc_b").expect("a name"));
    let denied = other.up(&mut locked).await.expect_err("no CREATE on the database");
    assert!(matches!(&denied, MigrateError::Denied { .. }) && denied.to_string().contains("migrate sql"), "{denied}");
    let printed: String = other.sql(0).lines().filter(|l| !l.starts_with('\\')).map(|l| format!("{l}\n")).collect();
    execute(&mut dba, printed).await;
    execute(
        &mut dba,
        format!("GRANT USAGE ON SCHEMA svc_b TO {role}; GRANT SELECT ON svc_b.schema_migrations TO {role}"),
    )
    .await;
    assert_eq!(other.up(&mut locked).await.expect("nothing is left to do"), Vec::<i32>::new());
    other.check(&mut dba).await.expect("the printed SQL makes the same");
    drop(locked);
    execute(&mut dba, format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
}

/// B120: two services in one database without a schema public; neither touches or needs the other.
#[tokio::test]
async fn b120_two_services_are_independent() {
    let database = TestDatabase::plain("services").await;
    let mut connection = database.connect().await;
    execute(&mut connection, "DROP SCHEMA public CASCADE").await;
    let services = ["svc_a", "svc_b"].map(|name| Migrator::new(Schema::new(name).expect(name)));
    for service in &services {
        assert_eq!(service.up(&mut connection).await.expect("migrations"), all());
    }
    for (name, rows) in [("svc_a", 3), ("svc_b", 2)] {
        let call = format!(
            "SELECT {name}.enqueue(topic => 't', type => 't', payload => NULL) FROM generate_series(1, {rows})"
        );
        execute(&mut connection, call).await;
    }
    let counts = "SELECT (SELECT count(*) FROM svc_a.outbox) * 10 + (SELECT count(*) FROM svc_b.outbox)";
    assert_eq!(scalar::<i64>(&mut connection, counts).await, 32);
    let lasts =
        "SELECT (SELECT last_value FROM svc_a.outbox_id_seq) * 10 + (SELECT last_value FROM svc_b.outbox_id_seq)";
    assert_eq!(scalar::<i64>(&mut connection, lasts).await, 32);
    execute(&mut connection, "DROP SCHEMA svc_a CASCADE").await;
    services[1].check(&mut connection).await.expect("the other stands alone");
    execute(&mut connection, "SELECT svc_b.enqueue(topic => 't', type => 't', payload => NULL)").await;
}

/// B104: migrators wait for one another by a lock that ends with its transaction, and not for ever.
#[tokio::test]
async fn b104_migrators_take_turns_and_survive_a_killed_one() {
    let database = TestDatabase::plain("turns").await;
    let migrator = Migrator::new(Schema::default());
    let mut holder = database.connect().await;
    let pid: i32 = scalar(&mut holder, "SELECT pg_backend_pid()").await;
    execute(&mut holder, "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('fencepost migrate fencepost', 0))")
        .await;
    let mut first = database.connect().await;
    let busy = migrator.clone().lock_timeout(Duration::from_millis(50)).up(&mut first).await;
    assert!(matches!(busy, Err(MigrateError::Busy(_))), "{busy:?}");

    let mut admin = database.connect().await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let (mut connection, migrator) = (database.connect().await, migrator.clone());
        waiting.push(tokio::spawn(async move { migrator.up(&mut connection).await }));
    }
    let waiters = "SELECT count(*) = 3 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    wait::until(Duration::from_secs(5), "three migrators wait", async || scalar::<bool>(&mut admin, waiters).await)
        .await;
    execute(&mut admin, format!("SELECT pg_terminate_backend({pid})")).await;
    let mut applied = Vec::new();
    for task in waiting {
        applied.extend(task.await.expect("no panic").expect("migrated"));
    }
    applied.sort_unstable();
    assert_eq!(applied, all(), "each migration once");
}

/// The texts of the migrations, oldest first.
fn texts() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres");
    let files = std::fs::read_dir(folder).expect("the migrations").map(|entry| entry.expect("a file").path());
    let numbered =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|n| n.as_encoded_bytes()[0].is_ascii_digit());
    let mut files: Vec<_> = files.filter(numbered).collect();
    files.sort();
    assert_eq!(files.len(), MIGRATIONS.len());
    files.iter().map(|file| std::fs::read_to_string(file).expect("a text")).collect()
}

/// No upgrade rewrites or indexes the log, or takes a lock on it that producers or relays would wait for: it goes
/// through beside an open transaction of a producer, and producers write beside it.
#[tokio::test]
async fn b122_no_upgrade_keeps_producers_out() {
    let database = TestDatabase::plain("b122").await;
    let (mut migrator, mut open) = (database.connect().await, database.connect().await);
    let mut producer = database.connect().await;
    execute(&mut migrator, r#"CREATE SCHEMA "fencepost""#).await;
    let insert = r#"INSERT INTO "fencepost".outbox (topic, type, payload) VALUES ('t', 'x', 'p')"#;
    for (index, text) in texts().into_iter().enumerate() {
        let landed = index >= 3; // the first three make the log
        if landed {
            execute(&mut open, format!("BEGIN; {insert}")).await;
            execute(&mut producer, "SET lock_timeout = '1s'").await;
        }
        let before: i64 = match landed {
            true => scalar(&mut migrator, r#"SELECT pg_relation_filenode('"fencepost".outbox')::bigint"#).await,
            false => 0,
        };
        execute(&mut migrator, "SET lock_timeout = '1s'; BEGIN").await;
        execute(&mut migrator, text).await;
        if landed {
            execute(&mut producer, insert).await; // beside the upgrade that is not committed
            let after: i64 =
                scalar(&mut migrator, r#"SELECT pg_relation_filenode('"fencepost".outbox')::bigint"#).await;
            assert_eq!(before, after, "migration {} rewrites the log", index + 1);
        }
        execute(&mut migrator, "COMMIT").await;
        execute(&mut open, "COMMIT").await;
    }
    let rows: i64 = scalar(&mut producer, r#"SELECT count(*) FROM "fencepost".outbox"#).await;
    assert_eq!(rows, 2 * (MIGRATIONS.len() as i64 - 3));
}

/// Each kind of drift is refused by name.
#[tokio::test]
async fn check_refuses_drift() {
    let database = TestDatabase::plain("drift").await;
    let mut connection = database.connect().await;
    let migrator = Migrator::new(Schema::default());
    migrator.up(&mut connection).await.expect("migrations");
    for (change, undo, shows) in [
        (
            "DROP INDEX \"fencepost\".outbox_xid_idx",
            "CREATE INDEX outbox_xid_idx ON \"fencepost\".outbox (xid)",
            "missing: index outbox",
        ),
        (
            "CREATE INDEX mine ON \"fencepost\".outbox (topic)",
            "DROP INDEX \"fencepost\".mine",
            "not expected: index outbox",
        ),
        (
            "ALTER TABLE \"fencepost\".outbox ALTER id SET DEFAULT nextval('\"fencepost\".outbox_id_seq')",
            "ALTER TABLE \"fencepost\".outbox ALTER id SET DEFAULT nextval(CASE WHEN pg_current_xact_id() IS NOT NULL
                THEN '\"fencepost\".outbox_id_seq'::regclass END)",
            "missing: column outbox.id",
        ),
        (
            "ALTER SEQUENCE \"fencepost\".outbox_id_seq CACHE 32",
            "ALTER SEQUENCE \"fencepost\".outbox_id_seq CACHE 1",
            "cache 32",
        ),
        (
            "ALTER TABLE \"fencepost\".lanes ADD note text",
            "ALTER TABLE \"fencepost\".lanes DROP note",
            "not expected: column lanes.note text",
        ),
        (
            "ALTER TABLE \"fencepost\".batches DROP CONSTRAINT batches_open_check",
            "",
            "missing: constraint batches.batches_open_check",
        ),
    ] {
        execute(&mut connection, change).await;
        let drift = migrator.check(&mut connection).await.expect_err(change);
        assert!(matches!(drift, MigrateError::Drifted(_)) && drift.to_string().contains(shows), "{change}: {drift}");
        if !undo.is_empty() {
            execute(&mut connection, undo).await;
            migrator.check(&mut connection).await.expect(undo);
        }
    }
    let newest = all().len();
    execute(&mut connection, "UPDATE \"fencepost\".schema_migrations SET checksum = 'x' WHERE version = 2").await;
    let changed = migrator.check(&mut connection).await;
    assert!(matches!(changed, Err(MigrateError::Changed { version: 2, .. })), "{changed:?}");
    execute(&mut connection, format!("DELETE FROM \"fencepost\".schema_migrations WHERE version IN (2, {newest})"))
        .await;
    assert!(migrator.check(&mut connection).await.is_err(), "a gap or an older schema");
    execute(&mut connection, "INSERT INTO \"fencepost\".schema_migrations VALUES (99, 'later', 'x')").await;
    let unknown = migrator.up(&mut connection).await;
    assert!(matches!(unknown, Err(MigrateError::Unknown(99) | MigrateError::Changed { .. })), "{unknown:?}");
}

/// What batches and lanes may not hold, whoever writes.
#[tokio::test]
async fn constraints_state_the_invariants() {
    let database = TestDatabase::plain("invariants").await;
    let mut connection = database.connect().await;
    migrate::up(&mut connection, &Schema::default()).await.expect("migrations");
    let row = |kind: &str, rest: &str, values: &str| {
        format!(
            "INSERT INTO \"fencepost\".batches (lane, n, generation, owner, tag, pos_after, kind{rest})
             VALUES (0, 5, 1, 'r', gen_random_uuid(), ROW('1:1:', 0, NULL, NULL, NULL, 0, NULL), '{kind}'{values})"
        )
    };
    let (open, pos) = (", eff, open, open_tag", "ROW('1:1:', 0, NULL, NULL, NULL, 0, NULL)");
    let cases = [
        (row("done", "", ""), "batches_kind_check"),
        (row("prepared", "", ""), "batches_open_check"),
        (row("prepared", open, ", 2, 6, gen_random_uuid()"), "batches_open_check"),
        (row("mark", open, ", 2, 5, gen_random_uuid()"), "batches_open_check"),
        (row("fence", open, ", 4, 4, gen_random_uuid()"), "batches_open_check"),
        (row("prepared", ", open", ", 5"), "batches_open_tag_check"),
        (row("mark", ", pos_before", &format!(", {pos}")), "batches_closed_check"),
        (row("mark", ", intent", ", '{}'"), "batches_closed_check"),
        (row("mark", ", messages", ", -1"), "batches_counts_check"),
        (row("mark", "", "").replace("0, NULL)", "7, NULL)"), "batches_pos_after_check"),
        (row("mark", "", "").replace("'1:1:', 0, NULL", "'1:1:', 0, '1:2:'"), "batches_pos_after_check"),
        (row("mark", "", "").replace("'1:1:'", "NULL"), "batches_pos_after_check"),
        (row("mark", "", "").replace("'r'", "NULL"), "batches_owner_check"),
        (row("mark", "", "").replace("(0, 5,", "(0, 0,"), "batches_n_check"),
        (row("init", "", "").replace("(0, 5,", "(0, 0,"), "batches_pkey"),
        ("UPDATE \"fencepost\".lanes SET owner = 'r' WHERE lane = 0".into(), "lanes_lease_check"),
        ("UPDATE \"fencepost\".lanes SET lease_expires_at = now() WHERE lane = 0".into(), "lanes_lease_check"),
        ("UPDATE \"fencepost\".lanes SET last_slot = 32 WHERE lane = 0".into(), "lanes_slots_excl"),
        ("UPDATE \"fencepost\".lanes SET last_slot = 256 WHERE lane = 7".into(), "lanes_slots_check"),
    ];
    for (sql, constraint) in &cases {
        let (_, what) = refused(&mut connection, sql).await;
        assert_eq!(what, *constraint, "{sql}");
    }
    execute(&mut connection, row("prepared", open, ", 2, 5, gen_random_uuid()")).await;
    execute(&mut connection, row("fence", open, ", 2, 5, gen_random_uuid()").replace("(0, 5,", "(0, 6,")).await;
    execute(&mut connection, row("mark", "", "").replace("(0, 5,", "(0, 7,")).await;
}
