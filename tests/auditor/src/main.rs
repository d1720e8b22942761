//! `fencepost-auditor`: judges a topic against a journal file. Exit code 0: it holds; 1: it does not;
//! 2: it could not be judged.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fencepost_auditor::{Journal, Verdict, topic};

/// Compares a journal of committed and rolled back messages with what a topic holds.
#[derive(Parser)]
#[command(name = "fencepost-auditor")]
struct Args {
    /// Journal: one JSON object per line with id, fate (committed, rolled_back, in_doubt), key, seq.
    #[arg(long)]
    journal: PathBuf,
    /// Kafka bootstrap servers.
    #[arg(long)]
    brokers: String,
    /// Topic to judge.
    #[arg(long)]
    topic: String,
    /// Skip records of open or aborted Kafka transactions.
    #[arg(long)]
    read_committed: bool,
    /// Repeats count as broken too.
    #[arg(long)]
    exactly_once: bool,
    /// How long reading the topic may take, seconds.
    #[arg(long, default_value_t = 60)]
    within_s: u64,
    /// Print the verdict as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let verdict = match judge(&args) {
        Ok(verdict) => verdict,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let text = if args.json { serde_json::to_string_pretty(&verdict) } else { Ok(verdict.to_string()) };
    match text {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("{error}"),
    }
    let holds = if args.exactly_once { verdict.holds_exactly_once() } else { verdict.holds() };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(args: &Args) -> Result<Verdict, Box<dyn Error>> {
    let mut audit = Journal::read(BufReader::new(File::open(&args.journal)?))?.audit()?;
    let reading = topic::Reading {
        brokers: &args.brokers,
        topic: &args.topic,
        read_committed: args.read_committed,
        within: Duration::from_secs(args.within_s),
    };
    topic::read(reading, |id, place| audit.observed(id, place))?;
    Ok(audit.verdict())
}
