//! Bounds that producers and relays share. All sizes are bytes.

/// Kafka's bound on a topic name, in characters (all of them ASCII).
pub const TOPIC_CHARS_MAX: usize = 249;
/// Longest tenant, type or content type.
pub const LABEL_BYTES_MAX: usize = 255;
/// Most headers on one message.
pub const HEADERS_MAX: usize = 128;
/// Default bound of one message: payload, key and headers together. Kafka's default limit of a
/// record batch is 1,048,588; the rest is room for the relay's headers and the framing.
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;
/// What the relay adds to a record at most: its headers with the longest labels, and framing.
pub const RELAY_OVERHEAD_BYTES: usize = 2_048;
/// Slots that a source's messages hash into.
pub const SLOTS: usize = 256;
/// Most lanes of one source.
pub const LANES_MAX: usize = 256;

/// Why a topic name is not one that Kafka accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicNameError {
    /// Empty.
    Empty,
    /// Longer than [`TOPIC_CHARS_MAX`].
    TooLong,
    /// `.` or `..`.
    Dots,
    /// A character outside `[a-zA-Z0-9._-]`.
    Character,
}

/// Checks a topic name by Kafka's own rule (`org.apache.kafka.common.internals.Topic.validate`).
///
/// # Errors
/// The first rule that it breaks.
pub fn check_topic_name(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if name == "." || name == ".." {
        return Err(TopicNameError::Dots);
    }
    if name.len() > TOPIC_CHARS_MAX {
        return Err(TopicNameError::TooLong);
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !name.bytes().all(legal) {
        return Err(TopicNameError::Character);
    }
    Ok(())
}
