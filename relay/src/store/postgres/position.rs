//! Positions and batch rows between core's types and the columns of statements. Snapshots travel as text:
//! their binary form is twice as long, and a composite's would need its type looked up.

use fencepost_core::batch::{BatchHead, MarkRow};
use fencepost_core::lane::{Generation, LaneId, Tag};
use fencepost_core::position::{Floor, Position, Tick};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, Row};
use uuid::Uuid;

use super::check::not_continued;
use crate::store::StoreError;

/// A batch row as `newest.sql` and `claim.sql` return it.
pub(super) fn head(row: &PgRow) -> Result<BatchHead, StoreError> {
    let (lane, alien) = parts::<i16, bool>(row, 0, 10)?;
    if alien {
        return Err(not_continued(&lane.to_string()));
    }
    let (n, generation) = parts(row, 1, 2)?;
    let tag: Uuid = column(row, 3)?;
    Ok(BatchHead {
        lane: LaneId(lane),
        n,
        generation: Generation(generation),
        tag: Tag(tag.as_u128()),
        position: position(row, 4)?,
    })
}

/// Six columns from `first` on.
pub(super) fn position(row: &PgRow, first: usize) -> Result<Position, StoreError> {
    let lo = Floor { snapshot: snapshot(column(row, first)?)?, seq0: column(row, first + 1)? };
    let up = match column::<Option<&str>>(row, first + 2)? {
        None => None,
        Some(text) => {
            Some(Tick { snapshot: snapshot(text)?, seq0: column(row, first + 3)?, seq1: column(row, first + 4)? })
        }
    };
    Ok(Position { lo, up, cursor: column(row, first + 5)? })
}

pub(super) fn snapshot(text: &str) -> Result<fencepost_core::position::Snapshot, StoreError> {
    text.parse().map_err(|e| StoreError::Lost(format!("the server's answer can't be read: {e}")))
}

fn parts<'r, A, B>(row: &'r PgRow, a: usize, b: usize) -> Result<(A, B), StoreError>
where
    A: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    B: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    Ok((column(row, a)?, column(row, b)?))
}

/// One column. An answer of another shape than asked for says nothing about the effect: lost.
pub(super) fn column<'r, T>(row: &'r PgRow, index: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(index).map_err(|_| StoreError::Lost(format!("column {index} of the server's answer can't be read")))
}

/// The twelve arrays of `mark.sql`, in its order.
pub(super) fn bind_marks(arguments: &mut PgArguments, rows: &[MarkRow]) -> Result<(), sqlx::Error> {
    fn all<T>(rows: &[MarkRow], field: impl Fn(&MarkRow) -> T) -> Vec<T> {
        rows.iter().map(field).collect()
    }
    let mut add = Adder(arguments);
    add.array(all(rows, |r| r.lane.0))?;
    add.array(all(rows, |r| r.n))?;
    add.array(all(rows, |r| r.generation.0))?;
    add.array(all(rows, |r| r.position.lo.snapshot.to_string()))?;
    add.array(all(rows, |r| r.position.lo.seq0))?;
    add.array(all(rows, |r| r.position.up.as_ref().map(|up| up.snapshot.to_string())))?;
    add.array(all(rows, |r| r.position.up.as_ref().map(|up| up.seq0)))?;
    add.array(all(rows, |r| r.position.up.as_ref().map(|up| up.seq1)))?;
    add.array(all(rows, |r| r.position.cursor))?;
    add.array(all(rows, |r| r.messages))?;
    add.array(all(rows, |r| r.bytes))?;
    add.array(all(rows, |r| i32::try_from(r.took.as_millis()).unwrap_or(i32::MAX)))
}

/// Adds arguments with sqlx's error type.
struct Adder<'a>(&'a mut PgArguments);

impl Adder<'_> {
    fn array<'q, T>(&mut self, value: T) -> Result<(), sqlx::Error>
    where
        T: 'q + sqlx::Encode<'q, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.0.add(value).map_err(sqlx::Error::Encode)
    }
}
