//! IPv4 options (RFC 791 3.1, RFC 2113): iteration, validation, and the entries that a router writes.
//!
//! Offsets count from the start of the IP header, like the pointer of an ICMP parameter problem.

use super::ipv4::{HEADER, LONGEST_HEADER};
use super::{Ipv4Error, Ipv4Header, checksum};
use std::fmt;
use std::net::Ipv4Addr;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

/// Flag of a timestamp option: only routers whose addresses the sender has prespecified write their times.
const PRESPECIFIED: u8 = 3;

/// One option. Slots are the bytes after the pointer (and flags): addresses or timestamps, filled up to the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Option<'a> {
    /// End of the list.
    End,
    /// One byte of padding.
    NoOperation,
    /// Addresses of the routers on the path.
    RecordRoute {
        /// Offset of the next free slot from the start of the option, 1-based as on the wire: 4 is the first slot.
        pointer: u8,
        /// The slots, four bytes each.
        slots: &'a [u8],
    },
    /// Times at the routers on the path.
    Timestamp {
        /// Offset of the next free slot from the start of the option, 1-based as on the wire: 5 is the first slot.
        pointer: u8,
        /// The number of routers without a free slot, 0..=15.
        overflow: u8,
        /// 0: timestamps only; 1: address and timestamp; 3: timestamps of prespecified addresses; other values are undefined.
        flag: u8,
        /// The slots, four or eight bytes each.
        slots: &'a [u8],
    },
    /// Routers to visit, with others in between.
    LooseSourceRoute {
        /// Offset of the next address to visit, 1-based as on the wire.
        pointer: u8,
        /// The addresses, four bytes each.
        slots: &'a [u8],
    },
    /// Routers to visit, with no others in between.
    StrictSourceRoute {
        /// Offset of the next address to visit, 1-based as on the wire.
        pointer: u8,
        /// The addresses, four bytes each.
        slots: &'a [u8],
    },
    /// Routers should examine this packet more closely (RFC 2113); 0 means every router.
    RouterAlert(u16),
    /// Another option, which is forwarded unchanged (RFC 1812 5.2.4).
    Unknown {
        /// The type byte: copied flag, class, number.
        kind: u8,
        /// The bytes after type and length.
        data: &'a [u8],
    },
}

/// An option is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4OptionError {
    /// Offset of the invalid byte in the IP header: the pointer of the ICMP parameter problem (RFC 792).
    pub pointer: u8,
}

impl fmt::Display for Ipv4OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv4 option malformed at byte {}", self.pointer)
    }
}

impl std::error::Error for Ipv4OptionError {}

/// An option and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedOption<'a> {
    /// Offset of its type byte from the start of the IP header, 20..60.
    pub offset: u8,
    /// Its length in bytes.
    pub length: u8,
    /// The option.
    pub option: Ipv4Option<'a>,
}

/// Iterator over the options, up to the end of the list or the first malformed one.
#[derive(Clone, Debug)]
pub struct Ipv4OptionIter<'a> {
    rest: &'a [u8],
    offset: u8,
}

/// Iterates over `options` as in [`super::Ipv4::options`].
pub fn options(options: &[u8]) -> Ipv4OptionIter<'_> {
    // No header holds more than 40 bytes of options. Longer input did not come from a header.
    let rest = &options[..options.len().min(LONGEST_HEADER - HEADER)];
    Ipv4OptionIter { rest, offset: HEADER as u8 }
}

impl<'a> Iterator for Ipv4OptionIter<'a> {
    type Item = Result<PlacedOption<'a>, Ipv4OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, behind) = self.rest.split_first()?;
        let offset = self.offset;
        let length = match kind {
            END | NO_OPERATION => 1,
            // The length is missing, too short or too long: the type byte is at fault.
            _ => match behind.first() {
                Some(&length @ 2..) if usize::from(length) <= self.rest.len() => length,
                _ => return Some(self.fault(offset)),
            },
        };
        let (this, rest) = self.rest.split_at(usize::from(length));
        match decode(this) {
            Err(at) => Some(self.fault(offset + at)),
            Ok(option) => {
                self.rest = if option == Ipv4Option::End { &[] } else { rest };
                self.offset += length;
                Some(Ok(PlacedOption { offset, length, option }))
            }
        }
    }
}

impl<'a> Ipv4OptionIter<'a> {
    fn fault(&mut self, pointer: u8) -> Result<PlacedOption<'a>, Ipv4OptionError> {
        self.rest = &[];
        Err(Ipv4OptionError { pointer })
    }
}

/// Parses one option from its type byte and, except for the two one-byte options, its length. The error is the offset of the invalid byte in the
/// option: 1 for the length, 2 for the pointer.
fn decode(bytes: &[u8]) -> Result<Ipv4Option<'_>, u8> {
    Ok(match *bytes {
        [END, ..] => Ipv4Option::End,
        [NO_OPERATION, ..] => Ipv4Option::NoOperation,
        [kind @ (RECORD_ROUTE | LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE), ref rest @ ..] => {
            let [length, pointer, slots @ ..] = rest else { return Err(1) };
            if *length < 3 {
                return Err(1);
            }
            if *pointer < 4 {
                return Err(2);
            }
            match kind {
                RECORD_ROUTE => Ipv4Option::RecordRoute { pointer: *pointer, slots },
                LOOSE_SOURCE_ROUTE => Ipv4Option::LooseSourceRoute { pointer: *pointer, slots },
                _ => Ipv4Option::StrictSourceRoute { pointer: *pointer, slots },
            }
        }
        [TIMESTAMP, ref rest @ ..] => {
            let [_, pointer, overflow_flag, slots @ ..] = rest else { return Err(1) };
            let (overflow, flag) = (overflow_flag >> 4, overflow_flag & 0x0f);
            if *pointer < 5 {
                return Err(2);
            }
            Ipv4Option::Timestamp { pointer: *pointer, overflow, flag, slots }
        }
        [ROUTER_ALERT, ref rest @ ..] => match *rest {
            [_, a, b, ..] => Ipv4Option::RouterAlert(u16::from_be_bytes([a, b])),
            _ => return Err(1),
        },
        [kind, _, ref data @ ..] => Ipv4Option::Unknown { kind, data },
        [] | [_] => return Err(0),
    })
}

/// The requests of a packet's options to a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionRequests {
    /// A source route, loose or strict, is present.
    pub source_route: bool,
    /// A route is to be recorded.
    pub record_route: bool,
    /// A timestamp is to be recorded.
    pub timestamp: bool,
    /// A router alert for every router (value 0) is present.
    pub router_alert: bool,
}

/// Validates every option, and that routes and timestamps appear at most once (RFC 791 3.1).
pub fn validate(bytes: &[u8]) -> Result<OptionRequests, Ipv4OptionError> {
    let mut asks = OptionRequests::default();
    let mut walk = options(bytes);
    while let Some(&kind) = walk.rest.first() {
        let (start, first) = (walk.offset, asks.first(kind));
        let Some(placed) = walk.next() else { break };
        let is_route = matches!(kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE);
        match placed {
            Err(error) if is_route => return Err(error),
            // A duplicate is reported before other errors of the second option, except for source routes.
            _ if !first => return Err(Ipv4OptionError { pointer: start }),
            Err(error) => return Err(error),
            // The router writes nothing into a source route.
            Ok(_) if is_route => {}
            // The next slot to write must be complete.
            Ok(PlacedOption { length, option, .. }) if half_room(length, option) => {
                return Err(Ipv4OptionError { pointer: start + 2 });
            }
            // The list is full and its overflow counter too: the packet is in error (RFC 791, timestamp). With prespecified addresses there is no
            // overflow.
            Ok(PlacedOption { length, option: Ipv4Option::Timestamp { pointer, overflow: 15, flag, .. }, .. })
                if pointer > length && flag != PRESPECIFIED =>
            {
                return Err(Ipv4OptionError { pointer: start + 3 });
            }
            Ok(PlacedOption { option: Ipv4Option::RouterAlert(0), .. }) => asks.router_alert = true,
            Ok(_) => {}
        }
    }
    Ok(asks)
}

/// True if an option of `length` bytes has room left, but not for a whole entry.
fn half_room(length: u8, option: Ipv4Option<'_>) -> bool {
    let (pointer, entry) = match option {
        Ipv4Option::RecordRoute { pointer, .. } => (pointer, 4),
        Ipv4Option::Timestamp { pointer, flag: 1 | PRESPECIFIED, .. } => (pointer, 8),
        Ipv4Option::Timestamp { pointer, .. } => (pointer, 4),
        _ => return false,
    };
    pointer <= length && u16::from(pointer) + entry - 1 > u16::from(length)
}

impl OptionRequests {
    /// Records an option of this type. False if it is a forbidden duplicate.
    fn first(&mut self, kind: u8) -> bool {
        let seen = match kind {
            RECORD_ROUTE => &mut self.record_route,
            TIMESTAMP => &mut self.timestamp,
            // Only one of the two is allowed (RFC 1812 5.2.4.1).
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => &mut self.source_route,
            _ => return true,
        };
        !std::mem::replace(seen, true)
    }
}

/// The reason why a router could not write into the options of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The header is malformed.
    Header(Ipv4Error),
    /// An option is malformed.
    Option(Ipv4OptionError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Option(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}

/// Writes into the record route and timestamp options of a forwarded packet (RFC 791 3.1, RFC 1812 5.2.4.2 and 5.2.4.3). `outgoing` is the address of
/// the egress interface, `midnight` the milliseconds since midnight UT. Updates the header checksum if an option changed.
///
/// A full route is left unchanged; a full timestamp option increments its overflow counter. With prespecified addresses the router writes its time if
/// `own` returns true for the next address.
pub fn record(
    l3: &mut [u8],
    outgoing: Ipv4Addr,
    midnight: u32,
    own: impl Fn(Ipv4Addr) -> bool,
) -> Result<(), RecordError> {
    write_records(l3, outgoing, midnight, own, true)
}

/// Like [`record`], for a reply whose options are those of the request and already include this router: without a free slot it does not increment the
/// overflow counter again.
pub fn record_in_reply(
    l3: &mut [u8],
    outgoing: Ipv4Addr,
    midnight: u32,
    own: impl Fn(Ipv4Addr) -> bool,
) -> Result<(), RecordError> {
    write_records(l3, outgoing, midnight, own, false)
}

fn write_records(
    l3: &mut [u8],
    outgoing: Ipv4Addr,
    midnight: u32,
    own: impl Fn(Ipv4Addr) -> bool,
    counts: bool,
) -> Result<(), RecordError> {
    let packet = super::Ipv4::parse_without_checksum(l3).map_err(RecordError::Header)?;
    let header_length = packet.header_length();
    let (mut edits, mut count) = ([None; 2], 0);
    for placed in options(packet.options) {
        let placed = placed.map_err(RecordError::Option)?;
        // At most two edits: each option appears at most once in a packet that passed `validate`.
        let edit = edit(&placed, outgoing, midnight, &own).filter(|e| counts || !matches!(e.grow, Grow::Overflow));
        if let (Some(edit), Some(slot)) = (edit, edits.get_mut(count)) {
            *slot = Some(edit);
            count += 1;
        }
    }
    if count == 0 {
        return Ok(());
    }
    // Edits are applied after the walk, which borrows the packet.
    for Edit { at, bytes, length, .. } in edits.into_iter().flatten() {
        if let Some(target) = l3.get_mut(at..at + length) {
            target.copy_from_slice(&bytes[..length]);
        }
    }
    for Edit { option, grow, .. } in edits.into_iter().flatten() {
        match grow {
            Grow::Pointer(by) => l3[option + 2] += by,
            Grow::Overflow => l3[option + 3] += 0x10,
        }
    }
    renew_checksum(&mut l3[..header_length]);
    Ok(())
}

/// One edit: a position, and at most an address and a time.
#[derive(Clone, Copy)]
struct Edit {
    option: usize,
    at: usize,
    bytes: [u8; 8],
    length: usize,
    grow: Grow,
}

#[derive(Clone, Copy)]
enum Grow {
    Pointer(u8),
    Overflow,
}

fn edit(placed: &PlacedOption<'_>, outgoing: Ipv4Addr, midnight: u32, own: &impl Fn(Ipv4Addr) -> bool) -> Option<Edit> {
    if half_room(placed.length, placed.option) {
        return None;
    }
    let option = usize::from(placed.offset);
    let mut bytes = [0; 8];
    let (pointer, by, skip, length) = match placed.option {
        Ipv4Option::RecordRoute { pointer, .. } if pointer <= placed.length => {
            bytes[..4].copy_from_slice(&outgoing.octets());
            (pointer, 4, 0, 4)
        }
        Ipv4Option::Timestamp { pointer, overflow, flag, .. } if pointer > placed.length => {
            // At 15 the counter is full. With prespecified addresses this router was not asked for its time.
            if overflow == 15 || flag == PRESPECIFIED {
                return None;
            }
            return Some(Edit { option, at: option, bytes, length: 0, grow: Grow::Overflow });
        }
        Ipv4Option::Timestamp { pointer, flag: 0, .. } => {
            bytes[..4].copy_from_slice(&midnight.to_be_bytes());
            (pointer, 4, 0, 4)
        }
        Ipv4Option::Timestamp { pointer, flag: 1, .. } => {
            bytes[..4].copy_from_slice(&outgoing.octets());
            bytes[4..].copy_from_slice(&midnight.to_be_bytes());
            (pointer, 8, 0, 8)
        }
        Ipv4Option::Timestamp { pointer, flag: PRESPECIFIED, slots, .. } => {
            // Prespecified: only the router with the next address writes its time.
            let next = slots.get(usize::from(pointer) - 5..)?.first_chunk::<4>()?;
            if !own(Ipv4Addr::from(*next)) {
                return None;
            }
            bytes[..4].copy_from_slice(&midnight.to_be_bytes());
            (pointer, 8, 4, 4)
        }
        _ => return None,
    };
    let at = option + usize::from(pointer) - 1 + skip;
    Some(Edit { option, at, bytes, length, grow: Grow::Pointer(by) })
}

fn renew_checksum(header: &mut [u8]) {
    if let Some(field) = header.get_mut(10..12) {
        field.fill(0);
    }
    let sum = checksum::checksum(header);
    if let Some(field) = header.get_mut(10..12) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    debug_assert!(Ipv4Header::of(header).is_none_or(|header| header.checksum() == sum));
}
