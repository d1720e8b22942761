//! A TCP proxy between a client and a server that does what networks do: holds bytes back, loses them,
//! cuts a connection in the middle of a statement, refuses new ones.
//!
//! A cut "after exactly N bytes" is how tests break a connection at every point of a statement and lose
//! its reply. Kafka's clients follow the address that a broker advertises, so a broker behind a proxy has
//! to advertise the proxy ([`crate::servers::PrivateKafka::behind_proxy`]).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::wait;

/// Which way bytes flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What the client says.
    ToServer,
    /// What the server answers.
    ToClient,
}

/// What happens to the bytes of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They pass.
    Open,
    /// Each read is passed on this much later.
    Delayed(Duration),
    /// They wait until the direction opens again: the peer sees silence, then a full window, no error.
    Held,
    /// They are read and thrown away. A stream with a hole is of no use: cut it before it opens again.
    Lost,
}

/// A proxy on loopback. Dropping it cuts all its connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accept: JoinHandle<()>,
}

struct Shared {
    target: String,
    state: Mutex<State>,
    /// Tells every connection to look at the state again.
    changed: watch::Sender<u64>,
}

struct State {
    flow: [Flow; 2],
    bytes: [u64; 2],
    refuse: bool,
    /// Connections opened before the newest general cut are gone.
    cut_before: u64,
    opened: u64,
    live: usize,
    armed: Option<Cut>,
    cuts: u64,
}

/// A cut that waits for its byte.
struct Cut {
    direction: Direction,
    left: u64,
    /// Connection whose bytes count; `None` counts those of all.
    connection: Option<u64>,
    /// Bytes to the server that arm the cut for the connection which says them.
    trigger: Option<Vec<u8>>,
}

impl Proxy {
    /// A proxy on a free port to `target`, `host:port`.
    pub async fn to(target: &str) -> Self {
        Self::bind(0, target).await
    }

    /// A proxy on this port of loopback; 0 takes a free one.
    ///
    /// # Panics
    /// When the port is taken.
    pub async fn bind(port: u16, target: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port for the proxy");
        let address = listener.local_addr().expect("a bound address");
        let state = State {
            flow: [Flow::Open; 2],
            bytes: [0; 2],
            refuse: false,
            cut_before: 0,
            opened: 0,
            live: 0,
            armed: None,
            cuts: 0,
        };
        let shared =
            Arc::new(Shared { target: target.into(), state: Mutex::new(state), changed: watch::Sender::new(0) });
        let accept = tokio::spawn(accept(listener, shared.clone()));
        Proxy { address, shared, accept }
    }

    /// Where clients connect, `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sets what happens to the bytes of a direction, on old and new connections.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.shared.change(|state| state.flow[direction as usize] = flow);
    }

    /// Refuses new connections (closes them at once), or takes them again.
    pub fn refuse(&self, refuse: bool) {
        self.shared.change(|state| state.refuse = refuse);
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        self.shared.change(|state| state.cut_before = state.opened);
    }

    /// From now on passes exactly `bytes` more bytes in that direction, of all connections together, and
    /// cuts the connection whose next byte would be one more. Once; replaces a cut that still waits.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.change(|state| state.armed = Some(Cut { direction, left: bytes, connection: None, trigger: None }));
    }

    /// As [`Self::cut_after`], counted from the first read in which a client says `phrase`, and only for
    /// the connection that says it. That read itself counts for [`Direction::ToServer`].
    pub fn cut_once_said(&self, phrase: &[u8], direction: Direction, bytes: u64) {
        let trigger = Some(phrase.to_vec());
        self.shared.change(|state| state.armed = Some(Cut { direction, left: bytes, connection: None, trigger }));
    }

    /// Takes back a cut that still waits.
    pub fn disarm(&self) {
        self.shared.change(|state| state.armed = None);
    }

    /// How many cuts came to pass (general cuts are not counted).
    pub fn cuts(&self) -> u64 {
        self.shared.state().cuts
    }

    /// Bytes passed on in that direction so far.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.state().bytes[direction as usize]
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.state().live
    }

    /// Connections that were ever opened.
    pub fn opened(&self) -> u64 {
        self.shared.state().opened
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accept.abort();
        self.cut_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the proxy's state is locked")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
    }
}

impl State {
    /// How many of these bytes may pass now; `true` when the connection is to be cut behind them.
    fn admit(&mut self, connection: u64, direction: Direction, chunk: &[u8]) -> (usize, bool) {
        if let Some(cut) = &mut self.armed {
            let said = |phrase: &Vec<u8>| chunk.windows(phrase.len()).any(|window| window == phrase);
            if direction == Direction::ToServer && cut.trigger.as_ref().is_some_and(said) {
                cut.trigger = None;
                cut.connection = Some(connection);
            }
            let counts = cut.trigger.is_none() && cut.connection.is_none_or(|only| only == connection);
            if counts && cut.direction == direction {
                if (chunk.len() as u64) > cut.left {
                    let pass = cut.left as usize;
                    self.armed = None;
                    self.cuts += 1;
                    return (pass, true);
                }
                cut.left -= chunk.len() as u64;
            }
        }
        (chunk.len(), false)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let number = {
            let mut state = shared.state();
            if state.refuse {
                continue;
            }
            state.opened += 1;
            state.live += 1;
            state.opened
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            // a server that is down looks like one: the client's connection closes
            if let Ok(server) = TcpStream::connect(&shared.target).await {
                serve(client, server, number, &shared).await;
            }
            shared.state().live -= 1;
        });
    }
}

/// Until one side ends, or a cut: then both streams are dropped, whatever is still in flight.
async fn serve(client: TcpStream, server: TcpStream, number: u64, shared: &Shared) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut changed = shared.changed.subscribe();
    let cut = async { while changed.changed().await.is_ok() && shared.state().cut_before < number {} };
    tokio::select! {
        () = pump(from_client, to_server, Direction::ToServer, number, shared) => {}
        () = pump(from_server, to_client, Direction::ToClient, number, shared) => {}
        () = cut => {}
    }
}

/// Passes bytes of one direction on, as its flow says.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, direction: Direction, number: u64, shared: &Shared) {
    let mut changed = shared.changed.subscribe();
    let mut buffer = vec![0; 64 << 10];
    loop {
        // bytes that were read before the direction closed are held as well
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        let flow = loop {
            let flow = shared.state().flow[direction as usize];
            if flow != Flow::Held {
                break flow;
            }
            let _ = changed.changed().await;
        };
        match flow {
            Flow::Lost => continue,
            Flow::Delayed(duration) => wait::hold(duration).await,
            Flow::Open | Flow::Held => {}
        }
        let (pass, cut) = shared.state().admit(number, direction, &buffer[..count]);
        if to.write_all(&buffer[..pass]).await.is_err() {
            return;
        }
        shared.state().bytes[direction as usize] += pass as u64;
        if cut {
            let _ = to.flush().await;
            return;
        }
    }
}
