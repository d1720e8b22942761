//! What is wrong with a configuration, and where it was said. No text here holds a secret: values of keys
//! that may hold one are never quoted.

use std::fmt;

use super::tree::Origin;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where the value came from, if the fault belongs to one value.
    pub(super) origin: Option<Origin>,
    /// What is wrong and what to do.
    pub(super) text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{origin}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Every fault that was found, in one go: at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn one(origin: Option<Origin>, text: impl Into<String>) -> Self {
        ConfigErrors(vec![ConfigError { origin, text: text.into() }])
    }
}

/// One fault a line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

/// Collects faults, so that a user sees all of them at once.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<ConfigError>);

impl Faults {
    pub(super) fn add(&mut self, origin: Option<&Origin>, text: impl Into<String>) {
        self.0.push(ConfigError { origin: origin.cloned(), text: text.into() });
    }

    pub(super) fn extend(&mut self, errors: ConfigErrors) {
        self.0.extend(errors.0);
    }

    pub(super) fn check(&mut self) -> Result<(), ConfigErrors> {
        match std::mem::take(&mut self.0) {
            faults if faults.is_empty() => Ok(()),
            faults => Err(ConfigErrors(faults)),
        }
    }
}
