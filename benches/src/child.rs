//! A process that is measured: started, frozen, thawed, ended. Its output goes to a file beside its
//! config, named when something goes wrong.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sqlx::PgConnection;

use crate::clock;
use crate::database::busy_sessions;
use crate::error::{Error, Result};
use crate::host;

const GAP: Duration = Duration::from_millis(20);
const END_WITHIN: Duration = Duration::from_secs(40);
const FREEZE_TRIES: u32 = 200;

/// A running child. Dropping it kills it.
pub(crate) struct Child {
    process: Process,
    log: PathBuf,
}

impl Child {
    /// Starts a program with `args` and only these environment variables besides PATH.
    pub(crate) fn start(program: &Path, args: &[&str], env: &[(&str, &str)], log: &Path) -> Result<Self> {
        if !program.exists() {
            return Err(Error::NoProgram(program.to_owned()));
        }
        let file = File::create(log)?;
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(env.iter().copied());
        if let Some(path) = crate::rig::environment("PATH") {
            command.env("PATH", path);
        }
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Child { process: command.spawn()?, log: log.to_owned() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// An error when it has ended.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.ended_early(status)),
        }
    }

    fn ended_early(&self, status: ExitStatus) -> Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        let tail: Vec<&str> = lines.into_iter().rev().collect();
        Error::other(format!("the measured process ended by itself ({status}); its last lines:\n{}", tail.join("\n")))
    }

    /// Waits for the end of a program that ends by itself, and wants its success.
    pub(crate) async fn succeeded(mut self, within: Duration) -> Result<()> {
        let status = clock::until("the end of a command", within, GAP, async || Ok(self.process.try_wait()?)).await?;
        if status.success() { Ok(()) } else { Err(self.ended_early(status)) }
    }

    /// Freezes it at a moment when none of its sessions is inside a statement or a transaction.
    pub(crate) async fn freeze(&mut self, session: &mut PgConnection) -> Result<()> {
        for _ in 0..FREEZE_TRIES {
            self.still_runs()?;
            self.signal(Signal::STOP)?;
            let pid = self.pid();
            let stands = async || Ok(host::is_stopped(pid).then_some(()));
            clock::until("a frozen process", END_WITHIN, Duration::from_millis(1), stands).await?;
            if busy_sessions(session).await? == 0 {
                return Ok(());
            }
            self.thaw()?;
            clock::pause(Duration::from_millis(3)).await;
        }
        Err(Error::other("the process is never between two statements: it can't be frozen at rest"))
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM, and waits for its end; one that doesn't end is killed, which is an error.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.still_runs()?;
        self.signal(Signal::TERM)?;
        let ended = async || Ok(self.process.try_wait()?);
        clock::until("the end after SIGTERM", END_WITHIN, GAP, ended).await?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::other("a child without a process id"))?;
        Ok(kill_process(pid, signal).map_err(std::io::Error::from)?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
