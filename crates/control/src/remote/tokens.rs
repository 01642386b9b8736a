//! The tokens of the remote API: reads and compares them, and slows down guessing.

use super::{RemoteError, secret};
use crate::api::AccessLevel;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use subtle::ConstantTimeEq;
use units::{Instant, Nanos};

/// The least and the largest number of characters of a token. 32 hexadecimal digits hold 128 random bits, which cannot be guessed.
const LEAST: usize = 32;
const MOST: usize = 4096;
/// The number of wrong tokens that an address may send at once, and the time until it may send another.
const BURST: u32 = 10;
const PACE: Nanos = Nanos::secs(6);
/// The most addresses remembered; the one that failed longest ago is dropped first.
const ADDRESSES: usize = 4096;

/// The tokens of a router.
pub(crate) struct Tokens {
    full: Vec<u8>,
    read: Option<Vec<u8>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    pub fn read(full: &Path, read: Option<&Path>) -> Result<Tokens, RemoteError> {
        let tokens = Tokens { full: token_of(full)?, read: read.map(token_of).transpose()? };
        match &tokens.read {
            Some(read) if *read == tokens.full => {
                Err(RemoteError("the read-only token equals the token for changes: use two different ones".into()))
            }
            _ => Ok(tokens),
        }
    }

    /// Returns the rights of a token. The comparison takes constant time, except that it depends on the length, which is no secret.
    pub fn allowed(&self, token: &[u8]) -> Option<AccessLevel> {
        let full = self.full.ct_eq(token);
        let read = self.read.as_ref().map_or(0.into(), |read| read.ct_eq(token));
        if bool::from(full) { Some(AccessLevel::Full) } else { bool::from(read).then_some(AccessLevel::Read) }
    }
}

/// Reads the token in a file: its only line.
pub(crate) fn token_of(path: &Path) -> Result<Vec<u8>, RemoteError> {
    let wrong = |reason: &str| RemoteError(format!("the token file {}: {reason}", path.display()));
    let text = secret(path, "token file", false)?;
    let token = text.trim_ascii().to_vec();
    match token.len() {
        length if length < LEAST => Err(wrong("a token has at least 32 characters; `openssl rand -hex 32` makes one")),
        length if length > MOST => Err(wrong("the token is too long")),
        _ if !token.iter().all(u8::is_ascii_graphic) => Err(wrong("a token is one word of printable characters")),
        _ => Ok(token),
    }
}

/// Makes a new token.
pub fn new_token() -> std::io::Result<String> {
    let mut bytes = [0u8; 32];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    assert_eq!(filled, bytes.len(), "the kernel gives up to 256 random bytes whole");
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the token of an `Authorization` field (RFC 6750 2.1): the scheme in any case, spaces, one word.
pub(crate) fn bearer(field: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = field.split_at_checked(SCHEME.len())?;
    let token = token.trim_ascii();
    let good = scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    good.then_some(token)
}

/// An entry point for the fuzzer: bytes as an `Authorization` field.
pub fn exercise(field: &[u8]) {
    if let Some(token) = bearer(field) {
        assert!(!token.is_empty() && token.len() < field.len());
    }
}

/// Addresses that have sent wrong tokens. Each has a bucket; while it is full, the address is refused.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// When the bucket of an address is empty again.
    empty_at: BTreeMap<IpAddr, Instant>,
}

/// Returns an address, or for IPv6 its /64, which belongs to one customer.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

impl Failures {
    /// Returns whether a token from this address may be checked.
    pub fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let waits = self.empty_at.get(&origin(address)).map_or(Nanos::ZERO, |empty| empty.since(now));
        // The bucket is stored as the time at which it is empty. Another failure adds one `PACE`, and `BURST` of them fill it.
        waits + PACE <= PACE * u64::from(BURST)
    }

    /// Records a wrong token from this address.
    pub fn failed(&mut self, address: IpAddr, now: Instant) {
        let origin = origin(address);
        if self.empty_at.len() >= ADDRESSES && !self.empty_at.contains_key(&origin) {
            // Forget the address whose bucket is empty first: it has the least left to wait.
            let oldest = self.empty_at.iter().min_by_key(|(_, empty)| **empty).map(|(address, _)| *address);
            if let Some(address) = oldest {
                self.empty_at.remove(&address);
            }
        }
        let empty = self.empty_at.entry(origin).or_insert(now);
        *empty = (*empty).max(now) + PACE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn tokens() -> Tokens {
        Tokens { full: vec![b'f'; 32], read: Some(vec![b'r'; 32]) }
    }

    #[test]
    fn token_grants_its_access_level() {
        for (token, expected) in [
            ("f".repeat(32), Some(AccessLevel::Full)),
            ("r".repeat(32), Some(AccessLevel::Read)),
            ("f".repeat(31), None),
            ("f".repeat(33), None),
            (String::new(), None),
        ] {
            assert_eq!(tokens().allowed(token.as_bytes()), expected, "{token}");
        }
        assert_eq!(Tokens { read: None, ..tokens() }.allowed(b""), None);
    }

    #[test]
    fn files_that_others_can_read_and_short_tokens_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let token = new_token().unwrap();
        assert_ne!(token, new_token().unwrap());
        for (text, mode, said) in [
            (format!("{token}\n"), 0o600, None),
            (token.clone(), 0o400, None),
            (token.clone(), 0o640, Some("mode 0640")),
            (token.clone(), 0o604, Some("chmod 600")),
            ("short".into(), 0o600, Some("at least 32")),
            (format!("{token}\n{token}\n"), 0o600, Some("one word")),
            ("x".repeat(5000), 0o600, Some("too long")),
        ] {
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match (token_of(&path), said) {
                (Ok(read), None) => assert_eq!(read, token.as_bytes()),
                (Err(error), Some(word)) => assert!(error.to_string().contains(word), "{error}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
            fs::remove_file(&path).unwrap();
        }
        assert!(token_of(&path).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn wrong_tokens_throttle_only_their_address() {
        let mut failures = Failures::default();
        let [bad, good] = ["2001:db8::1", "192.0.2.1"].map(|text| text.parse().unwrap());
        let start = Instant::new(1_000_000_000);
        let mut tried = 0;
        // One guess a second for an hour.
        for second in 0..3600 {
            let now = start + Nanos::secs(second);
            if failures.may_try(bad, now) {
                tried += 1;
                failures.failed(bad, now);
            }
            assert!(failures.may_try(good, now));
        }
        assert!((600..=612).contains(&tried), "{tried}");
        // Another address of the same customer.
        assert!(!failures.may_try("2001:db8::ffff:1".parse().unwrap(), start + Nanos::secs(3599)));
        assert!(failures.may_try(bad, start + Nanos::secs(3700)));
    }

    #[test]
    fn failed_addresses_are_bounded() {
        let mut failures = Failures::default();
        for i in 0..10_000u32 {
            failures.failed(IpAddr::V4(i.into()), Instant::new(u64::from(i)));
        }
        assert_eq!(failures.empty_at.len(), ADDRESSES);
    }

    proptest! {
        #[test]
        fn bearer_parser_accepts_any_field(field: Vec<u8>, spaces in 0..3usize, token in "[!-~]{1,40}") {
            exercise(&field);
            let field = format!("BeArEr {}{token}{}", " ".repeat(spaces), " ".repeat(spaces));
            prop_assert_eq!(bearer(field.as_bytes()), Some(token.as_bytes()));
        }
    }
}
