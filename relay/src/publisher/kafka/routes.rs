//! What is known of topics. A record goes only to a topic that was looked up before: librdkafka would take
//! one for a missing topic too and fail it seconds later, when later records of its key may have gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::failure::Class;
use fencepost_core::limits::check_topic_name;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

use super::topic::{Lookup, Topic};
use crate::publisher::Refused;

enum Route {
    /// Exists.
    Known(Topic),
    /// Missing or forbidden at the last lookup; forgotten at the next statistics tick.
    Failed(Class, i16),
    /// Being looked up; these wait for the answer.
    Asked(Vec<oneshot::Sender<Lookup>>),
}

/// What to do about a topic.
pub(super) enum Answer {
    /// It is known.
    Ready(Lookup),
    /// Somebody asks already.
    Wait(oneshot::Receiver<Lookup>),
    /// The caller must ask, and tell by [`Routes::learn`].
    Ask(oneshot::Receiver<Lookup>),
}

/// All topics that were asked for.
#[derive(Default)]
pub(super) struct Routes(Mutex<HashMap<String, Route>>);

impl Routes {
    /// Whether a record may go there now, as far as the topic is concerned.
    pub(super) fn admit(&self, topic: &str, partition: Option<i32>, null_key: bool) -> Result<Topic, Refused> {
        let mut routes = self.lock();
        let Some(Route::Known(found)) = routes.get(topic) else { return Err(Refused::RouteUnknown) };
        let found = *found;
        match partition {
            _ if found.compacted && null_key => {
                Err(Refused::Failed { class: Class::Message, code: Code::InvalidRecord as i16 })
            }
            Some(partition) if partition < 0 => {
                Err(Refused::Failed { class: Class::Message, code: Code::UnknownPartition as i16 })
            }
            Some(partition) if partition >= found.partitions => {
                // the topic may have grown since: the next check looks again
                routes.remove(topic);
                Err(Refused::Failed { class: Class::Route, code: Code::UnknownPartition as i16 })
            }
            _ => Ok(found),
        }
    }

    /// Starts or joins a lookup, unless its result is known.
    pub(super) fn ask(&self, topic: &str) -> Answer {
        if check_topic_name(topic).is_err() {
            // never asked for: a bad name in the client's metadata spoils the lookups of good ones
            return Answer::Ready(Err((Class::Message, Code::InvalidTopic as i16)));
        }
        let (sender, receiver) = oneshot::channel();
        let mut routes = self.lock();
        match routes.get_mut(topic) {
            Some(Route::Known(found)) => Answer::Ready(Ok(*found)),
            Some(Route::Failed(class, code)) => Answer::Ready(Err((*class, *code))),
            Some(Route::Asked(waiting)) => {
                waiting.push(sender);
                Answer::Wait(receiver)
            }
            None => {
                routes.insert(topic.to_owned(), Route::Asked(vec![sender]));
                Answer::Ask(receiver)
            }
        }
    }

    /// Stores what a lookup found and tells those who wait. Only what is true of the topic itself is kept.
    pub(super) fn learn(&self, topic: &str, found: Lookup) {
        let mut routes = self.lock();
        let before = match found {
            Ok(found) => routes.insert(topic.to_owned(), Route::Known(found)),
            Err((class @ (Class::Route | Class::Message), code)) => {
                routes.insert(topic.to_owned(), Route::Failed(class, code))
            }
            Err(_) => routes.remove(topic),
        };
        drop(routes);
        if let Some(Route::Asked(waiting)) = before {
            for sender in waiting {
                // whoever no longer waits needs no answer
                let _ = sender.send(found);
            }
        }
    }

    /// A record failed because of its topic: look it up again.
    pub(super) fn forget(&self, topic: &str) {
        let mut routes = self.lock();
        if matches!(routes.get(topic), Some(Route::Known(_))) {
            routes.remove(topic);
        }
    }

    /// Forgets failures, so that they are looked up again.
    pub(super) fn expire_failures(&self) {
        self.lock().retain(|_, route| !matches!(route, Route::Failed(..)));
    }

    /// The smallest limit of the topics that are known.
    pub(super) fn smallest_limit(&self) -> Option<usize> {
        let limit = |route: &Route| if let Route::Known(topic) = route { topic.limit } else { None };
        self.lock().values().filter_map(limit).min()
    }

    /// Forgets the topics that are known, and names them.
    pub(super) fn forget_all(&self) -> Vec<String> {
        let mut routes = self.lock();
        let known = |(topic, route): (&String, &Route)| matches!(route, Route::Known(_)).then(|| topic.clone());
        let names = routes.iter().filter_map(known).collect();
        routes.retain(|_, route| !matches!(route, Route::Known(_)));
        names
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        // every change is one insert or remove: a panic elsewhere leaves the map whole
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: (Class, i16) = (Class::Route, 3);

    fn partitions(partitions: i32) -> Topic {
        Topic { partitions, ..Topic::default() }
    }

    fn ready(answer: Answer) -> Lookup {
        let Answer::Ready(lookup) = answer else { panic!("the answer is not known") };
        lookup
    }

    #[test]
    fn records_wait_for_the_lookup_of_their_topic() {
        let routes = Routes::default();
        assert_eq!(routes.admit("t", None, true), Err(Refused::RouteUnknown));
        let Answer::Ask(mut first) = routes.ask("t") else { panic!("nobody asked before") };
        let Answer::Wait(mut second) = routes.ask("t") else { panic!("asked twice") };
        assert_eq!(routes.admit("t", None, true), Err(Refused::RouteUnknown));
        routes.learn("t", Ok(partitions(2)));
        assert_eq!((first.try_recv(), second.try_recv()), (Ok(Ok(partitions(2))), Ok(Ok(partitions(2)))));
        assert_eq!(routes.admit("t", Some(1), true), Ok(partitions(2)));
        assert_eq!(ready(routes.ask("t")), Ok(partitions(2)));
    }

    #[test]
    fn a_partition_that_does_not_exist_fails_and_is_looked_up_again() {
        let routes = Routes::default();
        routes.learn("t", Ok(partitions(2)));
        assert_eq!(routes.admit("t", Some(2), true), Err(Refused::Failed { class: Class::Route, code: -190 }));
        assert_eq!(routes.admit("t", Some(2), true), Err(Refused::RouteUnknown));
        routes.learn("t", Ok(partitions(3)));
        assert_eq!(routes.admit("t", Some(2), true), Ok(partitions(3)));
        assert_eq!(routes.admit("t", Some(-1), true), Err(Refused::Failed { class: Class::Message, code: -190 }));
    }

    #[test]
    fn failures_of_the_topic_are_kept_for_a_tick_others_not_at_all() {
        let routes = Routes::default();
        routes.learn("t", Err(MISSING));
        assert_eq!(ready(routes.ask("t")), Err(MISSING));
        routes.expire_failures();
        assert!(matches!(routes.ask("t"), Answer::Ask(_)));
        routes.learn("t", Err((Class::DestinationDown, -195)));
        assert!(matches!(routes.ask("t"), Answer::Ask(_)));
    }

    #[test]
    fn b81_a_bad_name_is_never_asked_for() {
        let routes = Routes::default();
        let long = "a".repeat(250);
        for name in
            ["", ".", "..", "orders v1", "a/b", "\u{437}\u{430}\u{43a}\u{430}\u{437}\u{44b}", "\u{1f600}", &long]
        {
            assert_eq!(ready(routes.ask(name)), Err((Class::Message, 17)), "{name:?}");
        }
        assert!(routes.forget_all().is_empty());
    }

    #[test]
    fn a_compacted_topic_takes_no_null_key() {
        let routes = Routes::default();
        routes.learn("t", Ok(Topic { compacted: true, ..partitions(1) }));
        assert_eq!(routes.admit("t", None, true), Err(Refused::Failed { class: Class::Message, code: 87 }));
        assert!(routes.admit("t", None, false).is_ok());
    }

    #[test]
    fn the_smallest_limit_is_that_of_known_topics() {
        let routes = Routes::default();
        assert_eq!(routes.smallest_limit(), None);
        for (name, limit) in [("a", Some(5_000)), ("b", Some(2_000)), ("c", None)] {
            routes.learn(name, Ok(Topic { limit, ..partitions(1) }));
        }
        assert_eq!(routes.smallest_limit(), Some(2_000));
        assert_eq!(routes.forget_all().len(), 3);
        assert_eq!(routes.smallest_limit(), None);
    }
}
