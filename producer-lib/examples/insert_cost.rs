//! What an insert costs PostgreSQL: CPU of the backend process per row, by `enqueue_many` in transactions of
//! 100 rows of 300 bytes with a key. The server must run on this machine, and the schema must be migrated.
//!
//! `cargo run -p fencepost-producer --example insert_cost -- postgres://user@localhost/database [rows] [headers]`

use std::fs;

use fencepost_producer::{Message, Outbox};
use sqlx::{Connection, PgConnection};

const ROWS_PER_TRANSACTION: usize = 100;
/// `USER_HZ`, in which Linux tells CPU time.
const TICKS_PER_SECOND: f64 = 100.0;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[allow(clippy::disallowed_methods, reason = "a tool with three positional arguments")]
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("give the database's URL")?;
    let rows: usize = arguments.next().map_or(Ok(200_000), |text| text.parse())?;
    let headers: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let mut connection = PgConnection::connect(&url).await?;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
    let outbox = Outbox::default();
    insert(&mut connection, &outbox, 20_000.min(rows), headers).await?;
    let wal_before = wal_bytes(&mut connection).await?;
    let before = cpu_ticks(pid)?;
    insert(&mut connection, &outbox, rows, headers).await?;
    let micros = (cpu_ticks(pid)? - before) / TICKS_PER_SECOND * 1e6 / rows as f64;
    let wal = (wal_bytes(&mut connection).await? - wal_before) / rows as f64;
    println!("{rows} rows, {headers} headers: {micros:.2} us of backend CPU and {wal:.0} bytes of WAL a row");
    Ok(())
}

async fn insert(
    connection: &mut PgConnection,
    outbox: &Outbox,
    rows: usize,
    headers: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    for first in (0..rows).step_by(ROWS_PER_TRANSACTION) {
        let messages = (first..first + ROWS_PER_TRANSACTION).map(|row| message(row, headers));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let mut tx = connection.begin().await?;
        outbox.enqueue_many(&mut tx, &messages).await?;
        tx.commit().await?;
    }
    Ok(())
}

fn message(row: usize, headers: usize) -> Result<Message, fencepost_producer::InvalidMessage> {
    let mut builder =
        Message::builder("orders", "order.created", vec![b'x'; 300]).key(format!("order-{}", row % 10_000));
    for header in 0..headers {
        builder = builder.header(format!("header-{header}"), vec![b'v'; 55]);
    }
    builder.build()
}

/// User and system time of a process: fields 14 and 15 of `/proc/PID/stat`, counted after the name in parentheses.
fn cpu_ticks(pid: i32) -> Result<f64, Box<dyn std::error::Error>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no process name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Ok(fields[11].parse::<f64>()? + fields[12].parse::<f64>()?)
}

async fn wal_bytes(connection: &mut PgConnection) -> Result<f64, sqlx::Error> {
    sqlx::query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8").fetch_one(connection).await
}
