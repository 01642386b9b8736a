//! A place of a router that executes instructions, for one packet at a time.

use esp::isa::{Opcode, StateInstruction};
use esp::site::{ExecutionRules, InstructionFate, Location, Site};
use esp::store::{Grace, Shard, Store, StoreSpec, WorkerEpochs};
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::Instant;

/// The offset of a part: behind an IPv4 header without options.
pub const HEADER: usize = 20;

/// The addresses of the two hosts.
pub const HOST_ADDRESSES: Addresses = Addresses::V4(Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(203, 0, 113, 9));

/// A part that is executed at the input.
pub fn part(computation: u64, instruction: StateInstruction) -> Part {
    let locations = Locations::INPUT;
    Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
}

/// A shard of a store with the executor in front of it.
pub struct PacketExecutor {
    /// The executor.
    pub site: Site,
    rules: ExecutionRules,
    /// A packet buffer for each instruction, reused for every packet.
    packets: Vec<Vec<u8>>,
}

impl PacketExecutor {
    /// Uses this shard, at the router with the number `node`.
    pub fn new(shard: Shard, node: u64) -> PacketExecutor {
        let empty = |opcode: &Opcode| {
            let bytes = [vec![0; opcode.length()]].concat();
            let mut packet = dedicated(&Carriages::default(), HOST_ADDRESSES, &part(0, StateInstruction::Nop));
            packet.truncate(HEADER);
            packet.extend(bytes);
            set_length(&mut packet);
            packet
        };
        let packets = Opcode::ALL.iter().map(empty).collect();
        PacketExecutor { site: Site::new(shard), rules: ExecutionRules::of(node), packets }
    }

    /// Uses a store of its own with one shard.
    pub fn with_own_store(spec: StoreSpec, node: u64) -> PacketExecutor {
        let mut store = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        PacketExecutor::new(store.shards.remove(0), node)
    }

    /// The fate of a packet with this part at the input.
    pub fn execute(&mut self, now: Instant, part: &Part) -> InstructionFate {
        self.execute_at(Location::Input, now, part)
    }

    /// The fate of a packet with this part at a given place.
    pub fn execute_at(&mut self, location: Location, now: Instant, part: &Part) -> InstructionFate {
        let packet = &mut self.packets[usize::from(part.instruction.opcode().number())];
        part.write(&mut packet[HEADER..]);
        let mut fates = [InstructionFate::PassedThrough];
        self.site.process((&self.rules, location), now, std::slice::from_mut(packet), &mut fates);
        fates[0]
    }

    /// The same for a forwarding caller: returns the part as it is forwarded, or none if the packet is dropped.
    pub fn forward(&mut self, location: Location, now: Instant, part: &Part) -> Option<Part> {
        let fate = self.execute_at(location, now, part);
        let packet = &self.packets[usize::from(part.instruction.opcode().number())];
        if fate == InstructionFate::Dropped { None } else { Part::read(&packet[HEADER..]).ok() }
    }
}

/// Sets the length field of an IPv4 header. Nothing here checks the header checksum.
fn set_length(packet: &mut [u8]) {
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
}
