//! A place of a router that executes instructions, to be asked packet by packet.

use esp::isa::{Instruction, Opcode};
use esp::site::{Fate, Location, Rules, Site};
use esp::store::{Epochs, Grace, Shard, Store, StoreSpec};
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::Instant;

/// Where a part begins: behind an IPv4 header without options.
pub const HEADER: usize = 20;

/// From one host to another.
pub const THERE: Addresses = Addresses::V4(Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(203, 0, 113, 9));

/// A part to be executed where packets come in.
pub fn part(computation: u64, instruction: Instruction) -> Part {
    let locations = Locations::INPUT;
    Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
}

/// A store's shard with the executor before it.
pub struct Spot {
    /// The executor.
    pub site: Site,
    rules: Rules,
    /// A packet for each instruction, whose part is written anew each time.
    packets: Vec<Vec<u8>>,
}

impl Spot {
    /// Of a shard, at the router that others know as `node`.
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

    /// Of a store of its own, of one part.
    pub fn of(spec: StoreSpec, node: u64) -> Spot {
        let mut store = Store::new(spec, &Arc::new(Epochs::new(1)), Grace::Counters);
        Spot::new(store.shards.remove(0), node)
    }

    /// What becomes of a packet with this part as it comes in.
    pub fn pass(&mut self, now: Instant, part: &Part) -> Fate {
        self.pass_at(Location::Input, now, part)
    }

    /// What becomes of it at any place.
    pub fn pass_at(&mut self, location: Location, now: Instant, part: &Part) -> Fate {
        let packet = &mut self.packets[usize::from(part.instruction.opcode().number())];
        part.write(&mut packet[HEADER..]);
        let mut fates = [Fate::Passed];
        self.site.process((&self.rules, location), now, std::slice::from_mut(packet), &mut fates);
        fates[0]
    }

    /// The same for whoever forwards it: the part as it goes on, where it does.
    pub fn forward(&mut self, location: Location, now: Instant, part: &Part) -> Option<Part> {
        let fate = self.pass_at(location, now, part);
        let packet = &self.packets[usize::from(part.instruction.opcode().number())];
        if fate == Fate::Dropped { None } else { Part::read(&packet[HEADER..]).ok() }
    }
}

/// Says in an IPv4 header how long the packet is. Its own checksum is nobody's business here.
fn set_length(packet: &mut [u8]) {
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
}
