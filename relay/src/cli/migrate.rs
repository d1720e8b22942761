//! `fencepost migrate`

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{CliError, Output};

/// Make or check the outbox's schema.
#[derive(Debug, Subcommand)]
pub enum Migrate {
    /// Bring the schema to this program's version.
    Up {
        /// Which sources.
        #[command(flatten)]
        which: Which,
        /// Then make the roles, as `migrate roles` does.
        #[arg(long)]
        roles: bool,
        /// What the roles' names begin with.
        #[arg(long, value_name = "NAME", default_value = "fencepost")]
        role_prefix: String,
    },
    /// Show which migrations were applied.
    Status {
        /// Which sources.
        #[command(flatten)]
        which: Which,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the SQL, for a DBA to run with psql. Needs no database and no configuration.
    Sql {
        /// The schema's name.
        #[arg(long, value_name = "NAME", default_value = "fencepost")]
        schema: String,
        /// Only migrations above this number.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: i32,
        /// The roles' SQL instead.
        #[arg(long)]
        roles: bool,
        /// What the roles' names begin with.
        #[arg(long, value_name = "NAME", default_value = "fencepost")]
        role_prefix: String,
    },
    /// Fail unless the schema is exactly what this program's migrations make.
    Check {
        /// Which sources.
        #[command(flatten)]
        which: Which,
    },
    /// Make the roles owner, producer, relay and admin with their least rights, and hand the objects to the owner.
    /// Safe to repeat; run it again after each migration.
    Roles {
        /// Which sources.
        #[command(flatten)]
        which: Which,
        /// What the roles' names begin with.
        #[arg(long, value_name = "NAME", default_value = "fencepost")]
        role_prefix: String,
    },
}

/// Which sources.
#[derive(Debug, Args)]
pub struct Which {
    /// Only this source; all without it.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
}

/// One migration of one source.
#[derive(Debug, Serialize)]
pub struct MigrationLine {
    /// The source.
    pub source: String,
    /// Number.
    pub version: i32,
    /// Name.
    pub name: String,
    /// When it was applied, RFC 3339; none: pending.
    pub applied_at: Option<String>,
}

/// Prints which migrations were applied.
///
/// # Errors
/// Of the stream.
pub fn print_status(lines: &[MigrationLine], json: bool, out: &mut Output<'_>) -> Result<(), CliError> {
    if json {
        return out.json(&lines);
    }
    let row = |line: &MigrationLine| {
        let applied = line.applied_at.clone().unwrap_or_else(|| "pending".into());
        [line.source.clone(), line.version.to_string(), line.name.clone(), applied]
    };
    out.table(["SOURCE", "MIGRATION", "NAME", "APPLIED"], &lines.iter().map(row).collect::<Vec<_>>())
}
