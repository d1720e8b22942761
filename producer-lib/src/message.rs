//! A message that is ready for the outbox, and the builder that checks it before any SQL runs.

use std::fmt;

use fencepost_core::header::is_reserved;
use fencepost_core::limits::{HEADERS_MAX, LABEL_BYTES_MAX, check_topic_name};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{InvalidMessage, Label};

/// What Kafka's format may add to one header at most: two lengths of up to five bytes.
const HEADER_FRAMING_BYTES: usize = 10;

/// The tenant of messages that name none.
const DEFAULT_TENANT: &str = "default";

/// A checked message. Bytes are kept as given; null and empty differ.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) message_id: Uuid,
    pub(crate) tenant: String,
    pub(crate) topic: String,
    pub(crate) kind: String,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) partition: Option<i32>,
    pub(crate) content_type: Option<String>,
    pub(crate) event_time: Option<OffsetDateTime>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) payload: Option<Vec<u8>>,
}

impl Message {
    /// A message for `topic` of the CloudEvents type `kind`; the payload reaches Kafka byte for byte.
    pub fn builder(topic: impl Into<String>, kind: impl Into<String>, payload: impl Into<Vec<u8>>) -> MessageBuilder {
        MessageBuilder::start(topic.into(), kind.into(), Some(payload.into()))
    }

    /// A message with a null payload: in a compacted topic it deletes its key.
    pub fn tombstone(topic: impl Into<String>, kind: impl Into<String>) -> MessageBuilder {
        MessageBuilder::start(topic.into(), kind.into(), None)
    }

    /// The identity on the wire: the consumers' idempotency key.
    pub fn message_id(&self) -> Uuid {
        self.message_id
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Bytes of payload, key and headers, with what Kafka's format adds to each header.
    pub fn size_bytes(&self) -> usize {
        let header = |(name, value): &(String, Option<Vec<u8>>)| {
            name.len() + value.as_ref().map_or(0, Vec::len) + HEADER_FRAMING_BYTES
        };
        let headers: usize = self.headers.iter().map(header).sum();
        self.payload.as_ref().map_or(0, Vec::len) + self.key.as_ref().map_or(0, Vec::len) + headers
    }

    fn check(&self) -> Result<(), InvalidMessage> {
        check_topic_name(&self.topic).map_err(InvalidMessage::Topic)?;
        check_label(Label::Type, &self.kind)?;
        check_label(Label::Tenant, &self.tenant)?;
        if let Some(content_type) = &self.content_type {
            check_label(Label::ContentType, content_type)?;
        }
        if self.partition.is_some_and(|partition| partition < 0) {
            return Err(InvalidMessage::Partition);
        }
        if self.event_time.is_some_and(|time| !(1..=9999).contains(&time.to_offset(time::UtcOffset::UTC).year())) {
            return Err(InvalidMessage::EventTime);
        }
        if self.headers.len() > HEADERS_MAX {
            return Err(InvalidMessage::TooManyHeaders { count: self.headers.len() });
        }
        for (index, (name, _)) in self.headers.iter().enumerate() {
            if name.contains(char::is_control) {
                return Err(InvalidMessage::HeaderControl { index });
            }
            if is_reserved(name) {
                return Err(InvalidMessage::HeaderReserved { index });
            }
        }
        Ok(())
    }
}

/// Payload, key and headers never reach a log: only what finds the row.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

fn check_label(label: Label, text: &str) -> Result<(), InvalidMessage> {
    if text.is_empty() || text.len() > LABEL_BYTES_MAX {
        return Err(InvalidMessage::LabelLength { label, bytes: text.len() });
    }
    if text.contains('\0') {
        return Err(InvalidMessage::LabelNul { label });
    }
    Ok(())
}

/// Collects the parts of a [`Message`]; [`MessageBuilder::build`] checks them.
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct MessageBuilder {
    message_id: Option<Uuid>,
    message: Message,
}

impl MessageBuilder {
    fn start(topic: String, kind: String, payload: Option<Vec<u8>>) -> Self {
        let message = Message {
            message_id: Uuid::nil(),
            tenant: DEFAULT_TENANT.to_owned(),
            topic,
            kind,
            key: None,
            partition: None,
            content_type: None,
            event_time: None,
            headers: Vec::new(),
            payload,
        };
        MessageBuilder { message_id: None, message }
    }

    /// Kafka's key. Messages of one tenant, topic and key keep their order. Without a key (the default) there is no order.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.message.key = Some(key.into());
        self
    }

    /// Whose message it is; 1 to 255 bytes, `default` if not given.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.message.tenant = tenant.into();
        self
    }

    /// Adds a header. Order is kept, a name may repeat, a value may be empty. At most 128; names
    /// that begin with `fencepost-` or `ce_`, and `content-type`, belong to the relay, and none has a
    /// control character.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.message.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a header without a value (null, which is not empty).
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.message.headers.push((name.into(), None));
        self
    }

    /// Names the partition, 0 or more; else the partitioner chooses by the key.
    pub fn partition(mut self, partition: i32) -> Self {
        self.message.partition = Some(partition);
        self
    }

    /// Media type of the payload, 1 to 255 bytes; becomes the header `content-type`.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.message.content_type = Some(content_type.into());
        self
    }

    /// The event's own time, in the years 1 to 9999, kept to the microsecond; else `ce_time` says when the row was written.
    pub fn event_time(mut self, event_time: OffsetDateTime) -> Self {
        self.message.event_time = Some(event_time);
        self
    }

    /// The message's identity; a UUIDv7 is made up if not given. Give one to make a repeated
    /// operation the same message for consumers: the outbox itself does not look for repeats.
    pub fn message_id(mut self, message_id: Uuid) -> Self {
        self.message_id = Some(message_id);
        self
    }

    /// Checks everything but the size, whose limit [`crate::Outbox`] knows.
    ///
    /// # Errors
    /// The first rule that the message breaks; nothing was sent, an open transaction stays usable.
    pub fn build(self) -> Result<Message, InvalidMessage> {
        let message = Message { message_id: self.message_id.unwrap_or_else(new_message_id), ..self.message };
        message.check()?;
        Ok(message)
    }
}

impl fmt::Debug for MessageBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message, f)
    }
}

/// The one place that draws an identity: clock and random bits are uuid's.
fn new_message_id() -> Uuid {
    #[allow(clippy::disallowed_methods, reason = "the library's only draw and only look at the clock")]
    Uuid::now_v7()
}

#[cfg(test)]
mod tests {
    use fencepost_core::limits::TopicNameError;
    use time::macros::datetime;

    use super::*;

    fn valid() -> MessageBuilder {
        Message::builder("orders", "order.created", "payload")
    }

    #[test]
    fn b81_topic_names_follow_kafkas_rule() {
        for (topic, error) in [
            ("", TopicNameError::Empty),
            (".", TopicNameError::Dots),
            ("..", TopicNameError::Dots),
            ("orders v1", TopicNameError::Character),
            ("a/b", TopicNameError::Character),
            ("заказы", TopicNameError::Character),
            ("😀", TopicNameError::Character),
            ("a\0b", TopicNameError::Character),
            (&"t".repeat(250), TopicNameError::TooLong),
        ] {
            assert_eq!(Message::builder(topic, "t", "").build(), Err(InvalidMessage::Topic(error)), "{topic:?}");
        }
        for topic in ["...", "a.b_c-D9", &"t".repeat(249)] {
            Message::builder(topic, "t", "").build().expect(topic);
        }
    }

    #[test]
    fn b97_names_hold_no_nul_and_values_may() {
        let nul = |label| Err(InvalidMessage::LabelNul { label });
        assert_eq!(valid().tenant("a\0b").build(), nul(Label::Tenant));
        assert_eq!(valid().content_type("a\0b").build(), nul(Label::ContentType));
        assert_eq!(Message::builder("orders", "a\0b", "").build(), nul(Label::Type));
        let header = valid().header("fine", "").header("a\0b", "");
        assert_eq!(header.build(), Err(InvalidMessage::HeaderControl { index: 1 }));
        assert!(valid().header("a\nb", "").build().is_err(), "no line breaks in names");
        valid().key(*b"a\0b").header("x", *b"\0").build().expect("bytes are bytes");
    }

    #[test]
    fn labels_have_bounds() {
        let length = |label, bytes| Err(InvalidMessage::LabelLength { label, bytes });
        assert_eq!(valid().tenant("").build(), length(Label::Tenant, 0));
        assert_eq!(valid().tenant("t".repeat(256)).build(), length(Label::Tenant, 256));
        assert_eq!(valid().content_type("").build(), length(Label::ContentType, 0));
        assert_eq!(Message::builder("orders", "", "").build(), length(Label::Type, 0));
        valid().tenant("t".repeat(255)).build().expect("255 bytes");
    }

    #[test]
    fn the_relays_headers_are_refused() {
        for name in ["fencepost-message-id", "fencepost-", "ce_id", "content-type"] {
            let built = valid().header("traceparent", "00").header(name, "x").build();
            assert_eq!(built, Err(InvalidMessage::HeaderReserved { index: 1 }), "{name}");
        }
        let many = (0..129).fold(valid(), |builder, i| builder.header(format!("h{i}"), ""));
        assert_eq!(many.build(), Err(InvalidMessage::TooManyHeaders { count: 129 }));
    }

    #[test]
    fn numbers_and_times_have_bounds() {
        assert_eq!(valid().partition(-1).build(), Err(InvalidMessage::Partition));
        valid().partition(0).build().expect("partition 0");
        let early = valid().event_time(datetime!(-0001-01-01 00:00 UTC));
        assert_eq!(early.build(), Err(InvalidMessage::EventTime));
        valid().event_time(datetime!(9999-12-31 23:59:59 UTC)).build().expect("the last second");
        let across = valid().event_time(datetime!(0001-01-01 00:30 +01:00));
        assert_eq!(across.build(), Err(InvalidMessage::EventTime), "year 0 in UTC");
    }

    #[test]
    fn size_counts_everything_that_kafka_carries() {
        let message = valid().key("key").header("ab", "c").null_header("d").build().expect("valid");
        assert_eq!(message.size_bytes(), 7 + 3 + (2 + 1 + 10) + (1 + 10));
    }

    #[test]
    fn ids_are_version_7_and_rise() {
        let first = valid().build().expect("valid").message_id();
        let second = valid().build().expect("valid").message_id();
        assert_eq!((first.get_version_num(), second.get_version_num()), (7, 7));
        assert!(first < second);
    }

    #[test]
    fn debug_tells_no_content() {
        let builder = Message::builder("orders", "t", "secret-p").key("secret-k").header("h", "secret-h");
        let shown = format!("{builder:?} {:?}", builder.clone().build());
        assert!(shown.contains("orders") && !shown.contains("secret"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"secret-p".to_vec())), "{shown}");
    }
}
