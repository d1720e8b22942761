//! The auditor is judged itself: a faithful topic holds however it is told, and each way of breaking
//! one is found, and found as what it is.

use std::collections::HashMap;

use fencepost_auditor::{Audit, Entry, Fate, Journal, MessageId, Place, Verdict};
use proptest::prelude::*;
use proptest::sample::Index;

/// A run: the journal, and per message where the topic holds it.
#[derive(Clone, Debug)]
struct Run {
    journal: Journal,
    records: Vec<(MessageId, Place)>,
}

impl Run {
    fn verdict(&self) -> Verdict {
        let mut audit = self.journal.audit().expect("generated ids differ");
        for (id, place) in &self.records {
            audit.observed(*id, *place);
        }
        audit.verdict()
    }

    /// Pairs of neighbours of one key in the topic.
    fn neighbours(&self) -> Vec<(usize, usize)> {
        let mut last: HashMap<&str, usize> = HashMap::new();
        let mut pairs = Vec::new();
        for (index, (id, _)) in self.records.iter().enumerate() {
            let entry = self.journal.entries.iter().find(|entry| entry.id == *id).expect("a record of the journal");
            if let Some(key) = entry.key.as_deref()
                && let Some(before) = last.insert(key, index)
            {
                pairs.push((before, index));
            }
        }
        pairs
    }
}

/// Messages of few keys in log order, some rolled back, some in doubt, some without a key; a faithful
/// topic with a partition per key.
fn faithful() -> impl Strategy<Value = Run> {
    let fate = prop_oneof![6 => Just(Fate::Committed), 2 => Just(Fate::RolledBack), 1 => Just(Fate::InDoubt)];
    let message = (fate, prop::option::weighted(0.9, 0..4i32), any::<bool>());
    prop::collection::vec(message, 1..60).prop_map(|messages| {
        let mut run = Run { journal: Journal::default(), records: Vec::new() };
        for (index, (fate, key, doubt_landed)) in messages.into_iter().enumerate() {
            let (id, number) = (MessageId(index as u128 + 1), index as u64);
            run.journal.note(Entry { id, fate, key: key.map(|key| format!("key {key}")), seq: number });
            if fate == Fate::Committed || (fate == Fate::InDoubt && doubt_landed) {
                run.records.push((id, Place { partition: key.unwrap_or(0), offset: index as i64 * 2 }));
            }
        }
        run
    })
}

proptest! {
    #[test]
    fn a_faithful_topic_holds_however_it_is_told(run in faithful(), order in any::<u64>()) {
        let mut told = run.clone();
        let count = told.records.len().max(1);
        told.records.rotate_left(order as usize % count);
        told.records.reverse();
        let verdict = told.verdict();
        prop_assert!(verdict.holds_exactly_once(), "{verdict}");
        prop_assert_eq!(verdict, run.verdict());
    }

    #[test]
    fn a_removed_record_is_lost(mut run in faithful(), pick in any::<Index>()) {
        run.journal.entries.retain(|entry| entry.fate != Fate::InDoubt);
        run.records.retain(|(id, _)| run.journal.entries.iter().any(|entry| entry.id == *id));
        prop_assume!(!run.records.is_empty());
        let (id, _) = run.records.remove(pick.index(run.records.len()));
        let verdict = run.verdict();
        prop_assert_eq!(verdict.lost.first, vec![id]);
        prop_assert!(verdict.misordered.is_empty() && verdict.invented_unknown.is_empty());
    }

    #[test]
    fn a_published_rollback_is_invented(mut run in faithful()) {
        let rolled_back: Vec<MessageId> =
            run.journal.entries.iter().filter(|e| e.fate == Fate::RolledBack).map(|e| e.id).collect();
        prop_assume!(!rolled_back.is_empty());
        for (index, id) in rolled_back.iter().enumerate() {
            run.records.push((*id, Place { partition: 9, offset: index as i64 }));
        }
        let verdict = run.verdict();
        prop_assert!(!verdict.holds());
        prop_assert_eq!(verdict.invented_rolled_back.count, rolled_back.len() as u64);
    }

    #[test]
    fn an_unknown_record_is_invented(mut run in faithful()) {
        run.records.push((MessageId(u128::MAX), Place { partition: 0, offset: 1 }));
        prop_assert_eq!(run.verdict().invented_unknown.first, vec![MessageId(u128::MAX)]);
    }

    #[test]
    fn swapped_neighbours_of_a_key_are_misordered(mut run in faithful(), pick in any::<Index>()) {
        let pairs = run.neighbours();
        prop_assume!(!pairs.is_empty());
        let (older, younger) = pairs[pick.index(pairs.len())];
        let (late, behind) = (run.records[older].0, run.records[younger].0);
        run.records[older].0 = behind;
        run.records[younger].0 = late;
        let verdict = run.verdict();
        prop_assert!(!verdict.holds());
        prop_assert_eq!(verdict.misordered.count, 1);
        prop_assert_eq!((verdict.misordered.first[0].late, verdict.misordered.first[0].behind), (late, behind));
    }

    #[test]
    fn a_late_repeat_is_a_repeat_and_no_disorder(mut run in faithful(), pick in any::<Index>()) {
        prop_assume!(!run.records.is_empty());
        let (id, place) = run.records[pick.index(run.records.len())];
        run.records.push((id, Place { offset: 1_000_001, ..place }));
        let verdict = run.verdict();
        prop_assert!(verdict.holds() && !verdict.holds_exactly_once(), "{verdict}");
        prop_assert_eq!((verdict.repeats, verdict.repeated.first), (1, vec![id]));
    }

    #[test]
    fn a_key_on_two_partitions_is_scattered(mut run in faithful(), pick in any::<Index>()) {
        let pairs = run.neighbours();
        prop_assume!(!pairs.is_empty());
        let (_, younger) = pairs[pick.index(pairs.len())];
        run.records[younger].1.partition = 77;
        let verdict = run.verdict();
        prop_assert!(!verdict.scattered.is_empty() && !verdict.holds());
    }

    #[test]
    fn a_journal_survives_its_file(run in faithful()) {
        let mut file = Vec::new();
        run.journal.write(&mut file).expect("memory takes it");
        prop_assert_eq!(Journal::read(file.as_slice()).expect("its own lines"), run.journal);
    }
}

#[test]
fn a_message_stands_once_in_a_journal() {
    let mut audit = Audit::default();
    audit.committed(MessageId(1), Some("a"), 1).expect("new");
    assert!(audit.rolled_back(MessageId(1)).is_err());
    assert!(audit.in_doubt(MessageId(1), None, 1).is_err());
}

#[test]
fn what_people_read_names_the_ids_that_are_wrong() {
    let mut audit = Audit::default();
    audit.committed(MessageId(1), Some("a"), 1).expect("new");
    audit.committed(MessageId(2), Some("a"), 2).expect("new");
    audit.observed(MessageId(2), Place { partition: 0, offset: 0 });
    assert_eq!(audit.delivered(), 1);
    let text = audit.verdict().to_string();
    assert!(text.contains("lost: 1\n  00000000-0000-0000-0000-000000000001"), "{text}");
    assert!(text.ends_with("broken"), "{text}");
}
