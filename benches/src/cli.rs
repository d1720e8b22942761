//! The command line of the bench, as `fencepost bench` and `fencepost-bench` offer it.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};

use crate::error::{Error, Result};
use crate::report::Report;
use crate::rig::Rig;
use crate::{compare, drain, idle, insert, pinned, raw, steady};

/// Measures the relay against a real PostgreSQL and a real Kafka on this machine.
///
/// The servers' addresses come from FENCEPOST_BENCH_POSTGRES (a superuser's URL) and
/// FENCEPOST_BENCH_KAFKA, else from FENCEPOST_TEST_POSTGRES and FENCEPOST_TEST_KAFKA. Each run makes a
/// database and a topic of its own, and removes them. The servers should serve nobody else meanwhile.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    scenario: Scenario,
}

/// Options of every scenario.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Common {
    /// Print JSON on stdout; the table goes to stderr.
    #[arg(long)]
    json: bool,
    /// Exit with 1 when a figure is missed.
    #[arg(long)]
    strict: bool,
    /// Keep databases, topics and logs.
    #[arg(long)]
    pub(crate) keep: bool,
    /// The baseline's program. Default: `fencepost-baseline` beside the relay's.
    #[arg(long)]
    pub(crate) baseline: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// How fast a backlog reaches the topic, and at what cost.
    Drain(With<drain::DrainArgs>),
    /// Latency from commit to consumer at a steady rate, and what it costs.
    Steady(With<steady::SteadyArgs>),
    /// Steady rate while another session pins a snapshot, and while a writer idles in a transaction.
    Pinned(With<pinned::PinnedArgs>),
    /// What relay and PostgreSQL cost at rest.
    Idle(With<idle::IdleArgs>),
    /// What a row costs its producer, through the producer library.
    Insert(With<insert::InsertArgs>),
    /// Drains of the relay interleaved with those of the baseline, and the raw produce rate.
    Compare(With<compare::CompareArgs>),
    /// How fast this machine produces the same records without a database.
    Raw(With<raw::RawArgs>),
}

#[derive(Debug, ClapArgs)]
struct With<A: ClapArgs> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    common: Common,
}

impl Scenario {
    fn common(&self) -> &Common {
        match self {
            Scenario::Drain(with) => &with.common,
            Scenario::Steady(with) => &with.common,
            Scenario::Pinned(with) => &with.common,
            Scenario::Idle(with) => &with.common,
            Scenario::Insert(with) => &with.common,
            Scenario::Compare(with) => &with.common,
            Scenario::Raw(with) => &with.common,
        }
    }

    async fn measure(&self, rig: &Rig) -> Result<Report> {
        match self {
            Scenario::Drain(with) => drain::run(rig, &with.own).await,
            Scenario::Steady(with) => steady::run(rig, &with.own).await,
            Scenario::Pinned(with) => pinned::run(rig, &with.own).await,
            Scenario::Idle(with) => idle::run(rig, &with.own).await,
            Scenario::Insert(with) => insert::run(rig, &with.own).await,
            Scenario::Compare(with) => compare::run(rig, &with.own).await,
            Scenario::Raw(with) => raw::run(rig, &with.own).await,
        }
    }
}

/// Measures, and prints what was found. `relay_exe` is the program whose `run` and `migrate` are
/// measured; it is started as a child process.
///
/// Exit code 0: measured, and the verifying readers were content; 1: something was lost, repeated or
/// misordered, or with `--strict` a figure was missed; 2: it could not be measured.
pub fn run(args: &Args, relay_exe: &Path) -> u8 {
    // A thread of its own: the caller may be inside a runtime.
    let measured = std::thread::scope(|scope| scope.spawn(|| measure(args, relay_exe)).join());
    let report = match measured {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => {
            eprintln!("{error}");
            return 2;
        }
        Err(_) => return 2,
    };
    let common = args.scenario.common();
    if common.json {
        eprintln!("{report}");
        println!("{:#}", report.json());
    } else {
        println!("{report}");
    }
    u8::from(!(report.faithful && (report.all_met() || !common.strict)))
}

fn measure(args: &Args, relay_exe: &Path) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::from)?;
    runtime.block_on(async {
        let rig = Rig::open(args.scenario.common(), relay_exe).await?;
        args.scenario.measure(&rig).await
    })
}
