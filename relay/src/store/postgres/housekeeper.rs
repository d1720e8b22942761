//! What has time: backlog, old batch rows, and the audit, on a connection of the keeper's kind.

use std::time::Duration;

use fencepost_core::audit::{Recorded, Step, Window};
use fencepost_core::lane::{LaneId, Owner};
use fencepost_core::schema::Schema;
use sqlx::postgres::PgRow;

use super::keeper::{PostgresKeeper, micros};
use super::position::{column, position};
use super::sql::Sql;
use crate::store::{FINDING_IDS_MAX, FINDINGS_MAX, Finding, Housekeeper, LaneLag, StoreError};

/// Batch rows that stay, per lane: the attempt history of the log.
const BATCHES_KEPT: i64 = 10_000;

/// Rows looked at per lane for its lag.
const LAG_ROWS_MAX: i64 = 1_000;

pub(super) struct Chores {
    lag: Sql,
    prune: Sql,
    forget_relays: Sql,
    rows: Sql,
    count: Sql,
    report: Sql,
    findings: Sql,
}

impl Chores {
    pub(super) fn new(schema: &Schema) -> Self {
        let sql = |template| Sql::new(schema, template);
        Chores {
            lag: sql(include_str!("sql/lag.sql")),
            prune: sql(include_str!("sql/prune.sql")),
            forget_relays: sql(include_str!("sql/forget_relays.sql")),
            rows: sql(include_str!("sql/audit_rows.sql")),
            count: sql(include_str!("sql/audit_count.sql")),
            report: sql(include_str!("sql/audit_report.sql")),
            findings: sql(include_str!("sql/audit_findings.sql")),
        }
    }
}

impl Housekeeper for PostgresKeeper {
    async fn lag(&mut self) -> Result<Vec<LaneLag>, StoreError> {
        let sql = self.chores.lag.get();
        let rows = self
            .session
            .call(async |connection| sqlx::query(sql).bind(LAG_ROWS_MAX).fetch_all(connection).await)
            .await?;
        rows.iter().map(lane_lag).collect()
    }

    async fn prune(&mut self, lease: Duration, limit: i64) -> Result<u64, StoreError> {
        let (prune, forget) = (self.chores.prune.get(), self.chores.forget_relays.get());
        self.session.call(async |connection| sqlx::query(forget).execute(connection).await).await?;
        self.session
            .call(async |connection| {
                let query = sqlx::query(prune).bind(micros(lease)).bind(BATCHES_KEPT).bind(limit);
                query.execute(connection).await
            })
            .await
            .map(|done| done.rows_affected())
    }

    async fn recorded(&mut self, lane: LaneId, from: i64, limit: i64) -> Result<Vec<Recorded>, StoreError> {
        let query = sqlx::query(self.chores.rows.get()).bind(lane.0).bind(from).bind(limit);
        let rows = self.session.call(async |connection| query.fetch_all(connection).await).await?;
        rows.iter().map(recorded).collect()
    }

    async fn count(&mut self, window: &Window, rows_max: i64) -> Result<Option<i64>, StoreError> {
        let query = sqlx::query(self.chores.count.get()).bind(window.lane.0);
        let query = query.bind(window.lo.snapshot.to_string()).bind(window.up.snapshot.to_string());
        let query = query.bind(rows_max.saturating_add(1));
        let row = self.session.call(async |connection| query.fetch_one(connection).await).await?;
        let looked: i64 = column(&row, 0)?;
        if looked > rows_max { Ok(None) } else { column(&row, 1).map(Some) }
    }

    async fn report(&mut self, owner: &Owner, window: &Window, found: i64) -> Result<Finding, StoreError> {
        let Window { lane, from_n, to_n, expected, .. } = *window;
        let query = sqlx::query(self.chores.report.get()).bind(lane.0);
        let query = query.bind(window.lo.snapshot.to_string()).bind(window.up.snapshot.to_string());
        let query = query.bind(window.lo.seq0).bind(from_n).bind(to_n).bind(expected).bind(found);
        let query = query.bind(FINDING_IDS_MAX as i64).bind(&*owner.0);
        let row = self.session.call(async |connection| query.fetch_optional(connection).await).await?;
        let ids = row.map_or(Ok(Vec::new()), |row| column(&row, 0))?;
        Ok(Finding { lane, from_n, to_n, expected, found, ids })
    }

    async fn findings(&mut self) -> Result<Vec<Finding>, StoreError> {
        let query = sqlx::query(self.chores.findings.get()).bind(FINDINGS_MAX as i64);
        let rows = self.session.call(async |connection| query.fetch_all(connection).await).await?;
        rows.iter().map(finding).collect()
    }
}

fn recorded(row: &PgRow) -> Result<Recorded, StoreError> {
    let step = column::<Option<i64>>(row, 1)?.map_or(Step::Other, Step::Moved);
    Ok(Recorded { n: column(row, 0)?, step, position: position(row, 2)? })
}

/// Six columns.
pub(super) fn finding(row: &PgRow) -> Result<Finding, StoreError> {
    Ok(Finding {
        lane: LaneId(column(row, 0)?),
        from_n: column(row, 1)?,
        to_n: column(row, 2)?,
        expected: column(row, 3)?,
        found: column(row, 4)?,
        ids: column(row, 5)?,
    })
}

fn lane_lag(row: &PgRow) -> Result<LaneLag, StoreError> {
    let age: Option<i64> = column(row, 2)?;
    // negative where the clock was set back after the row was written
    let oldest = Duration::from_micros(u64::try_from(age.unwrap_or(0)).unwrap_or(0));
    Ok(LaneLag { lane: LaneId(column(row, 0)?), messages: column(row, 1)?, oldest })
}
