//! Named points of the relay's loop at which a test makes the process die or freeze. Without the feature
//! `failpoints` a [`hit`] is nothing; a release never has the feature.
//!
//! `FENCEPOST_FAILPOINTS="name=action,name=action@k"` sets them. The action happens at every hit, or with
//! `@k` at the k-th one only (1 is the first):
//!
//! - `kill`: SIGKILL to itself, so that nothing is cleaned up;
//! - `stop`: SIGSTOP to itself, until a SIGCONT;
//! - `pause:FILE`: makes FILE and blocks the thread until FILE is gone.

/// One named point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(&'static str);

impl Point {
    /// The name, as in `FENCEPOST_FAILPOINTS`.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// A claim's statement is about to be sent.
pub const BEFORE_CLAIM: Point = Point("before_claim");
/// A claim's reply says that the lane is ours.
pub const AFTER_CLAIM: Point = Point("after_claim");
/// A tick is complete.
pub const AFTER_TICK: Point = Point("after_tick");
/// A page was read and its rows handed to the client; nothing is known of their outcomes.
pub const AFTER_PAGE: Point = Point("after_page");
/// All outcomes of a batch are in; its mark is not built yet.
pub const AFTER_ACK: Point = Point("after_ack");
/// The lease was checked and the mark is about to be sent.
pub const BEFORE_MARK: Point = Point("before_mark");
/// A mark's reply is known.
pub const AFTER_MARK: Point = Point("after_mark");
/// A renewal is about to be sent.
pub const BEFORE_RENEW: Point = Point("before_renew");
/// A renewal's reply is known.
pub const AFTER_RENEW: Point = Point("after_renew");
/// A lane is about to be given back.
pub const BEFORE_RELEASE: Point = Point("before_release");
/// A lane was given back.
pub const AFTER_RELEASE: Point = Point("after_release");

/// All points, in the order of the loop.
pub const ALL: [Point; 11] = [
    BEFORE_CLAIM,
    AFTER_CLAIM,
    AFTER_TICK,
    AFTER_PAGE,
    AFTER_ACK,
    BEFORE_MARK,
    AFTER_MARK,
    BEFORE_RENEW,
    AFTER_RENEW,
    BEFORE_RELEASE,
    AFTER_RELEASE,
];

/// The loop is at `point`: nothing without the feature.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_point: Point) {}

#[cfg(feature = "failpoints")]
pub use armed::hit;

#[cfg(feature = "failpoints")]
mod armed {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::{ALL, Point};

    /// What a point does, and when.
    struct Armed {
        point: Point,
        action: Action,
        only: Option<u64>,
        hits: AtomicU64,
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Action {
        Kill,
        Stop,
        Pause(PathBuf),
    }

    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();

    /// The loop is at `point`: does what the environment asks for there.
    ///
    /// # Panics
    /// When `FENCEPOST_FAILPOINTS` can't be understood: a test that arms nothing must not pass.
    pub fn hit(point: Point) {
        for armed in ARMED.get_or_init(from_environment).iter().filter(|armed| armed.point == point) {
            let number = armed.hits.fetch_add(1, Ordering::Relaxed) + 1;
            if armed.only.is_none_or(|only| only == number) {
                armed.act();
            }
        }
    }

    impl Armed {
        fn act(&self) {
            eprintln!("failpoint {}: {:?}", self.point.name(), self.action);
            match &self.action {
                Action::Kill => signal(Signal::KILL),
                Action::Stop => signal(Signal::STOP),
                Action::Pause(file) => {
                    fs::write(file, self.point.name()).expect("the failpoint's file can be written");
                    while file.exists() {
                        #[allow(clippy::disallowed_methods, reason = "freezes the thread on purpose")]
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            }
        }
    }

    fn signal(signal: Signal) {
        kill_process(getpid(), signal).expect("a process may signal itself");
    }

    fn from_environment() -> Vec<Armed> {
        #[allow(clippy::disallowed_methods, reason = "a test's switch, absent from releases, not configuration")]
        let text = std::env::var("FENCEPOST_FAILPOINTS").unwrap_or_default();
        parse(&text).unwrap_or_else(|complaint| panic!("FENCEPOST_FAILPOINTS: {complaint}"))
    }

    fn parse(text: &str) -> Result<Vec<Armed>, String> {
        text.split(',').filter(|part| !part.is_empty()).map(parse_one).collect()
    }

    fn parse_one(part: &str) -> Result<Armed, String> {
        let (name, action) = part.split_once('=').ok_or_else(|| format!("{part:?} is not name=action"))?;
        let point = ALL.into_iter().find(|point| point.name() == name);
        let point = point.ok_or_else(|| format!("there is no point {name:?}"))?;
        let (action, only) = match action.rsplit_once('@') {
            Some((action, number)) => {
                let number = number.parse().map_err(|_| format!("{number:?} is not the number of a hit"))?;
                (action, Some(number))
            }
            None => (action, None),
        };
        let action = match action.split_once(':') {
            None if action == "kill" => Action::Kill,
            None if action == "stop" => Action::Stop,
            Some(("pause", file)) => Action::Pause(file.into()),
            _ => return Err(format!("{action:?} is none of kill, stop, pause:FILE")),
        };
        Ok(Armed { point, action, only, hits: AtomicU64::new(0) })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn reads_actions_and_the_number_of_the_hit() {
            let armed = parse("after_claim=kill,before_mark=stop@3,after_ack=pause:/tmp/file@1").unwrap();
            let seen: Vec<_> = armed.iter().map(|armed| (armed.point.name(), &armed.action, armed.only)).collect();
            let pause = Action::Pause("/tmp/file".into());
            let expected = [
                ("after_claim", &Action::Kill, None),
                ("before_mark", &Action::Stop, Some(3)),
                ("after_ack", &pause, Some(1)),
            ];
            assert_eq!(seen, expected);
        }

        #[test]
        fn refuses_what_it_does_not_know() {
            for text in ["nowhere=kill", "after_claim=explode", "after_claim", "after_claim=kill@often"] {
                assert!(parse(text).is_err(), "{text}");
            }
        }
    }
}
