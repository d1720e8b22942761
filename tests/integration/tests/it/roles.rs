//! The roles step: what each role may do, and above all what it may not.

use fencepost_core::schema::Schema;
use fencepost_integration::database::{TestDatabase, execute};
use fencepost_integration::random;
use fencepost_relay::store::postgres::migrate::{MIGRATIONS, MigrateError, Migrator, RolePrefix};
use sqlx::{AssertSqlSafe, PgConnection};

/// Insufficient privilege.
const DENIED: &str = "42501";
/// A generated column can't be written by anybody.
const GENERATED: &str = "428C9";

/// A database with roles of its own; [`Roles::drop`] removes the roles, which belong to the whole cluster.
struct Roles {
    database: TestDatabase,
    connection: PgConnection,
    prefix: String,
}

impl Roles {
    async fn make() -> Self {
        let database = TestDatabase::plain("roles").await;
        let mut connection = database.connect().await;
        let prefix = format!("T \"{}", random::suffix());
        let migrator = Migrator::new(Schema::default());
        migrator.up(&mut connection).await.expect("migrations");
        let roles = RolePrefix::new(&prefix).expect("a prefix");
        migrator.roles(&mut connection, &roles).await.expect("roles");
        migrator.roles(&mut connection, &roles).await.expect("again");
        Roles { database, connection, prefix }
    }

    fn role(&self, kind: &str) -> String {
        format!("\"{}_{kind}\"", self.prefix.replace('"', "\"\""))
    }

    async fn act_as(&mut self, kind: &str) {
        let role = self.role(kind);
        execute(&mut self.connection, format!("SET ROLE {role}")).await;
    }

    async fn may(&mut self, sql: &str) {
        execute(&mut self.connection, sql).await;
    }

    async fn may_not(&mut self, code: &str, sql: &str) {
        let error = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.err();
        let error = error.unwrap_or_else(|| panic!("allowed: {sql}"));
        let actual = error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
        assert_eq!(actual.as_deref(), Some(code), "{sql}: {error}");
    }

    async fn drop(mut self) {
        let [owner, producer, relay, admin] = ["owner", "producer", "relay", "admin"].map(|kind| self.role(kind));
        let all = format!("{owner}, {producer}, {relay}, {admin}");
        execute(&mut self.connection, format!("RESET ROLE; DROP OWNED BY {all} CASCADE; DROP ROLE {all}")).await;
        drop(self.connection);
        drop(self.database);
    }
}

#[tokio::test]
async fn producers_write_public_columns_and_read_nothing_else() {
    let mut roles = Roles::make().await;
    roles.act_as("producer").await;
    for sql in [
        "INSERT INTO \"fencepost\".outbox (topic, type, payload, key, tenant, partition, content_type, event_time,
           header_keys, header_values, message_id)
         VALUES ('t', 't', 'x', 'k', 'a', 1, 'text/plain', now(), '{a}', '{b}', gen_random_uuid()) RETURNING id, message_id",
        "INSERT INTO \"fencepost\".outbox (topic, type) VALUES ('t', 't')",
        "SELECT * FROM \"fencepost\".enqueue(topic => 't', type => 't', payload => 'x')",
        "SELECT id, message_id FROM \"fencepost\".outbox",
    ] {
        roles.may(sql).await;
    }
    for column in ["id", "xid", "created_at"] {
        let sql = format!("INSERT INTO \"fencepost\".outbox (topic, type, {column}) VALUES ('t', 't', DEFAULT)");
        roles.may_not(DENIED, &sql).await;
    }
    roles
        .may_not(
            DENIED,
            "INSERT INTO \"fencepost\".outbox (id, topic, type) OVERRIDING SYSTEM VALUE VALUES (7, 't', 't')",
        )
        .await;
    roles.may_not(GENERATED, "INSERT INTO \"fencepost\".outbox (topic, type, slot) VALUES ('t', 't', 1)").await;
    for sql in [
        "COPY \"fencepost\".outbox (id, topic, type) FROM STDIN",
        "SELECT payload FROM \"fencepost\".outbox",
        "SELECT key, header_values FROM \"fencepost\".outbox",
        "SELECT * FROM \"fencepost\".outbox",
        "UPDATE \"fencepost\".outbox SET topic = 'u'",
        "DELETE FROM \"fencepost\".outbox",
        "TRUNCATE \"fencepost\".outbox",
        "SELECT last_value FROM \"fencepost\".outbox_id_seq",
        "SELECT setval('\"fencepost\".outbox_id_seq', 1)",
        "SELECT * FROM \"fencepost\".origin",
        "SELECT * FROM \"fencepost\".settings",
        "SELECT * FROM \"fencepost\".lanes",
        "SELECT * FROM \"fencepost\".batches",
        "SELECT * FROM \"fencepost\".relays",
        "SELECT * FROM \"fencepost\".schema_migrations",
        "CREATE TABLE \"fencepost\".mine ()",
        "ALTER TABLE \"fencepost\".outbox ADD mine text",
    ] {
        roles.may_not(DENIED, sql).await;
    }
    roles.drop().await;
}

#[tokio::test]
async fn the_relay_reads_the_log_and_moves_lanes() {
    let mut roles = Roles::make().await;
    roles.act_as("relay").await;
    for sql in [
        "SELECT * FROM \"fencepost\".outbox",
        "SELECT last_value FROM \"fencepost\".outbox_id_seq",
        "SELECT * FROM \"fencepost\".origin, \"fencepost\".settings, \"fencepost\".schema_migrations",
        "UPDATE \"fencepost\".lanes SET owner = 'r', generation = 1, lease_expires_at = now(), status = 's' WHERE lane = 0",
        "INSERT INTO \"fencepost\".batches (lane, n, generation, owner, kind, tag, pos_after)
         SELECT 0, 1, 1, 'r', 'fence', gen_random_uuid(), pos_after FROM \"fencepost\".batches WHERE lane = 0",
        "DELETE FROM \"fencepost\".batches WHERE lane = 0 AND n = 0",
        "INSERT INTO \"fencepost\".relays (owner) VALUES ('r')",
        "UPDATE \"fencepost\".relays SET seen_at = clock_timestamp()",
        "DELETE FROM \"fencepost\".relays",
        "INSERT INTO \"fencepost\".audit_findings (lane, from_n, to_n, expected, found, ids, relay)
         VALUES (0, 0, 1, 1, 2, '{7}', 'r')",
        "SELECT * FROM \"fencepost\".audit_findings",
    ] {
        roles.may(sql).await;
    }
    for sql in [
        "INSERT INTO \"fencepost\".outbox (topic, type) VALUES ('t', 't')",
        "SELECT \"fencepost\".enqueue(topic => 't', type => 't', payload => 'x')",
        "UPDATE \"fencepost\".outbox SET topic = 'u'",
        "DELETE FROM \"fencepost\".outbox",
        "SELECT nextval('\"fencepost\".outbox_id_seq')",
        "SELECT setval('\"fencepost\".outbox_id_seq', 1)",
        "UPDATE \"fencepost\".batches SET messages = 1",
        "DELETE FROM \"fencepost\".audit_findings",
        "UPDATE \"fencepost\".audit_findings SET closed_at = now(), closed_by = 'r', reason = 'r'",
        "INSERT INTO \"fencepost\".audit_findings (lane, from_n, to_n, expected, found, ids, relay, closed_at, closed_by, reason)
         VALUES (0, 0, 2, 1, 2, '{7}', 'r', now(), 'r', 'r')",
        "UPDATE \"fencepost\".lanes SET first_slot = 1",
        "UPDATE \"fencepost\".lanes SET lane = 9",
        "INSERT INTO \"fencepost\".lanes (lane, first_slot, last_slot) VALUES (9, 0, 0)",
        "DELETE FROM \"fencepost\".lanes",
        "INSERT INTO \"fencepost\".origin (source_id) VALUES (gen_random_uuid())",
        "UPDATE \"fencepost\".origin SET source_id = gen_random_uuid()",
        "DELETE FROM \"fencepost\".origin",
        "UPDATE \"fencepost\".settings SET keep_delivered = '0'",
        "UPDATE \"fencepost\".schema_migrations SET name = 'x'",
        "CREATE TABLE \"fencepost\".mine ()",
    ] {
        roles.may_not(DENIED, sql).await;
    }
    roles.drop().await;
}

#[tokio::test]
async fn admins_repair_lanes_and_never_messages() {
    let mut roles = Roles::make().await;
    roles.act_as("admin").await;
    for sql in [
        "SELECT * FROM \"fencepost\".outbox, \"fencepost\".batches, \"fencepost\".relays, \"fencepost\".schema_migrations",
        "UPDATE \"fencepost\".lanes SET last_slot = 254 WHERE lane = 7",
        "INSERT INTO \"fencepost\".lanes (lane, first_slot, last_slot) VALUES (8, 255, 255)",
        "INSERT INTO \"fencepost\".batches (lane, n, generation, kind, tag, pos_after)
         SELECT 8, 0, 0, 'init', gen_random_uuid(), pos_after FROM \"fencepost\".batches WHERE lane = 0",
        "UPDATE \"fencepost\".settings SET keep_delivered = '2 min', kafka_cluster_id = 'c'",
        "DELETE FROM \"fencepost\".relays",
        "UPDATE \"fencepost\".audit_findings SET closed_at = now(), closed_by = 'a', reason = 'r'",
    ] {
        roles.may(sql).await;
    }
    for sql in [
        "INSERT INTO \"fencepost\".outbox (topic, type) VALUES ('t', 't')",
        "UPDATE \"fencepost\".outbox SET topic = 'u'",
        "DELETE FROM \"fencepost\".outbox",
        "SELECT setval('\"fencepost\".outbox_id_seq', 1)",
        "UPDATE \"fencepost\".batches SET messages = 1",
        "DELETE FROM \"fencepost\".batches",
        "DELETE FROM \"fencepost\".lanes",
        "UPDATE \"fencepost\".origin SET source_id = gen_random_uuid()",
        "UPDATE \"fencepost\".settings SET schema_version = 1",
        "DROP TABLE \"fencepost\".outbox",
    ] {
        roles.may_not(DENIED, sql).await;
    }
    roles.drop().await;
}

/// Nobody logs in as the owner, it owns everything, and a stranger may do nothing.
#[tokio::test]
async fn the_owner_can_not_log_in_and_strangers_see_nothing() {
    let mut roles = Roles::make().await;
    let owner = format!("{}_owner", roles.prefix);
    let foreign = "SELECT count(*) FROM (
        SELECT relowner AS o FROM pg_class WHERE relnamespace = '\"fencepost\"'::regnamespace
        UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = '\"fencepost\"'::regnamespace
        UNION ALL SELECT typowner FROM pg_type WHERE typnamespace = '\"fencepost\"'::regnamespace
        UNION ALL SELECT nspowner FROM pg_namespace WHERE nspname = 'fencepost') x
      JOIN pg_roles r ON r.oid = o WHERE r.rolname <> $1 OR r.rolcanlogin";
    let foreign: i64 = sqlx::query_scalar(foreign).bind(&owner).fetch_one(&mut roles.connection).await.expect("owners");
    assert_eq!(foreign, 0, "objects of another owner");
    let stranger = format!("stranger_{}", random::suffix());
    roles.may(&format!("CREATE ROLE {stranger} LOGIN")).await;
    let mut connection = roles.database.connect_as(&stranger).await;
    for sql in [
        "SELECT id FROM \"fencepost\".outbox",
        "SELECT \"fencepost\".uuid_v7()",
        "SELECT \"fencepost\".enqueue(topic => 't', type => 't', payload => 'x')",
    ] {
        let error = sqlx::raw_sql(sql).execute(&mut connection).await.expect_err(sql);
        assert_eq!(error.as_database_error().and_then(|e| e.code()).as_deref(), Some(DENIED), "{sql}");
    }
    drop(connection);
    roles.may(&format!("DROP ROLE {stranger}")).await;
    roles.drop().await;
}

/// enqueue runs as the owner: a caller's schema earlier on the path must not catch anything.
#[tokio::test]
async fn enqueue_ignores_the_callers_search_path() {
    let mut roles = Roles::make().await;
    let producer = roles.role("producer");
    roles.may(&format!("CREATE SCHEMA evil AUTHORIZATION {producer}")).await;
    roles.act_as("producer").await;
    roles
        .may(
            "CREATE FUNCTION evil.octet_length(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'caught'; END $$;
             CREATE TEMP TABLE outbox (id bigint);
             SET search_path = evil, pg_temp, pg_catalog;
             SELECT \"fencepost\".enqueue(topic => 't', type => 't', payload => 'x')",
        )
        .await;
    roles.may("RESET ROLE; RESET search_path; DROP SCHEMA evil CASCADE").await;
    roles.drop().await;
}

/// Without CREATEROLE the step says what is missing and changes nothing.
#[tokio::test]
async fn the_step_is_denied_whole() {
    let database = TestDatabase::plain("roles_denied").await;
    let mut dba = database.connect().await;
    let role = format!("plain_{}", random::suffix());
    execute(&mut dba, format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA fencepost AUTHORIZATION {role}")).await;
    let mut connection = database.connect_as(&role).await;
    let migrator = Migrator::new(Schema::default());
    migrator.up(&mut connection).await.expect("its own schema");
    let denied = migrator.roles(&mut connection, &RolePrefix::new(&role).expect("a prefix")).await;
    assert!(matches!(denied, Err(MigrateError::Denied { .. })), "{denied:?}");
    migrator.check(&mut connection).await.expect("unchanged");
    drop(connection);
    execute(&mut dba, format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
}

/// After the step the one who migrates acts as the owner role, so that new objects get it too.
#[tokio::test]
async fn later_migrations_belong_to_the_owner() {
    let mut roles = Roles::make().await;
    let migrator = Migrator::new(Schema::default());
    // as a DBA does it who gives the schema to the role before there is anything in it
    let owner = roles.role("owner");
    roles.may(&format!("DROP SCHEMA \"fencepost\" CASCADE; CREATE SCHEMA \"fencepost\" AUTHORIZATION {owner}")).await;
    let all: Vec<i32> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    assert_eq!(migrator.up(&mut roles.connection).await.expect("all of them again"), all);
    let owner = "SELECT pg_get_userbyid(proowner) FROM pg_proc WHERE oid = '\"fencepost\".enqueue'::regproc";
    let owner: String = sqlx::query_scalar(owner).fetch_one(&mut roles.connection).await.expect("the owner");
    assert_eq!(owner, format!("{}_owner", roles.prefix));
    roles.drop().await;
}
