//! A place of a router that executes instructions, for one packet at a time.

use esp::isa::{Instruction, Opcode};
use esp::site::{Fate, Location, Rules, Site};
use esp::store::{Epochs, Grace, Shard, Store, StoreSpec};
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::Instant;

/// The offset of a part: behind an IPv4 header without options.
pub const HEADER: usize = 20;

/// The addresses of the two hosts.
pub const THERE: Addresses = Addresses::V4(Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(203, 0, 113, 9));

/// A part that is executed at the input.
pub fn part(computation: u64, instruction: Instruction) -> Part {
    let locations = Locations::INPUT;
    Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
}

/// A shard of a store with the executor in front of it.
pub struct Spot {
    /// The executor.
    pub site: Site,
    rules: Rules,
    /// A packet buffer for each instruction, reused for every packet.
    packets: Vec<Vec<u8>>,
}

impl Spot {
    /// Uses this shard, at the router with the number `node`.
    pub fn new(shard: Shard, node: u64) -> Spot {
        let empty = |opcode: &Opcode| {
            let bytes = [vec![0; opcode.length()]].concat();
            let mut packet = dedicated(&Carriages::default(), THERE, &part(0, Instruction::Nop));
            packet.truncate(HEADER);
            packet.extend(bytes);
            set_length(&mut packet);
            packet
        };
        let packets = Opcode::ALL.iter().map(empty).collect();
        Spot { site: Site::new(shard), rules: Rules::of(node), packets }
    }

    /// Uses a store of its own with one shard.
    pub fn of(spec: StoreSpec, node: u64) -> Spot {
        let mut store = Store::new(spec, &Arc::new(Epochs::new(1)), Grace::Counters);
        Spot::new(store.shards.remove(0), node)
    }

    /// The fate of a packet with this part at the input.
    pub fn pass(&mut self, now: Instant, part: &Part) -> Fate {
        self.pass_at(Location::Input, now, part)
    }

    /// The fate of a packet with this part at a given place.
    pub fn pass_at(&mut self, location: Location, now: Instant, part: &Part) -> Fate {
        let packet = &mut self.packets[usize::from(part.instruction.opcode().number())];
        part.write(&mut packet[HEADER..]);
        let mut fates = [Fate::Passed];
        self.site.process((&self.rules, location), now, std::slice::from_mut(packet), &mut fates);
        fates[0]
    }

    /// The same for a forwarding caller: returns the part as it is forwarded, or none if the packet is dropped.
    pub fn forward(&mut self, location: Location, now: Instant, part: &Part) -> Option<Part> {
        let fate = self.pass_at(location, now, part);
        let packet = &self.packets[usize::from(part.instruction.opcode().number())];
        if fate == Fate::Dropped { None } else { Part::read(&packet[HEADER..]).ok() }
    }
}

/// Sets the length field of an IPv4 header. Nothing here checks the header checksum.
fn set_length(packet: &mut [u8]) {
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
}
