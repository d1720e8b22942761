//! Reads all odometers at once: CPU of the measured process, of PostgreSQL and of the broker,
//! write-ahead log, transaction ids. A figure is the difference of two readings.

use sqlx::PgConnection;

use crate::clock;
use crate::database::counters;
use crate::error::Result;
use crate::host::{self, CpuNs};
use crate::rig::Rig;

/// Whose work is read.
pub(crate) struct Meter<'a> {
    pub(crate) rig: &'a Rig,
    /// The measured process, if one runs.
    pub(crate) child: Option<u32>,
    /// Server sides of the bench's writers: PostgreSQL's work for producers, not for the relay.
    pub(crate) writers: Vec<u32>,
}

/// All odometers at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    at_ns: u64,
    child: CpuNs,
    postgres: CpuNs,
    broker: CpuNs,
    wal_bytes: i64,
    next_xid: i64,
    other_transactions: i64,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    pub(crate) child_cpu_s: f64,
    /// Of all the server's processes but the writers' sessions.
    pub(crate) postgres_cpu_s: f64,
    pub(crate) broker_cpu_s: f64,
    pub(crate) wal_bytes: f64,
    pub(crate) xids: f64,
    /// Transactions in other databases: far above one a second means that the server was not ours alone.
    pub(crate) other_transactions: f64,
}

impl Meter<'_> {
    pub(crate) async fn read(&self, session: &mut PgConnection) -> Result<Reading> {
        let counters = counters(session).await?;
        let writers: CpuNs = self.writers.iter().map(|pid| host::session_cpu(*pid)).sum();
        Ok(Reading {
            at_ns: clock::now_ns(),
            child: self.child.map_or(0, host::cpu),
            postgres: host::children_cpu(self.rig.postmaster).saturating_sub(writers),
            broker: self.rig.broker.map_or(0, host::cpu),
            wal_bytes: counters.wal_bytes,
            next_xid: counters.next_xid,
            other_transactions: counters.other_transactions,
        })
    }
}

impl Reading {
    /// What happened since an earlier reading.
    pub(crate) fn since(&self, earlier: &Reading) -> Usage {
        let seconds = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / 1e9;
        Usage {
            seconds: seconds(self.at_ns, earlier.at_ns),
            child_cpu_s: seconds(self.child, earlier.child),
            postgres_cpu_s: seconds(self.postgres, earlier.postgres),
            broker_cpu_s: seconds(self.broker, earlier.broker),
            wal_bytes: (self.wal_bytes - earlier.wal_bytes) as f64,
            xids: (self.next_xid - earlier.next_xid) as f64,
            other_transactions: (self.other_transactions - earlier.other_transactions) as f64,
        }
    }
}

impl Usage {
    /// Share of one core, percent.
    pub(crate) fn percent(&self, cpu_s: f64) -> f64 {
        100.0 * cpu_s / self.seconds.max(1e-9)
    }
}
