//! `/health`, `/ready` and `/metrics`. Answers come from memory alone, so they come while the database and Kafka
//! don't. Nothing served here is a secret or a message.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::clock::Clock;
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::status::{Board, LaneState, SourceStatus};

/// What the answers are made of.
#[derive(Clone)]
pub struct Sight {
    /// The sources.
    pub board: Board,
    /// The metrics.
    pub metrics: Metrics,
    /// Work without progress for so long is not ready.
    pub stall_after: Duration,
}

/// Binds the configured address.
///
/// # Errors
/// Of the operating system, with the address and what to do.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let explain = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("can't listen on {address}: {error}; change http.listen or free the address"),
        )
    };
    TcpListener::bind(address).await.map_err(explain)
}

/// Serves until `stop` is done and answers under way are sent.
///
/// # Errors
/// Of the operating system.
pub async fn serve(
    listener: TcpListener,
    sight: Sight,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router(sight)).with_graceful_shutdown(stop).await
}

fn router(sight: Sight) -> Router {
    Router::new()
        .route("/health", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/ready/{source}", get(ready_source))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /health, /ready, /ready/{source} and /metrics\n") })
        .with_state(sight)
}

/// `/ready`'s answer. 200 if ready, else 503.
#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    sources: Vec<SourceReadiness>,
}

#[derive(Debug, Serialize)]
struct SourceReadiness {
    name: String,
    ready: bool,
    /// Empty if ready.
    reasons: Vec<String>,
    lanes: Vec<LaneState>,
    backlog_messages: Option<i64>,
    oldest_seconds: Option<f64>,
}

impl SourceReadiness {
    fn of(status: SourceStatus, stall_after: Duration) -> Self {
        let reasons = status.reasons(Clock.now(), stall_after);
        SourceReadiness {
            ready: reasons.is_empty(),
            reasons,
            name: status.name,
            lanes: status.lanes,
            backlog_messages: status.backlog.map(|backlog| backlog.messages),
            oldest_seconds: status.backlog.map(|backlog| backlog.oldest.as_secs_f64()),
        }
    }
}

async fn ready(State(sight): State<Sight>) -> Response {
    answer(&sight, |_| true)
}

async fn ready_source(State(sight): State<Sight>, Path(source): Path<String>) -> Response {
    answer(&sight, |status| status.name == source)
}

fn answer(sight: &Sight, wanted: impl Fn(&SourceStatus) -> bool) -> Response {
    let chosen = sight.board.sources().into_iter().filter(wanted);
    let sources: Vec<_> = chosen.map(|status| SourceReadiness::of(status, sight.stall_after)).collect();
    if sources.is_empty() {
        return (StatusCode::NOT_FOUND, "no such source\n").into_response();
    }
    let ready = sources.iter().all(|source| source.ready);
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match serde_json::to_string(&Readiness { ready, sources }) {
        Ok(body) => (code, [(header::CONTENT_TYPE, "application/json")], body + "\n").into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn metrics(State(sight): State<Sight>) -> Response {
    for status in sight.board.sources() {
        let ready = status.reasons(Clock.now(), sight.stall_after).is_empty();
        sight.metrics.set_status(&status.name, status.database.is_ok(), status.destination.is_ok(), ready);
    }
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], sight.metrics.text()).into_response()
}

/// Asks a relay's `/ready`, as `fencepost healthcheck` does. Returns the answer's body if it is ready.
///
/// # Errors
/// Why it is not ready, or does not answer within `limit`.
pub async fn ask_ready(address: SocketAddr, limit: Duration) -> Result<String, String> {
    let late = |_| format!("no answer from http://{address}/ready within {limit:?}");
    let answer = tokio::time::timeout(limit, get_ready(address)).await.map_err(late)?;
    let answer = answer.map_err(|error| format!("no answer from http://{address}/ready: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let is_ok = head.split(' ').nth(1) == Some("200");
    if is_ok { Ok(body.trim().to_owned()) } else { Err(format!("not ready: {}", body.trim())) }
}

async fn get_ready(address: SocketAddr) -> io::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    /// More than any answer with 256 lanes.
    const ANSWER_BYTES_MAX: u64 = 1 << 20;
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(format!("GET /ready HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::sync::oneshot;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// A server over one source, the source's reporter, and what stops it.
    async fn server()
    -> (SocketAddr, crate::status::Reporter, oneshot::Sender<()>, tokio::task::JoinHandle<io::Result<()>>) {
        let mut board = Board::default();
        let reporter = board.add("main");
        let sight = Sight { board, metrics: Metrics::new(), stall_after: Duration::from_secs(30) };
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, sight, async { stopped.await.unwrap_or(()) }));
        (address, reporter, stop, task)
    }

    #[tokio::test]
    async fn readiness_follows_the_status() {
        let (address, reporter, stop, task) = server().await;
        let why = ask_ready(address, LIMIT).await.expect_err("not connected");
        assert!(why.contains("\"ready\":false") && why.contains("database: not connected yet"), "{why}");
        reporter.update(|status| status.database = Ok(()));
        let answer = ask_ready(address, LIMIT).await.expect("ready");
        assert!(answer.contains("\"ready\":true"), "{answer}");
        reporter.update(|status| status.busy = true);
        let why = ask_ready(address, LIMIT).await.expect_err("no progress since the machine's boot");
        assert!(why.contains("no progress for"), "{why}");
        reporter.progressed(Clock.now());
        ask_ready(address, LIMIT).await.expect("ready again");
        stop.send(()).expect("the server listens");
        task.await.expect("no panic").expect("a clean end");
        ask_ready(address, LIMIT).await.expect_err("gone");
    }

    #[tokio::test]
    async fn an_address_in_use_is_explained() {
        let taken = bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
        let address = taken.local_addr().expect("an address");
        let error = bind(address).await.expect_err("taken").to_string();
        assert!(error.contains(&address.to_string()) && error.contains("http.listen"), "{error}");
    }
}
