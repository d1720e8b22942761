//! The integration tests, one binary: a topic per file. `architecture::no_test_file_is_forgotten` fails
//! when a file of this folder is missing below.

mod architecture;
mod audit;
mod bugs;
mod cli;
mod config;
mod conformance;
mod conformance_fake;
mod crash;
mod cuts;
mod demo;
mod fencing;
mod harness;
mod harness_process;
mod harness_servers;
mod http;
mod producer;
mod producer_refusals;
mod publisher;
mod restarts;
mod roles;
mod rules;
mod scale;
mod schema;
mod sqlite;
mod store;
mod traffic;
mod workload;
