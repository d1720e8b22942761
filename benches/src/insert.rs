//! Insert: what a message costs its producer, through the producer library. No relay runs.

use clap::Args;
use fencepost_producer::{Message, Outbox};
use serde::Serialize;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::clock;
use crate::contestant::{Contestant, RelaySetup};
use crate::database::{backend_pid, counters, settle};
use crate::error::{Error, Result};
use crate::host;
use crate::payload::{Feed, key_text};
use crate::report::{Cell, Figure, Goal, Report, Run, median};
use crate::rig::{Bed, Rig};

/// Options of `bench insert`.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct InsertArgs {
    /// Messages of one round.
    #[arg(long, default_value_t = 200_000)]
    messages: u64,
    /// Messages of one transaction, in one `enqueue_many`.
    #[arg(long, default_value_t = 100)]
    rows_per_transaction: u64,
    /// Bytes of a payload, at least 80.
    #[arg(long, default_value_t = 300)]
    payload_bytes: usize,
    /// How often; the figures are medians.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// Costs of one message.
struct Cost {
    rate: f64,
    server_us: f64,
    client_us: f64,
    wal_bytes: f64,
}

/// `bench insert`.
pub(crate) async fn run(rig: &Rig, args: &InsertArgs) -> Result<Report> {
    let relay = Contestant::Relay(RelaySetup { cloudevents: true, long_lease: false });
    let bed = rig.bed(1).await?;
    relay.install(rig, &bed.database).await?;
    let mut session = bed.database.connect().await?;
    one_round(args, &bed, &mut session, 0).await?;
    let mut costs = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("insert {round} of {}", args.rounds);
        settle(&mut session).await?;
        costs.push(one_round(args, &bed, &mut session, round).await?);
    }
    drop(session);
    rig.clear(bed).await?;
    let server_us = median(costs.iter().map(|cost| cost.server_us));
    Ok(Report {
        scenario: "insert",
        machine: rig.machine.clone(),
        settings: json!({ "options": args }),
        runs: costs.iter().map(row).collect(),
        figures: vec![Figure::new("PostgreSQL CPU of an insert", "us/message", server_us, Goal::AtMost(9.0))],
        faithful: true,
    })
}

async fn one_round(args: &InsertArgs, bed: &Bed, session: &mut PgConnection, round: u32) -> Result<Cost> {
    let outbox = Outbox::default();
    let mut feed = Feed::new(round, 0, 10_000, args.payload_bytes);
    let backend = backend_pid(session).await?;
    let me = std::process::id();
    let wal = counters(session).await?.wal_bytes;
    let (mut left, mut making) = (args.messages, 0);
    let (start_ns, server, client) = (clock::now_ns(), host::session_cpu(backend), host::cpu(me));
    while left > 0 {
        let made = clock::now_ns();
        let rows = left.min(args.rows_per_transaction);
        let messages = (0..rows).map(|_| message(bed, &mut feed)).collect::<Result<Vec<_>>>()?;
        making += clock::now_ns() - made;
        let mut tx = session.begin().await?;
        outbox.enqueue_many(&mut tx, &messages).await.map_err(|error| Error::other(error.to_string()))?;
        tx.commit().await?;
        left -= rows;
    }
    let seconds = (clock::now_ns() - start_ns - making) as f64 / 1e9;
    let per_message = |ns: u64| ns as f64 / 1e3 / args.messages as f64;
    Ok(Cost {
        rate: args.messages as f64 / seconds,
        server_us: per_message(host::session_cpu(backend) - server),
        client_us: per_message((host::cpu(me) - client).saturating_sub(making)),
        wal_bytes: (counters(session).await?.wal_bytes - wal) as f64 / args.messages as f64,
    })
}

fn message(bed: &Bed, feed: &mut Feed) -> Result<Message> {
    let (stamp, payload) = feed.next();
    let message = Message::builder(bed.topic.name.as_str(), "bench.inserted", payload).key(key_text(stamp.key));
    message.build().map_err(|error| Error::other(error.to_string()))
}

fn row(cost: &Cost) -> Run {
    let cells = vec![
        Cell::new("msg/s", cost.rate, 0),
        Cell::new("PG us/msg", cost.server_us, 2),
        Cell::new("client us/msg", cost.client_us, 2),
        Cell::new("WAL B/msg", cost.wal_bytes, 0),
    ];
    Run { label: "enqueue_many".to_owned(), cells }
}
