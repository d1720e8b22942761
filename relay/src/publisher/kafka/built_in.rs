//! What this program's librdkafka can do, for `--version`: a codec or a SASL mechanism that was left out at build time
//! is otherwise found out in production.

use rdkafka::ClientConfig;
use rdkafka::util::get_rdkafka_version;

/// librdkafka's version, and its built-in features by its own names, separated by commas.
pub fn built_in() -> (String, String) {
    let features = ClientConfig::new().create_native_config().and_then(|config| config.get("builtin.features"));
    (get_rdkafka_version().1, features.unwrap_or_else(|_| "unknown".into()).replace(',', ", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b148_codecs_tls_and_sasl_are_built_in() {
        let (version, features) = built_in();
        assert!(version.starts_with("2."), "{version}");
        for feature in ["gzip", "snappy", "lz4", "zstd", "ssl", "sasl_plain", "sasl_scram"] {
            assert!(features.split(", ").any(|one| one == feature), "{feature} is missing in {features}");
        }
    }
}
