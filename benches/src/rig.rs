//! What all measurements share: the servers' addresses and processes, the programs to measure, a
//! folder for configs and logs, and fresh names.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::cli::Common;
use crate::database::{Database, Server};
use crate::error::{Error, Result};
use crate::host::{self, Machine};
use crate::topic::Topic;

/// The one place that reads the bench's environment.
#[allow(clippy::disallowed_methods, reason = "the home of the bench's environment")]
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Servers, programs and a folder.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) brokers: String,
    pub(crate) relay_exe: PathBuf,
    pub(crate) baseline_exe: PathBuf,
    pub(crate) postmaster: u32,
    pub(crate) broker: Option<u32>,
    pub(crate) machine: Machine,
    folder: PathBuf,
    keep: bool,
    /// Names of databases and topics that have not been removed.
    open_beds: RefCell<Vec<String>>,
}

/// Database and topic of one measurement.
pub(crate) struct Bed {
    pub(crate) database: Database,
    pub(crate) topic: Topic,
}

impl Rig {
    /// Finds the servers and their processes.
    pub(crate) async fn open(common: &Common, relay_exe: &Path) -> Result<Self> {
        let server = Server::new(&address("FENCEPOST_BENCH_POSTGRES", "FENCEPOST_TEST_POSTGRES")?);
        let brokers = address("FENCEPOST_BENCH_KAFKA", "FENCEPOST_TEST_KAFKA")?;
        let facts = server.facts().await?;
        let postmaster = host::postmaster(server.postmaster_pid().await?).ok_or_else(|| {
            Error::other("the PostgreSQL server does not run on this machine: its CPU can't be measured")
        })?;
        let broker = host::broker(&brokers);
        let beside = |name: &str| relay_exe.parent().unwrap_or(Path::new(".")).join(name);
        let folder = std::env::temp_dir().join(fresh_name());
        fs::create_dir_all(&folder)?;
        Ok(Rig {
            server,
            brokers,
            relay_exe: relay_exe.to_owned(),
            baseline_exe: common.baseline.clone().unwrap_or_else(|| beside("fencepost-baseline")),
            postmaster,
            broker,
            machine: Machine::describe(facts, broker.is_some()),
            folder,
            keep: common.keep,
            open_beds: RefCell::default(),
        })
    }

    /// A path in the folder of configs and logs.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A fresh database and a fresh topic.
    pub(crate) async fn bed(&self, partitions: i32) -> Result<Bed> {
        let name = fresh_name();
        self.open_beds.borrow_mut().push(name.clone());
        let database = self.server.create(&name).await?;
        let topic = Topic::create(&self.brokers, &name, partitions).await?;
        Ok(Bed { database, topic })
    }

    /// Gives the disk back, unless everything is kept for a post-mortem.
    pub(crate) async fn clear(&self, bed: Bed) -> Result<()> {
        if self.keep {
            return Ok(());
        }
        self.server.drop(&bed.database).await?;
        bed.topic.delete().await?;
        self.open_beds.borrow_mut().retain(|name| *name != bed.database.name);
        Ok(())
    }
}

impl Drop for Rig {
    /// What a failed measurement used is left for a post-mortem, and named.
    fn drop(&mut self) {
        let left = self.open_beds.get_mut();
        if left.is_empty() {
            let _ = fs::remove_dir_all(&self.folder);
        } else {
            eprintln!("kept: databases and topics {}; folder {}", left.join(", "), self.folder.display());
        }
    }
}

fn address(name: &str, fallback: &str) -> Result<String> {
    environment(name)
        .or_else(|| environment(fallback))
        .ok_or_else(|| Error::other(format!("set {name} (or {fallback}) to the address of a server to measure with")))
}

#[allow(clippy::disallowed_methods, reason = "the one random number of the bench that needs no seed")]
fn fresh_name() -> String {
    format!("fencepost_bench_{:08x}", fastrand::u32(..))
}

/// A message id, as a producer gives it.
#[allow(clippy::disallowed_methods, reason = "ids of messages are the one thing that a seed must not repeat")]
pub(crate) fn message_id() -> Uuid {
    Uuid::now_v7()
}
