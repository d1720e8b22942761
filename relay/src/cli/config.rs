//! `fencepost config`

use clap::Args;

use super::{CliError, Output};
use crate::config::{DEFAULT_FILE, Loaded};

/// Print the configuration that is in force, without secrets.
#[derive(Debug, Args)]
pub struct ConfigVerb {
    /// Print the built-in file instead: every key with its meaning, bounds and default.
    #[arg(long)]
    pub default: bool,
}

/// Prints the built-in file.
///
/// # Errors
/// Of the stream.
pub fn print_default(out: &mut Output<'_>) -> Result<(), CliError> {
    out.line(DEFAULT_FILE.trim_end())
}

/// Prints what is in force and where each value came from.
///
/// # Errors
/// Of the stream.
pub fn print(loaded: &Loaded, out: &mut Output<'_>) -> Result<(), CliError> {
    out.line(loaded.print().trim_end())
}
