//! What publishing alone costs: CPU per record of the Kafka publisher, without a database.
//!
//! `cargo run --release -p fencepost-relay --example publish_cost -- BOOTSTRAP TOPIC RECORDS own|all [IDLE_SECONDS]`
//!
//! The topic must exist. `own` writes the relay's three headers, `all` the CloudEvents ones too. With
//! `IDLE_SECONDS` the publisher rests that long afterwards and tells the CPU share of the rest.

use std::time::Duration;

use fencepost_relay::message::MessageRef;
use fencepost_relay::publisher::kafka::{KafkaPublisher, KafkaSettings};
use fencepost_relay::publisher::{Event, Publisher, Refused};
use tokio::sync::mpsc::UnboundedReceiver;
use uuid::Uuid;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const FENCE: &str = "01900000-0000-7000-8000-000000000001/3/4294967297";
const KEYS: u64 = 10_000;

#[allow(clippy::disallowed_methods, reason = "a measuring tool reads its arguments and the clock itself")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, topic, records, headers, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: publish_cost BOOTSTRAP TOPIC RECORDS own|all [IDLE_SECONDS]");
        std::process::exit(2);
    };
    let records: u64 = records.parse().expect("a number of records");
    let idle: u64 = rest.first().map_or(0, |seconds| seconds.parse().expect("a number of seconds"));
    let mut settings = KafkaSettings::new(bootstrap, "bench");
    settings.cloud_events = headers == "all";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (publisher, mut events) = KafkaPublisher::start(&settings).expect("usable settings");
        publisher.check_route(topic).await.expect("the topic exists");
        drain(&publisher, &mut events, topic, 20_000).await;
        let (start, cpu) = (std::time::Instant::now(), cpu_ms());
        drain(&publisher, &mut events, topic, records).await;
        report(records, start.elapsed(), cpu_ms() - cpu);
        if idle > 0 {
            let cpu = cpu_ms();
            tokio::time::sleep(Duration::from_secs(idle)).await;
            println!("idle: {:.2} % of a core", (cpu_ms() - cpu) / 10.0 / idle as f64);
        }
        assert!(publisher.close(Duration::from_secs(5)).await, "the producer ends in time");
    });
}

fn report(records: u64, took: Duration, cpu_ms: f64) {
    let per_record = cpu_ms * 1000.0 / records as f64;
    println!("{:.0} records/s, {per_record:.2} us of CPU a record", records as f64 / took.as_secs_f64());
    for entry in std::fs::read_dir("/proc/self/task").expect("procfs").flatten() {
        let (name, ms) = thread_cpu(&entry.path().join("stat").to_string_lossy());
        if ms > 0.0 {
            println!("  {name}: {ms:.0} ms so far");
        }
    }
}

/// Sends `records` records through all page slots, and waits for every outcome.
async fn drain(publisher: &KafkaPublisher, events: &mut UnboundedReceiver<Event>, topic: &str, records: u64) {
    let mut free: Vec<usize> = (0..publisher.slots()).collect();
    let mut sent = 0;
    while sent < records {
        let slot = match free.pop() {
            Some(slot) => slot,
            None => settled(publisher, events).await,
        };
        let rows = (records - sent).min(2_000);
        publisher.open(slot);
        for row in 0..rows {
            send(publisher, slot, row, topic, sent + row).await;
        }
        publisher.seal(slot, rows as u32);
        sent += rows;
        tokio::task::yield_now().await;
    }
    while free.len() < publisher.slots() {
        let slot = settled(publisher, events).await;
        free.push(slot);
    }
}

async fn settled(publisher: &KafkaPublisher, events: &mut UnboundedReceiver<Event>) -> usize {
    loop {
        match events.recv().await.expect("the publisher lives") {
            Event::Settled(slot) => {
                assert_eq!(publisher.failures(slot), None);
                return slot;
            }
            other => eprintln!("{other:?}"),
        }
    }
}

async fn send(publisher: &KafkaPublisher, slot: usize, row: u64, topic: &str, number: u64) {
    let key = (number % KEYS).to_be_bytes();
    let message = MessageRef {
        id: number as i64,
        slot: 0,
        message_id: Uuid::from_u128(u128::from(number) | 0x0190_0000_0000_7000_8000_0000_0000_0000),
        tenant: "default",
        topic,
        key: Some(&key),
        partition: None,
        kind: "order.placed",
        content_type: Some("application/json"),
        headers: &[],
        payload: Some(&PAYLOAD),
        event_time_us: None,
        created_at_us: 1_700_000_000_000_000 + number as i64,
    };
    while let Err(refused) = publisher.send(slot, row as u32, FENCE, &message) {
        assert_eq!(refused, Refused::Full);
        publisher.room().await;
    }
}

/// 300 bytes that compress about as well as JSON does.
static PAYLOAD: [u8; 300] = payload();

const fn payload() -> [u8; 300] {
    let mut bytes = [b'x'; 300];
    let mut state = 12_345_u32;
    let mut at = 0;
    while at < bytes.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes[at] = b'a' + (state >> 24) as u8 % 16;
        at += 1;
    }
    bytes
}

fn cpu_ms() -> f64 {
    thread_cpu("/proc/self/stat").1
}

/// Name and CPU time (10 ms ticks) of a thread or a process, by its line in procfs.
fn thread_cpu(path: &str) -> (String, f64) {
    let line = std::fs::read_to_string(path).expect("procfs");
    let (name, rest) = line.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number of ticks");
    (name.split_once('(').map_or("", |(_, name)| name).to_owned(), (ticks(11) + ticks(12)) * 10.0)
}
