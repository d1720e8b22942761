//! The producers of a steady run: each on a connection of its own, with keys of its own, at a fixed
//! pace that is caught up after a delay.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::task::JoinSet;

use crate::clock;
use crate::database::{Database, backend_pid};
use crate::error::{Error, Result};
use crate::fill::into_log;
use crate::payload::{Feed, key_text};
use crate::rig::message_id;
use crate::tail::Board;

/// How much is written, by whom.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Messages a second, of all writers together.
    pub(crate) rate: f64,
    pub(crate) rows_per_transaction: usize,
    pub(crate) writers: u32,
    pub(crate) keys_per_writer: u32,
    pub(crate) payload_bytes: usize,
}

/// Running writers. They are told beforehand when to stop.
pub(crate) struct Writers {
    /// Their server sides.
    pub(crate) backends: Vec<u32>,
    tasks: JoinSet<Result<()>>,
}

impl Writers {
    /// Connects and starts them; they write until `end_ns` or until the board is full.
    pub(crate) async fn start(
        database: &Database,
        topic: &str,
        run: u32,
        pace: &Pace,
        board: &Arc<Board>,
        end_ns: u64,
    ) -> Result<Self> {
        let mut writers = Writers { backends: Vec::new(), tasks: JoinSet::new() };
        let gap_ns = (1e9 * pace.rows_per_transaction as f64 * f64::from(pace.writers) / pace.rate) as u64;
        let start_ns = clock::now_ns();
        for index in 0..pace.writers {
            let mut session = database.connect().await?;
            writers.backends.push(backend_pid(&mut session).await?);
            let writer = Writer {
                session,
                topic: topic.to_owned(),
                feed: Feed::new(run, index * pace.keys_per_writer, pace.keys_per_writer, pace.payload_bytes),
                board: Arc::clone(board),
                rows: pace.rows_per_transaction,
            };
            let first_ns = start_ns + gap_ns * u64::from(index) / u64::from(pace.writers);
            writers.tasks.spawn(writer.write(first_ns, gap_ns, end_ns));
        }
        Ok(writers)
    }

    /// Waits for their end.
    pub(crate) async fn ended(mut self) -> Result<()> {
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|_| Error::other("a writer panicked"))??;
        }
        Ok(())
    }
}

struct Writer {
    session: PgConnection,
    topic: String,
    feed: Feed,
    board: Arc<Board>,
    rows: usize,
}

impl Writer {
    async fn write(mut self, first_ns: u64, gap_ns: u64, end_ns: u64) -> Result<()> {
        let mut due_ns = first_ns;
        while due_ns < end_ns {
            let now_ns = clock::now_ns();
            if due_ns > now_ns {
                clock::pause(Duration::from_nanos(due_ns - now_ns)).await;
            }
            let numbers: Vec<u64> = (0..self.rows).map_while(|_| self.board.issue()).collect();
            if numbers.len() < self.rows {
                return Ok(());
            }
            self.transaction(&numbers).await?;
            self.board.commit(&numbers);
            due_ns += gap_ns;
        }
        Ok(())
    }

    async fn transaction(&mut self, numbers: &[u64]) -> Result<()> {
        if let [number] = numbers {
            let (stamp, payload) = self.feed.numbered(*number);
            let insert = sqlx::query(include_str!("../sql/insert_one.sql")).bind(message_id()).bind(&self.topic);
            let insert = insert.bind(key_text(stamp.key).into_bytes()).bind(payload);
            insert.execute(&mut self.session).await?;
            return Ok(());
        }
        let messages = numbers.iter().map(|number| self.feed.numbered(*number));
        let (keys, payloads) = messages.map(|(stamp, payload)| (key_text(stamp.key), payload)).unzip();
        into_log(&mut self.session, &self.topic, keys, payloads).await
    }
}
