//! Connections to the database that are cut at every point of a statement, in both directions: what was saved
//! although its reply was lost is recognised, nothing is lost, and only what was not on record is repeated.

use fencepost_integration::env;
use fencepost_integration::evidence::{Delivered, Traffic};
use fencepost_integration::fleet::{Lease, SOON, Site, Watched};
use fencepost_integration::proxy::{Direction, Proxy};
use fencepost_integration::wait;

/// Words of the statements as they are prepared, which each connection does once.
const MARK: &[u8] = b"'mark', l.generation";
const CLAIM: &[u8] = b"'fence', t.generation";
/// What a lost connection may repeat: three pages in flight, the one that is being read, and what was
/// acknowledged within the mark interval.
const REPEATS_MAX: u64 = 5 * 100;
const PUBLISHED: &str = "fencepost_published_messages_total";

/// A step of a sweep, longer in shorter runs.
fn step(full: f64) -> usize {
    (full / env::scale()).ceil() as usize
}

async fn behind_a_proxy(name: &str, lease: Lease) -> (Site, Proxy) {
    let site = Site::new(name, lease).await;
    let proxy = Proxy::to(site.database.server_address()).await;
    (site.through(&proxy.address()), proxy)
}

async fn makes_progress(relay: &Watched, messages: f64) {
    let before = relay.metric(PUBLISHED, "").await.unwrap_or_default();
    relay.reaches(PUBLISHED, "", before + messages).await;
}

/// Any statement of any of the relay's connections, logins and checks included.
#[tokio::test]
async fn connections_cut_after_any_number_of_bytes_lose_nothing() {
    let (site, proxy) = behind_a_proxy("cuts", Lease::Medium).await;
    let traffic = Traffic::start(&site).await;
    let relay = site.start_watched("relay");
    makes_progress(&relay, 100.0).await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        for (number, bytes) in (0..4_000).step_by(step(20.0)).enumerate() {
            let before = proxy.cuts();
            proxy.cut_after(direction, bytes);
            wait::until(SOON, "the cut", async || proxy.cuts() > before).await;
            // the others hit connections while they are made
            if number % 3 == 0 {
                makes_progress(&relay, 1.0).await;
            }
        }
    }
    let journal = traffic.end().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    let verdict = delivered.assert_holds();
    let bound = proxy.cuts() * REPEATS_MAX;
    assert!(verdict.repeats <= bound, "more than {bound} repeats:\n{verdict}");
    delivered.assert_nothing_recorded_was_sent_again(&site).await;
    site.assert_fenced_log().await;
    eprintln!("{} cuts, {} of {} messages repeated", proxy.cuts(), verdict.repeats, verdict.committed);
}

/// One message at a time, each with a mark that is cut a few bytes later than the one before, until a reply
/// comes through.
async fn marks_cut(name: &str, direction: Direction, step: usize) -> (usize, usize) {
    let (site, proxy) = behind_a_proxy(name, Lease::Long).await;
    let relay = site.start_watched("relay");
    site.shared_by(&["relay"]).await;
    let (mut messages, mut reader) = (0, site.topic.reader());
    for bytes in (0..).step_by(step) {
        // on new connections, which have not prepared the mark yet
        let (before, opened) = (proxy.cuts(), proxy.opened());
        proxy.cut_all();
        wait::until(SOON, "new connections", async || proxy.opened() >= opened + 3).await;
        proxy.cut_once_said(MARK, direction, bytes);
        site.enqueue(&format!("message {messages}")).await;
        messages += 1;
        site.recorded().await;
        if proxy.cuts() == before {
            break;
        }
    }
    let cuts = messages - 1;
    assert!(cuts > 3, "the sweep never met a statement");
    assert_eq!(site.messages_on_record().await, messages as i64, "each message is on record once");
    assert_eq!(relay.metric("fencepost_lost_leases_total", "").await, Some(0.0));
    site.assert_fenced_log().await;
    let records = reader.read_to_end(SOON).await.len();
    (cuts, records - messages)
}

#[tokio::test]
async fn a_mark_whose_reply_was_lost_is_recognised() {
    let (cuts, repeats) = marks_cut("mark_reply", Direction::ToClient, step(4.0)).await;
    eprintln!("{cuts} replies cut, {repeats} messages repeated");
    assert!(repeats < cuts, "not one of {cuts} marks without a reply was saved and recognised");
}

#[tokio::test]
async fn a_mark_that_was_cut_on_its_way_is_written_anew() {
    let (cuts, repeats) = marks_cut("mark_request", Direction::ToServer, step(16.0)).await;
    eprintln!("{cuts} requests cut, {repeats} messages repeated");
    assert!(repeats > 0 && repeats <= cuts, "{repeats} repeats of {cuts} marks that did not arrive");
}

/// The relay takes the lane that the table says is its own, without waiting a minute for the lease's end.
#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_made_again_at_once() {
    for direction in [Direction::ToClient, Direction::ToServer] {
        let (site, proxy) = behind_a_proxy("claims", Lease::Long).await;
        let traffic = Traffic::start(&site).await;
        // the lengths of a claim's reply and request; the cuts behind them hit the statements that follow
        let (upto, full) = if direction == Direction::ToClient { (800, 8.0) } else { (3_600, 36.0) };
        let mut cuts = 0;
        for bytes in (0..upto).step_by(step(full)) {
            proxy.cut_once_said(CLAIM, direction, bytes);
            let mut relay = site.start("relay");
            site.shared_by(&["relay"]).await;
            relay.term();
            assert_eq!(relay.exited(SOON).await.code(), Some(0), "{}", relay.log());
            proxy.disarm();
            cuts = proxy.cuts();
        }
        assert!(cuts > 3, "the sweep never met a statement");
        let _relay = site.start("last");
        let journal = traffic.end().await;
        Delivered::all(&site, journal, SOON).await.assert_holds_without_repeats();
        site.assert_fenced_log().await;
        eprintln!("{cuts} claims cut, {direction:?}");
    }
}
