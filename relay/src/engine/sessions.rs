//! The pair of sessions that reads pages and writes marks. They live and die together: when one is lost the
//! other is dropped, and the worker reloads every position before it goes on.

use std::cell::RefCell;
use std::rc::Rc;

use fencepost_core::batch::MarkRow;
use fencepost_core::lane::{LaneId, Owner, Tag};
use fencepost_core::worker::{Input, PageRequest};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::paging::{Paging, Taken};
use super::{Backoff, Happened, Trouble};
use crate::clock::Clock;
use crate::failpoint;
use crate::publisher::Publisher;
use crate::random::Random;
use crate::store::{LogReader, MarkWriter, Store, StoreError};

/// What troubles call the pair.
pub(super) const PAIR: &str = "session";

/// For the reading session.
#[derive(Debug)]
pub(super) enum Read {
    Sight,
    Burn,
    Page(PageRequest),
}

/// For the marking session.
#[derive(Debug)]
pub(super) enum Write {
    Mark { tag: Tag, rows: Vec<MarkRow> },
    Newest(Vec<LaneId>),
}

/// What the pair works with.
pub(super) struct Sessions<S, P> {
    pub(super) store: Rc<S>,
    pub(super) publisher: Rc<P>,
    pub(super) owner: Owner,
    pub(super) page_bytes: u64,
    pub(super) clock: Clock,
    pub(super) told: UnboundedSender<Happened>,
}

/// Commands carry the number of the session pair that they are meant for: one that was sent before the
/// loop knew of a loss must not run on the next pair.
pub(super) type Numbered<T> = (u64, T);

impl<S: Store, P: Publisher> Sessions<S, P> {
    /// Keeps a pair of sessions up until the channel closes.
    pub(super) async fn run(
        self,
        mut reads: UnboundedReceiver<Numbered<Read>>,
        mut writes: UnboundedReceiver<Numbered<Write>>,
        mut backoff: Backoff,
    ) {
        let mut random = Random::default();
        let mut pair = 0;
        loop {
            let (mut reader, mut marker, source_id) = match self.connect().await {
                Ok(sessions) => sessions,
                Err(error) => {
                    self.trouble(PAIR, error);
                    backoff.wait(&mut random).await;
                    continue;
                }
            };
            backoff.reset();
            pair += 1;
            self.tell(Input::Connected);
            let paging = RefCell::new(None);
            let error = tokio::select! {
                error = self.serve_reads(&mut reader, &source_id, pair, &mut reads, &paging) => error,
                error = self.serve_writes(&mut marker, pair, &mut writes) => error,
            };
            if let Some(paging) = paging.into_inner() {
                self.page_done(paging, None);
            }
            let Some(error) = error else { return };
            self.trouble(PAIR, error);
            self.tell(Input::Disconnected);
        }
    }

    async fn connect(&self) -> Result<(S::Reader, S::Marker, String), StoreError> {
        let mut reader = self.store.reader().await?;
        let source_id = reader.source_id().await?.to_string();
        Ok((reader, self.store.marker().await?, source_id))
    }

    /// Ends with the error that lost the session, or `None` when the loop is gone.
    async fn serve_reads(
        &self,
        reader: &mut S::Reader,
        source_id: &str,
        pair: u64,
        commands: &mut UnboundedReceiver<Numbered<Read>>,
        paging: &RefCell<Option<Paging>>,
    ) -> Option<StoreError> {
        loop {
            let (number, command) = commands.recv().await?;
            if number != pair {
                continue;
            }
            let done = match command {
                Read::Sight => reader.sight().await.map(|sighting| {
                    failpoint::hit(failpoint::AFTER_TICK);
                    self.tell(Input::Sighted(sighting));
                }),
                Read::Burn => reader.burn().await.map(|()| self.tell(Input::Burnt)),
                Read::Page(request) => {
                    *paging.borrow_mut() = Some(Paging::new(request, source_id, self.page_bytes));
                    self.read_page(reader, paging).await
                }
            };
            match done {
                Ok(()) => {}
                Err(error @ StoreError::Refused(_)) => {
                    self.trouble("read", error);
                    self.tell(Input::ReadFailed);
                }
                Err(error) => return Some(error),
            }
        }
    }

    #[allow(clippy::await_holding_refcell_ref, reason = "the cell is looked at again only after this future is gone")]
    async fn read_page(&self, reader: &mut S::Reader, paging: &RefCell<Option<Paging>>) -> Result<(), StoreError> {
        let mut current = paging.borrow_mut();
        let Some(page) = current.as_mut() else { return Ok(()) };
        let result = page.run(reader, &*self.publisher, self.clock).await;
        failpoint::hit(failpoint::AFTER_PAGE);
        let Some(page) = current.take() else { return Ok(()) };
        match result {
            Ok(end) => {
                self.page_done(page, Some(end));
                Ok(())
            }
            // The pause first, or the next page would be asked for at once.
            Err(StoreError::Refused(text)) => {
                self.tell(Input::ReadFailed);
                self.trouble("read", StoreError::Refused(text));
                self.page_done(page, None);
                Ok(())
            }
            Err(error) => {
                self.page_done(page, None);
                Err(error)
            }
        }
    }

    fn page_done(&self, page: Paging, end: Option<(fencepost_core::page::PageEnd, Option<i64>)>) {
        let slot = page.request.slot;
        let page: Taken = page.finish(end);
        self.send(Happened::Page { slot, page });
    }

    async fn serve_writes(
        &self,
        marker: &mut S::Marker,
        pair: u64,
        commands: &mut UnboundedReceiver<Numbered<Write>>,
    ) -> Option<StoreError> {
        loop {
            let (number, command) = commands.recv().await?;
            if number != pair {
                continue;
            }
            let done = match command {
                Write::Mark { tag, rows } => {
                    failpoint::hit(failpoint::BEFORE_MARK);
                    let saved = marker.mark(&self.owner, tag, &rows).await;
                    failpoint::hit(failpoint::AFTER_MARK);
                    saved.map(Input::Marked)
                }
                Write::Newest(lanes) => match marker.newest(&lanes).await {
                    // Without positions nothing can go on: a new pair tries again.
                    Err(StoreError::Refused(text)) => Err(StoreError::Lost(text)),
                    heads => heads.map(Input::Newest),
                },
            };
            match done {
                Ok(input) => self.tell(input),
                Err(error @ StoreError::Refused(_)) => {
                    self.trouble("mark", error);
                    self.tell(Input::MarkRefused);
                }
                Err(error) => return Some(error),
            }
        }
    }

    fn trouble(&self, of: &'static str, error: StoreError) {
        self.send(Happened::Trouble(Trouble::of(of, error)));
    }

    fn tell(&self, input: Input) {
        self.send(Happened::Input(input));
    }

    fn send(&self, happened: Happened) {
        // A loop that is gone needs no news.
        let _ = self.told.send(happened);
    }
}

impl Trouble {
    pub(super) fn of(of: &'static str, error: StoreError) -> Self {
        match error {
            StoreError::Unfit { reason, repair } => Trouble::Unfit { of, reason, repair },
            StoreError::Lost(error) => Trouble::Connection { of, error },
            StoreError::Refused(error) => Trouble::Statement { of, error },
        }
    }

    pub(super) fn chore(error: &StoreError) -> Self {
        Trouble::Chore { error: error.to_string() }
    }
}
