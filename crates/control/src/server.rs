//! The API's server: HTTP/1.1 on a Unix socket, in a thread of its own.
//!
//! A client that hangs harms nobody: a connection has one request and a limited time for it, connections are limited in
//! number, bodies in size, and captures have their own bounded queue.

use crate::access::{Caller, Groups, Peer, forbidden};
use crate::api::{ApiError, ErrorKind, Needs};
use crate::daemon::Daemon;
use crate::request::{self, Request};
use crate::respond::{Reply, respond};
use crate::socket::Bound;
use crate::stream::{self, Growing, MISSED};
use crate::watch::{Subscription, Wanted};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, TRAILER};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

/// Connections at once; further ones are refused.
const CONNECTIONS: usize = 64;
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

impl Server {
    /// Answers requests about `daemon` on `socket`.
    pub fn start(daemon: Arc<Daemon>, socket: Bound) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let thread =
            thread::Builder::new().name("control".into()).spawn(move || run(&runtime, daemon, socket, &stopped))?;
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

fn run(runtime: &Runtime, daemon: Arc<Daemon>, socket: Bound, stop: &Notify) {
    let result = runtime.block_on(async {
        let listener = socket.listener()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let groups = socket.groups();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        tokio::select! {
            () = accept(listener, groups, &daemon, &places) => {}
            () = stop.notified() => {}
        }
        drop(socket);
        // Whoever is being answered gets the answer, a reader of a capture its end.
        let _ = timeout(ENDING, places.acquire_many(CONNECTIONS as u32)).await;
        io::Result::Ok(())
    });
    if let Err(error) = result {
        tracing::error!("the control socket has failed: {error}");
    }
}

async fn accept(listener: UnixListener, groups: Groups, daemon: &Arc<Daemon>, places: &Arc<Semaphore>) {
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: it gets better when somebody hangs up.
                tracing::warn!("a client cannot be accepted: {error}");
                let _ = timeout(Duration::from_millis(100), std::future::pending::<()>()).await;
                continue;
            }
        };
        let busy = || ApiError::new(ErrorKind::Busy, "too many connections", "try again in a moment");
        let place = places.clone().try_acquire_owned().map_err(|_| busy());
        let (place, caller) = match place.and_then(|place| Ok((place, identify(&stream, &groups)?))) {
            Ok(admitted) => admitted,
            Err(error) => {
                // Of too many of those nobody hears anything.
                if let Ok(place) = refusals.clone().try_acquire_owned() {
                    let daemon = daemon.clone();
                    tokio::spawn(async move {
                        let _ = timeout(REFUSAL, serve(stream, Err(error), daemon)).await;
                        drop(place);
                    });
                }
                continue;
            }
        };
        let daemon = daemon.clone();
        tokio::spawn(async move {
            serve(stream, Ok(caller), daemon).await;
            drop(place);
        });
    }
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

/// Whoever asks, or why they are not let in: they hear it as the answer to whatever they ask.
type Guest = Result<Caller, ApiError>;

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
    let caller = match guest.and_then(|caller| caller.may(needs).map(|()| caller)) {
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

fn open(daemon: &Daemon, capture: request::Capture) -> Result<Subscription, ApiError> {
    let wanted = Wanted { limit: capture.limit, snaplen: capture.snaplen, ..daemon.wanted(capture.matching)? };
    daemon.taps().open(wanted).ok_or_else(|| {
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
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(media));
    if trailers {
        response.headers_mut().insert(TRAILER, hyper::header::HeaderValue::from_static(MISSED));
    }
    response
}
