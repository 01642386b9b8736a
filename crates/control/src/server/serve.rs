//! Serves one connection: identifies the caller, reads the request and sends the answer, each within a time limit.

use super::House;
use super::head::{First, Head, Watched};
use super::memory::{Charge, Memory, body_too_large};
use super::places::{Place, Places, Stage};
use crate::access::{Caller, Peer, forbidden};
use crate::api::{self, ApiError, ErrorKind, Needs};
use crate::capture::{Capturing, Tap, Wanted};
use crate::daemon::Daemon;
use crate::metrics;
use crate::remote::Door;
use crate::request::{self, Request};
use crate::respond::{Reply, respond};
use crate::schedule;
use crate::stream::{self, Growing, MISSED};
use ::io::login::Login;
use bytes::{Buf, Bytes};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, TRAILER, VARY};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

/// The time limit for the head of a request.
pub(super) const HEAD: Duration = Duration::from_secs(5);
/// The time limit for a body.
const BODY: Duration = Duration::from_secs(20);
/// The time limit for making an answer.
const WORK: Duration = Duration::from_secs(60);
/// The time limits for reading a complete answer, for the owner and for all others.
const READ: Duration = Duration::from_secs(60);
const READER_READ: Duration = Duration::from_secs(10);
/// The time limit for reading an answer that is sent as a whole at the end.
const FILE: Duration = Duration::from_secs(60);
/// The time for which the rest of a refused body is read and discarded, so that the client reads the reason.
const REST: Duration = Duration::from_secs(2);
/// The largest head of a request: up to 64 KiB for its address, and the rest is short.
const MOST_HEAD: usize = 80 << 10;

/// The caller.
#[derive(Clone)]
pub(super) enum Guest {
    /// A process on this machine, identified by the kernel, and its rights.
    Process(Peer, Needs),
    /// A process without rights. Each of its requests is refused with the reason.
    Stranger(Peer),
    /// A process with rights, but without a place. Each of its requests is refused as busy.
    Surplus,
    /// A machine to be identified by its token.
    Remote { door: Arc<Door>, connection: Login, peer: SocketAddr },
    /// A scraper of metrics on this machine.
    Scraper,
}

impl Guest {
    fn caller(self, head: &Parts) -> Result<Caller, ApiError> {
        match self {
            Guest::Process(peer, allowed) => Ok(Caller::of_process(&peer, allowed)),
            Guest::Stranger(peer) => Err(forbidden(&Caller::of_process(&peer, Needs::Read).who)),
            Guest::Surplus => Err(ApiError::new(
                ErrorKind::Busy,
                "all connections for callers like you are taken",
                "try again in a moment",
            )),
            Guest::Remote { door, connection, peer } => {
                let field = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
                door.caller(field, &connection, peer)
            }
            Guest::Scraper if head.uri.path() == "/metrics" => Ok(Caller::scraper()),
            Guest::Scraper => Err(ApiError::new(
                ErrorKind::Forbidden,
                "only /metrics is answered here",
                "ask for the rest at the control socket, or over TLS (--listen)",
            )),
        }
    }
}

/// The place of a connection, and the time limit of its current step.
pub(super) struct Seat {
    place: Mutex<Place>,
    limit: watch::Sender<Option<Duration>>,
}

impl Seat {
    pub fn new(place: Place) -> Arc<Seat> {
        Arc::new(Seat { place: Mutex::new(place), limit: watch::channel(Some(HEAD)).0 })
    }

    /// Records the progress of the connection.
    pub fn reached(&self, stage: Stage) {
        self.place.lock().reached(stage);
    }

    /// Completes when another connection takes the place.
    pub fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        self.place.lock().evicted()
    }

    /// Begins the next step of the connection, with this time limit.
    fn within(&self, limit: impl Into<Option<Duration>>) {
        self.limit.send_replace(limit.into());
    }
}

/// Serves one connection: one request and its answer.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    guest: Guest,
    seat: Arc<Seat>,
    house: Arc<House>,
) {
    let mut limits = seat.limit.subscribe();
    let head = Head::default();
    let asks = seat.clone();
    let stream = Watched::new(stream, Some(head.clone()), move |first| {
        if first == First::Received {
            asks.reached(Stage::Asking);
        }
    });
    let answering = seat.clone();
    let service = service_fn(move |request| {
        let seat = answering.clone();
        answer(request, guest.clone(), house.clone(), head.clone(), seat)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MOST_HEAD)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    loop {
        // Read again after each step, which may have changed the time limit and the place.
        let (evicted, limit) = (seat.evicted(), *limits.borrow_and_update());
        let step = async {
            tokio::select! {
                // Errors are the client's: it hung up, or did not speak HTTP.
                _ = connection.as_mut() => false,
                () = evicted => false,
                Ok(()) = limits.changed() => true,
            }
        };
        let goes_on = match limit {
            Some(limit) => timeout(limit, step).await.unwrap_or(false),
            None => step.await,
        };
        if !goes_on {
            return;
        }
    }
}

/// The body of an answer.
pub(super) enum Content {
    Whole {
        body: Full<Bytes>,
        /// Released when the answer is sent.
        _charge: Charge,
    },
    Growing {
        body: Growing,
        _charges: [Charge; 2],
    },
}

impl http_body::Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole { body, .. } => Pin::new(body).poll_frame(context),
            Content::Growing { body, .. } => Pin::new(body).poll_frame(context),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Content::Whole { body, .. } => body.size_hint(),
            Content::Growing { .. } => http_body::SizeHint::default(),
        }
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    guest: Guest,
    house: Arc<House>,
    head: Head,
    seat: Arc<Seat>,
) -> Result<Response<Content>, Infallible> {
    let (parts, body) = request.into_parts();
    let is_metrics = parts.uri.path() == "/metrics";
    let reader = Mutex::new(Needs::Read);
    let answered = async {
        if head.is_ambiguous() {
            let reason = "the head of the request gives more than one length for its body";
            let hint = "send one Content-Length, or Transfer-Encoding: chunked without any";
            return Err((ApiError::new(ErrorKind::BadRequest, reason, hint), body));
        }
        let caller = match admit(&parts, guest, &house, &seat) {
            Ok(caller) => caller,
            Err(error) => return Err((error, body)),
        };
        *reader.lock() = caller.allowed;
        let (lower, upper) = (body.size_hint().lower(), body.size_hint().upper());
        seat.within(BODY + WORK);
        let room = house.memory.body(caller.allowed, lower, upper).await;
        let (charge, most) = match room {
            Ok(room) => room,
            Err(error) => return Err((error, body)),
        };
        seat.within(BODY);
        let body = collect(body, most, caller.allowed).await?;
        seat.reached(Stage::Answered);
        seat.within(WORK);
        Ok(work(&parts, caller, body, charge, &house, &seat).await)
    };
    let result = match answered.await {
        Ok(result) => result,
        // A client reads no answer while it sends its body: read the rest first.
        Err((error, rest)) => {
            seat.within(REST + READER_READ);
            let _ = timeout(REST, discard(rest)).await;
            Err(error)
        }
    };
    let mut response = result.unwrap_or_else(|error| whole(Reply::refusal(&error), Charge::default()));
    if is_metrics {
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    }
    if matches!(response.body(), Content::Whole { .. }) {
        let owner = *reader.lock() == Needs::Full;
        seat.within(if owner { READ } else { READER_READ });
    }
    Ok(response)
}

/// Returns the caller if it may make this request. A remote caller moves from the unknown connections to those of its kind.
fn admit(head: &Parts, guest: Guest, house: &House, seat: &Seat) -> Result<Caller, ApiError> {
    let needs = request::needs(head.method.as_str(), head.uri.path());
    let moves: Option<(&Arc<Places>, &Arc<Places>, SocketAddr)> = match &guest {
        Guest::Remote { peer, .. } => Some((&house.remote_owners, &house.remote_readers, *peer)),
        _ => None,
    };
    let caller = guest.caller(head)?;
    caller.may(needs)?;
    if let Some((owners, readers, peer)) = moves {
        let places = if caller.allowed == Needs::Full { owners } else { readers };
        let place = places.enter(super::origin(peer), Stage::Asking);
        *seat.place.lock() = place.ok_or_else(|| {
            ApiError::new(ErrorKind::Busy, "all connections for callers like you are taken", "try again in a moment")
        })?;
        // The loop in `serve` has to watch the eviction from the new place.
        seat.within(BODY);
    }
    Ok(caller)
}

/// Waits for its turn and answers.
async fn work(
    head: &Parts,
    caller: Caller,
    body: Vec<u8>,
    charge: Charge,
    house: &House,
    seat: &Arc<Seat>,
) -> Result<Response<Content>, ApiError> {
    let query = head.uri.query().unwrap_or("");
    let request = request::parse(head.method.as_str(), head.uri.path(), query, body)?;
    let daemon = house.daemon.clone();
    match request {
        Request::Capture(capture) => {
            let packets = apart(move || (open(&daemon, capture), daemon)).await?;
            let (body, work) = stream::growing(packets.1, packets.0?);
            seat.within(None);
            tokio::spawn(work);
            Ok(growing("application/x-pcapng", body, Default::default()))
        }
        Request::Trace(trace) => {
            let packets = apart(move || (daemon.follow(trace), daemon)).await?;
            let (body, work) = stream::lines(packets.1, packets.0?);
            seat.within(None);
            tokio::spawn(work);
            Ok(growing(api::LINES, body, Default::default()))
        }
        Request::Schedule(asked) => {
            let workers = daemon.worker_count();
            let events = Memory::events(caller.allowed, asked.events, workers);
            let allowed = caller.allowed;
            let charges = house.memory.schedule(allowed, events, workers).await?;
            let looking = apart(move || schedule::look(&daemon, allowed, events)).await??;
            seat.within(Duration::from(asked.time) + FILE);
            let (body, work) = stream::file(looking, asked.time);
            tokio::spawn(work);
            Ok(growing("application/json", body, charges))
        }
        request => {
            let format = match request {
                Request::Metrics => metrics::Format::accepted(head.headers.get_all(ACCEPT).iter())?,
                _ => metrics::Format::default(),
            };
            let turn = house.memory.turn(caller.allowed, &request, &daemon).await?;
            let allowed = caller.allowed;
            let is_check = allowed == Needs::Read && matches!(request, Request::Check(_) | Request::Diff(_));
            let answer = move || {
                let reply = respond(&daemon, &caller, request, format);
                // The body was moved into the text of the request, which has been dropped.
                drop(charge);
                reply
            };
            let reply = if is_check { house.checks.run(answer).await } else { apart(answer).await }?;
            let charge = turn.made(allowed, reply.body.len())?;
            Ok(whole(reply, charge))
        }
    }
}

/// Runs blocking work on a thread of its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

pub(super) fn failed() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "answering failed", "look at the log of the router")
}

/// Reads a body of up to `most` bytes.
async fn collect(mut body: Incoming, most: usize, caller: Needs) -> Result<Vec<u8>, (ApiError, Incoming)> {
    let bad = |reason: String| ApiError::new(ErrorKind::BadRequest, reason, "try again");
    // The length is usually known. Reserved memory costs nothing before it is written.
    let mut bytes = Vec::with_capacity((body.size_hint().lower() as usize).min(most));
    let read = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| bad(format!("the body is broken: {error}")))?;
            let Ok(mut data) = frame.into_data() else { continue };
            if bytes.len() + data.remaining() > most {
                return Err(body_too_large(caller));
            }
            bytes.extend_from_slice(&data);
            data.advance(data.remaining());
        }
        Ok(())
    };
    match timeout(BODY, read).await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(error)) => Err((error, body)),
        Err(_) => Err((bad("the body did not come within 20 s".into()), body)),
    }
}

/// Reads a body to its end and discards it.
async fn discard(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn open(daemon: &Daemon, capture: request::Capture) -> Result<Capturing, ApiError> {
    let request::Capture { matching, limit, snaplen, arrivals } = capture;
    let wanted = Wanted { limit, snaplen, arrivals, ..daemon.wanted(matching)? };
    daemon.taps().open(Tap::new(wanted)).ok_or_else(|| {
        ApiError::new(ErrorKind::Busy, "as many captures as there can be are open", "end one of them first")
    })
}

fn whole(reply: Reply, charge: Charge) -> Response<Content> {
    let Reply { status, media, body } = reply;
    response(status, media, Content::Whole { body: Full::new(body.into()), _charge: charge })
}

fn growing(media: &'static str, body: Growing, charges: [Charge; 2]) -> Response<Content> {
    let mut response = response(200, media, Content::Growing { body, _charges: charges });
    response.headers_mut().insert(TRAILER, HeaderValue::from_static(MISSED));
    response
}

fn response(status: u16, media: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = StatusCode::from_u16(status).expect("every kind of error has a status of HTTP");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
