//! The consumer of a steady run: a thread that notes when each message arrived, on the same clock on
//! which the writers note their commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use rdkafka::Message;
use rdkafka::consumer::BaseConsumer;

use crate::clock;
use crate::error::{Error, Result};
use crate::payload::Stamp;
use crate::verify::Check;

const POLL: Duration = Duration::from_millis(50);
/// Microseconds; a latency above it counts as this.
const LATENCY_MAX_US: u64 = 600_000_000;

/// When each message of a run was committed and when it arrived; 0 is "not yet".
pub(crate) struct Board {
    run: u32,
    committed_ns: Vec<AtomicU64>,
    arrived_ns: Vec<AtomicU64>,
    issued: AtomicU64,
    committed: AtomicU64,
    transactions: AtomicU64,
    arrived: AtomicU64,
    repeated: AtomicU64,
    misordered: AtomicU64,
    foreign: AtomicU64,
    stop: AtomicBool,
}

fn zeroes(count: usize) -> Vec<AtomicU64> {
    std::iter::repeat_with(|| AtomicU64::new(0)).take(count).collect()
}

impl Board {
    /// For at most `messages`.
    pub(crate) fn new(run: u32, messages: usize) -> Arc<Self> {
        Arc::new(Board {
            run,
            committed_ns: zeroes(messages),
            arrived_ns: zeroes(messages),
            issued: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            misordered: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// The next message's number; `None` when the board is full.
    pub(crate) fn issue(&self) -> Option<u64> {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        ((number as usize) < self.committed_ns.len()).then_some(number)
    }

    /// A transaction with these messages has been confirmed just now.
    pub(crate) fn commit(&self, numbers: &[u64]) {
        let now = clock::now_ns();
        for number in numbers {
            self.committed_ns[*number as usize].store(now, Ordering::Relaxed);
        }
        self.committed.fetch_add(numbers.len() as u64, Ordering::Relaxed);
        self.transactions.fetch_add(1, Ordering::Relaxed);
    }

    /// A record of `stamp` arrived just now, by the only reader. `newest` is the newest number of each key.
    fn arrive(&self, stamp: Stamp, newest: &mut [u32]) {
        let Some(slot) = self.arrived_ns.get(stamp.number as usize) else {
            self.foreign.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if slot.load(Ordering::Relaxed) != 0 {
            self.repeated.fetch_add(1, Ordering::Relaxed);
            return;
        }
        slot.store(clock::now_ns(), Ordering::Relaxed);
        self.arrived.fetch_add(1, Ordering::Relaxed);
        match newest.get_mut(stamp.key as usize) {
            Some(newest) if stamp.seq > *newest => *newest = stamp.seq,
            _ => _ = self.misordered.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    pub(crate) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Committed messages that have not arrived.
    pub(crate) fn backlog(&self) -> u64 {
        self.committed().saturating_sub(self.arrived.load(Ordering::Relaxed))
    }

    /// Latencies in microseconds of the messages that were committed in the interval. An arrival that
    /// was noted before the commit's reply counts as 0.
    pub(crate) fn latencies(&self, from_ns: u64, to_ns: u64) -> Result<Histogram<u64>> {
        let mut histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)
            .map_err(|error| Error::other(format!("a histogram: {error}")))?;
        for (committed, arrived) in self.committed_ns.iter().zip(&self.arrived_ns) {
            let (committed, arrived) = (committed.load(Ordering::Relaxed), arrived.load(Ordering::Relaxed));
            if committed >= from_ns && committed < to_ns && arrived > 0 {
                histogram.saturating_record(arrived.saturating_sub(committed) / 1_000);
            }
        }
        Ok(histogram)
    }

    /// What went wrong by now.
    pub(crate) fn check(&self) -> Check {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Check {
            lost: self.backlog(),
            repeated: count(&self.repeated),
            misordered: count(&self.misordered),
            foreign: count(&self.foreign),
        }
    }
}

/// The reading thread.
pub(crate) struct Tail {
    board: Arc<Board>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Tail {
    /// Reads from where `reader` stands; keys are below `keys`. Records of other runs are passed over.
    pub(crate) fn follow(reader: BaseConsumer, board: Arc<Board>, keys: u32) -> Self {
        let shared = Arc::clone(&board);
        let thread = std::thread::spawn(move || read(&reader, &shared, keys));
        Tail { board, thread: Some(thread) }
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// What ended it before.
    pub(crate) fn end(mut self) -> Result<()> {
        self.board.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(Error::other("the reading thread panicked")),
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.board.stop.store(true, Ordering::Relaxed);
    }
}

fn read(reader: &BaseConsumer, board: &Board, keys: u32) -> Result<()> {
    let mut newest = vec![0; keys as usize];
    while !board.stop.load(Ordering::Relaxed) {
        let Some(record) = reader.poll(POLL) else { continue };
        match Stamp::read(record?.payload().unwrap_or_default()) {
            Some(stamp) if stamp.run == board.run => board.arrive(stamp, &mut newest),
            Some(_) => {}
            None => _ = board.foreign.fetch_add(1, Ordering::Relaxed),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_counts_what_arrived_and_what_went_wrong() {
        let board = Board::new(1, 4);
        let numbers: Vec<u64> = std::iter::from_fn(|| board.issue()).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        board.commit(&numbers[..2]);
        board.commit(&numbers[2..]);
        assert_eq!((board.committed(), board.transactions(), board.backlog()), (4, 2, 4));
        let mut newest = [0; 1];
        for (number, seq) in [(0, 1), (1, 3), (2, 2), (0, 1), (9, 9)] {
            board.arrive(Stamp { run: 1, number, key: 0, seq }, &mut newest);
        }
        assert_eq!(board.check(), Check { lost: 1, repeated: 1, misordered: 1, foreign: 1 });
        assert_eq!(board.latencies(0, u64::MAX).map(|h| h.len()).ok(), Some(3));
        assert_eq!(board.latencies(0, 1).map(|h| h.len()).ok(), Some(0));
    }
}
