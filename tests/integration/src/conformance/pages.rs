//! The log's reader: complete, each message once, nothing that was rolled back, by rising id in a page.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;

use fencepost_core::page::{PageStop, plan};
use fencepost_relay::message::MessageRef;
use fencepost_relay::store::{LogReader, Store};

use super::{Fixture, NewMessage, Walk, Writer, tick};
use crate::{random, wait};

/// Writes and commits messages under one key each.
async fn commit<F: Fixture>(fixture: &F, count: usize) -> Vec<i64> {
    let mut writer = fixture.begin().await;
    let mut ids = Vec::new();
    for i in 0..count {
        ids.push(writer.enqueue(&NewMessage::keyed(&format!("key {i}"))).await);
    }
    writer.commit().await;
    ids
}

/// A sequence that was never used has given out nothing, whatever value it shows.
pub async fn a_fresh_log_has_no_id<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    assert_eq!(reader.sight().await.expect("a sighting").last_id, 0);
    assert_eq!(commit(fixture, 1).await, [1]);
    assert_eq!(reader.sight().await.expect("a sighting").last_id, 1);
    let mut walk = Walk::new(10);
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), [1]);
}

/// Rolled back messages never appear, in any window.
pub async fn committed_messages_come_once_and_in_order<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let (mut walk, mut committed) = (Walk::new(4), Vec::new());
    for round in 0..4 {
        committed.extend(commit(fixture, 5).await);
        let mut undone = fixture.begin().await;
        undone.enqueue(&NewMessage::keyed("undone")).await;
        undone.rollback().await;
        committed.extend(commit(fixture, round).await);
        walk.window(&mut reader).await;
        assert_eq!(walk.ids(), committed);
    }
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), committed, "an empty window adds nothing");
}

/// Null and empty are different things, headers keep order and repeats, and bytes are bytes.
pub async fn a_message_arrives_byte_for_byte<F: Fixture>(fixture: &mut F) {
    let plain = NewMessage::keyed("plain");
    let bytes: Vec<u8> = (0..=255).collect();
    let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    let repeated = vec![
        header("a", Some(b"1")),
        header("b", None),
        header("a", Some(b"")),
        header("A", Some(&[0xfe, 0xff, 0])),
        header("ключ 2", Some(b"x")),
    ];
    let messages = [
        NewMessage { key: None, payload: None, ..plain.clone() },
        NewMessage { key: Some(vec![]), payload: Some(vec![]), ..plain.clone() },
        NewMessage { key: Some(bytes.clone()), payload: Some(bytes.repeat(40)), ..plain.clone() },
        NewMessage { headers: repeated.clone(), partition: Some(7), ..plain.clone() },
        NewMessage { headers: repeated.iter().cycle().take(60).cloned().collect(), ..plain.clone() },
        NewMessage {
            tenant: "größe".into(),
            content_type: Some("application/json".into()),
            event_time_us: Some(-1_234_567),
            ..plain.clone()
        },
    ];
    let mut writer = fixture.begin().await;
    for message in &messages {
        writer.enqueue(message).await;
    }
    writer.commit().await;
    let mut walk = Walk::new(100);
    walk.window(&mut fixture.store().reader().await.expect("a reader")).await;
    let seen: Vec<NewMessage> = walk.read.into_iter().map(|read| read.message).collect();
    assert_eq!(seen, messages);
}

/// A transaction that commits after later ids were delivered is found by its transaction id.
pub async fn b01_a_straggler_comes_after_its_commit<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let mut late = fixture.begin().await;
    let held = late.enqueue(&NewMessage::keyed("late")).await;
    let early = commit(fixture, 3).await;
    assert!(held < early[0]);
    let mut walk = Walk::new(100);
    walk.window(&mut reader).await;
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), early);
    let sight = reader.sight().await.expect("a sighting");
    late.commit().await;
    assert!(walk.position.is_behind(&reader.sight().await.expect("a sighting")), "its end is news; before: {sight:?}");
    let fresh = commit(fixture, 2).await;
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), [&early[..], &[held], &fresh].concat(), "before what is fresh");
    // transaction ids are the whole server's: another database's may add an empty page
    assert!(walk.straggler_pages >= 1, "found by its transaction id");
}

/// A bulk transaction that ends late fills pages: they go on as a scan, with nothing lost or repeated.
pub async fn a_bulk_straggler_is_paged<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let (mut bulk, mut other) = (fixture.begin().await, fixture.begin().await);
    let (mut ids, mut others) = (Vec::new(), Vec::new());
    for i in 0..70 {
        ids.push(bulk.enqueue(&NewMessage::keyed("bulk")).await);
        if i % 10 == 0 {
            others.push(other.enqueue(&NewMessage::keyed("other")).await);
        }
    }
    other.commit().await;
    let mut walk = Walk::new(16);
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), others);
    bulk.commit().await;
    let fresh = commit(fixture, 20).await;
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), [others, ids, fresh].concat());
    // 70 rows are 5 pages of 16; transaction ids of other databases may add empty ones
    let pages = walk.straggler_pages;
    assert!((1..5).contains(&pages), "only the first page reads the bulk's index entries, not {pages}");
}

/// A transaction that ran at `lo` and took its id after it belongs to the range, not to the stragglers.
pub async fn an_early_transaction_that_writes_late<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let mut early = fixture.begin().await;
    early.touch().await;
    let first = early.enqueue(&NewMessage::keyed("early")).await;
    let between = commit(fixture, 2).await;
    let mut walk = Walk::new(100);
    walk.window(&mut reader).await;
    let late = early.enqueue(&NewMessage::keyed("early")).await;
    early.commit().await;
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), [&between[..], &[first, late]].concat());
}

/// What commits after the tick is left to the next window, though its id is inside this one.
pub async fn the_window_ends_at_its_tick<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let mut open = fixture.begin().await;
    let held = open.enqueue(&NewMessage::keyed("held")).await;
    let inside = commit(fixture, 2).await;
    let up = tick(&mut reader).await;
    open.commit().await;
    let after = commit(fixture, 2).await;
    let mut walk = Walk::new(100);
    walk.open(up);
    while walk.position.up.is_some() {
        walk.page(&mut reader, usize::MAX).await;
    }
    assert_eq!(walk.ids(), inside);
    walk.window(&mut reader).await;
    assert_eq!(walk.ids(), [&inside[..], &[held], &after].concat());
}

/// At most `rows_max` rows, told as full.
pub async fn pages_end_at_their_limit<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let ids = commit(fixture, 10).await;
    let mut walk = Walk::new(4);
    let up = tick(&mut reader).await;
    walk.open(up);
    for (rows, stop) in [(4, PageStop::Full), (4, PageStop::Full), (2, PageStop::Exhausted)] {
        let end = walk.page(&mut reader, usize::MAX).await;
        assert_eq!((end.rows, end.stop), (rows, stop));
    }
    assert_eq!(walk.ids(), ids);
    assert_eq!(walk.position.up, None, "the window is read");
}

/// A taker that breaks sees that row again, first in the next page; also when it took nothing.
pub async fn a_taker_may_break_before_any_row<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let ids = commit(fixture, 10).await;
    let mut walk = Walk::new(10);
    let up = tick(&mut reader).await;
    walk.open(up);
    for rows in [0, 3, 0, 6] {
        let end = walk.page(&mut reader, rows).await;
        assert_eq!((end.rows as usize, end.stop), (rows, PageStop::Cut));
    }
    walk.page(&mut reader, usize::MAX).await;
    assert_eq!(walk.ids(), ids);
}

/// Many large rows behind a break cost the reader little, and it reads on as if nothing had been.
pub async fn b133_large_rows_behind_a_break<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let mut writer = fixture.begin().await;
    let large = NewMessage { payload: Some(vec![7; 1 << 20]), ..NewMessage::keyed("large") };
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(writer.enqueue(&large).await);
    }
    writer.commit().await;
    let mut walk = Walk::new(100);
    let up = tick(&mut reader).await;
    walk.open(up);
    for _ in 0..5 {
        assert_eq!(walk.page(&mut reader, 1).await.stop, PageStop::Cut);
        reader.sight().await.expect("the reader is usable");
    }
    walk.page(&mut reader, usize::MAX).await;
    assert_eq!(walk.ids(), ids);
}

/// A page's future may be dropped at any point; nothing of it reaches a later page.
pub async fn b149_a_page_that_is_dropped_midway<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let ids = commit(fixture, 400).await;
    for polls in 1..=6 {
        let mut walk = Walk::new(1_000);
        let up = tick(&mut reader).await;
        walk.open(up);
        let plan = plan(&walk.position, walk.reading, 1_000).expect("an open window");
        {
            let slots = [0..=255];
            let mut take = |_: &MessageRef<'_>| ControlFlow::Continue(());
            let mut page = pin!(reader.read_page(&plan, &slots, &mut take));
            for _ in 0..polls {
                let once = poll_fn(|context| Poll::Ready(page.as_mut().poll(context).is_ready()));
                if once.await {
                    break;
                }
                wait::pause().await;
            }
        }
        walk.page(&mut reader, usize::MAX).await;
        assert_eq!(walk.ids(), ids, "after {polls} polls");
    }
}

/// Rows of other slots are left out; the parts add up to the whole.
pub async fn only_the_asked_slots<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let mut held = fixture.begin().await;
    for i in 0..50 {
        held.enqueue(&NewMessage::keyed(&format!("held {i}"))).await;
    }
    commit(fixture, 200).await;
    let parts = [vec![0..=31, 64..=64, 200..=255], vec![32..=63, 65..=199]];
    let (mut walks, mut all) = (parts.clone().map(|slots| Walk { slots, ..Walk::new(64) }), Walk::new(64));
    for walk in walks.iter_mut().chain([&mut all]) {
        walk.window(&mut reader).await;
    }
    held.commit().await;
    for walk in walks.iter_mut().chain([&mut all]) {
        walk.window(&mut reader).await;
    }
    for (walk, slots) in walks.iter().zip(&parts) {
        assert!(walk.read.iter().all(|read| slots.iter().any(|range| range.contains(&read.slot))));
        assert!(walk.read.len() > 20, "both parts have rows");
    }
    let mut ids = [walks[0].ids(), walks[1].ids()].concat();
    ids.sort_unstable();
    let mut whole = all.ids();
    whole.sort_unstable();
    assert_eq!(ids, whole);
    assert_eq!(whole.len(), 250);
}

/// Ids may jump; the reader seeks over the gap.
pub async fn b128_ids_beyond_32_and_53_bits<F: Fixture>(fixture: &mut F) {
    let mut reader = fixture.store().reader().await.expect("a reader");
    let mut walk = Walk::new(5);
    let mut ids = commit(fixture, 3).await;
    walk.window(&mut reader).await;
    for next in [(1_i64 << 31) - 4, (1 << 53) - 4] {
        fixture.skip_ids(next).await;
        let more = commit(fixture, 20).await;
        assert_eq!(more[0], next);
        ids.extend(more);
        walk.window(&mut reader).await;
        assert_eq!(walk.ids(), ids);
    }
    assert_eq!(reader.next_id(3, i64::MAX).await.expect("a seek"), Some((1 << 31) - 4));
    assert_eq!(reader.next_id(3, 4).await.expect("a seek"), None);
}

/// Writers that begin, write, commit and roll back at random, between the pages of a reader: everything that was
/// committed arrives once.
pub async fn random_schedules_are_complete<F: Fixture>(fixture: &mut F) {
    let seed = random::seed();
    eprintln!("seed {seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut reader = fixture.store().reader().await.expect("a reader");
    let (mut walk, mut committed) = (Walk::new(3), Vec::new());
    let mut open: Vec<(F::Writer, Vec<i64>)> = Vec::new();
    for _ in 0..600 {
        match dice.usize(..7) {
            0 if open.len() < 6 => open.push((fixture.begin().await, Vec::new())),
            1 | 2 if !open.is_empty() => {
                let at = dice.usize(..open.len());
                let (writer, ids) = &mut open[at];
                ids.push(writer.enqueue(&NewMessage::keyed("k")).await);
            }
            3 if !open.is_empty() => {
                let (writer, ids) = open.swap_remove(dice.usize(..open.len()));
                writer.commit().await;
                committed.extend(ids);
            }
            4 if !open.is_empty() && dice.usize(..3) == 0 => {
                let (writer, _) = open.swap_remove(dice.usize(..open.len()));
                writer.rollback().await;
            }
            5 => {
                let up = tick(&mut reader).await;
                walk.open(up);
            }
            _ if walk.position.up.is_some() => {
                let rows = dice.usize(..6);
                walk.page(&mut reader, rows).await;
            }
            _ => {}
        }
    }
    for (writer, ids) in open {
        writer.commit().await;
        committed.extend(ids);
    }
    while walk.position.up.is_some() {
        walk.page(&mut reader, usize::MAX).await;
    }
    walk.window(&mut reader).await;
    let mut ids = walk.ids();
    ids.sort_unstable();
    committed.sort_unstable();
    assert_eq!(ids, committed, "seed {seed}");
}
