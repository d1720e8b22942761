//! Every way into the outbox, on a real server: all write the same row, and the library stays within the
//! caller's transaction.

use std::collections::BTreeSet;

use fencepost_core::schema::Schema;
use fencepost_integration::database::{TestDatabase, execute};
use fencepost_producer::{EnqueueError, Message, MessageBuilder, Outbox, OutboxEvent, Receipt};
use fencepost_relay::store::postgres::migrate;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};
use time::macros::datetime;
use uuid::{Uuid, uuid};

const ID: Uuid = uuid!("01900000-0000-7000-8000-000000000001");
/// All that a producer gave, and the slot.
const ROWS: &str = "SELECT (to_jsonb(o) - 'id' - 'xid' - 'created_at')::text FROM \"fencepost\".outbox o ORDER BY id";

pub(super) async fn migrated(hint: &str) -> (TestDatabase, PgConnection) {
    let database = TestDatabase::plain(hint).await;
    let mut connection = database.connect().await;
    migrate::up(&mut connection, &Schema::default()).await.expect("migrations");
    (database, connection)
}

pub(super) async fn scalar<T>(connection: &mut PgConnection, sql: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await.unwrap_or_else(|e| panic!("{e}, in: {sql}"))
}

async fn rows(connection: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(ROWS).fetch_all(connection).await.expect("rows")
}

/// Every field, with what is easily lost: repeated, null and empty headers, NUL bytes, quotes.
pub(super) fn full() -> MessageBuilder {
    Message::builder("orders", "order.created", *b"{\"s\":\"a\\u0000b\"}\0\xff")
        .message_id(ID)
        .key(*b"a\0b")
        .tenant("acme, \"{}")
        .partition(3)
        .content_type("application/json")
        .event_time(datetime!(2024-02-29 12:34:56.123456 UTC))
        .header("h", "1")
        .null_header("h")
        .header("quote\"back\\comma,{} NULL", *b"\0\xff")
        .header("", "")
        .null_header("NULL")
}

/// The same as SQL: columns and values of a direct INSERT.
const COLUMNS: &str =
    "message_id, tenant, topic, type, key, partition, content_type, event_time, header_keys, header_values, payload";
const VALUES: &str = r#"'01900000-0000-7000-8000-000000000001', 'acme, "{}', 'orders', 'order.created', '\x610062', 3, 'application/json',
    '2024-02-29 12:34:56.123456+00', ARRAY['h', 'h', 'quote"back\comma,{} NULL', '', 'NULL'],
    ARRAY['\x31', NULL, '\x00ff', '', NULL]::bytea[], '\x7b2273223a22615c753030303062227d00ff'"#;
/// And as COPY's text: null is \N, a backslash is two.
const COPIED: &str = concat!(
    "01900000-0000-7000-8000-000000000001\tacme, \"{}\torders\torder.created\t\\\\x610062\t3\tapplication/json\t",
    "2024-02-29 12:34:56.123456+00\t{h,h,\"quote\\\\\"back\\\\\\\\comma,{} NULL\",\"\",\"NULL\"}\t",
    "{\"\\\\\\\\x31\",NULL,\"\\\\\\\\x00ff\",\"\\\\\\\\x\",NULL}\t\\\\x7b2273223a22615c753030303062227d00ff\n",
);

#[tokio::test]
async fn every_way_writes_the_same_row() {
    let (_database, mut connection) = migrated("ways").await;
    let message = full().build().expect("valid");
    let plain = Message::tombstone("orders", "order.created").message_id(ID).build().expect("valid");
    let mut tx = connection.begin().await.expect("a transaction");
    for outbox in [Outbox::default(), Outbox::default().unprepared()] {
        outbox.enqueue(&mut tx, &message).await.expect("enqueue");
        outbox.enqueue_many(&mut tx, std::slice::from_ref(&message)).await.expect("enqueue_many");
        // a row without headers beside one with: the other statement for both
        outbox.enqueue_many(&mut tx, &[message.clone(), plain.clone()]).await.expect("enqueue_many, mixed");
        outbox.enqueue_many(&mut tx, std::slice::from_ref(&plain)).await.expect("enqueue_many, no headers");
        outbox.enqueue(&mut tx, &plain).await.expect("enqueue, no headers");
    }
    execute(&mut tx, format!("INSERT INTO \"fencepost\".outbox ({COLUMNS}) VALUES ({VALUES})")).await;
    let arguments: Vec<String> = COLUMNS.split(", ").map(|c| format!("{c} => v.{c}")).collect();
    let call = format!(
        "SELECT e.* FROM (VALUES ({VALUES})) AS v ({COLUMNS}), LATERAL \"fencepost\".enqueue({}) e",
        arguments
            .join(", ")
            .replace("v.message_id", "v.message_id::uuid")
            .replace("v.event_time", "v.event_time::timestamptz")
            .replace("v.key", "v.key::bytea")
            .replace("v.payload", "v.payload::bytea")
    );
    execute(&mut tx, call).await;
    tx.commit().await.expect("commit");
    let copy = format!("COPY \"fencepost\".outbox ({COLUMNS}) FROM STDIN");
    let mut sink = connection.copy_in_raw(&copy).await.expect("COPY");
    sink.send(COPIED.as_bytes()).await.expect("data");
    assert_eq!(sink.finish().await.expect("COPY"), 1);
    execute(
        &mut connection,
        format!(
            "INSERT INTO \"fencepost\".outbox (topic, type, message_id) VALUES ('orders', 'order.created', '{ID}');
             SELECT \"fencepost\".enqueue(topic => 'orders', type => 'order.created', payload => NULL, message_id => '{ID}')"
        ),
    )
    .await;

    let rows = rows(&mut connection).await;
    let (full, plain): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.contains("acme"));
    assert_eq!((full.len(), plain.len()), (2 * 3 + 3, 2 * 3 + 2));
    for (kind, rows) in [("full", full), ("plain", plain)] {
        let distinct: BTreeSet<_> = rows.into_iter().collect();
        assert_eq!(distinct.len(), 1, "{kind}: {distinct:#?}");
    }
    let shown = "SELECT header_keys[4] = '' AND header_values[2] IS NULL AND header_values[4] = '' AND header_values[3] = '\\x00ff'
                        AND octet_length(key) = 3 AND right(encode(payload, 'hex'), 4) = '00ff' AND cardinality(header_keys) = 5
                   FROM \"fencepost\".outbox ORDER BY id LIMIT 1";
    assert!(scalar::<bool>(&mut connection, shown).await, "bytes as given");
}

#[tokio::test]
async fn null_and_empty_differ() {
    let (_database, mut connection) = migrated("empty").await;
    let outbox = Outbox::default();
    let messages = [
        Message::builder("t", "t", "").key("").build().expect("empty"),
        Message::tombstone("t", "t").build().expect("null"),
    ];
    let mut tx = connection.begin().await.expect("a transaction");
    outbox.enqueue_many(&mut tx, &messages).await.expect("many");
    for message in &messages {
        outbox.enqueue(&mut tx, message).await.expect("one");
    }
    let kinds = "SELECT string_agg(concat(key IS NULL, payload IS NULL, header_keys IS NULL), ' ' ORDER BY id) FROM \"fencepost\".outbox";
    assert_eq!(scalar::<String>(&mut tx, kinds).await, "fft ttt fft ttt");
}

/// Receipts come in the order given, over several statements and both forms of them.
#[tokio::test]
async fn receipts_keep_the_order() {
    let (_database, mut connection) = migrated("order").await;
    let message = |i: usize| {
        let builder = Message::builder("t", "t", i.to_string()).key(format!("k{i}"));
        if i % 1_700 == 5 { builder.header("h", "v") } else { builder }.build().expect("valid")
    };
    let messages: Vec<Message> = (0..2_500).map(message).collect();
    let mut tx = connection.begin().await.expect("a transaction");
    let receipts = Outbox::default().enqueue_many(&mut tx, &messages).await.expect("many");
    assert!(receipts.is_sorted_by(|a, b| a.id < b.id));
    let given: Vec<Uuid> = messages.iter().map(Message::message_id).collect();
    assert_eq!(receipts.iter().map(|r| r.message_id).collect::<Vec<_>>(), given);
    let ids: Vec<i64> = receipts.iter().map(|r| r.id).collect();
    let matching = "SELECT count(*) FROM unnest($1::bigint[]) WITH ORDINALITY AS g (id, at)
                      JOIN \"fencepost\".outbox o USING (id) WHERE convert_from(payload, 'UTF8') = (at - 1)::text";
    let matching: i64 = sqlx::query_scalar(matching).bind(&ids).fetch_one(&mut *tx).await.expect("rows");
    assert_eq!(matching, 2_500);
    assert_eq!(Outbox::default().enqueue_many(&mut tx, &[]).await.expect("nothing"), Vec::<Receipt>::new());
}

/// It runs in the caller's transaction and in no other: one transaction id, no savepoint, no second connection.
#[tokio::test]
async fn the_callers_transaction_is_the_only_one() {
    let (database, mut observer) = migrated("caller").await;
    let pool = database.pool(1).await;
    let outbox = Outbox::default();
    let message = Message::builder("t", "t", "x").build().expect("valid");
    for commit in [false, true] {
        let mut tx = pool.begin().await.expect("the only connection");
        let xid: String = scalar(&mut tx, "SELECT pg_current_xact_id()::text").await;
        outbox.enqueue(&mut tx, &message).await.expect("one");
        outbox.enqueue_many(&mut tx, &vec![message.clone(); 3]).await.expect("many");
        // a row inside a savepoint would carry the savepoint's id as xmin
        let own = format!(
            "SELECT count(*) = 4 AND pg_current_xact_id()::text = '{xid}' FROM \"fencepost\".outbox
              WHERE xid = '{xid}' AND xmin::text = (xid::text::numeric % 4294967296)::text"
        );
        assert!(scalar::<bool>(&mut tx, &own).await);
        assert_eq!(scalar::<i64>(&mut observer, "SELECT count(*) FROM \"fencepost\".outbox").await, 0, "not committed");
        if commit {
            tx.commit().await.expect("commit");
        } else {
            tx.rollback().await.expect("rollback");
        }
        let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
        assert_eq!(scalar::<i64>(&mut observer, idle).await, 0, "nothing leaked");
    }
    assert_eq!(scalar::<i64>(&mut observer, "SELECT count(*) FROM \"fencepost\".outbox").await, 4);
}

pub(super) fn small_with() -> MessageBuilder {
    Message::builder("t", "t", "x")
}

/// Behind a pooler that forgets prepared statements the unprepared form works; the prepared one shows the difference.
#[tokio::test]
async fn unprepared_statements_leave_nothing_on_the_server() {
    let (database, _connection) = migrated("pooler").await;
    let messages = [small_with().build().expect("valid"), full().build().expect("valid")];
    for (outbox, works) in [(Outbox::default().unprepared(), true), (Outbox::default(), false)] {
        let mut connection = database.connect().await;
        let mut tx = connection.begin().await.expect("a transaction");
        use_all(&outbox, &mut tx, &messages).await.expect("a fresh connection");
        let named = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO \"fencepost\"%'";
        let named: i64 = sqlx::query_scalar(named).persistent(false).fetch_one(&mut *tx).await.expect("statements");
        assert_eq!(named == 0, works, "{named} named statements");
        // what another client's server connection looks like
        execute(&mut tx, "DEALLOCATE ALL").await;
        let again = use_all(&outbox, &mut tx, &messages).await;
        assert_eq!(again.is_ok(), works, "{again:?}");
    }
}

async fn use_all(
    outbox: &Outbox,
    tx: &mut Transaction<'_, Postgres>,
    messages: &[Message],
) -> Result<(), EnqueueError> {
    outbox.enqueue(tx, &messages[0]).await?;
    outbox.enqueue_many(tx, &messages[..1]).await?;
    outbox.enqueue_many(tx, messages).await.map(drop)
}

/// B128: ids beyond 31 and 53 bits.
#[tokio::test]
async fn b128_ids_are_64_bits_everywhere() {
    let (_database, mut connection) = migrated("ids").await;
    for last in [2_147_483_640_i64, 1 << 53] {
        execute(&mut connection, format!("SELECT setval('\"fencepost\".outbox_id_seq', {last})")).await;
        let mut tx = connection.begin().await.expect("a transaction");
        let one = Outbox::default().enqueue(&mut tx, &full().build().expect("valid")).await.expect("one");
        assert_eq!(one.id, last + 1);
        let many = vec![small_with().build().expect("valid"); 20];
        let many = Outbox::default().enqueue_many(&mut tx, &many).await.expect("many");
        assert_eq!(many.last().map(|r| r.id), Some(last + 21));
        let by_function = "SELECT id FROM \"fencepost\".enqueue(topic => 't', type => 't', payload => NULL)";
        assert_eq!(scalar::<i64>(&mut tx, by_function).await, last + 22);
        tx.commit().await.expect("commit");
    }
    let sequences =
        "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relnamespace = '\"fencepost\"'::regnamespace";
    assert_eq!(scalar::<i64>(&mut connection, sequences).await, 1, "small tables have none to burn");
}

/// One key, one slot; keys and keyless messages spread over all slots.
#[tokio::test]
async fn slots_follow_the_key_and_spread() {
    let (_database, mut connection) = migrated("slots").await;
    execute(
        &mut connection,
        "INSERT INTO \"fencepost\".outbox (topic, type, tenant, key, payload)
         SELECT 't' || i % 3, 't', 'tenant' || i % 2, ('k' || i % 20000)::bytea, i::text::bytea FROM generate_series(1, 60000) i;
         INSERT INTO \"fencepost\".outbox (topic, type, payload, message_id)
         SELECT 'keyless', 't', 'x', gen_random_uuid() FROM generate_series(1, 20000)",
    )
    .await;
    let torn = "SELECT count(*) FROM (SELECT FROM \"fencepost\".outbox WHERE key IS NOT NULL GROUP BY key HAVING count(DISTINCT slot) > 1) x";
    assert_eq!(scalar::<i64>(&mut connection, torn).await, 0);
    for keys in ["key IS NULL", "key IS NOT NULL"] {
        // 78 of 20,000 in each slot on average, standard deviation 9: 40 and 130 are more than four away
        let spread = format!(
            "SELECT count(*) = 256 AND min(n) > 40 AND max(n) < 130 AND min(slot) = 0 AND max(slot) = 255
               FROM (SELECT slot, count(DISTINCT coalesce(key, uuid_send(message_id))) n FROM \"fencepost\".outbox WHERE {keys} GROUP BY slot) x"
        );
        assert!(scalar::<bool>(&mut connection, &spread).await, "{keys}");
    }
}

struct Paid {
    order: u64,
    deleted: bool,
}

impl OutboxEvent for Paid {
    type Error = std::fmt::Error;

    fn topic(&self) -> &str {
        "orders"
    }
    fn kind(&self) -> &str {
        "order.paid"
    }
    fn key(&self) -> Option<Vec<u8>> {
        Some(self.order.to_string().into_bytes())
    }
    fn payload(&self) -> Result<Option<Vec<u8>>, Self::Error> {
        match self.order {
            0 => Err(std::fmt::Error),
            order => Ok((!self.deleted).then(|| format!("{{\"order\":{order}}}").into_bytes())),
        }
    }
    fn tenant(&self) -> Option<&str> {
        Some("acme")
    }
}

#[tokio::test]
async fn typed_events_travel_as_they_say() {
    let (_database, mut connection) = migrated("events").await;
    let outbox = Outbox::default();
    let mut tx = connection.begin().await.expect("a transaction");
    let broken = outbox.enqueue_event(&mut tx, &Paid { order: 0, deleted: false }).await;
    assert!(matches!(broken, Err(EnqueueError::Serialize(_))), "{broken:?}");
    outbox.enqueue_event(&mut tx, &Paid { order: 7, deleted: false }).await.expect("an event");
    outbox.enqueue_event(&mut tx, &Paid { order: 7, deleted: true }).await.expect("a tombstone");
    let stored = "SELECT string_agg(concat_ws(' ', tenant, topic, type, convert_from(key, 'UTF8'), convert_from(payload, 'UTF8')), ';' ORDER BY id)
                    FROM \"fencepost\".outbox";
    let expected = "acme orders order.paid 7 {\"order\":7};acme orders order.paid 7";
    assert_eq!(scalar::<String>(&mut tx, stored).await, expected);
}
