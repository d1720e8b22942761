//! Reads the log through one connection: sightings, burns, and pages straight into the taker.
//!
//! A page whose taker broke leaves rows in the connection. A few are read past; when more could follow
//! than is worth it, or the page's future was dropped midway, the connection is *replaced*, while the old
//! one is still open: as long as the server still runs the old session, it is the same server without a
//! restart, and ticks and positions stay good.

use std::sync::{Arc, PoisonError};

use fencepost_core::lane::Slots;
use fencepost_core::page::{PageEnd, PagePlan, PageStop, Span};
use fencepost_core::position::Sighting;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{Arguments, Either, Executor};
use uuid::Uuid;

use super::check::sequence_changed;
use super::connect::Session;
use super::error::{of_statement, pooler};
use super::flush;
use super::position::{column, snapshot};
use super::row::{Take, lend};
use super::sql::Sql;
use super::{Identity, Target, still_here};
use crate::message::MessageRef;
use crate::store::{LogReader, StoreError};

/// Most bytes that are read past after a taker broke: about what a new connection costs.
const DRAIN_BYTES_MAX: usize = 4 << 20;

/// Counted for each row read past, whatever it holds.
const ROW_BYTES: usize = 100;

/// Reads one source's log.
pub struct PostgresReader {
    target: Arc<Target>,
    session: Session,
    me: Arc<Identity>,
    /// A page has begun and its end was not read.
    midway: bool,
    sql: Statements,
}

struct Statements {
    sight: Sql,
    burn: Sql,
    range: Sql,
    stragglers: Sql,
    next_id: Sql,
}

impl PostgresReader {
    pub(super) async fn connect(target: Arc<Target>) -> Result<Self, StoreError> {
        let mut session = target.connect(true).await?;
        let me = introduce(&target, &mut session).await?;
        let sql = |template| Sql::new(target.schema(), template);
        let sql = Statements {
            sight: sql(include_str!("sql/sight.sql")),
            burn: sql(include_str!("sql/burn.sql")),
            range: sql(include_str!("sql/page_range.sql")),
            stragglers: sql(include_str!("sql/page_stragglers.sql")),
            next_id: sql(include_str!("sql/next_id.sql")),
        };
        Ok(PostgresReader { target, session, me, midway: false, sql })
    }

    /// The session, replaced if a page was left midway.
    async fn session(&mut self) -> Result<&mut Session, StoreError> {
        if self.midway && self.session.is_open() {
            let replaced = self.replace().await;
            if replaced.is_err() {
                self.session.give_up();
            }
            replaced?;
        }
        Ok(&mut self.session)
    }

    async fn replace(&mut self) -> Result<(), StoreError> {
        let mut fresh = self.target.connect(true).await?;
        let same = still_here(&mut fresh, &self.me).await?;
        if !same {
            return Err(StoreError::Lost("the server may have restarted while a page was left midway".into()));
        }
        self.me = introduce(&self.target, &mut fresh).await?;
        self.session = fresh;
        self.midway = false;
        Ok(())
    }
}

impl LogReader for PostgresReader {
    async fn source_id(&mut self) -> Result<Uuid, StoreError> {
        let sql = Sql::new(self.target.schema(), include_str!("sql/source_id.sql"));
        let sql = sql.get();
        let session = self.session().await?;
        session.call(async |connection| sqlx::query_scalar(sql).fetch_one(connection).await).await
    }

    async fn sight(&mut self) -> Result<Sighting, StoreError> {
        let sql = self.sql.sight.get();
        self.session().await?;
        let (session, pid) = (&mut self.session, self.me.pid);
        let row = session.call(async |connection| sqlx::query(sql).fetch_one(connection).await).await?;
        let wrong = if column::<i32>(&row, 2)? != pid {
            Some(pooler())
        } else if column::<Option<bool>>(&row, 3)? != Some(true) {
            Some(sequence_changed())
        } else {
            None
        };
        if let Some(error) = wrong {
            session.give_up();
            return Err(error);
        }
        let sighting = Sighting { snapshot: snapshot(column(&row, 0)?)?, last_id: column(&row, 1)? };
        if self.target.settings.wait_for_flush {
            flush::wait(self.session().await?).await?;
        }
        Ok(sighting)
    }

    async fn burn(&mut self) -> Result<(), StoreError> {
        let sql = self.sql.burn.get();
        let session = self.session().await?;
        session.call(async |connection| sqlx::query(sql).fetch_one(connection).await).await.map(|_| ())
    }

    async fn read_page(
        &mut self,
        plan: &PagePlan,
        slots: &[Slots],
        take: &mut dyn FnMut(&MessageRef<'_>) -> std::ops::ControlFlow<()>,
    ) -> Result<PageEnd, StoreError> {
        let (sql, arguments) = match &plan.span {
            Span::Range { after, upto } if after >= upto => {
                return Ok(PageEnd { rows: 0, last_id: 0, stop: PageStop::Exhausted });
            }
            Span::Range { after, upto } => (&self.sql.range, range(plan, *after, *upto, slots)),
            Span::Stragglers { xids, after } => (&self.sql.stragglers, stragglers(plan, xids, *after, slots)),
        };
        let (sql, arguments) = (sql.clone(), arguments.map_err(|e| of_statement(&e))?);
        self.session().await?;
        self.midway = true;
        let read = async |connection: &mut PgConnection| page(connection, &sql, arguments, plan.rows_max, take).await;
        let (end, drained) = self.session.attempt(read).await?;
        self.midway = !drained;
        // At once: no statement stays open on the server while the broker is awaited.
        self.session().await?;
        Ok(end)
    }

    async fn next_id(&mut self, after: i64, upto: i64) -> Result<Option<i64>, StoreError> {
        let sql = self.sql.next_id.get();
        let session = self.session().await?;
        session
            .call(async |connection| sqlx::query_scalar(sql).bind(after).bind(upto).fetch_optional(connection).await)
            .await
    }
}

/// Streams a page into `take`. Also tells whether the page was read to its end.
async fn page(
    connection: &mut PgConnection,
    sql: &Sql,
    arguments: PgArguments,
    rows_max: u32,
    take: Take<'_>,
) -> Result<(PageEnd, bool), StoreError> {
    let mut stream = connection.fetch_many(sqlx::query_with(sql.get(), arguments));
    let mut end = PageEnd { rows: 0, last_id: 0, stop: PageStop::Exhausted };
    let mut past = 0;
    while let Some(step) = stream.try_next().await.map_err(|e| of_statement(&e))? {
        let Either::Right(row) = step else { continue };
        if end.stop == PageStop::Cut {
            past += ROW_BYTES + super::row::weight(&row);
            if past > DRAIN_BYTES_MAX {
                return Ok((end, false));
            }
            continue;
        }
        let (id, bytes, flow) = lend(&row, take)
            .map_err(|e| StoreError::Refused(format!("column {} of message {} can't be read", e.column, e.id)))?;
        if flow.is_break() {
            end.stop = PageStop::Cut;
            past = ROW_BYTES + bytes;
        } else {
            end.rows += 1;
            end.last_id = id;
        }
    }
    if end.stop == PageStop::Exhausted && end.rows >= rows_max {
        end.stop = PageStop::Full;
    }
    Ok((end, true))
}

fn range(plan: &PagePlan, after: i64, upto: i64, slots: &[Slots]) -> Result<PgArguments, sqlx::Error> {
    let mut arguments = PgArguments::default();
    let mut add = || -> Result<(), sqlx::error::BoxDynError> {
        arguments.add(after)?;
        arguments.add(upto)?;
        arguments.add(plan.lo.snapshot.to_string())?;
        arguments.add(plan.up.snapshot.to_string())?;
        arguments.add(mask(slots))?;
        arguments.add(i64::from(plan.rows_max))
    };
    add().map_err(sqlx::Error::Encode)?;
    Ok(arguments)
}

fn stragglers(plan: &PagePlan, xids: &[u64], after: i64, slots: &[Slots]) -> Result<PgArguments, sqlx::Error> {
    let mut arguments = PgArguments::default();
    let mut add = || -> Result<(), sqlx::error::BoxDynError> {
        arguments.add(xids.iter().map(u64::to_string).collect::<Vec<_>>())?;
        arguments.add(after)?;
        arguments.add(plan.lo.seq0)?;
        arguments.add(mask(slots))?;
        arguments.add(i64::from(plan.rows_max))
    };
    add().map_err(sqlx::Error::Encode)?;
    Ok(arguments)
}

/// One bit per wanted slot, in `get_bit`'s order; `None` for all of them.
fn mask(slots: &[Slots]) -> Option<Vec<u8>> {
    let mut mask = vec![0_u8; 32];
    for slot in slots.iter().cloned().flatten() {
        mask[usize::from(slot / 8)] |= 1 << (slot % 8);
    }
    mask.iter().any(|byte| *byte != u8::MAX).then_some(mask)
}

/// Who this session is, made known to the marker that comes after it.
async fn introduce(target: &Target, session: &mut Session) -> Result<Arc<Identity>, StoreError> {
    let me = Arc::new(identity(session).await?);
    *target.reader.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&me);
    Ok(me)
}

async fn identity(session: &mut Session) -> Result<Identity, StoreError> {
    let row = session
        .call(async |connection| sqlx::query(include_str!("sql/who_am_i.sql")).fetch_one(connection).await)
        .await?;
    Ok(Identity { pid: column(&row, 0)?, started_us: column(&row, 1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_need_no_filter() {
        assert_eq!(mask(&[0..=127, 128..=255]), None);
        let some = mask(&[0..=0, 9..=9, 255..=255]).expect("a filter");
        assert_eq!((some[0], some[1], some[31]), (1, 2, 128));
        assert_eq!(mask(&[]).expect("a filter"), [0; 32]);
    }
}
