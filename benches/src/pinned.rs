//! Steady rate under what brings queue tables down: a snapshot that somebody else holds, and a writer
//! that idles in its transaction. Each is compared with an undisturbed run of the same round.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};

use crate::contestant::{Contestant, RelaySetup};
use crate::database::settle;
use crate::error::Result;
use crate::fill::into_log;
use crate::report::{Figure, Goal, Report, median};
use crate::rig::{Bed, Rig};
use crate::steady::{Load, Stretch, stretch};

const MEASURED: u32 = 1;
/// A message of the idling writer: of a run of its own, so that no latency counts it.
const IDLER: u32 = 2;
const RATIO_MAX: f64 = 1.2;
/// Below so many messages a backlog is what is in flight, and a ratio of two of them says nothing.
const BACKLOG_FLOOR: f64 = 50.0;

/// Options of `bench pinned`.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct PinnedArgs {
    /// Messages a second, five a transaction.
    #[arg(long, default_value_t = 3_000.0)]
    rate: f64,
    /// Seconds that each run measures.
    #[arg(long, default_value_t = 140)]
    seconds: u64,
    /// Rounds of one run of each kind; the figures are medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Disturbance {
    Free,
    Snapshot,
    Writer,
}

const KINDS: [Disturbance; 3] = [Disturbance::Free, Disturbance::Snapshot, Disturbance::Writer];

impl Disturbance {
    fn label(self) -> &'static str {
        match self {
            Disturbance::Free => "free",
            Disturbance::Snapshot => "snapshot pinned",
            Disturbance::Writer => "writer idle in transaction",
        }
    }

    /// Opens the disturbing transaction; it lasts as long as the session.
    async fn open(self, bed: &Bed) -> Result<Option<PgConnection>> {
        if self == Disturbance::Free {
            return Ok(None);
        }
        let mut session = bed.database.connect().await?;
        if self == Disturbance::Snapshot {
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
            session.execute(r#"SELECT count(*) FROM "fencepost".origin"#).await?;
        } else {
            session.execute("BEGIN").await?;
            let payload = crate::payload::Feed::new(IDLER, 0, 1, 300).next().1;
            into_log(&mut session, &bed.topic.name, vec!["idler".to_owned()], vec![payload]).await?;
        }
        Ok(Some(session))
    }
}

/// `bench pinned`.
pub(crate) async fn run(rig: &Rig, args: &PinnedArgs) -> Result<Report> {
    let load = Load {
        rate: args.rate,
        rows_per_transaction: 5,
        writers: 4,
        keys_per_writer: 1_000,
        payload_bytes: 300,
        partitions: 8,
        seconds: args.seconds,
        warm_up_seconds: 5,
    };
    let mut rounds: Vec<[Stretch; 3]> = Vec::new();
    for round in 0..args.rounds {
        rounds.push(one_round(rig, &load, round).await?);
    }
    Ok(Report {
        scenario: "pinned",
        machine: rig.machine.clone(),
        settings: json!({ "options": args, "load": load }),
        faithful: rounds.iter().flatten().all(|run| run.check.holds(true)),
        figures: [1, 2].into_iter().flat_map(|kind| ratios(&rounds, kind)).collect(),
        runs: rounds.iter().flatten().map(Stretch::row).collect(),
    })
}

/// One run of each kind; each round begins with another kind, so that drift hits all alike.
async fn one_round(rig: &Rig, load: &Load, round: usize) -> Result<[Stretch; 3]> {
    let mut runs = [None, None, None];
    for step in 0..KINDS.len() {
        let index = (round + step) % KINDS.len();
        eprintln!("pinned, round {}: {}", round + 1, KINDS[index].label());
        runs[index] = Some(once(rig, load, KINDS[index]).await?);
    }
    let [Some(free), Some(snapshot), Some(writer)] = runs else { unreachable!("each kind ran once") };
    Ok([free, snapshot, writer])
}

async fn once(rig: &Rig, load: &Load, disturbance: Disturbance) -> Result<Stretch> {
    let relay = Contestant::Relay(RelaySetup { cloudevents: true, long_lease: false });
    let bed = rig.bed(load.partitions).await?;
    relay.install(rig, &bed.database).await?;
    let mut session = bed.database.connect().await?;
    let child = relay.start(rig, &bed.database).await?;
    settle(&mut session).await?;
    let disturbing = disturbance.open(&bed).await?;
    let mut measured = stretch(rig, &bed, load, MEASURED, Some(child.pid()), &mut session).await?;
    if let Some(disturbing) = disturbing {
        disturbing.close().await?;
    }
    child.end().await?;
    drop(session);
    rig.clear(bed).await?;
    measured.label = disturbance.label().to_owned();
    Ok(measured)
}

/// Medians of the ratios to the free run of the same round.
fn ratios(rounds: &[[Stretch; 3]], kind: usize) -> Vec<Figure> {
    let figure = |what: &str, value: &dyn Fn(&Stretch) -> f64| {
        let ratio = median(rounds.iter().map(|round| value(&round[kind]) / value(&round[0]).max(1e-9)));
        Figure::new(format!("{}: {what} to free", KINDS[kind].label()), "times", ratio, Goal::AtMost(RATIO_MAX))
    };
    vec![
        figure("backlog", &|run| run.backlog_median.max(BACKLOG_FLOOR)),
        figure("p99", &|run| run.p99_ms),
        figure("PostgreSQL CPU", &|run| run.usage.postgres_cpu_s),
    ]
}
