//! Every way into the outbox of a file: all write the same row, ids rise in the order of commits, and a refusal or
//! another writer leaves nothing behind.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_integration::sqlite::{TestFile, refusal, run, value};
use fencepost_producer::{EnqueueError, Message, Outbox, Receipt};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Row as _};
use uuid::{Uuid, uuid};

use crate::producer::{full, small_with};

const ID: Uuid = uuid!("01900000-0000-7000-8000-000000000001");
const COUNT: &str = "SELECT count(*) FROM fencepost_outbox";

/// All that a producer gave, by its bytes.
const ROWS: &str = "SELECT lower(replace(CASE typeof(message_id) WHEN 'blob' THEN hex(message_id) ELSE message_id END, '-', ''))
    || ' ' || concat_ws('|', tenant, topic, type, quote(CAST(key AS BLOB)), quote(partition), quote(content_type), quote(event_time),
    quote(json(header_keys)), lower(quote(json(header_values))), quote(CAST(payload AS BLOB))) FROM fencepost_outbox ORDER BY id";

const COLUMNS: &str =
    "message_id, tenant, topic, type, key, partition, content_type, event_time, header_keys, header_values, payload";
const REST: &str = r#"'acme, "{}', 'orders', 'order.created', x'610062', 3, 'application/json', 1709210096123456,
    json_array('h', 'h', 'quote"back\comma,{} NULL', '', 'NULL'), json_array('31', NULL, '00FF', '', NULL),
    x'7b2273223a22615c753030303062227d00ff'"#;

#[tokio::test]
async fn every_way_writes_the_same_row() {
    let file = TestFile::create("ways");
    let mut connection = file.connect().await;
    let message = full().build().expect("valid");
    let plain = Message::builder("orders", "order.created", "text").key("text").message_id(ID).build().expect("valid");
    let outbox = Outbox::default();
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
    outbox.enqueue(&mut tx, &message).await.expect("enqueue");
    outbox.enqueue_many(&mut tx, std::slice::from_ref(&message)).await.expect("enqueue_many");
    outbox.enqueue_many(&mut tx, &[message.clone(), plain.clone(), plain.clone()]).await.expect("enqueue_many, mixed");
    for id in ["x'01900000000070008000000000000001'", "'01900000-0000-7000-8000-000000000001'"] {
        run(&mut tx, format!("INSERT INTO fencepost_outbox ({COLUMNS}) VALUES ({id}, {REST})")).await;
        // key and payload as text are their UTF-8 bytes
        let sql = "INSERT INTO fencepost_outbox (message_id, topic, type, key, payload)";
        run(&mut tx, format!("{sql} VALUES ({id}, 'orders', 'order.created', 'text', 'text')")).await;
    }
    tx.commit().await.expect("commit");
    let rows: Vec<String> = sqlx::query_scalar(ROWS).fetch_all(&mut connection).await.expect("rows");
    let (full, plain): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.contains("acme"));
    assert_eq!((full.len(), plain.len()), (5, 4));
    for (kind, rows) in [("full", full), ("plain", plain)] {
        let distinct: BTreeSet<_> = rows.into_iter().collect();
        assert_eq!(distinct.len(), 1, "{kind}: {distinct:#?}");
    }
}

/// Receipts come in the order given and name their rows, over many statements.
#[tokio::test]
async fn receipts_keep_the_order() {
    let file = TestFile::create("order");
    let mut connection = file.connect().await;
    let message = |i: usize| {
        let builder = Message::builder("t", "t", i.to_string()).key(format!("k{i}"));
        if i % 300 == 5 { builder.header("h", "v") } else { builder }.build().expect("valid")
    };
    let messages: Vec<Message> = (0..1_000).map(message).collect();
    let mut tx = connection.begin().await.expect("a transaction");
    let first = Outbox::default().enqueue(&mut tx, &messages[0]).await.expect("one");
    let receipts = Outbox::default().enqueue_many(&mut tx, &messages).await.expect("many");
    assert_eq!(Outbox::default().enqueue_many(&mut tx, &[]).await.expect("nothing"), Vec::<Receipt>::new());
    tx.commit().await.expect("commit");
    assert_eq!(first.id, 1);
    let rows =
        sqlx::query("SELECT id, message_id, CAST(payload AS TEXT) FROM fencepost_outbox WHERE id > 1 ORDER BY id");
    let rows = rows.fetch_all(&mut connection).await.expect("rows");
    let stored: Vec<Receipt> = rows.iter().map(|row| Receipt { id: row.get(0), message_id: row.get(1) }).collect();
    assert_eq!(receipts, stored);
    assert!(rows.iter().enumerate().all(|(i, row)| row.get::<String, _>(2) == i.to_string()));
}

/// B128: ids beyond 31 and 53 bits; B81: rules that SQL by hand can't break; none of the refusals shows content.
#[tokio::test]
async fn b81_b128_what_sql_may_and_may_not_write() {
    let file = TestFile::create("rules");
    let mut connection = file.connect().await;
    run(&mut connection, "INSERT INTO fencepost_outbox (topic, type) VALUES ('t', 't')").await;
    let seq = "UPDATE sqlite_sequence SET seq = 9007199254740993 WHERE name = 'fencepost_outbox'";
    run(&mut connection, seq).await;
    let mut tx = connection.begin().await.expect("a transaction");
    let id = Outbox::default().enqueue(&mut tx, &small_with().build().expect("valid")).await.expect("one").id;
    assert_eq!(id, 9_007_199_254_740_994);
    tx.commit().await.expect("commit");
    let refused = [
        ("topic, type", "'', 't'", "topic_check"),
        ("topic, type", "'..', 't'", "topic_check"),
        ("topic, type", "'secret v1', 't'", "topic_check"),
        ("topic, type", "'заказы', 't'", "topic_check"),
        ("topic, type", "'a' || char(0) || 'b', 't'", "topic_check"),
        ("topic, type", "printf('%.250c', 't'), 't'", "topic_check"),
        ("topic, type", "'t', ''", "type_check"),
        ("topic, type", "'t', printf('%.256c', 't')", "type_check"),
        ("topic, type, tenant", "'t', 't', ''", "tenant_check"),
        ("topic, type, content_type", "'t', 't', ''", "content_type_check"),
        ("topic, type, partition", "'t', 't', -1", "partition_check"),
        ("topic, type, event_time", "'t', 't', 253402300800000000", "event_time_check"),
        ("topic, type, key", "'t', 't', 17", "key_check"),
        ("topic, type, payload", "'t', 't', 1.5", "payload_check"),
        ("topic, type, message_id", "'t', 't', 'secret'", "message_id_check"),
        ("topic, type, message_id", "'t', 't', x'00'", "message_id_check"),
        ("topic, type, message_id", "'t', 't', '0190000000-00-7000-8000-000000000001'", "message_id_check"),
        ("topic, type, id", "'t', 't', 2", "given by the database"),
        ("topic, type, id", "'t', 't', 9007199254740994", "UNIQUE"),
        ("topic, type, header_keys", "'t', 't', '[\"secret\"]'", "JSON arrays"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"a\"]', '[]'", "JSON arrays"),
        ("topic, type, header_keys, header_values", "'t', 't', 'secret', 'secret'", "JSON arrays"),
        ("topic, type, header_keys, header_values", "'t', 't', '{}', '{}'", "JSON arrays"),
        ("topic, type, header_keys, header_values", "'t', 't', '[null]', '[null]'", "a header name"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"a\\u0000\"]', '[null]'", "a header name"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"\\ud800\"]', '[null]'", "a header name"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"ce_\\u0069d\"]', '[null]'", "belong to the relay"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"content-type\"]', '[null]'", "belong to the relay"),
        (
            "topic, type, header_keys, header_values",
            "'t', 't', '[\"fencepost-fence\"]', '[\"\"]'",
            "belong to the relay",
        ),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"a\"]', '[\"abc\"]'", "hexadecimal"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"a\"]', '[\"secret\"]'", "hexadecimal"),
        ("topic, type, header_keys, header_values", "'t', 't', '[\"a\"]', '[7]'", "hexadecimal"),
    ];
    for (columns, values, told) in refused {
        let sql = format!("INSERT INTO fencepost_outbox ({columns}) VALUES ({values})");
        let said = refusal(&mut connection, &sql).await;
        assert!(said.contains(told) && !said.contains("secret"), "{sql}: {said}");
    }
    let said = refusal(&mut connection, "UPDATE fencepost_outbox SET topic = 'other'").await;
    assert!(said.contains("never change"), "{said}");
    let replace = "INSERT OR REPLACE INTO fencepost_outbox (id, topic, type) VALUES (1, 'other', 't')";
    assert!(refusal(&mut connection, replace).await.contains("given by the database"));
    assert_eq!(value::<i64>(&mut connection, "SELECT count(*) FROM fencepost_outbox WHERE topic = 't'").await, 2);
}

/// What the library takes at its edges, the file takes too; what it refuses leaves the transaction usable.
#[tokio::test]
async fn b67_b97_the_librarys_rules_and_the_tables_agree() {
    let file = TestFile::create("edges");
    let mut connection = file.connect().await;
    let label = "ä".repeat(127) + "x";
    let edges = [
        Message::builder("t".repeat(249), "t", ""),
        Message::builder("...", label.clone(), ""),
        small_with().tenant(label.clone()).content_type(label),
        small_with().partition(i32::MAX).event_time(time::macros::datetime!(9999-12-31 23:59:59.999999 UTC)),
        small_with().partition(0).event_time(time::macros::datetime!(0001-01-01 00:00 UTC)),
        small_with().header("Fencepost-x", "").header("content-type2", "").header("x ce_", "").header("\u{1f600}", ""),
        (0..128).fold(small_with(), |builder, i| builder.header(format!("h{i}"), "v")),
        small_with().key(vec![0xff; 10_000]),
    ];
    let messages: Vec<Message> = edges.into_iter().map(|builder| builder.build().expect("valid")).collect();
    let large = Message::builder("t", "t", vec![0; 2_000_000]).build().expect("only its size is wrong");
    let mut tx = connection.begin().await.expect("a transaction");
    Outbox::default().enqueue_many(&mut tx, &messages).await.expect("many");
    let refused = Outbox::default().enqueue_many(&mut tx, &[messages[0].clone(), large]).await;
    assert!(matches!(refused, Err(EnqueueError::TooLarge { index: 1, .. })), "{refused:?}");
    for message in &messages {
        Outbox::default().enqueue(&mut tx, message).await.expect("one");
    }
    tx.commit().await.expect("commit");
    assert_eq!(value::<i64>(&mut connection, COUNT).await, 2 * messages.len() as i64);
}

/// One transaction writes at a time, and takes its ids inside: their order is the order of commits. That holds for
/// transactions that began before another one's and write after it, and for ids that a rollback gave back.
#[tokio::test]
async fn ids_rise_in_the_order_of_commits_also_for_deferred_transactions() {
    let file = TestFile::create("deferred");
    let (mut early, mut late) = (file.connect().await, file.connect().await);
    let message = small_with().build().expect("valid");
    let outbox = Outbox::default();
    let mut deferred = early.begin().await.expect("a deferred transaction");
    let mut rolled_back = late.begin().await.expect("a transaction");
    outbox.enqueue(&mut rolled_back, &message).await.expect("written");
    rolled_back.rollback().await.expect("rollback");
    let mut committed = late.begin().await.expect("a transaction");
    let first = outbox.enqueue(&mut committed, &message).await.expect("written").id;
    committed.commit().await.expect("commit");
    let second = outbox.enqueue(&mut deferred, &message).await.expect("it had read nothing").id;
    deferred.commit().await.expect("commit");
    assert_eq!((first, second), (1, 2), "never the smaller id behind the larger one");
}

async fn locked(connection: &mut SqliteConnection, outbox: &Outbox) -> bool {
    let mut tx = connection.begin().await.expect("a deferred transaction");
    let one = outbox.enqueue(&mut tx, &small_with().build().expect("valid")).await;
    let many = outbox.enqueue_many(&mut tx, &vec![small_with().build().expect("valid"); 300]).await;
    tx.rollback().await.expect("rollback");
    matches!(one, Err(EnqueueError::Locked(_))) && matches!(many, Err(EnqueueError::Locked(_)))
}

/// B140: a transaction that has read and then wants to write while somebody else wrote is refused at once, whatever the
/// timeout. That is told apart from other failures; BEGIN IMMEDIATE waits for its turn instead.
#[tokio::test]
async fn b140_a_locked_file_is_a_typed_error_and_immediate_transactions_wait() {
    let file = TestFile::create("busy");
    let outbox = Outbox::default();
    let message = small_with().build().expect("valid");
    let (mut reader, mut writer) = (file.connect_waiting(Duration::from_secs(60)).await, file.connect().await);
    let mut tx = reader.begin().await.expect("a deferred transaction");
    value::<i64>(&mut tx, COUNT).await;
    let mut other = writer.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
    outbox.enqueue(&mut other, &message).await.expect("written");
    other.commit().await.expect("commit");
    let refused = outbox.enqueue(&mut tx, &message).await.expect_err("its snapshot is old");
    assert!(matches!(refused, EnqueueError::Locked(_)), "{refused:?}");
    assert!(refused.to_string().contains("BEGIN IMMEDIATE"), "{refused}");
    tx.rollback().await.expect("rollback");

    let mut impatient = file.connect_waiting(Duration::from_millis(20)).await;
    let mut other = writer.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
    outbox.enqueue(&mut other, &message).await.expect("written");
    assert!(locked(&mut impatient, &outbox).await, "somebody writes");
    let patient = async {
        let mut tx = reader.begin_with("BEGIN IMMEDIATE").await.expect("its turn comes");
        outbox.enqueue(&mut tx, &message).await.expect("and stays");
        tx.commit().await.expect("commit");
    };
    let first = async {
        // the other one has begun to wait by then, or comes later: either way it gets its turn
        tokio::task::yield_now().await;
        other.commit().await.expect("commit");
    };
    tokio::join!(patient, first);
    assert_eq!(value::<i64>(&mut writer, COUNT).await, 3);
}

/// A statement that fails undoes itself alone in SQLite: the call undoes the others, whatever the caller does then.
#[tokio::test]
async fn a_call_that_fails_midway_leaves_none_of_its_messages() {
    let file = TestFile::create("midway");
    let mut connection = file.connect().await;
    run(
        &mut connection,
        "CREATE TRIGGER mine BEFORE INSERT ON fencepost_outbox WHEN NEW.type = 'bad'
                          BEGIN SELECT RAISE(ABORT, 'refused by the application'); END",
    )
    .await;
    let mut messages = vec![small_with().build().expect("valid"); 300];
    messages.push(Message::builder("t", "bad", "").build().expect("valid"));
    let mut tx = connection.begin().await.expect("a transaction");
    let kept = Outbox::default().enqueue(&mut tx, &messages[0]).await.expect("one");
    let error = Outbox::default().enqueue_many(&mut tx, &messages).await.expect_err("the last one");
    assert!(matches!(error, EnqueueError::Database(_)), "{error:?}");
    tx.commit().await.expect("a caller who commits all the same");
    assert_eq!(value::<i64>(&mut connection, "SELECT max(id) FROM fencepost_outbox").await, kept.id);
    assert_eq!(value::<i64>(&mut connection, COUNT).await, 1);
}

/// A full disk fails the statement and names itself; nothing of the transaction stays, and what was there is readable.
#[tokio::test]
async fn a_full_disk_loses_nothing_of_what_was_committed() {
    let file = TestFile::create("full");
    let mut connection = file.connect().await;
    let outbox = Outbox::default();
    let message = Message::builder("t", "t", vec![7; 100_000]).build().expect("valid");
    let mut tx = connection.begin().await.expect("a transaction");
    outbox.enqueue(&mut tx, &message).await.expect("there is room");
    tx.commit().await.expect("commit");
    let pages: i64 = value(&mut connection, "PRAGMA page_count").await;
    run(&mut connection, format!("PRAGMA max_page_count = {}", pages + 40)).await;
    let mut tx = connection.begin().await.expect("a transaction");
    outbox.enqueue(&mut tx, &message).await.expect("there is room for one");
    let error = outbox.enqueue_many(&mut tx, &vec![message.clone(); 10]).await.expect_err("and no more");
    assert!(error.to_string().contains("full"), "{error}");
    drop(tx);
    assert_eq!(value::<i64>(&mut connection, COUNT).await, 1);
    assert_eq!(value::<String>(&mut connection, "PRAGMA integrity_check").await, "ok");
}
