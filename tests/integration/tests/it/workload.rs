//! The workload and the auditor agree before a relay comes between them: what the journal says was
//! committed is what the log holds, in id order per key.

use std::time::Duration;

use fencepost_auditor::{Fate, MessageId, Place};
use fencepost_integration::database::TestDatabase;
use fencepost_integration::random;
use fencepost_integration::workload::Workload;
use sqlx::PgConnection;
use uuid::Uuid;

async fn log(connection: &mut PgConnection) -> Vec<(i64, Uuid)> {
    let rows = sqlx::query_as(r#"SELECT id, message_id FROM "fencepost".outbox ORDER BY id"#);
    rows.fetch_all(connection).await.expect("the log can be read")
}

#[tokio::test]
async fn a_journal_says_what_the_log_holds() {
    let database = TestDatabase::create("workload").await;
    let mut connection = database.connect().await;
    let workload = Workload {
        duration: Duration::from_secs(2),
        long_hold: Duration::from_millis(500),
        ..Workload::new(database.url(), "workload", random::seed())
    };
    workload.prepare(&mut connection).await;
    let journal = workload.run().await;
    for fate in [Fate::Committed, Fate::RolledBack] {
        assert!(journal.count(fate) > 10, "a workload without messages that are {fate:?}");
    }
    let mut audit = journal.audit().expect("each message once");
    for (id, message_id) in log(&mut connection).await {
        audit.observed(MessageId(message_id.as_u128()), Place { partition: 0, offset: id });
    }
    let verdict = audit.verdict();
    assert!(verdict.holds_exactly_once(), "{verdict}");
}

/// Without it the pressure on the relay is missing: ids must become visible out of their order.
#[tokio::test]
async fn ids_become_visible_out_of_order() {
    let database = TestDatabase::create("workload_order").await;
    let mut connection = database.connect().await;
    let workload = Workload {
        duration: Duration::from_secs(2),
        long_hold: Duration::from_millis(500),
        ..Workload::new(database.url(), "workload", random::seed())
    };
    workload.prepare(&mut connection).await;
    let writing = tokio::spawn(async move { workload.run().await });
    let (mut newest, mut seen, mut late) = (0, std::collections::HashSet::new(), 0);
    while !writing.is_finished() {
        let ids: Vec<i64> = log(&mut connection).await.into_iter().map(|(id, _)| id).collect();
        late += ids.iter().filter(|id| **id < newest && !seen.contains(*id)).count();
        newest = ids.last().copied().unwrap_or(newest);
        seen.extend(ids);
    }
    assert!(late > 0, "no id below one that had been read became visible later");
}
