//! Remote access to the API: only with TLS 1.3 and a token.
//!
//! The connections of an unknown client and their duration are limited before any token is known, and so are log lines about wrong tokens
//! ([`tokens`]). The router checks the token before it reads the body.

mod certificate;
mod tokens;

pub use certificate::{Certificate, self_signed};
pub(crate) use tokens::{Failures, Tokens, bearer, token_of};
pub use tokens::{exercise, new_token};

use crate::access::Caller;
use crate::api::{ApiError, Author, ErrorKind, Via};
use io::clock;
use io::login::Login;
use parking_lot::Mutex;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::{ServerConfig, crypto::ring, version::TLS13};

/// The address of the remote API, and its credentials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The file with the token for full access.
    pub token: PathBuf,
    /// The file with the token for read access.
    pub read_token: Option<PathBuf>,
}

/// Why there is no remote API: the error of a file or address.
#[derive(Debug)]
pub struct RemoteError(pub(crate) String);

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RemoteError {}

/// A listening remote API that is not served yet.
pub struct Remote {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) authenticator: Arc<Authenticator>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({:?})", self.listener)
    }
}

impl Remote {
    /// Reads the files and listens. Refuses files with secrets that others can read.
    pub fn open(options: &RemoteOptions) -> Result<Remote, RemoteError> {
        let tls = server_config(&options.certificate, &options.key)?;
        let tokens = Tokens::read(&options.token, options.read_token.as_deref())?;
        let cannot = |error| RemoteError(format!("cannot listen on {}: {error}", options.listen));
        let listener = listen(options.listen).map_err(cannot)?;
        let door = Arc::new(Authenticator { tokens, failures: Mutex::default() });
        Ok(Remote { listener, tls: Arc::new(tls), authenticator: door })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Identifies callers by the token of a request.
#[derive(Debug)]
pub(crate) struct Authenticator {
    tokens: Tokens,
    failures: Mutex<Failures>,
}

impl Authenticator {
    /// Returns the caller of a connection, by the `Authorization` field of its request.
    pub fn caller(
        &self,
        authorization: Option<&[u8]>,
        connection: &Login,
        peer: SocketAddr,
    ) -> Result<Caller, ApiError> {
        let allowed = authorization.and_then(bearer).and_then(|token| self.tokens.allowed(token));
        // The token is checked before the count of wrong ones. Otherwise any host behind the owner's address could lock the owner out. A token is as
        // long as a key (`Tokens::read`), so unlimited guesses find none.
        let Some(allowed) = allowed else {
            let (now, mut failures) = (clock::now(), self.failures.lock());
            if !failures.may_try(peer.ip(), now) {
                let reason = "too many wrong tokens from this address";
                return Err(ApiError::new(ErrorKind::TooMany, reason, "give the right one, or try again in a minute"));
            }
            failures.failed(peer.ip(), now);
            drop(failures);
            tracing::warn!("a remote request from {peer} had no token, or a wrong one");
            let hint = "send `Authorization: Bearer TOKEN`, with the token of the router's --token-file";
            return Err(ApiError::new(ErrorKind::Unauthorized, "the token is missing or wrong", hint));
        };
        let who = Author { peer: Some(peer.ip().to_canonical().to_string()), ..Author::by(Via::Remote) };
        Ok(Caller { author: who, allowed, login: Some(*connection) })
    }
}

/// The accept backlog. A client that finds it full retries after a second (RFC 6298).
const BACKLOG: i32 = 4096;

/// Returns a non-blocking listener.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // Listens again, with a larger backlog than the standard library's.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Reads a file with a secret. Only its owner may be able to read it, or also the owner's group if `group` is set.
fn secret(path: &Path, what: &str, group: bool) -> Result<Vec<u8>, RemoteError> {
    let wrong = |reason: String| RemoteError(format!("the {what} {}: {reason}", path.display()));
    let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    let forbidden = if group { 0o007 } else { 0o077 };
    if metadata.mode() & forbidden != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(wrong(format!("other users can read or change it (mode {mode:04o}); run `chmod 600` on it")));
    }
    fs::read(path).map_err(|error| wrong(error.to_string()))
}

fn server_config(certificate: &Path, key: &Path) -> Result<ServerConfig, RemoteError> {
    let wrong =
        |path: &Path, reason: String| RemoteError(format!("the certificate or key {}: {reason}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(certificate, error.to_string()))?;
    let bytes = secret(key, "key", true)?;
    let key_der = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong(key, error.to_string()))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider speaks TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|error| wrong(certificate, error.to_string()))
}
