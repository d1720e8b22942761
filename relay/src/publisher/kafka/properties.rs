//! From settings to librdkafka's configuration: our defaults, the user's properties over them, the
//! enforced ones over all, and the refusal by name of what would break a guarantee.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DefaultProducerContext};

use super::settings::{KafkaSettings, Scrubber, SettingsError};

/// Set last, whatever else was set: the guarantees stand on them.
const ENFORCED: &[(&str, &str)] = &[
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("enable.gapless.guarantee", "true"),
    // a local timeout would let a later message of the key overtake; the relay has a deadline of its own
    ("message.timeout.ms", "0"),
    // as Java clients do it: librdkafka's own default puts keys on other partitions
    ("partitioner", PARTITIONER),
    ("allow.auto.create.topics", "false"),
    // an unknown topic otherwise takes 30 s to fail
    ("topic.metadata.propagation.max.ms", "2000"),
    ("reconnect.backoff.max.ms", "1000"),
];

/// How keys find their partition; shown at start.
pub(super) const PARTITIONER: &str = "murmur2_random";

/// Kafka's default bound of a record batch is 1,048,588 bytes; the difference is the batch's own framing
/// and one record's. librdkafka's default of 1,000,000 would refuse messages that a producer may enqueue.
const MESSAGE_MAX_BYTES: &str = "1048000";

const REPEATS: &str = "records could be repeated or reordered by the client itself";
const ACKS: &str = "a record must not count as delivered before all in-sync replicas have it";
const DEADLINE: &str =
    "a timeout inside the client lets a later message of a key overtake; the relay has its own deadline";
const SAME_PARTITION: &str = "keys must land where Java clients put them";
const TRANSACTIONS: &str = "transactions belong to the exactly-once mode, which sets them itself";
const OUTCOMES: &str = "the relay learns every record's outcome through it";
const SETTING: &str = "it has a setting of its own in the relay's configuration";
const BOUNDED: &str = "the relay bounds it, so that failures show in time";

const REFUSED: &[(&str, &str)] = &[
    ("acks", ACKS),
    ("request.required.acks", ACKS),
    ("enable.idempotence", REPEATS),
    ("enable.gapless.guarantee", "after a failed record later ones of its key would be published before it"),
    ("max.in.flight", REPEATS),
    ("max.in.flight.requests.per.connection", REPEATS),
    ("retries", REPEATS),
    ("message.send.max.retries", REPEATS),
    ("queuing.strategy", "records of a key would leave out of order"),
    ("message.timeout.ms", DEADLINE),
    ("delivery.timeout.ms", DEADLINE),
    ("transactional.id", TRANSACTIONS),
    ("transaction.timeout.ms", TRANSACTIONS),
    ("partitioner", SAME_PARTITION),
    ("partitioner_cb", SAME_PARTITION),
    ("allow.auto.create.topics", "a deleted topic would come back with default settings"),
    ("topic.metadata.propagation.max.ms", BOUNDED),
    ("reconnect.backoff.max.ms", BOUNDED),
    ("statistics.interval.ms", SETTING),
    ("bootstrap.servers", SETTING),
    ("metadata.broker.list", SETTING),
    ("client.id", SETTING),
    ("linger.ms", SETTING),
    ("queue.buffering.max.ms", SETTING),
    ("compression.type", SETTING),
    ("compression.codec", SETTING),
    ("delivery.report.only.error", OUTCOMES),
    ("enabled_events", OUTCOMES),
    ("log.queue", "the relay reads the client's log through it"),
    ("opaque", OUTCOMES),
    ("interceptors", "an interceptor may change or drop records"),
    ("plugin.library.paths", "a plugin may change or drop records"),
    ("default_topic_conf", "topic properties are set by their own names"),
    ("test.mock.num.brokers", "messages would go to a broker in memory and be lost"),
    ("test.mock.broker.rtt", "messages would go to a broker in memory and be lost"),
];

/// Why a property is refused, if it is.
fn refusal(name: &str) -> Option<&'static str> {
    let listed = REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, reason)| *reason);
    listed.or(name.ends_with("_cb").then_some(OUTCOMES))
}

/// Checks bounds and names, and builds the configuration.
///
/// # Errors
/// The first setting or property that is not usable.
pub(super) fn configuration(settings: &KafkaSettings) -> Result<ClientConfig, SettingsError> {
    check_bounds(settings)?;
    for name in settings.properties.keys() {
        if let Some(reason) = refusal(name) {
            return Err(SettingsError::Refused { name: name.clone(), reason });
        }
    }
    let mut config = ClientConfig::new();
    let in_flight = settings.page_slots * settings.page_rows as usize;
    // outcomes that the polling thread has not taken yet count too: twice the window never fills
    config.set("queue.buffering.max.messages", in_flight.saturating_mul(2).clamp(100_000, 10_000_000).to_string());
    config.set("message.max.bytes", MESSAGE_MAX_BYTES);
    config.extend(settings.properties.clone());
    config
        .set("bootstrap.servers", &settings.bootstrap_servers)
        .set("client.id", &settings.client_id)
        .set("linger.ms", (settings.linger.as_secs_f64() * 1000.0).to_string())
        .set("compression.type", settings.compression.name())
        .set("statistics.interval.ms", settings.statistics_interval.as_millis().to_string());
    for (name, value) in ENFORCED {
        config.set(*name, *value);
    }
    Ok(config)
}

fn check_bounds(settings: &KafkaSettings) -> Result<(), SettingsError> {
    let bounds = |name, holds: bool, bounds| if holds { Ok(()) } else { Err(SettingsError::Bounds { name, bounds }) };
    let named = |text: &str| !text.trim().is_empty() && !text.contains('\0');
    let millis = Duration::from_millis;
    bounds("kafka.bootstrap_servers", named(&settings.bootstrap_servers), "host:port, separated by commas")?;
    bounds("kafka.client_id", named(&settings.client_id), "a name, not empty")?;
    bounds("source name", named(&settings.source), "a name, not empty")?;
    bounds("kafka.linger", settings.linger <= millis(100), "0 to 100 ms")?;
    bounds("kafka.page_slots", (1..=64).contains(&settings.page_slots), "1 to 64")?;
    bounds("kafka.page_rows", (1..=100_000).contains(&settings.page_rows), "1 to 100000")?;
    let statistics = (millis(1_000)..=millis(10_000)).contains(&settings.statistics_interval);
    bounds("kafka.statistics_interval", statistics, "1 to 10 s")?;
    let route = (millis(100)..=millis(60_000)).contains(&settings.route_timeout);
    bounds("kafka.route_timeout", route, "100 ms to 60 s")
}

/// Makes a client of the configuration that connects to nobody, and drops it: librdkafka checks files,
/// mechanisms and combinations only there.
///
/// # Errors
/// librdkafka's own message, without secrets.
pub(super) fn try_client(config: &ClientConfig, scrubber: &Scrubber) -> Result<(), SettingsError> {
    let mut config = config.clone();
    config.remove("bootstrap.servers");
    let made: Result<BaseProducer<DefaultProducerContext>, KafkaError> = config.create();
    made.map(drop).map_err(|error| settings_error(error, scrubber))
}

/// librdkafka's error as ours: the property's name and message, never its value.
pub(super) fn settings_error(error: KafkaError, scrubber: &Scrubber) -> SettingsError {
    match error {
        KafkaError::ClientConfig(_, message, name, _value) => {
            SettingsError::Property { name, message: scrubber.clean(&message) }
        }
        KafkaError::ClientCreation(message) => SettingsError::Client(scrubber.clean(&message)),
        // a NUL somewhere: the error itself would show the value
        KafkaError::Nul(_) => SettingsError::Client("a property contains a NUL character".into()),
        other => SettingsError::Client(scrubber.clean(&other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Compression;
    use super::*;

    fn with(name: &str, value: &str) -> KafkaSettings {
        let mut settings = KafkaSettings::new("127.0.0.1:1", "orders");
        settings.properties.insert(name.into(), value.into());
        settings
    }

    fn validate(settings: &KafkaSettings) -> Result<(), SettingsError> {
        let scrubber = Scrubber::new(settings.secrets());
        try_client(&configuration(settings)?, &scrubber)
    }

    #[test]
    fn b51_what_breaks_a_guarantee_is_refused_by_name_with_its_reason() {
        for (name, reason) in REFUSED {
            let refused = configuration(&with(name, "1")).map(drop);
            assert_eq!(refused, Err(SettingsError::Refused { name: (*name).into(), reason }), "{name}");
        }
        for name in ["dr_msg_cb", "stats_cb", "oauthbearer_token_refresh_cb"] {
            assert!(matches!(configuration(&with(name, "1")), Err(SettingsError::Refused { .. })), "{name}");
        }
    }

    #[test]
    fn every_enforced_property_is_refused_and_set() {
        let config = configuration(&KafkaSettings::new("127.0.0.1:1", "orders")).unwrap();
        for (name, value) in ENFORCED {
            assert!(refusal(name).is_some(), "{name}");
            assert_eq!(config.get(name), Some(*value), "{name}");
        }
    }

    #[test]
    fn other_properties_pass_and_defaults_give_way() {
        let mut settings = with("socket.keepalive.enable", "true");
        settings.properties.insert("queue.buffering.max.messages".into(), "100".into());
        settings.properties.insert("batch.size".into(), "20000".into());
        let config = configuration(&settings).unwrap();
        assert_eq!(config.get("socket.keepalive.enable"), Some("true"));
        assert_eq!(config.get("queue.buffering.max.messages"), Some("100"));
        assert_eq!(config.get("linger.ms"), Some("0.5"));
        assert_eq!(validate(&settings), Ok(()));
    }

    #[test]
    fn unknown_names_and_bad_values_get_librdkafkas_own_message() {
        let Err(SettingsError::Property { name, message }) = validate(&with("sokcet.timeout.ms", "1")) else {
            panic!("a property that does not exist was taken");
        };
        assert_eq!(name, "sokcet.timeout.ms");
        assert!(message.contains("No such configuration property"), "{message}");
        let error = validate(&with("socket.timeout.ms", "soon")).unwrap_err().to_string();
        assert!(error.contains("socket.timeout.ms"), "{error}");
    }

    #[test]
    fn no_error_shows_a_secret() {
        let secret = "hunter2-\u{1}";
        for name in ["ssl.key.pem", "sasl.oauthbearer.config", "ssl.keystore.password", "sasl.password"] {
            let mut settings = with(name, secret);
            settings.properties.insert("security.protocol".into(), "SASL_SSL".into());
            settings.properties.insert("sasl.mechanism".into(), "OAUTHBEARER".into());
            settings.properties.insert("ssl.keystore.location".into(), "/nowhere".into());
            let error = validate(&settings).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{name}");
        }
        let error = validate(&with("sasl.password", "hunter2\0")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn b148_all_five_codecs_tls_and_sasl_are_built_in_or_refused() {
        for compression in Compression::ALL {
            let settings = KafkaSettings { compression, ..KafkaSettings::new("127.0.0.1:1", "orders") };
            assert_eq!(validate(&settings), Ok(()), "{compression:?}");
        }
        for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] {
            for protocol in ["SASL_PLAINTEXT", "SASL_SSL"] {
                let mut settings = with("sasl.mechanism", mechanism);
                settings.properties.insert("security.protocol".into(), protocol.into());
                settings.properties.insert("sasl.username".into(), "relay".into());
                settings.properties.insert("sasl.password".into(), "secret".into());
                assert_eq!(validate(&settings), Ok(()), "{mechanism} over {protocol}");
            }
        }
        let mut kerberos = with("sasl.mechanism", "GSSAPI");
        kerberos.properties.insert("security.protocol".into(), "SASL_PLAINTEXT".into());
        assert_eq!(validate(&kerberos).is_ok(), cfg!(feature = "gssapi"), "{:?}", validate(&kerberos));
    }

    #[test]
    fn values_outside_their_bounds_name_the_setting() {
        let base = || KafkaSettings::new("127.0.0.1:1", "orders");
        let cases = [
            (KafkaSettings { bootstrap_servers: " ".into(), ..base() }, "kafka.bootstrap_servers"),
            (KafkaSettings { client_id: String::new(), ..base() }, "kafka.client_id"),
            (KafkaSettings { source: String::new(), ..base() }, "source name"),
            (KafkaSettings { linger: Duration::from_millis(101), ..base() }, "kafka.linger"),
            (KafkaSettings { page_slots: 0, ..base() }, "kafka.page_slots"),
            (KafkaSettings { page_rows: 100_001, ..base() }, "kafka.page_rows"),
            (KafkaSettings { statistics_interval: Duration::from_secs(11), ..base() }, "kafka.statistics_interval"),
            (KafkaSettings { route_timeout: Duration::ZERO, ..base() }, "kafka.route_timeout"),
        ];
        for (settings, expected) in cases {
            let Err(SettingsError::Bounds { name, .. }) = configuration(&settings) else {
                panic!("{expected} was taken")
            };
            assert_eq!(name, expected);
        }
    }
}
