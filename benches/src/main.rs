//! `fencepost-bench`: the bench as a program of its own, `cargo run --release -p fencepost-bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use fencepost_bench::cli::{self, Args};

#[derive(Parser)]
#[command(name = "fencepost-bench", about)]
struct Program {
    /// The relay's program. Default: `fencepost` beside this one.
    #[arg(long)]
    relay: Option<PathBuf>,
    #[command(flatten)]
    bench: Args,
}

fn main() -> ExitCode {
    let program = Program::parse();
    let beside = || std::env::current_exe().ok().and_then(|me| Some(me.parent()?.join("fencepost")));
    let Some(relay) = program.relay.or_else(beside) else {
        eprintln!("this program's folder is unknown: name the relay with --relay");
        return ExitCode::from(2);
    };
    cli::run(&program.bench, &relay)
}
