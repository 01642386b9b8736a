//! The request of a tenant: a slice with its quotas, queues and filters.

use crate::code::{CodeConfig, DATA_BYTES, ExceptionCode};
use classifier::KeyRange;
use plan::{Name, ShareName};
use std::fmt;
use std::net::SocketAddr;
use units::{Bytes, PacketRate, Parts, Rate};

/// The resources that a slice may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceQuota {
    /// Entries of the table of filters.
    pub filters: usize,
    /// Queues.
    pub queues: usize,
    /// Meta-interfaces.
    pub interfaces: usize,
    /// Statistics indices of its own, at most 65535.
    pub indices: usize,
    /// Memory of its code option.
    pub memory: Bytes,
    /// The sum of the limits of its queues.
    pub buffers: Bytes,
    /// The sum of the rates that it reserves.
    pub rate: Rate,
    /// Packets a second that its slow path gets.
    pub exceptions: PacketRate,
    /// The part of a processor for its parse and format; `None`: no limit of its own.
    pub cpu: Option<Parts>,
}

impl Default for SliceQuota {
    fn default() -> SliceQuota {
        SliceQuota {
            filters: 1024,
            queues: 16,
            interfaces: 16,
            indices: 256,
            memory: Bytes::new(64 << 10),
            buffers: Bytes::new(16 << 20),
            rate: Rate::ZERO,
            exceptions: PacketRate::pps(1000),
            cpu: None,
        }
    }
}

/// The user whose programs may change a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SliceOwner {
    /// By number.
    Uid(u32),
    /// By name, which the router of a machine looks up.
    Name(String),
}

impl SliceOwner {
    /// The number, once it is known.
    pub fn uid(&self) -> Option<u32> {
        match self {
            SliceOwner::Uid(uid) => Some(*uid),
            SliceOwner::Name(_) => None,
        }
    }
}

/// A slice to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceSpec {
    /// Its name: 1 to 20 letters, digits, `-` and `_`.
    pub name: Name,
    /// Its code option.
    pub code: String,
    /// The settings of the code option.
    pub config: CodeConfig,
    /// Its quotas.
    pub quota: SliceQuota,
    /// True if packets without a filter are dropped. Otherwise they go to the slow path.
    pub drops_unmatched: bool,
    /// The user whose programs may change it; none if only the operator may.
    pub owner: Option<SliceOwner>,
}

/// The part of a link that a slice gets: a share below that of a scheduler.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SchedulerId {
    /// The port.
    pub port: Name,
    /// The share of the port that is the scheduler; `None` for the port itself.
    pub share: Option<ShareName>,
}

impl fmt::Display for SchedulerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.share {
            Some(share) => write!(f, "{share} of port {}", self.port),
            None => write!(f, "port {}", self.port),
        }
    }
}

/// The rates of a slice at a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SliceRates {
    /// The rate that is reserved for its queues together.
    pub rate: Option<Rate>,
    /// The rate that they never exceed.
    pub ceiling: Option<Rate>,
    /// Their part of what others leave, 1 to 10000; 1 by default.
    pub weight: Option<u32>,
}

/// A queue of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// The scheduler that serves it.
    pub scheduler: SchedulerId,
    /// Its part of the slice's rate at the scheduler, in proportion to the other queues: 1 to 10000.
    pub weight: u32,
    /// The bytes that wait in it at most, first in, first out; `None` for the queueing scheme of the port.
    pub limit: Option<Bytes>,
}

/// The treatment of the packets of a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterAction {
    /// They are formatted and sent.
    Send {
        /// The slice's queue.
        queue: u16,
        /// The meta-interface whose address and port are the source.
        interface: u16,
        /// The address and UDP port of the next node.
        next: SocketAddr,
        /// Data for the code option.
        data: [u8; DATA_BYTES],
    },
    /// They go to the slow path.
    Exception(ExceptionCode),
    /// They are dropped.
    Drop,
}

/// A filter of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterSpec {
    /// The first bytes of keys; those behind do not matter.
    pub value: Vec<u8>,
    /// The bits that are compared: as many bytes.
    pub mask: Vec<u8>,
    /// Ranges of fields.
    pub ranges: Vec<KeyRange>,
    /// The treatment of its packets.
    pub action: FilterAction,
    /// The statistics index that counts its packets.
    pub index: Option<u16>,
}

/// A change of a slice's filters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterEdit {
    /// Adds a filter at a position without one. The filter at the lowest position that matches decides.
    Insert(u32, FilterSpec),
    /// Replaces the filter at a position. Its counter continues.
    Replace(u32, FilterSpec),
    /// Deletes the filter at a position.
    Delete(u32),
}

/// Why a change of slices is refused. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceError {
    /// The fault.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

impl SliceError {
    pub(crate) fn new(reason: impl Into<String>, hint: impl Into<String>) -> SliceError {
        SliceError { reason: reason.into(), hint: hint.into() }
    }
}

impl fmt::Display for SliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.hint)
    }
}

impl std::error::Error for SliceError {}
