//! The configuration as the rest of the relay reads it. Every field is described in `relay/fencepost.toml`, where
//! its default stands: the structs have no defaults of their own, so a field without a line there fails a test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_core::lane::LeaseTerms;
use serde::{Deserialize, Deserializer};

use super::{Database, Secret, units};

/// Everything that the relay can be told. Checked: all bounds hold, alone and together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[relay]`
    pub relay: Relay,
    /// `[[source]]`, at least one; names are unique.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    /// `[lease]`
    pub lease: Lease,
    /// `[kafka]`
    pub kafka: Kafka,
    /// `[http]`
    pub http: Http,
    /// `[log]`
    pub log: Log,
    /// `[retry]`
    pub retry: Retry,
}

/// The process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relay {
    /// Its name; the host's where the file has none.
    pub name: String,
    /// How long a stop waits for what is in flight.
    #[serde(deserialize_with = "units::duration")]
    pub grace: Duration,
}

/// One outbox in one database.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Unique.
    pub name: String,
    /// How to reach the database: from the url or its parts. Not a key of the file.
    #[serde(skip)]
    pub database: Database,
    /// Name of the schema, not quoted.
    pub schema: String,
    /// Longest wait for a connection with its checks.
    #[serde(deserialize_with = "units::duration")]
    pub connect_timeout: Duration,
    /// PostgreSQL's `statement_timeout`.
    #[serde(deserialize_with = "units::duration")]
    pub statement_timeout: Duration,
    /// PostgreSQL's `lock_timeout`.
    #[serde(deserialize_with = "units::duration")]
    pub lock_timeout: Duration,
    /// Marks within this time are merged.
    #[serde(deserialize_with = "units::duration")]
    pub mark_interval: Duration,
    /// Between looks at the log while messages come.
    #[serde(deserialize_with = "units::duration")]
    pub poll_busy: Duration,
    /// Between looks at rest; at least `poll_busy`.
    #[serde(deserialize_with = "units::duration")]
    pub poll_idle: Duration,
    /// Most messages of a page.
    pub page_rows: u32,
    /// Pages in flight at once.
    pub page_slots: usize,
    /// Most bytes of a page.
    #[serde(deserialize_with = "units::bytes")]
    pub page_bytes: u64,
    /// Publish only what is flushed.
    pub wait_for_flush: bool,
    /// CloudEvents source; the source's name where the file has none.
    pub ce_source: String,
}

/// Leases of lanes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Without renewal it ends after this.
    #[serde(deserialize_with = "units::duration")]
    pub length: Duration,
    /// Taken off one's own trust.
    #[serde(deserialize_with = "units::duration")]
    pub margin: Duration,
    /// Between renewals.
    #[serde(deserialize_with = "units::duration")]
    pub renew: Duration,
}

impl Lease {
    /// As `core` takes them.
    pub fn terms(&self) -> LeaseTerms {
        LeaseTerms { lease: self.length, margin: self.margin }
    }
}

/// The destination.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// host:port each; not empty where a relay runs.
    pub brokers: Vec<String>,
    /// `client.id`
    pub client_id: String,
    /// `linger.ms`; below a millisecond too.
    #[serde(deserialize_with = "units::duration")]
    pub linger: Duration,
    /// `compression.type`
    pub compression: Compression,
    /// Whether records carry `ce_*` headers.
    pub cloudevents: bool,
    /// What the record's timestamp is.
    pub timestamp: Timestamp,
    /// Unacknowledged for longer: purge, rebuild, send again.
    #[serde(deserialize_with = "units::duration")]
    pub delivery_deadline: Duration,
    /// How long the lookup of a topic may take.
    #[serde(deserialize_with = "units::duration")]
    pub route_timeout: Duration,
    /// `[kafka.tls]`
    pub tls: KafkaTls,
    /// `[kafka.sasl]`
    pub sasl: KafkaSasl,
    /// Other librdkafka properties. Any of them may be a secret.
    #[serde(deserialize_with = "properties")]
    pub properties: BTreeMap<String, Secret>,
}

impl Kafka {
    /// librdkafka's properties for `[kafka.tls]`, `[kafka.sasl]` and `[kafka.properties]`, by name.
    pub fn client_properties(&self) -> BTreeMap<String, Secret> {
        let mut all = self.security();
        all.extend(self.properties.clone());
        all
    }

    /// Those of `[kafka.tls]` and `[kafka.sasl]`; none where neither is used, so that `[kafka.properties]`
    /// may set them (for Kerberos or OAUTHBEARER).
    pub(super) fn security(&self) -> BTreeMap<String, Secret> {
        let (tls, sasl) = (&self.tls, &self.sasl);
        let protocol = match (tls.enabled, sasl.mechanism.is_some()) {
            (false, false) => return BTreeMap::new(),
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        };
        let file = |file: &Option<PathBuf>| file.as_ref().map(|path| Secret::new(path.display().to_string()));
        let text = |text: &Option<String>| text.as_ref().map(Secret::new);
        let all = [
            ("security.protocol", Some(Secret::new(protocol))),
            ("ssl.ca.location", file(&tls.ca_file)),
            ("ssl.certificate.location", file(&tls.cert_file)),
            ("ssl.key.location", file(&tls.key_file)),
            ("ssl.key.password", tls.key_password.clone()),
            ("sasl.mechanism", text(&sasl.mechanism)),
            ("sasl.username", text(&sasl.username)),
            ("sasl.password", sasl.password.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// `compression.type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not compressed.
    None,
    /// gzip
    Gzip,
    /// snappy
    Snappy,
    /// lz4
    Lz4,
    /// zstd
    Zstd,
}

impl Compression {
    /// Every codec.
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// As librdkafka names it.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// A record's timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timestamp {
    /// When it was sent; the event's time is in `ce_time`.
    Send,
    /// The event's time.
    Event,
}

/// TLS to the brokers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaTls {
    /// Whether it is used.
    pub enabled: bool,
    /// Authorities to trust; the system's where there is none.
    #[serde(deserialize_with = "units::path")]
    pub ca_file: Option<PathBuf>,
    /// Client certificate.
    #[serde(deserialize_with = "units::path")]
    pub cert_file: Option<PathBuf>,
    /// Its key.
    #[serde(deserialize_with = "units::path")]
    pub key_file: Option<PathBuf>,
    /// The key file's password.
    #[serde(deserialize_with = "units::secret")]
    pub key_password: Option<Secret>,
}

/// SASL towards the brokers. With a mechanism there are a user name and a password.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSasl {
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; none: no SASL.
    #[serde(deserialize_with = "units::text")]
    pub mechanism: Option<String>,
    /// Who.
    #[serde(deserialize_with = "units::text")]
    pub username: Option<String>,
    /// From the file or the environment.
    #[serde(deserialize_with = "units::secret")]
    pub password: Option<Secret>,
}

/// Health, readiness and metrics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Where it listens; none: nowhere.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// Work without progress for so long is not ready.
    #[serde(deserialize_with = "units::duration")]
    pub stall_after: Duration,
}

/// Logs, on standard error.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Their form.
    pub format: LogFormat,
    /// tracing's filter.
    pub level: String,
}

/// Form of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Backoff of everything that is tried again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// First wait.
    #[serde(deserialize_with = "units::duration")]
    pub base: Duration,
    /// Longest wait; at least `base`.
    #[serde(deserialize_with = "units::duration")]
    pub cap: Duration,
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    units::text(from)?.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

fn properties<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Secret>, D::Error> {
    let table = toml::Table::deserialize(from)?;
    let text = |value| match value {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(table.into_iter().map(|(key, value)| (key, Secret::new(text(value)))).collect())
}
