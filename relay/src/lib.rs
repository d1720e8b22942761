//! The relay: leases lanes of an outbox, publishes their messages to Kafka, marks delivery under
//! compare-and-set. `docs/ARCHITECTURE.md` shows how the parts hang together.

pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod failpoint;
pub mod http;
pub mod message;
pub mod metrics;
pub mod ops;
pub mod publisher;
pub mod random;
pub mod status;
pub mod store;
pub mod telemetry;
pub mod wiring;
