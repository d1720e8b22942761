//! How fast this machine produces the same records without a database: the measure by which machines
//! are compared, and the ceiling of every relay on this one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, util::Timeout};
use serde::Serialize;
use serde_json::json;

use crate::clock;
use crate::error::{Error, Result};
use crate::payload::{Feed, key_text};
use crate::report::{Cell, Report, Run};
use crate::rig::Rig;
use crate::topic::Topic;
use crate::verify::{Tally, read_back};

const RUN: u32 = 1;
const FLUSH_WITHIN: Duration = Duration::from_secs(60);

/// Options of `bench raw`.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct RawArgs {
    /// Records to produce, all of them held in memory.
    #[arg(long, default_value_t = 500_000)]
    messages: u64,
    /// Keys that they spread over.
    #[arg(long, default_value_t = 10_000)]
    keys: u32,
    /// Bytes of a payload, at least 80.
    #[arg(long, default_value_t = 300)]
    payload_bytes: usize,
    /// Partitions of the topic.
    #[arg(long, default_value_t = 8)]
    partitions: i32,
    /// How often.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

/// Counts acknowledgements.
#[derive(Default)]
struct Outcomes {
    acknowledged: AtomicU64,
    failed: AtomicU64,
}

impl ClientContext for Outcomes {}

impl ProducerContext for Outcomes {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.acknowledged } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// `bench raw`.
pub(crate) async fn run(rig: &Rig, args: &RawArgs) -> Result<Report> {
    let mut runs = Vec::new();
    let mut faithful = true;
    for _ in 0..args.rounds {
        let (rate, lost) = once(rig, args.messages, args.keys, args.payload_bytes, args.partitions).await?;
        faithful &= lost == 0;
        let cells = vec![Cell::new("msg/s", rate, 0), Cell::count("lost", lost)];
        runs.push(Run { label: "plain producer".to_owned(), cells });
    }
    let settings = json!({ "shape": args });
    Ok(Report { scenario: "raw", machine: rig.machine.clone(), settings, runs, figures: Vec::new(), faithful })
}

/// Records a second from the first send to the last acknowledgement, one thread; and how many are missing.
/// All records are made before the clock starts, and held in memory.
pub(crate) async fn once(
    rig: &Rig,
    messages: u64,
    keys: u32,
    payload_bytes: usize,
    partitions: i32,
) -> Result<(f64, u64)> {
    let bed = rig.bed(partitions).await?;
    let mut feed = Feed::new(RUN, 0, keys, payload_bytes);
    let records: Vec<_> = (0..messages).map(|_| feed.next()).map(|(s, p)| (key_text(s.key), p)).collect();
    let producer: BaseProducer<Outcomes> = producer(&rig.brokers)?;
    let start_ns = clock::now_ns();
    for (key, payload) in &records {
        send(&producer, &bed.topic, key, payload)?;
    }
    producer.flush(Timeout::After(FLUSH_WITHIN))?;
    let seconds = (clock::now_ns() - start_ns) as f64 / 1e9;
    if producer.context().failed.load(Ordering::Relaxed) > 0 {
        return Err(Error::other("the broker refused records of the plain producer"));
    }
    let mut tally = Tally::new(RUN, messages, keys);
    read_back(&bed.topic, &mut tally)?;
    rig.clear(bed).await?;
    Ok((messages as f64 / seconds, tally.check().lost))
}

/// The client settings that both contestants use.
fn producer(brokers: &str) -> Result<BaseProducer<Outcomes>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("acks", "all").set("enable.idempotence", "true");
    config.set("linger.ms", "2").set("compression.type", "lz4").set("queue.buffering.max.messages", "200000");
    Ok(config.create_with_context(Outcomes::default())?)
}

fn send(producer: &BaseProducer<Outcomes>, topic: &Topic, key: &str, payload: &[u8]) -> Result<()> {
    let mut record = BaseRecord::to(&topic.name).key(key).payload(payload);
    loop {
        match producer.send(record) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                producer.poll(Timeout::After(Duration::from_millis(1)));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
    producer.poll(Timeout::After(Duration::ZERO));
    Ok(())
}
