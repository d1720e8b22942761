//! The outbox in a SQLite file: its schema, its producers, its store, and relays on it.

mod producer;
mod schema;
