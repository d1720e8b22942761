//! `fencepost audit`

use clap::{Args, Subcommand};
use fencepost_core::lane::LaneId;

use super::{CliError, Exit, Output};
use crate::ops::audit::{CloseError, FindingLine};

/// Show and close what the completeness audit found.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Show the open findings.
    List {
        /// Only this source.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// The closed ones too.
        #[arg(long)]
        all: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Close a finding that was looked into.
    Close(Close),
}

/// Which finding, and why.
#[derive(Debug, Args)]
pub struct Close {
    /// Number of the lane.
    #[arg(value_parser = clap::value_parser!(i16).range(0..))]
    pub lane: i16,
    /// Number of the batch where the finding's window ends.
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub batch: i64,
    /// What came of looking into it; stays on record.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Who closes it. Default: the operating system's user.
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Which source; may be left out where there is one.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
}

/// Prints findings of one or more sources.
///
/// # Errors
/// Of the stream.
pub fn print(sources: &[(String, Vec<FindingLine>)], json: bool, out: &mut Output<'_>) -> Result<(), CliError> {
    if json {
        let by_name: std::collections::BTreeMap<_, _> = sources.iter().map(|(name, found)| (name, found)).collect();
        return out.json(&by_name);
    }
    let rows: Vec<_> = sources.iter().flat_map(|(name, found)| found.iter().map(move |one| row(name, one))).collect();
    out.table(["SOURCE", "LANE", "BATCHES", "DELIVERED", "IN THE LOG", "IDS", "AGE", "CLOSED BY", "REASON"], &rows)
}

fn row(source: &str, finding: &FindingLine) -> [String; 9] {
    let ids: Vec<_> = finding.ids.iter().map(ToString::to_string).collect();
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    [
        source.to_owned(),
        finding.lane.to_string(),
        format!("{}-{}", finding.from_n + 1, finding.to_n),
        finding.expected.to_string(),
        finding.found.to_string(),
        ids.join(","),
        format!("{:.0} s", finding.age_seconds),
        text(&finding.closed_by),
        text(&finding.reason),
    ]
}

/// Says what became of a close.
///
/// # Errors
/// Of the stream.
pub fn print_close(lane: LaneId, batch: i64, out: &mut Output<'_>) -> Result<(), CliError> {
    out.line(format!("the finding of lane {lane} that ends at batch {batch} is closed"))
}

/// Nobody is known who does it.
pub fn no_actor() -> CliError {
    CliError::new(Exit::Usage, "the operating system's user is not known here; say who you are by --actor NAME")
}

impl From<CloseError> for CliError {
    fn from(error: CloseError) -> Self {
        match error {
            CloseError::Store(error) => error.into(),
            CloseError::Refused(text) => CliError::new(Exit::Failed, text),
        }
    }
}
