//! The API's server: HTTP/1.1 on a Unix socket, and where wanted over TLS, in a thread of its own.
//!
//! A client that hangs harms nobody: a connection has one request and a limited time for it, connections are limited in
//! number, bodies in size, and captures have their own bounded queue.

use crate::access::{Caller, Groups, Peer, forbidden};
use crate::api::{self, ApiError, ErrorKind, Needs};
use crate::daemon::Daemon;
use crate::remote::{Door, Remote};
use crate::request::{self, Request};
use crate::respond::{Reply, respond};
use crate::schedule;
use crate::socket::Bound;
use crate::stream::{self, Growing, MISSED};
use crate::watch::{Capturing, Tap, Wanted};
use ::io::login::Login;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, TRAILER};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections at once; further ones are refused.
const CONNECTIONS: usize = 64;
/// Connections from elsewhere at once; further ones are closed.
const REMOTE_CONNECTIONS: usize = 32;
/// Refusals at once, and how long each may take.
const REFUSALS: usize = 16;
const REFUSAL: Duration = Duration::from_secs(1);
/// Threads that answer requests: they may wait for workers.
const THREADS: usize = 4;
/// How long a client may take to say what it asks.
const HEAD: Duration = Duration::from_secs(5);
/// How long a client may take to send a body.
const BODY: Duration = Duration::from_secs(20);
/// How long a request may take from the connection to the last byte of the answer, captures excepted.
const WHOLE: Duration = Duration::from_secs(60);
/// The largest body in bytes: the largest configuration that is read.
const MOST_BODY: usize = 64 << 20;
/// How long answers on their way may take when the server ends.
const ENDING: Duration = Duration::from_millis(500);

/// The server. Ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// Where a server is asked.
#[derive(Debug, Default)]
pub struct Doors {
    /// On this machine.
    pub socket: Option<Bound>,
    /// From elsewhere.
    pub remote: Option<Remote>,
}

impl From<Bound> for Doors {
    fn from(socket: Bound) -> Doors {
        Doors { socket: Some(socket), remote: None }
    }
}

impl Server {
    /// Answers requests about `daemon`.
    pub fn start(daemon: Arc<Daemon>, doors: impl Into<Doors>) -> io::Result<Server> {
        let doors = doors.into();
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let thread =
            thread::Builder::new().name("control".into()).spawn(move || run(&runtime, daemon, doors, &stopped))?;
        Ok(Server { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(runtime: &Runtime, daemon: Arc<Daemon>, doors: Doors, stop: &Notify) {
    let result = runtime.block_on(async {
        let Doors { socket, remote } = doors;
        let house = House {
            daemon,
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            remote_places: Arc::new(Semaphore::new(REMOTE_CONNECTIONS)),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
        };
        let here = async {
            match &socket {
                Some(socket) => house.accept(socket).await,
                None => std::future::pending().await,
            }
        };
        let elsewhere = async {
            match remote {
                Some(remote) => house.accept_remote(remote).await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            result = here => result,
            result = elsewhere => result,
            () = stop.notified() => Ok(()),
        };
        drop(socket);
        // Whoever is being answered gets the answer, a reader of a capture its end.
        let empty = async {
            let _ = house.places.acquire_many(CONNECTIONS as u32).await;
            let _ = house.remote_places.acquire_many(REMOTE_CONNECTIONS as u32).await;
        };
        let _ = timeout(ENDING, empty).await;
        result
    });
    if let Err(error) = result {
        tracing::error!("the API has failed: {error}");
    }
}

/// What connections share.
struct House {
    daemon: Arc<Daemon>,
    places: Arc<Semaphore>,
    /// Strangers take no place from those on this machine.
    remote_places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl House {
    async fn accept(&self, socket: &Bound) -> io::Result<()> {
        let listener = socket.listener()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let groups = socket.groups();
        loop {
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            let place = self.places.clone().try_acquire_owned().map_err(|_| busy());
            match place.and_then(|place| Ok((place, identify(&stream, &groups)?))) {
                Ok((place, caller)) => self.admit(stream, Guest::Known(caller), place),
                // Of too many of those nobody hears anything.
                Err(error) => {
                    let Ok(place) = self.refusals.clone().try_acquire_owned() else { continue };
                    let daemon = self.daemon.clone();
                    tokio::spawn(async move {
                        let _ = timeout(REFUSAL, serve(stream, Guest::Refused(error), daemon)).await;
                        drop(place);
                    });
                }
            }
        }
    }

    async fn accept_remote(&self, remote: Remote) -> io::Result<()> {
        let Remote { listener, tls, door } = remote;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = TlsAcceptor::from(tls);
        loop {
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            // Without a place there is no handshake, which costs more than anything else a stranger can ask for.
            let Ok(place) = self.remote_places.clone().try_acquire_owned() else { continue };
            let local = stream.local_addr().ok().map(|local| local.ip().to_canonical());
            let connection = Login { peer: Some(peer.ip().to_canonical()), local };
            let (acceptor, door, daemon) = (acceptor.clone(), door.clone(), self.daemon.clone());
            tokio::spawn(async move {
                if let Ok(Ok(stream)) = timeout(HEAD, acceptor.accept(stream)).await {
                    serve(stream, Guest::Remote { door, connection, peer }, daemon).await;
                }
                drop(place);
            });
        }
    }

    fn admit(&self, stream: UnixStream, guest: Guest, place: OwnedSemaphorePermit) {
        let daemon = self.daemon.clone();
        tokio::spawn(async move {
            serve(stream, guest, daemon).await;
            drop(place);
        });
    }
}

/// What was accepted. Where nothing could be, waits a moment: out of descriptors, most likely, and it gets better when
/// somebody hangs up.
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

fn busy() -> ApiError {
    ApiError::new(ErrorKind::Busy, "too many connections", "try again in a moment")
}

/// Who is at the other end, and what they may do.
fn identify(stream: &UnixStream, groups: &Groups) -> Result<Caller, ApiError> {
    let unknown = |error: io::Error| {
        ApiError::new(ErrorKind::Forbidden, format!("the kernel does not say who you are: {error}"), "try again")
    };
    let (uid, peer_groups) = ::io::peer::credentials(stream).map_err(unknown)?;
    let peer = Peer { uid, groups: peer_groups };
    match groups.allowed(rustix::process::geteuid().as_raw(), &peer) {
        Some(allowed) => Ok(Caller::of_process(&peer, allowed)),
        None => Err(forbidden(&Caller::of_process(&peer, Needs::Read).who)),
    }
}

/// Whoever asks.
#[derive(Clone)]
enum Guest {
    /// The kernel has said who it is.
    Known(Caller),
    /// They are not let in, and hear why as the answer to whatever they ask.
    Refused(ApiError),
    /// Their token says who they are.
    Remote { door: Arc<Door>, connection: Login, peer: SocketAddr },
}

impl Guest {
    fn caller(self, head: &Parts) -> Result<Caller, ApiError> {
        match self {
            Guest::Known(caller) => Ok(caller),
            Guest::Refused(error) => Err(error),
            Guest::Remote { door, connection, peer } => {
                let field = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
                door.caller(field, &connection, peer)
            }
        }
    }
}

/// One connection: one request and its answer.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, guest: Guest, daemon: Arc<Daemon>) {
    let growing = Arc::new(AtomicBool::new(false));
    let marker = growing.clone();
    let service = service_fn(move |request| answer(request, guest.clone(), daemon.clone(), marker.clone()));
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Errors are the client's: it hung up, or spoke no HTTP.
    if timeout(WHOLE, connection.as_mut()).await.is_err() && growing.load(Ordering::Relaxed) {
        let _ = connection.await;
    }
}

/// The body of an answer.
enum Content {
    Whole(Full<Bytes>),
    Growing(Growing),
}

impl http_body::Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(body) => Pin::new(body).poll_frame(context),
            Content::Growing(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Content::Whole(body) => body.size_hint(),
            Content::Growing(_) => http_body::SizeHint::default(),
        }
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    guest: Guest,
    daemon: Arc<Daemon>,
    growing: Arc<AtomicBool>,
) -> Result<Response<Content>, Infallible> {
    let (head, body) = request.into_parts();
    let needs = request::needs(head.method.as_str(), head.uri.path());
    let caller = match guest.caller(&head).and_then(|caller| caller.may(needs).map(|()| caller)) {
        Ok(caller) => caller,
        Err(error) => return Ok(whole(Reply::refusal(&error))),
    };
    let read = match collect(body).await {
        Ok(body) => {
            let query = head.uri.query().unwrap_or("");
            request::parse(head.method.as_str(), head.uri.path(), query, &body)
        }
        Err(error) => Err(error),
    };
    Ok(match read {
        Err(error) => whole(Reply::refusal(&error)),
        Ok(Request::Capture(capture)) => match open(&daemon, capture) {
            Err(error) => whole(Reply::refusal(&error)),
            Ok(packets) => {
                growing.store(true, Ordering::Relaxed);
                let (body, work) = stream::growing(daemon, packets);
                tokio::spawn(work);
                response(200, "application/x-pcapng", Content::Growing(body))
            }
        },
        Ok(Request::Trace(trace)) => match daemon.follow(trace) {
            Err(error) => whole(Reply::refusal(&error)),
            Ok(packets) => {
                growing.store(true, Ordering::Relaxed);
                let (body, work) = stream::lines(daemon, packets);
                tokio::spawn(work);
                response(200, api::LINES, Content::Growing(body))
            }
        },
        Ok(Request::Schedule(asked)) => match schedule::look(&daemon, asked.events) {
            Err(error) => whole(Reply::refusal(&error)),
            Ok(looking) => {
                growing.store(true, Ordering::Relaxed);
                let (body, work) = stream::file(looking, asked.time);
                tokio::spawn(work);
                response(200, "application/json", Content::Growing(body))
            }
        },
        Ok(request) => match tokio::task::spawn_blocking(move || respond(&daemon, &caller, request)).await {
            Ok(reply) => whole(reply),
            Err(_) => {
                let error = ApiError::new(ErrorKind::Unavailable, "answering failed", "look at the log of the router");
                whole(Reply::refusal(&error))
            }
        },
    })
}

async fn collect(body: Incoming) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::new(ErrorKind::TooLarge, "the body is larger than 64 MiB", "is this a configuration?");
    if http_body::Body::size_hint(&body).lower() > MOST_BODY as u64 {
        return Err(too_large());
    }
    match timeout(BODY, Limited::new(body, MOST_BODY).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            Err(ApiError::new(ErrorKind::BadRequest, format!("the body is broken: {error}"), "try again"))
        }
        Err(_) => Err(ApiError::new(ErrorKind::BadRequest, "the body did not come within 20 s", "try again")),
    }
}

fn open(daemon: &Daemon, capture: request::Capture) -> Result<Capturing, ApiError> {
    let request::Capture { matching, limit, snaplen, arrivals } = capture;
    let wanted = Wanted { limit, snaplen, arrivals, ..daemon.wanted(matching)? };
    daemon.taps().open(Tap::new(wanted)).ok_or_else(|| {
        ApiError::new(ErrorKind::Busy, "as many captures as there can be are open", "end one of them first")
    })
}

fn whole(reply: Reply) -> Response<Content> {
    response(reply.status, reply.media, Content::Whole(Full::new(reply.body.into())))
}

fn response(status: u16, media: &'static str, content: Content) -> Response<Content> {
    let trailers = matches!(content, Content::Growing(_));
    let mut response = Response::new(content);
    *response.status_mut() = StatusCode::from_u16(status).expect("every kind of error has a status of HTTP");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    if trailers {
        response.headers_mut().insert(TRAILER, HeaderValue::from_static(MISSED));
    }
    response
}
