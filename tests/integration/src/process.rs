//! The real `fencepost` program as a process of its own: started with a config file, killed, frozen,
//! asked over HTTP. Its log is a file, printed when the test fails.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use fencepost_relay::failpoint::Point;
use rustix::process::{Pid, Signal, kill_process};

use crate::{env, random, wait};

/// How long an HTTP request may take.
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// A folder of one test: deleted when the test passes, kept and named when it fails.
pub struct TestFolder(PathBuf);

impl TestFolder {
    /// A fresh folder in the system's place for temporary files.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn create(name_hint: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fencepost-test-{name_hint}-{}", random::suffix()));
        fs::create_dir_all(&path).expect("a folder for the test");
        TestFolder(path)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("folder kept: {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// How to start the program.
#[derive(Default)]
pub struct Launch {
    program: PathBuf,
    config: Option<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    failpoints: Vec<String>,
}

impl Launch {
    /// `fencepost` with these arguments.
    ///
    /// # Panics
    /// When it was not built.
    pub fn new(args: &[&str]) -> Self {
        Self::of(&env::fencepost_bin(), args)
    }

    /// Another program with these arguments.
    pub fn of(program: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Launch { program: program.to_owned(), args, ..Launch::default() }
    }

    /// Runs it in a time namespace whose monotonic clocks are so many seconds ahead (negative: behind).
    pub fn at_offset(mut self, seconds: i64) -> Self {
        let program = std::mem::replace(&mut self.program, "unshare".into());
        let offset = seconds.to_string();
        let program = program.to_str().expect("a path in UTF-8");
        let before =
            ["--user", "--map-root-user", "--time", "--monotonic", &offset, "--boottime", &offset, "--", program];
        self.args.splice(0..0, before.map(str::to_owned));
        self
    }

    /// Writes the text into a file, and passes `--config FILE` before the other arguments.
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = Some(text.into());
        self
    }

    /// Sets an environment variable. The program gets none of the test's own but `PATH`.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Arms a failpoint; `action` as in `failpoint.rs`: `kill`, `stop`, `pause:FILE`, each with `@k`.
    pub fn failpoint(mut self, point: Point, action: &str) -> Self {
        self.failpoints.push(format!("{}={action}", point.name()));
        self
    }

    /// Starts it and leaves it running.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start(self, name_hint: &str) -> Fencepost {
        let folder = TestFolder::create(name_hint);
        let log = File::create(folder.path().join("log")).expect("a log file");
        let mut command = self.command(&folder);
        command.stdout(log.try_clone().expect("a second handle")).stderr(log).stdin(Stdio::null());
        let child = command.spawn().expect("the program starts");
        Fencepost { child, exit: None, folder }
    }

    /// Runs it to its end (a command such as `migrate`) and returns output and exit status.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn run(self) -> Output {
        let folder = TestFolder::create("command");
        self.command(&folder).stdin(Stdio::null()).output().expect("the program runs")
    }

    fn command(&self, folder: &TestFolder) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(folder.path());
        command.envs(env::read("PATH").map(|path| ("PATH", path)));
        if let Some(text) = &self.config {
            let file = folder.path().join("fencepost.toml");
            fs::write(&file, text).expect("the config file can be written");
            command.arg("--config").arg(file);
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        if !self.failpoints.is_empty() {
            command.env("FENCEPOST_FAILPOINTS", self.failpoints.join(","));
        }
        command
    }
}

/// A running `fencepost`. Dropping it kills it, and prints its log when the test's thread is panicking.
pub struct Fencepost {
    child: Child,
    exit: Option<ExitStatus>,
    folder: TestFolder,
}

impl Fencepost {
    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Folder of config and log, deleted at the end.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// SIGKILL, and waits for the end: whatever the process sent is with the system by then.
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.exit = Some(self.child.wait().expect("a killed process ends"));
    }

    /// SIGSTOP: freezes it. Returns when it stands still.
    pub async fn stop(&mut self) {
        self.signal(Signal::STOP);
        self.stopped(HTTP_TIMEOUT).await;
    }

    /// SIGCONT: lets a frozen process go on.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM: asks it to end.
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the process is frozen, by [`Self::stop`] or by a failpoint.
    ///
    /// # Panics
    /// When it is not after `deadline`.
    pub async fn stopped(&self, deadline: Duration) {
        let state = format!("/proc/{}/stat", self.id());
        wait::until(deadline, "the process stands still", async || {
            let line = fs::read_to_string(&state).unwrap_or_default();
            // the state follows the program's name, which is in brackets
            line.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        })
        .await;
    }

    /// Waits for the process's end.
    ///
    /// # Panics
    /// When it still runs after `deadline`.
    pub async fn exited(&mut self, deadline: Duration) -> ExitStatus {
        wait::until_some(deadline, "the process ends", async || self.poll()).await
    }

    /// Whether the process runs (or stands still).
    pub fn is_running(&mut self) -> bool {
        self.poll().is_none()
    }

    /// What it wrote so far, stdout and stderr together.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until its log holds `text`.
    ///
    /// # Panics
    /// When it does not after `deadline`.
    pub async fn logged(&self, text: &str, deadline: Duration) {
        wait::until(deadline, &format!("{text:?} in the log"), async || self.log().contains(text)).await;
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() {
            self.exit = self.child.try_wait().expect("a child can be asked");
        }
        self.exit
    }

    fn signal(&self, signal: Signal) {
        // once reaped, the number may belong to somebody else
        if self.exit.is_none() {
            let pid = Pid::from_raw(self.child.id() as i32).expect("a process id is positive");
            kill_process(pid, signal).expect("a child can be signalled");
        }
    }
}

impl Drop for Fencepost {
    fn drop(&mut self) {
        if self.poll().is_none() {
            self.kill9();
        }
        if std::thread::panicking() {
            eprintln!("--- log of fencepost, process {}, {:?} ---\n{}--- end ---", self.id(), self.exit, self.log());
        }
    }
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Body.
    pub body: String,
}

/// GET of `path` at `address` (`host:port`); `None` while nobody answers there.
///
/// # Panics
/// When what answers is no HTTP.
pub async fn http_get(address: &str, path: &str) -> Option<HttpAnswer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let address = address.to_owned();
    let exchange = move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::task::spawn_blocking(exchange).await.expect("no panic").ok().filter(|text| !text.is_empty())?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer has a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("an HTTP answer has a status");
    Some(HttpAnswer { status, body: body.to_owned() })
}
