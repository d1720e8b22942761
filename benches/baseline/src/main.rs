//! What a competent team writes for itself: rows claimed with FOR UPDATE SKIP LOCKED, produced, every
//! acknowledgement awaited, then deleted and committed. The relay's figures are compared with it.
//!
//! One worker keeps the order of a key, several don't. It has no fence, no failure classes and no
//! retry: an error ends it, and the open transaction gives the rows back. Its tuning (plan settings,
//! pipelined BEGIN and COMMIT, prepared statements, batch and linger) is part of the comparison:
//! change it only with a measurement that makes it faster.

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use futures_util::future::join;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

type Failure = Box<dyn Error + Send + Sync>;

/// The SKIP LOCKED relay that figures are compared with.
#[derive(Clone, Parser)]
#[command(name = "fencepost-baseline")]
struct Args {
    /// PostgreSQL that holds the table skip_outbox.
    #[arg(long, env = "PGURL", hide_env_values = true)]
    postgres: String,
    /// Kafka bootstrap servers.
    #[arg(long, env = "BROKERS")]
    brokers: String,
    /// Workers, each with a connection; more than one gives up the order per key.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Rows of one claim.
    #[arg(long, default_value_t = 500)]
    batch: u32,
    /// Pause after an empty claim, milliseconds.
    #[arg(long, default_value_t = 10)]
    idle_ms: u64,
    /// librdkafka's linger.ms.
    #[arg(long, default_value = "2")]
    linger_ms: String,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &args.brokers)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", &args.linger_ms)
        .set("batch.size", "524288")
        .set("compression.type", "lz4")
        .set("queue.buffering.max.messages", "200000")
        .create()?;
    let mut workers = JoinSet::new();
    for _ in 0..args.workers {
        workers.spawn(work(args.clone(), producer.clone()));
    }
    match workers.join_next().await {
        Some(ended) => ended?,
        None => Err("give --workers 1 or more".into()),
    }
}

/// Claims, produces and deletes until an error ends it.
async fn work(args: Args, producer: FutureProducer) -> Result<(), Failure> {
    let (db, connection) = tokio_postgres::connect(&args.postgres, NoTls).await?;
    tokio::spawn(connection);
    // A queue's statistics are always wrong; never let the planner leave the index.
    db.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off")
        .await?;
    let statements = Statements::prepare(&db, args.batch).await?;
    loop {
        let rows = statements.claim(&db).await?;
        if rows.is_empty() {
            db.execute(&statements.commit, &[]).await?;
            pause(args.idle_ms).await;
            continue;
        }
        let mut acknowledgements = Vec::with_capacity(rows.len());
        for row in &rows {
            acknowledgements.push(send(&producer, row).await?);
        }
        for acknowledgement in acknowledgements {
            acknowledgement.await?.map_err(|(error, _)| error)?;
        }
        statements.retire(&db, &rows).await?;
    }
}

struct Statements {
    begin: Statement,
    claim: Statement,
    delete: Statement,
    commit: Statement,
}

impl Statements {
    async fn prepare(db: &Client, batch: u32) -> Result<Self, Failure> {
        let claim =
            format!("SELECT id, topic, key, payload FROM skip_outbox ORDER BY id LIMIT {batch} FOR UPDATE SKIP LOCKED");
        Ok(Statements {
            begin: db.prepare("BEGIN").await?,
            claim: db.prepare(&claim).await?,
            delete: db.prepare("DELETE FROM skip_outbox WHERE id = ANY($1)").await?,
            commit: db.prepare("COMMIT").await?,
        })
    }

    /// BEGIN and the claim travel together: `join` polls its first future first, so they are sent in order.
    async fn claim(&self, db: &Client) -> Result<Vec<Row>, Failure> {
        let (begun, rows) = join(db.execute(&self.begin, &[]), db.query(&self.claim, &[])).await;
        begun?;
        Ok(rows?)
    }

    /// The delete and COMMIT travel together.
    async fn retire(&self, db: &Client, rows: &[Row]) -> Result<(), Failure> {
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        let params: [&(dyn ToSql + Sync); 1] = [&ids];
        let (deleted, committed) = join(db.execute(&self.delete, &params), db.execute(&self.commit, &[])).await;
        if deleted? != ids.len() as u64 {
            return Err("a claimed row was gone before its delete".into());
        }
        committed?;
        Ok(())
    }
}

/// Hands one row to the client; waits while its queue is full.
async fn send(producer: &FutureProducer, row: &Row) -> Result<DeliveryFuture, Failure> {
    let (topic, key, payload): (&str, &str, &[u8]) = (row.get(1), row.get(2), row.get(3));
    let mut record = FutureRecord::to(topic).key(key).payload(payload);
    loop {
        match producer.send_result(record) {
            Ok(acknowledgement) => return Ok(acknowledgement),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                pause(1).await;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a poller with a fixed pause is what is being compared with")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
