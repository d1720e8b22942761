//! What must hold before anything starts: each value within its bounds, no two that exclude each other, and the
//! sizes of times against one another.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::Faults;
use super::rules::{Rule, rule};
use super::tree::{Origin, PROPERTIES, Path, Tree, Value, rivals};
use super::units::show_duration;
use super::{Config, ConfigErrors};

/// Each value by its rule, and groups of which one may be set.
///
/// # Errors
/// Every fault.
pub(super) fn values(tree: &Tree) -> Result<(), ConfigErrors> {
    let mut faults = Faults::default();
    for (path, entry) in &tree.entries {
        let Some(rule) = rule(&path.rule_name()) else { continue };
        if let Err(why) = rule.check(&entry.value) {
            let said = quoted(rule, &entry.value).map_or(String::new(), |value| format!(" is {value},"));
            let why = why.strip_prefix("must be").map_or(format!(" {why}"), |rest| format!(" must be{rest}"));
            faults.add(Some(&entry.origin), format!("{path}{said}{why}"));
        }
        // Reported once, at the last of the two.
        let rival = rivals(path).find(|rival| rival < path && tree.text(rival).is_some());
        if let Some(rival) = rival.filter(|_| !entry.value.is_unset()) {
            faults.add(Some(&entry.origin), format!("{path} and {rival} are both set: give one of them"));
        }
    }
    faults.check()
}

/// The value as the user wrote it, unless it may be a secret.
pub(super) fn quoted(rule: Rule, value: &Value) -> Option<String> {
    match value {
        _ if rule.is_secret() => None,
        Value::Text(text) => Some(format!("{text:?}")),
        Value::Int(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::List(items) => Some(format!("{items:?}")),
    }
}

/// What must hold between values.
///
/// # Errors
/// Every fault.
pub(super) fn together(config: &Config, tree: &Tree) -> Result<(), ConfigErrors> {
    let mut check = Together { tree, faults: Faults::default() };
    check.lease(config);
    for source in 0..config.sources.len() {
        check.source(config, source);
    }
    let retry = &config.retry;
    check.at_most("retry.base", retry.base, "retry.cap", retry.cap);
    check.kafka(config);
    check.names(config);
    check.faults.check()
}

struct Together<'a> {
    tree: &'a Tree,
    faults: Faults,
}

impl Together<'_> {
    /// Of a key without a source.
    fn origin(&self, name: &str) -> Option<&Origin> {
        let (section, key) = name.rsplit_once('.')?;
        self.tree.origin(&Path::new(section, key))
    }

    fn fault(&mut self, name: &str, text: String) {
        let origin = self.origin(name).cloned();
        self.faults.add(origin.as_ref(), text);
    }

    fn lease(&mut self, config: &Config) {
        let lease = &config.lease;
        let length = show_duration(lease.length);
        if lease.renew * 2 >= lease.length {
            let renew = show_duration(lease.renew);
            self.fault(
                "lease.renew",
                format!("lease.renew is {renew}, must be less than half of lease.length ({length})"),
            );
        }
        if lease.margin * 3 >= lease.length {
            let margin = show_duration(lease.margin);
            self.fault(
                "lease.margin",
                format!("lease.margin is {margin}, must be less than a third of lease.length ({length})"),
            );
        }
    }

    fn source(&mut self, config: &Config, index: usize) {
        let (source, lease) = (&config.sources[index], &config.lease);
        let path = |key: &str| Path::of_source(index, key);
        let trusted = lease.length.saturating_sub(lease.margin);
        if lease.renew + source.statement_timeout >= trusted {
            let text = format!(
                "{} is {}: together with lease.renew ({}) it must be less than lease.length - lease.margin ({}), or one slow renewal costs the lanes",
                path("statement_timeout"),
                show_duration(source.statement_timeout),
                show_duration(lease.renew),
                show_duration(trusted)
            );
            self.faults.add(self.tree.origin(&path("statement_timeout")), text);
        }
        self.ordered(&path("lock_timeout"), source.lock_timeout, &path("statement_timeout"), source.statement_timeout);
        self.ordered(&path("poll_busy"), source.poll_busy, &path("poll_idle"), source.poll_idle);
    }

    fn ordered(&mut self, low: &Path, low_value: Duration, high: &Path, high_value: Duration) {
        if low_value > high_value {
            let (a, b) = (show_duration(low_value), show_duration(high_value));
            self.faults.add(self.tree.origin(low), format!("{low} is {a}, must be at most {high} ({b})"));
        }
    }

    fn at_most(&mut self, low: &str, low_value: Duration, high: &str, high_value: Duration) {
        let path = |name: &str| name.rsplit_once('.').map(|(section, key)| Path::new(section, key));
        if let (Some(low), Some(high)) = (path(low), path(high)) {
            self.ordered(&low, low_value, &high, high_value);
        }
    }

    fn kafka(&mut self, config: &Config) {
        let (sasl, tls) = (&config.kafka.sasl, &config.kafka.tls);
        if sasl.mechanism.is_some() && (sasl.username.is_none() || sasl.password.is_none()) {
            let text = "kafka.sasl.mechanism needs kafka.sasl.username and kafka.sasl.password or password_file";
            self.fault("kafka.sasl.mechanism", text.into());
        }
        if sasl.mechanism.is_none() && (sasl.username.is_some() || sasl.password.is_some()) {
            self.fault(
                "kafka.sasl.username",
                "kafka.sasl has a user name or a password, but no mechanism: give one".into(),
            );
        }
        let files = [&tls.ca_file, &tls.cert_file, &tls.key_file];
        if !tls.enabled && files.iter().any(|file| file.is_some()) {
            self.fault("kafka.tls.enabled", "kafka.tls has files, but enabled is false: set it to true".into());
        }
        if tls.cert_file.is_some() != tls.key_file.is_some() {
            self.fault("kafka.tls.cert_file", "kafka.tls.cert_file and kafka.tls.key_file belong together".into());
        }
        for name in config.kafka.security().keys().filter(|name| config.kafka.properties.contains_key(*name)) {
            let path = Path::new(PROPERTIES, name);
            let text = format!("{path} is set by [kafka.tls] or [kafka.sasl] already: give it in one place");
            self.faults.add(self.tree.origin(&path), text);
        }
    }

    fn names(&mut self, config: &Config) {
        let mut seen = BTreeMap::new();
        for (index, source) in config.sources.iter().enumerate() {
            if let Some(first) = seen.insert(source.name.as_str(), index) {
                let text = format!("source.{index} has the name {:?} of source.{first}: names are unique", source.name);
                self.faults.add(self.tree.origin(&Path::of_source(index, "name")), text);
            }
        }
    }
}
