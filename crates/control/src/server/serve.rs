//! Serves one connection: identifies the caller, reads the request and sends the answer, each within a time limit.

use super::ServerState;
use super::connection_slots::{ConnectionSlot, ConnectionSlots, ConnectionStage};
use super::head::{FirstBytes, Head, ScannedStream};
use super::memory::{Charge, RequestMemory, body_too_large};
use crate::access::{Caller, Peer, forbidden};
use crate::api::{self, AccessLevel, ApiError, ErrorKind};
use crate::capture::{CaptureFilter, CaptureReader, CaptureTap};
use crate::cpu_trace;
use crate::daemon::Daemon;
use crate::metrics;
use crate::remote::Authenticator;
use crate::request::{self, Request};
use crate::respond::{Reply, respond};
use crate::stream::{self, MISSED, StreamBody};
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
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// The time limit for the head of a request.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit for making an answer.
const WORK_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limits for reading a complete answer, for the owner and for all others.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const READER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for reading an answer that is sent as a whole at the end.
const FILE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time for which the rest of a refused body is read and discarded, so that the client reads the reason.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest head of a request: up to 64 KiB for its address, and the rest is short.
const MOST_HEAD: usize = 80 << 10;

/// The caller.
#[derive(Clone)]
pub(super) enum CallerKind {
    /// A process on this machine, identified by the kernel, and its rights.
    Process(Peer, AccessLevel),
    /// A process without rights. Each of its requests is refused with the reason.
    Stranger(Peer),
    /// A process with rights, but without a place. Each of its requests is refused as busy.
    OverLimit,
    /// A machine to be identified by its token.
    Remote { authenticator: Arc<Authenticator>, connection: Login, peer: SocketAddr },
    /// A scraper of metrics on this machine.
    Scraper,
}

impl CallerKind {
    fn caller(self, head: &Parts) -> Result<Caller, ApiError> {
        match self {
            CallerKind::Process(peer, allowed) => Ok(Caller::of_process(&peer, allowed)),
            CallerKind::Stranger(peer) => Err(forbidden(&Caller::of_process(&peer, AccessLevel::Read).author)),
            CallerKind::OverLimit => Err(ApiError::new(
                ErrorKind::Busy,
                "all connections for callers with your rights are in use",
                "try again in a moment",
            )),
            CallerKind::Remote { authenticator: door, connection, peer } => {
                let field = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
                door.caller(field, &connection, peer)
            }
            CallerKind::Scraper if head.uri.path() == "/metrics" => Ok(Caller::scraper()),
            CallerKind::Scraper => Err(ApiError::new(
                ErrorKind::Forbidden,
                "this address serves only /metrics",
                "use the control socket, or TLS (--listen), for all other requests",
            )),
        }
    }
}

/// The place of a connection, and the time limit of its current step.
pub(super) struct ActiveConnection {
    slot: Mutex<ConnectionSlot>,
    limit: watch::Sender<Option<Duration>>,
}

impl ActiveConnection {
    pub fn new(place: ConnectionSlot) -> Arc<ActiveConnection> {
        Arc::new(ActiveConnection { slot: Mutex::new(place), limit: watch::channel(Some(HEAD_TIMEOUT)).0 })
    }

    /// Records the progress of the connection.
    pub fn record_stage(&self, stage: ConnectionStage) {
        self.slot.lock().record_stage(stage);
    }

    /// Completes when another connection takes the place.
    pub fn wait_evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        self.slot.lock().wait_evicted()
    }

    /// Begins the next step of the connection, with this time limit.
    fn set_limit(&self, limit: impl Into<Option<Duration>>) {
        self.limit.send_replace(limit.into());
    }
}

/// Serves one connection: one request and its answer.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    guest: CallerKind,
    seat: Arc<ActiveConnection>,
    house: Arc<ServerState>,
) {
    let mut limits = seat.limit.subscribe();
    let head = Head::default();
    let asks = seat.clone();
    let stream = ScannedStream::new(stream, Some(head.clone()), move |first| {
        if first == FirstBytes::Received {
            asks.record_stage(ConnectionStage::RequestStarted);
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
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    loop {
        // Read again after each step, which may have changed the time limit and the place.
        let (evicted, limit) = (seat.wait_evicted(), *limits.borrow_and_update());
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
    Streamed {
        body: StreamBody,
        _charges: [Charge; 2],
    },
}

impl http_body::Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole { body, .. } => Pin::new(body).poll_frame(context),
            Content::Streamed { body, .. } => Pin::new(body).poll_frame(context),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Content::Whole { body, .. } => body.size_hint(),
            Content::Streamed { .. } => http_body::SizeHint::default(),
        }
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    guest: CallerKind,
    house: Arc<ServerState>,
    head: Head,
    seat: Arc<ActiveConnection>,
) -> Result<Response<Content>, Infallible> {
    let (parts, body) = request.into_parts();
    let is_metrics = parts.uri.path() == "/metrics";
    let reader = Mutex::new(AccessLevel::Read);
    let answered = async {
        if head.is_ambiguous() {
            let reason = "the request has more than one length of its body";
            let hint = "send one Content-Length, or Transfer-Encoding: chunked without any";
            return Err((ApiError::new(ErrorKind::BadRequest, reason, hint), body));
        }
        let caller = match admit(&parts, guest, &house, &seat) {
            Ok(caller) => caller,
            Err(error) => return Err((error, body)),
        };
        *reader.lock() = caller.allowed;
        let (lower, upper) = (body.size_hint().lower(), body.size_hint().upper());
        seat.set_limit(BODY_TIMEOUT + WORK_TIMEOUT);
        let room = house.memory.body(caller.allowed, lower, upper).await;
        let (charge, most) = match room {
            Ok(room) => room,
            Err(error) => return Err((error, body)),
        };
        seat.set_limit(BODY_TIMEOUT);
        let body = collect(body, most, caller.allowed).await?;
        seat.record_stage(ConnectionStage::RequestComplete);
        seat.set_limit(WORK_TIMEOUT);
        Ok(answer_request(&parts, caller, body, charge, &house, &seat).await)
    };
    let result = match answered.await {
        Ok(result) => result,
        // A client reads no answer while it sends its body: read the rest first.
        Err((error, rest)) => {
            seat.set_limit(DISCARD_TIMEOUT + READER_READ_TIMEOUT);
            let _ = timeout(DISCARD_TIMEOUT, discard(rest)).await;
            Err(error)
        }
    };
    let mut response = result.unwrap_or_else(|error| full_response(Reply::refusal(&error), Charge::default()));
    if is_metrics {
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    }
    if matches!(response.body(), Content::Whole { .. }) {
        let owner = *reader.lock() == AccessLevel::Full;
        seat.set_limit(if owner { READ_TIMEOUT } else { READER_READ_TIMEOUT });
    }
    Ok(response)
}

/// Returns the caller if it may make this request. A remote caller moves from the unknown connections to those of its kind.
fn admit(head: &Parts, guest: CallerKind, house: &ServerState, seat: &ActiveConnection) -> Result<Caller, ApiError> {
    let needs = request::needs(head.method.as_str(), head.uri.path());
    let remote: Option<(&Arc<ConnectionSlots>, &Arc<ConnectionSlots>, SocketAddr)> = match &guest {
        CallerKind::Remote { peer, .. } => Some((&house.remote_owners, &house.remote_readers, *peer)),
        _ => None,
    };
    let caller = guest.caller(head)?;
    caller.require(needs)?;
    if let Some((owners, readers, peer)) = remote {
        let places = if caller.allowed == AccessLevel::Full { owners } else { readers };
        let place = places.enter(super::origin(peer), ConnectionStage::RequestStarted);
        *seat.slot.lock() = place.ok_or_else(|| {
            ApiError::new(
                ErrorKind::Busy,
                "all connections for callers with your rights are in use",
                "try again in a moment",
            )
        })?;
        // The loop in `serve` has to watch the eviction from the new place.
        seat.set_limit(BODY_TIMEOUT);
    }
    Ok(caller)
}

/// Waits for its turn and answers.
async fn answer_request(
    head: &Parts,
    caller: Caller,
    body: Vec<u8>,
    charge: Charge,
    house: &ServerState,
    seat: &Arc<ActiveConnection>,
) -> Result<Response<Content>, ApiError> {
    let query = head.uri.query().unwrap_or("");
    let request = request::parse(head.method.as_str(), head.uri.path(), query, body)?;
    let daemon = house.daemon.clone();
    match request {
        Request::Capture(capture) => {
            let packets = run_blocking(move || (open(&daemon, capture), daemon)).await?;
            let (body, work) = stream::capture_body(packets.1, packets.0?);
            seat.set_limit(None);
            tokio::spawn(work);
            Ok(stream_response("application/x-pcapng", body, Default::default()))
        }
        Request::Trace(trace) => {
            let packets = run_blocking(move || (daemon.start_trace(trace), daemon)).await?;
            let (body, work) = stream::trace_body(packets.1, packets.0?);
            seat.set_limit(None);
            tokio::spawn(work);
            Ok(stream_response(api::LINES, body, Default::default()))
        }
        Request::SliceSlowPath(slice) => {
            let ready = Arc::new(Notify::new());
            let wakeup = ready.clone();
            let open = move || {
                let opened = daemon.open_slow_path(caller.rights(), &slice, move || wakeup.notify_one());
                opened.map_err(|failure| ApiError::from(&failure))
            };
            let (body, work) = stream::slow_path_body(run_blocking(open).await??, ready);
            seat.set_limit(None);
            tokio::spawn(work);
            Ok(stream_response(api::LINES, body, Default::default()))
        }
        Request::Schedule(asked) => {
            let workers = daemon.worker_count();
            let events = RequestMemory::events(caller.allowed, asked.events, workers);
            let allowed = caller.allowed;
            let charges = house.memory.schedule(allowed, events, workers).await?;
            let looking = run_blocking(move || cpu_trace::start_recording(&daemon, allowed, events)).await??;
            seat.set_limit(Duration::from(asked.time) + FILE_TIMEOUT);
            let (body, work) = stream::cpu_trace_body(looking, asked.time);
            tokio::spawn(work);
            Ok(stream_response("application/json", body, charges))
        }
        request => {
            let format = match request {
                Request::Metrics => metrics::Format::accepted(head.headers.get_all(ACCEPT).iter())?,
                _ => metrics::Format::default(),
            };
            let turn = house.memory.answer_permit(caller.allowed, &request, &daemon).await?;
            let allowed = caller.allowed;
            let is_check = allowed < AccessLevel::Full && matches!(request, Request::Check(_) | Request::Diff(_));
            let answer = move || {
                let reply = respond(&daemon, &caller, request, format);
                // The body was moved into the text of the request, which has been dropped.
                drop(charge);
                reply
            };
            let reply = if is_check { house.checks.run(answer).await } else { run_blocking(answer).await }?;
            let charge = turn.complete(allowed, reply.body.len())?;
            Ok(full_response(reply, charge))
        }
    }
}

/// Runs blocking work on a thread of its own.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

pub(super) fn failed() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "answering failed", "look at the log of the router")
}

/// Reads a body of up to `most` bytes.
async fn collect(mut body: Incoming, most: usize, caller: AccessLevel) -> Result<Vec<u8>, (ApiError, Incoming)> {
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
    match timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(error)) => Err((error, body)),
        Err(_) => Err((bad("the body did not arrive within 20 s".into()), body)),
    }
}

/// Reads a body to its end and discards it.
async fn discard(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn open(daemon: &Daemon, capture: request::CaptureRequest) -> Result<CaptureReader, ApiError> {
    let request::CaptureRequest { matching, limit, snaplen, arrivals } = capture;
    let wanted = CaptureFilter { limit, snaplen, arrivals, ..daemon.capture_filter(matching)? };
    daemon.taps().open(CaptureTap::new(wanted)).ok_or_else(|| {
        ApiError::new(ErrorKind::Busy, "the maximum number of captures is open", "end one of them first")
    })
}

fn full_response(reply: Reply, charge: Charge) -> Response<Content> {
    let Reply { status, media, body } = reply;
    response(status, media, Content::Whole { body: Full::new(body.into()), _charge: charge })
}

fn stream_response(media: &'static str, body: StreamBody, charges: [Charge; 2]) -> Response<Content> {
    let mut response = response(200, media, Content::Streamed { body, _charges: charges });
    response.headers_mut().insert(TRAILER, HeaderValue::from_static(MISSED));
    response
}

fn response(status: u16, media: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = StatusCode::from_u16(status).expect("every kind of error has a status of HTTP");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
