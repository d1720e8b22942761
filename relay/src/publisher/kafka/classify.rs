//! The one table from librdkafka's persistence status and error code to a [`Class`] with a policy.
//! Codes were observed on a real broker; what librdkafka can retry by itself it has retried before a
//! code gets here.

use fencepost_core::failure::{Class, Persistence};
use rdkafka::types::RDKafkaErrorCode as Code;

/// The class of a failed record, or `None` when the broker has it all the same.
///
/// The status decides first: what is persisted is delivered, whatever else was said about it. Then come
/// the codes that break the producer, because no policy works before a rebuild. Only a record that is
/// certainly not in the topic is judged by its code: everything else may be there.
pub(super) fn classify(persistence: Persistence, code: Code) -> Option<Class> {
    if persistence == Persistence::Persisted {
        return None;
    }
    if breaks_producer(code) {
        return Some(Class::Producer);
    }
    if persistence == Persistence::Possibly {
        return Some(Class::Ambiguous);
    }
    Some(class_of_unwritten(code))
}

/// The class of a record that was certainly not written, also of one that the client did not take.
pub(super) fn class_of_unwritten(code: Code) -> Class {
    match code {
        code if breaks_producer(code) => Class::Producer,
        Code::PurgeQueue | Code::PurgeInflight | Code::QueueFull | Code::InvalidDifferentRecord => Class::Collateral,
        Code::TopicAuthorizationFailed
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition => Class::Route,
        // an unexpected error of a broker proves nothing, whatever librdkafka says
        Code::Unknown => Class::Ambiguous,
        code if concerns_everybody(code) => Class::DestinationDown,
        // too large, invalid record, timestamp or name, a policy, and every code that nobody expected: what is
        // unknown is isolated and parked, it never loops
        _ => Class::Message,
    }
}

/// Whether the producer can't be trusted with a sequence any more.
fn breaks_producer(code: Code) -> bool {
    matches!(
        code,
        Code::Fatal
            | Code::GaplessGuarantee
            | Code::Fenced
            | Code::ProducerFenced
            | Code::InvalidProducerEpoch
            | Code::InvalidProducerIdMapping
            | Code::InvalidTransactionalState
            | Code::InvalidTransactionTimeout
            | Code::OutOfOrderSequenceNumber
            | Code::DuplicateSequenceNumber
            | Code::UnknownProducerId
            | Code::State
    )
}

/// Whether the cluster is away, busy, or refuses this client altogether: no record is to blame.
fn concerns_everybody(code: Code) -> bool {
    refuses_client(code)
        || matches!(
            code,
            Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::BrokerDestroy
                | Code::DestroyBroker
                | Code::Resolve
                | Code::MessageTimedOut
                | Code::OperationTimedOut
                | Code::TimedOutQueue
                | Code::ISRInsufficient
                | Code::CriticalSystemResource
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::StaleBrokerEpoch
                | Code::RequestTimedOut
                | Code::BrokerNotAvailable
                | Code::ReplicaNotAvailable
                | Code::NetworkException
                | Code::NotEnoughReplicas
                | Code::NotEnoughReplicasAfterAppend
                | Code::KafkaStorageError
                | Code::LogDirNotFound
                | Code::ThrottlingQuotaExceeded
                | Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::ConcurrentTransactions
                | Code::InvalidRequiredAcks
                | Code::UnsupportedVersion
                | Code::UnsupportedFeature
        )
}

/// Whether the cluster (or the client's own security settings) turns this client away. Waiting
/// does not help by itself: an operator must act.
pub(super) fn refuses_client(code: Code) -> bool {
    matches!(
        code,
        Code::Authentication
            | Code::SSL
            | Code::SaslAuthenticationFailed
            | Code::IllegalSASLState
            | Code::UnsupportedSASLMechanism
            | Code::SecurityDisabled
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::DelegationTokenExpired
            | Code::DelegationTokenNotFound
            | Code::DelegationTokenAuthorizationFailed
    )
}

/// Whether a failure means that what was known of its topic is out of date.
pub(super) fn invalidates_route(code: Code) -> bool {
    class_of_unwritten(code) == Class::Route
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, class when certainly not written, class when possibly written.
    const TABLE: &[(Code, Class, Class)] = &[
        // the record
        (Code::MessageSizeTooLarge, Class::Message, Class::Ambiguous),
        (Code::MessageBatchTooLarge, Class::Message, Class::Ambiguous),
        (Code::InvalidRecord, Class::Message, Class::Ambiguous),
        (Code::InvalidMessage, Class::Message, Class::Ambiguous),
        (Code::InvalidMessageSize, Class::Message, Class::Ambiguous),
        (Code::InvalidTopic, Class::Message, Class::Ambiguous),
        (Code::InvalidTimestamp, Class::Message, Class::Ambiguous),
        (Code::UnsupportedForMessageFormat, Class::Message, Class::Ambiguous),
        (Code::UnsupportedCompressionType, Class::Message, Class::Ambiguous),
        (Code::PolicyViolation, Class::Message, Class::Ambiguous),
        (Code::BadMessage, Class::Message, Class::Ambiguous),
        // collateral
        (Code::PurgeQueue, Class::Collateral, Class::Ambiguous),
        (Code::PurgeInflight, Class::Collateral, Class::Ambiguous),
        (Code::QueueFull, Class::Collateral, Class::Ambiguous),
        (Code::InvalidDifferentRecord, Class::Collateral, Class::Ambiguous),
        // the route
        (Code::TopicAuthorizationFailed, Class::Route, Class::Ambiguous),
        (Code::UnknownTopicOrPartition, Class::Route, Class::Ambiguous),
        (Code::UnknownTopic, Class::Route, Class::Ambiguous),
        (Code::UnknownPartition, Class::Route, Class::Ambiguous),
        // everybody
        (Code::AllBrokersDown, Class::DestinationDown, Class::Ambiguous),
        (Code::BrokerTransportFailure, Class::DestinationDown, Class::Ambiguous),
        (Code::Resolve, Class::DestinationDown, Class::Ambiguous),
        (Code::MessageTimedOut, Class::DestinationDown, Class::Ambiguous),
        (Code::RequestTimedOut, Class::DestinationDown, Class::Ambiguous),
        (Code::LeaderNotAvailable, Class::DestinationDown, Class::Ambiguous),
        (Code::NotLeaderForPartition, Class::DestinationDown, Class::Ambiguous),
        (Code::NotEnoughReplicas, Class::DestinationDown, Class::Ambiguous),
        (Code::NotEnoughReplicasAfterAppend, Class::DestinationDown, Class::Ambiguous),
        (Code::KafkaStorageError, Class::DestinationDown, Class::Ambiguous),
        (Code::ThrottlingQuotaExceeded, Class::DestinationDown, Class::Ambiguous),
        (Code::Authentication, Class::DestinationDown, Class::Ambiguous),
        (Code::SSL, Class::DestinationDown, Class::Ambiguous),
        (Code::SaslAuthenticationFailed, Class::DestinationDown, Class::Ambiguous),
        (Code::ClusterAuthorizationFailed, Class::DestinationDown, Class::Ambiguous),
        (Code::TransactionalIdAuthorizationFailed, Class::DestinationDown, Class::Ambiguous),
        (Code::InvalidRequiredAcks, Class::DestinationDown, Class::Ambiguous),
        (Code::UnsupportedVersion, Class::DestinationDown, Class::Ambiguous),
        (Code::UnsupportedFeature, Class::DestinationDown, Class::Ambiguous),
        // the producer, whatever became of the record
        (Code::Fatal, Class::Producer, Class::Producer),
        (Code::GaplessGuarantee, Class::Producer, Class::Producer),
        (Code::OutOfOrderSequenceNumber, Class::Producer, Class::Producer),
        (Code::DuplicateSequenceNumber, Class::Producer, Class::Producer),
        (Code::UnknownProducerId, Class::Producer, Class::Producer),
        (Code::InvalidProducerEpoch, Class::Producer, Class::Producer),
        (Code::InvalidProducerIdMapping, Class::Producer, Class::Producer),
        (Code::InvalidTransactionTimeout, Class::Producer, Class::Producer),
        (Code::InvalidTransactionalState, Class::Producer, Class::Producer),
        (Code::Fenced, Class::Producer, Class::Producer),
        (Code::ProducerFenced, Class::Producer, Class::Producer),
        // proves nothing, and nobody expected it
        (Code::Unknown, Class::Ambiguous, Class::Ambiguous),
        (Code::InvalidGroupId, Class::Message, Class::Ambiguous),
    ];

    #[test]
    fn status_decides_first_then_the_code() {
        for &(code, not, possibly) in TABLE {
            assert_eq!(classify(Persistence::Not, code), Some(not), "{code:?}, not written");
            assert_eq!(classify(Persistence::Possibly, code), Some(possibly), "{code:?}, possibly written");
            assert_eq!(classify(Persistence::Persisted, code), None, "{code:?}, persisted");
        }
    }

    #[test]
    fn a_code_without_a_meaning_is_isolated_and_never_loops() {
        for code in [Code::Partial, Code::LogTruncation, Code::FetchSessionIdNotFound] {
            assert_eq!(classify(Persistence::Not, code), Some(Class::Message), "{code:?}");
        }
    }

    #[test]
    fn only_route_failures_forget_a_topic() {
        assert!(invalidates_route(Code::UnknownPartition));
        assert!(!invalidates_route(Code::MessageSizeTooLarge));
        assert!(!invalidates_route(Code::PurgeQueue));
    }
}
