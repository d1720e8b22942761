//! The identity of a message, as the journal and the record header spell it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A message's UUID as a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MessageId(pub u128);

impl fmt::Display for MessageId {
    /// Lower case with hyphens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(f, "{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a uuid: write 32 hexadecimal digits, with or without hyphens")]
pub struct ParseMessageIdError;

impl FromStr for MessageId {
    type Err = ParseMessageIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let plain = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if !plain {
            return Err(ParseMessageIdError);
        }
        u128::from_str_radix(&digits, 16).map(MessageId).map_err(|_| ParseMessageIdError)
    }
}

impl TryFrom<String> for MessageId {
    type Error = ParseMessageIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MessageId> for String {
    fn from(id: MessageId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_are_the_same_id() {
        let text = "0190f3b2-7c3d-7abc-8def-0123456789ab";
        assert_eq!(text.parse::<MessageId>().map(|id| id.to_string()).as_deref(), Ok(text));
        assert_eq!("0".repeat(31).parse::<MessageId>(), Err(ParseMessageIdError));
        assert_eq!(format!("+{}", "0".repeat(31)).parse::<MessageId>(), Err(ParseMessageIdError));
    }
}
