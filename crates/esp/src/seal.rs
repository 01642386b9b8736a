//! Sealed parts: parts authenticated with the operator's key (spec 4; adr/0049).
//!
//! A sealed part has flag 0x40, and is eight bytes longer than the plain part:
//!
//! | offset | field |
//! |---|---|
//! | 0 to 11 | the usual head, with flag 0x40 in byte 3; the length in byte 2 includes the seal |
//! | 12 to length - 11 | the operands |
//! | length - 10 | the seal, 8 bytes: SipHash-2-4 over all bytes before it, with the key, in little-endian order |
//! | last 2 | Internet checksum over the whole part |
//!
//! The seal covers everything before it except the error bit. Anyone may set that bit: it only prevents execution. A router that rewrites a value or
//! a child has the key, and seals the part again. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.

pub use crate::wire::SEAL;

use crate::isa::Abort;
use crate::wire::{EncodePart, Part, PartError, SEALED};
use packet::wire::checksum;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::str::FromStr;

const CHECKSUM: usize = 2;
const HEAD: usize = 12;
/// The longest part without a seal: four tags and two values.
pub(crate) const LONGEST: usize = HEAD + 6 * 8 + CHECKSUM;
const ERROR: u8 = 1 << 1;

/// The key shared by all hosts and routers that may have instructions executed: 128 random bits. During a key change there are two keys. New parts
/// are sealed with the first. A received part may have either seal, and keeps the key of its seal when a router rewrites it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OperatorKey {
    primary: [u8; 16],
    secondary: Option<[u8; 16]>,
}

/// A part with its seal removed, and length, flag and checksum adjusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlainPart {
    bytes: [u8; LONGEST],
    length: u8,
}

impl PlainPart {
    /// Removes the seal without verifying it. Adjusts length, flag and checksum.
    pub fn of(sealed: &[u8]) -> Option<PlainPart> {
        let length = usize::from(*sealed.get(2)?);
        let plain = length.checked_sub(SEAL).filter(|plain| (HEAD + CHECKSUM..=LONGEST).contains(plain))?;
        let whole = sealed.get(..length)?;
        if whole[3] & SEALED == 0 || checksum::sum(whole) != 0xffff {
            return None;
        }
        let mut bytes = [0; LONGEST];
        bytes[..plain - CHECKSUM].copy_from_slice(&whole[..plain - CHECKSUM]);
        bytes[2] = plain as u8;
        bytes[3] &= !SEALED;
        write_checksum(&mut bytes[..plain]);
        Some(PlainPart { bytes, length: plain as u8 })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }
}

fn write_checksum(part: &mut [u8]) {
    let Some(end) = part.len().checked_sub(CHECKSUM) else { return };
    let sum = checksum::checksum(&part[..end]);
    part[end..].copy_from_slice(&sum.to_be_bytes());
}

/// True if a part has the seal flag and all its bytes.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_some_and(|&[_, _, length, flags]| flags & SEALED != 0 && bytes.len() >= length.into())
}

/// The part without its seal, which is not verified. A plain part is returned unchanged.
pub fn unsealed(bytes: &[u8]) -> Vec<u8> {
    let plain = if is_sealed(bytes) { PlainPart::of(bytes) } else { None };
    plain.map_or_else(|| bytes.to_vec(), |plain| plain.bytes().to_vec())
}

/// Reads a part, sealed or plain, without verifying the seal: for display only.
pub fn read(bytes: &[u8]) -> Result<Part, PartError> {
    match Part::read(bytes) {
        Err(PartError::Sealed) => {
            Part::read(PlainPart::of(bytes).ok_or(PartError::Invalid(Abort::BadChecksum))?.bytes())
        }
        read => read,
    }
}

impl OperatorKey {
    /// A key of these bytes.
    pub const fn new(bytes: [u8; 16]) -> OperatorKey {
        OperatorKey { primary: bytes, secondary: None }
    }

    /// Also accepts seals of `other`, as during a key change.
    pub const fn with_secondary(self, other: [u8; 16]) -> OperatorKey {
        OperatorKey { secondary: Some(other), ..self }
    }

    /// The key that sealed the part. Its seal is at `end`.
    fn sealed_by(&self, sealed: &[u8], end: usize) -> Option<[u8; 16]> {
        let seal = sealed.get(end..).and_then(|rest| rest.first_chunk::<SEAL>())?;
        // Both seals are 64-bit integers, so the comparison takes the same time for every difference.
        let is = |key: &[u8; 16]| u64::from_le_bytes(*seal) == u64::from_le_bytes(compute_seal(key, &sealed[..end]));
        [Some(self.primary), self.secondary].into_iter().flatten().find(is)
    }

    /// A fingerprint of the key, by a secret of the caller. It distinguishes keys without revealing them.
    pub(crate) fn fingerprint(&self, secret: u64) -> u64 {
        let keys = [self.primary, self.secondary.unwrap_or_default()].concat();
        SipHasher24::new_with_keys(secret, u64::from(self.secondary.is_some())).hash(&keys)
    }

    /// The part as sealed bytes.
    pub fn seal(&self, part: &impl EncodePart) -> Vec<u8> {
        self.seal_bytes(&part.encode(false))
    }

    /// Seals the bytes of a plain part.
    fn seal_bytes(&self, plain: &[u8]) -> Vec<u8> {
        let end = plain.len() - CHECKSUM;
        let mut bytes = plain[..end].to_vec();
        bytes[2] += SEAL as u8;
        bytes[3] |= SEALED;
        bytes.extend(compute_seal(&self.primary, &bytes));
        bytes.extend([0; CHECKSUM]);
        write_checksum(&mut bytes);
        bytes
    }

    /// Reads a part sealed with this key. Other parts give [`Abort::Unauthenticated`].
    pub fn read(&self, bytes: &[u8]) -> Result<Part, PartError> {
        match Part::read(bytes) {
            Err(PartError::Sealed) => Part::read(self.open(bytes).map_err(PartError::Invalid)?.bytes()),
            Ok(_) => Err(PartError::Invalid(Abort::Unauthenticated)),
            wrong => wrong,
        }
    }

    /// The part without its seal, if this key sealed it; otherwise [`Abort::Unauthenticated`].
    pub fn unsealed(&self, bytes: &[u8]) -> Result<Vec<u8>, Abort> {
        if !is_sealed(bytes) {
            return Err(Abort::Unauthenticated);
        }
        self.open(bytes).map(|plain| plain.bytes().to_vec())
    }

    /// Verifies the seal and removes it.
    pub(crate) fn open(&self, sealed: &[u8]) -> Result<PlainPart, Abort> {
        let plain = PlainPart::of(sealed).ok_or(Abort::BadChecksum)?;
        let end = usize::from(plain.length) - CHECKSUM;
        self.sealed_by(sealed, end).map(|_| plain).ok_or(Abort::Unauthenticated)
    }

    /// Copies the operands of `plain`, which an instruction rewrote, back into the sealed part it came from. Seals that again.
    pub(crate) fn reseal(&self, sealed: &mut [u8], plain: &PlainPart) {
        let end = usize::from(plain.length) - CHECKSUM;
        let Some(whole) = sealed.get_mut(..end + SEAL + CHECKSUM) else { return };
        // Keep the key of the seal: the next router or the receiver may have only that one.
        let key =
            if self.secondary.is_some() { self.sealed_by(whole, end).unwrap_or(self.primary) } else { self.primary };
        whole[HEAD..end].copy_from_slice(&plain.bytes[HEAD..end]);
        let seal = compute_seal(&key, &whole[..end]);
        whole[end..end + SEAL].copy_from_slice(&seal);
        write_checksum(whole);
    }

    /// Wraps a part so that packets carry it sealed with this key.
    pub const fn sealed<P: EncodePart>(self, part: P) -> Sealed<P> {
        Sealed { key: self, part }
    }
}

/// The seal over these bytes, with the error bit taken as zero.
fn compute_seal(key: &[u8; 16], before: &[u8]) -> [u8; SEAL] {
    let mut bytes = [0; LONGEST];
    let bytes = &mut bytes[..before.len().min(LONGEST)];
    bytes.copy_from_slice(&before[..bytes.len()]);
    bytes[0] &= !ERROR;
    SipHasher24::new_with_key(key).hash(bytes).to_le_bytes()
}

/// A part that is sealed when a packet is built: see [`crate::wire::dedicated`].
#[derive(Clone, Copy, Debug)]
pub struct Sealed<P> {
    key: OperatorKey,
    part: P,
}

impl<P: EncodePart> EncodePart for Sealed<P> {
    fn encode(&self, piggybacked: bool) -> Vec<u8> {
        self.key.seal_bytes(&self.part.encode(piggybacked))
    }
}

/// A text that is no key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidKey;

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a key is a line of 32 hexadecimal digits from `openssl rand -hex 16`; a second line may hold another key",
        )
    }
}

impl std::error::Error for InvalidKey {}

impl FromStr for OperatorKey {
    type Err = InvalidKey;

    /// Parses 32 hexadecimal digits with optional space around them, or two such lines. The second line is the other key.
    fn from_str(text: &str) -> Result<OperatorKey, InvalidKey> {
        let mut keys = text.split_whitespace().map(|digits| {
            if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(InvalidKey);
            }
            u128::from_str_radix(digits, 16).map(u128::to_be_bytes).map_err(|_| InvalidKey)
        });
        let own = OperatorKey::new(keys.next().ok_or(InvalidKey)??);
        let key = keys.next().transpose()?.map_or(own, |also| own.with_secondary(also));
        keys.next().map_or(Ok(key), |_| Err(InvalidKey))
    }
}

/// Debug output does not reveal the key.
impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorKey")
    }
}
