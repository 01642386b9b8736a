//! The API's server: HTTP/1.1 on a Unix socket, and where wanted over TLS, each in a thread of its own.
//!
//! A connection has one request and a limited time for each part of it ([`serve`]). Connections ([`places`]) and memory
//! ([`memory`]) are limited, and the owner's are not shared. Captures have their own bounded queue.

mod checks;
mod head;
mod memory;
mod places;
mod serve;

use crate::access::Peer;
use crate::api::Needs;
use crate::daemon::Daemon;
use crate::remote::Remote;
use crate::socket::Bound;
use ::io::login::Login;
use checks::Checks;
use head::{First, Watched};
use memory::Memory;
use places::{Origin, Places, Stage};
use serve::{Guest, HEAD, Seat, serve};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections of callers who may change the router, of all of them and of one user.
const OWNERS: (usize, usize) = (64, 48);
/// The same of callers who may only look.
const READERS: (usize, usize) = (32, 6);
/// Refusals at once, of all callers and of one user, and how long each may take.
const REFUSALS: (usize, usize) = (16, 4);
const REFUSAL: Duration = Duration::from_secs(1);
/// Connections from elsewhere that have not yet shown their token, of all machines and of one.
const UNKNOWN: (usize, usize) = (256, 192);
/// Connections with the token for everything, and with the token to look.
const REMOTE_OWNERS: (usize, usize) = (32, 32);
const REMOTE_READERS: (usize, usize) = (16, 6);
/// Connections that ask for metrics.
const SCRAPERS: (usize, usize) = (16, 16);
/// Threads of a listener that answer requests: they may wait for workers. Callers who may only look have three of them at a
/// time.
const THREADS: usize = 8;
/// Connections accepted before those that are there have a turn.
const TURN: u32 = 16;
/// How long answers on their way may take when the server ends.
const ENDING: Duration = Duration::from_millis(500);

/// The server. Ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    threads: Vec<(Arc<Notify>, JoinHandle<()>)>,
}

/// Where a server is asked.
#[derive(Debug, Default)]
pub struct Doors {
    /// On this machine.
    pub socket: Option<Bound>,
    /// From elsewhere.
    pub remote: Option<Remote>,
    /// For metrics alone, without asking who wants them: on an address of this machine.
    pub metrics: Option<Listener>,
}

impl From<Bound> for Doors {
    fn from(socket: Bound) -> Doors {
        Doors { socket: Some(socket), ..Doors::default() }
    }
}

impl Server {
    /// Answers requests about `daemon`.
    pub fn start(daemon: Arc<Daemon>, doors: impl Into<Doors>) -> io::Result<Server> {
        let Doors { socket, remote, metrics } = doors.into();
        let house = Arc::new(House::new(daemon, Checks::start()?));
        let mut server = Server { threads: Vec::new() };
        if let Some(socket) = socket {
            let house = house.clone();
            let listen = move |stop: Arc<Notify>, runtime: Runtime| {
                run(&runtime, house.clone(), &stop, house.clone().accept(socket));
            };
            server.listen("control", listen)?;
        }
        if let Some(remote) = remote {
            let house = house.clone();
            // A flood of handshakes must not delay callers on this machine.
            let listen = move |stop: Arc<Notify>, runtime: Runtime| {
                run(&runtime, house.clone(), &stop, house.clone().accept_remote(remote));
            };
            server.listen("control-tls", listen)?;
        }
        if let Some(metrics) = metrics {
            let listen = move |stop: Arc<Notify>, runtime: Runtime| {
                run(&runtime, house.clone(), &stop, house.clone().accept_scrapers(metrics));
            };
            server.listen("control-metrics", listen)?;
        }
        Ok(server)
    }

    fn listen(&mut self, name: &str, listen: impl FnOnce(Arc<Notify>, Runtime) + Send + 'static) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || listen(stopped, runtime))?;
        self.threads.push((stop, thread));
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.threads.iter().for_each(|(stop, _)| stop.notify_one());
        for (_, thread) in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the end.
fn run(
    runtime: &Runtime,
    house: Arc<House>,
    stop: &Notify,
    accept: impl Future<Output = io::Result<()>> + Send + 'static,
) {
    let result = runtime.block_on(async {
        // A task like those of the connections: what the runtime itself waits for has its turn before all of them.
        let mut accept = tokio::spawn(accept);
        let result = tokio::select! {
            result = &mut accept => result.unwrap_or_else(|error| Err(io::Error::other(error))),
            () = stop.notified() => Ok(()),
        };
        accept.abort();
        // Callers that are being answered get their answer, readers of captures the end.
        let _ = timeout(ENDING, house.empty()).await;
        result
    });
    if let Err(error) = result {
        tracing::error!("the API has failed: {error}");
    }
}

/// What connections share.
struct House {
    daemon: Arc<Daemon>,
    checks: Checks,
    memory: Memory,
    owners: Arc<Places>,
    readers: Arc<Places>,
    refusals: Arc<Places>,
    /// Strangers take no place from those on this machine.
    unknown: Arc<Places>,
    remote_owners: Arc<Places>,
    remote_readers: Arc<Places>,
    scrapers: Arc<Places>,
}

impl House {
    fn new(daemon: Arc<Daemon>, checks: Checks) -> House {
        let places = |(most, each)| Places::new(most, each);
        House {
            daemon,
            checks,
            memory: Memory::new(),
            owners: places(OWNERS),
            readers: places(READERS),
            refusals: places(REFUSALS),
            unknown: places(UNKNOWN),
            remote_owners: places(REMOTE_OWNERS),
            remote_readers: places(REMOTE_READERS),
            scrapers: places(SCRAPERS),
        }
    }

    /// Completes when no caller is being answered.
    async fn empty(&self) {
        for places in [&self.owners, &self.readers, &self.remote_owners, &self.remote_readers] {
            places.empty().await;
        }
    }

    async fn accept(self: Arc<House>, socket: Bound) -> io::Result<()> {
        let listener = socket.listener()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let groups = socket.groups();
        let mut turns = Turns::default();
        loop {
            turns.next().await;
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            // The kernel knows, unless the caller is gone already.
            let Ok(peer) = identify(&stream) else { continue };
            let origin = Origin::User(peer.uid);
            let allowed = groups.allowed(rustix::process::geteuid().as_raw(), &peer);
            let place = match allowed {
                Some(Needs::Full) => self.owners.enter(origin, Stage::Silent),
                Some(Needs::Read) => self.readers.enter(origin, Stage::Silent),
                None => None,
            };
            if let (Some(allowed), Some(place)) = (allowed, place) {
                tokio::spawn(serve(stream, Guest::Process(peer, allowed), Seat::new(place), self.clone()));
                continue;
            }
            // Beyond that number they are closed without an answer.
            let Some(place) = self.refusals.enter(origin, Stage::Silent) else { continue };
            let guest = if allowed.is_some() { Guest::Surplus } else { Guest::Stranger(peer) };
            let house = self.clone();
            tokio::spawn(async move { timeout(REFUSAL, serve(stream, guest, Seat::new(place), house)).await });
        }
    }

    async fn accept_remote(self: Arc<House>, remote: Remote) -> io::Result<()> {
        let Remote { listener, tls, door } = remote;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = TlsAcceptor::from(tls);
        let mut turns = Turns::default();
        loop {
            turns.next().await;
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            let Some(place) = self.unknown.enter(origin(peer), Stage::Silent) else { continue };
            let local = stream.local_addr().ok().map(|local| local.ip().to_canonical());
            let connection = Login { peer: Some(peer.ip().to_canonical()), local };
            let (acceptor, house) = (acceptor.clone(), self.clone());
            let guest = Guest::Remote { door: door.clone(), connection, peer };
            tokio::spawn(async move {
                let seat = Seat::new(place);
                let greeting = seat.clone();
                // A sound greeting costs its sender more than a few bytes, and is answered.
                let stream = Watched::new(stream, None, move |first| {
                    greeting.reached(if first == First::Sent { Stage::Answering } else { Stage::Greeting });
                });
                let greeted = tokio::select! {
                    greeted = timeout(HEAD, acceptor.accept(stream)) => greeted,
                    () = seat.evicted() => return,
                };
                if let Ok(Ok(stream)) = greeted {
                    seat.reached(Stage::Greeted);
                    serve(stream, guest, seat, house).await;
                }
            });
        }
    }

    async fn accept_scrapers(self: Arc<House>, listener: Listener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let mut turns = Turns::default();
        loop {
            turns.next().await;
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            let Some(place) = self.scrapers.enter(origin(peer), Stage::Silent) else { continue };
            tokio::spawn(serve(stream, Guest::Scraper, Seat::new(place), self.clone()));
        }
    }
}

/// Shares the thread between accepting connections and serving them.
#[derive(Default)]
struct Turns(u32);

impl Turns {
    /// Lets the connections run after every few accepted ones: an evicted one has to run to close its descriptor.
    async fn next(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// The accepted connection. After an error, which is mostly a lack of descriptors, waits a moment for connections to end.
async fn accepted<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!("a client cannot be accepted: {error}");
            let _ = timeout(Duration::from_millis(100), std::future::pending::<()>()).await;
            None
        }
    }
}

/// The process at the other end.
fn identify(stream: &UnixStream) -> io::Result<Peer> {
    let (uid, groups) = ::io::peer::credentials(stream)?;
    Ok(Peer { uid, groups })
}

/// The origin of a connection from elsewhere: its address, or for IPv6 the /64, which belongs to one customer.
fn origin(peer: SocketAddr) -> Origin {
    Origin::Address(match peer.ip().to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    })
}
