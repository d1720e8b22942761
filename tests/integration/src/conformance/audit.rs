//! The completeness audit: what the batch log says was delivered is counted again by transaction ids, and a
//! difference is told once, with the ids to look at.

use std::ops::RangeInclusive;

use fencepost_core::audit::{Window, choose};
use fencepost_core::batch::{BatchHead, MarkRow};
use fencepost_core::lane::{LaneId, Owner, Tag};
use fencepost_relay::store::{Finding, Housekeeper, MarkWriter, Store};

use super::{Fixture, NewMessage, Walk, Writer, claim, connect, next_mark, owner, tick};

/// No window is too long for these tests.
const ALL: i64 = i64::MAX;
/// Nor are too many rows looked at.
const ROWS: i64 = 10_000;
const LANE: LaneId = LaneId(2);
const SLOTS: RangeInclusive<u8> = 64..=95;

/// A relay in small, of one lane: reads a window, marks it, and remembers what it read.
struct Lane<S: Store> {
    reader: S::Reader,
    marker: S::Marker,
    keeper: S::Keeper,
    me: Owner,
    head: BatchHead,
    walk: Walk,
}

impl<S: Store> Lane<S> {
    async fn claim<F: Fixture<Store = S>>(fixture: &F, name: &str) -> Self {
        let (reader, marker, mut keeper) = connect(fixture.store()).await;
        let me = owner(name);
        let head = claim(&mut keeper, &me, LANE.0).await;
        let mut walk = Walk::new(7);
        (walk.slots, walk.position) = (vec![SLOTS], head.position.clone());
        Lane { reader, marker, keeper, me, head, walk }
    }

    /// Reads up to a new tick, and returns the ids.
    async fn deliver(&mut self) -> Vec<i64> {
        let before = self.walk.read.len();
        self.walk.window(&mut self.reader).await;
        let ids = self.walk.ids().split_off(before);
        self.mark(ids.len()).await;
        ids
    }

    /// Reads one page of an open window.
    async fn deliver_page(&mut self) {
        let end = self.walk.page(&mut self.reader, usize::MAX).await;
        self.mark(end.rows as usize).await;
    }

    async fn mark(&mut self, messages: usize) {
        let row = next_mark(&self.head, self.walk.position.clone());
        let row = MarkRow { messages: messages as i64, ..row };
        assert_eq!(self.marker.mark(&self.me, Tag(1), &[row]).await.expect("a mark"), [LANE]);
        self.head = self.marker.newest(&[LANE]).await.expect("the newest row").remove(0);
    }

    /// What the audit would count next.
    async fn window(&mut self, from: i64) -> Option<Window> {
        let rows = self.keeper.recorded(LANE, from, 1_000).await.expect("batch rows");
        choose(LANE, &rows, ALL).and_then(|choice| choice.window)
    }

    /// Counts it.
    async fn audit(&mut self, from: i64) -> Option<(Window, i64)> {
        let window = self.window(from).await?;
        let found = self.keeper.count(&window, ROWS).await.expect("a count").expect("not too much");
        Some((window, found))
    }

    async fn agrees(&mut self, messages: i64) {
        let (window, found) = self.audit(0).await.expect("a window");
        assert_eq!((found, window.expected), (messages, messages), "{window:?}");
    }
}

/// Writes messages, some of them for the lane.
async fn write<F: Fixture>(fixture: &F, count: usize) {
    let mut writer = fixture.begin().await;
    for i in 0..count {
        writer.enqueue(&NewMessage::keyed(&format!("key {i}"))).await;
    }
    writer.commit().await;
}

/// Marks inside windows and at ticks, a takeover, a rollback and other lanes' messages: both counts agree.
pub async fn what_was_delivered_is_what_the_log_holds<F: Fixture>(fixture: &mut F) {
    write(fixture, 100).await;
    let mut lane = Lane::claim(fixture, "first").await;
    assert_eq!(lane.audit(0).await, None, "nothing was delivered");
    let first = lane.deliver().await.len() as i64;
    assert!(first > 2, "the keys spread");
    lane.agrees(first).await;
    write(fixture, 100).await;
    let up = tick(&mut lane.reader).await;
    lane.walk.open(up);
    lane.deliver_page().await;
    lane.agrees(first).await;
    fixture.expire(LANE).await;
    let mut next = Lane::claim(fixture, "second").await;
    let mut gone = fixture.begin().await;
    gone.enqueue(&NewMessage::keyed("key 1")).await;
    gone.rollback().await;
    next.walk.position = next.head.position.clone();
    while next.walk.position.up.is_some() {
        next.deliver_page().await;
    }
    next.agrees(2 * first).await;
    let resume = next.head.n;
    assert_eq!(next.audit(resume).await, None, "nothing moved since");
    write(fixture, 10).await;
    let more = next.deliver().await.len() as i64;
    let (window, found) = next.audit(resume).await.expect("a window");
    assert_eq!((window.from_n, window.expected, found), (resume, more, more));
}

/// A transaction that ran at a window's lower end belongs to the window by whose end it has committed.
pub async fn a_straggler_is_counted_where_it_was_delivered<F: Fixture>(fixture: &mut F) {
    let mut late = fixture.begin().await;
    let mut never = fixture.begin().await;
    for i in 0..50 {
        late.enqueue(&NewMessage::keyed(&format!("late {i}"))).await;
        never.enqueue(&NewMessage::keyed(&format!("never {i}"))).await;
    }
    write(fixture, 50).await;
    let mut lane = Lane::claim(fixture, "me").await;
    let first = lane.deliver().await.len() as i64;
    lane.agrees(first).await;
    let resume = lane.head.n;
    late.commit().await;
    write(fixture, 50).await;
    let second = lane.deliver().await.len() as i64;
    assert!(second > first, "the late ones are among them");
    let (window, found) = lane.audit(resume).await.expect("a window");
    assert_eq!((window.expected, found), (second, second));
    lane.agrees(first + second).await;
    never.commit().await;
    lane.agrees(first + second).await;
}

/// A row that stands in the log as if it had been there all the time, and that no page gave.
pub async fn a_message_that_was_passed_over_is_found<F: Fixture>(fixture: &mut F) {
    write(fixture, 40).await;
    let mut lane = Lane::claim(fixture, "me").await;
    lane.deliver().await;
    let resume = lane.head.n;
    write(fixture, 100).await;
    let ids = lane.deliver().await;
    let lost = fixture.smuggle(ids[0]).await;
    assert!(lane.deliver().await.is_empty(), "nobody will ever read it");
    let (window, found) = lane.audit(resume).await.expect("a window");
    assert_eq!((window.expected, found), (ids.len() as i64, ids.len() as i64 + 1));
    let me = lane.me.clone();
    let finding = lane.keeper.report(&me, &window, found).await.expect("a finding");
    assert_eq!((finding.ids[0], finding.ids.len()), (lost, found.min(20) as usize), "{finding:?}");
    let Window { lane: of, from_n, to_n, expected, .. } = window;
    assert_eq!(finding, Finding { lane: of, from_n, to_n, expected, found, ids: finding.ids.clone() });
    assert_eq!(lane.keeper.findings().await.expect("findings"), [finding]);
}

/// A mark that counted too many or too few.
pub async fn a_wrong_count_is_found<F: Fixture>(fixture: &mut F) {
    write(fixture, 40).await;
    let mut lane = Lane::claim(fixture, "me").await;
    let right = lane.deliver().await.len() as i64;
    for wrong in [right - 1, right + 1, 0] {
        fixture.recount(LANE, lane.head.n, wrong).await;
        let (window, found) = lane.audit(0).await.expect("a window");
        assert_eq!((window.expected, found), (wrong, right));
    }
}

/// The audit goes on behind a finding, whether it was closed or not.
pub async fn a_finding_is_told_once<F: Fixture>(fixture: &mut F) {
    write(fixture, 40).await;
    let mut lane = Lane::claim(fixture, "me").await;
    lane.deliver().await;
    fixture.recount(LANE, lane.head.n, 1).await;
    let (window, found) = lane.audit(0).await.expect("a window");
    let me = lane.me.clone();
    for _ in 0..2 {
        lane.keeper.report(&me, &window, found).await.expect("a repeat is harmless");
    }
    assert_eq!(lane.keeper.findings().await.expect("findings").len(), 1);
    assert_eq!(lane.audit(0).await, None, "told");
    fixture.close_findings().await;
    assert_eq!(lane.keeper.findings().await.expect("findings"), []);
    write(fixture, 40).await;
    let more = lane.deliver().await.len() as i64;
    lane.agrees(more).await;
}

/// The cost has a bound: more messages than that are not counted at all.
pub async fn too_much_is_not_counted<F: Fixture>(fixture: &mut F) {
    write(fixture, 100).await;
    let mut lane = Lane::claim(fixture, "me").await;
    let count = lane.deliver().await.len() as i64;
    let window = lane.window(0).await.expect("a window");
    assert_eq!(lane.keeper.count(&window, count - 1).await.expect("a count"), None);
    let rows = lane.keeper.recorded(LANE, 0, 2).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.n).collect::<Vec<_>>(), [lane.head.n, lane.head.n - 1], "newest first");
}

/// What may be delivered or not can't be counted.
pub async fn nothing_is_counted_across_an_open_row<F: Fixture>(fixture: &mut F) {
    write(fixture, 40).await;
    let mut lane = Lane::claim(fixture, "me").await;
    let before = lane.deliver().await.len() as i64;
    lane.agrees(before).await;
    fixture.leave_open(LANE).await;
    fixture.pad_batches(LANE, 2).await;
    assert_eq!(lane.window(0).await, None);
}
