//! The size of a batch after a broker found one too large. A topic's `max.message.bytes` limits the whole
//! record batch, and librdkafka does not split: with a larger `batch.size` every full batch to such a topic
//! fails without a guilty record.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

/// librdkafka's default `batch.size`.
const DEFAULT: usize = 1_000_000;
/// Taken off a topic's limit: the batch's own header and what the client's estimate may miss.
const FRAMING: usize = 256;
/// Where the topics don't tell their limits, each rebuild divides by this.
const STEP: usize = 4;
/// No smaller batch is tried: from here on each record travels alone.
const FLOOR: usize = 1;
const PATIENCE: Duration = Duration::from_secs(5);

/// The `batch.size` for the next producer. Blocks up to 5 s for the topics' limits.
pub(super) fn next(config: &ClientConfig, topics: &[String]) -> usize {
    let current = current(config);
    after(current, smallest_limit(config, topics))
}

/// The configured `batch.size`.
pub(super) fn current(config: &ClientConfig) -> usize {
    config.get("batch.size").and_then(|size| size.parse().ok()).unwrap_or(DEFAULT)
}

/// Below the smallest limit, if that is known and would help; else a step down.
fn after(current: usize, smallest_limit: Option<usize>) -> usize {
    match smallest_limit.map(|limit| limit.saturating_sub(FRAMING).max(FLOOR)) {
        // batches were below the limit already: one record alone was too large
        Some(size) if size >= current => current,
        Some(size) => size,
        None => (current / STEP).max(FLOOR),
    }
}

/// The smallest `max.message.bytes` of the topics; `None` if the cluster does not tell all.
fn smallest_limit(config: &ClientConfig, topics: &[String]) -> Option<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    let admin: AdminClient<DefaultClientContext> = admin_config(config).create().ok()?;
    let resources: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
    let described = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, admin.describe_configs(&resources, &options)).await.ok()?.ok()
    })?;
    let limits: Option<Vec<usize>> = described.iter().map(|topic| topic.as_ref().ok().and_then(limit)).collect();
    limits?.into_iter().min()
}

fn limit(topic: &ConfigResource) -> Option<usize> {
    topic.get("max.message.bytes")?.value.as_deref()?.parse().ok()
}

/// How to reach the cluster, without what only a producer of records needs.
fn admin_config(config: &ClientConfig) -> ClientConfig {
    let mut config = config.clone();
    for name in ["enable.idempotence", "enable.gapless.guarantee", "statistics.interval.ms"] {
        config.remove(name);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_batch_is_below_the_smallest_limit() {
        assert_eq!(after(DEFAULT, Some(20_000)), 20_000 - FRAMING);
        assert_eq!(after(DEFAULT, Some(100)), FLOOR);
    }

    #[test]
    fn a_record_that_was_too_large_alone_changes_nothing() {
        assert_eq!(after(DEFAULT, Some(1_048_588)), DEFAULT);
        assert_eq!(after(1_744, Some(2_000)), 1_744);
    }

    #[test]
    fn without_knowledge_it_steps_down_to_single_records() {
        assert_eq!(after(DEFAULT, None), 250_000);
        assert_eq!(after(3, None), FLOOR);
    }

    #[test]
    fn a_configured_size_counts() {
        let mut config = ClientConfig::new();
        assert_eq!(current(&config), DEFAULT);
        config.set("batch.size", "5000");
        assert_eq!(current(&config), 5_000);
    }
}
