//! Why the story could not be told. What was told and came out wrong is the verdict's, not an error.

use rdkafka::error::KafkaError;

use crate::broker::BrokerError;
use crate::consumer::ConsumerError;
use crate::database::DatabaseError;
use crate::shop::ShopError;

/// The demo could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The shop.
    #[error(transparent)]
    Shop(#[from] ShopError),
    /// The consumer.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// The auditor's client.
    #[error("the topic can't be read: {0}; is the broker still there?")]
    Topic(#[from] KafkaError),
    /// The folder for files.
    #[error("the folder {folder} can't be used: {error}; name another by --folder")]
    Folder {
        /// Which.
        folder: String,
        /// Of the operating system.
        error: std::io::Error,
    },
    /// A relay could not be started, or the outbox not be made.
    #[error("a relay can't be started: {0}")]
    Relay(std::io::Error),
    /// A relay ended when it should not have, or without having given everything back.
    #[error("the relay {name} ended; the end of its log:\n{log}")]
    RelayEnded {
        /// Which.
        name: String,
        /// The end of its log.
        log: String,
    },
}
