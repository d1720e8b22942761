//! Leases: claims with their fence rows, renewals, releases, heartbeats, and what the relays show one another.

use std::time::Duration;

use fencepost_core::batch::BatchHead;
use fencepost_core::lane::{Generation, LaneId, LaneRow, Owner, Survey};
use fencepost_core::schema::Schema;
use sqlx::postgres::PgRow;

use super::check::no_position;
use super::connect::Session;
use super::error::{code, of_statement, unfit};
use super::housekeeper::Chores;
use super::marker::Newest;
use super::position::{column, head};
use super::sql::Sql;
use crate::store::{LaneKeeper, StoreError};

/// SQLSTATE of a key that was there already.
const UNIQUE_VIOLATION: &str = "23505";

/// Keeps leases through one connection.
pub struct PostgresKeeper {
    pub(super) session: Session,
    sql: Statements,
    newest: Newest,
    pub(super) chores: Chores,
}

struct Statements {
    lanes: Sql,
    relays: Sql,
    beat: Sql,
    leave: Sql,
    claim: Sql,
    renew: Sql,
    release: Sql,
}

impl PostgresKeeper {
    pub(super) fn new(session: Session, schema: &Schema) -> Self {
        let sql = |template| Sql::new(schema, template);
        let sql = Statements {
            lanes: sql(include_str!("sql/lanes.sql")),
            relays: sql(include_str!("sql/relays.sql")),
            beat: sql(include_str!("sql/beat.sql")),
            leave: sql(include_str!("sql/leave.sql")),
            claim: sql(include_str!("sql/claim.sql")),
            renew: sql(include_str!("sql/renew.sql")),
            release: sql(include_str!("sql/release.sql")),
        };
        PostgresKeeper { session, sql, newest: Newest::new(schema), chores: Chores::new(schema) }
    }

    async fn of_owner(&mut self, sql: &Sql, owner: &Owner) -> Result<(), StoreError> {
        self.session
            .call(async |connection| sqlx::query(sql.get()).bind(&*owner.0).execute(connection).await)
            .await
            .map(|_| ())
    }
}

impl LaneKeeper for PostgresKeeper {
    async fn survey(&mut self, lease: Duration) -> Result<Survey, StoreError> {
        let (lanes, relays) = (self.sql.lanes.get(), self.sql.relays.get());
        let lanes = self.session.call(async |connection| sqlx::query(lanes).fetch_all(connection).await).await?;
        let relays: Vec<String> = self
            .session
            .call(async |connection| sqlx::query_scalar(relays).bind(micros(lease)).fetch_all(connection).await)
            .await?;
        Ok(Survey {
            lanes: lanes.iter().map(lane_row).collect::<Result<_, _>>()?,
            relays: relays.into_iter().map(|name| Owner(name.into())).collect(),
        })
    }

    async fn beat(&mut self, owner: &Owner) -> Result<(), StoreError> {
        let sql = self.sql.beat.clone();
        self.of_owner(&sql, owner).await
    }

    async fn claim(
        &mut self,
        owner: &Owner,
        lane: LaneId,
        seen: Option<(Generation, i64)>,
        lease: Duration,
    ) -> Result<Option<BatchHead>, StoreError> {
        let sql = self.sql.claim.get();
        let claimed = self
            .session
            .attempt(async |connection| {
                let query = sqlx::query(sql).bind(&*owner.0).bind(lane.0).bind(micros(lease));
                let query = query.bind(seen.map(|(generation, _)| generation.0)).bind(seen.map(|(_, expiry)| expiry));
                match query.fetch_optional(connection).await {
                    // the former owner's mark took the fence's number: the whole statement is undone
                    Err(error) if code(&error) == Some(UNIQUE_VIOLATION) => Ok(None),
                    other => other.map_err(|e| of_statement(&e)),
                }
            })
            .await?;
        if let Some(row) = claimed {
            return head(&row).map(Some);
        }
        match self.newest.of(&mut self.session, &[lane]).await?.is_empty() {
            true => Err(no_position(&lane.to_string())),
            false => Ok(None),
        }
    }

    async fn renew(
        &mut self,
        owner: &Owner,
        lanes: &[(LaneId, Generation)],
        lease: Duration,
    ) -> Result<Vec<LaneId>, StoreError> {
        let (sql, (ids, generations)) = (self.sql.renew.get(), columns(lanes));
        let renewed: Vec<i16> = self
            .session
            .call(async |connection| {
                let query = sqlx::query_scalar(sql).bind(&*owner.0).bind(ids).bind(generations).bind(micros(lease));
                query.fetch_all(connection).await
            })
            .await?;
        Ok(renewed.into_iter().map(LaneId).collect())
    }

    async fn release(&mut self, owner: &Owner, lanes: &[(LaneId, Generation)]) -> Result<Vec<LaneId>, StoreError> {
        let (sql, (ids, generations)) = (self.sql.release.get(), columns(lanes));
        let released: Vec<i16> = self
            .session
            .call(async |connection| {
                sqlx::query_scalar(sql).bind(&*owner.0).bind(ids).bind(generations).fetch_all(connection).await
            })
            .await?;
        Ok(released.into_iter().map(LaneId).collect())
    }

    async fn leave(&mut self, owner: &Owner) -> Result<(), StoreError> {
        let sql = self.sql.leave.clone();
        self.of_owner(&sql, owner).await
    }
}

fn columns(lanes: &[(LaneId, Generation)]) -> (Vec<i16>, Vec<i64>) {
    lanes.iter().map(|(lane, generation)| (lane.0, generation.0)).unzip()
}

fn lane_row(row: &PgRow) -> Result<LaneRow, StoreError> {
    let slot = |index| {
        let slot: i16 = column(row, index)?;
        u8::try_from(slot).map_err(|_| unfit(format!("a lane has slot {slot}"), "keep slots within 0 to 255"))
    };
    Ok(LaneRow {
        lane: LaneId(column(row, 0)?),
        slots: slot(1)?..=slot(2)?,
        owner: column::<Option<String>>(row, 3)?.map(|name| Owner(name.into())),
        generation: Generation(column(row, 4)?),
        expires_at_us: column(row, 5)?,
        claimable: column(row, 6)?,
    })
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
