//! A message as it leaves the log: borrowed from the database's buffer, on its way to the publisher.

use uuid::Uuid;

/// One row of the log. Fields are borrowed from the connection's buffer: nothing is copied before
/// librdkafka copies once.
#[derive(Clone, Copy)]
pub struct MessageRef<'a> {
    /// Place in the log.
    pub id: i64,
    /// Slot that the database derived from the key.
    pub slot: u8,
    /// The identity on the wire and in every ledger.
    pub message_id: Uuid,
    /// Tenant.
    pub tenant: &'a str,
    /// Kafka topic.
    pub topic: &'a str,
    /// Kafka key, byte for byte; `None` is a null key.
    pub key: Option<&'a [u8]>,
    /// Explicit partition, else the partitioner chooses.
    pub partition: Option<i32>,
    /// CloudEvents type.
    pub kind: &'a str,
    /// CloudEvents data content type.
    pub content_type: Option<&'a str>,
    /// The producer's own headers in their order; names may repeat, values may be null or empty.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// Byte for byte what Kafka gets; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// The event's own time, microseconds since the Unix epoch.
    pub event_time_us: Option<i64>,
    /// When the row was written, microseconds since the Unix epoch.
    pub created_at_us: i64,
}

impl MessageRef<'_> {
    /// Bytes of payload, key and headers: what budgets count.
    pub fn size_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(k, v)| k.len() + v.map_or(0, <[u8]>::len)).sum();
        self.payload.map_or(0, <[u8]>::len) + self.key.map_or(0, <[u8]>::len) + headers
    }
}

/// Messages, keys and headers never reach a log: only what finds the row.
impl std::fmt::Debug for MessageRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageRef").field("id", &self.id).field("message_id", &self.message_id).finish_non_exhaustive()
    }
}
