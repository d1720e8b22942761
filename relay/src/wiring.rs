//! Puts the parts together: each source's engine with its PostgreSQL store and its Kafka publisher, the HTTP
//! server, and the signals that end them. The only file that names adapters.

pub mod commands;

use std::rc::Rc;
use std::time::Duration;

use fencepost_core::schema::Schema;
use fencepost_core::worker::Terms;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use crate::config::{Compression, Config, Source as SourceConfig, Timestamp};
use crate::engine::{self, Backoff, Observer, Settings, Source, Stop};
use crate::http::{self, Sight};
use crate::metrics::Metrics;
use crate::publisher::kafka::{self, KafkaPublisher, KafkaSettings, RecordTime};
use crate::random::Random;
use crate::status::{Board, Reporter};
use crate::store::postgres::{PostgresSettings, PostgresStore};

/// Ids that the log moves on before an idle lane writes its position down.
const IDLE_MARK_IDS: i64 = 100_000;
/// Between looks at the lease table: how soon a lane that was given back is taken.
const SURVEY_EVERY: Duration = Duration::from_millis(500);
/// Least time between transaction ids that are taken for ticks alone.
const BURN_INTERVAL: Duration = Duration::from_millis(20);

/// Why the relay could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// `kafka.brokers` is empty.
    #[error("kafka.brokers is empty; name at least one host:port")]
    NoBrokers,
    /// The Kafka settings can't be used.
    #[error("the Kafka settings can't be used: {0}")]
    Kafka(String),
    /// The HTTP address can't be had, or a signal can't be caught.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A second signal, or the grace ended before everything was given back.
    #[error("stopped before everything was given back; leases run out by themselves")]
    CutShort,
}

/// Runs every source until a signal, then gives everything back. On a current-thread runtime.
///
/// # Errors
/// When it can't start, or was stopped before everything was given back.
pub async fn run(config: Config) -> Result<(), RunError> {
    if config.kafka.brokers.is_empty() {
        return Err(RunError::NoBrokers);
    }
    let (metrics, mut board) = (Metrics::new(), Board::default());
    let mut plans = Vec::new();
    for source in &config.sources {
        let kafka = kafka_settings(&config, source);
        KafkaPublisher::validate(&kafka).map_err(|error| RunError::Kafka(error.to_string()))?;
        plans.push(Plan {
            reporter: Rc::new(board.add(&source.name)),
            metrics: metrics.clone(),
            name: source.name.clone(),
            relay: config.relay.name.clone(),
            terms: terms(&config, source),
            postgres: postgres_settings(&config, source),
            kafka,
            backoff: (config.retry.base, config.retry.cap),
        });
    }
    let (quit, quitting) = watch::channel(false);
    let http = match config.http.listen {
        Some(address) => Some(http::bind(address).await?),
        None => None,
    };
    if let Some(listener) = http {
        let sight = Sight { board, metrics, stall_after: config.http.stall_after };
        let mut quitting = quitting.clone();
        tokio::spawn(http::serve(listener, sight, async move {
            // Ends with the sender too.
            let _ = quitting.wait_for(|quit| *quit).await;
        }));
    }
    let ended = LocalSet::new().run_until(supervise(plans, config.relay.grace)).await;
    let _ = quit.send(true);
    ended
}

/// Runs all sources and turns signals into stops.
async fn supervise(plans: Vec<Plan>, grace: Duration) -> Result<(), RunError> {
    let (stop, stopping) = watch::channel(Stop::No);
    let mut sources = JoinSet::new();
    for plan in plans {
        sources.spawn_local(plan.keep_running(stopping.clone()));
    }
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        () = all_done(&mut sources) => return Ok(()),
    }
    tracing::info!(grace_s = grace.as_secs(), "stopping: finishing what is in flight; a second signal ends at once");
    // A receiver is gone when its source is.
    let _ = stop.send(Stop::Drain);
    let last_part = (grace / 4).min(Duration::from_secs(3));
    let finish = async {
        if engine::within(grace.saturating_sub(last_part), all_done(&mut sources)).await.is_some() {
            return true;
        }
        tracing::warn!("the grace is nearly over: dropping what is in flight; it is sent again by the next owner");
        let _ = stop.send(Stop::Drop);
        engine::within(last_part, all_done(&mut sources)).await.is_some()
    };
    tokio::select! {
        done = finish => if done { Ok(()) } else { Err(RunError::CutShort) },
        _ = term.recv() => Err(RunError::CutShort),
        _ = int.recv() => Err(RunError::CutShort),
    }
}

async fn all_done(sources: &mut JoinSet<()>) {
    while let Some(ended) = sources.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a source's supervisor ended unexpectedly");
        }
    }
}

/// Everything that one source is made of.
struct Plan {
    name: String,
    relay: String,
    reporter: Rc<Reporter>,
    metrics: Metrics,
    terms: Terms,
    postgres: PostgresSettings,
    kafka: KafkaSettings,
    backoff: (Duration, Duration),
}

impl Plan {
    /// Runs the source, anew after each unexpected end, until a stop has been carried out. Another start
    /// is another owner: the former one's leases run out or are taken over by generation.
    async fn keep_running(self, stop: watch::Receiver<Stop>) {
        let mut random = Random::default();
        let mut backoff = Backoff::new(self.backoff.0, self.backoff.1);
        loop {
            let error = match self.run_once(&mut random, stop.clone()).await {
                Ok(()) => return,
                Err(error) => error,
            };
            tracing::error!(source = self.name, error, "source ended; starting it anew");
            self.reporter.update(|status| status.database = Err(error));
            let mut stopping = stop.clone();
            tokio::select! {
                biased;
                // Ends with the sender too: nobody is left to work for.
                _ = stopping.wait_for(|stop| *stop != Stop::No) => return,
                () = backoff.wait(&mut random) => {}
            }
        }
    }

    async fn run_once(&self, random: &mut Random, stop: watch::Receiver<Stop>) -> Result<(), String> {
        let store = PostgresStore::new(self.postgres.clone()).map_err(|error| error.to_string())?;
        let (publisher, events) = KafkaPublisher::start(&self.kafka).map_err(|error| error.to_string())?;
        let publisher = Rc::new(publisher);
        let settings = Settings {
            owner: random.owner(&self.relay),
            terms: self.terms.clone(),
            tags: random.tag(),
            backoff: self.backoff,
        };
        let observer = Observer::new(&self.name, self.metrics.source(&self.name), Rc::clone(&self.reporter));
        let ended = Source::run(settings, Rc::new(store), Rc::clone(&publisher), events, observer, stop).await;
        // Nothing is in flight after an orderly end; after another one a second is enough for a last outcome.
        publisher.close(Duration::from_secs(1)).await;
        ended.map_err(|error| error.to_string())
    }
}

fn terms(config: &Config, source: &SourceConfig) -> Terms {
    Terms {
        lease: config.lease.terms(),
        renew_every: config.lease.renew,
        survey_every: SURVEY_EVERY.min(config.lease.renew),
        mark_interval: source.mark_interval,
        sight_busy: source.poll_busy,
        sight_idle: source.poll_idle,
        burn_interval: BURN_INTERVAL,
        page_rows: source.page_rows,
        page_bytes: source.page_bytes,
        page_slots: source.page_slots,
        delivery_deadline: config.kafka.delivery_deadline,
        backoff_base: config.retry.base,
        backoff_cap: config.retry.cap,
        idle_mark_ids: IDLE_MARK_IDS,
    }
}

/// How to reach a source's database, for every verb of the command line.
pub fn postgres_settings(config: &Config, source: &SourceConfig) -> PostgresSettings {
    PostgresSettings {
        url: source.database.url(),
        password: source.database.password.as_ref().map(|password| password.expose().to_owned()),
        root_certificate: source.database.tls.ca_file.clone(),
        // The configuration has been checked by the same rule.
        schema: Schema::new(&source.schema).unwrap_or_default(),
        application_name: format!("fencepost {}", config.relay.name),
        connect_timeout: source.connect_timeout,
        statement_timeout: source.statement_timeout,
        lock_timeout: source.lock_timeout,
        wait_for_flush: source.wait_for_flush,
    }
}

fn kafka_settings(config: &Config, source: &SourceConfig) -> KafkaSettings {
    let kafka = &config.kafka;
    KafkaSettings {
        client_id: kafka.client_id.clone(),
        cloud_events: kafka.cloudevents,
        record_time: match kafka.timestamp {
            Timestamp::Send => RecordTime::Sent,
            Timestamp::Event => RecordTime::Event,
        },
        linger: kafka.linger,
        compression: match kafka.compression {
            Compression::None => kafka::Compression::None,
            Compression::Gzip => kafka::Compression::Gzip,
            Compression::Snappy => kafka::Compression::Snappy,
            Compression::Lz4 => kafka::Compression::Lz4,
            Compression::Zstd => kafka::Compression::Zstd,
        },
        route_timeout: kafka.route_timeout,
        page_slots: source.page_slots,
        page_rows: source.page_rows,
        properties: kafka
            .client_properties()
            .into_iter()
            .map(|(name, value)| (name, value.expose().to_owned()))
            .collect(),
        ..KafkaSettings::new(kafka.brokers.join(","), &source.ce_source)
    }
}
