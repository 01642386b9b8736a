//! A blocking client of the API.

mod remote;
mod slices;

use crate::api::{ApiError, Injected};
use crate::stream::MISSED;
use ::io::clock;
use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, TE};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::de::DeserializeOwned;
pub use slices::{ExceptionStream, SliceClient, SlowPathPacket};
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The longest wait for an answer, longer than any time limit of the router.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before the next attempt if the router has no free connection.
const PAUSE: Duration = Duration::from_millis(20);
/// The largest answer that is read whole, in bytes.
const MOST_ANSWER_BYTES: usize = 1 << 30;

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// No router answers there.
    Unreachable(Target, io::Error),
    /// A router is there, but all its connections are taken.
    Occupied(Target),
    /// The request cannot be made because of a file, an address or a certificate.
    Unsuitable(String),
    /// The router refused.
    Refused(ApiError),
    /// The connection broke, or the answer is invalid.
    Broken(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Unreachable(target, error) => {
                write!(f, "cannot connect to a router at {target}: {error}")?;
                match (target, error.kind()) {
                    (Target::Remote(_), _) => f.write_str("; start it with --listen"),
                    (_, ErrorKind::PermissionDenied) => {
                        f.write_str(
                            "; only root, the router's user and its --socket-group may connect, and owners of slices if it runs with \
                             --socket-mode 0666",
                        )
                    }
                    _ => f.write_str("; start one with `switchpath run`, or give its socket with --socket"),
                }
            }
            ClientError::Occupied(target) => write!(
                f,
                "the router at {target} closed the connection before it answered, perhaps because all its connections are in \
                 use; check `switchpath history` for the change, and try again"
            ),
            ClientError::Unsuitable(reason) => f.write_str(reason),
            ClientError::Refused(error) => error.fmt(f),
            ClientError::Broken(reason) => write!(f, "the answer ended early: {reason}"),
        }
    }
}

impl std::error::Error for ClientError {}

fn broken(error: impl fmt::Display) -> ClientError {
    ClientError::Broken(error.to_string())
}

/// A router on another machine, and the credentials for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteRouter {
    /// `https://HOST:PORT`
    pub url: String,
    /// The file with the token.
    pub token: PathBuf,
    /// The trusted certificates, PEM; by default those of the system.
    pub authorities: Option<PathBuf>,
}

/// The router to ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The router behind this socket.
    Socket(PathBuf),
    /// A router on another machine.
    Remote(RemoteRouter),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Socket(path) => path.display().fmt(f),
            Target::Remote(remote) => f.write_str(&remote.url),
        }
    }
}

/// A client of one router, with a new connection for each request.
#[derive(Clone, Debug)]
pub struct Client {
    target: Target,
}

/// A connection, the router's name in requests, and the credentials.
struct Connected {
    stream: Box<dyn Stream>,
    host: String,
    authorization: Option<HeaderValue>,
}

/// A connection to a socket. If the backlog is full, the kernel queues this client behind the others until its timeout.
fn socket(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_TIMEOUT))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An answer before its body is read.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Body,
}

impl Client {
    /// Creates a client of the router with this socket.
    pub fn new(socket: &Path) -> Client {
        Client { target: Target::Socket(socket.to_owned()) }
    }

    /// Creates a client of a router on another machine.
    pub fn remote(remote: RemoteRouter) -> Client {
        Client { target: Target::Remote(remote) }
    }

    /// Returns the router that it asks.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Connects, and retries for a while if the router closes the connection without an answer. The router does so with one of many connections when
    /// another one arrives.
    async fn connect(&self) -> Result<Connected, ClientError> {
        let end = clock::now() + CONNECT_TIMEOUT.into();
        loop {
            match self.try_connect().await {
                Err(ClientError::Occupied(_)) if clock::now() < end => pause().await,
                result => return result,
            }
        }
    }

    /// Connects once.
    async fn try_connect(&self) -> Result<Connected, ClientError> {
        let unreachable = |error: io::Error| match error.kind() {
            // The accept backlog is full, or the connection was evicted for another one.
            ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                ClientError::Occupied(self.target.clone())
            }
            _ => ClientError::Unreachable(self.target.clone(), error),
        };
        match &self.target {
            Target::Socket(path) => {
                let stream = socket(path).map_err(unreachable)?;
                Ok(Connected { stream: Box::new(stream), host: "switchpath".into(), authorization: None })
            }
            Target::Remote(remote) => {
                let remote = remote::tls_parameters(remote)?;
                let address = (remote.host.as_str(), remote.port);
                let stream =
                    timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.map_err(|_| timeout_error())?;
                let stream = TlsConnector::from(remote.tls).connect(remote.name, stream.map_err(unreachable)?);
                let stream =
                    timeout(CONNECT_TIMEOUT, stream).await.map_err(|_| timeout_error())?.map_err(unreachable)?;
                let (host, authorization) = (remote.host, Some(remote.authorization));
                Ok(Connected { stream: Box::new(stream), host, authorization })
            }
        }
    }

    /// Sends a request; `target` is the path and query. Returns when the head of the answer has arrived.
    pub fn send(&self, method: &str, target: &str, body: &[u8]) -> Result<Answer, ClientError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(broken)?;
        let body = Bytes::copy_from_slice(body);
        let response = runtime.block_on(async {
            let end = clock::now() + CONNECT_TIMEOUT.into();
            loop {
                match self.try_send(method, target, body.clone()).await {
                    // Evicted for another connection before the whole request was read. A read-only request can be repeated in any case.
                    Err(ClientError::Occupied(_)) if is_idempotent(method, target) && clock::now() < end => {
                        pause().await;
                    }
                    result => return result,
                }
            }
        })?;
        let status = response.status().as_u16();
        Ok(Answer {
            status,
            body: Body {
                runtime,
                incoming: response.into_body(),
                rest: Bytes::new(),
                missed: None,
                end: Arc::default(),
            },
        })
    }

    async fn try_send(&self, method: &str, target: &str, body: Bytes) -> Result<Response<Incoming>, ClientError> {
        let Connected { stream, host, authorization } = self.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        let mut request =
            hyper::Request::builder().method(method).uri(target).header(HOST, host).header(TE, "trailers");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body)).map_err(broken)?;
        let answer = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await.map_err(|_| timeout_error())?;
        answer.map_err(|error| match error {
            error if is_hung_up(&error) => ClientError::Occupied(self.target.clone()),
            error => broken(error),
        })
    }

    /// Sends a request and reads the whole answer; a refusal is an error.
    pub fn fetch(&self, method: &str, target: &str, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        let answer = self.send(method, target, body)?;
        let refused = answer.status >= 400;
        let bytes = answer.body.whole()?;
        if refused { Err(ClientError::Refused(serde_json::from_slice(&bytes).map_err(broken)?)) } else { Ok(bytes) }
    }

    /// Gets an address and parses the answer.
    pub fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, ClientError> {
        serde_json::from_slice(&self.fetch("GET", target, b"")?).map_err(broken)
    }

    /// Posts a configuration to an address and parses the answer.
    pub fn post<T: DeserializeOwned>(&self, path: &str, name: &str, text: &str) -> Result<T, ClientError> {
        self.post_with(path, &[("name", name.to_owned())], text)
    }

    /// Posts a text with these parameters to an address and parses the answer.
    pub fn post_with<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &[(&str, String)],
        text: &str,
    ) -> Result<T, ClientError> {
        serde_json::from_slice(&self.fetch("POST", &with_parameters(path, parameters), text.as_bytes())?)
            .map_err(broken)
    }

    /// Injects frames into the router and returns how many it accepted.
    pub fn inject(&self, port: &str, ours: bool, frames: &str) -> Result<Injected, ClientError> {
        self.post_with("/v1/inject", &[("port", port.to_owned()), ("ours", ours.to_string())], frames)
    }

    /// Gets an address with these parameters and parses the answer.
    pub fn get_with<T: DeserializeOwned>(&self, path: &str, parameters: &[(&str, String)]) -> Result<T, ClientError> {
        self.get(&with_parameters(path, parameters))
    }

    /// Opens a stream that grows until its reader hangs up: `/v1/capture` with a pcapng file, or `/v1/trace` with a line of JSON for each packet.
    pub fn open_stream(&self, path: &str, parameters: &[(&str, String)]) -> Result<Body, ClientError> {
        let answer = self.send("GET", &with_parameters(path, parameters), b"")?;
        if answer.status < 400 {
            return Ok(answer.body);
        }
        Err(ClientError::Refused(serde_json::from_slice(&answer.body.whole()?).map_err(broken)?))
    }
}

/// Waits a moment for other connections to end.
async fn pause() {
    let _ = timeout(PAUSE, std::future::pending::<()>()).await;
}

/// Returns whether the router closed the connection before it answered.
fn is_hung_up(error: &hyper::Error) -> bool {
    let closed = |error: &io::Error| {
        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
    };
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    error.is_incomplete_message() || error.is_closed() || error.is_canceled() || source.is_some_and(closed)
}

/// Returns whether a request can be sent twice.
fn is_idempotent(method: &str, target: &str) -> bool {
    let path = target.split('?').next().unwrap_or(target);
    method == "GET" || matches!(path, "/v1/check" | "/v1/diff")
}

/// Returns an address with its parameters.
fn with_parameters(path: &str, parameters: &[(&str, String)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("{path}?{}", query.finish())
}

fn timeout_error() -> ClientError {
    ClientError::Broken(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
}

/// The body of an answer, read as it arrives.
#[derive(Debug)]
pub struct Body {
    runtime: Runtime,
    incoming: Incoming,
    rest: Bytes,
    missed: Option<u64>,
    end: Arc<Notify>,
}

impl Body {
    /// Returns a function that ends the body from any thread, also while its reader waits for more.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let end = self.end.clone();
        move || end.notify_one()
    }

    /// Reads the whole body.
    fn whole(mut self) -> Result<Vec<u8>, ClientError> {
        let limited = http_body_util::Limited::new(&mut self.incoming, MOST_ANSWER_BYTES).collect();
        let collected =
            self.runtime.block_on(async { timeout(ANSWER_TIMEOUT, limited).await }).map_err(|_| timeout_error())?;
        Ok(collected.map_err(broken)?.to_bytes().into())
    }

    /// Returns the packets that a capture missed; known when the whole body has been read.
    pub fn missed(&self) -> Option<u64> {
        self.missed
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let frame = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = self.end.notified() => None,
                    frame = self.incoming.frame() => frame,
                }
            });
            let Some(frame) = frame else {
                // Notify again, so that further reads also return the end.
                self.end.notify_one();
                return Ok(0);
            };
            let frame = frame.map_err(|error| io::Error::new(ErrorKind::UnexpectedEof, error))?;
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => {
                    let trailers = other.into_trailers().ok();
                    self.missed = trailers.and_then(|trailers| trailers.get(MISSED)?.to_str().ok()?.parse().ok());
                }
            }
        }
        let taken = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}
