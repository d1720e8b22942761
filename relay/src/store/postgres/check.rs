//! Whether a source may be served: what is wrong, in words, and what to run.
//!
//! Every connection checks the server and the schema version; the reader, whose positions and snapshots
//! mean nothing on the wrong database, checks the whole source. Nothing here is repaired by itself:
//! a missing position has no default.

use fencepost_core::schema::Schema;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Executor, Row};

use super::connect::Session;
use super::error::{of_connect, pooler, unfit};
use super::migrate::MIGRATIONS;
use super::sql::Sql;
use crate::store::StoreError;

/// Oldest server that is supported, as `server_version_num`.
const SERVER_VERSION_MIN: i32 = 140_000;

/// What to run where lanes or positions are missing.
const LANE_INIT: &str = "run: fencepost lane init --from-beginning, or --after-id <id> for messages above an id only";

/// How a restored or rewound log is made readable again; messages still in it go out again.
const RESTAMP: &str = "stop the producers and, as the owner and in one transaction, run UPDATE outbox SET xid = pg_current_xact_id() \
                       and UPDATE origin SET canary = pg_current_xact_id(); then: fencepost lane init --from-beginning --force";

/// What each connection checks: a writable primary without a transaction pooler before it, and a schema that
/// this relay knows.
pub(super) async fn connection(session: &mut Session, schema: &Schema) -> Result<(), StoreError> {
    session.attempt(server).await?;
    let installed = fetch(session, &Sql::new(schema, include_str!("sql/installed.sql"))).await?;
    if !get::<bool>(&installed, 0)? {
        return Err(unfit(
            format!("schema {} has no outbox of Fencepost", schema.quoted()),
            "run: fencepost migrate up",
        ));
    }
    let version = fetch(session, &Sql::new(schema, include_str!("sql/version.sql"))).await?;
    known_version(get(&version, 0)?, MIGRATIONS.last().map_or(0, |newest| newest.version))
}

/// The full check of a source. Returns advice that does not keep it from being served.
pub(super) async fn source(session: &mut Session, schema: &Schema) -> Result<Option<String>, StoreError> {
    let advice = rights(&fetch(session, &Sql::new(schema, include_str!("sql/grants.sql"))).await?)?;
    let log = fetch(session, &Sql::new(schema, include_str!("sql/source.sql"))).await?;
    let newest_id = identity(&log)?;
    positions(&fetch(session, &Sql::new(schema, include_str!("sql/positions.sql"))).await?, newest_id)?;
    Ok(advice)
}

/// Two simple statements, since prepared ones would break behind the pooler that this looks for.
async fn server(connection: &mut PgConnection) -> Result<(), StoreError> {
    let wrong = |e: sqlx::Error| of_connect(&e);
    let probe = (&mut *connection).fetch_one(sqlx::raw_sql(include_str!("sql/probe.sql"))).await.map_err(wrong)?;
    let row = (&mut *connection).fetch_one(sqlx::raw_sql(include_str!("sql/server.sql"))).await.map_err(wrong)?;
    let (pid, word): (i32, String) = (get(&probe, 0)?, get(&probe, 1)?);
    if get::<i32>(&row, 3)? != pid || get::<Option<String>>(&row, 4)? != Some(word) {
        return Err(pooler());
    }
    if get::<i32>(&row, 0)? < SERVER_VERSION_MIN {
        return Err(unfit("the server is older than PostgreSQL 14", "upgrade it"));
    }
    if get::<bool>(&row, 1)? {
        return Err(unfit(
            "the server is a standby, which does not show what transactions run",
            "point the source's URL at the primary",
        ));
    }
    if get::<bool>(&row, 2)? {
        return Err(unfit(
            "the session is read-only",
            "point the source's URL at a writable primary, or turn default_transaction_read_only off",
        ));
    }
    Ok(())
}

/// A relay of version N serves schema N, and N+1 while a rollout has migrated first.
fn known_version(schema: i32, relay: i32) -> Result<(), StoreError> {
    let reason = || format!("the schema has version {schema}, this relay knows versions {relay} and {}", relay + 1);
    if schema < relay {
        return Err(unfit(reason(), "run: fencepost migrate up"));
    }
    if schema > relay + 1 {
        return Err(unfit(reason(), "run a relay of the schema's version or the one before it"));
    }
    Ok(())
}

fn rights(row: &PgRow) -> Result<Option<String>, StoreError> {
    if let Some(missing) = get::<Option<String>>(row, 0)? {
        return Err(unfit(
            format!("the role lacks rights: {missing}"),
            "run: fencepost migrate roles, and make the role a member",
        ));
    }
    if let Some(tables) = get::<Option<String>>(row, 1)? {
        return Err(unfit(
            format!("row level security would hide rows of {tables} from this role"),
            "give the role BYPASSRLS, or disable row level security on these tables",
        ));
    }
    let owner = get::<Option<String>>(row, 2)?;
    Ok(owner.map(|owner| {
        format!("role {owner} owns the outbox and can log in: its sessions may write id and xid; run: fencepost migrate roles")
    }))
}

/// Identity and sequence. Returns the newest id that was given out.
fn identity(row: &PgRow) -> Result<i64, StoreError> {
    if get::<i64>(row, 0)? != 1 {
        return Err(unfit("the origin row is missing, which tells one log from another", "restore it from a backup"));
    }
    if get::<Option<bool>>(row, 1)? != Some(true) {
        return Err(unfit(
            "the data was copied from another cluster: its transaction ids mean nothing here and new messages would stay unseen",
            RESTAMP,
        ));
    }
    let plain = (get::<i64>(row, 2)?, get::<i64>(row, 3)?, get::<bool>(row, 4)?) == (1, 1, false);
    if !plain || get::<i64>(row, 5)? < 1 || !get::<bool>(row, 6)? {
        return Err(sequence_changed());
    }
    let (last, max): (i64, i64) = (get(row, 7)?, get(row, 8)?);
    if last < max {
        return Err(set_back(format!("the log holds id {max}"), last, max));
    }
    Ok(last)
}

/// Ids that are cached per session, or don't rise one by one, break the order per key.
pub(super) fn sequence_changed() -> StoreError {
    unfit(
        "the sequence outbox_id_seq was changed: ids would not rise in the order of inserts",
        "run: ALTER SEQUENCE outbox_id_seq AS bigint INCREMENT 1 MINVALUE 1 CACHE 1 NO CYCLE",
    )
}

fn set_back(what: String, last: i64, wanted: i64) -> StoreError {
    unfit(
        format!("the sequence outbox_id_seq stands at {last}, but {what}: it was set back"),
        format!("run: SELECT setval('outbox_id_seq', {wanted}) in the outbox's schema"),
    )
}

fn positions(row: &PgRow, newest_id: i64) -> Result<(), StoreError> {
    let stray = get::<i64>(row, 0)?;
    if stray > 0 {
        return Err(unfit(format!("{stray} of 256 slots are not in exactly one lane"), LANE_INIT));
    }
    if let Some(lanes) = get::<Option<String>>(row, 1)? {
        return Err(no_position(&lanes));
    }
    if let Some(lanes) = get::<Option<String>>(row, 2)? {
        return Err(unfit(
            format!("the positions of lanes {lanes} lie in the future of this server's transaction ids"),
            RESTAMP,
        ));
    }
    let named = get::<i64>(row, 3)?;
    if named > newest_id {
        return Err(set_back(format!("a lane's position names id {named}"), newest_id, named));
    }
    match get::<Option<String>>(row, 4)? {
        Some(lanes) => Err(not_continued(&lanes)),
        None => Ok(()),
    }
}

/// A lane without any batch row.
pub(super) fn no_position(lanes: &str) -> StoreError {
    unfit(format!("lanes {lanes} have no position: the batch log was emptied"), LANE_INIT)
}

/// A lane whose newest row this relay must not go on from.
pub(super) fn not_continued(lanes: &str) -> StoreError {
    unfit(
        format!("lanes {lanes} have an open broker transaction or a detour, which this relay can't continue"),
        "run a relay of the version and mode that wrote it",
    )
}

async fn fetch(session: &mut Session, sql: &Sql) -> Result<PgRow, StoreError> {
    session.call(async |connection| sqlx::query(sql.get()).fetch_one(connection).await).await
}

fn get<'r, T>(row: &'r PgRow, column: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(column).map_err(|e| of_connect(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b125_a_relay_serves_its_schema_and_the_next() {
        known_version(7, 7).expect("its own");
        known_version(8, 7).expect("a rollout migrates first");
        for schema in [6, 9] {
            let text = known_version(schema, 7).expect_err("refused").to_string();
            assert!(text.contains(&format!("version {schema}")) && text.contains("versions 7 and 8"), "{text}");
        }
    }
}
