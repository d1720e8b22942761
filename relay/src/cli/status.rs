//! `fencepost status`

use clap::Args;
use serde::Serialize;

use super::{CliError, Exit, Output};
use crate::ops::audit::FindingLine;
use crate::ops::status::SourceSummary;

/// Show each source in sum, as its database tells it.
#[derive(Debug, Args)]
pub struct Status {
    /// Only this source.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// What was seen of one source.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'a str,
    error: Option<&'a str>,
    #[serde(flatten)]
    summary: Option<&'a SourceSummary>,
}

/// Prints what was seen of each source, by name. One that could not be looked at does not hide the others.
///
/// # Errors
/// The first source's that failed, after everything was printed.
pub fn print(
    seen: Vec<(String, Result<SourceSummary, CliError>)>,
    json: bool,
    out: &mut Output<'_>,
) -> Result<(), CliError> {
    if json {
        let lines: Vec<_> = seen.iter().map(|(name, seen)| line(name, seen)).collect();
        out.json(&lines)?;
    } else {
        for (name, summary) in seen.iter().filter_map(|(name, seen)| Some((name, seen.as_ref().ok()?))) {
            print_summary(name, summary, out)?;
        }
    }
    let failed = seen.into_iter().filter_map(|(name, seen)| Some(seen.err()?.of_source(&name)));
    failed.reduce(|first, next| CliError { text: format!("{first}\n{next}"), ..first }).map_or(Ok(()), Err)
}

fn line<'a>(name: &'a str, seen: &'a Result<SourceSummary, CliError>) -> Line<'a> {
    match seen {
        Ok(summary) => Line { name, error: None, summary: Some(summary) },
        Err(error) => Line { name, error: Some(&error.text), summary: None },
    }
}

fn print_summary(name: &str, summary: &SourceSummary, out: &mut Output<'_>) -> Result<(), CliError> {
    let SourceSummary { schema_version, newest_id, lanes, lanes_held, backlog, .. } = summary;
    out.line(format!("source {name}"))?;
    out.line(format!("  schema version {schema_version}, newest id {newest_id}"))?;
    out.line(format!("  lanes held {lanes_held} of {lanes}"))?;
    if !summary.lanes_without_position.is_empty() {
        let lanes = &summary.lanes_without_position;
        out.line(format!("  lanes without a position {lanes:?}: run fencepost lane init"))?;
    }
    let oldest = summary.oldest_seconds.map_or(String::new(), |seconds| format!(", the oldest for {seconds:.1} s"));
    out.line(format!("  waiting at most {backlog}{oldest}"))?;
    for finding in &summary.findings {
        let FindingLine { lane, to_n, expected, found, .. } = finding;
        out.line(format!(
            "  audit finding: lane {lane} delivered {expected} messages up to batch {to_n} and the log held {found}: run fencepost audit list"
        ))?;
    }
    for relay in &summary.relays {
        let (owner, lanes, seen, up) = (&relay.owner, relay.lanes, relay.seen_seconds, relay.up_seconds);
        out.line(format!("  relay {owner}: {lanes} lanes, seen {seen:.1} s ago, up {up:.0} s"))?;
    }
    Ok(())
}

/// A source of that name is not configured.
pub fn no_such_source(name: &str, known: &[&str]) -> CliError {
    CliError::new(Exit::Usage, format!("no source {name:?}; there are {}", known.join(", ")))
}
