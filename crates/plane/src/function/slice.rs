//! The function `slice`: the end of packets for the fast paths of tenants. The service of slices provides it ([`Functions::with_service`]).
//!
//! A router without that service has no slices, so all packets have an unknown port.
//!
//! [`Functions::with_service`]: super::Functions::with_service

use super::{Context, Function, FunctionRegistration};
use packet::{DropReason, Meta, Packet};
use units::Nanos;
use units::declare::{Declaration, DeclaredCost};

/// The declaration of the function.
pub const SLICE: Declaration = Declaration {
    name: "slice",
    summary: "process the packets of slices: the destination of each outer UDP packet selects its slice",
    cost: DeclaredCost::Measured { packet: Nanos::new(150), kilobyte: Nanos::new(100) },
    source: "Turner et al. 2007, section 4",
    options: &[],
};

pub(super) const REGISTRATION: FunctionRegistration =
    FunctionRegistration { declaration: SLICE, make: |_, _| Box::new(NoSlices) };

/// A router without slices.
struct NoSlices;

impl Function for NoSlices {
    fn process(&mut self, _: Context<'_>, packets: &mut [Packet]) -> bool {
        let is_received = |meta: &Meta| meta.refused | meta.exception == 0 && meta.flags & Meta::LOCAL != 0;
        for packet in packets.iter_mut().filter(|packet| is_received(packet.meta())) {
            packet.meta_mut().refused = DropReason::SlicePort.index() as u8 + 1;
        }
        packets.is_empty()
    }
}
