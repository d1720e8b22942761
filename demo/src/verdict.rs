//! The judgement at the end. Pure: it is handed what the three sides say (the shop's database, the topic, the
//! consumer's database) and what the relays counted, and says what is wrong.

use std::fmt;

use crate::figures::thousands;

/// What was counted when everything had come to rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Rows of the shop's table of orders.
    pub committed: u64,
    /// Orders whose commit the database confirmed to a service.
    pub confirmed: u64,
    /// Orders that a service rolled back after it had enqueued their message.
    pub rolled_back: u64,
    /// Records that the topic holds.
    pub records: u64,
    /// Distinct message ids among them.
    pub distinct: u64,
    /// Messages of confirmed orders that the topic does not hold.
    pub lost: u64,
    /// Records of messages that were rolled back or that nobody wrote.
    pub invented: u64,
    /// Messages whose first record came behind that of a younger one of the same key, or in another partition.
    pub disorders: u64,
    /// Rows of the consumer's table of effects.
    pub effects: u64,
    /// Distinct orders among them.
    pub served: u64,
    /// Records that the consumer's ledger knew already.
    pub absorbed: u64,
    /// Lanes that a relay took from one that had not given them back.
    pub takeovers: u64,
    /// Marks of a relay whose lease was gone: rows that the compare-and-set refused.
    pub rejected_marks: u64,
}

impl Evidence {
    /// Records beyond the first of their message.
    pub fn repeats(&self) -> u64 {
        self.records.saturating_sub(self.distinct)
    }

    /// What is wrong, one sentence each; none means that the story was told whole and everything held.
    pub fn complaints(&self) -> Vec<String> {
        let Evidence { committed, confirmed, distinct, effects, served, absorbed, .. } = *self;
        let mut found = Vec::new();
        let mut unless = |holds: bool, complaint: String| {
            if !holds {
                found.push(complaint);
            }
        };
        unless(committed > 0, "no order was committed: nothing was shown".into());
        unless(
            committed >= confirmed,
            format!("{confirmed} commits were confirmed, the shop holds {committed} orders"),
        );
        unless(distinct == committed, format!("the topic holds {distinct} messages of {committed} committed orders"));
        unless(effects == committed, format!("{effects} effects were applied for {committed} committed orders"));
        unless(served == effects, format!("{} effects were applied more than once", effects.saturating_sub(served)));
        unless(self.lost == 0, format!("{} committed messages are not in the topic", self.lost));
        unless(self.invented == 0, format!("{} records belong to no committed order", self.invented));
        unless(self.disorders == 0, format!("{} messages are out of their key's order", self.disorders));
        unless(
            absorbed >= self.repeats(),
            format!("only {absorbed} of {} delivered repeats were absorbed", self.repeats()),
        );
        unless(self.takeovers > 0, "no lane was taken over: the freeze was not shown".into());
        unless(self.rejected_marks > 0, "no stale mark was rejected: the fence was not shown".into());
        found
    }

    /// Whether nothing is wrong.
    pub fn holds(&self) -> bool {
        self.complaints().is_empty()
    }

    /// The table: what, how much, where it was counted.
    pub fn table(&self) -> Vec<String> {
        let rows = [
            ("orders committed", self.committed, "rows in the shop's database".to_owned()),
            ("messages in the topic", self.distinct, format!("distinct ids among {} records", thousands(self.records))),
            ("effects applied", self.effects, "rows in the consumer's database".to_owned()),
            ("orders rolled back", self.rolled_back, format!("{} records without a committed order", self.invented)),
            ("repeats delivered", self.repeats(), format!("{} absorbed by the ledger", thousands(self.absorbed))),
            ("lanes taken over", self.takeovers, "from the relay that stood still".to_owned()),
            ("stale marks rejected", self.rejected_marks, "of the relay that had stood still".to_owned()),
            ("order violations", self.disorders, "first records, per customer".to_owned()),
        ];
        rows.iter().map(|(what, count, where_)| format!("{what:<22}{:>9}   {where_}", thousands(*count))).collect()
    }
}

/// The last line, for scripts: `verdict: pass: ...` or `verdict: fail: ...`.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let complaints = self.complaints();
        if !complaints.is_empty() {
            return write!(f, "verdict: fail: {}", complaints.join("; "));
        }
        write!(
            f,
            "verdict: pass: {} orders committed = {} messages in the topic = {} effects applied; {} repeats delivered \
             and absorbed; {} stale marks rejected; {} order violations",
            self.committed,
            self.distinct,
            self.effects,
            self.repeats(),
            self.rejected_marks,
            self.disorders
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Evidence {
        Evidence {
            committed: 1_000,
            confirmed: 1_000,
            rolled_back: 50,
            records: 1_030,
            distinct: 1_000,
            effects: 1_000,
            served: 1_000,
            absorbed: 30,
            takeovers: 4,
            rejected_marks: 3,
            ..Evidence::default()
        }
    }

    #[test]
    fn a_whole_story_passes_with_its_counts() {
        assert_eq!(good().complaints(), Vec::<String>::new());
        assert_eq!(
            good().to_string(),
            "verdict: pass: 1000 orders committed = 1000 messages in the topic = 1000 effects applied; \
             30 repeats delivered and absorbed; 3 stale marks rejected; 0 order violations"
        );
    }

    /// A count that was bent in any one place fails, and the complaint names it.
    #[test]
    fn every_wrong_count_fails() {
        type Bend = fn(&mut Evidence);
        let bends: [(Bend, &str); 16] = [
            (|e| e.committed += 1, "1000 messages of 1001 committed"),
            (|e| e.committed -= 1, "1000 commits were confirmed"),
            (|e| e.confirmed += 1, "1001 commits were confirmed"),
            (|e| e.distinct -= 1, "999 messages of 1000"),
            (|e| e.distinct += 1, "1001 messages of 1000"),
            (|e| e.effects -= 1, "999 effects were applied for 1000"),
            (|e| e.effects += 1, "1001 effects were applied for 1000"),
            (|e| e.served -= 1, "1 effects were applied more than once"),
            (|e| e.lost = 1, "1 committed messages are not in the topic"),
            (|e| e.invented = 1, "1 records belong to no committed order"),
            (|e| e.disorders = 1, "1 messages are out of their key's order"),
            (|e| e.absorbed -= 1, "only 29 of 30 delivered repeats"),
            (|e| e.records += 1, "only 30 of 31 delivered repeats"),
            (|e| e.takeovers = 0, "no lane was taken over"),
            (|e| e.rejected_marks = 0, "no stale mark was rejected"),
            (|e| *e = Evidence { takeovers: 1, rejected_marks: 1, ..Evidence::default() }, "no order was committed"),
        ];
        for (bend, complaint) in bends {
            let mut evidence = good();
            bend(&mut evidence);
            let line = evidence.to_string();
            assert!(!evidence.holds() && line.starts_with("verdict: fail: ") && line.contains(complaint), "{line}");
        }
    }

    /// Nothing delivered, nothing applied: equal counts alone are no pass.
    #[test]
    fn equal_counts_of_a_story_without_a_freeze_fail() {
        let evidence = Evidence { takeovers: 0, rejected_marks: 0, records: 1_000, absorbed: 0, ..good() };
        assert_eq!(evidence.complaints().len(), 2, "{evidence}");
    }

    #[test]
    fn the_table_names_each_side() {
        let table = good().table().join("\n");
        for part in ["orders committed          1,000", "distinct ids among 1,030 records", "30 absorbed by the ledger"]
        {
            assert!(table.contains(part), "{table}");
        }
    }
}
