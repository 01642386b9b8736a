//! The record of a packet between the stages of the function `slice`.

use crate::code::{Diversion, LookupKey};
use classifier::TenantId;

/// A packet of the batch that belongs to a slice.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// Its position in the batch.
    pub at: usize,
    pub slice: TenantId,
    pub interface: u16,
    pub key: LookupKey,
    /// The slow path has given its key.
    pub has_key: bool,
    /// The queue that the slow path has given.
    pub queue: Option<u16>,
    /// How often the slow path has returned it.
    pub rounds: u8,
    /// The MTU of its next hop, if it exceeds that.
    pub mtu: Option<u16>,
    /// The position of its result in the present look-up.
    pub result: usize,
    /// Its fate is in its record.
    pub is_done: bool,
}

impl Work {
    /// A received packet.
    pub fn received(at: usize, slice: TenantId, interface: u16) -> Work {
        let key = LookupKey::default();
        Work { at, slice, interface, key, has_key: false, queue: None, rounds: 0, mtu: None, result: 0, is_done: false }
    }
}

/// The result of a stage for a packet that continues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its key is to be looked up.
    LookUp,
    /// It is an outer packet again.
    Sent,
}

/// Why a packet does not continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Diverted(Diversion),
    /// Its route leads elsewhere.
    NoRoute,
    /// Its slice is suspended, or has used up its processor time.
    Suspended,
}

impl From<Diversion> for Stop {
    fn from(diversion: Diversion) -> Stop {
        Stop::Diverted(diversion)
    }
}
