//! The harness's processes, shown with the shell: logs, signals, ends, and HTTP.

use std::path::Path;
use std::time::Duration;

use fencepost_integration::process::{Fencepost, Launch, http_get};
use fencepost_relay::failpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const DEADLINE: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Launch {
    Launch::of(Path::new("/bin/sh"), &["-c", script])
}

/// Says one line and goes on until a signal ends it; on SIGTERM with code 7.
fn endless() -> Fencepost {
    shell("trap 'echo told to end; exit 7' TERM; echo begun; while :; do sleep 0.05; done").start("endless")
}

#[tokio::test]
async fn a_process_logs_and_ends_with_its_code() {
    let script = "echo $FENCEPOST_FAILPOINTS $COLOUR $HOME.; echo complaint >&2; exit 3";
    let launch = shell(script).env("COLOUR", "green").failpoint(failpoint::AFTER_CLAIM, "kill@2");
    let mut process = launch.failpoint(failpoint::BEFORE_MARK, "stop").start("code");
    let status = process.exited(DEADLINE).await;
    assert_eq!(status.code(), Some(3));
    assert_eq!(process.log(), "after_claim=kill@2,before_mark=stop green .\ncomplaint\n", "and no HOME of the test's");
}

#[tokio::test]
async fn a_process_is_asked_to_end() {
    let mut process = endless();
    process.logged("begun", DEADLINE).await;
    process.term();
    assert_eq!(process.exited(DEADLINE).await.code(), Some(7));
    assert!(process.log().contains("told to end"));
}

#[tokio::test]
async fn a_frozen_process_does_nothing_until_it_goes_on() {
    let mut process = endless();
    process.logged("begun", DEADLINE).await;
    process.stop().await;
    process.term();
    assert!(process.is_running(), "a frozen process does not hear the signal");
    process.cont();
    assert_eq!(process.exited(DEADLINE).await.code(), Some(7));
}

#[tokio::test]
async fn a_killed_process_is_gone_also_when_it_was_frozen() {
    let mut process = endless();
    process.logged("begun", DEADLINE).await;
    process.stop().await;
    process.kill9();
    assert!(!process.is_running());
    assert!(!process.log().contains("told to end"));
}

#[tokio::test]
async fn a_command_gets_its_config_file_before_its_arguments() {
    // the program that prints its arguments
    let output = Launch::of(Path::new("/bin/echo"), &["status"]).config("key = 1").run();
    let said = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = said.split_whitespace().collect();
    let [option, file, verb] = words[..] else { panic!("{said}") };
    assert_eq!((option, verb), ("--config", "status"));
    assert!(file.ends_with("fencepost.toml"));
}

#[tokio::test]
async fn http_answers_are_taken_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 1000];
        let count = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nnot yet\n").await.unwrap();
        String::from_utf8_lossy(&request[..count]).into_owned()
    });
    let answer = http_get(&address, "/ready").await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (503, "not yet\n"));
    assert!(server.await.unwrap().starts_with("GET /ready HTTP/1.1\r\n"));
    assert!(http_get(&address, "/ready").await.is_none(), "nobody listens any more");
}
