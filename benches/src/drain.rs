//! Drain: how fast, and at what cost, a backlog reaches the topic.
//!
//! The clock is the same for whoever is measured: the process has drained a warm-up and is frozen
//! between two statements; the outbox is filled; the clock starts at the thaw and stops with the append
//! time of the last record, as the broker stamped it. So waking up, the first tick and the first page
//! lie inside the clock. The topic is read back when the clock has stopped.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use sqlx::{Executor, PgConnection};

use crate::child::Child;
use crate::clock;
use crate::contestant::{Contestant, RelaySetup};
use crate::database::settle;
use crate::error::{Error, Result};
use crate::host;
use crate::meter::{Meter, Usage};
use crate::payload::Feed;
use crate::report::{Cell, Figure, Goal, Report, Run, median};
use crate::rig::{Bed, Rig};
use crate::verify::{Check, Tally, read_back};

const WARM_UP: u32 = 0;
const MEASURED: u32 = 1;
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the topic is asked whether it is full: no part of the clock.
const GAP: Duration = Duration::from_millis(100);

/// What is drained.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct Shape {
    /// Messages of the measured backlog.
    #[arg(long, default_value_t = 2_000_000)]
    pub(crate) messages: u64,
    /// Keys that the messages spread over.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) keys: u32,
    /// Bytes of a payload, at least 80.
    #[arg(long, default_value_t = 300)]
    pub(crate) payload_bytes: usize,
    /// Partitions of the topic.
    #[arg(long, default_value_t = 8)]
    pub(crate) partitions: i32,
    /// Messages that are drained before the clock.
    #[arg(long, default_value_t = 50_000)]
    pub(crate) warm_up: u64,
}

/// Options of `bench drain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    shape: Shape,
    /// How often; the figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Without the CloudEvents headers: only the relay's own three.
    #[arg(long)]
    own_headers_only: bool,
    /// Measure the baseline with so many workers instead of the relay.
    #[arg(long)]
    baseline_workers: Option<u32>,
}

/// One measured drain.
#[derive(Clone, Debug)]
pub(crate) struct Drained {
    pub(crate) label: String,
    pub(crate) rate: f64,
    pub(crate) usage: Usage,
    /// PostgreSQL's work with the vacuum that the drain left to do.
    pub(crate) postgres_with_vacuum_cpu_s: f64,
    pub(crate) messages: f64,
    pub(crate) peak_rss_mib: f64,
    pub(crate) check: Check,
    pub(crate) holds: bool,
}

impl Drained {
    pub(crate) fn us(&self, cpu_s: f64) -> f64 {
        cpu_s * 1e6 / self.messages
    }

    pub(crate) fn row(&self) -> Run {
        let cells = vec![
            Cell::new("msg/s", self.rate, 0),
            Cell::new("own us/msg", self.us(self.usage.child_cpu_s), 2),
            Cell::new("PG us/msg", self.us(self.usage.postgres_cpu_s), 2),
            Cell::new("PG+vacuum us/msg", self.us(self.postgres_with_vacuum_cpu_s), 2),
            Cell::new("broker us/msg", self.us(self.usage.broker_cpu_s), 2),
            Cell::new("WAL B/msg", self.usage.wal_bytes / self.messages, 1),
            Cell::new("xids", self.usage.xids, 0),
            Cell::new("others' tx", self.usage.other_transactions, 0),
            Cell::new("peak MiB", self.peak_rss_mib, 1),
            Cell::count("lost", self.check.lost),
            Cell::count("repeated", self.check.repeated),
            Cell::count("misordered", self.check.misordered),
            Cell::count("foreign", self.check.foreign),
        ];
        Run { label: self.label.clone(), cells }
    }
}

/// `bench drain`.
pub(crate) async fn run(rig: &Rig, args: &DrainArgs) -> Result<Report> {
    let relay = Contestant::Relay(RelaySetup { cloudevents: !args.own_headers_only, long_lease: true });
    let contestant = args.baseline_workers.map_or(relay, |workers| Contestant::Baseline { workers });
    let mut drained = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("drain {round} of {}: {}", args.rounds, contestant.name());
        drained.push(once(rig, contestant, &args.shape).await?);
    }
    let figures =
        if args.baseline_workers.is_some() { Vec::new() } else { relay_figures(&drained, args.own_headers_only) };
    Ok(Report {
        scenario: "drain",
        machine: rig.machine.clone(),
        settings: json!({ "shape": args.shape, "contestant": contestant.name(), "rounds": args.rounds }),
        faithful: drained.iter().all(|run| run.holds),
        runs: drained.iter().map(Drained::row).collect(),
        figures,
    })
}

/// What the relay has to reach in a drain, by medians.
pub(crate) fn relay_figures(runs: &[Drained], own_headers_only: bool) -> Vec<Figure> {
    let of = |value: &dyn Fn(&Drained) -> f64| median(runs.iter().map(value));
    let own_us = if own_headers_only { 4.0 } else { 5.5 };
    vec![
        Figure::new("drain rate", "messages/s", of(&|run| run.rate), Goal::AtLeast(160_000.0)),
        Figure::new("relay CPU", "us/message", of(&|run| run.us(run.usage.child_cpu_s)), Goal::AtMost(own_us)),
        Figure::new("PostgreSQL CPU", "us/message", of(&|run| run.us(run.usage.postgres_cpu_s)), Goal::AtMost(3.0)),
        Figure::new("peak resident memory", "MiB", of(&|run| run.peak_rss_mib), Goal::AtMost(40.0)),
    ]
}

/// One drain in a database and a topic of its own.
pub(crate) async fn once(rig: &Rig, contestant: Contestant, shape: &Shape) -> Result<Drained> {
    let bed = rig.bed(shape.partitions).await?;
    contestant.install(rig, &bed.database).await?;
    let mut session = bed.database.connect().await?;
    let mut child = contestant.start(rig, &bed.database).await?;
    let mut warm_up = Feed::new(WARM_UP, 0, shape.keys, shape.payload_bytes);
    contestant.outbox().fill(&mut session, &bed.topic.name, &mut warm_up, shape.warm_up).await?;
    bed.topic.filled(shape.warm_up, PATIENCE, GAP).await?;
    child.freeze(&mut session).await?;
    let mut feed = Feed::new(MEASURED, 0, shape.keys, shape.payload_bytes);
    contestant.outbox().fill(&mut session, &bed.topic.name, &mut feed, shape.messages).await?;
    settle(&mut session).await?;
    let drained = measure(rig, contestant, shape, &bed, &mut session, child).await?;
    drop(session);
    rig.clear(bed).await?;
    Ok(drained)
}

async fn measure(
    rig: &Rig,
    contestant: Contestant,
    shape: &Shape,
    bed: &Bed,
    session: &mut PgConnection,
    mut child: Child,
) -> Result<Drained> {
    let meter = Meter { rig, child: Some(child.pid()), writers: Vec::new() };
    let before = meter.read(session).await?;
    let thaw_ms = clock::wall_ms();
    child.thaw()?;
    let filled = bed.topic.filled(shape.warm_up + shape.messages, PATIENCE, GAP).await;
    child.still_runs()?;
    filled?;
    let usage = meter.read(session).await?.since(&before);
    let peak_rss_mib = host::peak_rss_bytes(child.pid()) as f64 / f64::from(1 << 20);
    child.end().await?;
    session.execute("VACUUM").await?;
    let with_vacuum = meter.read(session).await?.since(&before);
    let mut tally = Tally::new(MEASURED, shape.messages, shape.keys);
    read_back(&bed.topic, &mut tally)?;
    let (_, last_ms) = tally.appended_ms().ok_or_else(|| Error::other("the topic holds nothing of the run"))?;
    Ok(Drained {
        label: contestant.name(),
        rate: shape.messages as f64 * 1e3 / (last_ms - thaw_ms).max(1) as f64,
        usage,
        postgres_with_vacuum_cpu_s: with_vacuum.postgres_cpu_s,
        messages: shape.messages as f64,
        peak_rss_mib,
        check: tally.check(),
        holds: tally.check().holds(contestant.is_ordered()),
    })
}
