//! A relay that stands still past its lease while another takes over: whatever it does when it goes on
//! changes nothing, hands nothing over, and at worst repeats what it had handed over before.

use std::collections::{HashMap, HashSet};

use fencepost_integration::evidence::{Delivered, Traffic, fence, message_id};
use fencepost_integration::fleet::{LANES, Lease, SOON, Site, Watched};
use fencepost_integration::kafka::Record;
use fencepost_relay::failpoint::{self, Point};

/// What the client may hold of a relay that froze: three pages in flight and the one that is being read.
const IN_FLIGHT_MAX: usize = 4 * 100;
const LOST: &str = "fencepost_lost_leases_total";

/// How the first relay comes to stand still.
enum Freeze {
    /// From outside, anywhere.
    Signal,
    /// At that hit of a point of its loop.
    At(Point, u32),
    /// At that point, which a SIGTERM leads to.
    Stopping(Point),
}

/// What is left to look at after the frozen relay went on.
struct Takeover {
    site: Site,
    stale: Watched,
    successor: Watched,
    delivered: Delivered,
    /// Messages that were written after the freeze.
    after_freeze: HashSet<String>,
    /// Generations that the successor's claims ended.
    ended: HashMap<i16, i64>,
}

/// Freezes one relay under traffic, lets another take all lanes over, lets the first go on, and reads the topic.
async fn takeover(name: &str, freeze: Freeze) -> Takeover {
    let site = Site::new(name, Lease::Short).await;
    let traffic = Traffic::start(&site).await;
    let mut stale = match freeze {
        Freeze::Signal => site.start_watched("stale"),
        Freeze::At(point, hit) => site.start_watched_armed("stale", point, &format!("stop@{hit}")),
        Freeze::Stopping(point) => site.start_watched_armed("stale", point, "stop@1"),
    };
    match freeze {
        Freeze::Signal => {
            site.shared_by(&["stale"]).await;
            stale.reaches("fencepost_published_messages_total", "", 200.0).await;
            stale.process.stop().await;
        }
        Freeze::At(..) => {}
        Freeze::Stopping(_) => {
            stale.reaches("fencepost_published_messages_total", "", 200.0).await;
            stale.process.term();
        }
    }
    stale.process.stopped(SOON).await;
    let ended = site.generations().await.into_iter().collect();
    let frozen_at = site.clock().await;
    let successor = site.start_watched("successor");
    site.shared_by(&["successor"]).await;
    successor.reaches("fencepost_published_messages_total", "", 300.0).await;
    stale.process.cont();
    if matches!(freeze, Freeze::Stopping(_)) {
        stale.process.exited(SOON).await;
    } else {
        // it is alive, so it gets its fair share of lanes again, under newer generations
        site.shared_by(&["stale", "successor"]).await;
    }
    let journal = traffic.end().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    let after_freeze = site.written_since(&frozen_at).await;
    Takeover { site, stale, successor, delivered, after_freeze, ended }
}

impl Takeover {
    async fn assert_fenced(&self) {
        self.delivered.assert_holds();
        self.delivered.assert_nothing_recorded_was_sent_again(&self.site).await;
        self.site.assert_fenced_log().await;
        for reason in ["mark_rejected", "renewal_rejected", "superseded"] {
            let lost = self.successor.metric(LOST, reason).await;
            assert_eq!(lost, Some(0.0), "the successor lost a lane to a stale relay: {reason}");
        }
        let stale: Vec<&Record> = self.delivered.records().iter().filter(|record| self.is_stale(record)).collect();
        let fresh: HashSet<_> =
            self.delivered.records().iter().filter(|record| !self.is_stale(record)).map(message_id).collect();
        for record in &stale {
            let id = message_id(record).to_string();
            assert!(!self.after_freeze.contains(&id), "message {id} was written after the freeze");
        }
        let late = self.late(&stale);
        assert!(late.len() <= IN_FLIGHT_MAX, "{} records of the stale relay came after its successor's", late.len());
        let news = late.iter().filter(|record| !fresh.contains(&message_id(record))).count();
        eprintln!("{} stale records, {} of them late, {news} of these not repeated since", stale.len(), late.len());
    }

    /// Sent under a generation that had been ended by the takeover.
    fn is_stale(&self, record: &Record) -> bool {
        let fence = fence(record);
        self.ended.get(&fence.lane).is_some_and(|generation| fence.generation <= *generation)
    }

    /// Stale records behind a record of their lane's next generation.
    fn late<'a>(&self, stale: &[&'a Record]) -> Vec<&'a Record> {
        let mut taken: HashMap<(i16, i32), i64> = HashMap::new();
        for record in self.delivered.records().iter().filter(|record| !self.is_stale(record)) {
            let first = taken.entry((fence(record).lane, record.partition)).or_insert(record.offset);
            *first = record.offset.min(*first);
        }
        let behind = |record: &&&Record| {
            taken.get(&(fence(record).lane, record.partition)).is_some_and(|first| record.offset > *first)
        };
        stale.iter().filter(behind).copied().collect()
    }
}

#[tokio::test]
async fn a_relay_frozen_past_its_lease_hands_nothing_more_over() {
    let takeover = takeover("sigstop", Freeze::Signal).await;
    takeover.assert_fenced().await;
    takeover.stale.reaches(LOST, "trust_ended", LANES as f64).await;
}

#[tokio::test]
async fn a_page_in_the_client_of_a_frozen_relay_only_repeats() {
    takeover("freeze_page", Freeze::At(failpoint::AFTER_PAGE, 5)).await.assert_fenced().await;
}

#[tokio::test]
async fn a_mark_that_froze_after_the_lease_check_is_rejected_and_counted() {
    let takeover = takeover("freeze_mark", Freeze::At(failpoint::BEFORE_MARK, 5)).await;
    takeover.assert_fenced().await;
    takeover.stale.reaches("fencepost_rejected_marks_total", "", 1.0).await;
}

#[tokio::test]
async fn a_renewal_that_froze_renews_nothing() {
    takeover("freeze_renew", Freeze::At(failpoint::BEFORE_RENEW, 3)).await.assert_fenced().await;
}

#[tokio::test]
async fn a_claim_that_froze_takes_nothing_from_its_rival() {
    takeover("freeze_claim", Freeze::At(failpoint::BEFORE_CLAIM, 4)).await.assert_fenced().await;
}

#[tokio::test]
async fn a_release_that_froze_releases_nothing() {
    let takeover = takeover("freeze_release", Freeze::Stopping(failpoint::BEFORE_RELEASE)).await;
    takeover.assert_fenced().await;
    let owners = takeover.site.generations().await;
    let next = |lane: &i16| takeover.ended.get(lane).map(|generation| generation + 1);
    assert!(owners.iter().all(|(lane, generation)| next(lane) == Some(*generation)), "{owners:?}");
}
