//! The suite's hands in PostgreSQL.

use std::time::Duration;

use fencepost_core::lane::LaneId;
use fencepost_relay::store::postgres::{PostgresSettings, PostgresStore};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use time::OffsetDateTime;

use super::{Fixture, LEASE, NewMessage, StoredBatch, Writer};
use crate::database::{TestDatabase, execute};

/// A source in a database of its own.
pub struct PostgresFixture {
    /// The database.
    pub database: TestDatabase,
    /// One connection as the superuser.
    pub admin: PgConnection,
    store: PostgresStore,
}

/// A connection inside a transaction.
pub struct PostgresWriter(PgConnection);

impl PostgresFixture {
    /// Settings for its store.
    pub fn settings(&self) -> PostgresSettings {
        PostgresSettings::new(self.database.url(), LEASE)
    }

    async fn run(&mut self, sql: String) {
        execute(&mut self.admin, sql).await;
    }
}

impl Fixture for PostgresFixture {
    type Store = PostgresStore;
    type Writer = PostgresWriter;

    async fn create(case: &str) -> Self {
        let database = TestDatabase::create(case).await;
        let mut admin = database.connect().await;
        // the rows came with the template, and a fresh source has none that are old
        execute(&mut admin, r#"UPDATE "fencepost".batches SET written_at = clock_timestamp()"#).await;
        let store = PostgresStore::new(PostgresSettings::new(database.url(), LEASE)).expect("usable settings");
        PostgresFixture { database, admin, store }
    }

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn begin(&self) -> PostgresWriter {
        let mut connection = self.database.connect().await;
        execute(&mut connection, "BEGIN").await;
        PostgresWriter(connection)
    }

    async fn skip_ids(&mut self, next: i64) {
        self.run(format!(r#"SELECT setval('"fencepost".outbox_id_seq', {next}, false)"#)).await;
    }

    async fn expire(&mut self, lane: LaneId) {
        let sql =
            r#"UPDATE "fencepost".lanes SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE lane = "#;
        self.run(format!("{sql}{lane}")).await;
    }

    async fn age_batches(&mut self, lane: LaneId, by: Duration) {
        let ms = by.as_millis();
        let sql = r#"UPDATE "fencepost".batches SET written_at = written_at - interval '1 ms' *"#;
        self.run(format!("{sql} {ms} WHERE lane = {lane}")).await;
    }

    async fn age_heartbeats(&mut self, by: Duration) {
        let ms = by.as_millis();
        self.run(format!(r#"UPDATE "fencepost".relays SET seen_at = seen_at - interval '1 ms' * {ms}"#)).await;
    }

    async fn pad_batches(&mut self, lane: LaneId, count: i64) {
        self.run(format!(
            r#"INSERT INTO "fencepost".batches (lane, n, kind, generation, owner, tag, eff, pos_after)
               SELECT b.lane, b.n + i, 'mark', b.generation, b.owner, gen_random_uuid(), b.eff, b.pos_after
                 FROM (SELECT * FROM "fencepost".batches WHERE lane = {lane} ORDER BY n DESC LIMIT 1) b,
                      generate_series(1, {count}) AS i"#
        ))
        .await;
    }

    async fn leave_open(&mut self, lane: LaneId) {
        self.run(format!(
            r#"INSERT INTO "fencepost".batches
                      (lane, n, kind, generation, owner, tag, eff, open, open_tag, pos_before, pos_after, intent)
               SELECT b.lane, b.n + 1, 'prepared', b.generation, b.owner, gen_random_uuid(), b.eff, b.n + 1, gen_random_uuid(),
                      b.pos_after, ROW('5:9:6', 40, '9:12:', 50, 60, 55, NULL)::"fencepost".position, '{{"parks": [7]}}'
                 FROM "fencepost".batches b WHERE b.lane = {lane} ORDER BY b.n DESC LIMIT 1"#
        ))
        .await;
    }

    async fn recount(&mut self, lane: LaneId, n: i64, messages: i64) {
        let sql = r#"UPDATE "fencepost".batches SET messages ="#;
        self.run(format!("{sql} {messages} WHERE lane = {lane} AND n = {n}")).await;
    }

    async fn smuggle(&mut self, id: i64) -> i64 {
        let sql = r#"INSERT INTO "fencepost".outbox (xid, message_id, tenant, topic, type, key, payload)
                     SELECT xid, message_id, tenant, topic, type, key, payload FROM "fencepost".outbox WHERE id = $1
                     RETURNING id"#;
        sqlx::query_scalar(sql).bind(id).fetch_one(&mut self.admin).await.expect("a copy")
    }

    async fn close_findings(&mut self) {
        let sql = r#"UPDATE "fencepost".audit_findings
                        SET closed_at = clock_timestamp(), closed_by = 'me', reason = 'a test' WHERE closed_at IS NULL"#;
        self.run(sql.into()).await;
    }

    async fn forget_batches(&mut self, lane: LaneId) {
        self.run(format!(r#"DELETE FROM "fencepost".batches WHERE lane = {lane}"#)).await;
    }

    async fn forget_lane(&mut self, lane: LaneId) {
        self.run(format!(r#"DELETE FROM "fencepost".lanes WHERE lane = {lane}"#)).await;
    }

    async fn stored(&mut self, lane: LaneId) -> Vec<StoredBatch> {
        let sql = r#"SELECT n, kind, generation, owner, ROW(eff, open, open_tag, pos_before, pos_after, intent)::text,
                            messages, bytes, took_ms::bigint
                       FROM "fencepost".batches WHERE lane = $1 ORDER BY n"#;
        let rows = sqlx::query(sql).bind(lane.0).fetch_all(&mut self.admin).await.expect("batch rows");
        let row = |row: &PgRow| StoredBatch {
            n: row.get(0),
            kind: row.get(1),
            generation: row.get(2),
            owner: row.get(3),
            carried: row.get(4),
            counts: (row.get(5), row.get(6), row.get(7)),
        };
        rows.iter().map(row).collect()
    }
}

impl Writer for PostgresWriter {
    async fn touch(&mut self) {
        execute(&mut self.0, "SELECT pg_current_xact_id()").await;
    }

    async fn enqueue(&mut self, message: &NewMessage) -> i64 {
        let sql = r#"INSERT INTO "fencepost".outbox
                       (tenant, topic, key, partition, type, content_type, header_keys, header_values, payload, event_time)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id"#;
        let (names, values): (Vec<_>, Vec<_>) = message.headers.iter().cloned().unzip();
        let headers = (!names.is_empty()).then_some((names, values)).unzip();
        let event_time = message
            .event_time_us
            .map(|us| OffsetDateTime::from_unix_timestamp_nanos(i128::from(us) * 1_000).expect("a time"));
        let query =
            sqlx::query_scalar(AssertSqlSafe(sql)).bind(&message.tenant).bind(&message.topic).bind(&message.key);
        let query = query.bind(message.partition).bind(&message.kind).bind(&message.content_type);
        let query = query.bind(headers.0).bind(headers.1).bind(&message.payload).bind(event_time);
        query.fetch_one(&mut self.0).await.expect("a message")
    }

    async fn commit(mut self) {
        execute(&mut self.0, "COMMIT").await;
    }

    async fn rollback(mut self) {
        execute(&mut self.0, "ROLLBACK").await;
    }
}
