//! Theme 8: connections that several sessions share, through PgBouncer in transaction mode or in a pool.

use std::time::Duration;

use fencepost_integration::fleet::{Lease, SOON, Site};
use fencepost_integration::process::Launch;
use fencepost_integration::proxy::{Direction, Flow, Proxy};
use fencepost_integration::servers::PrivatePooler;
use fencepost_integration::wait;
use fencepost_producer::{Message, Outbox, has_left_transactions};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::task::JoinSet;

use super::{Came, DEADLINE, scaled_count};

/// Producers work behind a pooler that knows no prepared statements. A relay and its commands need a session of
/// their own: they see the pooler at once, every time, and say what to change.
#[tokio::test]
async fn b103_producers_work_behind_a_transaction_pooler_and_a_relay_names_it() {
    const PRODUCERS: i64 = 8;
    let site = Site::new("b103", Lease::Medium).await;
    let pooler = PrivatePooler::start(site.database.server_address(), &["default_pool_size=2"]);
    let url = site.database.url_at(pooler.address());
    let _relays = (site.start("one"), site.start("two"));
    let each = scaled_count(1_000, 50);
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let (url, topic) = (url.clone(), site.topic.name().to_owned());
        producers.spawn(async move {
            let options: PgConnectOptions = url.parse().expect("a URL");
            let mut connection = options.statement_cache_capacity(0).connect().await.expect("the pooler answers");
            for number in producer * each + 1..=(producer + 1) * each {
                produce(&mut connection, &topic, number).await.expect("no error that depends on who came before");
            }
        });
    }
    while let Some(producer) = producers.join_next().await {
        producer.expect("a producer did not panic");
    }
    Came::all(&site.topic, 1..=PRODUCERS * each, DEADLINE).await.assert_once();

    let refused = site.start_watched_with("pooled", &[("FENCEPOST__SOURCE__0__URL", &url)]);
    refused.process.logged("pooler", SOON).await;
    assert!(!refused.is_ready().await, "a source that is refused is not ready");
    for _ in 0..10 {
        let status = Launch::new(&["status"]).env("FENCEPOST__SOURCE__0__URL", &url).run();
        let words = String::from_utf8_lossy(&status.stderr).into_owned();
        assert!(status.status.code() == Some(4) && words.contains("pooler"), "{:?}: {words}", status.status);
    }
}

/// One message by each of the library's calls and by the SQL function, in turns.
async fn produce(connection: &mut PgConnection, topic: &str, number: i64) -> Result<(), Box<dyn std::error::Error>> {
    let outbox = Outbox::default().unprepared();
    let message = || Message::builder(topic, "test.pooled", number.to_string()).key("k").header("h", "v").build();
    let mut tx = connection.begin().await?;
    match number % 3 {
        0 => drop(outbox.enqueue(&mut tx, &message()?).await?),
        1 => drop(outbox.enqueue_many(&mut tx, &[message()?]).await?),
        _ => {
            let call = r#"SELECT "fencepost".enqueue(topic => $1, type => 't', payload => convert_to($2, 'UTF8'))"#;
            sqlx::query(call).bind(topic).bind(number.to_string()).persistent(false).execute(&mut *tx).await?;
        }
    }
    Ok(tx.commit().await?)
}

/// Calls that are dropped at any moment leave no transaction open on the pool's only connection, and nothing half,
/// with the library's guard in the pool. Without it sqlx 0.9.0 leaves the session in the cancelled `begin()`.
#[tokio::test]
async fn b107_calls_cancelled_in_flight_leave_no_open_transaction() {
    let site = Site::new("b107", Lease::Medium).await;
    let proxy = Proxy::to(site.database.server_address()).await;
    let options: PgConnectOptions = site.database.url_at(&proxy.address()).parse().expect("a URL");
    let options = options.application_name("b107");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .after_release(|connection, _| Box::pin(has_left_transactions(connection)));
    let pool = pool.connect_with(options).await.expect("the server answers");
    proxy.set(Direction::ToClient, Flow::Delayed(Duration::from_millis(50)));
    let mut watcher = site.connect().await;
    let mut committed = 0;
    // five milliseconds apart within the first answers, and then up to the commit's
    let limits = (0..=60).step_by(5).chain((100..=1_000).step_by(75));
    for (round, milliseconds) in (1..).zip(limits) {
        let limit = Duration::from_millis(milliseconds);
        let enqueued = tokio::select! {
            done = enqueue_one(&pool, site.topic.name()) => done.is_ok(),
            () = wait::hold(limit) => false,
        };
        committed += i64::from(enqueued);
        wait::until(SOON, "no session is left in a transaction", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'b107' \
                       AND datname = current_database() AND state LIKE 'idle in transaction%'";
            sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut watcher).await.expect("sessions") == 0
        })
        .await;
        let insert = sqlx::query(r#"INSERT INTO "fencepost".outbox (topic, type, payload) VALUES ($1, 'auto', 'x')"#);
        insert.bind(site.topic.name()).execute(&pool).await.expect("the connection is usable");
        let seen = r#"SELECT count(*) FROM "fencepost".outbox WHERE type = 'auto'"#;
        let seen: i64 = sqlx::query_scalar(seen).fetch_one(&mut watcher).await.expect("the log can be read");
        assert_eq!(seen, round, "an autocommit insert is visible at once, at {limit:?}");
    }
    assert!(committed > 0, "none was given the time to commit");
    let written = r#"SELECT count(*) FROM "fencepost".outbox WHERE type = 'b107'"#;
    let written: i64 = sqlx::query_scalar(written).fetch_one(&mut watcher).await.expect("the log can be read");
    assert!(written >= committed, "{written} of {committed}");
}

async fn enqueue_one(pool: &PgPool, topic: &str) -> Result<(), Box<dyn std::error::Error>> {
    let message = Message::builder(topic, "b107", "x").build()?;
    let mut tx = pool.begin().await?;
    Outbox::default().enqueue(&mut tx, &message).await?;
    Ok(tx.commit().await?)
}
