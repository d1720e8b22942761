//! Traffic that goes on for as long as a test needs it, and the judgement of what reached the topic: the
//! auditor's verdict, and what the records' fences and the batch log say about repeats.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost_auditor::{Entry, Fate, Journal, MessageId, Place, Verdict};
use fencepost_core::header;
use fencepost_producer::{EnqueueError, Message, Outbox};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::fleet::Site;
use crate::kafka::{Reader, Record};
use crate::workload::Workload;
use crate::{random, wait};

/// One leg of the traffic: how soon it ends after it was asked to.
const LEG: Duration = Duration::from_millis(500);
/// Messages of a burst, and the pause between two: about a thousand messages a second.
const BURST: (usize, Duration) = (50, Duration::from_millis(50));

/// Writers that go on until they are told to end.
pub struct Traffic {
    ended: Arc<AtomicBool>,
    tasks: [JoinHandle<Journal>; 2],
}

impl Traffic {
    /// Starts three writers with 20 keys on the site's database, and one that writes bursts of its own keys.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn start(site: &Site) -> Self {
        Self::with(site, 3, Duration::from_millis(300)).await
    }

    /// Starts so many writers, whose rare long transactions last `long_hold`.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn with(site: &Site, writers: usize, long_hold: Duration) -> Self {
        let workload = Workload::new(site.database.url(), site.topic.name(), random::seed());
        let workload = Workload { writers, keys: 20, duration: LEG, long_hold, ..workload };
        workload.prepare(&mut site.connect().await).await;
        let ended = Arc::new(AtomicBool::new(false));
        let burst = burst(workload.url.clone(), workload.topic.clone(), ended.clone());
        Traffic { tasks: [tokio::spawn(legs(workload, ended.clone())), tokio::spawn(burst)], ended }
    }

    /// Ends it and returns what was written.
    ///
    /// # Panics
    /// When a writer did.
    pub async fn end(self) -> Journal {
        self.ended.store(true, Ordering::Relaxed);
        let mut journal = Journal::default();
        for task in self.tasks {
            journal.entries.extend(task.await.expect("the traffic's writers did not panic").entries);
        }
        journal
    }
}

async fn legs(mut workload: Workload, ended: Arc<AtomicBool>) -> Journal {
    let mut journal = Journal::default();
    while !ended.load(Ordering::Relaxed) {
        journal.entries.extend(workload.run().await.entries);
        workload.seed = workload.seed.wrapping_add(1000);
    }
    journal
}

/// Many messages in each transaction, so that there are full pages in flight at any time.
async fn burst(url: String, topic: String, ended: Arc<AtomicBool>) -> Journal {
    let (mut journal, mut seq) = (Journal::default(), 0);
    while !ended.load(Ordering::Relaxed) {
        let Ok(mut connection) = PgConnection::connect(&url).await else {
            wait::pause().await;
            continue;
        };
        while !ended.load(Ordering::Relaxed) {
            let (mut entries, mut messages) = (Vec::new(), Vec::new());
            for _ in 0..BURST.0 {
                seq += 1;
                let (id, key) = (Uuid::from_u128(random::bits()), format!("burst-{}", seq % 16));
                let message = Message::builder(&topic, "burst", "{}").message_id(id).key(key.as_str());
                messages.push(message.build().expect("a valid message"));
                entries.push(Entry { id: MessageId(id.as_u128()), fate: Fate::Committed, key: Some(key), seq });
            }
            let fate = enqueue(&mut connection, &messages).await;
            entries.iter_mut().for_each(|entry| entry.fate = fate);
            journal.entries.append(&mut entries);
            if fate != Fate::Committed {
                break;
            }
            wait::hold(BURST.1).await;
        }
    }
    journal
}

async fn enqueue(connection: &mut PgConnection, messages: &[Message]) -> Fate {
    let Ok(mut tx) = connection.begin().await else { return Fate::RolledBack };
    match Outbox::default().enqueue_many(&mut tx, messages).await {
        Ok(_) => tx.commit().await.map_or(Fate::InDoubt, |()| Fate::Committed),
        Err(EnqueueError::Database(_)) => Fate::RolledBack,
        Err(error) => panic!("the outbox refused valid messages: {error}"),
    }
}

/// A record's fence: which lane under which generation sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    /// Lane.
    pub lane: i16,
    /// Generation of its lease.
    pub generation: i64,
}

/// The message that a record carries.
///
/// # Panics
/// When it has no legible message id.
pub fn message_id(record: &Record) -> MessageId {
    record.header(header::MESSAGE_ID).and_then(|id| id.parse().ok()).expect("a record has a message id")
}

/// A record's fence.
///
/// # Panics
/// When it has none that can be read.
pub fn fence(record: &Record) -> Fence {
    let text = record.header(header::FENCE).expect("a record has a fence");
    let mut parts = text.rsplit('/');
    let mut next = || parts.next().and_then(|part| part.parse::<i64>().ok()).expect("numbers in the fence");
    let generation = next();
    Fence { generation, lane: i16::try_from(next()).expect("a lane's number") }
}

/// What a topic holds, next to what was written.
pub struct Delivered {
    /// What the writers did.
    pub journal: Journal,
    reader: Reader,
}

impl Delivered {
    /// Reads until every committed message came, and then to the topic's end.
    ///
    /// # Panics
    /// When they don't come within `deadline`: says how many are missing.
    pub async fn all(site: &Site, journal: Journal, deadline: Duration) -> Self {
        let committed = journal.entries.iter().filter(|entry| entry.fate == Fate::Committed);
        let mut missing: HashSet<MessageId> = committed.map(|entry| entry.id).collect();
        let (written, start) = (missing.len(), wait::now());
        let mut reader = site.topic.reader();
        let mut looked = 0;
        let what = format!("{written} committed messages in the topic");
        reader
            .read_until(deadline, &what, |records| {
                for record in &records[looked..] {
                    missing.remove(&message_id(record));
                }
                looked = records.len();
                let late = start.elapsed() + Duration::from_secs(1) > deadline && !missing.is_empty();
                assert!(
                    !late,
                    "{} of {written} committed messages never came: {:?}",
                    missing.len(),
                    missing.iter().next()
                );
                missing.is_empty()
            })
            .await;
        reader.read_to_end(deadline).await;
        Delivered { journal, reader }
    }

    /// Reads what came since, to the topic's end.
    ///
    /// # Panics
    /// When the end is not reached within `deadline`.
    pub async fn read_on(&mut self, deadline: Duration) {
        self.reader.read_to_end(deadline).await;
    }

    /// All records so far.
    pub fn records(&self) -> &[Record] {
        self.reader.records()
    }

    /// The auditor's verdict.
    ///
    /// # Panics
    /// When the journal contradicts itself.
    pub fn verdict(&self) -> Verdict {
        let mut audit = self.journal.audit().expect("each message stands once in the journal");
        for record in self.records() {
            audit.observed(message_id(record), Place { partition: record.partition, offset: record.offset });
        }
        audit.verdict()
    }

    /// Nothing lost, nothing invented, in order.
    ///
    /// # Panics
    /// Otherwise, with the verdict.
    pub fn assert_holds(&self) -> Verdict {
        let verdict = self.verdict();
        assert!(verdict.committed > 50, "too little traffic to prove anything:\n{verdict}");
        assert!(verdict.holds(), "{verdict}");
        verdict
    }

    /// As [`Self::assert_holds`], and no record is a repeat.
    ///
    /// # Panics
    /// Otherwise, with the verdict.
    pub fn assert_holds_without_repeats(&self) {
        let verdict = self.assert_holds();
        assert!(verdict.holds_exactly_once(), "{verdict}");
    }

    /// Messages that were sent more than once under one fence, so by a relay that had them acknowledged or
    /// knew that they might be.
    pub fn repeated_by_one_relay(&self) -> usize {
        let mut times: HashMap<(MessageId, Fence), u32> = HashMap::new();
        self.records().iter().for_each(|record| *times.entry((message_id(record), fence(record))).or_default() += 1);
        times.values().filter(|times| **times > 1).count()
    }

    /// Repeats come only from what was not on record: no relay sent a message that the fence row of its own
    /// generation covers already.
    ///
    /// # Panics
    /// When one did.
    pub async fn assert_nothing_recorded_was_sent_again(&self, site: &Site) {
        let sent: HashSet<(MessageId, Fence)> =
            self.records().iter().map(|record| (message_id(record), fence(record))).collect();
        let (mut ids, mut lanes, mut generations) = (Vec::new(), Vec::new(), Vec::new());
        for (id, fence) in sent {
            ids.push(Uuid::from_u128(id.0));
            lanes.push(fence.lane);
            generations.push(fence.generation);
        }
        let sql = r#"
            SELECT o.id, s.lane, s.generation, (f.pos_after)::text
              FROM unnest($1::uuid[], $2::smallint[], $3::bigint[]) AS s (message_id, lane, generation)
              JOIN "fencepost".outbox o USING (message_id)
              JOIN "fencepost".batches f ON f.lane = s.lane AND f.generation = s.generation AND f.kind = 'fence'
             WHERE pg_visible_in_snapshot(o.xid, (f.pos_after).lo)
                OR o.id <= (f.pos_after).cursor_id AND pg_visible_in_snapshot(o.xid, (f.pos_after).up)"#;
        let query = sqlx::query_as(sql).bind(ids).bind(lanes).bind(generations);
        let again: Vec<(i64, i16, i64, String)> =
            query.fetch_all(&mut site.connect().await).await.expect("the batch log can be read");
        assert!(again.is_empty(), "{} records repeat what was on record, such as {:?}", again.len(), again[0]);
    }
}
