//! A bare reader: ticks, windows and pages by core's rules, without an engine.

use std::ops::ControlFlow;

use fencepost_core::lane::Slots;
use fencepost_core::page::{PageEnd, PageStop, Reading, Span, advance, plan};
use fencepost_core::position::{Base, Position, Tick};
use fencepost_relay::store::LogReader;

use super::NewMessage;

/// A tick: sequence, a committed transaction id, snapshot and sequence.
///
/// # Panics
/// When the store fails.
pub async fn tick<R: LogReader>(reader: &mut R) -> Tick {
    let seq0 = reader.sight().await.expect("a sighting").last_id;
    reader.burn().await.expect("a transaction id");
    Tick::new(Base { seq0 }, &reader.sight().await.expect("a sighting"))
}

/// One message as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its id.
    pub id: i64,
    /// Its slot.
    pub slot: u8,
    /// The rest.
    pub message: NewMessage,
}

/// A reader's place in the log and what it has read.
pub struct Walk {
    /// Where it stands.
    pub position: Position,
    /// How it reads on.
    pub reading: Reading,
    /// Which slots it reads.
    pub slots: Vec<Slots>,
    /// Rows of a page.
    pub rows_max: u32,
    /// What came, in the order in which it came.
    pub read: Vec<Read>,
    /// Pages that were read through the index on transaction ids.
    pub straggler_pages: u32,
}

impl Walk {
    /// From the beginning, all slots.
    pub fn new(rows_max: u32) -> Self {
        Walk {
            position: Position::beginning(),
            reading: Reading::Index,
            slots: vec![0..=255],
            rows_max,
            read: Vec::new(),
            straggler_pages: 0,
        }
    }

    /// Ids in the order in which they came.
    pub fn ids(&self) -> Vec<i64> {
        self.read.iter().map(|read| read.id).collect()
    }

    /// Opens a window up to `up`, if none is open.
    pub fn open(&mut self, up: Tick) {
        if self.position.up.is_none() {
            self.position = self.position.opened(up);
        }
    }

    /// Reads one page of the open window, taking at most `rows` rows.
    ///
    /// # Panics
    /// When no window is open or the store fails.
    pub async fn page<R: LogReader>(&mut self, reader: &mut R, rows: usize) -> PageEnd {
        let plan = plan(&self.position, self.reading, self.rows_max).expect("an open window");
        let read = &mut self.read;
        let (first, mut take) = (read.len(), |message: &fencepost_relay::message::MessageRef<'_>| {
            read.push(Read { id: message.id, slot: message.slot, message: NewMessage::seen(message) });
            ControlFlow::Continue(())
        });
        let mut left = rows;
        let end = reader
            .read_page(&plan, &self.slots, &mut |message| {
                let Some(less) = left.checked_sub(1) else { return ControlFlow::Break(()) };
                left = less;
                take(message)
            })
            .await
            .expect("a page");
        assert_eq!(end.rows as usize, self.read.len() - first, "a page counts the rows that were taken");
        if end.rows > 0 {
            assert_eq!(end.last_id, self.read[self.read.len() - 1].id, "a page tells its last id");
        }
        assert!(self.read[first..].is_sorted_by(|a, b| a.id < b.id), "a page rises by id");
        self.straggler_pages += u32::from(matches!(plan.span, Span::Stragglers { .. }));
        let next_id = match plan.span {
            Span::Range { upto, .. } if end.rows == 0 && end.stop == PageStop::Exhausted && upto < plan.up.seq1 => {
                let next = reader.next_id(upto, plan.up.seq1).await.expect("a seek");
                Some(next.unwrap_or(plan.up.seq1 + 1))
            }
            _ => None,
        };
        (self.position, self.reading) = advance(&plan, end, next_id);
        end
    }

    /// Takes a tick and reads everything up to it.
    ///
    /// # Panics
    /// When the store fails, or the window has no end.
    pub async fn window<R: LogReader>(&mut self, reader: &mut R) {
        let up = tick(reader).await;
        self.open(up);
        for _ in 0..100_000 {
            if self.position.up.is_none() {
                return;
            }
            self.page(reader, usize::MAX).await;
        }
        panic!("a window that does not end");
    }
}
