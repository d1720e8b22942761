//! Idle: what a relay at rest costs, and the server with it.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;

use crate::clock;
use crate::contestant::{Contestant, RelaySetup};
use crate::database::settle;
use crate::error::Result;
use crate::host;
use crate::meter::{Meter, Usage};
use crate::payload::Feed;
use crate::report::{Cell, Figure, Goal, Report, Run};
use crate::rig::Rig;

const WARM_UP: u64 = 50_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of `bench idle`.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct IdleArgs {
    /// Seconds that are measured, once without a relay and once with one.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds of rest before.
    #[arg(long, default_value_t = 10)]
    settle_seconds: u64,
}

/// `bench idle`.
pub(crate) async fn run(rig: &Rig, args: &IdleArgs) -> Result<Report> {
    let relay = Contestant::Relay(RelaySetup { cloudevents: true, long_lease: false });
    let bed = rig.bed(8).await?;
    relay.install(rig, &bed.database).await?;
    let mut session = bed.database.connect().await?;
    eprintln!("idle: the server alone");
    let alone = rest(rig, args, None, &mut session).await?;
    let child = relay.start(rig, &bed.database).await?;
    let mut feed = Feed::new(0, 0, 1_000, 300);
    relay.outbox().fill(&mut session, &bed.topic.name, &mut feed, WARM_UP).await?;
    bed.topic.filled(WARM_UP, PATIENCE, Duration::from_millis(100)).await?;
    eprintln!("idle: with the relay");
    let with_relay = rest(rig, args, Some(child.pid()), &mut session).await?;
    let peak_rss_mib = host::peak_rss_bytes(child.pid()) as f64 / f64::from(1 << 20);
    child.end().await?;
    drop(session);
    rig.clear(bed).await?;
    let relay_percent = with_relay.percent(with_relay.child_cpu_s);
    let postgres_percent = with_relay.percent(with_relay.postgres_cpu_s);
    let wal = (with_relay.wal_bytes - alone.wal_bytes).max(0.0) / with_relay.seconds;
    Ok(Report {
        scenario: "idle",
        machine: rig.machine.clone(),
        settings: json!({ "options": args }),
        runs: vec![row("the server alone", &alone, 0.0), row("with the relay", &with_relay, peak_rss_mib)],
        figures: vec![
            Figure::new("relay at rest", "% of a core", relay_percent, Goal::AtMost(0.8)),
            Figure::new("PostgreSQL at rest", "% of a core", postgres_percent, Goal::AtMost(0.5)),
            Figure::new("WAL at rest, beyond the server's own", "B/s", wal, Goal::AtMost(0.0)),
        ],
        faithful: true,
    })
}

async fn rest(rig: &Rig, args: &IdleArgs, child: Option<u32>, session: &mut PgConnection) -> Result<Usage> {
    settle(session).await?;
    clock::pause(Duration::from_secs(args.settle_seconds)).await;
    let meter = Meter { rig, child, writers: Vec::new() };
    let before = meter.read(session).await?;
    clock::pause(Duration::from_secs(args.seconds)).await;
    Ok(meter.read(session).await?.since(&before))
}

fn row(label: &str, usage: &Usage, peak_rss_mib: f64) -> Run {
    let cells = vec![
        Cell::new("relay %", usage.percent(usage.child_cpu_s), 2),
        Cell::new("PG %", usage.percent(usage.postgres_cpu_s), 2),
        Cell::new("broker %", usage.percent(usage.broker_cpu_s), 2),
        Cell::new("WAL B", usage.wal_bytes, 0),
        Cell::new("xids", usage.xids, 0),
        Cell::new("others' tx", usage.other_transactions, 0),
        Cell::new("peak MiB", peak_rss_mib, 1),
    ];
    Run { label: label.to_owned(), cells }
}
