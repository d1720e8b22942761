//! A fake database and a fake Kafka around the real step function of `core`, driven in two ways: a model
//! checker tries every order of events within a budget of faults, and a seeded simulator runs long
//! random schedules in virtual time.

pub mod database;
pub mod driver;
pub mod kafka;
pub mod model;
pub mod seeds;
pub mod simulate;
pub mod store;
pub mod verdict;
