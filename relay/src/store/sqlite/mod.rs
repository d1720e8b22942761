//! The SQLite store: one source's log, lanes and batches in one file, which may be the application's own and which
//! several processes of one machine may share.
//!
//! Schema changes ([`migrate`]) are a program's verb of their own.

mod connect;
mod error;
mod file;
pub mod migrate;
