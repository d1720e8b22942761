//! A Kafka in memory: a partition per key, and producers that are idempotent and gapless. The broker
//! appends what a producer holds in the order of each partition; everything else (when, whether the
//! acknowledgement comes, what a dead producer's requests still do) is the driver's choice.

use std::collections::BTreeSet;

use fencepost_core::failure::{Class, Outcome, Persistence};

/// What of the clients' behaviour is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Behind a record that failed nothing of the producer is appended any more.
    pub gapless: bool,
    /// A producer that had failures is replaced behind the relay's back, so that it takes records at once.
    pub rebuilds_itself: bool,
    /// What came back unsent is sent again by the client itself once it has been replaced.
    pub resends_itself: bool,
}

impl Rules {
    /// As librdkafka is set up.
    pub const REAL: Rules = Rules { gapless: true, rebuilds_itself: false, resends_itself: false };
}

/// A record in a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The page slot, if anybody waits for the outcome.
    pub slot: Option<usize>,
    /// The message.
    pub id: i64,
    /// Its key: its partition.
    pub key: u32,
}

/// One relay's producer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Producer {
    queue: Vec<Entry>,
    /// Takes nothing before it is told to go on.
    halted: bool,
    /// Takes nothing before it is replaced.
    broken: bool,
    /// What it would send again by itself.
    unsent: Vec<Entry>,
}

/// An outcome, for whoever waits for it.
pub type Settled = (Entry, Outcome);

/// The cluster and its clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FakeKafka {
    rules: Rules,
    producers: Vec<Producer>,
    /// Requests of producers that are gone: each may still be appended, in its order.
    zombies: Vec<Vec<Entry>>,
    /// The ids that are in the topic.
    topic: BTreeSet<i64>,
    /// Messages that the broker refuses.
    guilty: BTreeSet<i64>,
}

fn failed(class: Class, persistence: Persistence) -> Outcome {
    Outcome::Failed { class, persistence, code: 1 }
}

impl FakeKafka {
    /// A cluster with an empty topic.
    pub fn new(rules: Rules, producers: usize, guilty: impl IntoIterator<Item = i64>) -> Self {
        FakeKafka {
            rules,
            producers: vec![Producer::default(); producers],
            zombies: Vec::new(),
            topic: BTreeSet::new(),
            guilty: guilty.into_iter().collect(),
        }
    }

    /// The ids that are in the topic.
    pub fn topic(&self) -> &BTreeSet<i64> {
        &self.topic
    }

    /// Whether the broker refuses a message.
    pub fn is_guilty(&self, id: i64) -> bool {
        self.guilty.contains(&id)
    }

    /// Adds a producer.
    pub fn add_producer(&mut self) -> usize {
        self.producers.push(Producer::default());
        self.producers.len() - 1
    }

    /// Hands a record over; `false`: the producer takes nothing now.
    pub fn send(&mut self, producer: usize, entry: Entry) -> bool {
        let producer = &mut self.producers[producer];
        if producer.halted || producer.broken {
            return false;
        }
        producer.queue.push(entry);
        true
    }

    /// What a producer holds, in order.
    pub fn queue(&self, producer: usize) -> &[Entry] {
        &self.producers[producer].queue
    }

    /// Requests of former producers that may still be appended.
    pub fn zombies(&self) -> &[Vec<Entry>] {
        &self.zombies
    }

    /// Places in a queue that the broker may append next: the first of each partition.
    pub fn firsts(queue: &[Entry]) -> impl Iterator<Item = usize> {
        let is_first = |index: &usize| queue[..*index].iter().all(|earlier| earlier.key != queue[*index].key);
        (0..queue.len()).filter(is_first)
    }

    /// Appends a record and acknowledges it.
    pub fn append(&mut self, producer: usize, index: usize) -> Settled {
        let entry = self.producers[producer].queue.remove(index);
        self.topic.insert(entry.id);
        (entry, Outcome::Acked)
    }

    /// Appends a record without telling; the client gives up waiting, and drops what is behind it.
    pub fn append_silently(&mut self, producer: usize, index: usize) -> Vec<Settled> {
        self.topic.insert(self.producers[producer].queue[index].id);
        self.fail(producer, index, failed(Class::Ambiguous, Persistence::Possibly), 1)
    }

    /// Refuses a record for good, with `neighbours` more of its request: the next ones of its partition.
    pub fn refuse(&mut self, producer: usize, index: usize, neighbours: usize) -> Vec<Settled> {
        self.fail(producer, index, failed(Class::Message, Persistence::Not), 1 + neighbours)
    }

    /// Refuses a record because its topic can't be written now.
    pub fn refuse_route(&mut self, producer: usize, index: usize) -> Vec<Settled> {
        self.fail(producer, index, failed(Class::Route, Persistence::Not), 1)
    }

    /// Everything that a producer holds fails because the cluster can't be reached.
    pub fn go_down(&mut self, producer: usize) -> Vec<Settled> {
        let producer = &mut self.producers[producer];
        (producer.halted, producer.broken) = (true, true);
        let outcome = failed(Class::DestinationDown, Persistence::Not);
        producer.queue.drain(..).map(|entry| (entry, outcome)).collect()
    }

    fn fail(&mut self, producer: usize, index: usize, outcome: Outcome, count: usize) -> Vec<Settled> {
        let (rules, producer) = (self.rules, &mut self.producers[producer]);
        let key = producer.queue[index].key;
        let mut request: Vec<usize> = (index..producer.queue.len()).filter(|i| producer.queue[*i].key == key).collect();
        request.truncate(count);
        let mut settled: Vec<Settled> = request.iter().map(|i| (producer.queue[*i], outcome)).collect();
        for i in request.into_iter().rev() {
            producer.queue.remove(i);
        }
        producer.halted = true;
        if rules.gapless {
            producer.broken = true;
            let behind = producer.queue.drain(..);
            settled.extend(behind.map(|entry| (entry, failed(Class::Collateral, Persistence::Not))));
        }
        if rules.rebuilds_itself {
            (producer.halted, producer.broken) = (false, false);
        }
        if rules.resends_itself {
            let collateral = |(_, o): &&Settled| matches!(o, Outcome::Failed { class: Class::Collateral, .. });
            producer.unsent =
                settled.iter().filter(collateral).map(|(entry, _)| Entry { slot: None, ..*entry }).collect();
        }
        settled
    }

    /// Purges a producer: nothing of it is certain any more, and it may still reach the broker.
    pub fn purge(&mut self, producer: usize) -> Vec<Settled> {
        let entries = self.abandon(producer);
        let producer = &mut self.producers[producer];
        (producer.halted, producer.broken) = (true, true);
        let outcome = failed(Class::Ambiguous, Persistence::Possibly);
        entries.into_iter().map(|entry| (entry, outcome)).collect()
    }

    /// The process of a producer is gone, and a new one starts; what it held may still reach the broker.
    pub fn crash(&mut self, producer: usize) {
        self.abandon(producer);
        self.producers[producer] = Producer::default();
    }

    fn abandon(&mut self, producer: usize) -> Vec<Entry> {
        let entries = std::mem::take(&mut self.producers[producer].queue);
        if !entries.is_empty() {
            self.zombies.push(entries.iter().map(|entry| Entry { slot: None, ..*entry }).collect());
            self.zombies.sort_by_key(|queue| queue.iter().map(|entry| entry.id).collect::<Vec<_>>());
        }
        entries
    }

    /// A producer takes records again; `false`: it is broken.
    pub fn resume(&mut self, producer: usize) -> bool {
        let producer = &mut self.producers[producer];
        producer.halted = producer.broken;
        !producer.broken
    }

    /// Replaces a producer whose outcomes are all in.
    pub fn rebuild(&mut self, producer: usize) {
        let queue = std::mem::take(&mut self.producers[producer].unsent);
        self.producers[producer] = Producer { queue, ..Producer::default() };
    }

    /// A request of a producer that is gone is appended after all, or refused: then nothing follows it.
    pub fn drain_zombie(&mut self, zombie: usize, index: usize) -> Option<Entry> {
        let queue = &mut self.zombies[zombie];
        let entry = queue.remove(index);
        let refused = self.guilty.contains(&entry.id);
        if refused {
            queue.clear();
        } else {
            self.topic.insert(entry.id);
        }
        if queue.is_empty() {
            self.zombies.remove(zombie);
        }
        (!refused).then_some(entry)
    }

    /// Nothing of the producers that are gone reaches the broker any more.
    pub fn drop_zombies(&mut self) {
        self.zombies.clear();
    }
}
