//! Steady rate: latency from commit to consumer, and what the relay adds to the database's work.
//!
//! Latency runs from the moment when the writer has the reply to its commit to the moment when a
//! consumer in this process has the record. What the inserts alone cost is measured first, by the same
//! writers without a relay, and taken off.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;

use crate::clock;
use crate::contestant::{Contestant, RelaySetup};
use crate::database::settle;
use crate::error::Result;
use crate::meter::{Meter, Usage};
use crate::report::{Cell, Figure, Goal, Report, Run, median};
use crate::rig::{Bed, Rig};
use crate::tail::{Board, Tail};
use crate::verify::Check;
use crate::writers::{Pace, Writers};

const ALONE: u32 = 0;
const MEASURED: u32 = 1;
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);
const SAMPLE: Duration = Duration::from_millis(200);

/// What is written, and for how long.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct Load {
    /// Messages a second.
    #[arg(long, default_value_t = 1_000.0)]
    pub(crate) rate: f64,
    /// Messages of one transaction.
    #[arg(long, default_value_t = 1)]
    pub(crate) rows_per_transaction: usize,
    /// Writers, each with a connection and keys of its own.
    #[arg(long, default_value_t = 4)]
    pub(crate) writers: u32,
    /// Keys of one writer.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) keys_per_writer: u32,
    /// Bytes of a payload, at least 80.
    #[arg(long, default_value_t = 300)]
    pub(crate) payload_bytes: usize,
    /// Partitions of the topic.
    #[arg(long, default_value_t = 8)]
    pub(crate) partitions: i32,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// Seconds of the same load before.
    #[arg(long, default_value_t = 5)]
    pub(crate) warm_up_seconds: u64,
}

impl Load {
    fn pace(&self) -> Pace {
        Pace {
            rate: self.rate,
            rows_per_transaction: self.rows_per_transaction,
            writers: self.writers,
            keys_per_writer: self.keys_per_writer,
            payload_bytes: self.payload_bytes,
        }
    }

    fn board(&self, run: u32) -> Arc<Board> {
        let seconds = (self.seconds + self.warm_up_seconds + 1) as f64;
        Board::new(run, (self.rate * seconds) as usize + self.rows_per_transaction * self.writers as usize)
    }

    fn keys(&self) -> u32 {
        self.keys_per_writer * self.writers
    }
}

/// Options of `bench steady`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SteadyArgs {
    #[command(flatten)]
    load: Load,
    /// How often; the figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

/// One measured stretch of load.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) label: String,
    pub(crate) usage: Usage,
    pub(crate) messages: f64,
    pub(crate) transactions: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) backlog_median: f64,
    pub(crate) backlog_max: f64,
    pub(crate) check: Check,
}

impl Stretch {
    pub(crate) fn wal_per_message(&self) -> f64 {
        self.usage.wal_bytes / self.messages.max(1.0)
    }

    /// Transaction ids a second beyond the writers' own.
    pub(crate) fn xids_per_second(&self) -> f64 {
        (self.usage.xids - self.transactions) / self.usage.seconds
    }

    pub(crate) fn row(&self) -> Run {
        let usage = &self.usage;
        let cells = vec![
            Cell::new("msg/s", self.messages / usage.seconds, 0),
            Cell::new("p50 ms", self.p50_ms, 2),
            Cell::new("p99 ms", self.p99_ms, 2),
            Cell::new("max ms", self.max_ms, 1),
            Cell::new("relay %", usage.percent(usage.child_cpu_s), 1),
            Cell::new("PG %", usage.percent(usage.postgres_cpu_s), 1),
            Cell::new("WAL B/msg", self.wal_per_message(), 0),
            Cell::new("own xids/s", self.xids_per_second(), 0),
            Cell::new("others' tx", usage.other_transactions, 0),
            Cell::new("backlog median", self.backlog_median, 0),
            Cell::new("backlog max", self.backlog_max, 0),
            Cell::count("lost", self.check.lost),
            Cell::count("repeated", self.check.repeated),
            Cell::count("misordered", self.check.misordered),
            Cell::count("foreign", self.check.foreign),
        ];
        Run { label: self.label.clone(), cells }
    }
}

/// `bench steady`.
pub(crate) async fn run(rig: &Rig, args: &SteadyArgs) -> Result<Report> {
    let (mut runs, mut with_relay, mut beyond_insert) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("steady {round} of {}", args.rounds);
        let (alone, relay) = once(rig, &args.load).await?;
        beyond_insert.push(relay.wal_per_message() - alone.wal_per_message());
        runs.extend([alone.row(), relay.row()]);
        with_relay.push(relay);
    }
    let of = |value: &dyn Fn(&Stretch) -> f64| median(with_relay.iter().map(value));
    let figures = vec![
        Figure::new("latency p50", "ms", of(&|run| run.p50_ms), Goal::AtMost(3.0)),
        Figure::new("latency p99", "ms", of(&|run| run.p99_ms), Goal::AtMost(10.0)),
        Figure::new("WAL beyond the insert", "B/message", median(beyond_insert), Goal::AtMost(250.0)),
        Figure::new("transaction ids burnt", "/s", of(&|run| run.xids_per_second()), Goal::AtMost(500.0)),
    ];
    Ok(Report {
        scenario: "steady",
        machine: rig.machine.clone(),
        settings: json!({ "load": args.load, "rounds": args.rounds }),
        faithful: with_relay.iter().all(|run| run.check.holds(true)),
        runs,
        figures,
    })
}

/// The same load without and with a relay, in a database of its own.
async fn once(rig: &Rig, load: &Load) -> Result<(Stretch, Stretch)> {
    let relay = Contestant::Relay(RelaySetup { cloudevents: true, long_lease: false });
    let bed = rig.bed(load.partitions).await?;
    relay.install(rig, &bed.database).await?;
    let mut session = bed.database.connect().await?;
    settle(&mut session).await?;
    let mut alone = stretch(rig, &bed, load, ALONE, None, &mut session).await?;
    alone.label = "inserts alone".to_owned();
    let child = relay.start(rig, &bed.database).await?;
    // nobody read along: what counts as missing is the backlog that the relay begins with
    let behind = std::mem::take(&mut alone.check).lost;
    (alone.backlog_median, alone.backlog_max) = (0.0, 0.0);
    bed.topic.filled(behind, ARRIVE_WITHIN, SAMPLE).await?;
    settle(&mut session).await?;
    let measured = stretch(rig, &bed, load, MEASURED, Some(child.pid()), &mut session).await?;
    child.end().await?;
    drop(session);
    rig.clear(bed).await?;
    Ok((alone, measured))
}

/// Warm-up and measurement of one load. Without a process to measure nothing is read from the topic,
/// and everything counts as lost.
pub(crate) async fn stretch(
    rig: &Rig,
    bed: &Bed,
    load: &Load,
    run: u32,
    child: Option<u32>,
    session: &mut PgConnection,
) -> Result<Stretch> {
    let board = load.board(run);
    let tail = match child {
        Some(_) => Some(Tail::follow(bed.topic.reader(&bed.topic.ends()?)?, Arc::clone(&board), load.keys())),
        None => None,
    };
    let warm_ns = clock::now_ns() + load.warm_up_seconds * 1_000_000_000;
    let end_ns = warm_ns + load.seconds * 1_000_000_000;
    let writers = Writers::start(&bed.database, &bed.topic.name, run, &load.pace(), &board, end_ns).await?;
    clock::pause(Duration::from_nanos(warm_ns.saturating_sub(clock::now_ns()))).await;
    let meter = Meter { rig, child, writers: writers.backends.clone() };
    let (before, messages, transactions) = (meter.read(session).await?, board.committed(), board.transactions());
    let backlogs = sample(&board, end_ns).await;
    let usage = meter.read(session).await?.since(&before);
    let (messages, transactions) = (board.committed() - messages, board.transactions() - transactions);
    writers.ended().await?;
    if let Some(tail) = tail {
        let arrived = async || Ok((board.backlog() == 0).then_some(()));
        // what has not arrived by then is counted as lost
        let _ = clock::until("the last messages", ARRIVE_WITHIN, SAMPLE, arrived).await;
        tail.end()?;
    }
    let latencies = board.latencies(warm_ns, end_ns)?;
    let ms = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Stretch {
        label: "with the relay".to_owned(),
        usage,
        messages: messages as f64,
        transactions: transactions as f64,
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        max_ms: latencies.max() as f64 / 1e3,
        backlog_median: median(backlogs.iter().copied()),
        backlog_max: backlogs.iter().copied().fold(0.0, f64::max),
        check: board.check(),
    })
}

/// The backlog from now to `end_ns`, some times a second.
async fn sample(board: &Board, end_ns: u64) -> Vec<f64> {
    let mut backlogs = Vec::new();
    while clock::now_ns() + (SAMPLE.as_nanos() as u64) < end_ns {
        clock::pause(SAMPLE).await;
        backlogs.push(board.backlog() as f64);
    }
    clock::pause(Duration::from_nanos(end_ns.saturating_sub(clock::now_ns()))).await;
    backlogs
}
