//! The relay's metrics: each named once in a table with its kind, unit, labels and meaning, from which the registry
//! is built and `docs/METRICS.md` is tested. Labels are bounded: sources are configured, lanes are at most 256 a source,
//! classes and reasons are enums. Topic, tenant, key and id are never labels.

mod spec;

use fencepost_core::failure::Class;
use fencepost_core::lane::{Generation, LaneId};
use fencepost_core::worker::LossReason;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder,
};

pub use spec::{ALL, Kind, Spec};

/// The media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of latency histograms, in seconds.
const LATENCY_BOUNDS: [f64; 17] =
    [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// All metrics of a process, in a registry of their own. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    counters: Vec<(&'static str, IntCounterVec)>,
    gauges: Vec<(&'static str, IntGaugeVec)>,
    seconds: Vec<(&'static str, GaugeVec)>,
    histograms: Vec<(&'static str, HistogramVec)>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every metric of the table.
    pub fn new() -> Self {
        let registry = Registry::new();
        let mut metrics = Metrics { registry, counters: vec![], gauges: vec![], seconds: vec![], histograms: vec![] };
        for spec in &ALL {
            metrics.add(spec);
        }
        metrics.gauge(&spec::BUILD_INFO).with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics
    }

    fn add(&mut self, spec: &Spec) {
        let opts = prometheus::Opts::new(spec.name, spec.help);
        match spec.kind {
            Kind::Counter => {
                let made = IntCounterVec::new(opts, spec.labels);
                self.counters.push((spec.name, register(&self.registry, made)));
            }
            Kind::Gauge if spec.unit == "seconds" => {
                let made = GaugeVec::new(opts, spec.labels);
                self.seconds.push((spec.name, register(&self.registry, made)));
            }
            Kind::Gauge => {
                let made = IntGaugeVec::new(opts, spec.labels);
                self.gauges.push((spec.name, register(&self.registry, made)));
            }
            Kind::Histogram => {
                let opts = prometheus::HistogramOpts::from(opts).buckets(LATENCY_BOUNDS.to_vec());
                let made = HistogramVec::new(opts, spec.labels);
                self.histograms.push((spec.name, register(&self.registry, made)));
            }
        }
    }

    fn counter(&self, spec: &Spec) -> &IntCounterVec {
        found(&self.counters, spec)
    }

    fn gauge(&self, spec: &Spec) -> &IntGaugeVec {
        found(&self.gauges, spec)
    }

    /// The handles of one source, each resolved once. Its series exist from now on, at zero.
    pub fn source(&self, name: &str) -> SourceMetrics {
        let counter = |spec: &Spec| self.counter(spec).with_label_values(&[name]);
        let gauge = |spec: &Spec| self.gauge(spec).with_label_values(&[name]);
        SourceMetrics {
            up: gauge(&spec::SOURCE_UP),
            destination_up: gauge(&spec::DESTINATION_UP),
            lag_messages: gauge(&spec::LAG_MESSAGES),
            lag_seconds: found(&self.seconds, &spec::LAG_SECONDS).with_label_values(&[name]),
            commit_to_ack: found(&self.histograms, &spec::COMMIT_TO_ACK).with_label_values(&[name]),
            published_messages: counter(&spec::PUBLISHED_MESSAGES),
            published_bytes: counter(&spec::PUBLISHED_BYTES),
            in_flight_messages: gauge(&spec::IN_FLIGHT_MESSAGES),
            in_flight_bytes: gauge(&spec::IN_FLIGHT_BYTES),
            batches: counter(&spec::BATCHES),
            marks: counter(&spec::MARKS),
            mark_rows: counter(&spec::MARK_ROWS),
            rejected_marks: counter(&spec::REJECTED_MARKS),
            claims: counter(&spec::CLAIMS),
            takeovers: counter(&spec::TAKEOVERS),
            possible_repeats: counter(&spec::POSSIBLE_REPEATS),
            rebuilds: counter(&spec::REBUILDS),
            polls: counter(&spec::POLLS),
            burned_xids: counter(&spec::BURNED_XIDS),
            reconnects: counter(&spec::RECONNECTS),
            audit_windows: counter(&spec::AUDIT_WINDOWS),
            audit_messages: counter(&spec::AUDIT_MESSAGES),
            audit_differences: counter(&spec::AUDIT_DIFFERENCES),
            audit_findings: gauge(&spec::AUDIT_FINDINGS),
            failures: Class::ALL.map(|class| self.counter(&spec::FAILURES).with_label_values(&[name, class.name()])),
            lost: LossReason::ALL.map(|why| self.counter(&spec::LOST_LEASES).with_label_values(&[name, why.name()])),
            generations: self.gauge(&spec::LANE_GENERATION).clone(),
            stopped: self.gauge(&spec::LANE_STOPPED).clone(),
            name: name.to_owned(),
        }
    }

    /// What a source's status says, so that these gauges and `/ready` never differ.
    pub fn set_status(&self, name: &str, database: bool, destination: bool, ready: bool) {
        for (spec, is_so) in
            [(spec::SOURCE_UP, database), (spec::DESTINATION_UP, destination), (spec::SOURCE_READY, ready)]
        {
            self.gauge(&spec).with_label_values(&[name]).set(i64::from(is_so));
        }
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        // Writing to memory fails only for a metric without series, which encode() skips.
        if TextEncoder::new().encode(&self.registry.gather(), &mut out).is_err() {
            out.clear();
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    // The table is constant and a test registers all of it.
    let collector = made.expect("the table names a valid metric");
    registry.register(Box::new(collector.clone())).expect("the table names each metric once");
    collector
}

fn found<'a, T>(list: &'a [(&'static str, T)], spec: &Spec) -> &'a T {
    &list.iter().find(|(name, _)| *name == spec.name).expect("every constant is in the table").1
}

/// Handles of one source: adding to one is a few nanoseconds.
pub struct SourceMetrics {
    /// 1 while all sessions to the database stand.
    pub up: IntGauge,
    /// 1 while Kafka answers.
    pub destination_up: IntGauge,
    /// Messages that wait, an upper bound.
    pub lag_messages: IntGauge,
    /// Age of the oldest message that waits, in seconds.
    pub lag_seconds: Gauge,
    /// Seconds from a page's oldest row to its last acknowledgement.
    pub commit_to_ack: Histogram,
    /// Acknowledged messages.
    pub published_messages: IntCounter,
    /// Their bytes.
    pub published_bytes: IntCounter,
    /// Handed to the client and not settled.
    pub in_flight_messages: IntGauge,
    /// Their bytes.
    pub in_flight_bytes: IntGauge,
    /// Settled pages.
    pub batches: IntCounter,
    /// Mark statements that were saved.
    pub marks: IntCounter,
    /// Batch rows that they wrote.
    pub mark_rows: IntCounter,
    /// Mark rows that the compare-and-set refused.
    pub rejected_marks: IntCounter,
    /// Lanes claimed.
    pub claims: IntCounter,
    /// Of those, from an owner that had not released.
    pub takeovers: IntCounter,
    /// Messages sent again that may be in the topic already.
    pub possible_repeats: IntCounter,
    /// Producers that were replaced.
    pub rebuilds: IntCounter,
    /// Looks at the log.
    pub polls: IntCounter,
    /// Transaction ids taken for ticks alone.
    pub burned_xids: IntCounter,
    /// Connections made after the first.
    pub reconnects: IntCounter,
    /// Windows that were audited.
    pub audit_windows: IntCounter,
    /// Messages that the log held in them.
    pub audit_messages: IntCounter,
    /// Windows that held another number than was delivered.
    pub audit_differences: IntCounter,
    /// Findings that nobody has closed.
    pub audit_findings: IntGauge,
    failures: [IntCounter; Class::ALL.len()],
    lost: [IntCounter; LossReason::ALL.len()],
    generations: IntGaugeVec,
    stopped: IntGaugeVec,
    name: String,
}

impl SourceMetrics {
    /// Messages that were not acknowledged, by class.
    pub fn failed(&self, class: Class, messages: u64) {
        if let Some(index) = Class::ALL.iter().position(|one| *one == class) {
            self.failures[index].inc_by(messages);
        }
    }

    /// A lane was lost.
    pub fn lost_lease(&self, reason: LossReason) {
        if let Some(index) = LossReason::ALL.iter().position(|one| *one == reason) {
            self.lost[index].inc();
        }
    }

    /// A lane is held.
    pub fn lane_held(&self, lane: LaneId, generation: Generation) {
        self.generations.with_label_values(&[&self.name, &lane.to_string()]).set(generation.0);
    }

    /// A lane is no longer held: its series end.
    pub fn lane_gone(&self, lane: LaneId) {
        // Not there: nothing to remove.
        let _ = self.generations.remove_label_values(&[&self.name, &lane.to_string()]);
        self.lane_moves(lane);
    }

    /// A lane waits or stopped at a message of this class.
    pub fn lane_stopped(&self, lane: LaneId, class: Class) {
        self.lane_moves(lane);
        self.stopped.with_label_values(&[self.name.as_str(), &lane.to_string(), class.name()]).set(1);
    }

    /// A lane moves again.
    pub fn lane_moves(&self, lane: LaneId) {
        for class in Class::ALL {
            let _ = self.stopped.remove_label_values(&[self.name.as_str(), &lane.to_string(), class.name()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_the_table_exists_once() {
        let metrics = Metrics::new();
        let source = metrics.source("main");
        source.lane_held(LaneId(3), Generation(7));
        source.lane_stopped(LaneId(3), Class::Route);
        metrics.set_status("main", true, true, false);
        let text = metrics.text();
        for spec in &ALL {
            let kind = spec.kind.name();
            assert!(text.contains(&format!("# TYPE {} {kind}\n", spec.name)), "{}", spec.name);
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(families, ALL.len());
    }

    #[test]
    fn b163_labels_are_bounded() {
        for spec in &ALL {
            let bounded = |label: &&str| ["source", "lane", "class", "reason"].contains(label);
            let is_build = spec.name == spec::BUILD_INFO.name;
            assert!(spec.labels.iter().all(bounded) || is_build, "{}", spec.name);
        }
    }

    #[test]
    fn a_lane_that_is_gone_leaves_no_series() {
        let metrics = Metrics::new();
        let source = metrics.source("main");
        source.lane_held(LaneId(3), Generation(7));
        source.lane_stopped(LaneId(3), Class::Route);
        source.lane_stopped(LaneId(3), Class::Message);
        let text = metrics.text();
        assert!(text.contains("fencepost_lane_generation{lane=\"3\",source=\"main\"} 7"), "{text}");
        assert!(text.contains("fencepost_lane_stopped{class=\"message\",lane=\"3\",source=\"main\"} 1"), "{text}");
        assert!(!text.contains("class=\"route\",lane"), "one class at a time");
        source.lane_gone(LaneId(3));
        assert!(!metrics.text().contains("lane=\""), "{}", metrics.text());
    }

    #[test]
    fn counts_go_to_their_class_and_reason() {
        let metrics = Metrics::new();
        let source = metrics.source("main");
        source.failed(Class::Ambiguous, 5);
        source.lost_lease(LossReason::MarkRejected);
        let text = metrics.text();
        assert!(text.contains("fencepost_failures_total{class=\"ambiguous\",source=\"main\"} 5"), "{text}");
        assert!(text.contains("fencepost_failures_total{class=\"route\",source=\"main\"} 0"), "{text}");
        assert!(text.contains("fencepost_lost_leases_total{reason=\"mark_rejected\",source=\"main\"} 1"), "{text}");
    }

    #[test]
    fn the_documentation_is_the_table() {
        let written = include_str!("../../docs/METRICS.md");
        assert!(written.ends_with(&spec::table()), "docs/METRICS.md must end with this table:\n{}", spec::table());
    }
}
