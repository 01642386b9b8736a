//! Reverts a translation. An ICMP error must quote the packet as its sender sent it (RFC 5508 REQ-4), and must not reveal an inside address.

use super::translate::{Form, PacketEnd, PacketView, rewrite};
use super::{NatRules, NatState};
use packet::Packet;

impl NatState {
    /// Restores the original ends of a translated packet. Returns false, and leaves the packet unchanged, if its connection has expired.
    pub fn restore(&self, rules: &NatRules, packet: &mut Packet) -> bool {
        let view = |packet: &Packet| {
            let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
            PacketView::of(l3).filter(|view| view.form == Form::Flow)
        };
        let Some(now) = view(packet) else { return false };
        let get = |slot: Option<u32>| slot.map(|slot| *self.table.connection(slot));
        if rules.outside_of(packet.meta().in_interface).is_some() {
            // From the outside: only the destination was translated.
            let known = get(self.table.from_inside(now.protocol, now.destination, now.source));
            known.inspect(|known| rewrite(packet, &now, PacketEnd::Destination, known.outside)).is_some()
        } else if let Some(known) = get(self.table.from_outside(now.protocol, now.source, now.destination)) {
            rewrite(packet, &now, PacketEnd::Source, known.inside);
            true
        } else {
            // Hairpinned, from the inside to one of our addresses and back inside: both ends were translated.
            let Some(behind) = get(self.table.from_inside(now.protocol, now.destination, now.source)) else {
                return false;
            };
            let before = get(self.table.from_outside(now.protocol, now.source, behind.outside));
            let Some(before) = before else { return false };
            rewrite(packet, &now, PacketEnd::Destination, behind.outside);
            let Some(turned) = view(packet) else { return false };
            rewrite(packet, &turned, PacketEnd::Source, before.inside);
            true
        }
    }
}
