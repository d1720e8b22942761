//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::stage::Setting;
use crate::story::Pace;

/// The whole story in one program, in less than a minute: services commit orders, two relays publish them, one
/// stands still and loses its lanes, a consumer applies each order once, an auditor judges.
#[derive(Debug, Parser)]
#[command(name = "fencepost-demo", version, max_term_width = 100, after_help = AFTER, subcommand_negates_reqs = true)]
pub struct Args {
    /// Database of orders and outbox, as postgres://user:password@host:port/database. The demo makes schemas of its
    /// own there and removes them.
    #[arg(long, value_name = "URL", env = "FENCEPOST_DEMO_DATABASE", hide_env_values = true, required = true)]
    pub database: Option<String>,
    /// Kafka, as host:port; without it a broker inside the program. The demo makes a topic of its own there and
    /// removes it.
    #[arg(long, value_name = "HOST:PORT", env = "FENCEPOST_DEMO_KAFKA")]
    pub kafka: Option<String>,
    /// Folder for configuration, logs and database files; they are left there. Without it they are removed at the end.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Remove nothing at the end, for a look around. After a failure nothing is removed anyway.
    #[arg(long)]
    pub keep: bool,
    /// Plain lines, also on a terminal.
    #[arg(long)]
    pub plain: bool,
    /// Orders a second, all services together.
    #[arg(long, value_name = "ORDERS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(3..=3_000))]
    pub rate: u32,
    /// The first relay stands still before its mark of this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub freeze_at: u32,
    /// Orders go on for so many seconds after the last event.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub encore: u64,
    /// What to do instead.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

const AFTER: &str = "Exit codes: 0 everything held, 1 it did not or could not be shown, 2 wrong arguments.\n\
    NO_COLOR takes the colours away.";

/// What the program is when it is started by itself.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Be the program `fencepost` with these arguments: the relays of the story.
    #[command(name = crate::relay::VERB, hide = true)]
    Relay {
        /// Its arguments.
        #[arg(last = true)]
        args: Vec<OsString>,
    },
}

impl Args {
    /// Where the story takes place.
    pub fn setting(&self) -> Setting {
        Setting { database: self.database.clone(), kafka: self.kafka.clone(), folder: self.folder.clone() }
    }

    /// How fast it is told.
    pub fn pace(&self) -> Pace {
        Pace { rate: self.rate, freeze_at: self.freeze_at, encore: Duration::from_secs(self.encore) }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_relays_arguments_pass_through() {
        let words = ["fencepost-demo", "relay", "--", "--config", "a.toml", "run"];
        let args = Args::try_parse_from(words).expect("understood");
        let Some(Verb::Relay { args }) = args.verb else { panic!("not a relay") };
        assert_eq!(args, ["--config", "a.toml", "run"]);
    }
}
