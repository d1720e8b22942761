//! Producers at their worst, for the auditor: writers that take transaction ids early and insert late,
//! hold their transactions open, roll back, use savepoints, and share keys. Everything that they did
//! ends up in a journal.
//!
//! Each choice comes from the seed; which transactions meet does not, so a seed repeats the pressure
//! and not the schedule. A key's messages get their number under the lock of the key's aggregate, as
//! the guarantee of order asks of producers.

use std::time::Duration;

use fastrand::Rng;
use fencepost_auditor::{Entry, Fate, Journal, MessageId};
use fencepost_producer::{Message, Outbox};
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::database::execute;
use crate::wait;

/// One writer in four doesn't lock anything: its first write is the insert, and its messages have no key.
const LOCKLESS_EVERY: usize = 4;
const RECONNECT_WITHIN: Duration = Duration::from_secs(60);

/// What is written. [`Workload::new`] gives the usual one.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Database that the writers connect to: the superuser's URL, or a producer's that may use `aggregates`.
    pub url: String,
    /// Topic of all messages.
    pub topic: String,
    /// Writers, each with a connection.
    pub writers: usize,
    /// Keys that they share.
    pub keys: i32,
    /// For how long transactions are begun.
    pub duration: Duration,
    /// How long the rare long transaction is held open.
    pub long_hold: Duration,
    /// Where every choice comes from.
    pub seed: u64,
}

type Tx<'a> = Transaction<'a, Postgres>;

impl Workload {
    /// Eight writers and 40 keys for 20 s, some transactions as long as 3 s.
    pub fn new(url: impl Into<String>, topic: impl Into<String>, seed: u64) -> Self {
        Workload {
            url: url.into(),
            topic: topic.into(),
            writers: 8,
            keys: 40,
            duration: Duration::from_secs(20),
            long_hold: Duration::from_secs(3),
            seed,
        }
    }

    /// Makes the table of the aggregates, whose rows the writers lock. Once for each database.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn prepare(&self, connection: &mut PgConnection) {
        execute(connection, "CREATE TABLE aggregates (key integer PRIMARY KEY, seq bigint NOT NULL)").await;
        execute(connection, format!("INSERT INTO aggregates SELECT k, 0 FROM generate_series(1, {}) k", self.keys))
            .await;
    }

    /// Writes, and returns what was written once every transaction has ended. A lost connection is made
    /// again: what it had not committed counts as rolled back, or as in doubt if the commit was asked for.
    ///
    /// # Panics
    /// When the database can't be reached for a minute, or refuses what must work.
    pub async fn run(&self) -> Journal {
        eprintln!("workload seed: {}", self.seed);
        let mut writers = JoinSet::new();
        for index in 0..self.writers {
            let workload = self.clone();
            writers.spawn(async move { Writer::new(workload, index).await.run().await });
        }
        let mut journal = Journal::default();
        while let Some(written) = writers.join_next().await {
            journal.entries.extend(written.expect("a writer of the workload panicked").entries);
        }
        journal
    }
}

struct Writer {
    workload: Workload,
    outbox: Outbox,
    random: Rng,
    lockless: bool,
    connection: PgConnection,
    journal: Journal,
}

/// What one transaction wrote so far, and the choices that it still makes.
struct Script<'a> {
    workload: &'a Workload,
    outbox: &'a Outbox,
    random: &'a mut Rng,
    written: Vec<Entry>,
}

impl Writer {
    async fn new(workload: Workload, index: usize) -> Self {
        Writer {
            random: Rng::with_seed(workload.seed.wrapping_add(index as u64)),
            outbox: Outbox::default(),
            lockless: index % LOCKLESS_EVERY == LOCKLESS_EVERY - 1,
            connection: connect(&workload.url).await,
            journal: Journal::default(),
            workload,
        }
    }

    async fn run(mut self) -> Journal {
        let start = wait::now();
        while start.elapsed() < self.workload.duration {
            self.transaction().await;
        }
        self.journal
    }

    /// One transaction to its end, noted in the journal whatever the end is.
    async fn transaction(&mut self) {
        let mut script =
            Script { workload: &self.workload, outbox: &self.outbox, random: &mut self.random, written: Vec::new() };
        let outcome = script.play(&mut self.connection, self.lockless).await;
        let mut written = script.written;
        let fate = match outcome {
            Ok(fate) => fate,
            Err(_) => Fate::RolledBack,
        };
        for entry in written.iter_mut().filter(|entry| entry.fate != Fate::RolledBack) {
            entry.fate = fate;
        }
        self.journal.entries.append(&mut written);
        if outcome.is_err() || fate == Fate::InDoubt {
            self.reconnect().await;
        }
    }

    async fn reconnect(&mut self) {
        self.connection = connect(&self.workload.url).await;
    }
}

/// Also while the database is restarted.
async fn connect(url: &str) -> PgConnection {
    // no async closure here: a spawned future must be Send for any lifetime
    let start = wait::now();
    loop {
        if let Ok(connection) = PgConnection::connect(url).await {
            return connection;
        }
        assert!(start.elapsed() < RECONNECT_WITHIN, "no connection of a writer within {RECONNECT_WITHIN:?}");
        wait::pause().await;
    }
}

impl Script<'_> {
    /// An error means that the transaction never came to its commit.
    async fn play(&mut self, connection: &mut PgConnection, lockless: bool) -> Result<Fate, sqlx::Error> {
        let mut tx = connection.begin().await?;
        if !lockless && self.random.bool() {
            // an early transaction id, and its rows late
            sqlx::query("SELECT pg_current_xact_id()::text").execute(&mut *tx).await?;
            self.hold().await;
        }
        if lockless {
            self.write_unlocked(&mut tx).await?;
        } else {
            self.write_keys(&mut tx).await?;
        }
        self.hold().await;
        if self.random.u8(..10) == 0 {
            tx.rollback().await?;
            return Ok(Fate::RolledBack);
        }
        match tx.commit().await {
            Ok(()) => Ok(Fate::Committed),
            Err(_) => Ok(Fate::InDoubt),
        }
    }

    async fn write_unlocked(&mut self, tx: &mut Tx<'_>) -> Result<(), sqlx::Error> {
        for _ in 0..self.random.usize(1..4) {
            self.enqueue(tx, None).await?;
            self.hold().await;
        }
        Ok(())
    }

    /// One to five keys in rising order, so that no two writers wait for each other; some behind a
    /// savepoint, and some of those rolled back to it.
    async fn write_keys(&mut self, tx: &mut Tx<'_>) -> Result<(), sqlx::Error> {
        let count = self.random.usize(1..6);
        let mut keys: Vec<i32> = (0..count).map(|_| self.random.i32(1..=self.workload.keys)).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            if self.random.u8(..4) > 0 {
                self.write_key(tx, key).await?;
                continue;
            }
            let before = self.written.len();
            let mut savepoint = tx.begin().await?;
            self.write_key(&mut savepoint, key).await?;
            if self.random.bool() {
                savepoint.commit().await?;
            } else {
                savepoint.rollback().await?;
                self.written[before..].iter_mut().for_each(|entry| entry.fate = Fate::RolledBack);
            }
        }
        Ok(())
    }

    /// One to three messages of a key: lock, hold, insert.
    async fn write_key(&mut self, tx: &mut Tx<'_>, key: i32) -> Result<(), sqlx::Error> {
        for _ in 0..self.random.usize(1..4) {
            let lock = sqlx::query_scalar("UPDATE aggregates SET seq = seq + 1 WHERE key = $1 RETURNING seq");
            let seq: i64 = lock.bind(key).fetch_one(&mut **tx).await?;
            self.hold().await;
            self.enqueue(tx, Some((key, seq))).await?;
        }
        Ok(())
    }

    async fn enqueue(&mut self, tx: &mut Tx<'_>, key_and_seq: Option<(i32, i64)>) -> Result<(), sqlx::Error> {
        let id = Uuid::from_u128(self.random.u128(..));
        let key = key_and_seq.map(|(key, _)| format!("key-{key}"));
        let mut message = Message::builder(&self.workload.topic, "workload.written", "{}").message_id(id);
        if let Some(key) = &key {
            message = message.key(key.as_str());
        }
        let message = message.build().expect("a valid message");
        let seq = key_and_seq.map_or(0, |(_, seq)| seq as u64);
        // noted before it is sent: whatever becomes of the connection, no message is unknown
        self.written.push(Entry { id: MessageId(id.as_u128()), fate: Fate::Committed, key, seq });
        match self.outbox.enqueue(tx, &message).await {
            Ok(_) => Ok(()),
            Err(fencepost_producer::EnqueueError::Database(error)) => Err(error),
            Err(error) => panic!("the outbox refused a valid message: {error}"),
        }
    }

    /// Mostly nothing or a few milliseconds, now and then a tenth of a second, rarely very long.
    async fn hold(&mut self) {
        let hold = match self.random.u32(..1_000) {
            0..500 => return,
            500..970 => Duration::from_micros(self.random.u64(..5_000)),
            970..998 => Duration::from_millis(self.random.u64(..100)),
            _ => self.workload.long_hold.mul_f64(self.random.f64()),
        };
        wait::hold(hold).await;
    }
}
