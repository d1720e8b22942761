//! What is known of topics. A record goes only to a topic that was looked up before: librdkafka would take
//! one for a missing topic too and fail it seconds later, when later records of its key may have gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::failure::Class;
use fencepost_core::limits::check_topic_name;
use rdkafka::producer::Producer;
use rdkafka::types::RDKafkaErrorCode as Code;
use std::time::Duration;
use tokio::sync::oneshot;

use super::classify::{class_of_unwritten, refuses_client};
use super::line::Client;
use crate::publisher::Refused;

/// What a lookup found: the number of partitions, or why not.
pub(super) type Lookup = Result<i32, (Class, i16)>;

enum Route {
    /// Exists, with so many partitions.
    Known(i32),
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
    /// Whether a record may go there now.
    pub(super) fn admit(&self, topic: &str, partition: Option<i32>) -> Result<(), Refused> {
        let mut routes = self.lock();
        let Some(Route::Known(partitions)) = routes.get(topic) else { return Err(Refused::RouteUnknown) };
        match partition {
            None => Ok(()),
            Some(partition) if partition < 0 => {
                Err(Refused::Failed { class: Class::Message, code: Code::UnknownPartition as i16 })
            }
            Some(partition) if partition < *partitions => Ok(()),
            Some(_) => {
                // the topic may have grown since: the next check looks again
                routes.remove(topic);
                Err(Refused::Failed { class: Class::Route, code: Code::UnknownPartition as i16 })
            }
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
            Some(Route::Known(partitions)) => Answer::Ready(Ok(*partitions)),
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
            Ok(partitions) => routes.insert(topic.to_owned(), Route::Known(partitions)),
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

    /// Names of the topics that exist.
    pub(super) fn known(&self) -> Vec<String> {
        let known = |(topic, route): (&String, &Route)| matches!(route, Route::Known(_)).then(|| topic.clone());
        self.lock().iter().filter_map(known).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        // every change is one insert or remove: a panic elsewhere leaves the map whole
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the cluster for a topic. Blocks up to `patience`.
pub(super) fn look_up(client: &Client, topic: &str, patience: Duration) -> Lookup {
    let metadata = client.client().fetch_metadata(Some(topic), patience).map_err(|error| {
        let code = error.rdkafka_error_code().unwrap_or(Code::OperationTimedOut);
        (Class::DestinationDown, code as i16)
    })?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Err((Class::Route, Code::UnknownTopicOrPartition as i16));
    };
    match found.error().map(Code::from) {
        None | Some(Code::NoError) if found.partitions().is_empty() => {
            Err((Class::Route, Code::UnknownTopicOrPartition as i16))
        }
        // while a leader is elected the topic exists all the same
        None | Some(Code::NoError | Code::LeaderNotAvailable) => {
            Ok(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX))
        }
        Some(code) if refuses_client(code) => Err((Class::DestinationDown, code as i16)),
        Some(code) => Err((class_of_unwritten(code), code as i16)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: (Class, i16) = (Class::Route, 3);

    fn ready(answer: Answer) -> Lookup {
        let Answer::Ready(lookup) = answer else { panic!("the answer is not known") };
        lookup
    }

    #[test]
    fn records_wait_for_the_lookup_of_their_topic() {
        let routes = Routes::default();
        assert_eq!(routes.admit("t", None), Err(Refused::RouteUnknown));
        let Answer::Ask(mut first) = routes.ask("t") else { panic!("nobody asked before") };
        let Answer::Wait(mut second) = routes.ask("t") else { panic!("asked twice") };
        assert_eq!(routes.admit("t", None), Err(Refused::RouteUnknown));
        routes.learn("t", Ok(2));
        assert_eq!((first.try_recv(), second.try_recv()), (Ok(Ok(2)), Ok(Ok(2))));
        assert_eq!(routes.admit("t", Some(1)), Ok(()));
        assert_eq!(ready(routes.ask("t")), Ok(2));
    }

    #[test]
    fn a_partition_that_does_not_exist_fails_and_is_looked_up_again() {
        let routes = Routes::default();
        routes.learn("t", Ok(2));
        assert_eq!(routes.admit("t", Some(2)), Err(Refused::Failed { class: Class::Route, code: -190 }));
        assert_eq!(routes.admit("t", Some(2)), Err(Refused::RouteUnknown));
        routes.learn("t", Ok(3));
        assert_eq!(routes.admit("t", Some(2)), Ok(()));
        assert_eq!(routes.admit("t", Some(-1)), Err(Refused::Failed { class: Class::Message, code: -190 }));
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
        assert!(routes.known().is_empty());
    }
}
