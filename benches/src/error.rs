//! Why a measurement could not be made.

use std::path::PathBuf;

/// A measurement that did not come about. A figure that was missed is no error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    #[error("kafka: {0}")]
    Kafka(#[from] rdkafka::error::KafkaError),
    #[error("system: {0}")]
    System(#[from] std::io::Error),
    #[error("{0} is missing: build it first (cargo build --release --bins), or name it")]
    NoProgram(PathBuf),
    #[error("{what} did not come about within {seconds} s")]
    Slow { what: String, seconds: u64 },
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Error::Other(text.into())
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;
