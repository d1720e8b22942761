//! Names of the record headers: the wire contract with consumers. `docs/WIRE.md` documents them and
//! a snapshot test pins them.

/// UUID of the message, lower case with hyphens: the consumer's idempotency key.
pub const MESSAGE_ID: &str = "fencepost-message-id";
/// Tenant of the message.
pub const TENANT: &str = "fencepost-tenant";
/// `<source uuid>/<lane>/<generation>`: who sent it under which fencing number.
pub const FENCE: &str = "fencepost-fence";

/// CloudEvents 1.0, Kafka protocol binding, binary mode.
pub const CE_SPECVERSION: &str = "ce_specversion";
/// CloudEvents id: the message id.
pub const CE_ID: &str = "ce_id";
/// CloudEvents source: the configured source name as a URI reference.
pub const CE_SOURCE: &str = "ce_source";
/// CloudEvents type: the message's type.
pub const CE_TYPE: &str = "ce_type";
/// CloudEvents time, RFC 3339: the event's own time, else when the row was written.
pub const CE_TIME: &str = "ce_time";
/// CloudEvents `datacontenttype` maps to this header.
pub const CONTENT_TYPE: &str = "content-type";
/// W3C trace context of the producer; an ordinary header that passes through.
pub const TRACEPARENT: &str = "traceparent";

/// Header names that begin so belong to the relay; the producer library refuses them.
pub const RESERVED_PREFIXES: [&str; 2] = ["fencepost-", "ce_"];

/// Whether a producer may use `name` as a header of its own.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || name == CONTENT_TYPE
}
