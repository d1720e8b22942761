//! The plot. Orders are committed, two relays share the lanes, one stands still between the check of its lease and
//! its mark, the other takes over, the first goes on and is rejected; then everything comes to rest and is counted.
//! Waiting is watching: while the story waits for something, the screen shows what happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

use crate::auditor::Auditor;
use crate::board::{Board, RelayLine};
use crate::child::State;
use crate::clock::{self, Clock};
use crate::consumer::{self, Books, ConsumerError};
use crate::error::DemoError;
use crate::figures::Rate;
use crate::relay::{LEASE, Relay, Site};
use crate::shop::{self, Journal, Shop, ShopError};
use crate::stage::Stage;
use crate::tally::Tally;
use crate::verdict::Evidence;
use crate::view::Screen;
use crate::view::frame::told;

/// The relay that stands still, and the one that takes over.
const RELAYS: [&str; 2] = ["anna", "ben"];
/// Order services.
const SERVICES: u32 = 3;
/// Between two looks at everything.
const LOOK: Duration = Duration::from_millis(100);
/// For what takes a moment, on a slow machine.
const SOON: Duration = Duration::from_secs(30);
/// Messages that the successor publishes before the first relay goes on.
const SUCCESSOR_MESSAGES: u64 = 100;

/// How the story is told.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Orders a second, all services together.
    pub rate: u32,
    /// Before which of its marks the first relay stands still.
    pub freeze_at: u32,
    /// How long orders go on after the last event.
    pub encore: Duration,
}

/// A story that is being told.
pub struct Story<'a> {
    stage: &'a Stage,
    screen: &'a mut Screen,
    clock: Clock,
    pace: Pace,
    tally: Arc<Tally>,
    journal: Journal,
    relays: Vec<Relay>,
    services: JoinSet<Result<(), ShopError>>,
    closing: Arc<AtomicBool>,
    consumer: Option<JoinHandle<Result<(), ConsumerError>>>,
    consumed: Arc<AtomicBool>,
    rate: Rate,
    board: Board,
}

impl<'a> Story<'a> {
    /// Nothing has happened yet.
    pub fn new(stage: &'a Stage, screen: &'a mut Screen, clock: Clock, pace: Pace) -> Self {
        Story {
            board: Board { place: stage.kind(), ..Board::default() },
            stage,
            screen,
            clock,
            pace,
            tally: Arc::new(Tally::default()),
            journal: Journal::default(),
            relays: Vec::new(),
            services: JoinSet::new(),
            closing: Arc::new(AtomicBool::new(false)),
            consumer: None,
            consumed: Arc::new(AtomicBool::new(false)),
            rate: Rate::over(Duration::from_secs(2)),
        }
    }

    /// Tells it, and returns what was counted at its end. What should have happened and did not is for the verdict.
    ///
    /// # Errors
    /// When it can't be told at all.
    pub async fn tell(mut self) -> Result<Evidence, DemoError> {
        let site = self.stage.site()?;
        site.migrate().await.map_err(DemoError::Relay)?;
        let shop = self.stage.database.open_shop(self.stage.broker.topic()).await?;
        let books = self.stage.database.open_books().await.map_err(ConsumerError::from)?;
        let auditor = Auditor::start(&self.stage.broker, self.journal.clone(), Arc::clone(&self.tally))?;
        self.consume(&books)?;
        self.open(&site, &shop).await?;
        self.freeze().await?;
        self.take_over().await?;
        self.thaw().await?;
        self.close().await?;
        auditor.finish().await?;
        self.finish_consumer().await?;
        self.evidence(&shop, &books).await
    }

    /// The consumer begins.
    fn consume(&mut self, books: &Books) -> Result<(), DemoError> {
        let client = consumer::subscribe(&self.stage.broker).map_err(ConsumerError::from)?;
        let consumed = Arc::clone(&self.consumed);
        let stop = move || consumed.load(Ordering::Relaxed);
        self.consumer = Some(tokio::spawn(consumer::consume(client, books.clone(), Arc::clone(&self.tally), stop)));
        Ok(())
    }

    /// Two relays share the lanes, and the services begin.
    async fn open(&mut self, site: &Site, shop: &Shop) -> Result<(), DemoError> {
        for (index, name) in RELAYS.into_iter().enumerate() {
            let freeze_at = (index == 0).then_some(self.pace.freeze_at);
            self.relays.push(Relay::start(site, name, freeze_at).map_err(DemoError::Relay)?);
        }
        self.until(SOON, |board| board.shared_by(&RELAYS)).await?;
        let [anna, ben] = RELAYS.map(|name| spoken(&self.board.lanes_of(name)));
        self.say("relays", &format!("{} holds {anna}, {} holds {ben}; leases last {LEASE:?}", RELAYS[0], RELAYS[1]));
        for _ in 0..SERVICES {
            let every = Duration::from_secs(1) * SERVICES / self.pace.rate.max(1);
            let closing = Arc::clone(&self.closing);
            let stop = move || closing.load(Ordering::Relaxed);
            let service = shop::serve(shop.clone(), every, self.journal.clone(), Arc::clone(&self.tally), stop);
            self.services.spawn(service);
        }
        self.say("services", &format!("{SERVICES} of them commit orders: a row and a message in one transaction"));
        Ok(())
    }

    /// The first relay stands still at its mark.
    async fn freeze(&mut self) -> Result<(), DemoError> {
        let frozen = self.until(SOON, |board| board.relays[0].state == State::Frozen).await?;
        if frozen {
            let lanes = spoken(&self.board.lanes_of(RELAYS[0]));
            self.say(RELAYS[0], &format!("stands still: it has checked its lease on {lanes}, and not sent its mark"));
        }
        Ok(())
    }

    /// The lease runs out, and the second takes the lanes over and publishes.
    async fn take_over(&mut self) -> Result<(), DemoError> {
        let lanes = self.board.lanes_of(RELAYS[0]);
        let taken = self.until(LEASE + SOON, |board| board.shared_by(&RELAYS[1..])).await?;
        if taken {
            let generation =
                self.board.lanes.iter().filter(|lane| lanes.contains(&lane.lane)).map(|lane| lane.generation);
            let generation = generation.max().unwrap_or_default();
            let what = format!(
                "took over {}, under generation {generation}, and sends again what was not marked",
                spoken(&lanes)
            );
            self.say(RELAYS[1], &what);
        }
        let published = self.board.relays[1].counts.published;
        self.until(SOON, |board| board.relays[1].counts.published >= published + SUCCESSOR_MESSAGES).await?;
        Ok(())
    }

    /// The first goes on: its mark is rejected, it drops its lanes, and gets its share again.
    async fn thaw(&mut self) -> Result<(), DemoError> {
        self.relays[0].thaw();
        self.say(RELAYS[0], "goes on, and sends the mark that it was about to send");
        if self.until(SOON, |board| board.relays[0].counts.rejected_marks > 0).await? {
            let rejected = self.board.relays[0].counts.rejected_marks;
            self.say(
                RELAYS[0],
                &format!("is rejected: {rejected} rows of its mark changed nothing; it drops its lanes"),
            );
        }
        if self.until(SOON, |board| board.shared_by(&RELAYS)).await? {
            let lanes = spoken(&self.board.lanes_of(RELAYS[0]));
            self.say(RELAYS[0], &format!("was given {lanes}, under new generations"));
        }
        let until = self.clock.elapsed() + self.pace.encore;
        self.until(self.pace.encore, |board| board.elapsed >= until).await?;
        Ok(())
    }

    /// The services end, what they committed is delivered, the relays give everything back.
    async fn close(&mut self) -> Result<(), DemoError> {
        self.closing.store(true, Ordering::Relaxed);
        while let Some(ended) = self.services.join_next().await {
            ended.expect("a service does not panic")?;
        }
        self.say("services", "closed; everything comes to rest");
        self.until(SOON, |board| board.lag() == 0).await?;
        for relay in &mut self.relays {
            relay.counts().await;
            if !relay.end(SOON).await {
                return Err(DemoError::RelayEnded { name: relay.name().to_owned(), log: relay.log_tail() });
            }
        }
        Ok(())
    }

    /// The consumer reads what the auditor has read, and ends.
    async fn finish_consumer(&mut self) -> Result<(), DemoError> {
        let (tally, clock) = (Arc::clone(&self.tally), self.clock);
        let deadline = clock.elapsed() + SOON;
        while tally.consumed() < tally.records.get() && clock.elapsed() < deadline {
            self.look_at_consumer().await?;
            clock::pause(LOOK).await;
        }
        self.consumed.store(true, Ordering::Relaxed);
        if let Some(consumer) = self.consumer.take() {
            consumer.await.expect("the consumer does not panic")?;
        }
        self.look_at_tally();
        self.screen.show(&self.board);
        self.screen.settle();
        Ok(())
    }

    /// Counts, each side for itself.
    async fn evidence(&mut self, shop: &Shop, books: &Books) -> Result<Evidence, DemoError> {
        let verdict = self.journal.with(|audit| audit.verdict());
        let billed = books.billed().await.map_err(ConsumerError::from)?;
        let (mut takeovers, mut rejected_marks) = (0, 0);
        for relay in &mut self.relays {
            let counts = relay.counts().await;
            takeovers += counts.takeovers;
            rejected_marks += counts.rejected_marks;
        }
        Ok(Evidence {
            committed: shop.count().await?,
            confirmed: self.tally.committed.get(),
            rolled_back: self.tally.rolled_back.get(),
            records: self.tally.records.get(),
            distinct: self.tally.distinct.get(),
            lost: verdict.lost.count,
            invented: verdict.invented_rolled_back.count + verdict.invented_unknown.count,
            disorders: verdict.misordered.count + verdict.scattered.count,
            effects: billed.effects,
            served: billed.orders,
            absorbed: self.tally.absorbed.get(),
            takeovers,
            rejected_marks,
        })
    }

    /// Watches until `condition` is true, at most for `limit`. Returns whether it was.
    async fn until(&mut self, limit: Duration, condition: impl Fn(&Board) -> bool) -> Result<bool, DemoError> {
        let deadline = self.clock.elapsed() + limit;
        loop {
            self.look().await?;
            self.screen.show(&self.board);
            if condition(&self.board) {
                return Ok(true);
            }
            if self.clock.elapsed() >= deadline {
                return Ok(false);
            }
            clock::pause(LOOK).await;
        }
    }

    /// Looks at everything, and fails where an actor did.
    async fn look(&mut self) -> Result<(), DemoError> {
        while let Some(ended) = self.services.try_join_next() {
            ended.expect("a service does not panic")?;
        }
        self.look_at_consumer().await?;
        let mut lines = Vec::with_capacity(self.relays.len());
        for relay in &mut self.relays {
            let (counts, state) = (relay.counts().await, relay.state());
            if let State::Ended(_) = state {
                return Err(DemoError::RelayEnded { name: relay.name().to_owned(), log: relay.log_tail() });
            }
            lines.push(RelayLine { name: relay.name().to_owned(), state, counts });
        }
        self.board.relays = lines;
        self.board.lanes = self.stage.database.lanes().await.map_err(ShopError::from)?;
        self.look_at_tally();
        Ok(())
    }

    /// Fails when the consumer did.
    async fn look_at_consumer(&mut self) -> Result<(), DemoError> {
        if let Some(consumer) = self.consumer.take_if(|consumer| consumer.is_finished()) {
            consumer.await.expect("the consumer does not panic")?;
        }
        Ok(())
    }

    fn look_at_tally(&mut self) {
        self.board.elapsed = self.clock.elapsed();
        self.board.committed = self.tally.committed.get();
        self.board.rate = self.rate.sample(self.board.elapsed, self.board.committed);
        self.board.rolled_back = self.tally.rolled_back.get();
        self.board.records = self.tally.records.get();
        self.board.distinct = self.tally.distinct.get();
        self.board.applied = self.tally.applied.get();
        self.board.absorbed = self.tally.absorbed.get();
    }

    fn say(&mut self, actor: &str, what: &str) {
        let index = RELAYS.iter().position(|name| *name == actor);
        let line = told(self.clock.elapsed(), (actor, index), what, self.screen.paint());
        self.screen.line(&line);
    }
}

/// `lanes 0 1 2 3`
fn spoken(lanes: &[i64]) -> String {
    let numbers: Vec<String> = lanes.iter().map(i64::to_string).collect();
    format!("lanes {}", numbers.join(" "))
}
