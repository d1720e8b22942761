//! Theme 7, from the producer's transaction through the relay to the topic: what was enqueued is what arrives.

use fencepost_integration::fleet::{Lease, Site};
use fencepost_integration::kafka::Record;
use fencepost_producer::{InvalidMessage, Message, MessageBuilder, Outbox};
use sqlx::Connection;

use super::DEADLINE;

const KIND: &str = "test.fidelity";

/// Enqueues what `build` makes of each case for the site's topic, and returns the records in the same order.
async fn through<C>(name: &str, cases: &[C], build: impl Fn(&C, &str) -> MessageBuilder) -> Vec<Record> {
    let site = Site::new(name, Lease::Medium).await;
    let mut connection = site.connect().await;
    let messages: Vec<Message> =
        cases.iter().map(|case| build(case, site.topic.name()).build().expect("a valid message")).collect();
    let mut tx = connection.begin().await.expect("a transaction");
    Outbox::default().enqueue_many(&mut tx, &messages).await.expect("the outbox takes them");
    tx.commit().await.expect("a commit");
    let _relay = site.start(name);
    let records = site.topic.read(cases.len(), DEADLINE).await;
    let of = |message: &Message| {
        let id = message.message_id().to_string();
        let mine = records.iter().filter(|record| record.header("fencepost-message-id") == Some(&id));
        let mine: Vec<&Record> = mine.collect();
        assert_eq!(mine.len(), 1, "a record for each message");
        mine[0].clone()
    };
    messages.iter().map(of).collect()
}

/// Headers that the producer gave.
fn own_headers(record: &Record) -> Vec<(&str, Option<&[u8]>)> {
    let theirs = |name: &str| name.starts_with("fencepost-") || name.starts_with("ce_") || name == "content-type";
    let own = record.headers.iter().filter(|(name, _)| !theirs(name));
    own.map(|(name, value)| (name.as_str(), value.as_deref())).collect()
}

#[tokio::test]
async fn b89_null_empty_and_one_byte_are_three_things() {
    let values = [None, Some(vec![]), Some(vec![7])];
    let mut cases = Vec::new();
    for key in &values {
        for payload in &values {
            cases.extend(values.iter().map(|header| (key.clone(), payload.clone(), header.clone())));
        }
    }
    let records = through("b89", &cases, |(key, payload, header), topic| {
        let mut builder = match payload {
            Some(payload) => Message::builder(topic, KIND, payload.clone()),
            None => Message::tombstone(topic, KIND),
        };
        builder = match header {
            Some(header) => builder.header("h", header.clone()),
            None => builder.null_header("h"),
        };
        key.iter().fold(builder, |builder, key| builder.key(key.clone()))
    })
    .await;
    for ((key, payload, header), record) in cases.iter().zip(&records) {
        assert_eq!((&record.key, &record.payload), (key, payload));
        assert_eq!(own_headers(record), [("h", header.as_deref())]);
    }
}

/// Nobody parses a payload: neither keys nor numbers nor spaces of it change, and what is no JSON passes too.
#[tokio::test]
async fn b93_b94_b96_a_payload_is_bytes_and_nothing_else() {
    let nested = [vec![b'['; 1_000], vec![b']'; 1_000]].concat();
    let payloads: Vec<Vec<u8>> = vec![
        b"{\"b\":1, \"a\":2,\"a\":3}\n".to_vec(),
        b"[18446744073709551616,9007199254740993,0.1000000000000000055511151231257827,1e400,-0,1.0,\
          117.63331139400017,1E+2]"
            .to_vec(),
        b"[1,2.5,\"x\",null]".to_vec(),
        b"{\"a\":[]}".to_vec(),
        b"{\"a\":null}".to_vec(),
        b"\"bare\"".to_vec(),
        b"17".to_vec(),
        nested,
        (0..=255).cycle().take(1024).collect(),
        vec![0xc3, 0x28],
    ];
    let records =
        through("b93", &payloads, |payload, topic| Message::builder(topic, KIND, payload.clone()).key("k")).await;
    for (payload, record) in payloads.iter().zip(&records) {
        assert_eq!(record.payload.as_ref(), Some(payload));
    }
}

#[tokio::test]
async fn b97_nul_bytes_pass_in_values_and_are_refused_in_names() {
    let records = through("b97", &[()], |(), topic| {
        Message::builder(topic, KIND, r#"{"s":"a\u0000b"}"#).key(*b"a\0b").header("h", *b"\0\0")
    })
    .await;
    assert_eq!(records[0].payload.as_deref(), Some(br#"{"s":"a\u0000b"}"#.as_slice()));
    assert_eq!(records[0].key.as_deref(), Some(b"a\0b".as_slice()));
    assert_eq!(own_headers(&records[0]), [("h", Some(b"\0\0".as_slice()))]);
    let refused = |builder: MessageBuilder| builder.build().expect_err("a name with NUL");
    assert!(matches!(refused(Message::builder("a\0b", KIND, "x")), InvalidMessage::Topic(_)));
    assert!(matches!(refused(Message::builder("t", KIND, "x").tenant("a\0b")), InvalidMessage::LabelNul { .. }));
    assert!(matches!(
        refused(Message::builder("t", KIND, "x").header("a\0b", "x")),
        InvalidMessage::HeaderControl { .. }
    ));
}

#[tokio::test]
async fn b99_b100_headers_keep_order_case_repeats_and_bytes() {
    let random: Vec<u8> = (0..10_240u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let headers: Vec<(&str, Vec<u8>)> = vec![
        ("a", b"1".to_vec()),
        ("b", b"2".to_vec()),
        ("a", b"3".to_vec()),
        ("A", b"4".to_vec()),
        ("with space \u{e4}\u{1f600}", b"5".to_vec()),
        ("binary", vec![0xc3, 0x28]),
        ("binary", vec![0xfe, 0xff, 0x00]),
        ("binary", random),
    ];
    let records = through("b100", &[()], |(), topic| {
        let start =
            Message::builder(topic, KIND, (0..=255).cycle().take(1024).collect::<Vec<u8>>()).key(vec![0xff; 16]);
        headers.iter().fold(start, |builder, (name, value)| builder.header(*name, value.clone()))
    })
    .await;
    let wanted: Vec<_> = headers.iter().map(|(name, value)| (*name, Some(value.as_slice()))).collect();
    assert_eq!(own_headers(&records[0]), wanted);
    assert_eq!(records[0].key, Some(vec![0xff; 16]));
    for reserved in ["fencepost-message-id", "ce_id", "content-type"] {
        let refused = Message::builder("t", KIND, "x").header(reserved, "x").build();
        assert!(matches!(refused, Err(InvalidMessage::HeaderReserved { .. })), "{reserved} is the relay's own");
    }
}
