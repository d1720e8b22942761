//! The command line: what may be asked (here and in a file per verb), and how answers look. Verbs write data to one
//! stream and everything else to another, and never touch the terminal themselves.

pub mod audit;
pub mod config;
pub mod healthcheck;
pub mod lane;
pub mod migrate;
mod outcome;
pub mod status;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use outcome::{CliError, Exit, Output};

use crate::config::Inputs;

/// The relay of a transactional outbox: moves committed messages from PostgreSQL to Kafka, in order and fenced.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, propagate_version = false, max_term_width = 100, after_help = AFTER)]
pub struct Arguments {
    /// Configuration file. `fencepost config --default` prints one with all keys. [env: FENCEPOST_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One setting, above file and environment, such as lease.length=30s. Not for secrets.
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

const AFTER: &str = "Settings also come from the environment: FENCEPOST__LEASE__LENGTH=30s.\n\
    Exit codes: 0 done, 1 refused or failed, 2 wrong arguments or configuration, 3 a server can't be reached, \
    4 a source must be repaired first.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Relay messages until stopped (SIGTERM or SIGINT: finish what is in flight; twice: end at once).
    Run,
    /// Make or check the outbox's schema.
    #[command(subcommand)]
    Migrate(migrate::Migrate),
    /// Show each source in sum, as its database tells it.
    Status(status::Status),
    /// Show and repair lanes.
    #[command(subcommand)]
    Lane(lane::Lane),
    /// Show and close what the completeness audit found.
    ///
    /// A relay counts a sample of what it delivered again, by transaction ids. A difference means that a message was passed
    /// over, or that rows of the outbox were written or removed by hand. While a finding is open, its source is not
    /// ready and nothing delivered is removed.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Ask a running relay whether it is ready; for containers.
    Healthcheck(healthcheck::Healthcheck),
    /// Measure this program against a real PostgreSQL and a real Kafka: rates, latencies, CPU, memory.
    #[cfg(feature = "bench")]
    Bench(fencepost_bench::cli::Args),
    /// Print the configuration that is in force, without secrets.
    Config(config::ConfigVerb),
}

impl Arguments {
    /// What the configuration is read from.
    pub fn inputs(&self) -> Inputs {
        Inputs { file: self.config.clone(), sets: self.set.clone() }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Every verb's long help, in the order of the help.
    fn reference(command: &mut clap::Command, path: &str, out: &mut String) {
        let name = format!("{path}{}", command.get_name());
        let help = command.render_long_help().to_string();
        let lines: Vec<_> = help.lines().map(str::trim_end).collect();
        out.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
        // The bench's scenarios explain themselves; they are no part of operating a relay.
        if name.ends_with(" bench") {
            return;
        }
        for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            reference(verb, &format!("{name} "), out);
        }
    }

    #[test]
    fn the_reference_is_the_parsers_own_help() {
        let mut out = String::from("# Command line\n\nGenerated from `--help`; a test keeps it equal.\n");
        let mut command = Arguments::command().term_width(100);
        command.build();
        reference(&mut command, "", &mut out);
        let written = include_str!("../../../docs/CLI.md");
        assert!(written == out, "docs/CLI.md must be:\n{out}");
    }

    #[test]
    fn the_parser_is_sound() {
        Arguments::command().debug_assert();
    }
}
