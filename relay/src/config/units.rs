//! Durations and sizes with their units, as text and for serde.

use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::Secret;

/// Reads "15s", "1m 30s", "500us".
///
/// # Errors
/// What is expected instead.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|_| "not a duration with its unit, such as \"15s\", \"20ms\" or \"2m\"".to_owned())
}

/// Reads "16MiB", "64KiB", "1000B".
///
/// # Errors
/// What is expected instead.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let expected = || "not a size with its unit, such as \"16MiB\" or \"64KiB\"".to_owned();
    if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(expected());
    }
    text.trim().parse::<ByteSize>().map(|size| size.as_u64()).map_err(|_| expected())
}

/// The shortest text that [`parse_duration`] reads as this.
pub(super) fn show_duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// The text that [`parse_bytes`] reads as this.
pub(super) fn show_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 2] = [("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(from)?).map_err(D::Error::custom)
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parse_bytes(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// An empty text means that the setting is not set.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(from)?).filter(|text| !text.is_empty()))
}

pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text(from)?.map(PathBuf::from))
}

pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    Ok(text(from)?.map(Secret::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for bad in ["15", "-1s", "soon", "", "1.5", "inf", "s"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
        for (text, want) in [("500us", 500), ("15s", 15_000_000), ("1m 30s", 90_000_000), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(want)), "{text}");
            assert_eq!(show_duration(Duration::from_micros(want)), text);
        }
    }

    #[test]
    fn sizes_need_a_unit() {
        for bad in ["16", "-1MiB", "", "big", "MiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
        for (text, want) in [("16MiB", 16 << 20), ("64KiB", 64 << 10), ("1001B", 1001)] {
            assert_eq!(parse_bytes(text), Ok(want), "{text}");
            assert_eq!(show_bytes(want), text);
        }
    }
}
