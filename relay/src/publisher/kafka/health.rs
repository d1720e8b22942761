//! Whether the destination answers. With `message.timeout.ms=0` a dead cluster gives no outcome at all, so
//! readiness learns from here: from the client's errors, from its statistics, and from acknowledgements.
//! Pure: it says what changed, its caller tells the engine. A standing trouble is told once, and once more
//! only when a graver cause turns up; nothing but an acknowledgement or a statistics tick ends it, so
//! that the number of events is bounded by ticks, whatever the client repeats.

use std::collections::HashMap;

use rdkafka::types::RDKafkaErrorCode as Code;
use serde::Deserialize;

use super::classify::refuses_client;

/// Ticks without any acknowledgement, while records wait, after which the destination counts as down.
const STALLED_TICKS: u32 = 2;
/// Ticks without records and without trouble, after which a stall counts as over.
const QUIET_TICKS: u32 = 6;

/// What changed: the destination answers again, or why it does not.
pub(super) type Change = Result<(), String>;

/// How grave, rising: a graver one replaces the told one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// No broker can be reached.
    Unreachable,
    /// Records wait and nothing is acknowledged.
    Stalled,
    /// The cluster turns this client away.
    Refused,
}

/// The state of one destination.
#[derive(Default)]
pub(super) struct Health {
    down: Option<Trouble>,
    /// The newest error text, as a hint at the cause of a stall.
    hint: Option<String>,
    waiting: bool,
    connected: bool,
    stalled_ticks: u32,
    quiet_ticks: u32,
    acked: u64,
}

impl Health {
    /// Whether the destination counts as down.
    pub(super) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    /// An error that the client told by itself. `reason` has no secret in it.
    pub(super) fn error(&mut self, code: Code, reason: &str) -> Option<Change> {
        let hint = format!("{code}: {reason}");
        if refuses_client(code) {
            return self.trouble(Trouble::Refused, hint);
        }
        if code == Code::AllBrokersDown {
            let cause = self.hint.as_deref().unwrap_or(reason);
            let text = format!(
                "no broker of the cluster can be reached ({cause}); check kafka.bootstrap_servers and the network"
            );
            return self.trouble(Trouble::Unreachable, text);
        }
        self.hint = Some(hint);
        None
    }

    /// A record was acknowledged.
    pub(super) fn acked(&mut self) -> Option<Change> {
        self.stalled_ticks = 0;
        self.hint = None;
        self.down.take().map(|_| Ok(()))
    }

    /// Statistics came; `acked` counts all acknowledgements so far.
    pub(super) fn tick(&mut self, statistics: &Statistics, acked: u64) -> Option<Change> {
        let progress = acked != self.acked;
        self.acked = acked;
        // what only just came has had no chance yet
        let waited = std::mem::replace(&mut self.waiting, statistics.msg_cnt > 0) && self.waiting;
        // nor has what waited for a connection that has only just come
        let steady = std::mem::replace(&mut self.connected, statistics.connected()) == statistics.connected();
        self.stalled_ticks = if waited && steady && !progress { self.stalled_ticks + 1 } else { 0 };
        self.quiet_ticks = if statistics.quiet() { self.quiet_ticks + 1 } else { 0 };
        if self.stalled_ticks >= STALLED_TICKS {
            let text = self.stall_text(statistics);
            let trouble = if statistics.connected() { Trouble::Stalled } else { Trouble::Unreachable };
            return self.trouble(trouble, text);
        }
        let over = match self.down? {
            Trouble::Unreachable => statistics.connected(),
            Trouble::Stalled | Trouble::Refused => self.quiet_ticks >= QUIET_TICKS,
        };
        if over { self.acked() } else { None }
    }

    fn trouble(&mut self, trouble: Trouble, text: String) -> Option<Change> {
        if self.down.is_some_and(|told| told >= trouble) {
            return None;
        }
        self.down = Some(trouble);
        Some(Err(text))
    }

    fn stall_text(&self, statistics: &Statistics) -> String {
        let what = if !statistics.connected() {
            "no broker is connected"
        } else if !statistics.has_producer_id() {
            "the cluster gives no producer id; check that the principal may write idempotently to the cluster"
        } else {
            "brokers are connected but acknowledge nothing; check in-sync replicas and quotas"
        };
        match &self.hint {
            Some(hint) => format!("{what} (last error: {hint})"),
            None => what.to_owned(),
        }
    }
}

/// What is read of librdkafka's statistics.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Statistics {
    /// Records in the client, outcomes that were not taken yet included.
    #[serde(default)]
    pub(super) msg_cnt: u64,
    #[serde(default)]
    brokers: HashMap<String, Broker>,
    eos: Option<Eos>,
}

#[derive(Debug, Deserialize)]
struct Broker {
    state: String,
}

#[derive(Debug, Deserialize)]
struct Eos {
    idemp_state: String,
}

impl Statistics {
    /// Reads the client's JSON; what does not parse says nothing.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    fn connected(&self) -> bool {
        self.brokers.values().any(|broker| broker.state == "UP")
    }

    fn has_producer_id(&self) -> bool {
        self.eos.as_ref().is_none_or(|eos| eos.idemp_state == "Assigned")
    }

    /// Connected, able to send, and with nothing to send.
    fn quiet(&self) -> bool {
        self.msg_cnt == 0 && self.connected() && self.has_producer_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(msg_cnt: u64, state: &str, idemp_state: &str) -> Statistics {
        let json = format!(
            r#"{{"msg_cnt":{msg_cnt},"ts":1,"brokers":{{"b":{{"state":"{state}","x":0}}}},"eos":{{"idemp_state":"{idemp_state}"}}}}"#
        );
        Statistics::parse(json.as_bytes()).expect("the form that librdkafka writes")
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_once() {
        let mut health = Health::default();
        assert_eq!(health.error(Code::BrokerTransportFailure, "connect refused"), None);
        let Some(Err(reason)) = health.error(Code::AllBrokersDown, "1/1 brokers are down") else { panic!("not told") };
        assert!(reason.contains("connect refused"), "{reason}");
        assert_eq!(health.error(Code::AllBrokersDown, "1/1 brokers are down"), None);
        assert_eq!(health.error(Code::Resolve, "no such host"), None);
        assert_eq!(health.acked(), Some(Ok(())));
        assert_eq!(health.acked(), None);
    }

    #[test]
    fn a_graver_cause_replaces_a_lesser_one_but_not_the_other_way() {
        let mut health = Health::default();
        assert!(matches!(health.error(Code::AllBrokersDown, "x"), Some(Err(_))));
        assert!(matches!(health.error(Code::Authentication, "wrong password"), Some(Err(_))));
        assert_eq!(health.error(Code::AllBrokersDown, "x"), None);
        assert_eq!(health.error(Code::Authentication, "wrong password"), None);
    }

    #[test]
    fn an_idle_client_recovers_by_its_connection() {
        let mut health = Health::default();
        health.error(Code::AllBrokersDown, "x");
        assert_eq!(health.tick(&statistics(0, "CONNECT", "Init"), 0), None);
        assert_eq!(health.tick(&statistics(0, "UP", "Assigned"), 0), Some(Ok(())));
    }

    #[test]
    fn records_that_wait_without_any_acknowledgement_are_a_stall() {
        let mut health = Health::default();
        let stuck = statistics(5, "UP", "WaitPID");
        assert_eq!(health.tick(&stuck, 7), None, "they only just came");
        assert_eq!(health.tick(&stuck, 7), None);
        let Some(Err(reason)) = health.tick(&stuck, 7) else { panic!("a stall was not told") };
        assert!(reason.contains("producer id"), "{reason}");
        assert_eq!(health.tick(&stuck, 7), None, "told once");
        assert_eq!(health.tick(&statistics(0, "UP", "Assigned"), 7), None, "an empty queue is no proof");
        assert_eq!(health.acked(), Some(Ok(())));
    }

    #[test]
    fn without_a_connection_a_stall_is_the_outage_that_was_told() {
        let mut health = Health::default();
        assert!(matches!(health.error(Code::AllBrokersDown, "x"), Some(Err(_))));
        for _ in 0..5 {
            assert_eq!(health.tick(&statistics(5, "CONNECT", "Assigned"), 0), None);
        }
        assert_eq!(health.tick(&statistics(5, "UP", "Assigned"), 0), Some(Ok(())));
    }

    #[test]
    fn progress_is_no_stall_however_long_the_queue() {
        let mut health = Health::default();
        for acked in 0..20 {
            assert_eq!(health.tick(&statistics(5_000, "UP", "Assigned"), acked), None);
        }
    }

    #[test]
    fn a_stall_without_anything_left_to_send_ends_after_quiet_ticks() {
        let mut health = Health::default();
        health.error(Code::ClusterAuthorizationFailed, "denied");
        let changes: Vec<_> = (0..QUIET_TICKS).map(|_| health.tick(&statistics(0, "UP", "Assigned"), 0)).collect();
        assert_eq!(changes.iter().flatten().count(), 1);
        assert_eq!(changes.last(), Some(&Some(Ok(()))));
    }
}
