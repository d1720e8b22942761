//! What became of a record that was handed to Kafka, and what follows from it.
//!
//! One table leads from librdkafka's persistence status and error code to a [`Class`]; the relay's
//! publisher owns the mapping from codes (it alone knows librdkafka), this module owns what each
//! class means.

/// Whether the broker has the record, as librdkafka's `rd_kafka_message_status` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Persistence {
    /// Certainly not in the topic: sending it again can't repeat it.
    Not,
    /// May be in the topic: sending it again may repeat it, under the same message id.
    Possibly,
    /// Acknowledged.
    Persisted,
}

/// Why a record was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The cluster can't be reached or refuses everybody: wait with backoff, resend in log order,
    /// charge nothing.
    DestinationDown,
    /// The record may have been written. At-least-once mode resends it and counts a possible repeat.
    Ambiguous,
    /// The record itself can never be published: isolate the guilty one, let its neighbours go.
    Message,
    /// This topic can't be written now (unknown, unauthorised): only its lanes wait.
    Route,
    /// Collateral: purged or refused because another record failed. Resend in log order.
    Collateral,
    /// The producer is broken (sequence, gapless or fencing error): rebuild it, then resend.
    Producer,
}

impl Class {
    /// The name in metrics, logs and the batch log. Stable.
    pub const fn name(self) -> &'static str {
        match self {
            Class::DestinationDown => "destination_down",
            Class::Ambiguous => "ambiguous",
            Class::Message => "message",
            Class::Route => "route",
            Class::Collateral => "collateral",
            Class::Producer => "producer",
        }
    }

    /// Every class, for metrics that must exist before the first failure.
    pub const ALL: [Class; 6] =
        [Class::DestinationDown, Class::Ambiguous, Class::Message, Class::Route, Class::Collateral, Class::Producer];
}

/// The outcome of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The broker acknowledged it.
    Acked,
    /// It was not acknowledged.
    Failed {
        /// Why, as a class with a policy.
        class: Class,
        /// Whether it may be in the topic all the same.
        persistence: Persistence,
        /// The publisher's own error code, for logs and the batch log only.
        code: i16,
    },
}
