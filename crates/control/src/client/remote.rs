//! Prepares connections to a router on another machine: its name, the trusted certificates, and the token.

use super::{ClientError, RemoteRouter};
use crate::remote::token_of;
use hyper::Uri;
use hyper::header::HeaderValue;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring, version::TLS13};

/// The default port.
const PORT: u16 = 8443;
/// The trusted certificates of common distributions.
const SYSTEM_CERTIFICATES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The parameters of a connection.
pub(super) struct TlsParameters {
    pub host: String,
    pub port: u16,
    pub name: ServerName<'static>,
    pub authorization: HeaderValue,
    pub tls: Arc<ClientConfig>,
}

pub(super) fn tls_parameters(remote: &RemoteRouter) -> Result<TlsParameters, ClientError> {
    let (host, port) = parse(&remote.url)?;
    let name = ServerName::try_from(host.clone()).map_err(|_| unsuitable(format!("'{host}' is not a host name")))?;
    let token = token_of(&remote.token).map_err(|error| unsuitable(error.to_string()))?;
    let mut authorization = HeaderValue::from_bytes(&[b"Bearer ", &token[..]].concat())
        .map_err(|_| unsuitable("the token has characters that a header cannot contain"))?;
    authorization.set_sensitive(true);
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider speaks TLS 1.3")
        .with_root_certificates(authorities(remote.authorities.as_deref())?)
        .with_no_client_auth();
    Ok(TlsParameters { host, port, name, authorization, tls: Arc::new(tls) })
}

fn unsuitable(reason: impl Into<String>) -> ClientError {
    ClientError::Unsuitable(reason.into())
}

/// Parses host and port of `https://HOST:PORT`.
fn parse(url: &str) -> Result<(String, u16), ClientError> {
    let wrong = || unsuitable(format!("'{url}' is not the address of a router; write https://HOST:PORT"));
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    if uri.scheme_str() == Some("http") {
        return Err(unsuitable(format!("'{url}' would be sent in plain text; write https://")));
    }
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https") && uri.path() == "/").ok_or_else(wrong)?;
    // Only a URL puts an IPv6 address in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((host, uri.port_u16().unwrap_or(PORT)))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let found = SYSTEM_CERTIFICATES.iter().map(Path::new).find(|path| path.exists());
    let file =
        file.or(found).ok_or_else(|| unsuitable("this system has no trusted certificates: give one with --ca"))?;
    let wrong = |reason: String| unsuitable(format!("the certificates {}: {reason}", file.display()));
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
        store.add(certificate.map_err(|error| wrong(error.to_string()))?).map_err(|error| wrong(error.to_string()))?;
    }
    if store.is_empty() { Err(wrong("the file has none".into())) } else { Ok(store) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_url_requires_https_and_host() {
        for (url, expected) in [
            ("https://router.example:9443", Some(("router.example", 9443))),
            ("https://router.example", Some(("router.example", 8443))),
            ("https://router.example/", Some(("router.example", 8443))),
            ("https://192.0.2.1:1", Some(("192.0.2.1", 1))),
            ("https://[2001:db8::1]:8443", Some(("2001:db8::1", 8443))),
            ("http://router.example", None),
            ("router.example:8443", None),
            ("https://", None),
            ("https://a/v1/ports", None),
        ] {
            let parsed = parse(url).ok();
            assert_eq!(parsed.as_ref().map(|(host, port)| (host.as_str(), *port)), expected, "{url}");
        }
        assert!(parse("http://a").unwrap_err().to_string().contains("plain text"));
    }
}
