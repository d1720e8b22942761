//! How large batches may be. A topic's `max.message.bytes` limits the whole record batch, and librdkafka does
//! not split: with a larger `batch.size` every full batch to such a topic fails without a guilty record.
//! A producer can't change its size, so that a narrower topic asks for another producer.

use std::time::Duration;

use rdkafka::ClientConfig;

use super::topic::{Describer, limit};

/// librdkafka's default `batch.size`.
const DEFAULT: usize = 1_000_000;
/// Taken off a topic's limit: the batch's own header and what the client's estimate may miss.
const FRAMING: usize = 256;
/// Where the topics don't tell their limits, each rebuild divides by this.
const STEP: usize = 4;
/// No smaller batch is tried: from here on each record travels alone.
const FLOOR: usize = 1;
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest `batch.size` whose batches a topic with this limit takes.
pub(super) fn within(limit: usize) -> usize {
    limit.saturating_sub(FRAMING).max(FLOOR)
}

/// The configured `batch.size`.
pub(super) fn current(config: &ClientConfig) -> usize {
    config.get("batch.size").and_then(|size| size.parse().ok()).unwrap_or(DEFAULT)
}

/// The `batch.size` for the next producer after a broker found a batch too large, although what was known
/// of the topics said otherwise. Asks for them again; blocks up to 5 s.
pub(super) fn after_refusal(config: &ClientConfig, topics: &[String]) -> usize {
    next(current(config), smallest_limit(config, topics))
}

/// Below the smallest limit, if that is known; else a step down.
fn next(current: usize, smallest_limit: Option<usize>) -> usize {
    match smallest_limit {
        // where batches were below the limit already, one record alone was too large
        Some(limit) => within(limit).min(current),
        None => (current / STEP).max(FLOOR),
    }
}

/// The smallest limit of the topics; `None` unless the cluster tells all.
fn smallest_limit(config: &ClientConfig, topics: &[String]) -> Option<usize> {
    let described = Describer::new(config, PATIENCE)?.describe(topics)?;
    let limits: Option<Vec<usize>> = described.iter().map(|topic| limit(topic.as_ref()?)).collect();
    limits?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_batch_is_below_the_smallest_limit() {
        assert_eq!(next(DEFAULT, Some(20_000)), 20_000 - FRAMING);
        assert_eq!(next(DEFAULT, Some(100)), FLOOR);
    }

    #[test]
    fn a_record_that_was_too_large_alone_changes_nothing() {
        assert_eq!(next(DEFAULT, Some(1_048_588)), DEFAULT);
        assert_eq!(next(1_744, Some(2_000)), 1_744);
    }

    #[test]
    fn without_knowledge_it_steps_down_to_single_records() {
        assert_eq!(next(DEFAULT, None), 250_000);
        assert_eq!(next(3, None), FLOOR);
    }

    #[test]
    fn a_configured_size_counts() {
        let mut config = ClientConfig::new();
        assert_eq!(current(&config), DEFAULT);
        config.set("batch.size", "5000");
        assert_eq!(current(&config), 5_000);
    }
}
