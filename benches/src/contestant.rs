//! Who is measured: the relay or the baseline, each installed and started as its users would.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sqlx::Executor;

use crate::child::Child;
use crate::clock;
use crate::database::Database;
use crate::error::Result;
use crate::fill::Outbox;
use crate::rig::Rig;

const MIGRATE_WITHIN: Duration = Duration::from_secs(30);
const READY_WITHIN: Duration = Duration::from_secs(30);
const HTTP_TIMEOUT: Duration = Duration::from_secs(2);
const GAP: Duration = Duration::from_millis(20);

/// A relay to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Relay(RelaySetup),
    Baseline { workers: u32 },
}

/// In what the measured relay's configuration differs from its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelaySetup {
    /// Whether records carry the CloudEvents headers beside the relay's own three.
    pub(crate) cloudevents: bool,
    /// A lease that outlives a freeze while the outbox is filled, instead of the default.
    pub(crate) long_lease: bool,
}

impl Contestant {
    pub(crate) fn name(self) -> String {
        match self {
            Contestant::Relay(RelaySetup { cloudevents: true, .. }) => "relay".to_owned(),
            Contestant::Relay(_) => "relay, own headers only".to_owned(),
            Contestant::Baseline { workers: 1 } => "baseline, 1 worker".to_owned(),
            Contestant::Baseline { workers } => format!("baseline, {workers} workers"),
        }
    }

    /// Which table it reads.
    pub(crate) fn outbox(self) -> Outbox {
        match self {
            Contestant::Relay(_) => Outbox::Log,
            Contestant::Baseline { .. } => Outbox::Skip,
        }
    }

    /// Whether it promises order per key.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Contestant::Baseline { workers: 2.. })
    }

    /// Makes its tables in a fresh database.
    pub(crate) async fn install(self, rig: &Rig, database: &Database) -> Result<()> {
        match self {
            Contestant::Relay(setup) => {
                let config = write_config(rig, database, setup, 0)?;
                let args = ["migrate", "up", "--config", config.as_str()];
                let migrate = Child::start(&rig.relay_exe, &args, &[], &rig.file("migrate.log"))?;
                migrate.succeeded(MIGRATE_WITHIN).await
            }
            Contestant::Baseline { .. } => {
                database.connect().await?.execute(include_str!("../baseline/schema.sql")).await?;
                Ok(())
            }
        }
    }

    /// Starts it on a database; returns when it serves.
    pub(crate) async fn start(self, rig: &Rig, database: &Database) -> Result<Child> {
        match self {
            Contestant::Relay(setup) => {
                let port = free_port()?;
                let config = write_config(rig, database, setup, port)?;
                let args = ["run", "--config", config.as_str()];
                let mut child = Child::start(&rig.relay_exe, &args, &[], &rig.file("relay.log"))?;
                clock::until("a ready relay", READY_WITHIN, GAP, async || {
                    child.still_runs()?;
                    Ok(is_ready(port).then_some(()))
                })
                .await?;
                Ok(child)
            }
            Contestant::Baseline { workers } => {
                let workers = workers.to_string();
                let args = ["--workers", workers.as_str(), "--batch", "500", "--idle-ms", "10"];
                let env = [("PGURL", database.url()), ("BROKERS", rig.brokers.as_str())];
                Child::start(&rig.baseline_exe, &args, &env, &rig.file("baseline.log"))
            }
        }
    }
}

/// Everything that is not written here is the relay's default: that is what users get.
fn write_config(rig: &Rig, database: &Database, setup: RelaySetup, port: u16) -> Result<String> {
    let brokers: Vec<&str> = rig.brokers.split(',').map(str::trim).collect();
    let lease = if setup.long_lease { "[lease]\nlength = \"10m\"\nmargin = \"5s\"\nrenew = \"3m\"\n" } else { "" };
    let text = format!(
        "[relay]\nname = \"bench\"\n\n[[source]]\nname = \"main\"\nurl = {url:?}\n\n{lease}\n\
         [kafka]\nbrokers = {brokers:?}\ncloudevents = {cloudevents}\n\n\
         [http]\nlisten = \"127.0.0.1:{port}\"\n\n[log]\nlevel = \"warn\"\n",
        url = database.url(),
        cloudevents = setup.cloudevents,
    );
    let path = rig.file("fencepost.toml");
    std::fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether GET /ready answers 200.
fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
