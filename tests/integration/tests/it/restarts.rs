//! Servers that stop, crash and come back under traffic: the relay reconnects by itself, and nothing is lost
//! or out of order. And stops of a relay whose broker is dead. The traffic has a thread beside the one that
//! waits for a server's script.

use std::time::Duration;

use fencepost_integration::database::TestDatabase;
use fencepost_integration::evidence::{Delivered, Traffic};
use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::kafka::Kafka;
use fencepost_integration::servers::{PrivateKafka, PrivatePostgres};
use fencepost_integration::{env, wait};
use sqlx::PgConnection;

const PUBLISHED: &str = "fencepost_published_messages_total";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_stops_and_crashes_and_comes_back() {
    let server = PrivatePostgres::start(&["fsync=on"]);
    let database = TestDatabase::create_on(server.url(), "restart").await;
    let topic = Kafka::shared().topic("pg_restart", 4).await;
    let site = Site::of(database, topic, &env::kafka(), Lease::Medium);
    let traffic = Traffic::start(&site).await;
    let relay = site.start_watched("relay");
    for round in 1..=4 {
        let before = relay.metric(PUBLISHED, "").await.unwrap_or_default();
        relay.reaches(PUBLISHED, "", before + 200.0).await;
        if round % 2 == 0 {
            server.stop();
        } else {
            server.crash();
        }
        wait::until(SOON, "the relay is not ready", async || !relay.is_ready().await).await;
        server.restart();
        relay.ready().await;
    }
    let journal = traffic.end().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    let verdict = delivered.assert_holds();
    delivered.assert_nothing_recorded_was_sent_again(&site).await;
    site.assert_fenced_log().await;
    eprintln!("{} of {} messages repeated", verdict.repeats, verdict.committed);
}

/// A site whose broker is its own.
async fn site_on(broker: &PrivateKafka, lease: Lease) -> Site {
    let database = TestDatabase::create("broker").await;
    let topic = broker.kafka().topic("broker", 4).await;
    Site::of(database, topic, broker.address(), lease)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_stops_and_dies_and_comes_back() {
    let broker = PrivateKafka::start(&[]);
    let site = site_on(&broker, Lease::Medium).await.with("lease.length=5s");
    let traffic = Traffic::start(&site).await;
    let mut relay = site.start_watched("relay");
    for round in 0..2 {
        let before = relay.metric(PUBLISHED, "").await.unwrap_or_default();
        relay.reaches(PUBLISHED, "", before + 200.0).await;
        if round == 0 {
            broker.kill9();
        } else {
            broker.stop();
        }
        // some messages wait in the client, and more behind them
        relay.reaches("fencepost_in_flight_messages", "", 1.0).await;
        relay.reaches("fencepost_lag_messages", "", 500.0).await;
        assert_waits_outside_transactions(&site).await;
        if round == 0 {
            // what the client held is gone with it: lost, had anything been marked before its acknowledgement
            relay.process.kill9();
            relay = site.start_watched("heir");
        }
        broker.restart();
        let before = relay.metric(PUBLISHED, "").await.unwrap_or_default();
        relay.reaches(PUBLISHED, "", before + 200.0).await;
    }
    let journal = traffic.end().await;
    let delivered = Delivered::all(&site, journal, SOON).await;
    let verdict = delivered.assert_holds();
    site.assert_fenced_log().await;
    assert_eq!(
        relay.metric("fencepost_lost_leases_total", "").await,
        Some(0.0),
        "an outage of the broker costs no lane"
    );
    eprintln!("{} of {} messages repeated", verdict.repeats, verdict.committed);
}

/// While the broker is awaited, no session of a relay has a transaction open.
async fn assert_waits_outside_transactions(site: &Site) {
    let mut connection = site.connect().await;
    let start = wait::now();
    let mut samples = 0;
    while start.elapsed() < Duration::from_millis(500) || samples < 50 {
        let open = open_for_long(&mut connection).await;
        assert!(open.is_empty(), "a transaction is open while the broker is awaited: {open:?}");
        samples += 1;
        wait::pause().await;
    }
}

/// Sessions of relays on this database that are in a transaction and between two statements, or in a
/// statement for longer than any takes.
async fn open_for_long(connection: &mut PgConnection) -> Vec<(i32, String)> {
    let sql = "SELECT pid, state FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'fencepost%'
                  AND (state LIKE 'idle in transaction%'
                       OR state = 'active' AND clock_timestamp() - xact_start > interval '400 ms')";
    sqlx::query_as(sql).fetch_all(connection).await.expect("the activity can be read")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_with_a_dead_broker_obeys_the_grace_and_a_second_signal_ends_it_at_once() {
    let broker = PrivateKafka::start(&[]);
    let site = site_on(&broker, Lease::Long).await.with("relay.grace=2s");
    let patient = site_on(&broker, Lease::Long).await.with("relay.grace=10m");
    let (mut relay, mut stubborn) = (site.start_watched("relay"), patient.start_watched("stubborn"));
    site.shared_by(&["relay"]).await;
    patient.shared_by(&["stubborn"]).await;
    let (traffic, other) = (Traffic::start(&site).await, Traffic::start(&patient).await);
    relay.reaches(PUBLISHED, "", 100.0).await;
    stubborn.reaches(PUBLISHED, "", 100.0).await;
    broker.kill9();
    relay.reaches("fencepost_in_flight_messages", "", 1.0).await;
    stubborn.reaches("fencepost_in_flight_messages", "", 1.0).await;
    let start = wait::now();
    relay.process.term();
    stubborn.process.term();
    let status = relay.process.exited(SOON).await;
    let took = start.elapsed();
    assert_eq!(status.code(), Some(0), "what was in flight was dropped, and everything given back");
    assert!(took > Duration::from_millis(1_200), "the grace was not used: {took:?}");
    assert!(took < Duration::from_secs(5), "the grace was not obeyed: {took:?}");
    assert!(stubborn.process.is_running(), "its grace is longer");
    let start = wait::now();
    stubborn.process.term();
    let status = stubborn.process.exited(SOON).await;
    assert!(start.elapsed() < Duration::from_secs(2), "the second signal: {:?}", start.elapsed());
    assert_eq!(status.code(), Some(1), "it was cut short");
    broker.restart();
    let _next = site.start("next");
    let (journal, _) = (traffic.end().await, other.end().await);
    Delivered::all(&site, journal, SOON).await.assert_holds();
}
