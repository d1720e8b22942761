//! Measures the relay from outside: as a child process between a real PostgreSQL and a real Kafka, by
//! what `/proc`, the database's counters and the topic itself say. Nothing is asked of the relay but
//! its readiness, so the same clock and the same meters measure the baseline.
//!
//! [`cli::run`] is the door: `fencepost bench` and the program `fencepost-bench` both call it.
//! `docs/BENCHMARKS.md` says what each figure means and how it is taken.

pub mod cli;

mod child;
mod clock;
mod compare;
mod contestant;
mod database;
mod drain;
mod error;
mod fill;
mod host;
mod idle;
mod insert;
mod meter;
mod payload;
mod pinned;
mod raw;
mod report;
mod rig;
mod steady;
mod tail;
mod topic;
mod verify;
mod writers;
