//! The three rules of the log, shown through a bare reader: what breaks each of them loses messages (or
//! walks the whole log) in a schedule in which the right form loses none. Schedules are forced with
//! advisory locks and explicit transactions, not with sleeps.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_core::position::{Base, Floor, Position, Sighting, Snapshot, Tick};
use fencepost_core::schema::Schema;
use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::{random, wait};
use fencepost_relay::store::postgres::migrate;
use sqlx::{AssertSqlSafe, PgConnection};

/// A sequence that was never used says 1 and `is_called = false`.
const LAST_ID: &str =
    "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM \"fencepost\".outbox_id_seq";

/// The upper bound of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// Rule 3.
    Seq1,
    /// Broken: rows drawn between the two readings of the sequence fall out.
    Seq0,
}

/// Reads everything of a window, the plainest way: no lanes, no pages, no cursor.
struct Reader {
    connection: PgConnection,
    lo: Floor,
    bound: Bound,
    /// Every id that it delivered, in order.
    read: Vec<i64>,
}

impl Reader {
    async fn new(database: &TestDatabase) -> Self {
        let mut connection = database.connect().await;
        execute(&mut connection, "SET jit = off; SET enable_seqscan = off").await;
        Reader { connection, lo: Position::beginning().lo, bound: Bound::Seq1, read: Vec::new() }
    }

    async fn last_id(&mut self) -> i64 {
        sqlx::query_scalar(LAST_ID).fetch_one(&mut self.connection).await.expect("the sequence")
    }

    /// Rule 2: after the sequence was read, a transaction id is taken and committed.
    async fn base(&mut self) -> Base {
        let seq0 = self.last_id().await;
        execute(&mut self.connection, "SELECT pg_current_xact_id()").await;
        Base { seq0 }
    }

    /// Broken: nothing between the sequence and the snapshot.
    async fn base_without_burn(&mut self) -> Base {
        Base { seq0: self.last_id().await }
    }

    async fn sight(&mut self) -> Sighting {
        let sql = format!("SELECT pg_current_snapshot()::text, ({LAST_ID})");
        let row: (String, i64) =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut self.connection).await.expect("a sighting");
        Sighting { snapshot: row.0.parse().expect("a snapshot"), last_id: row.1 }
    }

    async fn tick(&mut self) -> Tick {
        let base = self.base().await;
        Tick::new(base, &self.sight().await)
    }

    /// Reads the window up to `up` and stands there.
    async fn advance(&mut self, up: &Tick) {
        let running: Vec<String> = self.lo.snapshot.ended_by(&up.snapshot).map(|x| x.to_string()).collect();
        let sql = self.page_sql(&up.snapshot, Some(if self.bound == Bound::Seq1 { up.seq1 } else { up.seq0 }));
        let sql = format!(
            "SELECT id FROM \"fencepost\".outbox WHERE xid::text = ANY ('{{{}}}') AND id <= {} UNION ALL ({sql}) ORDER BY 1",
            running.join(","),
            self.lo.seq0
        );
        let ids: Vec<i64> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await.expect("a window");
        self.read.extend(ids);
        self.lo = Position::at(up).lo;
    }

    /// Fresh rows of a window.
    fn page_sql(&self, up: &Snapshot, upto: Option<i64>) -> String {
        let bound = upto.map_or(String::new(), |id| format!("AND id <= {id}"));
        format!(
            "SELECT id FROM \"fencepost\".outbox WHERE id > {} {bound}
                AND NOT pg_visible_in_snapshot(xid, '{}') AND pg_visible_in_snapshot(xid, '{up}') ORDER BY id LIMIT 2000",
            self.lo.seq0, self.lo.snapshot
        )
    }

    /// Committed rows that it did not deliver; a row delivered twice or never committed is a failure.
    async fn lost(&mut self) -> Vec<i64> {
        let committed: Vec<i64> = sqlx::query_scalar("SELECT id FROM \"fencepost\".outbox")
            .fetch_all(&mut self.connection)
            .await
            .expect("rows");
        let committed: BTreeSet<i64> = committed.into_iter().collect();
        let read: BTreeSet<i64> = self.read.iter().copied().collect();
        assert_eq!(read.len(), self.read.len(), "delivered twice: {:?}", self.read);
        assert!(read.is_subset(&committed), "delivered without a commit");
        committed.difference(&read).copied().collect()
    }
}

const INSERT: &str = "INSERT INTO \"fencepost\".outbox (topic, type) VALUES ('t', 't')";

async fn migrated(hint: &str) -> TestDatabase {
    let database = TestDatabase::plain(hint).await;
    migrate::up(&mut database.connect().await, &Schema::default()).await.expect("migrations");
    database
}

/// Rule 1. A tick falls between a writer's two column defaults: with an id that was drawn before the transaction
/// id, the row lies below the tick's sequence value while its transaction is newer than the tick.
async fn tick_between_the_defaults(id_default: &str) -> Vec<i64> {
    let database = migrated("rule_1").await;
    let mut holder = database.connect().await;
    execute(
        &mut holder,
        format!(
            "CREATE FUNCTION gated_xid() RETURNS xid8 LANGUAGE plpgsql AS $$ BEGIN
               PERFORM pg_advisory_lock_shared(1); RETURN pg_current_xact_id(); END $$;
             ALTER TABLE \"fencepost\".outbox ALTER xid SET DEFAULT gated_xid(), ALTER id SET DEFAULT {id_default};
             {INSERT}; SELECT pg_advisory_lock(1)"
        ),
    )
    .await;
    let mut writer = database.connect().await;
    let writing = tokio::spawn(async move { execute(&mut writer, INSERT).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    wait::until(Duration::from_secs(10), "the writer stands between the defaults", async || {
        sqlx::query_scalar(waits).fetch_one(&mut holder).await.expect("locks")
    })
    .await;
    let mut reader = Reader::new(&database).await;
    let up = reader.tick().await;
    assert_eq!(up.seq0, 2, "the id was drawn");
    reader.advance(&up).await;
    execute(&mut holder, "SELECT pg_advisory_unlock(1)").await;
    writing.await.expect("the writer");
    for _ in 0..3 {
        let up = reader.tick().await;
        reader.advance(&up).await;
    }
    reader.lost().await
}

#[tokio::test]
async fn rule_1_the_transaction_id_comes_before_the_sequence_value() {
    let right = "nextval(CASE WHEN pg_current_xact_id() IS NOT NULL THEN '\"fencepost\".outbox_id_seq'::regclass END)";
    // A nextval that writes WAL takes a transaction id itself: each 32nd, and the first after a checkpoint. The
    // row before it took the 32nd; a checkpoint may come in between once, hardly three times.
    let mut lost = Vec::new();
    for _ in 0..3 {
        lost.extend(tick_between_the_defaults("nextval('\"fencepost\".outbox_id_seq')").await);
    }
    assert!(lost.contains(&2), "the plain default loses");
    assert!(tick_between_the_defaults(right).await.is_empty(), "the data dependency loses nothing");
}

/// Rule 2. A writer runs, and no younger transaction has ended: its id is at or above the snapshot's xmax,
/// so the snapshot's list does not show it. Other databases' commits may end one in between, hence rounds.
#[tokio::test]
async fn rule_2_a_tick_needs_a_committed_transaction_id() {
    const ROUNDS: usize = 300;
    let database = migrated("rule_2").await;
    let (mut broken, mut right) = (Reader::new(&database).await, Reader::new(&database).await);
    let mut writer = database.connect().await;
    let mut rounds = 0;
    while rounds < ROUNDS && (rounds < 20 || broken.lost().await.is_empty()) {
        rounds += 1;
        execute(&mut writer, "BEGIN").await;
        execute(&mut writer, INSERT).await;
        let base = broken.base_without_burn().await;
        let up = Tick::new(base, &broken.sight().await);
        broken.advance(&up).await;
        let up = right.tick().await;
        right.advance(&up).await;
        execute(&mut writer, if rounds % 4 == 3 { "ROLLBACK" } else { "COMMIT" }).await;
        for reader in [&mut broken, &mut right] {
            let up = reader.tick().await;
            reader.advance(&up).await;
        }
    }
    assert!(!broken.lost().await.is_empty(), "without the burnt id {rounds} rounds lost nothing");
    assert_eq!(right.lost().await, Vec::<i64>::new());
}

/// Rule 3, the bound's value: a row drawn and committed between the two readings of the sequence is visible in the
/// tick's snapshot, so the next window takes it for delivered.
async fn row_between_the_readings(bound: Bound) -> Vec<i64> {
    let database = migrated("rule_3").await;
    let mut reader = Reader { bound, ..Reader::new(&database).await };
    let mut writer = database.connect().await;
    execute(&mut writer, INSERT).await;
    let base = reader.base().await;
    execute(&mut writer, INSERT).await;
    let up = Tick::new(base, &reader.sight().await);
    assert_eq!((up.seq0, up.seq1), (1, 2));
    reader.advance(&up).await;
    for _ in 0..3 {
        execute(&mut writer, INSERT).await;
        let up = reader.tick().await;
        reader.advance(&up).await;
    }
    reader.lost().await
}

#[tokio::test]
async fn rule_3_the_upper_bound_is_read_after_the_snapshot() {
    assert_eq!(row_between_the_readings(Bound::Seq0).await, [2], "the earlier value loses");
    assert!(row_between_the_readings(Bound::Seq1).await.is_empty(), "the later one does not");
}

/// Rule 3, its cost: without a bound the last page of a window walks everything that was inserted since.
#[tokio::test]
async fn rule_3_a_page_reads_no_further_than_its_window() {
    let database = migrated("rule_3_cost").await;
    let mut writer = database.connect().await;
    let many =
        |n: i32| format!("INSERT INTO \"fencepost\".outbox (topic, type) SELECT 't', 't' FROM generate_series(1, {n})");
    let mut reader = Reader::new(&database).await;
    execute(&mut writer, many(5)).await;
    let up = reader.tick().await;
    execute(&mut writer, many(50_000)).await;
    execute(&mut writer, "VACUUM ANALYZE \"fencepost\".outbox").await;
    let bounded = buffers(&mut reader, &up, Some(up.seq1)).await;
    let unbounded = buffers(&mut reader, &up, None).await;
    assert!(bounded < 20 && unbounded > 20 * bounded, "{bounded} buffers with the bound, {unbounded} without");
}

/// Buffers that a page touches; both forms find the same five rows.
async fn buffers(reader: &mut Reader, up: &Tick, upto: Option<i64>) -> i64 {
    let page = reader.page_sql(&up.snapshot, upto);
    let ids: Vec<i64> =
        sqlx::query_scalar(AssertSqlSafe(page.clone())).fetch_all(&mut reader.connection).await.expect("page");
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {page}");
    let plan: String = sqlx::raw_sql(AssertSqlSafe(explain))
        .fetch_one(&mut reader.connection)
        .await
        .map(|row| sqlx::Row::get_unchecked::<String, _>(&row, 0))
        .expect("a plan");
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    let count = |name: &str| plan[0]["Plan"][name].as_i64().expect("a count");
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}

/// One base serves every later sighting: the sequence is read and a transaction id burnt once, and ticks
/// are made of it while writers of all kinds come and go.
#[tokio::test]
async fn one_base_serves_many_ticks() {
    let database = migrated("base").await;
    let mut reader = Reader::new(&database).await;
    let [mut early, mut late, mut third] =
        [database.connect().await, database.connect().await, database.connect().await];
    execute(&mut early, format!("BEGIN; {INSERT}")).await; // id 1, below the base, commits last
    execute(&mut third, "BEGIN; SELECT pg_current_xact_id()").await; // an old transaction id, a row after the base
    let base = reader.base().await;
    assert_eq!(base.seq0, 1);
    execute(&mut late, format!("BEGIN; {INSERT}")).await; // id 2, newer than the base
    for step in 0..8 {
        match step {
            1 => execute(&mut third, INSERT).await, // id 3 under the old transaction id
            2 => execute(&mut late, "COMMIT").await,
            3 => execute(&mut late, format!("BEGIN; {INSERT}; ROLLBACK; {INSERT}")).await,
            4 => execute(&mut third, "COMMIT").await,
            6 => execute(&mut early, format!("{INSERT}; COMMIT")).await,
            _ => {}
        }
        let up = Tick::new(base, &reader.sight().await);
        reader.advance(&up).await;
    }
    assert_eq!(reader.lost().await, Vec::<i64>::new());
    assert_eq!(reader.read, [2, 5, 3, 1, 6], "each as soon as it was committed");
}

/// The same under a seeded schedule: bases far apart, writers that take ids early, hold, go on, roll back.
#[tokio::test]
async fn one_base_serves_many_ticks_under_any_schedule() {
    const WRITERS: usize = 6;
    let seed = random::seed();
    eprintln!("seed {seed}");
    let mut draw = Draw(seed);
    let database = migrated("schedule").await;
    let mut reader = Reader::new(&database).await;
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push((database.connect().await, false));
    }
    let mut base = reader.base().await;
    for _ in 0..1_500 {
        match draw.below(10) {
            0..=6 => {
                let (writer, open) = &mut writers[draw.below(WRITERS)];
                let sql = match (*open, draw.below(8)) {
                    (false, 0..=2) => "BEGIN; SELECT pg_current_xact_id()",
                    (false, 3..=5) => "BEGIN",
                    (false, _) => INSERT,
                    (true, 0..=4) => INSERT,
                    (true, 5) => {
                        "SAVEPOINT s; INSERT INTO \"fencepost\".outbox (topic, type) VALUES ('t', 't'); ROLLBACK TO s"
                    }
                    (true, 6) => "COMMIT",
                    (true, _) => "ROLLBACK",
                };
                execute(writer, sql).await;
                *open = if *open { !matches!(sql, "COMMIT" | "ROLLBACK") } else { sql.starts_with("BEGIN") };
            }
            7..=8 => {
                let up = Tick::new(base, &reader.sight().await);
                reader.advance(&up).await;
            }
            _ if draw.below(10) == 0 => base = reader.base().await,
            _ => {}
        }
    }
    for (writer, open) in &mut writers {
        if *open {
            execute(writer, "COMMIT").await;
        }
    }
    let up = Tick::new(base, &reader.sight().await);
    reader.advance(&up).await;
    assert_eq!(reader.lost().await, Vec::<i64>::new(), "seed {seed}");
    assert!(reader.read.len() > 100, "the schedule wrote {} rows", reader.read.len());
}

/// splitmix64: a schedule that its seed repeats.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).expect("below the bound")
    }
}
