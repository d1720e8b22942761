//! What a message is, byte for byte, and where it lands.

use fencepost_integration::kafka::{Kafka, Record};
use fencepost_integration::wait;
use fencepost_relay::message::MessageRef;
use fencepost_relay::publisher::kafka::RecordTime;

use super::{DEADLINE, FENCE, Rig, message, settings};

/// The record of the message with that number.
fn record_of(records: &[Record], number: u32) -> &Record {
    let id = uuid::Uuid::from_u128(u128::from(number)).to_string();
    let mut found = records.iter().filter(|record| record.header("fencepost-message-id") == Some(&id));
    let record = found.next().expect("the message arrived");
    assert!(found.next().is_none(), "it arrived once");
    record
}

/// The headers behind the relay's own ones.
fn producers_headers(record: &Record) -> &[(String, Option<Vec<u8>>)] {
    let own = |(key, _): &&(String, Option<Vec<u8>>)| key.starts_with("fencepost-") || key.starts_with("ce_");
    &record.headers[record.headers.iter().filter(own).count()..]
}

#[tokio::test]
async fn b89_null_empty_and_one_byte_arrive_as_they_are() {
    let topic = Kafka::shared().topic("b89", 1).await;
    let values: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"x")];
    let headers = values.map(|value| [("h", value)]);
    let mut messages = Vec::new();
    for key in values {
        for payload in values {
            for header in &headers {
                let plain = message(topic.name(), messages.len() as u32, b"");
                messages.push(MessageRef { key, payload, headers: header, ..plain });
            }
        }
    }
    let mut rig = Rig::shared();
    assert_eq!(rig.publish(&messages).await, None);
    let records = topic.read(27, DEADLINE).await;
    for (number, message) in messages.iter().enumerate() {
        let record = record_of(&records, number as u32);
        assert_eq!(record.key.as_deref(), message.key, "key of row {number}");
        assert_eq!(record.payload.as_deref(), message.payload, "payload of row {number}");
        let [(name, value)] = producers_headers(record) else { panic!("one header in row {number}") };
        assert_eq!((name.as_str(), value.as_deref()), message.headers[0], "header of row {number}");
    }
    rig.close().await;
}

#[tokio::test]
async fn b91_keys_land_where_java_puts_them_and_explicit_partitions_are_kept() {
    let topic = Kafka::shared().topic("b91", 12).await;
    let long = "x".repeat(300);
    let java = [("order-1", 10), ("order-2", 3), ("\u{41a}\u{43b}\u{44e}\u{447}", 11), ("a", 4), (&long, 4)];
    let mut messages: Vec<MessageRef<'_>> = Vec::new();
    for (number, (key, _)) in java.iter().enumerate() {
        messages.push(MessageRef { key: Some(key.as_bytes()), ..message(topic.name(), number as u32, b"p") });
    }
    for partition in 0..12 {
        messages.push(MessageRef { partition: Some(partition), ..message(topic.name(), 100 + partition as u32, b"p") });
    }
    let mut rig = Rig::shared();
    assert_eq!(rig.publish(&messages).await, None);
    let records = topic.read(messages.len(), DEADLINE).await;
    for (number, (key, partition)) in java.iter().enumerate() {
        assert_eq!(record_of(&records, number as u32).partition, *partition, "{key}");
    }
    for partition in 0..12 {
        assert_eq!(record_of(&records, 100 + partition as u32).partition, partition);
    }
    rig.close().await;
}

#[tokio::test]
async fn b99_binary_payloads_keys_and_header_values_are_not_decoded() {
    let topic = Kafka::shared().topic("b99", 1).await;
    let payload: Vec<u8> = (0..1024).map(|at| at as u8).collect();
    let random: Vec<u8> = uuid_bytes(640);
    let headers: [(&str, Option<&[u8]>); 3] =
        [("a", Some(&[0xc3, 0x28])), ("b", Some(&[0xfe, 0xff, 0x00])), ("c", Some(&random))];
    let key = uuid_bytes(1);
    let sent = MessageRef { key: Some(&key), headers: &headers, ..message(topic.name(), 1, &payload) };
    let mut rig = Rig::shared();
    assert_eq!(rig.publish(&[sent]).await, None);
    let records = topic.read(1, DEADLINE).await;
    assert_eq!(records[0].payload.as_deref(), Some(payload.as_slice()));
    assert_eq!(records[0].key.as_deref(), Some(key.as_slice()));
    let arrived: Vec<_> = producers_headers(&records[0]).iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
    assert_eq!(arrived, headers);
    rig.close().await;
}

/// Bytes without any pattern that a text encoding would survive.
fn uuid_bytes(blocks: u128) -> Vec<u8> {
    (0..blocks)
        .flat_map(|block| (block.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ !0).to_be_bytes())
        .collect()
}

#[tokio::test]
async fn b100_headers_keep_order_case_repeats_and_any_name() {
    let topic = Kafka::shared().topic("b100", 1).await;
    let headers: [(&str, Option<&[u8]>); 7] = [
        ("a", Some(b"1")),
        ("b", Some(b"2")),
        ("a", Some(b"3")),
        ("A", Some(b"4")),
        ("two words \u{e4}\u{1f600}", Some(b"5")),
        ("", Some(b"6")),
        ("traceparent", Some(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
    ];
    let sent = MessageRef {
        headers: &headers,
        tenant: "acme",
        content_type: Some("application/json"),
        event_time_us: Some(1_700_000_000_000_001),
        ..message(topic.name(), 1, b"{}")
    };
    let mut rig = Rig::shared();
    assert_eq!(rig.publish(&[sent]).await, None);
    let records = topic.read(1, DEADLINE).await;
    let arrived: Vec<_> = records[0].headers.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
    let id = uuid::Uuid::from_u128(1).to_string();
    let mut expected: Vec<(&str, Option<&[u8]>)> = vec![
        ("fencepost-message-id", Some(id.as_bytes())),
        ("fencepost-tenant", Some(b"acme")),
        ("fencepost-fence", Some(FENCE.as_bytes())),
        ("ce_specversion", Some(b"1.0")),
        ("ce_id", Some(id.as_bytes())),
        ("ce_source", Some(b"orders")),
        ("ce_type", Some(b"order.placed")),
        ("ce_time", Some(b"2023-11-14T22:13:20.000001Z")),
        ("content-type", Some(b"application/json")),
    ];
    expected.extend(headers);
    assert_eq!(arrived, expected);
    rig.close().await;
}

#[tokio::test]
async fn b101_record_times_are_milliseconds_of_the_event_or_of_the_sending() {
    let topic = Kafka::shared().topic("b101", 1).await;
    let times = [1_700_000_000_123_999, -86_400_000_001, 0];
    let timed =
        |number: usize, us: i64| MessageRef { event_time_us: Some(us), ..message(topic.name(), number as u32, b"p") };
    let messages: Vec<_> = times.iter().enumerate().map(|(number, us)| timed(number, *us)).collect();
    let mut of_events = settings(&Kafka::shared());
    of_events.record_time = RecordTime::Event;
    let mut rig = Rig::start(&of_events);
    assert_eq!(rig.publish(&messages).await, None);
    rig.close().await;

    let before = wait::unix_ms();
    let mut rig = Rig::shared();
    assert_eq!(rig.publish(&[timed(9, 1_700_000_000_123_999)]).await, None);
    rig.close().await;

    let records = topic.read(4, DEADLINE).await;
    assert_eq!(record_of(&records, 0).timestamp_ms, Some(1_700_000_000_123));
    assert_eq!(record_of(&records, 1).timestamp_ms, Some(-86_400_001));
    assert_eq!(record_of(&records, 2).timestamp_ms, Some(1), "0 would mean now");
    let sent = record_of(&records, 9).timestamp_ms.expect("a time");
    assert!((before..=wait::unix_ms()).contains(&sent), "the time of sending");
}
