//! Parts that only those can make who have the operator's key (spec 4; adr/0049).
//!
//! A sealed part has flag 0x40, and eight bytes more than its instruction has operands:
//!
//! | offset | field |
//! |---|---|
//! | 0 to 11 | the head, as ever: flag 0x40 is set in byte 3, and byte 2 counts the seal |
//! | 12 to length - 11 | the operands |
//! | length - 10 | the seal, 8 bytes: SipHash-2-4 of all that stands before, under the key, its lowest byte first |
//! | last 2 | Internet checksum over all of it |
//!
//! The seal is over everything before it but the error bit, which anybody may set: it only ever ends what would be executed.
//! A router that writes a value or a child into a part has the key, and seals it anew. Source: Aumasson and Bernstein,
//! "SipHash: a fast short-input PRF", INDOCRYPT 2012.

pub use crate::wire::SEAL;

use crate::isa::Abort;
use crate::wire::{Carried, Part, SEALED, Unread};
use packet::wire::checksum;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::str::FromStr;

const CHECKSUM: usize = 2;
const HEAD: usize = 12;
/// Bytes of the longest part without a seal: four tags and two values.
pub(crate) const LONGEST: usize = HEAD + 6 * 8 + CHECKSUM;
const ERROR: u8 = 1 << 1;

/// What those share who may have instructions executed: 128 bits, drawn at random. While one key takes the place of another there are two: what is made
/// is sealed with the first, and what is sealed with either is read, and sealed anew with the one that it came with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OperatorKey {
    own: [u8; 16],
    also: Option<[u8; 16]>,
}

/// A part without its seal, as it would be if it had none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plain {
    bytes: [u8; LONGEST],
    length: u8,
}

impl Plain {
    /// Takes the seal off a part, whatever it is; its length and its flag are what they should be.
    pub fn of(sealed: &[u8]) -> Option<Plain> {
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
        sum_up(&mut bytes[..plain]);
        Some(Plain { bytes, length: plain as u8 })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The same, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }
}

fn sum_up(part: &mut [u8]) {
    let Some(end) = part.len().checked_sub(CHECKSUM) else { return };
    let sum = checksum::checksum(&part[..end]);
    part[end..].copy_from_slice(&sum.to_be_bytes());
}

/// Whether a part says that it is sealed, and is long enough.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_some_and(|&[_, _, length, flags]| flags & SEALED != 0 && bytes.len() >= length.into())
}

/// The bytes of a part without a seal, which is not looked at; the same bytes where there is none.
pub fn unsealed(bytes: &[u8]) -> Vec<u8> {
    let plain = if is_sealed(bytes) { Plain::of(bytes) } else { None };
    plain.map_or_else(|| bytes.to_vec(), |plain| plain.bytes().to_vec())
}

/// Reads a part, sealed or not, without a look at its seal: to show it, not to believe it.
pub fn read(bytes: &[u8]) -> Result<Part, Unread> {
    match Part::read(bytes) {
        Err(Unread::Sealed) => Part::read(Plain::of(bytes).ok_or(Unread::Wrong(Abort::BadChecksum))?.bytes()),
        read => read,
    }
}

impl OperatorKey {
    /// The key of these bytes.
    pub const fn new(bytes: [u8; 16]) -> OperatorKey {
        OperatorKey { own: bytes, also: None }
    }

    /// The same, which reads what is sealed with another as well.
    pub const fn or(self, other: [u8; 16]) -> OperatorKey {
        OperatorKey { also: Some(other), ..self }
    }

    /// Whose seal a part has, of which `end` bytes are before that.
    fn sealed_by(&self, sealed: &[u8], end: usize) -> Option<[u8; 16]> {
        let seal = sealed.get(end..).and_then(|rest| rest.first_chunk::<SEAL>())?;
        // Both are numbers of 64 bits: comparing them takes the same time wherever they differ.
        let is = |key: &[u8; 16]| u64::from_le_bytes(*seal) == u64::from_le_bytes(seal_of(key, &sealed[..end]));
        [Some(self.own), self.also].into_iter().flatten().find(is)
    }

    /// Tells keys apart, by a secret of whoever asks, without telling what they are.
    pub(crate) fn print(&self, secret: u64) -> u64 {
        let keys = [self.own, self.also.unwrap_or_default()].concat();
        SipHasher24::new_with_keys(secret, u64::from(self.also.is_some())).hash(&keys)
    }

    /// The bytes of a part, sealed.
    pub fn seal(&self, part: &impl Carried) -> Vec<u8> {
        self.seal_bytes(&part.carried(false))
    }

    /// Seals the bytes of a part that has no seal.
    fn seal_bytes(&self, plain: &[u8]) -> Vec<u8> {
        let end = plain.len() - CHECKSUM;
        let mut bytes = plain[..end].to_vec();
        bytes[2] += SEAL as u8;
        bytes[3] |= SEALED;
        bytes.extend(seal_of(&self.own, &bytes));
        bytes.extend([0; CHECKSUM]);
        sum_up(&mut bytes);
        bytes
    }

    /// Reads a part that is sealed with this key. Any other is [`Abort::Unauthenticated`].
    pub fn read(&self, bytes: &[u8]) -> Result<Part, Unread> {
        match Part::read(bytes) {
            Err(Unread::Sealed) => Part::read(self.open(bytes).map_err(Unread::Wrong)?.bytes()),
            Ok(_) => Err(Unread::Wrong(Abort::Unauthenticated)),
            wrong => wrong,
        }
    }

    /// The bytes of a part without its seal, where that is made with this key; otherwise [`Abort::Unauthenticated`].
    pub fn unsealed(&self, bytes: &[u8]) -> Result<Vec<u8>, Abort> {
        if !is_sealed(bytes) {
            return Err(Abort::Unauthenticated);
        }
        self.open(bytes).map(|plain| plain.bytes().to_vec())
    }

    /// The part in these bytes, without its seal, where that is right.
    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Plain, Abort> {
        let plain = Plain::of(sealed).ok_or(Abort::BadChecksum)?;
        let end = usize::from(plain.length) - CHECKSUM;
        self.sealed_by(sealed, end).map(|_| plain).ok_or(Abort::Unauthenticated)
    }

    /// Writes what an executed instruction has changed into the part that `plain` was taken from, and seals that anew.
    pub(crate) fn close(&self, sealed: &mut [u8], plain: &Plain) {
        let end = usize::from(plain.length) - CHECKSUM;
        let Some(whole) = sealed.get_mut(..end + SEAL + CHECKSUM) else { return };
        // Who comes behind may have no other.
        let key = if self.also.is_some() { self.sealed_by(whole, end).unwrap_or(self.own) } else { self.own };
        whole[HEAD..end].copy_from_slice(&plain.bytes[HEAD..end]);
        let seal = seal_of(&key, &whole[..end]);
        whole[end..end + SEAL].copy_from_slice(&seal);
        sum_up(whole);
    }

    /// A part as packets carry it that is sealed with this key.
    pub const fn sealed<P: Carried>(self, part: P) -> Sealed<P> {
        Sealed { key: self, part }
    }
}

/// The seal of what stands before it, less the error bit.
fn seal_of(key: &[u8; 16], before: &[u8]) -> [u8; SEAL] {
    let mut bytes = [0; LONGEST];
    let bytes = &mut bytes[..before.len().min(LONGEST)];
    bytes.copy_from_slice(&before[..bytes.len()]);
    bytes[0] &= !ERROR;
    SipHasher24::new_with_key(key).hash(bytes).to_le_bytes()
}

/// A part that is sealed as it is put into a packet: see [`crate::wire::dedicated`].
#[derive(Clone, Copy, Debug)]
pub struct Sealed<P> {
    key: OperatorKey,
    part: P,
}

impl<P: Carried> Carried for Sealed<P> {
    fn carried(&self, piggybacked: bool) -> Vec<u8> {
        self.key.seal_bytes(&self.part.carried(piggybacked))
    }
}

/// A text that is no key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoKey;

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a key is 32 digits from 0 to f, and maybe a second line with another: `openssl rand -hex 16` draws one",
        )
    }
}

impl std::error::Error for NoKey {}

impl FromStr for OperatorKey {
    type Err = NoKey;

    /// 32 hexadecimal digits, and space around them; or two lines of them, of which the second is that of another key.
    fn from_str(text: &str) -> Result<OperatorKey, NoKey> {
        let mut keys = text.split_whitespace().map(|digits| {
            if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(NoKey);
            }
            u128::from_str_radix(digits, 16).map(u128::to_be_bytes).map_err(|_| NoKey)
        });
        let own = OperatorKey::new(keys.next().ok_or(NoKey)??);
        let key = keys.next().transpose()?.map_or(own, |also| own.or(also));
        keys.next().map_or(Ok(key), |_| Err(NoKey))
    }
}

/// A secret is not printed.
impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorKey")
    }
}
