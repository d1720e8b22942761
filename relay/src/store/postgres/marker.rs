//! Marks: the fence and the compare-and-set, one statement for all lanes that are due.

use fencepost_core::batch::{BatchHead, MarkRow};
use fencepost_core::lane::{LaneId, Owner, Tag};
use fencepost_core::schema::Schema;
use sqlx::Arguments;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use super::connect::Session;
use super::position::{bind_marks, head};
use super::sql::Sql;
use crate::store::{MarkWriter, StoreError};

/// Writes marks through one connection.
pub struct PostgresMarker {
    session: Session,
    mark: Sql,
    newest: Newest,
}

/// Reads newest batch rows.
pub(super) struct Newest(Sql);

impl PostgresMarker {
    pub(super) fn new(session: Session, schema: &Schema) -> Self {
        PostgresMarker { session, mark: Sql::new(schema, include_str!("sql/mark.sql")), newest: Newest::new(schema) }
    }
}

impl MarkWriter for PostgresMarker {
    async fn mark(&mut self, owner: &Owner, tag: Tag, rows: &[MarkRow]) -> Result<Vec<LaneId>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let sql = self.mark.get();
        let written: Vec<i16> = self
            .session
            .call(async |connection| {
                let mut arguments = PgArguments::default();
                arguments.add(&*owner.0).map_err(sqlx::Error::Encode)?;
                arguments.add(Uuid::from_u128(tag.0)).map_err(sqlx::Error::Encode)?;
                bind_marks(&mut arguments, rows)?;
                sqlx::query_scalar_with(sql, arguments).fetch_all(connection).await
            })
            .await?;
        Ok(written.into_iter().map(LaneId).collect())
    }

    async fn newest(&mut self, lanes: &[LaneId]) -> Result<Vec<BatchHead>, StoreError> {
        self.newest.of(&mut self.session, lanes).await
    }
}

impl Newest {
    pub(super) fn new(schema: &Schema) -> Self {
        Newest(Sql::new(schema, include_str!("sql/newest.sql")))
    }

    /// The newest row of each lane that has one.
    pub(super) async fn of(&self, session: &mut Session, lanes: &[LaneId]) -> Result<Vec<BatchHead>, StoreError> {
        let lanes: Vec<i16> = lanes.iter().map(|lane| lane.0).collect();
        let rows =
            session.call(async |connection| sqlx::query(self.0.get()).bind(lanes).fetch_all(connection).await).await?;
        rows.iter().map(head).collect()
    }
}
