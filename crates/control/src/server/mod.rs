//! The API server: HTTP/1.1 on a Unix socket, and optionally over TLS, each in a thread of its own.
//!
//! A connection carries one request, with a time limit for each part of it ([`serve()`]). Connections ([`connection_slots`]) and memory ([`memory`]) are limited,
//! and the owner's share is separate. Captures have a bounded queue of their own.

mod checks;
mod connection_slots;
mod head;
mod memory;
mod serve;

use crate::access::Peer;
use crate::api::AccessLevel;
use crate::daemon::Daemon;
use crate::remote::Remote;
use crate::socket::ControlSocket;
use ::io::login::Login;
use checks::Checks;
use connection_slots::{ConnectionSlots, ConnectionStage, Origin};
use head::{FirstBytes, ScannedStream};
use memory::RequestMemory;
use serve::{ActiveConnection, CallerKind, HEAD_TIMEOUT, serve};
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

/// The most connections of callers with full access: in total, and of one user.
const OWNERS: (usize, usize) = (64, 48);
/// The most connections of callers with read access: in total, and of one user.
const READERS: (usize, usize) = (32, 6);
/// The most connections of owners of slices: in total, and of one user. A program of a slow path keeps one.
const SLICE_OWNERS: (usize, usize) = (256, 8);
/// The most refusals in progress, in total and for one user, and the time limit of each.
const REFUSALS: (usize, usize) = (16, 4);
const REFUSAL: Duration = Duration::from_secs(1);
/// The most remote connections without a checked token: in total, and of one machine.
const UNKNOWN: (usize, usize) = (256, 192);
/// The most remote connections with the token for full access, and with the token for read access.
const REMOTE_OWNERS: (usize, usize) = (32, 32);
const REMOTE_READERS: (usize, usize) = (16, 6);
/// The most connections of metrics scrapers.
const SCRAPERS: (usize, usize) = (16, 16);
/// The threads of a listener that answer requests and may wait for workers. Callers with read access use at most three of them.
const THREADS: usize = 8;
/// The number of connections accepted before the existing ones get a turn.
const ACCEPTS_PER_TURN: u32 = 16;
/// The time limit for pending answers when the server ends.
const ENDING: Duration = Duration::from_millis(500);

/// The server. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    threads: Vec<(Arc<Notify>, JoinHandle<()>)>,
}

/// The addresses of a server.
#[derive(Debug, Default)]
pub struct Listeners {
    /// On this machine.
    pub socket: Option<ControlSocket>,
    /// For other machines.
    pub remote: Option<Remote>,
    /// For metrics only, without access control, on an address of this machine.
    pub metrics: Option<Listener>,
}

impl From<ControlSocket> for Listeners {
    fn from(socket: ControlSocket) -> Listeners {
        Listeners { socket: Some(socket), ..Listeners::default() }
    }
}

impl Server {
    /// Starts to answer requests about `daemon`.
    pub fn start(daemon: Arc<Daemon>, doors: impl Into<Listeners>) -> io::Result<Server> {
        let Listeners { socket, remote, metrics } = doors.into();
        let house = Arc::new(ServerState::new(daemon, Checks::start()?));
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
            // A listener of its own: a flood of handshakes must not delay callers on this machine.
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
    house: Arc<ServerState>,
    stop: &Notify,
    accept: impl Future<Output = io::Result<()>> + Send + 'static,
) {
    let result = runtime.block_on(async {
        // A task like those of the connections: the future that the runtime itself waits for would run before all of them.
        let mut accept = tokio::spawn(accept);
        let result = tokio::select! {
            result = &mut accept => result.unwrap_or_else(|error| Err(io::Error::other(error))),
            () = stop.notified() => Ok(()),
        };
        accept.abort();
        // Requests in progress get their answers, and readers of captures get the end.
        let _ = timeout(ENDING, house.wait_empty()).await;
        result
    });
    if let Err(error) = result {
        tracing::error!("the API has failed: {error}");
    }
}

/// State shared by all connections.
struct ServerState {
    daemon: Arc<Daemon>,
    checks: Checks,
    memory: RequestMemory,
    owners: Arc<ConnectionSlots>,
    readers: Arc<ConnectionSlots>,
    slice_owners: Arc<ConnectionSlots>,
    refusals: Arc<ConnectionSlots>,
    /// Remote connections take no places from local ones.
    unknown: Arc<ConnectionSlots>,
    remote_owners: Arc<ConnectionSlots>,
    remote_readers: Arc<ConnectionSlots>,
    scrapers: Arc<ConnectionSlots>,
}

impl ServerState {
    fn new(daemon: Arc<Daemon>, checks: Checks) -> ServerState {
        let places = |(most, each)| ConnectionSlots::new(most, each);
        ServerState {
            daemon,
            checks,
            memory: RequestMemory::new(),
            owners: places(OWNERS),
            readers: places(READERS),
            slice_owners: places(SLICE_OWNERS),
            refusals: places(REFUSALS),
            unknown: places(UNKNOWN),
            remote_owners: places(REMOTE_OWNERS),
            remote_readers: places(REMOTE_READERS),
            scrapers: places(SCRAPERS),
        }
    }

    /// Completes when no request is in progress.
    async fn wait_empty(&self) {
        for places in [&self.owners, &self.readers, &self.slice_owners, &self.remote_owners, &self.remote_readers] {
            places.wait_empty().await;
        }
    }

    async fn accept(self: Arc<ServerState>, socket: ControlSocket) -> io::Result<()> {
        let listener = socket.listener()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let groups = socket.groups();
        let mut turns = AcceptLimiter::default();
        loop {
            turns.before_accept().await;
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            // The kernel identifies the caller, unless it is already gone.
            let Ok(peer) = identify(&stream) else { continue };
            let origin = Origin::User(peer.uid);
            let allowed = groups.allowed(rustix::process::geteuid().as_raw(), &peer);
            let allowed = allowed.or_else(|| self.daemon.owns_slice(peer.uid).then_some(AccessLevel::Slice));
            let place = match allowed {
                Some(AccessLevel::Full) => self.owners.enter(origin, ConnectionStage::Silent),
                Some(AccessLevel::Read) => self.readers.enter(origin, ConnectionStage::Silent),
                Some(AccessLevel::Slice) => self.slice_owners.enter(origin, ConnectionStage::Silent),
                None => None,
            };
            if let (Some(allowed), Some(place)) = (allowed, place) {
                tokio::spawn(serve(
                    stream,
                    CallerKind::Process(peer, allowed),
                    ActiveConnection::new(place),
                    self.clone(),
                ));
                continue;
            }
            // Beyond that number connections are closed without an answer.
            let Some(place) = self.refusals.enter(origin, ConnectionStage::Silent) else { continue };
            let guest = if allowed.is_some() { CallerKind::OverLimit } else { CallerKind::Stranger(peer) };
            let house = self.clone();
            tokio::spawn(
                async move { timeout(REFUSAL, serve(stream, guest, ActiveConnection::new(place), house)).await },
            );
        }
    }

    async fn accept_remote(self: Arc<ServerState>, remote: Remote) -> io::Result<()> {
        let Remote { listener, tls, authenticator: door } = remote;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = TlsAcceptor::from(tls);
        let mut turns = AcceptLimiter::default();
        loop {
            turns.before_accept().await;
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            let Some(place) = self.unknown.enter(origin(peer), ConnectionStage::Silent) else { continue };
            let local = stream.local_addr().ok().map(|local| local.ip().to_canonical());
            let connection = Login { peer: Some(peer.ip().to_canonical()), local };
            let (acceptor, house) = (acceptor.clone(), self.clone());
            let guest = CallerKind::Remote { authenticator: door.clone(), connection, peer };
            tokio::spawn(async move {
                let seat = ActiveConnection::new(place);
                let greeting = seat.clone();
                // A valid handshake costs the client more than a few bytes, so its connection advances in the order of eviction.
                let stream = ScannedStream::new(stream, None, move |first| {
                    greeting.record_stage(if first == FirstBytes::Sent {
                        ConnectionStage::HandshakeAnswered
                    } else {
                        ConnectionStage::HandshakeStarted
                    });
                });
                let greeted = tokio::select! {
                    greeted = timeout(HEAD_TIMEOUT, acceptor.accept(stream)) => greeted,
                    () = seat.wait_evicted() => return,
                };
                if let Ok(Ok(stream)) = greeted {
                    seat.record_stage(ConnectionStage::HandshakeComplete);
                    serve(stream, guest, seat, house).await;
                }
            });
        }
    }

    async fn accept_scrapers(self: Arc<ServerState>, listener: Listener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let mut turns = AcceptLimiter::default();
        loop {
            turns.before_accept().await;
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            let Some(place) = self.scrapers.enter(origin(peer), ConnectionStage::Silent) else { continue };
            tokio::spawn(serve(stream, CallerKind::Scraper, ActiveConnection::new(place), self.clone()));
        }
    }
}

/// Divides the thread between accepting connections and serving them.
#[derive(Default)]
struct AcceptLimiter(u32);

impl AcceptLimiter {
    /// Lets the connections run after every few accepted ones: an evicted connection has to run to close its descriptor.
    async fn before_accept(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(ACCEPTS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the accepted connection. After an error, usually a lack of descriptors, waits a moment for connections to end.
async fn accepted<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!("cannot accept a client: {error}");
            let _ = timeout(Duration::from_millis(100), std::future::pending::<()>()).await;
            None
        }
    }
}

/// Returns the process at the other end.
fn identify(stream: &UnixStream) -> io::Result<Peer> {
    let (uid, groups) = ::io::peer::credentials(stream)?;
    Ok(Peer { uid, groups })
}

/// Returns the origin of a remote connection: its address, or for IPv6 the /64, which belongs to one customer.
fn origin(peer: SocketAddr) -> Origin {
    Origin::Address(match peer.ip().to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    })
}
