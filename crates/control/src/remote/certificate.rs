//! Makes a self-signed certificate, to try remote access, or for a few routers whose clients get it by hand.

use super::RemoteError;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};

/// The validity of a certificate in years.
const YEARS: i32 = 10;

/// A certificate and its key, PEM.
pub struct Certificate {
    /// For the router (`--tls-cert`) and its clients (`--ca`).
    pub certificate: String,
    /// For the router only (`--tls-key`).
    pub key: String,
}

/// Makes a certificate for these names and addresses, valid for ten years from the beginning of `year`.
pub fn self_signed(names: &[String], year: i32) -> Result<Certificate, RemoteError> {
    let wrong = |error: rcgen::Error| RemoteError(format!("no certificate for {}: {error}", names.join(", ")));
    let mut parameters = CertificateParams::new(names.to_vec()).map_err(wrong)?;
    parameters.distinguished_name = DistinguishedName::new();
    let name = names.first().map_or("switchpath", String::as_str);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = date_time_ymd(year, 1, 1);
    parameters.not_after = date_time_ymd(year + YEARS, 1, 1);
    let key = KeyPair::generate().map_err(wrong)?;
    let certificate = parameters.self_signed(&key).map_err(wrong)?;
    Ok(Certificate { certificate: certificate.pem(), key: key.serialize_pem() })
}
