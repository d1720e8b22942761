//! The PostgreSQL store.

pub mod migrate;
