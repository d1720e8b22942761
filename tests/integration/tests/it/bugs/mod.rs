//! Failures that users of comparable software met, each as an input to a real relay between real servers:
//! a test per row of that catalogue, with the row's number in its name. Rows that one part shows alone are
//! tests of that part. Durations and counts are scaled by `FENCEPOST_TEST_SCALE`; `make bugs-long` runs them
//! at their full length.

mod backlog;
mod client;
mod connections;
mod fidelity;
mod leases;
mod log;
mod outages;
mod pooler;
mod topics;

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

use fencepost_integration::database::execute;
use fencepost_integration::env;
use fencepost_integration::evidence::message_id;
use fencepost_integration::kafka::{Record, TestTopic};
use sqlx::PgConnection;

/// For everything that a busy machine may take long for.
const DEADLINE: Duration = Duration::from_secs(60);

/// A duration of the catalogue, as long as this run has time for.
fn scaled(seconds: u64) -> Duration {
    Duration::from_secs(seconds).mul_f64(env::scale())
}

/// A count of the catalogue, as large as this run has time for; at least `least`.
fn scaled_count(count: i64, least: i64) -> i64 {
    ((count as f64 * env::scale()) as i64).max(least)
}

/// Writes messages in one statement: the payload is the number, the key what `key` (SQL over the number `i`) says.
async fn enqueue(connection: &mut PgConnection, topic: &str, key: &str, numbers: RangeInclusive<i64>) {
    let sql = format!(
        r#"INSERT INTO "fencepost".outbox (topic, type, key, payload)
           SELECT '{topic}', 'test.numbered', convert_to(({key})::text, 'UTF8'), convert_to(i::text, 'UTF8')
             FROM generate_series({}::bigint, {}::bigint) i ORDER BY i.i"#,
        numbers.start(),
        numbers.end()
    );
    execute(connection, sql).await;
}

/// A key whose messages belong to that one of the eight lanes.
async fn key_in_lane(connection: &mut PgConnection, lane: i32) -> String {
    let sql = "SELECT 'key-' || i FROM generate_series(1, 10000) i \
                WHERE (hashtext(encode(convert_to('key-' || i, 'UTF8'), 'hex') COLLATE \"C\") & 255) / 32 = $1 LIMIT 1";
    sqlx::query_scalar(sql).bind(lane).fetch_one(connection).await.expect("a key for each lane")
}

/// Messages that the batch log says were delivered.
async fn delivered(connection: &mut PgConnection) -> i64 {
    let sql = r#"SELECT coalesce(sum(messages), 0)::bigint FROM "fencepost".batches"#;
    sqlx::query_scalar(sql).fetch_one(connection).await.expect("the batch log can be read")
}

/// Numbered messages that came to a topic.
struct Came {
    records: Vec<Record>,
}

impl Came {
    /// Reads until all these numbers came, and on to the topic's end.
    ///
    /// # Panics
    /// When they don't within `deadline`: says how many are missing.
    async fn all(topic: &TestTopic, numbers: RangeInclusive<i64>, deadline: Duration) -> Self {
        let (mut missing, mut looked): (BTreeSet<i64>, usize) = (numbers.clone().collect(), 0);
        let mut reader = topic.reader();
        let what = format!("numbers {numbers:?} in {}", topic.name());
        reader
            .read_until(deadline, &what, |records| {
                records[looked..].iter().for_each(|record| {
                    missing.remove(&number(record));
                });
                looked = records.len();
                missing.is_empty()
            })
            .await;
        reader.read_to_end(deadline).await;
        Came { records: reader.into_records() }
    }

    /// What the topic holds now.
    async fn now(topic: &TestTopic) -> Self {
        Came { records: topic.read_to_end(DEADLINE).await }
    }

    fn numbers(&self) -> Vec<i64> {
        self.records.iter().map(number).collect()
    }

    /// Each record is the only one of its message.
    fn assert_once(self) -> Self {
        let mut seen = HashMap::new();
        self.records.iter().for_each(|record| *seen.entry(number(record)).or_insert(0) += 1);
        let repeated: Vec<_> = seen.into_iter().filter(|(_, times)| *times > 1).collect();
        assert!(repeated.is_empty(), "{} numbers came more than once: {:?}", repeated.len(), repeated.first());
        self
    }

    /// The first records of a key's messages are in the order of their numbers, and a record that repeats a
    /// message has its id.
    fn assert_in_order(self) -> Self {
        let (mut last, mut ids) = (HashMap::new(), HashMap::new());
        for record in &self.records {
            let (number, id) = (number(record), message_id(record));
            match ids.insert(number, id) {
                Some(first) => assert_eq!(first, id, "number {number} came under two ids"),
                None => {
                    let before = last.insert(&record.key, number).unwrap_or(i64::MIN);
                    assert!(before < number, "number {number} came behind {before}, key {:?}", record.key);
                }
            }
        }
        self
    }
}

/// The number that a record carries.
fn number(record: &Record) -> i64 {
    let payload = record.payload.as_deref().expect("a payload");
    std::str::from_utf8(payload).expect("digits").parse().expect("a number")
}
