//! A relay of the story: this program again as a child process that is `fencepost run` in everything, but for one
//! named point at which it can be told to stand still.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost_relay::failpoint;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::child::{Child, State};
use crate::clock;

/// The hidden verb by which this program becomes `fencepost`.
pub const VERB: &str = "relay";
/// How long a relay's lease lasts: short, for the takeover comes after it.
pub const LEASE: Duration = Duration::from_secs(3);
/// A frozen relay does not answer at all.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);
/// More than a relay ever answers with.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Of a relay's log, when it ended by itself.
const LOG_TAIL_BYTES: usize = 2_000;

/// What relays serve, and where they keep their files.
#[derive(Clone, Debug)]
pub struct Site {
    /// URL of the outbox's database. May hold a password: it goes to children in their environment.
    pub database_url: String,
    /// Schema of the outbox.
    pub schema: String,
    /// Kafka's bootstrap servers.
    pub brokers: String,
    /// How long Kafka may take to tell of a topic.
    pub route_timeout: Duration,
    /// Folder of configuration and logs.
    pub folder: PathBuf,
    /// This program.
    pub program: PathBuf,
}

impl Site {
    /// `fencepost --config FILE ARGS...` as a child, with output into `log`.
    fn command(&self, config: &Path, log: File, args: &[&str]) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args([VERB, "--", "--config"]).arg(config).args(args);
        // Only what is said here: no setting of the user's own shell changes the story.
        command.env_clear().env("FENCEPOST__SOURCE__0__URL", &self.database_url);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    /// Makes the outbox, as `fencepost migrate up` does.
    ///
    /// # Errors
    /// Of the operating system, or with what the verb said.
    pub async fn migrate(&self) -> io::Result<()> {
        let (config, log) = (self.folder.join("migrate.toml"), self.folder.join("migrate.log"));
        std::fs::write(&config, self.settings("migrate", ""))?;
        let mut child = Child::start(&mut self.command(&config, File::create(&log)?, &["migrate", "up"])?)?;
        let ended = clock::until(Duration::from_secs(60), async || matches!(child.state(), State::Ended(_))).await;
        if ended && child.state() == State::Ended(Some(0)) {
            return Ok(());
        }
        Err(io::Error::other(format!("the outbox can't be made:\n{}", tail(&log))))
    }

    /// The configuration file of one relay: what differs from the built-in one.
    fn settings(&self, name: &str, listen: &str) -> String {
        let Site { schema, brokers, .. } = self;
        let route_timeout = self.route_timeout.as_millis();
        let brokers: Vec<String> = brokers.split(',').map(|broker| format!("{broker:?}")).collect();
        let (lease, brokers) = (LEASE.as_secs(), brokers.join(", "));
        format!(
            r#"# The relay {name} of the demo. Its database's URL comes from the environment.
[relay]
name = "{name}"
grace = "10s"
[[source]]
name = "shop"
schema = "{schema}"
statement_timeout = "1500ms"
lock_timeout = "1s"
[lease]
length = "{lease}s"
margin = "300ms"
renew = "600ms"
[kafka]
brokers = [{brokers}]
route_timeout = "{route_timeout}ms"
[http]
listen = "{listen}"
[retry]
base = "50ms"
cap = "1s"
"#
        )
    }
}

/// A relay.
#[derive(Debug)]
pub struct Relay {
    name: String,
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    counts: Counts,
}

/// What a relay counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lanes that it took from one that had not given them back.
    pub takeovers: u64,
    /// Rows of its marks that the compare-and-set refused.
    pub rejected_marks: u64,
    /// Messages that the broker acknowledged to it.
    pub published: u64,
}

impl Relay {
    /// Starts one. With `freeze_at` it stands still before its mark of that number, counted from 1: its lease has
    /// been checked by then, and the statement has not been sent.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn start(site: &Site, name: &str, freeze_at: Option<u32>) -> io::Result<Self> {
        let (config, log) = (site.folder.join(format!("{name}.toml")), site.folder.join(format!("{name}.log")));
        let address = free_address()?;
        std::fs::write(&config, site.settings(name, &address.to_string()))?;
        let mut command = site.command(&config, File::create(&log)?, &["run"])?;
        if let Some(mark) = freeze_at {
            command.env("FENCEPOST_FAILPOINTS", format!("{}=stop@{mark}", failpoint::BEFORE_MARK.name()));
        }
        let child = Child::start(&mut command)?;
        Ok(Relay { name: name.to_owned(), child, address, log, counts: Counts::default() })
    }

    /// Its name; its leases are held under it with a random part behind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it is.
    pub fn state(&mut self) -> State {
        self.child.state()
    }

    /// Lets it go on.
    pub fn thaw(&mut self) {
        self.child.signal(Signal::CONT);
    }

    /// Asks it to give everything back and end. Returns whether it did.
    pub async fn end(&mut self, grace: Duration) -> bool {
        self.child.end(grace).await == Some(0)
    }

    /// What it counted, as of the last time that it answered. Asks it, unless it stands still.
    pub async fn counts(&mut self) -> Counts {
        if self.state() == State::Running
            && let Some(Ok(answer)) = clock::within(ANSWER_WITHIN, get(self.address, "/metrics")).await
        {
            self.counts = Counts::read(&answer);
        }
        self.counts
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

impl Counts {
    /// From the text format of Prometheus.
    fn read(text: &str) -> Self {
        Counts {
            takeovers: sum(text, "fencepost_takeovers_total"),
            rejected_marks: sum(text, "fencepost_rejected_marks_total"),
            published: sum(text, "fencepost_published_messages_total"),
        }
    }
}

/// A counter's values over all its labels.
fn sum(text: &str, name: &str) -> u64 {
    let values = text.lines().filter_map(|line| {
        let labels = line.strip_prefix(name)?;
        let is_this = labels.starts_with('{') || labels.starts_with(' ');
        is_this.then(|| labels.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    });
    values.sum::<f64>() as u64
}

/// An address where nobody listens now.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The answer to a GET, with its head.
async fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = text.len().saturating_sub(LOG_TAIL_BYTES);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let text = "# HELP fencepost_takeovers_total x\n# TYPE fencepost_takeovers_total counter\n\
            fencepost_takeovers_total{source=\"shop\"} 4\nfencepost_takeovers_total{source=\"b\"} 2\n\
            fencepost_takeovers_total_other 9\nfencepost_rejected_marks_total{source=\"shop\"} 1\n";
        assert_eq!(Counts::read(text), Counts { takeovers: 6, rejected_marks: 1, published: 0 });
    }
}
