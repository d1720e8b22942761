//! One row for every key of the file: what kind of value it takes, within which bounds, and whether it may hold a
//! secret. A test keeps this table, the default file and its comments equal.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use fencepost_core::schema::Schema;

use super::tree::Value;
use super::units::{parse_bytes, parse_duration, show_bytes, show_duration};

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Duration(Duration, Duration),
    Bytes(u64, u64),
    Int(i64, i64),
    OneOf(&'static [&'static str]),
    Bool,
    /// Any text.
    Text,
    /// Any text, never shown.
    Secret,
    /// A text, a number or a boolean, never shown: librdkafka's to judge.
    Property,
    /// 1 to 64 characters of A-Z a-z 0-9 . _ -
    Name,
    /// The same, or empty.
    NameOrEmpty,
    /// What PostgreSQL takes as an identifier.
    Schema,
    /// IP:port, or empty.
    Address,
    /// A list of host:port.
    Brokers,
    /// What tracing's filter takes.
    Filter,
}

const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}
const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}
const fn min(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const NAME_CHARS_MAX: usize = 64;

/// Every key, by section and name as in the file.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("relay.name", Rule::NameOrEmpty),
    ("relay.grace", Rule::Duration(Duration::ZERO, min(10))),
    ("source.name", Rule::Name),
    ("source.url", Rule::Secret),
    ("source.url_file", Rule::Text),
    ("source.url_env", Rule::Text),
    ("source.host", Rule::Text),
    ("source.port", Rule::Int(1, 65_535)),
    ("source.database", Rule::Text),
    ("source.user", Rule::Text),
    ("source.password", Rule::Secret),
    ("source.password_file", Rule::Text),
    ("source.schema", Rule::Schema),
    ("source.tls", Rule::OneOf(&["disable", "prefer", "require", "verify-ca", "verify-full"])),
    ("source.tls_ca_file", Rule::Text),
    ("source.tls_cert_file", Rule::Text),
    ("source.tls_key_file", Rule::Text),
    ("source.connect_timeout", Rule::Duration(ms(100), min(1))),
    ("source.statement_timeout", Rule::Duration(ms(100), s(50))),
    ("source.lock_timeout", Rule::Duration(ms(50), s(50))),
    ("source.mark_interval", Rule::Duration(Duration::ZERO, s(1))),
    ("source.poll_busy", Rule::Duration(us(200), s(1))),
    ("source.poll_idle", Rule::Duration(ms(5), s(10))),
    ("source.page_rows", Rule::Int(1, 10_000)),
    ("source.page_slots", Rule::Int(1, 16)),
    ("source.page_bytes", Rule::Bytes(64 * KIB, 256 * MIB)),
    ("source.wait_for_flush", Rule::Bool),
    ("source.ce_source", Rule::Text),
    ("lease.length", Rule::Duration(s(1), min(10))),
    ("lease.margin", Rule::Duration(ms(20), min(1))),
    ("lease.renew", Rule::Duration(ms(50), min(5))),
    ("kafka.brokers", Rule::Brokers),
    ("kafka.client_id", Rule::Name),
    ("kafka.linger", Rule::Duration(Duration::ZERO, ms(100))),
    ("kafka.compression", Rule::OneOf(&["none", "gzip", "snappy", "lz4", "zstd"])),
    ("kafka.cloudevents", Rule::Bool),
    ("kafka.timestamp", Rule::OneOf(&["send", "event"])),
    ("kafka.delivery_deadline", Rule::Duration(s(1), min(60))),
    ("kafka.route_timeout", Rule::Duration(ms(100), min(1))),
    ("kafka.tls.enabled", Rule::Bool),
    ("kafka.tls.ca_file", Rule::Text),
    ("kafka.tls.cert_file", Rule::Text),
    ("kafka.tls.key_file", Rule::Text),
    ("kafka.tls.key_password", Rule::Secret),
    ("kafka.sasl.mechanism", Rule::OneOf(&["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])),
    ("kafka.sasl.username", Rule::Text),
    ("kafka.sasl.password", Rule::Secret),
    ("kafka.sasl.password_file", Rule::Text),
    ("kafka.properties.*", Rule::Property),
    ("http.listen", Rule::Address),
    ("http.stall_after", Rule::Duration(s(1), min(60))),
    ("log.format", Rule::OneOf(&["text", "json"])),
    ("log.level", Rule::Filter),
    ("retry.base", Rule::Duration(ms(10), min(1))),
    ("retry.cap", Rule::Duration(ms(10), min(10))),
];

/// The rule of a key.
pub(super) fn rule(name: &str) -> Option<Rule> {
    RULES.iter().find(|(key, _)| *key == name).map(|(_, rule)| *rule)
}

/// The key that was probably meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let leaf = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let same_leaf = |key: &&'static str| name.rsplit('.').next() == Some(leaf(key));
    let distance = |key: &&'static str| strsim::damerau_levenshtein(name, key);
    let keys = || RULES.iter().map(|(key, _)| *key);
    let close = keys().min_by_key(distance).filter(|key| distance(key) * 4 <= key.len());
    close.or_else(|| keys().find(same_leaf))
}

impl Rule {
    /// Whether a value of this kind may be a secret.
    pub(super) fn is_secret(self) -> bool {
        matches!(self, Rule::Secret | Rule::Property)
    }

    /// The bounds, as the file's comments give them.
    pub(super) fn bounds(self) -> Option<String> {
        match self {
            Rule::Duration(low, high) => Some(format!("{} to {}", show_duration(low), show_duration(high))),
            Rule::Bytes(low, high) => Some(format!("{} to {}", show_bytes(low), show_bytes(high))),
            Rule::Int(low, high) => Some(format!("{low} to {high}")),
            _ => None,
        }
    }

    /// The values that there are, if they can be listed.
    pub(super) fn choices(self) -> Option<String> {
        match self {
            Rule::OneOf(all) => Some(all.iter().filter(|one| !one.is_empty()).copied().collect::<Vec<_>>().join(", ")),
            Rule::Bool => Some("true, false".into()),
            _ => None,
        }
    }

    /// The value that a text means, for the layers that have only texts.
    pub(super) fn read(self, text: &str) -> Value {
        let as_text = || Value::Text(text.to_owned());
        let items = || text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned);
        match self {
            Rule::Int(..) => text.trim().parse().map_or_else(|_| as_text(), Value::Int),
            Rule::Bool => text.trim().parse().map_or_else(|_| as_text(), Value::Bool),
            Rule::Brokers => Value::List(items().collect()),
            _ => as_text(),
        }
    }

    /// Whether `value` keeps the rule.
    ///
    /// # Errors
    /// What the value must be. The text never quotes the value.
    pub(super) fn check(self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Rule::Duration(low, high), Value::Text(text)) => self.within(parse_duration(text)?, low, high),
            (Rule::Bytes(low, high), Value::Text(text)) => self.within(parse_bytes(text)?, low, high),
            (Rule::Int(low, high), Value::Int(number)) => self.within(*number, low, high),
            (Rule::Bool, Value::Bool(_)) | (Rule::Text | Rule::Secret, Value::Text(_)) => Ok(()),
            (Rule::Property, Value::Text(_) | Value::Int(_) | Value::Bool(_)) => Ok(()),
            (Rule::OneOf(all), Value::Text(text)) if all.contains(&text.as_str()) => Ok(()),
            (Rule::NameOrEmpty, Value::Text(text)) if text.is_empty() || is_name(text) => Ok(()),
            (Rule::Name, Value::Text(text)) if is_name(text) => Ok(()),
            (Rule::Schema, Value::Text(text)) if Schema::new(text).is_ok() => Ok(()),
            (Rule::Address, Value::Text(text)) if text.is_empty() || text.parse::<SocketAddr>().is_ok() => Ok(()),
            (Rule::Brokers, Value::List(list)) if list.iter().all(|broker| is_host_and_port(broker)) => Ok(()),
            (Rule::Filter, Value::Text(text)) if crate::telemetry::is_filter(text) => Ok(()),
            _ => Err(format!("must be {self}")),
        }
    }

    fn within<T: PartialOrd>(self, value: T, low: T, high: T) -> Result<(), String> {
        if (low..=high).contains(&value) { Ok(()) } else { Err(format!("must be {self}")) }
    }
}

/// What a value must be, to stand after "must be".
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = self.bounds().or(self.choices()).unwrap_or_default();
        match self {
            Rule::Duration(..) => write!(f, "a duration with its unit, {bounds}"),
            Rule::Bytes(..) => write!(f, "a size with its unit, {bounds}"),
            Rule::Int(..) => write!(f, "a whole number, {bounds}"),
            Rule::OneOf(all) if all.contains(&"") => write!(f, "empty or one of {bounds}"),
            Rule::OneOf(_) => write!(f, "one of {bounds}"),
            Rule::Bool => f.write_str("true or false"),
            Rule::Text | Rule::Secret => f.write_str("a text"),
            Rule::Property => f.write_str("a text, a number or a boolean"),
            Rule::Name => f.write_str("1 to 64 characters of A-Z a-z 0-9 . _ -"),
            Rule::NameOrEmpty => f.write_str("empty or 1 to 64 characters of A-Z a-z 0-9 . _ -"),
            Rule::Schema => {
                f.write_str("1 to 63 bytes that don't begin with pg_, without control characters, ' \\ or $")
            }
            Rule::Address => f.write_str("empty or an IP address with a port, such as 127.0.0.1:8390"),
            Rule::Brokers => f.write_str("a list of host:port, such as [\"broker-1:9092\"]"),
            Rule::Filter => f.write_str("a level (error, warn, info, debug, trace) or a list of module=level"),
        }
    }
}

pub(super) fn is_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(legal)
}

fn is_host_and_port(broker: &str) -> bool {
    let legal = |host: &str| !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "/@,\"".contains(c));
    broker.rsplit_once(':').is_some_and(|(host, port)| legal(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
}
