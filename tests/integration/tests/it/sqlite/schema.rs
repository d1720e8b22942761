//! Migrations of a file: what they make, who may be in the way, and how drift shows.

use std::time::Duration;

use fencepost_integration::sqlite::{TestFile, refusal, run, value};
use fencepost_relay::store::sqlite::migrate::{self, MIGRATIONS, MigrateError, Migrator};
use sqlx::Connection as _;

/// All versions, as `up` returns them on an empty file.
fn all() -> Vec<i32> {
    MIGRATIONS.iter().map(|m| m.version).collect()
}

#[tokio::test]
async fn up_is_repeatable_and_status_tells() {
    let file = TestFile::plain("up");
    let migrator = Migrator::new(file.path());
    let missing = migrator.status().expect_err("no file").to_string();
    assert!(missing.contains("there is no file") && missing.contains("fencepost migrate up"), "{missing}");
    assert!(!file.path().exists(), "a look makes no file");
    std::fs::File::create(file.path()).expect("an empty file");
    let before = migrator.status().expect("status of nothing");
    assert!(before.iter().all(|s| s.applied_at_us.is_none()) && before.len() == MIGRATIONS.len());
    assert!(matches!(migrator.check(), Err(MigrateError::Pending { at: 0, .. })));
    assert_eq!(migrator.up().expect("first"), all());
    assert_eq!(migrator.up().expect("second"), Vec::<i32>::new());
    let after = migrator.status().expect("status");
    assert!(after.iter().all(|s| s.applied_at_us.is_some()) && after.len() == MIGRATIONS.len());
    migrator.check().expect("no drift");
    let mut connection = file.connect().await;
    let version: i32 = value(&mut connection, "SELECT schema_version FROM fencepost_settings").await;
    assert_eq!(Some(&version), all().last());
    assert_eq!(value::<String>(&mut connection, "PRAGMA journal_mode").await, "wal", "for whoever opens it");
}

/// Eight lanes before the first message, on all slots; an identity of its own.
#[tokio::test]
async fn a_new_source_starts_at_the_beginning() {
    let (file, other) = (TestFile::create("start"), TestFile::create("start"));
    let mut connection = file.connect().await;
    let slots = "SELECT sum(last_slot - first_slot + 1) FROM fencepost_lanes";
    assert_eq!(value::<i64>(&mut connection, slots).await, 256);
    let heads = "SELECT count(*) FROM fencepost_lanes l JOIN fencepost_batches b USING (lane)
                  WHERE n = 0 AND kind = 'init' AND lo = '1:1:' AND lo_seq0 = 0 AND up IS NULL AND cursor_id = 0
                    AND before_lo IS NULL AND open IS NULL AND eff IS NULL AND b.owner IS NULL AND l.owner IS NULL";
    assert_eq!(value::<i64>(&mut connection, heads).await, 8);
    let id = "SELECT source_id FROM fencepost_origin";
    let own: String = value(&mut connection, id).await;
    assert_eq!(uuid::Uuid::parse_str(&own).expect("a UUID").get_version_num(), 4);
    assert_ne!(own, value::<String>(&mut other.connect().await, id).await);
    refusal(&mut connection, "INSERT INTO fencepost_origin (source_id) VALUES ('another')").await;
}

/// B118: an application's tables and sqlx migrations in the same file stay as they are.
#[tokio::test]
async fn b118_an_applications_tables_stay_its_own() {
    let file = TestFile::plain("shared");
    let mut connection = {
        std::fs::File::create(file.path()).expect("an empty file");
        file.connect().await
    };
    run(
        &mut connection,
        "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY); CREATE TABLE outbox (x);
         CREATE TABLE fencepost_of_ours (x); INSERT INTO _sqlx_migrations VALUES (20240101000000)",
    )
    .await;
    assert_eq!(migrate::up(file.path()).expect("beside them"), all());
    Migrator::new(file.path()).check().expect("they are none of its business");
    assert_eq!(value::<i64>(&mut connection, "SELECT version FROM _sqlx_migrations").await, 20_240_101_000_000);
}

/// B104: migrators take turns on one file: each migration is applied once.
#[tokio::test]
async fn b104_migrators_take_turns() {
    let file = TestFile::plain("turns");
    let migrator = Migrator::new(file.path());
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let migrator = migrator.clone();
            std::thread::spawn(move || migrator.up().expect("applied by one of them"))
        })
        .collect();
    let mut applied: Vec<i32> = racers.into_iter().flat_map(|racer| racer.join().expect("no panic")).collect();
    applied.sort_unstable();
    assert_eq!(applied, all());
    migrator.check().expect("one schema");
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_named() {
    let file = TestFile::plain("locked");
    std::fs::File::create(file.path()).expect("an empty file");
    let mut other = file.connect().await;
    run(&mut other, "PRAGMA journal_mode = WAL").await;
    let tx = other.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
    let error = Migrator::new(file.path()).lock_timeout(Duration::from_millis(100)).up().expect_err("locked");
    assert!(matches!(error, MigrateError::Busy(_)), "{error}");
    tx.rollback().await.expect("rollback");
    assert_eq!(migrate::up(file.path()).expect("free"), all());
}

#[tokio::test]
async fn check_refuses_drift() {
    let cases = [
        ("DROP TRIGGER fencepost_outbox_id", "missing: trigger fencepost_outbox_id"),
        ("ALTER TABLE fencepost_outbox ADD COLUMN mine TEXT", "not expected: table fencepost_outbox"),
        ("CREATE INDEX mine ON fencepost_outbox (topic)", "not expected: index mine"),
        ("UPDATE fencepost_schema_migrations SET checksum = 'x' WHERE version = 1", "migration 1 was applied"),
        ("DELETE FROM fencepost_schema_migrations WHERE version = 1", "migration 2 was applied"),
        ("INSERT INTO fencepost_schema_migrations (version, name, checksum) VALUES (99, 'x', 'x')", "migration 99"),
    ];
    for (sql, told) in cases {
        let file = TestFile::create("drift");
        run(&mut file.connect().await, sql).await;
        let error = Migrator::new(file.path()).check().expect_err(sql).to_string();
        assert!(error.contains(told), "{sql}: {error}");
    }
}

/// The printed text makes the same tables.
#[tokio::test]
async fn the_printed_sql_passes_the_check() {
    let file = TestFile::plain("printed");
    std::fs::File::create(file.path()).expect("an empty file");
    let mut connection = file.connect().await;
    run(&mut connection, Migrator::sql(0)).await;
    Migrator::new(file.path()).check().expect("as applied");
    assert_eq!(Migrator::sql(99).matches("BEGIN").count(), 0);
}

#[tokio::test]
async fn what_is_no_database_or_has_other_texts_is_refused() {
    let file = TestFile::plain("alien");
    std::fs::write(file.path(), "this is a text file, and longer than a header of SQLite's would be".repeat(20))
        .expect("a file");
    let error = migrate::up(file.path()).expect_err("no database").to_string();
    assert!(error.contains("no SQLite database"), "{error}");
    let error = migrate::up(file.folder()).expect_err("a folder").to_string();
    assert!(error.contains("can't be opened"), "{error}");
    let utf16 = TestFile::plain("utf16");
    std::fs::File::create(utf16.path()).expect("an empty file");
    run(&mut utf16.connect().await, "PRAGMA encoding = 'UTF-16'; CREATE TABLE t (x)").await;
    let error = migrate::up(utf16.path()).expect_err("UTF-16").to_string();
    assert!(error.contains("UTF-16"), "{error}");
}

/// Rules that SQL by hand could break.
#[tokio::test]
async fn constraints_state_the_invariants() {
    let file = TestFile::create("constraints");
    let mut connection = file.connect().await;
    let refused = [
        ("UPDATE fencepost_lanes SET owner = 'x' WHERE lane = 0", "fencepost_lanes_lease_check"),
        ("UPDATE fencepost_lanes SET generation = -1", "fencepost_lanes_generation_check"),
        ("UPDATE fencepost_lanes SET last_slot = 32 WHERE lane = 0", "a slot would be in two lanes"),
        ("INSERT INTO fencepost_lanes (lane, first_slot, last_slot) VALUES (9, 255, 255)", "a slot would be in two lanes"),
        ("INSERT INTO fencepost_batches SELECT * FROM fencepost_batches WHERE lane = 0", "UNIQUE"),
        (
            "INSERT INTO fencepost_batches (lane, n, kind, generation, owner, tag, lo, lo_seq0, cursor_id, open, open_tag)
             VALUES (0, 1, 'mark', 1, 'x', randomblob(16), '1:1:', 0, 0, 1, randomblob(16))",
            "fencepost_batches_open_check",
        ),
        (
            "INSERT INTO fencepost_batches (lane, n, kind, generation, owner, tag, lo, lo_seq0, cursor_id)
             VALUES (0, 1, 'mark', 1, 'x', randomblob(16), '1:1:', 0, 7)",
            "fencepost_batches_after_check",
        ),
        (
            "INSERT INTO fencepost_batches (lane, n, kind, generation, tag, lo, lo_seq0, cursor_id)
             VALUES (0, 1, 'mark', 1, randomblob(16), '1:1:', 0, 0)",
            "fencepost_batches_owner_check",
        ),
    ];
    for (sql, told) in refused {
        let said = refusal(&mut connection, sql).await;
        assert!(said.contains(told), "{sql}: {said}");
    }
}
