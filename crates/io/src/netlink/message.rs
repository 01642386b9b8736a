//! The format of a netlink message: a header, a fixed part, and nested type-length-value attributes padded to four bytes (RFC 3549 2).

use std::net::IpAddr;

/// Flags of requests: acknowledge the change, add a new object, add or replace an object, list all objects.
pub(super) const ACK: u16 = libc::NLM_F_ACK as u16;
pub(super) const CREATE: u16 = (libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
pub(super) const REPLACE: u16 = (libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
pub(super) const DUMP: u16 = libc::NLM_F_DUMP as u16;

/// Length of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// Set in the type of an attribute whose value is attributes.
const NESTED: u16 = 1 << 15;

/// A request being built.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of this type with its NLM_F_* flags and its fixed part, whose length is a multiple of four.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(fixed);
        Message { bytes }
    }

    /// Adds an attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds an attribute of one native integer.
    pub(crate) fn put_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute of text with its final zero.
    pub(crate) fn put_text(&mut self, kind: u16, text: &str) -> &mut Self {
        self.put(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute whose value begins with `fixed`, followed by the attributes that `inside` adds.
    pub(crate) fn nest(&mut self, kind: u16, fixed: &[u8], inside: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.put(kind | NESTED, fixed);
        inside(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Adds a structure that begins with its length: `fixed`, whose first two bytes are replaced, and a link, followed by the attributes that `inside`
    /// adds (`struct rtnexthop`).
    pub(super) fn structure(&mut self, fixed: &[u8; 4], link: u32, inside: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(fixed);
        self.bytes.extend_from_slice(&link.to_ne_bytes());
        inside(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The finished message.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// The messages in one received datagram, as (type, flags, sequence, body).
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        // `None` also for a length below the header's, so that every step advances.
        let body = bytes.get(HEADER..length)?;
        let (kind, flags) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
        let sequence = u32_at(bytes, 8)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, flags, sequence, body))
    })
}

/// The attributes of a body or of a nested value, as (type, value).
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u16_at(bytes, 0)? as usize;
        let value = bytes.get(4..length)?;
        let kind = u16_at(bytes, 2)? & !NESTED;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number of an address's family.
pub(super) fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// An address as it is in an attribute.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The address in an attribute of a message of this family. `None` if the family or the length is another.
pub(super) fn address(family: u8, value: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(<[u8; 4]>::try_from(value).ok()?.into()),
        libc::AF_INET6 => Some(<[u8; 16]>::try_from(value).ok()?.into()),
        _ => None,
    }
}

/// Text up to its final zero, if it has one.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_parsed_as_built_with_their_nesting() {
        let mut message = Message::new(7, 2, &[9; 8]);
        message.put_u32(1, 77).put_text(2, "eth0").nest(3, &[5; 4], |inner| {
            inner.put(4, &[1, 2, 3]);
        });
        let bytes = message.finish(12);
        let (kind, flags, sequence, body) = messages(&bytes).next().unwrap();
        assert_eq!((kind, flags, sequence), (7, 3, 12));
        let found: Vec<_> = attributes(&body[8..]).collect();
        assert_eq!(found[0], (1, &77u32.to_ne_bytes()[..]));
        assert_eq!(text(found[1].1), "eth0");
        assert_eq!(attributes(&found[2].1[4..]).next(), Some((4, &[1u8, 2, 3][..])));
    }

    #[test]
    fn truncated_or_invalid_lengths_end_the_walk() {
        let mut bytes = Message::new(7, 0, &[]).finish(1);
        bytes.extend_from_slice(&[0xff; 15]);
        assert_eq!(messages(&bytes).count(), 1);
        assert_eq!(attributes(&[3, 0, 0, 0]).count(), 0);
        assert_eq!(attributes(&[255, 0, 0, 0]).count(), 0);
    }
}
