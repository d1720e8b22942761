//! Values that no output may show.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// A password, a URL with one, or anything that might be one. Neither `Debug` nor `Display` shows it; it leaves
/// by [`Secret::expose`] alone, at the call that hands it to a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value, for the client that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// What stands for a secret in every output.
pub const REDACTED: &str = "***";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_nowhere() {
        let secret = Secret::new("p^w$#d@1");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.expose(), "p^w$#d@1");
    }
}
