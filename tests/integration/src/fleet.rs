//! Relays at work: a source (a database and a topic of one test) and as many real `fencepost run` processes
//! on it as a test likes, watched through SQL, `/ready` and `/metrics`.

use std::collections::HashSet;
use std::time::Duration;

use fencepost_core::audit::choose;
use fencepost_core::lane::LaneId;
use fencepost_relay::failpoint::Point;
use fencepost_relay::store::postgres::{PostgresSettings, PostgresStore};
use fencepost_relay::store::{Housekeeper, Store};
use sqlx::PgConnection;

use crate::database::TestDatabase;
use crate::kafka::{Kafka, TestTopic};
use crate::process::{Fencepost, HttpAnswer, Launch, http_get};
use crate::{env, random, wait};

/// For what should take a moment, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
/// Lanes that the migrations make.
pub const LANES: usize = 8;

/// What the relays of one test work on, and how they are set up.
pub struct Site {
    /// The outbox.
    pub database: TestDatabase,
    /// Where its messages go.
    pub topic: TestTopic,
    url: String,
    brokers: String,
    settings: Vec<String>,
}

/// How long leases last, and what else follows from it.
#[derive(Clone, Copy)]
pub enum Lease {
    /// A second: the shortest that may be configured, for tests that wait for it to run out.
    Short,
    /// Two seconds: a busy machine does not lose it by accident as easily.
    Medium,
    /// A minute: a lane that changes hands sooner was given back.
    Long,
}

impl Lease {
    /// Its length.
    pub fn length(self) -> Duration {
        Duration::from_secs(match self {
            Lease::Short => 1,
            Lease::Medium => 2,
            Lease::Long => 60,
        })
    }

    fn settings(self) -> Vec<String> {
        let (renew, margin, statement) = match self {
            Lease::Short => ("200ms", "100ms", "500ms"),
            Lease::Medium => ("400ms", "200ms", "1s"),
            Lease::Long => ("500ms", "2s", "5s"),
        };
        vec![
            format!("lease.length={}s", self.length().as_secs()),
            format!("lease.renew={renew}"),
            format!("lease.margin={margin}"),
            format!("source.0.statement_timeout={statement}"),
            format!("source.0.lock_timeout={statement}"),
        ]
    }
}

impl Site {
    /// A database and a topic of four partitions on the shared servers.
    ///
    /// # Panics
    /// When they can't be made.
    pub async fn new(name_hint: &str, lease: Lease) -> Self {
        let database = TestDatabase::create(name_hint).await;
        let topic = Kafka::shared().topic(name_hint, 4).await;
        Self::of(database, topic, &env::kafka(), lease)
    }

    /// On this database and this topic, which relays reach through `brokers`. Retries are quick.
    pub fn of(database: TestDatabase, topic: TestTopic, brokers: &str, lease: Lease) -> Self {
        let url = database.url();
        let mut settings = lease.settings();
        // small pages: several are in flight whenever something happens
        settings.extend(["retry.base=20ms", "retry.cap=500ms", "source.0.page_rows=100"].map(String::from));
        Site { database, topic, url, brokers: brokers.into(), settings }
    }

    /// Relays get this setting too, as `key=value`.
    pub fn with(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Relays reach the database at this address, `host:port`: through a proxy.
    pub fn through(mut self, address: &str) -> Self {
        self.url = self.database.url_at(address);
        self
    }

    /// How a relay of this name is started; it answers over HTTP at `listen`, if that is not empty.
    fn launch(&self, name: &str, listen: &str) -> Launch {
        let mut args = vec!["run".to_owned()];
        let own = [format!("relay.name={name}"), format!("http.listen={listen}")];
        args.extend(self.settings.iter().chain(&own).flat_map(|setting| ["--set".to_owned(), setting.clone()]));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Launch::new(&args).env("FENCEPOST__SOURCE__0__URL", &self.url).env("FENCEPOST__KAFKA__BROKERS", &self.brokers)
    }

    /// Starts a relay.
    pub fn start(&self, name: &str) -> Fencepost {
        self.launch(name, "").start(name)
    }

    /// Starts a relay whose clocks are so many seconds ahead (negative: behind).
    pub fn start_at_offset(&self, name: &str, seconds: i64) -> Fencepost {
        self.launch(name, "").at_offset(seconds).start(name)
    }

    /// Starts a relay that does something at a failpoint.
    pub fn start_armed(&self, name: &str, point: Point, action: &str) -> Fencepost {
        self.launch(name, "").failpoint(point, action).start(name)
    }

    /// Starts a relay that answers over HTTP.
    pub fn start_watched(&self, name: &str) -> Watched {
        let address = format!("127.0.0.1:{}", random::free_port());
        Watched { process: self.launch(name, &address).start(name), address }
    }

    /// As [`Self::start_watched`]; these environment variables win over the site's addresses.
    pub fn start_watched_with(&self, name: &str, environment: &[(&str, &str)]) -> Watched {
        let address = format!("127.0.0.1:{}", random::free_port());
        let launch =
            environment.iter().fold(self.launch(name, &address), |launch, (name, value)| launch.env(name, value));
        Watched { process: launch.start(name), address }
    }

    /// As [`Self::start_watched`], with a failpoint.
    pub fn start_watched_armed(&self, name: &str, point: Point, action: &str) -> Watched {
        let address = format!("127.0.0.1:{}", random::free_port());
        Watched { process: self.launch(name, &address).failpoint(point, action).start(name), address }
    }

    /// One connection past any proxy.
    pub async fn connect(&self) -> PgConnection {
        self.database.connect().await
    }

    /// Waits until relays of these names hold all lanes, each about the same number.
    ///
    /// # Panics
    /// When they don't soon.
    pub async fn shared_by(&self, names: &[&str]) {
        let mut connection = self.connect().await;
        let fair = LANES / names.len();
        let what = format!("{names:?} share the lanes fairly");
        wait::until(SOON, &what, async || {
            let held = holders(&mut connection).await;
            let of = |name: &str| held.iter().filter(|owner| owner.as_deref().is_some_and(|o| is_of(o, name))).count();
            let counts: Vec<usize> = names.iter().map(|name| of(name)).collect();
            counts.iter().sum::<usize>() == LANES && counts.iter().all(|count| (fair..=fair + 1).contains(count))
        })
        .await;
    }

    /// Lane and generation of every lease, by lane.
    pub async fn generations(&self) -> Vec<(i16, i64)> {
        let sql = r#"SELECT lane, generation FROM "fencepost".lanes ORDER BY lane"#;
        sqlx::query_as(sql).fetch_all(&mut self.connect().await).await.expect("the lanes can be read")
    }

    /// What the database's clock says, for [`Self::written_since`].
    pub async fn clock(&self) -> String {
        let sql = "SELECT clock_timestamp()::text";
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.expect("the clock can be read")
    }

    /// Ids of the messages that were written since.
    pub async fn written_since(&self, clock: &str) -> HashSet<String> {
        let sql = r#"SELECT message_id::text FROM "fencepost".outbox WHERE created_at > $1::timestamptz"#;
        let ids = sqlx::query_scalar(sql).bind(clock).fetch_all(&mut self.connect().await).await;
        ids.expect("the log can be read").into_iter().collect()
    }

    /// Writes one message, with its text as its key.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn enqueue(&self, text: &str) {
        let sql = r#"SELECT "fencepost".enqueue(topic => $1, type => 'test', payload => $2::bytea, key => $2::bytea)"#;
        let query = sqlx::query(sql).bind(self.topic.name()).bind(text.as_bytes());
        query.execute(&mut self.connect().await).await.expect("a message can be written");
    }

    /// Waits until every message is covered by its lane's position.
    ///
    /// # Panics
    /// When one is not soon.
    pub async fn recorded(&self) {
        let sql = r#"
            SELECT count(*) FROM "fencepost".outbox o
              JOIN "fencepost".lanes l ON o.slot BETWEEN l.first_slot AND l.last_slot
              JOIN LATERAL (SELECT (x.pos_after).* FROM "fencepost".batches x WHERE x.lane = l.lane
                             ORDER BY x.n DESC LIMIT 1) p ON true
             WHERE NOT pg_visible_in_snapshot(o.xid, p.lo)
               AND NOT coalesce(o.id <= p.cursor_id AND pg_visible_in_snapshot(o.xid, p.up), false)"#;
        let mut connection = self.connect().await;
        wait::until(SOON, "everything is on record", async || {
            let waiting: Result<i64, _> = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
            waiting.expect("the log can be read") == 0
        })
        .await;
    }

    /// How many messages the marks of the batch log deliver.
    pub async fn messages_on_record(&self) -> i64 {
        let sql = r#"SELECT coalesce(sum(messages), 0)::bigint FROM "fencepost".batches WHERE kind = 'mark'"#;
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.expect("the batch log can be read")
    }

    /// Audits all that the batch log holds of every lane, in one stretch and in short ones, and returns how many messages the
    /// long stretches held.
    ///
    /// # Panics
    /// When the log holds another number of messages than was delivered.
    pub async fn assert_audited(&self) -> i64 {
        let settings = PostgresSettings::new(self.database.url(), Lease::Long.length());
        let store = PostgresStore::new(settings).expect("usable settings");
        let mut keeper = store.keeper().await.expect("a connection");
        let mut counted = 0;
        for lane in 0..LANES as i16 {
            let rows = keeper.recorded(LaneId(lane), 0, i64::MAX).await.expect("batch rows");
            let all = choose(LaneId(lane), &rows, i64::MAX).and_then(|choice| choice.window);
            counted += all.as_ref().map_or(0, |window| window.expected);
            let (mut windows, mut top) = (Vec::from_iter(all), 0);
            while top < rows.len() {
                let window = choose(LaneId(lane), &rows[top..], 500).and_then(|choice| choice.window);
                let next = window.as_ref().and_then(|window| rows.iter().position(|row| row.n == window.from_n));
                top = next.unwrap_or(top + 1);
                windows.extend(window);
            }
            for window in windows {
                let found = keeper.count(&window, i64::MAX - 1).await.expect("a count");
                assert_eq!(found, Some(window.expected), "{window:?}");
            }
        }
        counted
    }

    /// No row of a lane's batch log is by anybody but the owner of the newest generation at that time: numbers
    /// have no gaps, generations never fall, each begins with its fence row and belongs to one owner.
    ///
    /// # Panics
    /// Otherwise.
    pub async fn assert_fenced_log(&self) {
        let sql = r#"
            SELECT lane, n, kind FROM (
                SELECT lane, n, kind, generation, owner,
                       lag(n) OVER lane AS before, lag(generation) OVER lane AS generation_before,
                       lag(owner) OVER lane AS owner_before
                  FROM "fencepost".batches WINDOW lane AS (PARTITION BY lane ORDER BY n)) b
             WHERE n <> before + 1 OR generation < generation_before
                OR (kind = 'fence') IS DISTINCT FROM (generation > generation_before) AND before IS NOT NULL
                OR generation = generation_before AND owner IS DISTINCT FROM owner_before AND before > 0"#;
        let odd: Vec<(i16, i64, String)> =
            sqlx::query_as(sql).fetch_all(&mut self.connect().await).await.expect("the batch log can be read");
        assert!(odd.is_empty(), "rows of the batch log that break the fence: {odd:?}");
    }
}

/// Owner of each lane whose lease has not run out.
pub async fn holders(connection: &mut PgConnection) -> Vec<Option<String>> {
    let sql = r#"SELECT CASE WHEN lease_expires_at > clock_timestamp() THEN owner END
                   FROM "fencepost".lanes ORDER BY lane"#;
    sqlx::query_scalar(sql).fetch_all(connection).await.expect("the lanes can be read")
}

/// Whether an owner is a process of the relay of that name: a random part follows the name.
fn is_of(owner: &str, name: &str) -> bool {
    owner.strip_prefix(name).is_some_and(|rest| rest.starts_with(|c: char| !c.is_ascii_alphanumeric()))
}

/// A relay that answers over HTTP.
pub struct Watched {
    /// The process.
    pub process: Fencepost,
    address: String,
}

impl Watched {
    /// The answer to a GET of `path`; `None` while nobody answers.
    pub async fn get(&self, path: &str) -> Option<HttpAnswer> {
        http_get(&self.address, path).await
    }

    /// A metric's value, summed over all series whose labels contain `labels`; `None` while nobody answers.
    pub async fn metric(&self, name: &str, labels: &str) -> Option<f64> {
        let text = http_get(&self.address, "/metrics").await?.body;
        let series = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(labels));
        Some(series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }

    /// Waits until the metric has at least that value.
    ///
    /// # Panics
    /// When it has not soon.
    pub async fn reaches(&self, name: &str, labels: &str, value: f64) {
        let what = format!("{name}{{{labels}}} >= {value}");
        wait::until(SOON, &what, async || self.metric(name, labels).await.is_some_and(|found| found >= value)).await;
    }

    /// Whether `/ready` says yes.
    pub async fn is_ready(&self) -> bool {
        http_get(&self.address, "/ready").await.is_some_and(|answer| answer.status == 200)
    }

    /// Waits until `/ready` says yes.
    ///
    /// # Panics
    /// When it does not soon.
    pub async fn ready(&self) {
        wait::until(SOON, "the relay is ready", async || self.is_ready().await).await;
    }
}
