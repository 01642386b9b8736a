//! Duplicate address detection for local addresses (RFC 4862 5.4).
//!
//! An address is used at once as an optimistic one (RFC 4429): others may reach the router by it, and the router sends from it, but without
//! overriding the neighbour caches of others. RFC 4429 excludes manually configured addresses from this. A router that restarts must forward at once,
//! however, and cannot resolve neighbours without a source address. A duplicate address is not used, and is probed again after some minutes.

use super::output::written;
use super::{ANNOUNCEMENTS, Chore, Host, World};
use packet::event::Event;
use packet::wire::{ipv6, ndp};
use std::net::{IpAddr, Ipv6Addr};
use units::{InterfaceId, Mac, Nanos};

/// The time for other hosts to object (RFC 4862 5.1, RetransTimer; one probe is sent).
const PATIENCE: Nanos = Nanos::secs(1);
/// The time before a duplicate address is probed again.
const AGAIN: Nanos = Nanos::secs(300);
/// The buffer size for a solicitation with its IPv6 header.
const ROOM: usize = 128;

/// The progress of detection. An address that has passed it is in none of these states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Detection {
    /// No probe was sent yet.
    New,
    /// A probe was sent, and a host may object.
    Asked,
    /// A host has objected.
    Duplicate,
    /// A duplicate address was probed again.
    AskedAgain,
}

/// The permitted uses of a local address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// All uses.
    Own,
    /// All uses that do not override another host.
    Optimistic,
    /// None: another host has it.
    Lost,
}

impl Host {
    pub(super) fn standing(&self, id: InterfaceId, address: Ipv6Addr) -> Standing {
        let detection = self.attachments.get(&id).and_then(|attachment| attachment.detections.get(&address));
        match detection {
            None => Standing::Own,
            Some((Detection::New | Detection::Asked, _)) => Standing::Optimistic,
            Some((Detection::Duplicate | Detection::AskedAgain, _)) => Standing::Lost,
        }
    }

    /// True if a local address is a duplicate.
    pub(super) fn is_lost(&self, id: InterfaceId, address: Ipv6Addr) -> bool {
        self.standing(id, address) == Standing::Lost
    }

    /// The next step of detection for an address.
    pub(super) fn detect(&mut self, id: InterfaceId, address: Ipv6Addr, world: &mut impl World) {
        let now = world.now();
        let Some(attachment) = self.attachments.get_mut(&id) else { return };
        let Some(&(detection, _)) = attachment.detections.get(&address) else { return };
        let next = match detection {
            Detection::New => Detection::Asked,
            Detection::Duplicate => Detection::AskedAgain,
            Detection::Asked | Detection::AskedAgain => {
                attachment.detections.remove(&address);
                if Some(address) == attachment.known.link_local() {
                    // Earlier reports had the unspecified source: repeat them from the verified address.
                    attachment.membership.again(now);
                    self.schedule_report(id);
                }
                self.timers.insert((now, id, Chore::Announce(address.into(), ANNOUNCEMENTS)));
                return;
            }
        };
        attachment.detections.insert(address, (next, now + PATIENCE));
        self.timers.insert((now + PATIENCE, id, Chore::Detect(address)));
        let (own, group) = (attachment.known.mac, ipv6::solicited_node(address));
        let write =
            |buffer: &mut [u8]| ndp::write_neighbour_solicitation(buffer, Ipv6Addr::UNSPECIFIED, group, address, own);
        if let Some(packet) = written(ROOM, world, write) {
            self.transmit_ip(id, packet, ipv6::multicast_mac(group), world);
        }
    }

    /// Another host uses a local address or probes for it. Returns true if detection handles it. An address that has passed detection is not given
    /// up.
    pub(super) fn object(&mut self, id: InterfaceId, address: Ipv6Addr, mac: Mac, world: &mut impl World) -> bool {
        let now = world.now();
        let Some(attachment) = self.attachments.get_mut(&id) else { return false };
        let Some(&(detection, at)) = attachment.detections.get(&address) else { return false };
        if mac == attachment.known.mac {
            // Our own probe, returned through a loop (RFC 4862 appendix A).
            return true;
        }
        self.timers.remove(&(at, id, Chore::Detect(address)));
        attachment.detections.insert(address, (Detection::Duplicate, now + AGAIN));
        self.timers.insert((now + AGAIN, id, Chore::Detect(address)));
        if detection != Detection::Duplicate {
            world.event(Event::AddressConflict { interface: id, address: IpAddr::V6(address), mac });
        }
        true
    }
}
