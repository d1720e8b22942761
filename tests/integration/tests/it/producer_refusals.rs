//! What the outbox refuses, from the library and from SQL, and how a refusal looks: it names the rule and
//! quotes no content.

use std::time::Duration;

use fencepost_integration::database::execute;
use fencepost_producer::{EnqueueError, Message, Outbox};
use sqlx::{AssertSqlSafe, Connection};
use time::macros::datetime;

use super::producer::{full, migrated, scalar, small_with};

/// B67, B81, B97: what the library refuses, it refuses before any SQL, and the transaction goes on.
#[tokio::test]
async fn b67_b81_b97_a_refusal_leaves_the_transaction_usable() {
    let (_database, mut connection) = migrated("refusal").await;
    let outbox = Outbox::default();
    let mut tx = connection.begin().await.expect("a transaction");
    let small = Message::builder("t", "t", "x").build().expect("valid");
    let large = [
        Message::builder("t", "t", vec![0; 900_000]).header("h", vec![0; 200_000]),
        Message::builder("t", "t", "0123456789").key(vec![0; 1_200_000]),
    ];
    for builder in large {
        let message = builder.build().expect("only its size is wrong");
        assert!(matches!(outbox.enqueue(&mut tx, &message).await, Err(EnqueueError::TooLarge { index: 0, .. })));
        let many = outbox.enqueue_many(&mut tx, &[small.clone(), message]).await;
        assert!(matches!(many, Err(EnqueueError::TooLarge { index: 1, .. })));
    }
    let headers = (0..5_000).fold(Message::builder("t", "t", ""), |b, i| b.header(format!("h{i}"), "0123456789"));
    assert!(headers.build().is_err(), "5,000 headers");
    let long = "t".repeat(250);
    for topic in ["", ".", "..", "orders v1", "a/b", "заказы", "😀", "a\0b", &long] {
        Message::builder(topic, "t", "x").build().expect_err(topic);
        outbox.enqueue(&mut tx, &small).await.expect("a valid topic after it");
    }
    for builder in [small_with().tenant("a\0"), small_with().header("a\0", "x"), small_with().content_type("\0")] {
        assert!(matches!(builder.build().map_err(EnqueueError::from), Err(EnqueueError::Invalid(_))));
    }
    outbox
        .enqueue(&mut tx, &full().build().expect("NUL bytes in key, payload and header values"))
        .await
        .expect("stored");
    tx.commit().await.expect("commit");
    assert_eq!(scalar::<i64>(&mut connection, "SELECT count(*) FROM \"fencepost\".outbox").await, 10);
}

/// The library's rules and the table's agree at the edges.
#[tokio::test]
async fn what_the_library_takes_the_table_takes() {
    let (_database, mut connection) = migrated("edges").await;
    let label = "ä".repeat(127) + "x";
    let headers = (0..128).fold(small_with(), |b, i| b.header(format!("h{i}"), "v"));
    let edges = [
        Message::builder("t".repeat(249), "t", ""),
        Message::builder("...", label.clone(), ""),
        small_with().tenant(label.clone()).content_type(label),
        small_with().partition(i32::MAX).event_time(datetime!(9999-12-31 23:59:59.999999 UTC)),
        small_with().partition(0).event_time(datetime!(0001-01-01 00:00 UTC)),
        small_with().header("Fencepost-x", "").header("content-type2", "").header("x ce_", "").header("ce", ""),
        headers,
        small_with().key(vec![0xff; 10_000]),
    ];
    let messages: Vec<Message> = edges.into_iter().map(|b| b.build().expect("valid")).collect();
    let mut tx = connection.begin().await.expect("a transaction");
    Outbox::default().enqueue_many(&mut tx, &messages).await.expect("many");
    for message in &messages {
        Outbox::default().enqueue(&mut tx, message).await.expect("one");
    }
}

/// Columns, values, what the function's message names, the table's constraint.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("topic", "''", "topic", "outbox_topic_check"),
    ("topic", "'.'", "topic", "outbox_topic_check"),
    ("topic", "'..'", "topic", "outbox_topic_check"),
    ("topic", "'secret v1'", "topic", "outbox_topic_check"),
    ("topic", "'a/b'", "topic", "outbox_topic_check"),
    ("topic", "E'a\\n'", "topic", "outbox_topic_check"),
    ("topic", "'заказы'", "topic", "outbox_topic_check"),
    ("topic", "repeat('t', 250)", "topic", "outbox_topic_check"),
    ("type", "''", "type", "outbox_type_check"),
    ("type", "repeat('t', 256)", "type", "outbox_type_check"),
    ("tenant", "''", "tenant", "outbox_tenant_check"),
    ("tenant", "repeat('t', 256)", "tenant", "outbox_tenant_check"),
    ("content_type", "''", "content_type", "outbox_content_type_check"),
    ("partition", "-1", "partition", "outbox_partition_check"),
    ("event_time", "'infinity'", "event_time", "outbox_event_time_check"),
    ("event_time", "'0001-12-31 BC'", "event_time", "outbox_event_time_check"),
    ("header_keys", "'{a}'", "same length", "outbox_headers_check"),
    ("header_values", "'{a}'", "same length", "outbox_headers_check"),
    ("header_keys, header_values", "'{a,b}', '{a}'", "same length", "outbox_headers_check"),
    ("header_keys, header_values", "'{a,NULL}', '{a,b}'", "header name", "outbox_headers_check"),
    ("header_keys, header_values", "'{{a},{b}}', '{a,b}'", "one dimension", "outbox_headers_check"),
    (
        "header_keys, header_values",
        "array_fill('a'::text, '{129}'), array_fill('a'::bytea, '{129}')",
        "128 headers",
        "outbox_headers_check",
    ),
    ("header_keys, header_values", "'{a,ce_id}', '{a,b}'", "belong to the relay", "outbox_reserved_headers_check"),
    (
        "header_keys, header_values",
        "'{fencepost-x}', '{secret}'",
        "belong to the relay",
        "outbox_reserved_headers_check",
    ),
    (
        "header_keys, header_values",
        "'{content-type,a}', '{a,b}'",
        "belong to the relay",
        "outbox_reserved_headers_check",
    ),
];

/// B81, B97 and the rest for those who write SQL: the function names the argument, the table the constraint,
/// and the function's message quotes no value.
#[tokio::test]
async fn b81_sql_writers_are_refused_too() {
    let (_database, mut connection) = migrated("sql").await;
    for &(columns, values, names, constraint) in REFUSED {
        let base: Vec<&str> = ["topic", "type"].into_iter().filter(|c| *c != columns).collect();
        let all = format!("{columns}, payload, {}", base.join(", "));
        let given = format!("{values}, 'secret'{}", ", 't'".repeat(base.len()));
        let insert = format!("INSERT INTO \"fencepost\".outbox ({all}) VALUES ({given})");
        let error = sqlx::raw_sql(AssertSqlSafe(insert.as_str())).execute(&mut connection).await.expect_err(&insert);
        assert_eq!(error.as_database_error().and_then(|e| e.constraint()), Some(constraint), "{insert}: {error}");

        let arguments = match columns.split_once(", ") {
            // two columns take the two halves of the values
            Some((first, second)) => {
                let (a, b) =
                    values.split_once(if values.starts_with('a') { "), " } else { "', " }).expect("two values");
                format!("{first} => {a}{}, {second} => {b}", if values.starts_with('a') { ")" } else { "'" })
            }
            None => format!("{columns} => {values}"),
        };
        let rest: String = base.iter().map(|c| format!(", {c} => 't'")).collect();
        let call = format!("SELECT \"fencepost\".enqueue(payload => 'secret', {arguments}{rest})");
        let error = sqlx::raw_sql(AssertSqlSafe(call.as_str())).execute(&mut connection).await.expect_err(&call);
        let error = error.as_database_error().expect("the server's");
        assert_eq!(error.code().as_deref(), Some("22023"), "{call}: {error}");
        assert!(error.message().contains(names) && !error.message().contains("secret"), "{call}: {error}");
    }
    assert_eq!(scalar::<i64>(&mut connection, "SELECT count(*) FROM \"fencepost\".outbox").await, 0);
}

/// The server's detail quotes the whole row; what the library shows does not.
#[tokio::test]
async fn database_errors_show_no_content() {
    let (_database, mut connection) = migrated("redacted").await;
    execute(&mut connection, "ALTER TABLE \"fencepost\".outbox ADD CONSTRAINT mine CHECK (type <> 't')").await;
    let mut tx = connection.begin().await.expect("a transaction");
    let message =
        Message::builder("t", "t", "secret-p").key("secret-k").header("h", "secret-h").build().expect("valid");
    let error = Outbox::default().enqueue(&mut tx, &message).await.expect_err("the service's own constraint");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("mine") && shown.contains("23514") && shown.contains("roll"), "{shown}");
    for secret in ["secret-p", "secret-k", "secret-h"] {
        let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
        assert!(!shown.contains(secret) && !shown.contains(&hex), "{shown}");
    }
}

/// A connection that dies below the library ends in an error, and nothing of the transaction stays.
#[tokio::test]
async fn a_lost_connection_leaves_nothing() {
    let (database, mut admin) = migrated("lost").await;
    let mut connection = database.connect().await;
    let pid: i32 = scalar(&mut connection, "SELECT pg_backend_pid()").await;
    let mut tx = connection.begin().await.expect("a transaction");
    let message = small_with().build().expect("valid");
    Outbox::default().enqueue(&mut tx, &message).await.expect("before");
    execute(&mut admin, format!("SELECT pg_terminate_backend({pid})")).await;
    let lost = tokio::time::timeout(Duration::from_secs(5), Outbox::default().enqueue(&mut tx, &message)).await;
    assert!(matches!(lost, Ok(Err(EnqueueError::Database(_)))), "{lost:?}");
    drop(tx);
    assert_eq!(scalar::<i64>(&mut admin, "SELECT count(*) FROM \"fencepost\".outbox").await, 0);
}
