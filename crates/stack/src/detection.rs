//! Whether an address of the router's own is somebody else's already (RFC 4862 5.4).
//!
//! An address is used from the first moment, as an optimistic one (RFC 4429): others may reach the router by it and the
//! router speaks from it, but in a way that takes it from nobody who has it already. RFC 4429 would have addresses that
//! people have typed in wait for a second; but a router that has crashed and is back forwards again at once, and cannot
//! without asking its neighbours from some address. One that is found to be somebody else's is not used, and tried again
//! after some minutes.

use super::output::written;
use super::{ANNOUNCEMENTS, Chore, Host, World};
use packet::event::Event;
use packet::wire::{ipv6, ndp};
use std::net::{IpAddr, Ipv6Addr};
use units::{InterfaceId, Mac, Nanos};

/// How long others may take to object (RFC 4862 5.1, RetransTimer; they are asked once).
const PATIENCE: Nanos = Nanos::secs(1);
/// How long an address that is another's is left alone.
const AGAIN: Nanos = Nanos::secs(300);
/// Room for a solicitation with its IPv6 header.
const ROOM: usize = 128;

/// How far an address has got. One that is the router's beyond doubt is not in any of these states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Detection {
    /// Nobody was asked yet.
    New,
    /// Somebody may object.
    Asked,
    /// Somebody has.
    Duplicate,
    /// It was another's, and somebody may object again.
    AskedAgain,
}

/// What an address of the router's may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Everything.
    Own,
    /// Everything that takes it from nobody.
    Optimistic,
    /// Nothing: it is another's.
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

    /// Whether an address of the router's is another's.
    pub(super) fn is_lost(&self, id: InterfaceId, address: Ipv6Addr) -> bool {
        self.standing(id, address) == Standing::Lost
    }

    /// The next thing to do about an address.
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

    /// A station speaks of an address of the router's as its own, or looks whether it may have it. Answers whether that
    /// decides anything: an address that is the router's beyond doubt is not given up.
    pub(super) fn object(&mut self, id: InterfaceId, address: Ipv6Addr, mac: Mac, world: &mut impl World) -> bool {
        let now = world.now();
        let Some(attachment) = self.attachments.get_mut(&id) else { return false };
        let Some(&(detection, at)) = attachment.detections.get(&address) else { return false };
        if mac == attachment.known.mac {
            // Our own question, come back round some loop (RFC 4862 appendix A).
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
