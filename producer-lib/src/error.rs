//! What can go wrong when a message is enqueued: what, where, and what to do. No error shows a payload,
//! a key or a header's value.

use std::fmt;

use fencepost_core::limits::{HEADERS_MAX, LABEL_BYTES_MAX, TOPIC_CHARS_MAX, TopicNameError};

/// A text field with common bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// The tenant.
    Tenant,
    /// The type.
    Type,
    /// The content type.
    ContentType,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Label::Tenant => "tenant",
            Label::Type => "type",
            Label::ContentType => "content type",
        })
    }
}

/// A rule that a message breaks. Nothing was sent to the database: an open transaction stays usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// Kafka would refuse the topic's name.
    #[error("the topic name {}; use 1 to {TOPIC_CHARS_MAX} characters of a-z, A-Z, 0-9, \".\", \"_\" and \"-\"", topic_rule(.0))]
    Topic(TopicNameError),
    /// Empty or too long.
    #[error("the {label} has {bytes} bytes; give 1 to {LABEL_BYTES_MAX}")]
    LabelLength {
        /// Which field.
        label: Label,
        /// Its length.
        bytes: usize,
    },
    /// PostgreSQL's text holds no NUL.
    #[error("the {label} contains a NUL character; remove it")]
    LabelNul {
        /// Which field.
        label: Label,
    },
    /// Below 0.
    #[error("the partition is negative; give 0 or more, or none to let the partitioner choose")]
    Partition,
    /// Not expressible in the header `ce_time`.
    #[error("the event time lies outside the years 1 to 9999 (UTC); correct it or leave it out")]
    EventTime,
    /// Too many headers.
    #[error("the message has {count} headers; give at most {HEADERS_MAX}")]
    TooManyHeaders {
        /// How many it has.
        count: usize,
    },
    /// PostgreSQL's text holds no NUL, and no other control character belongs into a name.
    #[error("the name of header {index} (from 0) contains a control character; remove it")]
    HeaderControl {
        /// Which header, from 0.
        index: usize,
    },
    /// The relay writes these itself.
    #[error(
        "header {index} (from 0) has a name that belongs to the relay (fencepost-..., ce_..., content-type); rename it"
    )]
    HeaderReserved {
        /// Which header, from 0.
        index: usize,
    },
}

fn topic_rule(error: &TopicNameError) -> &'static str {
    match error {
        TopicNameError::Empty => "is empty",
        TopicNameError::TooLong => "is too long",
        TopicNameError::Dots => "is \".\" or \"..\"",
        TopicNameError::Character => "has a character that Kafka refuses",
    }
}

/// Why messages were not enqueued.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// A message breaks a rule. Nothing was sent: the transaction stays usable.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
    /// A message is larger than the topic could take. Nothing was sent: the transaction stays usable.
    #[error(
        "message {index} (from 0) has {bytes} bytes of payload, key and headers, more than the limit of {max}; \
         store the content elsewhere and send a reference, or raise the limit together with the topic's"
    )]
    TooLarge {
        /// Its place in the call, from 0.
        index: usize,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// An event could not be turned into bytes. Nothing was sent: the transaction stays usable.
    #[error("the event could not be serialized: {0}")]
    Serialize(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database refused, or the connection was lost. The transaction can only be rolled back; none
    /// of its messages will be published. Begin it again if the cause passes.
    #[error("the database did not take the messages: {}; roll the transaction back", summary(.0))]
    Database(#[source] sqlx::Error),
    /// SQLite: another connection was writing for longer than the connection's busy timeout, or wrote after this
    /// transaction had read, so that it may not write any more (which no timeout helps against). Roll the transaction
    /// back and run it again, begun with `begin_with("BEGIN IMMEDIATE")`: that one waits for its turn and then keeps it.
    #[error(
        "another connection is writing to the file: {}; roll the transaction back and run it again, begun with BEGIN IMMEDIATE",
        summary(.0)
    )]
    Locked(#[source] sqlx::Error),
}

/// The server's message without its detail, which may quote the row.
fn summary(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().unwrap_or_default()),
        None => error.to_string(),
    }
}

/// As the message: what sqlx's own form shows may quote the row.
impl fmt::Debug for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnqueueError({self})")
    }
}
