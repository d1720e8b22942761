//! A child process that can be frozen: whether it runs, stands still or ended, as the system tells its parent.

use std::process::{Child as Process, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::clock;

/// How a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It stands still (SIGSTOP) until a SIGCONT.
    Frozen,
    /// It ended, by itself with this code, or by a signal.
    Ended(Option<i32>),
}

/// A child. Dropping it kills it, frozen or not.
#[derive(Debug)]
pub struct Child {
    // Only its number is used: `waitpid` below tells of stops too, which std does not.
    process: Process,
    state: State,
}

impl Child {
    /// Starts the command.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        Ok(Child { process: command.spawn()?, state: State::Running })
    }

    /// How it is now.
    pub fn state(&mut self) -> State {
        while let Some(pid) = self.pid() {
            let changes = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
            match waitpid(Some(pid), changes) {
                Ok(Some((_, status))) => self.state = state_of(status),
                Ok(None) => break,
                // Nobody else waits for our children: it is gone for a reason that will not be known.
                Err(_) => self.state = State::Ended(None),
            }
        }
        self.state
    }

    /// Sends a signal, unless it ended.
    pub fn signal(&mut self, signal: Signal) {
        self.state();
        if let Some(pid) = self.pid() {
            // It may end in this very moment, which is what the next look will tell.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, and waits; kills it after `grace`. Returns its exit code, if it ended by itself.
    pub async fn end(&mut self, grace: Duration) -> Option<i32> {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        let ended = clock::until(grace, async || matches!(self.state(), State::Ended(_))).await;
        if !ended {
            self.kill();
        }
        match self.state() {
            State::Ended(code) => code,
            State::Running | State::Frozen => None,
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        if let Some(pid) = self.pid() {
            // A killed process ends whatever it was doing, frozen too.
            self.state = match waitpid(Some(pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => state_of(status),
                _ => State::Ended(None),
            };
        }
    }

    /// Its number, until its end was noticed: later it may be somebody else's.
    fn pid(&self) -> Option<Pid> {
        match self.state {
            State::Ended(_) => None,
            State::Running | State::Frozen => Pid::from_raw(self.process.id().cast_signed()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn state_of(status: WaitStatus) -> State {
    if status.stopped() {
        State::Frozen
    } else if status.exited() || status.signaled() {
        State::Ended(status.exit_status())
    } else {
        State::Running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    async fn becomes(child: &mut Child, state: State) {
        assert!(clock::until(SOON, async || child.state() == state).await, "{:?}, not {state:?}", child.state());
    }

    #[tokio::test]
    async fn a_freeze_a_thaw_and_an_end_are_seen() {
        let mut child = Child::start(Command::new("sleep").arg("60")).expect("sleep");
        assert_eq!(child.state(), State::Running);
        child.signal(Signal::STOP);
        becomes(&mut child, State::Frozen).await;
        child.signal(Signal::CONT);
        becomes(&mut child, State::Running).await;
        assert_eq!(child.end(SOON).await, None, "it ended by the signal");
        assert_eq!(child.state(), State::Ended(None));
    }

    #[tokio::test]
    async fn a_frozen_child_ends_too_and_an_exit_code_is_kept() {
        let mut child = Child::start(Command::new("sleep").arg("60")).expect("sleep");
        child.signal(Signal::STOP);
        becomes(&mut child, State::Frozen).await;
        child.end(SOON).await;
        assert_eq!(child.state(), State::Ended(None));
        let mut child = Child::start(Command::new("sh").args(["-c", "exit 7"])).expect("sh");
        becomes(&mut child, State::Ended(Some(7))).await;
    }
}
