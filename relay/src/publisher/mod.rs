//! The port through which the engine hands records to a broker, and its Kafka adapter.
//!
//! Rows travel in *page slots*. The engine opens a slot, sends rows into it with a row number,
//! seals it with how many it sent, and gets [`Event::Settled`] once every outcome is known. A slot is
//! reused only after that.

pub mod kafka;
pub mod null;

use std::future::Future;

use fencepost_core::failure::{Class, Outcome};

use crate::message::MessageRef;

/// Number of a page slot, `0..Publisher::slots()`.
pub type PageSlot = usize;

/// Why a record was not taken. Nothing was handed over; the row must be sent again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client's queue is full: wait for [`Publisher::room`].
    Full,
    /// The topic has not been looked up yet: await [`Publisher::check_route`] first. Sending to a topic
    /// that turns out to be missing would let a later message of its key overtake.
    RouteUnknown,
    /// An earlier record failed or the producer was purged: nothing more is taken before a rebuild
    /// (or, after a failure without harm to the producer, before [`Publisher::resume`]).
    Halted,
    /// This very record can't be sent.
    Failed {
        /// Why.
        class: Class,
        /// librdkafka's code, for logs.
        code: i16,
    },
}

/// What a publisher tells by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sealed slot has all its outcomes.
    Settled(PageSlot),
    /// The producer was replaced and takes records again.
    Rebuilt,
    /// The producer could not be made; the text is for logs and status and has no secret in it.
    RebuildFailed(String),
    /// Whether the destination answers, with the reason when it does not.
    Destination(Result<(), String>),
}

/// A destination for records. Methods without a future never block.
pub trait Publisher {
    /// Number of page slots.
    fn slots(&self) -> usize;

    /// Starts a page in a slot whose former page has settled, or was opened and given up without a row.
    fn open(&self, slot: PageSlot);

    /// Hands one record over. `fence` is the value of the fence header of the row's lane.
    /// `row` counts from 0 within the slot.
    ///
    /// # Errors
    /// [`Refused`]; the record was not taken.
    fn send(&self, slot: PageSlot, row: u32, fence: &str, message: &MessageRef<'_>) -> Result<(), Refused>;

    /// Ends the page: `sent` rows, numbered `0..sent`, were taken. A page of no rows settles at once.
    fn seal(&self, slot: PageSlot, sent: u32);

    /// Outcomes of a settled slot by row, or `None` if all were acknowledged.
    fn failures(&self, slot: PageSlot) -> Option<Vec<Outcome>>;

    /// Looks a topic up, once; later sends to it are taken.
    ///
    /// # Errors
    /// Class and code when the topic is missing, forbidden, or the cluster can't tell.
    fn check_route(&self, topic: &str) -> impl Future<Output = Result<(), (Class, i16)>>;

    /// Waits until the client has room again, or something settled.
    fn room(&self) -> impl Future<Output = ()>;

    /// Takes records again after failures that did no harm to the producer. `false`: it was purged or
    /// is broken, and only [`Self::rebuild`] helps.
    fn resume(&self) -> bool;

    /// Drops what is queued and in flight; each such record gets its outcome. Then [`Refused::Halted`].
    fn purge(&self);

    /// Replaces the producer, on a thread of its own, once all outcomes are in. Ends in
    /// [`Event::Rebuilt`] or [`Event::RebuildFailed`].
    fn rebuild(&self);
}
