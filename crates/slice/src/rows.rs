//! The results of filters, as rows of words that workers read without a lock.
//!
//! A filter's entry in the classifier has the number of its row. The row is written before the filter is published, and the number is used again only when
//! no worker has a table with that filter. So no worker reads a row while it changes.

use crate::code::{DATA_BYTES, Diversion, ExceptionCode, LookupResult};
use classifier::TenantId;
use packet::pool::prefetch;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::{InterfaceId, PortId, ShareId};

/// The words of a row: a cache line.
const WORDS: usize = 8;
/// Rows are allocated so many at once.
const CHUNK: usize = 256;
/// The index of a filter without statistics. Indices have 16 bits.
const NO_INDEX: u16 = u16::MAX;

/// The treatment of the packets of a filter, with the physical queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowAction {
    /// They are formatted and sent.
    Send(Hop),
    /// They go to the slow path.
    Exception(ExceptionCode),
    /// They are dropped.
    Drop,
}

/// The way out of a filter's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// The slice's number of the queue.
    pub queue: u16,
    /// The leaf of the port, and the port.
    pub share: ShareId,
    pub port: PortId,
    /// The meta-interface whose address is the source.
    pub interface: u16,
    /// The next node of the slice's network.
    pub next: SocketAddr,
}

/// The result of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub action: RowAction,
    /// The index of the slice's statistics that counts its packets.
    pub index: Option<u16>,
    pub data: [u8; DATA_BYTES],
}

// The action in the lowest byte of the last word but the data: a code above these is an exception.
const SEND: u8 = 0;
const DROP: u8 = 1;
const EXCEPTION: u8 = 2;

impl Row {
    fn words(&self) -> [u64; WORDS] {
        let (kind, hop) = match self.action {
            RowAction::Send(hop) => (SEND, Some(hop)),
            RowAction::Drop => (DROP, None),
            RowAction::Exception(code) => (EXCEPTION + code.number(), None),
        };
        let mut words = [0; WORDS];
        if let Some(hop) = hop {
            words[0] = u64::from(hop.share.0) << 32 | u64::from(hop.queue) << 16 | u64::from(hop.interface);
            let is_ipv4 = u64::from(hop.next.is_ipv4());
            words[1] = u64::from(hop.port.0) << 48 | u64::from(hop.next.port()) << 32 | is_ipv4 << 8;
            let address = match hop.next.ip() {
                IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
                IpAddr::V6(address) => u128::from(address),
            };
            (words[2], words[3]) = ((address >> 64) as u64, address as u64);
        }
        words[1] |= u64::from(kind);
        words[1] |= u64::from(self.index.unwrap_or(NO_INDEX)) << 16;
        words[4..]
            .iter_mut()
            .zip(self.data.as_chunks::<8>().0)
            .for_each(|(word, data)| *word = u64::from_be_bytes(*data));
        words
    }
}

/// A next hop: that of a row, of a slice, for packets that came by an interface. The VRF of the interface has the route.
pub(crate) type HopKey = [u64; 3];

/// A row as it is stored: workers read the fields that they need.
#[derive(Clone, Copy)]
pub(crate) struct RowWords([u64; WORDS]);

impl RowWords {
    /// The treatment other than sending.
    #[inline(always)]
    pub fn diversion(&self) -> Option<Diversion> {
        match self.0[1] as u8 {
            SEND => None,
            DROP => Some(Diversion::Policy),
            // Only codes are written, so there is one.
            code => Some(Diversion::Exception(ExceptionCode::of(code - EXCEPTION).unwrap_or(ExceptionCode::NoMatch))),
        }
    }

    /// The index of the slice's statistics that counts its packets.
    #[inline(always)]
    pub fn index(&self) -> Option<u16> {
        let index = (self.0[1] >> 16) as u16;
        (index != NO_INDEX).then_some(index)
    }

    /// The leaf of the port, and the port.
    #[inline(always)]
    pub fn leaf(&self) -> (ShareId, PortId) {
        (ShareId((self.0[0] >> 32) as u32), PortId((self.0[1] >> 48) as u16))
    }

    /// The meta-interface whose address is the source.
    #[inline(always)]
    pub fn interface(&self) -> u16 {
        self.0[0] as u16
    }

    /// The next node of the slice's network.
    pub fn next(&self) -> SocketAddr {
        let address = Ipv6Addr::from(u128::from(self.0[2]) << 64 | u128::from(self.0[3]));
        let is_ipv4 = self.0[1] >> 8 & 1 == 1;
        let address = address.to_ipv4_mapped().filter(|_| is_ipv4).map_or(IpAddr::V6(address), IpAddr::V4);
        SocketAddr::new(address, (self.0[1] >> 32) as u16)
    }

    /// The meta-interface and the next node, with the slice and the interface by which packets came.
    #[inline(always)]
    pub fn hop_key(&self, slice: TenantId, from: InterfaceId) -> HopKey {
        let port = self.0[1] >> 32 & 0xffff;
        let place = u64::from(self.interface()) | port << 16 | u64::from(slice.0) << 32 | u64::from(from.0) << 48;
        // An IPv6 address of a socket can be a mapped one. No unicast address begins with 64 ones.
        let family = if self.0[1] >> 8 & 1 == 1 { u64::MAX } else { 0 };
        [place, self.0[2] | family, self.0[3]]
    }

    /// The data of the filter.
    #[inline(always)]
    pub fn data(&self) -> [u8; DATA_BYTES] {
        let mut data = [0; DATA_BYTES];
        data.as_chunks_mut::<8>().0.iter_mut().zip(&self.0[4..]).for_each(|(data, word)| *data = word.to_be_bytes());
        data
    }

    /// The part for the code option of the slice.
    #[inline(always)]
    pub fn result(&self) -> LookupResult {
        LookupResult { queue: (self.0[0] >> 16) as u16, interface: self.interface(), data: self.data() }
    }
}

/// A row, in one cache line.
#[derive(Default)]
#[repr(align(64))]
struct RowCells([AtomicU64; WORDS]);

/// The rows of all slices.
pub(crate) struct ResultRows {
    chunks: Box<[OnceLock<Box<[RowCells; CHUNK]>>]>,
}

impl fmt::Debug for ResultRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResultRows of {}", self.chunks.len() * CHUNK)
    }
}

impl ResultRows {
    /// Rows with numbers below `most`.
    pub fn new(most: u32) -> ResultRows {
        ResultRows { chunks: (0..(most as usize).div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Writes a row that no table refers to.
    pub fn write(&self, number: u32, row: &Row) {
        let empty = || Box::new(std::array::from_fn(|_| RowCells::default()));
        let cells = &self.chunks[number as usize / CHUNK].get_or_init(empty)[number as usize % CHUNK];
        // Relaxed: the table that refers to the row is published under a lock, after this.
        cells.0.iter().zip(row.words()).for_each(|(cell, word)| cell.store(word, Relaxed));
    }

    /// Prefetches a row that a table refers to.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        if let Some(chunk) = self.chunks.get(number as usize / CHUNK).and_then(OnceLock::get) {
            prefetch(&raw const chunk[number as usize % CHUNK]);
        }
    }

    /// Reads a row that a table refers to.
    #[inline(always)]
    pub fn read(&self, number: u32) -> Option<RowWords> {
        let cells = &self.chunks.get(number as usize / CHUNK)?.get()?[number as usize % CHUNK];
        Some(RowWords(std::array::from_fn(|word| cells.0[word].load(Relaxed))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::EXCEPTION_CODES;

    #[test]
    fn row_is_read_as_it_was_written() {
        let rows = ResultRows::new(600);
        let hop = |next: &str| Hop {
            queue: u16::MAX,
            share: ShareId(u32::MAX),
            port: PortId(u16::MAX),
            interface: 0xfedc,
            next: next.parse().expect("it is an address"),
        };
        let nexts = ["192.0.2.1:65535", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:7", "0.0.0.0:0"];
        let sends = nexts.map(|next| RowAction::Send(hop(next)));
        let exceptions = (0..EXCEPTION_CODES as u8).filter_map(ExceptionCode::of).map(RowAction::Exception);
        for (number, action) in sends.into_iter().chain(exceptions).chain([RowAction::Drop]).enumerate() {
            for index in [None, Some(0), Some(65_534)] {
                let row = Row { action, index, data: std::array::from_fn(|at| at as u8 ^ 0xa5) };
                rows.write(500 + number as u32, &row);
                let words = rows.read(500 + number as u32).expect("it was written");
                let LookupResult { queue, interface, data } = words.result();
                assert_eq!((words.index(), data), (row.index, row.data));
                let (share, port) = words.leaf();
                let read = match words.diversion() {
                    None => RowAction::Send(Hop { queue, share, port, interface, next: words.next() }),
                    Some(Diversion::Exception(code)) => RowAction::Exception(code),
                    Some(_) => RowAction::Drop,
                };
                assert_eq!(read, action);
            }
        }
        assert!([0, 1000].iter().all(|number| rows.read(*number).is_none()));
    }
}
