//! The table of metrics. A name, once released, keeps its meaning.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name, the same for ever.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Of its value.
    pub unit: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

const SOURCE: &[&str] = &["source"];

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Counter, unit, labels: SOURCE, help }
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Spec {
    Spec { name, kind: Kind::Gauge, unit, labels: SOURCE, help }
}

const fn labelled(spec: Spec, labels: &'static [&'static str]) -> Spec {
    Spec { labels, ..spec }
}

macro_rules! metrics {
    ($($constant:ident = $spec:expr;)*) => {
        $(pub(super) const $constant: Spec = $spec;)*
        /// Every metric of the relay, in the order of the documentation.
        pub const ALL: [Spec; [$(stringify!($constant)),*].len()] = [$($constant),*];
    };
}

metrics! {
    SOURCE_UP = gauge("fencepost_source_up", "0 or 1", "Whether the database is connected and passed its checks.");
    SOURCE_READY = gauge("fencepost_source_ready", "0 or 1", "Whether the source is served as it should be.");
    DESTINATION_UP = gauge("fencepost_destination_up", "0 or 1", "Whether Kafka answers.");
    LAG_MESSAGES = gauge("fencepost_lag_messages", "messages", "Messages that wait, all lanes; an upper bound.");
    LAG_SECONDS = gauge("fencepost_lag_seconds", "seconds", "Age of the oldest message that waits, all lanes.");
    COMMIT_TO_ACK = Spec {
        name: "fencepost_commit_to_ack_seconds", kind: Kind::Histogram, unit: "seconds", labels: SOURCE,
        help: "From the writing of a page's oldest row to the page's last acknowledgement.",
    };
    PUBLISHED_MESSAGES = counter("fencepost_published_messages_total", "messages", "Messages that the broker acknowledged.");
    PUBLISHED_BYTES = counter("fencepost_published_bytes_total", "bytes", "Payloads, keys and headers of those.");
    IN_FLIGHT_MESSAGES = gauge("fencepost_in_flight_messages", "messages", "Handed to the client, outcome unknown.");
    IN_FLIGHT_BYTES = gauge("fencepost_in_flight_bytes", "bytes", "Payloads, keys and headers of those.");
    BATCHES = counter("fencepost_batches_total", "pages", "Pages whose outcomes are all known.");
    MARKS = counter("fencepost_marks_total", "statements", "Marks that were saved.");
    MARK_ROWS = counter("fencepost_mark_rows_total", "rows", "Batch rows that the marks wrote.");
    REJECTED_MARKS = counter("fencepost_rejected_marks_total", "rows", "Mark rows that the compare-and-set refused.");
    CLAIMS = counter("fencepost_claims_total", "lanes", "Lanes that this relay took.");
    TAKEOVERS = counter("fencepost_takeovers_total", "lanes", "Of those, from an owner that had not given them back.");
    LOST_LEASES = labelled(
        counter("fencepost_lost_leases_total", "lanes", "Lanes that this relay lost, by how it showed."), &["source", "reason"]);
    LANE_GENERATION = labelled(
        gauge("fencepost_lane_generation", "generation", "Of the lease of each lane that this relay holds."), &["source", "lane"]);
    LANE_STOPPED = labelled(
        gauge("fencepost_lane_stopped", "0 or 1", "1 while a lane waits or stopped at a message, by class of failure."),
        &["source", "lane", "class"]);
    FAILURES = labelled(
        counter("fencepost_failures_total", "messages", "Messages that were not acknowledged, by class."), &["source", "class"]);
    POSSIBLE_REPEATS = counter(
        "fencepost_possible_repeats_total", "messages", "Messages sent again that may be in the topic already.");
    REBUILDS = counter("fencepost_producer_rebuilds_total", "producers", "Producers that were replaced.");
    POLLS = counter("fencepost_polls_total", "statements", "Looks at the log.");
    BURNED_XIDS = counter("fencepost_burned_xids_total", "transaction ids", "Taken for ticks alone.");
    RECONNECTS = counter("fencepost_reconnects_total", "connections", "Connections to the database after a loss.");
    AUDIT_WINDOWS = counter("fencepost_audit_windows_total", "windows", "Stretches of held lanes that were counted again.");
    AUDIT_MESSAGES = counter("fencepost_audit_messages_total", "messages", "Messages that the log held in them.");
    AUDIT_DIFFERENCES = counter(
        "fencepost_audit_differences_total", "windows", "Of those, that held another number than was delivered.");
    AUDIT_FINDINGS = gauge("fencepost_audit_open_findings", "findings", "Differences that nobody has closed, all lanes.");
    BUILD_INFO = labelled(gauge("fencepost_build_info", "1", "The program's version."), &["version"]);
}

/// The documentation's table.
#[cfg(test)]
pub(super) fn table() -> String {
    let mut out = String::from("| metric | kind | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n");
    for Spec { name, kind, unit, labels, help } in ALL {
        out.push_str(&format!("| `{name}` | {} | {unit} | {} | {help} |\n", kind.name(), labels.join(", ")));
    }
    out
}
