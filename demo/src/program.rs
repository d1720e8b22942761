//! The program: sets the stage, tells the story, prints the verdict, clears up.

use std::process::ExitCode;

use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Args, Verb};
use crate::broker::NOT_SHOWN;
use crate::clock::Clock;
use crate::error::DemoError;
use crate::stage::Stage;
use crate::story::Story;
use crate::verdict::Evidence;
use crate::view::Screen;
use crate::view::frame::told;

/// Everything held.
const HELD: u8 = 0;
/// It did not, or it could not be shown.
const FAILED: u8 = 1;
/// A signal ended it, as shells report that.
const INTERRUPTED: u8 = 130;

/// Runs, and returns the exit code.
pub fn run() -> ExitCode {
    let args = Args::parse();
    if let Some(Verb::Relay { args }) = args.verb {
        die_with_parent();
        let args = std::iter::once("fencepost".into()).chain(args);
        let (mut data, mut notes) = (std::io::stdout(), std::io::stderr());
        return fencepost_relay::wiring::commands::program_with(args, &mut data, &mut notes).into();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = runtime.map_err(DemoError::Relay).and_then(|runtime| {
        let clock = Clock::start();
        let stage = runtime.block_on(Stage::set(&args.setting()))?;
        let code = runtime.block_on(show(&args, &stage, clock));
        // The embedded broker stays until its clients, which tasks of the runtime may hold, have left it.
        drop(runtime);
        drop(stage);
        code
    });
    code.unwrap_or_else(|error| {
        eprintln!("fencepost-demo: {error}");
        FAILED
    })
    .into()
}

/// The whole performance.
async fn show(args: &Args, stage: &Stage, clock: Clock) -> Result<u8, DemoError> {
    let mut screen = Screen::stdout(args.plain);
    for (what, place) in stage.places() {
        screen.line(&told(clock.elapsed(), (what, None), &place, screen.paint()));
    }
    let story = Story::new(stage, &mut screen, clock, args.pace());
    let told = tokio::select! {
        told = story.tell() => Some(told),
        () = interrupted() => None,
    };
    let code = match &told {
        Some(Ok(evidence)) => judge(evidence, stage, &mut screen, clock),
        Some(Err(_)) => FAILED,
        None => INTERRUPTED,
    };
    drop(screen);
    clear_up(stage, args.keep || code == FAILED).await;
    told.transpose().map(|_| code)
}

/// Prints the verdict.
fn judge(evidence: &Evidence, stage: &Stage, screen: &mut Screen, clock: Clock) -> u8 {
    let paint = screen.paint();
    screen.line("");
    screen.line(&paint.bold(&format!("after {:.0} seconds", clock.elapsed().as_secs_f64())));
    for line in evidence.table() {
        screen.line(&line);
    }
    if stage.broker.is_embedded() {
        screen.line("");
        for line in NOT_SHOWN {
            screen.line(&paint.dim(line));
        }
    }
    screen.line("");
    let (verdict, holds) = (evidence.to_string(), evidence.holds());
    screen.line(&if holds { paint.good(&verdict) } else { paint.bad(&verdict) });
    if holds { HELD } else { FAILED }
}

async fn clear_up(stage: &Stage, keep: bool) {
    if keep {
        for (what, place) in stage.places() {
            eprintln!("kept: {what}: {place}");
        }
        return;
    }
    for sentence in stage.strike().await {
        eprintln!("fencepost-demo: {sentence}");
    }
}

/// Ends with a SIGINT or a SIGTERM.
async fn interrupted() {
    let (Ok(mut int), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
    }
}

/// A relay must not outlive the demo, however that ends.
fn die_with_parent() {
    // Where the system has no such thing, the demo's own clearing up must do.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}
