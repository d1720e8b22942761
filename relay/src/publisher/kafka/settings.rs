//! What a Kafka publisher is configured with: plain data, read from the relay's configuration.
//! Secrets are never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Settings of one publisher. Bounds are checked by
/// [`KafkaPublisher::validate`](super::KafkaPublisher::validate).
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `host:port`, separated by commas. Not empty.
    pub bootstrap_servers: String,
    /// Name that brokers show in their logs and quotas. Not empty.
    pub client_id: String,
    /// The source's name: `ce_source`. Not empty.
    pub source: String,
    /// Whether CloudEvents headers (`ce_*`, `content-type`) are written. Default: yes.
    pub cloud_events: bool,
    /// What a record's timestamp is. Default: the time of sending.
    pub record_time: RecordTime,
    /// How long the client waits to fill a batch; 0 to 100 ms. Default 0.5 ms.
    pub linger: Duration,
    /// Compression of record batches. Default lz4: it saves the broker more than it costs here.
    pub compression: Compression,
    /// Pages in flight at most; 1 to 64. Default 3.
    pub page_slots: usize,
    /// Rows of a page at most; 1 to 100,000. Default 2,000.
    pub page_rows: u32,
    /// How often the client tells its state, by which an unreachable cluster is noticed; 1 to 10 s. Default 5 s.
    pub statistics_interval: Duration,
    /// Patience of a topic's lookup; 100 ms to 60 s. Default 5 s.
    pub route_timeout: Duration,
    /// Further librdkafka properties (security, socket, batch sizes), by their librdkafka names. Those that
    /// would break a guarantee are refused.
    pub properties: BTreeMap<String, String>,
}

/// What a record's timestamp is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordTime {
    /// The moment at which the client takes the record. Retention and time lookups then follow the log.
    #[default]
    Sent,
    /// The event's own time where it has one, else when its row was written.
    Event,
}

/// Compression of record batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    #[default]
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// All, in the order in which the documentation names them.
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// librdkafka's name for it, and the one of the configuration.
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

impl KafkaSettings {
    /// The defaults, for a cluster and a source.
    pub fn new(bootstrap_servers: impl Into<String>, source: impl Into<String>) -> Self {
        KafkaSettings {
            bootstrap_servers: bootstrap_servers.into(),
            client_id: "fencepost".into(),
            source: source.into(),
            cloud_events: true,
            record_time: RecordTime::default(),
            linger: Duration::from_micros(500),
            compression: Compression::default(),
            page_slots: 3,
            page_rows: 2_000,
            statistics_interval: Duration::from_secs(5),
            route_timeout: Duration::from_secs(5),
            properties: BTreeMap::new(),
        }
    }

    /// Values that must not appear in any text.
    pub(super) fn secrets(&self) -> Vec<String> {
        let secret = |(name, value): (&String, &String)| is_secret(name).then(|| value.clone());
        self.properties.iter().filter_map(secret).filter(|value| !value.is_empty()).collect()
    }
}

/// Whether a property's value is a secret. Names of files are not, what may stand in them is.
pub(super) fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 7] = ["password", "secret", "passphrase", "key.pem", "jaas", "token", "oauthbearer.config"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part)) && !name.ends_with(".url") && !name.ends_with(".location")
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&'_ String, &'_ String)| {
            (name.clone(), if is_secret(name) { "***".to_owned() } else { value.clone() })
        };
        f.debug_struct("KafkaSettings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("client_id", &self.client_id)
            .field("source", &self.source)
            .field("cloud_events", &self.cloud_events)
            .field("record_time", &self.record_time)
            .field("linger", &self.linger)
            .field("compression", &self.compression)
            .field("page_slots", &self.page_slots)
            .field("page_rows", &self.page_rows)
            .field("statistics_interval", &self.statistics_interval)
            .field("route_timeout", &self.route_timeout)
            .field("properties", &self.properties.iter().map(shown).collect::<BTreeMap<_, _>>())
            .finish()
    }
}

/// Why settings are not usable. No text has a secret in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A property that would break a guarantee.
    #[error("kafka property {name} is refused: {reason}; remove it")]
    Refused {
        /// Its name.
        name: String,
        /// What it would break, or where to set it instead.
        reason: &'static str,
    },
    /// A value outside its bounds.
    #[error("{name} must be {bounds}")]
    Bounds {
        /// Which setting.
        name: &'static str,
        /// What it may be.
        bounds: &'static str,
    },
    /// librdkafka does not know the property, or not this value of it, or was built without the feature.
    #[error("kafka property {name} is not usable: {message}")]
    Property {
        /// Its name.
        name: String,
        /// librdkafka's own message.
        message: String,
    },
    /// No client can be made of these settings (a missing file, a feature that was not built in).
    #[error("no Kafka client can be made of these settings: {0}")]
    Client(String),
}

/// Takes secrets out of texts that librdkafka wrote, and bounds their length.
#[derive(Clone, Default)]
pub(super) struct Scrubber(Vec<String>);

impl Scrubber {
    const CHARS_MAX: usize = 500;

    pub(super) fn new(secrets: Vec<String>) -> Self {
        Scrubber(secrets)
    }

    pub(super) fn clean(&self, text: &str) -> String {
        let scrubbed = self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"));
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        scrubbed.chars().map(printable).take(Self::CHARS_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let mut settings = KafkaSettings::new("k:1", "orders");
        let secret = [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.keystore.password",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.assertion.private.key.passphrase",
        ];
        for name in secret {
            settings.properties.insert(name.into(), "hunter2".into());
        }
        settings.properties.insert("ssl.ca.location".into(), "/ca.pem".into());
        let text = format!("{settings:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("/ca.pem") && text.contains("sasl.password"), "{text}");
        assert_eq!(settings.secrets().len(), secret.len());
    }

    #[test]
    fn names_of_files_and_addresses_are_no_secrets() {
        for name in
            ["ssl.key.location", "ssl.keystore.location", "sasl.oauthbearer.token.endpoint.url", "sasl.username"]
        {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn texts_are_scrubbed_and_bounded() {
        let scrubber = Scrubber::new(vec!["hunter2".into()]);
        assert_eq!(scrubber.clean("bad \"hunter2\"\nline"), "bad \"***\" line");
        assert_eq!(scrubber.clean(&"x".repeat(10_000)).len(), Scrubber::CHARS_MAX);
    }
}
