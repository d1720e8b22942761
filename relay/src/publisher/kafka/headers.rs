//! The headers of a record: the relay's own three always, CloudEvents 1.0 in binary mode unless switched
//! off, then the producer's, verbatim and in order. Each header costs librdkafka an allocation; nothing
//! here adds one of ours.

use std::fmt::Write;

use fencepost_core::header;
use rdkafka::message::{Header, OwnedHeaders};
use uuid::fmt::Hyphenated;

use crate::message::MessageRef;

use super::time_text;

/// Names and fixed values of the relay's headers with their lengths (below 350 bytes), the record's own fields and
/// the batch's header.
const FRAMING: usize = 512;

/// Which headers a publisher writes.
pub(super) struct HeaderStyle {
    /// `ce_source`, percent-encoded; `None` leaves all CloudEvents headers out.
    ce_source: Option<String>,
}

impl HeaderStyle {
    /// `source` is the configured name of the source.
    pub(super) fn new(cloud_events: bool, source: &str) -> Self {
        HeaderStyle { ce_source: cloud_events.then(|| uri_reference(source)) }
    }

    /// What a record takes in an uncompressed batch of its own, at most.
    pub(super) fn record_bytes_max(&self, fence: &str, message: &MessageRef<'_>) -> usize {
        let labels = message.tenant.len() + fence.len() + message.kind.len() + message.content_type.map_or(0, str::len);
        let source = self.ce_source.as_ref().map_or(0, String::len);
        let lengths = 10 * message.headers.len();
        message.size_bytes() + labels + source + lengths + FRAMING
    }

    /// Builds the headers of one record.
    pub(super) fn build(&self, fence: &str, message: &MessageRef<'_>) -> OwnedHeaders {
        let mut id = [0; Hyphenated::LENGTH];
        let id: &str = message.message_id.hyphenated().encode_lower(&mut id);
        let mut headers = OwnedHeaders::new_with_capacity(9 + message.headers.len());
        headers = text(headers, header::MESSAGE_ID, id);
        headers = text(headers, header::TENANT, message.tenant);
        headers = text(headers, header::FENCE, fence);
        if let Some(source) = &self.ce_source {
            headers = cloud_event(headers, source, id, message);
        }
        for (key, value) in message.headers {
            headers = headers.insert(Header { key, value: *value });
        }
        headers
    }
}

fn cloud_event(mut headers: OwnedHeaders, source: &str, id: &str, message: &MessageRef<'_>) -> OwnedHeaders {
    headers = text(headers, header::CE_SPECVERSION, "1.0");
    headers = text(headers, header::CE_ID, id);
    headers = text(headers, header::CE_SOURCE, source);
    headers = text(headers, header::CE_TYPE, message.kind);
    let mut time = [0; time_text::LENGTH];
    if let Some(time) = time_text::rfc3339(message.event_time_us.unwrap_or(message.created_at_us), &mut time) {
        headers = text(headers, header::CE_TIME, time);
    }
    match message.content_type {
        Some(content_type) => text(headers, header::CONTENT_TYPE, content_type),
        None => headers,
    }
}

fn text(headers: OwnedHeaders, key: &str, value: &str) -> OwnedHeaders {
    headers.insert(Header { key, value: Some(value.as_bytes()) })
}

/// A source's name or URI as a URI reference: what RFC 3986 allows nowhere in one is percent-encoded, and so is
/// a per cent sign that begins no encoded byte.
fn uri_reference(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    let bytes = name.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let escape = || bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let legal = byte.is_ascii_alphanumeric() || b"-._~/:?#[]@!$&'()*+,;=".contains(&byte);
        if legal || (byte == b'%' && escape()) {
            encoded.push(char::from(byte));
        } else {
            // writing to a String can't fail
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;
    use uuid::Uuid;

    use super::*;

    fn message<'a>(headers: &'a [(&'a str, Option<&'a [u8]>)]) -> MessageRef<'a> {
        MessageRef {
            id: 1,
            slot: 0,
            message_id: Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_00ff),
            tenant: "acme",
            topic: "orders",
            key: None,
            partition: None,
            kind: "order.placed",
            content_type: Some("application/json"),
            headers,
            payload: None,
            event_time_us: Some(1_700_000_000_000_001),
            created_at_us: 1_800_000_000_000_000,
        }
    }

    fn listed(headers: &OwnedHeaders) -> Vec<(String, Option<Vec<u8>>)> {
        headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect()
    }

    fn pair(key: &str, value: &str) -> (String, Option<Vec<u8>>) {
        (key.to_owned(), Some(value.as_bytes().to_vec()))
    }

    #[test]
    fn own_then_cloud_events_then_the_producers_in_order() {
        let own: &[(&str, Option<&[u8]>)] = &[
            ("a", Some(b"1")),
            ("b", None),
            ("a", Some(b"")),
            ("A b\u{e9}", Some(&[0xff, 0])),
            ("traceparent", Some(b"00-x")),
        ];
        let built = HeaderStyle::new(true, "orders db").build("source/3/7", &message(own));
        let id = "01900000-0000-7000-8000-0000000000ff";
        let mut expected = vec![
            pair("fencepost-message-id", id),
            pair("fencepost-tenant", "acme"),
            pair("fencepost-fence", "source/3/7"),
            pair("ce_specversion", "1.0"),
            pair("ce_id", id),
            pair("ce_source", "orders%20db"),
            pair("ce_type", "order.placed"),
            pair("ce_time", "2023-11-14T22:13:20.000001Z"),
            pair("content-type", "application/json"),
        ];
        expected.extend(own.iter().map(|(key, value)| ((*key).to_owned(), value.map(<[u8]>::to_vec))));
        assert_eq!(listed(&built), expected);
    }

    #[test]
    fn without_cloud_events_only_the_own_three_are_added() {
        let built = HeaderStyle::new(false, "orders").build("f", &message(&[]));
        let keys: Vec<String> = listed(&built).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["fencepost-message-id", "fencepost-tenant", "fencepost-fence"]);
    }

    #[test]
    fn ce_time_falls_back_to_the_rows_own_time() {
        let message = MessageRef { event_time_us: None, content_type: None, ..message(&[]) };
        let built = HeaderStyle::new(true, "orders").build("f", &message);
        assert_eq!(listed(&built).last(), Some(&pair("ce_time", "2027-01-15T08:00:00.000000Z")));
    }

    #[test]
    fn a_source_is_a_uri_reference() {
        for (source, reference) in [
            ("orders", "orders"),
            ("orders db", "orders%20db"),
            ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d"),
            ("urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"),
            ("a%20b", "a%20b"),
            ("50% off", "50%25%20off"),
            ("\u{e9}", "%C3%A9"),
        ] {
            assert_eq!(uri_reference(source), reference);
        }
    }
}
