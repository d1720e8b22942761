//! The operators' port on PostgreSQL: one short-lived session, and repairs in one transaction each.

use std::time::Duration;

use fencepost_core::lane::{Generation, LaneId, Owner};
use fencepost_core::position::{Base, Position, Sighting, Tick};
use fencepost_core::schema::Schema;
use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgRow};

use super::connect::Session;
use super::error::{of_connect, of_statement};
use super::housekeeper::finding;
use super::position::{column, snapshot};
use super::sql::Sql;
use super::{PostgresStore, within};
use crate::store::StoreError;
use crate::store::admin::{
    Admin, Closed, FindingStatus, InitAt, InitError, InitLanes, InitReport, LaneStatus, PositionIds, RelayStatus,
    SourceFacts, lanes_to_position, missing_lanes,
};

/// Rows that the backlog's look goes through at most, per lane.
const LAG_ROWS_MAX: i64 = 10_000;

/// A connection without any check or setting.
pub type PlainConnection = PgConnection;

/// An operator's session.
pub struct PostgresAdmin {
    session: Session,
    sql: Statements,
}

#[derive(Clone)]
struct Statements {
    lock: Sql,
    facts: Sql,
    lanes: Sql,
    lag: Sql,
    relays: Sql,
    make_lane: Sql,
    position: Sql,
    release: Sql,
    findings: Sql,
    close_finding: Sql,
    sight: Sql,
    burn: Sql,
}

impl Statements {
    fn new(schema: &Schema) -> Self {
        let sql = |template| Sql::new(schema, template);
        Statements {
            lock: sql(include_str!("sql/admin_lock.sql")),
            facts: sql(include_str!("sql/admin_facts.sql")),
            lanes: sql(include_str!("sql/admin_lanes.sql")),
            lag: sql(include_str!("sql/lag.sql")),
            relays: sql(include_str!("sql/admin_relays.sql")),
            make_lane: sql(include_str!("sql/admin_make_lane.sql")),
            position: sql(include_str!("sql/admin_position.sql")),
            release: sql(include_str!("sql/admin_release.sql")),
            findings: sql(include_str!("sql/admin_findings.sql")),
            close_finding: sql(include_str!("sql/admin_close_finding.sql")),
            sight: sql(include_str!("sql/sight.sql")),
            burn: sql(include_str!("sql/burn.sql")),
        }
    }
}

impl PostgresStore {
    /// Connects for an operator. Lanes and positions may be missing; the rest is checked as for a relay.
    ///
    /// # Errors
    /// As any connection of the store.
    pub async fn admin(&self) -> Result<PostgresAdmin, StoreError> {
        let session = self.target.connect(false).await?;
        Ok(PostgresAdmin { session, sql: Statements::new(self.target.schema()) })
    }

    /// Connects without any check, for migrations. The session has the server's own settings.
    ///
    /// # Errors
    /// When the server can't be reached or refuses the login.
    pub async fn unchecked(&self) -> Result<PlainConnection, StoreError> {
        let connect = async { PgConnection::connect_with(&self.target.options).await.map_err(|e| of_connect(&e)) };
        within(self.target.settings.connect_timeout, connect).await
    }

    /// The schema that the store works in.
    pub fn schema(&self) -> &Schema {
        self.target.schema()
    }
}

impl Admin for PostgresAdmin {
    async fn facts(&mut self) -> Result<SourceFacts, StoreError> {
        let sql = &self.sql;
        self.session.attempt(async |connection| Ok(facts(connection, sql).await?.0)).await
    }

    async fn lanes(&mut self) -> Result<Vec<LaneStatus>, StoreError> {
        let sql = &self.sql;
        let mut lanes = self.session.attempt(async |connection| lanes(connection, sql).await).await?;
        let lag = sqlx::query(sql.lag.get()).bind(LAG_ROWS_MAX);
        for row in self.session.call(async |connection| lag.fetch_all(connection).await).await? {
            let lane = LaneId(column(&row, 0)?);
            if let Some(lane) = lanes.iter_mut().find(|one| one.lane == lane) {
                lane.backlog = column(&row, 1)?;
                lane.oldest =
                    column::<Option<i64>>(&row, 2)?.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros);
            }
        }
        Ok(lanes)
    }

    async fn relays(&mut self) -> Result<Vec<RelayStatus>, StoreError> {
        let query = sqlx::query(self.sql.relays.get());
        let rows = self.session.call(async |connection| query.fetch_all(connection).await).await?;
        rows.iter().map(relay).collect()
    }

    async fn init_lanes(&mut self, init: InitLanes) -> Result<InitReport, InitError> {
        let sql = &self.sql;
        // A refusal is an answer and not an error of the session, hence the nested result.
        let work = async |connection: &mut PgConnection| match init_at(connection, sql, init).await {
            Err(InitError::Store(error)) => Err(error),
            answer => Ok(answer),
        };
        self.session.attempt(work).await?
    }

    async fn findings(&mut self, all: bool) -> Result<Vec<FindingStatus>, StoreError> {
        let query = sqlx::query(self.sql.findings.get()).bind(all);
        let rows = self.session.call(async |connection| query.fetch_all(connection).await).await?;
        rows.iter().map(finding_status).collect()
    }

    async fn close_finding(&mut self, lane: LaneId, to_n: i64, actor: &str, reason: &str) -> Result<bool, StoreError> {
        let query = sqlx::query(self.sql.close_finding.get()).bind(lane.0).bind(to_n).bind(actor).bind(reason);
        let done = self.session.call(async |connection| query.execute(connection).await).await?;
        Ok(done.rows_affected() == 1)
    }

    async fn release_lane(&mut self, lane: LaneId, owner: &Owner, generation: Generation) -> Result<bool, StoreError> {
        let query = sqlx::query(self.sql.release.get()).bind(lane.0).bind(&*owner.0).bind(generation.0);
        let done = self.session.call(async |connection| query.execute(connection).await).await?;
        Ok(done.rows_affected() == 1)
    }
}

/// Facts, and the largest number of a lane in the batch log.
async fn facts(connection: &mut PgConnection, sql: &Statements) -> Result<(SourceFacts, Option<LaneId>), StoreError> {
    let row = sqlx::query(sql.facts.get()).fetch_one(connection).await.map_err(|e| of_statement(&e))?;
    let facts = SourceFacts {
        source_id: column(&row, 0)?,
        schema_version: column::<Option<i32>>(&row, 1)?.unwrap_or(0),
        newest_id: column(&row, 2)?,
    };
    Ok((facts, column::<Option<i16>>(&row, 3)?.map(LaneId)))
}

async fn lanes(connection: &mut PgConnection, sql: &Statements) -> Result<Vec<LaneStatus>, StoreError> {
    let rows = sqlx::query(sql.lanes.get()).fetch_all(connection).await.map_err(|e| of_statement(&e))?;
    rows.iter().map(lane).collect()
}

fn lane(row: &PgRow) -> Result<LaneStatus, StoreError> {
    let position = match column::<Option<i64>>(row, 7)? {
        Some(n) => {
            Some(PositionIds { n, delivered_to: column(row, 8)?, window_end: column(row, 9)?, open: column(row, 10)? })
        }
        None => None,
    };
    Ok(LaneStatus {
        lane: LaneId(column(row, 0)?),
        slots: slot(row, 1)?..=slot(row, 2)?,
        owner: column::<Option<&str>>(row, 3)?.map(|owner| Owner(owner.into())),
        generation: Generation(column(row, 4)?),
        lease_ms: column(row, 5)?,
        owner_seen_ms: column(row, 6)?,
        position,
        backlog: 0,
        oldest: None,
    })
}

fn slot(row: &PgRow, index: usize) -> Result<u8, StoreError> {
    let number: i16 = column(row, index)?;
    u8::try_from(number).map_err(|_| StoreError::Lost(format!("slot {number} of the server's answer is not one")))
}

fn finding_status(row: &PgRow) -> Result<FindingStatus, StoreError> {
    let closed = match (column::<Option<String>>(row, 7)?, column::<Option<String>>(row, 8)?) {
        (Some(by), Some(reason)) => Some(Closed { by, reason }),
        _ => None,
    };
    Ok(FindingStatus { finding: finding(row)?, age_ms: column(row, 6)?, closed })
}

fn relay(row: &PgRow) -> Result<RelayStatus, StoreError> {
    Ok(RelayStatus {
        owner: Owner(column::<&str>(row, 0)?.into()),
        up_ms: column(row, 1)?,
        seen_ms: column(row, 2)?,
        lanes: column(row, 3)?,
    })
}

/// Takes a tick where one is needed, before the repair: its transaction id must be committed by then.
async fn init_at(connection: &mut PgConnection, sql: &Statements, init: InitLanes) -> Result<InitReport, InitError> {
    let fault = |e: sqlx::Error| InitError::Store(of_statement(&e));
    let position = match init.at {
        InitAt::Beginning => Position::beginning(),
        InitAt::AfterId(cursor) => {
            let base = Base { seq0: sight(connection, sql).await?.last_id };
            sqlx::query(sql.burn.get()).execute(&mut *connection).await.map_err(fault)?;
            let up = Tick::new(base, &sight(connection, sql).await?);
            Position { cursor, ..Position::beginning().opened(up) }
        }
    };
    init_lanes(connection, sql, init, &position).await
}

async fn sight(connection: &mut PgConnection, sql: &Statements) -> Result<Sighting, StoreError> {
    let row = sqlx::query(sql.sight.get()).fetch_one(connection).await.map_err(|e| of_statement(&e))?;
    Ok(Sighting { snapshot: snapshot(column(&row, 0)?)?, last_id: column(&row, 1)? })
}

/// Plans and repairs under one lock. An error, a refusal and a dry run end in a rollback.
async fn init_lanes(
    connection: &mut PgConnection,
    sql: &Statements,
    init: InitLanes,
    position: &Position,
) -> Result<InitReport, InitError> {
    let fault = |e: sqlx::Error| InitError::Store(of_statement(&e));
    let mut tx = connection.begin().await.map_err(fault)?;
    sqlx::query(sql.lock.get()).execute(&mut *tx).await.map_err(fault)?;
    let (facts, numbers_used_to) = facts(&mut tx, sql).await?;
    let there = lanes(&mut tx, sql).await?.into_iter().map(|lane| (lane.lane, lane.slots)).collect::<Vec<_>>();
    let made = missing_lanes(&there, numbers_used_to);
    for (lane, slots) in &made {
        let query = sqlx::query(sql.make_lane.get()).bind(lane.0);
        let query = query.bind(i16::from(*slots.start())).bind(i16::from(*slots.end()));
        query.execute(&mut *tx).await.map_err(fault)?;
    }
    // An id above the tick's is refused too: rows between the two would be skipped unseen.
    let newest_id = position.up.as_ref().map_or(facts.newest_id, |up| up.seq1);
    let positioned = choose(&lanes(&mut tx, sql).await?, init, newest_id, !made.is_empty())?;
    let up = position.up.as_ref();
    let query = sqlx::query(sql.position.get()).bind(positioned.iter().map(|lane| lane.0).collect::<Vec<i16>>());
    let query = query.bind(up.map(|up| up.snapshot.to_string())).bind(up.map(|up| up.seq0)).bind(up.map(|up| up.seq1));
    query.bind(position.cursor).execute(&mut *tx).await.map_err(fault)?;
    if init.dry_run { tx.rollback().await } else { tx.commit().await }.map_err(fault)?;
    Ok(InitReport { made, positioned, newest_id })
}

/// The lanes to position. None is fine where lanes were made whose batch rows survived: they go on where these stand.
fn choose(all: &[LaneStatus], init: InitLanes, newest_id: i64, made: bool) -> Result<Vec<LaneId>, InitError> {
    if made && !init.force && all.iter().all(|lane| lane.position.is_some()) {
        return Ok(Vec::new());
    }
    lanes_to_position(all, init, newest_id)
}
