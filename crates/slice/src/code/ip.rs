//! The data of filters for IP packets, of both families.

use crate::code::DATA_BYTES;

const FORWARD: u8 = 0;
const LOCAL: u8 = 1;
const DROP: u8 = 2;

/// The action of a filter for IP packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpAction {
    /// Forward to the next hop of the filter.
    Forward {
        /// Its MTU in bytes. Longer packets are exceptions.
        mtu: u16,
    },
    /// Leave the packet to the slow path: it is for an address of the router, or for all hosts of one of its networks.
    Local,
    /// Drop the packet.
    Drop,
}

impl IpAction {
    /// The data of a filter with this action: its kind, and the MTU in the next two bytes. An MTU of zero is none.
    pub fn data(self) -> [u8; DATA_BYTES] {
        let mut data = [0; DATA_BYTES];
        match self {
            IpAction::Forward { mtu } => data[1..3].copy_from_slice(&mtu.to_be_bytes()),
            IpAction::Local => data[0] = LOCAL,
            IpAction::Drop => data[0] = DROP,
        }
        data
    }

    /// The action in the data of a filter. `None` for data of no action.
    pub fn of(data: &[u8; DATA_BYTES]) -> Option<IpAction> {
        match (data[0], u16::from_be_bytes([data[1], data[2]])) {
            (FORWARD, 0) => Some(IpAction::Forward { mtu: u16::MAX }),
            (FORWARD, mtu) => Some(IpAction::Forward { mtu }),
            (LOCAL, _) => Some(IpAction::Local),
            (DROP, _) => Some(IpAction::Drop),
            _ => None,
        }
    }
}
