//! The harness of the integration tests: real PostgreSQL, real Kafka, real processes.
//!
//! Each test makes its own database ([`database::TestDatabase`]) and its own topics
//! ([`kafka::TestTopic`]), so that all of them run side by side. What a failed test used is kept, and
//! its name printed. Tests never sleep to wait for something: they poll a condition with a deadline, and
//! [`wait`] is the one place that does it. The tests themselves are one binary, `tests/it/main.rs`.

mod acl;
pub mod conformance;
pub mod database;
pub mod env;
pub mod evidence;
pub mod fleet;
pub mod kafka;
pub mod process;
pub mod proxy;
pub mod random;
pub mod servers;
pub mod sqlite;
mod template;
pub mod wait;
pub mod workload;
