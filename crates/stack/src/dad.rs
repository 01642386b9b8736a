//! Duplicate address detection for local addresses (RFC 4862 5.4).
//!
//! An address is used at once as an optimistic one (RFC 4429): others may reach the router by it, and the router sends from it, but without
//! overriding the neighbour caches of others. RFC 4429 excludes manually configured addresses from this. A router that restarts must forward at once,
//! however, and cannot resolve neighbours without a source address. A duplicate address is not used, and is probed again after some minutes.

use super::output::packet_with;
use super::{ANNOUNCEMENTS, LocalProtocols, TimedAction, World};
use packet::event::Event;
use packet::wire::{ipv6, ndp};
use std::net::{IpAddr, Ipv6Addr};
use units::{InterfaceId, Mac, Nanos};

/// The time for other hosts to object (RFC 4862 5.1, RetransTimer; one probe is sent).
const OBJECTION_TIMEOUT: Nanos = Nanos::secs(1);
/// The time before a duplicate address is probed again.
const RETRY_INTERVAL: Nanos = Nanos::secs(300);
/// The buffer size for a solicitation with its IPv6 header.
const ROOM: usize = 128;

/// The progress of detection. An address that has passed it is in none of these states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DetectionState {
    /// No probe was sent yet.
    New,
    /// A probe was sent, and a host may object.
    Probing,
    /// A host has objected.
    Duplicate,
    /// A duplicate address was probed again.
    ProbingAgain,
}

/// The permitted uses of a local address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddressStatus {
    /// All uses.
    Own,
    /// All uses that do not override another host.
    Optimistic,
    /// None: another host has it.
    Duplicate,
}

impl LocalProtocols {
    pub(super) fn address_status(&self, id: InterfaceId, address: Ipv6Addr) -> AddressStatus {
        let detection = self.interfaces.get(&id).and_then(|attachment| attachment.detections.get(&address));
        match detection {
            None => AddressStatus::Own,
            Some((DetectionState::New | DetectionState::Probing, _)) => AddressStatus::Optimistic,
            Some((DetectionState::Duplicate | DetectionState::ProbingAgain, _)) => AddressStatus::Duplicate,
        }
    }

    /// True if a local address is a duplicate.
    pub(super) fn is_duplicate(&self, id: InterfaceId, address: Ipv6Addr) -> bool {
        self.address_status(id, address) == AddressStatus::Duplicate
    }

    /// The next step of detection for an address.
    pub(super) fn continue_detection(&mut self, id: InterfaceId, address: Ipv6Addr, world: &mut impl World) {
        let now = world.now();
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        let Some(&(detection, _)) = attachment.detections.get(&address) else { return };
        let next = match detection {
            DetectionState::New => DetectionState::Probing,
            DetectionState::Duplicate => DetectionState::ProbingAgain,
            DetectionState::Probing | DetectionState::ProbingAgain => {
                attachment.detections.remove(&address);
                if Some(address) == attachment.interface.link_local() {
                    // Earlier reports had the unspecified source: repeat them from the verified address.
                    attachment.group_reports.report_all_again(now);
                    self.schedule_report(id);
                }
                self.timers.insert((now, id, TimedAction::Announce(address.into(), ANNOUNCEMENTS)));
                return;
            }
        };
        attachment.detections.insert(address, (next, now + OBJECTION_TIMEOUT));
        self.timers.insert((now + OBJECTION_TIMEOUT, id, TimedAction::Detect(address)));
        let (own, group) = (attachment.interface.mac, ipv6::solicited_node(address));
        let write =
            |buffer: &mut [u8]| ndp::write_neighbour_solicitation(buffer, Ipv6Addr::UNSPECIFIED, group, address, own);
        if let Some(packet) = packet_with(ROOM, world, write) {
            self.transmit_ip(id, packet, ipv6::multicast_mac(group), world);
        }
    }

    /// Another host uses a local address or probes for it. Returns true if detection handles it. An address that has passed detection is not given
    /// up.
    pub(super) fn receive_objection(
        &mut self,
        id: InterfaceId,
        address: Ipv6Addr,
        mac: Mac,
        world: &mut impl World,
    ) -> bool {
        let now = world.now();
        let Some(attachment) = self.interfaces.get_mut(&id) else { return false };
        let Some(&(detection, at)) = attachment.detections.get(&address) else { return false };
        if mac == attachment.interface.mac {
            // Our own probe, returned through a loop (RFC 4862 appendix A).
            return true;
        }
        self.timers.remove(&(at, id, TimedAction::Detect(address)));
        attachment.detections.insert(address, (DetectionState::Duplicate, now + RETRY_INTERVAL));
        self.timers.insert((now + RETRY_INTERVAL, id, TimedAction::Detect(address)));
        if detection != DetectionState::Duplicate {
            world.event(Event::AddressConflict { interface: id, address: IpAddr::V6(address), mac });
        }
        true
    }
}
