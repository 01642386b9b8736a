//! The classifier: finds the input interface, checks the headers, looks up the route, and selects the path of every packet.
//!
//! It processes a batch in chunks, and each chunk in two passes, so that the memory accesses of its route lookups overlap. The first pass checks the
//! headers; the second acts on the routes. All packets but plain IPv4 to another network go through [`general`].

mod decisions;
mod general;
mod passthrough;
mod path_rules;
mod reclassify;
mod route_cache;
mod routing;
mod scratch;
mod sources;
mod witness;

pub(crate) use reclassify::{UNCHANGED, is_redirected};
pub(crate) use route_cache::PortRouteCache;
pub(crate) use scratch::Scratch;
pub use witness::{Finding, Unwitnessed, Witness};

use crate::filter::PathMarks;
use crate::hook::Marks;
use crate::multicast::KernelGroups;
use crate::punt::{is_shared, protocol_of, source_of};
use crate::snapshot::{Egress, PathSpec, PortView, Snapshot};
use classifier::{PublishedReader, RuleReader};
use fib::{LinkAddress, Outcome, Tables};
use packet::segment::{is_to_fragment, wire_length};
use packet::wire::{Ethernet, flow_hash, ipv4};
use packet::{BATCH, DropReason, Exception, Meta, Packet};
use plan::ReversePath;
use scratch::{CHUNK, ChunkFields, Memo, NO_MEMO, ROUTE_BITS, apply_memos};
use stack::{Interface, ObjectiveSource, ObjectiveTable};
use std::cell::RefCell;
use std::ops::Range;
use units::{AdjacencyId, Instant, InterfaceId, Mac, PathId, PortId};

/// The index of a packet's path instance in the worker.
pub(crate) type Target = u16;
/// The packet is refused: `Meta::refused` has the reason.
pub(crate) const REFUSED: Target = Target::MAX;

/// The packet is to be replicated. Its adjacency is the position of its multicast route, its version the position of its path.
pub(crate) const REPLICATED: Target = Target::MAX - 1;

/// The packet's target depends on its route, which the second pass reads.
pub(crate) const UNDECIDED: Target = Target::MAX - 2;

/// The packet has arrived at the end of a tunnel. Its egress interface is the one with its destination.
pub(crate) const TUNNELLED: Target = Target::MAX - 3;

/// The path instance for each path and port, on one worker.
#[derive(Default)]
pub(crate) struct Dispatch {
    ports: usize,
    instances: Vec<Target>,
    /// The rules that select paths, as this worker sees and counts them.
    rules: RefCell<RuleReader>,
    /// The rules that select routes.
    routing: RefCell<RuleReader>,
    /// The multicast routes of programs of the machine.
    pub groups: RefCell<PublishedReader<KernelGroups>>,
    /// The position of `best-effort` among the paths of the snapshot.
    pub best_effort: usize,
    /// The instance for packets that concern the router itself.
    pub control: Target,
    /// The instance for packets that the fast path cannot process.
    pub general: Target,
}

impl Dispatch {
    /// `served`: each instance with the position of its path and its port.
    pub fn new(
        (paths, ports): (usize, usize),
        best_effort: usize,
        (control, general): (Target, Target),
        snapshot: &Snapshot,
        served: impl Iterator<Item = (usize, PortId, Target)>,
    ) -> Dispatch {
        let mut instances = vec![REFUSED; paths * ports];
        for (path, port, target) in served {
            instances[path * ports + port.index()] = target;
        }
        let [rules, routing] =
            [&snapshot.rules, &snapshot.routing].map(|list| RefCell::new(RuleReader::new(list).with_flow_caches()));
        let groups = RefCell::new(PublishedReader::new(&snapshot.kernel_groups));
        Dispatch { ports, instances, rules, routing, groups, best_effort, control, general }
    }

    /// Takes over changes of the rules and of multicast routes. Once for each batch: all its packets see the same.
    #[inline]
    fn refresh_rules(&self) {
        self.rules.borrow_mut().refresh();
        self.routing.borrow_mut().refresh();
        self.groups.borrow_mut().refresh();
    }

    #[inline(always)]
    pub(crate) fn instance(&self, path: usize, port: PortId) -> Target {
        if port.index() >= self.ports {
            // The interface no longer exists, so its port is none. In the table the index would be the cell of another path.
            return REFUSED;
        }
        self.instances.get(path * self.ports + port.index()).copied().unwrap_or(REFUSED)
    }

    pub(crate) fn exception_instance(&self, exception: Exception) -> Target {
        match exception {
            Exception::Arp | Exception::Local | Exception::Kernel | Exception::Resolve | Exception::Tunnel => {
                self.control
            }
            _ => self.general,
        }
    }
}

/// The classifier of one worker in one step.
// Large: every decision about a packet needs the generation, the tables and the witness. Each concern has a file here.
#[derive(Clone, Copy)]
pub(crate) struct Classifier<'a, W = Unwitnessed> {
    pub snapshot: &'a Snapshot,
    pub tables: &'a Tables,
    pub dispatch: &'a Dispatch,
    /// Receives the reasons.
    pub witness: W,
}

/// Bytes of an Ethernet header without a tag, and of that with an IPv4 header without options.
const ETHERNET: usize = 14;
const PLAIN: usize = ETHERNET + ipv4::HEADER;
/// The same with the transport ports behind it. Shorter frames are not plain.
const PORTS: usize = PLAIN + 4;
/// The distance at which the first pass prefetches headers. Records are prefetched at twice this distance, because they have the address of the header.
const AHEAD: usize = 16;

/// The fields of a plain packet that matter besides its destination.
#[derive(Clone, Copy)]
struct HeaderFields {
    /// Length of the IP packet, in bytes.
    length: u16,
    tos: u8,
    ttl: u8,
}

/// The result of the first pass for a chunk.
#[derive(Default)]
struct FirstPass {
    /// The bytes of the packets on the wire.
    bytes: u64,
    /// True if a packet that is not plain may carry an instruction.
    may_instruct: bool,
    /// See [`Scratch::offloads`].
    offloads: bool,
}

/// The first eight bytes of frames to this MAC address, without the last two. The byte order is that of the frame, so that no bytes are swapped
/// for each frame.
fn mac_word(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([0, 0, a, b, c, d, e, f])
}

/// The link-layer address of the router whose untagged frames a batch may treat as plain: that of its first packet, because packets for a virtual router
/// come in runs. All other frames for the router take the general way.
#[cold]
fn station_of(view: &PortView, interface: Option<&Interface>, packets: &[Packet]) -> Mac {
    let first = packets.first().and_then(|packet| Ethernet::parse(packet.bytes()).ok()).map(|frame| frame.destination);
    let stations = interface.map_or(&[][..], |interface| &interface.stations);
    first.filter(|first| stations.contains(first)).unwrap_or(view.mac)
}

/// Bytes 6 to 9 of the IPv4 header of a frame without a tag, and the four bytes behind it, which [`Marks`] compare. Zero if the frame is shorter:
/// instructions never have protocol number zero.
fn instruction_fields(packet: &Packet) -> ([u8; 4], [u8; 4]) {
    let frame = packet.bytes().first_chunk::<PORTS>();
    frame.map_or_else(Default::default, |frame| {
        let word = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
        (word(ETHERNET + 6), word(PLAIN))
    })
}

/// The fields of a plain packet, read again from its header.
fn plain_fields(packet: &Packet, tos: u8) -> HeaderFields {
    let header = packet.bytes().get(ETHERNET..).and_then(<[u8]>::first_chunk::<{ ipv4::HEADER }>);
    // The first pass has found a header.
    let (length, ttl) = header.map_or((0, 0), |header| (u16::from_be_bytes([header[2], header[3]]), header[8]));
    HeaderFields { length, tos, ttl }
}

impl<W: Witness> Classifier<'_, W> {
    /// Classifies packets received on one port, all at `came` unless the port has stamped them. `cache` is that of the port. The targets are in
    /// `scratch`. Returns the number of bytes received.
    #[inline]
    pub fn classify_batch(
        &self,
        (id, view): (PortId, &PortView),
        arrival: Option<Instant>,
        packets: &mut [Packet],
        scratch: &mut Scratch,
        cache: &mut PortRouteCache,
    ) -> u64 {
        let Scratch { targets, offloads, hooked, dedicated, .. } = &mut *scratch;
        (*offloads, *hooked) = (false, false);
        let count = packets.len().min(BATCH);
        if view.passthrough.is_some() {
            // Pass-through ports may execute instructions too (spec E-40).
            *hooked = self.snapshot.hooks.is_some()
                && packets[..count].iter().any(|packet| self.snapshot.marks.may_be_on(packet.bytes()));
            if *hooked {
                dedicated[..count].fill(false);
            }
            return self.pass_batch((id, view), arrival, &mut packets[..count], (&mut targets[..count], offloads));
        }
        let interface = self.snapshot.interface(view.untagged);
        let wants = interface.map_or(&ObjectiveTable::EMPTY, |interface| &*interface.objectives);
        let check = interface.map_or(ReversePath::Off, |interface| interface.reverse_path);
        // If untagged packets have no IPv4 interface, no packet is plain: no frame's value equals this one, because its low 16 bits are zero.
        let routed = interface.is_some_and(|interface| interface.carries_ipv4);
        let own = if view.has_stations { station_of(view, interface, packets) } else { view.mac };
        let mac = if routed { mac_word(own) } else { u64::MAX };
        // All untagged packets of one port belong to the same VRF.
        let vrf = self.tables.vrf(self.tables.vrf_of(view.untagged));
        // Memos hold for one batch: adjacencies and the generation may change between batches.
        scratch.memos.words.fill(u32::MAX);
        scratch.selected = 0;
        // The first pass prefetches what lies ahead of its packet; nothing lies ahead of the first ones.
        packets[..count.min(2 * AHEAD)].iter().for_each(Packet::prefetch_meta);
        packets[..count.min(AHEAD)].iter().for_each(Packet::prefetch_bytes);
        // Once, so that the whole batch sees the same rules.
        self.dispatch.refresh_rules();
        let has_rules = !self.dispatch.rules.borrow().is_empty();
        let has_routing = !self.dispatch.routing.borrow().is_empty();
        let mut bytes = 0;
        for from in (0..count).step_by(CHUNK) {
            let chunk = from..count.min(from + CHUNK);
            bytes += self.first_pass((id, view, mac), arrival, &mut packets[from..count], (chunk.clone(), scratch));
            let ChunkFields { keys, words, .. } = &mut scratch.fields;
            let (keys, words) = (&keys[..chunk.len()], &mut words[..chunk.len()]);
            match (cache.active(), &vrf) {
                (None, None) => self.tables.fib4().lookup_prefetched(keys, words),
                (None, Some(vrf)) => vrf.lookup_bulk4(keys, words),
                (Some(active), vrf) => active.look_up(self.tables, *vrf, keys, words),
            }
            let packets = &mut packets[chunk.clone()];
            if check != ReversePath::Off {
                self.check_sources((id, view.untagged, check), arrival, packets, (from, scratch));
            }
            if has_routing {
                self.match_routing((id, view.untagged), arrival, packets, (from, scratch));
            }
            if has_rules {
                self.match_rules((view.untagged, arrival), packets, (from, scratch));
            }
            self.second_pass((id, view, wants), arrival, packets, (from, scratch), has_rules);
            if !scratch.marks.is_empty() {
                scratch.mark_packets(packets, from);
            }
        }
        bytes
    }

    /// The first pass over the packets `chunk` of a batch: reads the headers. `packets` begins with the chunk and has the rest of the batch, whose
    /// memory is prefetched. Returns the number of bytes received.
    // Not inlined, like the second pass: together they need more registers than there are.
    #[inline(never)]
    fn first_pass(
        &self,
        (id, view, mac): (PortId, &PortView, u64),
        arrival: Option<Instant>,
        packets: &mut [Packet],
        (chunk, scratch): (Range<usize>, &mut Scratch),
    ) -> u64 {
        let count = chunk.len();
        let Scratch { fields, targets, dedicated, offloads, hooked, .. } = scratch;
        let (targets, dedicated) = (&mut targets[chunk.clone()], &mut dedicated[chunk]);
        targets.fill(UNDECIDED);
        let mut seen = FirstPass::default();
        for packet in &packets[..count] {
            seen.bytes += packet.len() as u64;
        }
        let mut i = self.check_plain(mac, packets, fields, 0..count);
        while i < count {
            targets[i] = self.check_other((id, view), arrival, &mut packets[i], &mut seen);
            fields.record_not_plain(i);
            i += 1;
            // Packets that are not plain come in runs as well.
            if i < count && self.plain_destination(mac, &packets[i]).is_some() {
                i = self.check_plain(mac, packets, fields, i..count);
            }
        }
        // Packets to link-local addresses are not plain either. They are seldom, so the addresses are compared several at once.
        if fields.keys[..count].iter().fold(false, |any, key| any | (key >> 16 == LINK_LOCAL)) {
            for (i, packet) in packets.iter_mut().enumerate().take(count) {
                if fields.keys[i] >> 16 == LINK_LOCAL {
                    targets[i] = self.check_other((id, view), arrival, packet, &mut seen);
                    fields.record_not_plain(i);
                }
            }
        }
        *offloads |= seen.offloads;
        if self.snapshot.marks != Marks::NONE {
            *hooked |= self.mark(&packets[..count], targets, dedicated) || seen.may_instruct;
        }
        seen.bytes
    }

    /// Determines which packets of a chunk carry the protocol of instructions. Returns true if a plain one may carry an instruction.
    #[inline(never)]
    fn mark(&self, packets: &[Packet], targets: &[Target], dedicated: &mut [bool]) -> bool {
        let (mut hops, mut ports) = ([[0; 4]; CHUNK], [[0; 4]; CHUNK]);
        let count = packets.len().min(CHUNK);
        for (i, packet) in packets[..count].iter().enumerate() {
            if targets[i] == UNDECIDED {
                (hops[i], ports[i]) = instruction_fields(packet);
            }
        }
        let (marks, hops) = (self.snapshot.marks, &hops[..count]);
        dedicated.iter_mut().zip(hops).for_each(|(dedicated, hop)| *dedicated = marks.is_dedicated(hop));
        // Instructions are rare, so one vectorized test covers the chunk.
        marks.may_be_among(hops, &ports[..count])
    }

    /// Reads plain packets of a chunk, those in `range`, until one is not plain. Returns its position, or the end of the range if all are plain.
    // This function calls nothing, so that the registers suffice for the loop.
    #[inline(never)]
    fn check_plain(&self, mac: u64, packets: &mut [Packet], fields: &mut ChunkFields, range: Range<usize>) -> usize {
        let ChunkFields { keys, lengths, tos, .. } = fields;
        // All of one length, so that the loop needs no bounds checks.
        let count = range.end.min(packets.len()).min(CHUNK);
        let (keys, lengths, tos) = (&mut keys[..count], &mut lengths[..count], &mut tos[..count]);
        let prefetch_route = self.tables.fib4().prefetcher();
        for i in range.start..count {
            if let Some(packet) = packets.get(i + 2 * AHEAD) {
                packet.prefetch_meta();
            }
            if let Some(packet) = packets.get(i + AHEAD) {
                packet.prefetch_bytes();
            }
            let Some((destination, fact)) = self.plain_destination(mac, &packets[i]) else { return i };
            prefetch_route(destination);
            let end = ETHERNET + usize::from(fact.length);
            if end < packets[i].len() {
                // Padding of a short Ethernet frame does not belong to the packet.
                packets[i].resize(end);
            }
            (keys[i], tos[i]) = (destination, fact.tos);
            lengths[i] = if fact.ttl > 1 { fact.length } else { NO_MEMO };
        }
        count
    }

    /// Classifies a packet that is not plain.
    #[cold]
    #[inline(never)]
    fn check_other(
        &self,
        (id, view): (PortId, &PortView),
        arrival: Option<Instant>,
        packet: &mut Packet,
        seen: &mut FirstPass,
    ) -> Target {
        reset_meta(packet, arrival, id, view.untagged);
        seen.may_instruct |= self.snapshot.marks.may_be_on(packet.bytes());
        let target = self.classify_general(view, packet);
        seen.offloads |= is_to_fragment(packet);
        if packet.is_offloaded() {
            seen.offloads = true;
            // The length of a super-frame is counted already; its segments have more headers on the wire.
            seen.bytes += wire_length(packet).saturating_sub(packet.len()) as u64;
        }
        target
    }

    /// The second pass over a chunk that begins at packet `from` of its batch: acts on the routes of the packets that are still undecided.
    #[inline(never)]
    fn second_pass(
        &self,
        (id, view, wants): (PortId, &PortView, &ObjectiveTable),
        arrival: Option<Instant>,
        packets: &mut [Packet],
        (from, scratch): (usize, &mut Scratch),
        has_rules: bool,
    ) {
        let Scratch { fields, selected, memos, targets, dedicated, offloads, .. } = scratch;
        let count = packets.len().min(CHUNK);
        let (targets, dedicated) = (&mut targets[from..][..count], &mut dedicated[from..][..count]);
        let mut i = 0;
        while i < count {
            i = apply_memos((arrival, wants), packets, (&*fields, &*memos), targets, i);
            if i < count && targets[i] == UNDECIDED {
                let packet = &mut packets[i];
                reset_meta(packet, arrival, id, view.untagged);
                let (word, tos) = (fields.words[i], fields.tos[i]);
                packet.meta_mut().objective = wants.get(tos);
                packet.meta_mut().rounds = routing::rounds_of(*selected >> i & 1 != 0);
                // There are at most 253 paths: a position fits behind the 24 bits of a route.
                let position = if has_rules { (word >> ROUTE_BITS) as usize } else { self.dispatch.best_effort };
                let fact = plain_fields(packet, tos);
                let (target, mtu) = self.route_plain(packet, word, fact, position);
                targets[i] = target;
                dedicated[i] &= target != REFUSED;
                if mtu == 0 {
                    *offloads |= is_to_fragment(packet);
                // The objective of a packet is its own, unless its path has one.
                } else if self.snapshot.paths[position].objective.is_none() {
                    memos.store(word, Memo { target, mtu, meta: *packet.meta() });
                }
            }
            i += 1;
        }
    }

    /// Classifies one received packet without the memo of a batch. The verdict is the same, and the witness receives every finding.
    pub fn classify_one(&self, (id, view): (PortId, &PortView), arrival: Instant, packet: &mut Packet) -> Target {
        self.dispatch.refresh_rules();
        reset_meta(packet, Some(arrival), id, view.untagged);
        if view.passthrough.is_some() {
            return self.pass(view, packet);
        }
        self.classify_general(view, packet)
    }

    /// The destination of a plain packet: untagged, valid IPv4 without options, to be forwarded. `None` for all others.
    #[inline(always)]
    fn plain_destination(&self, mac: u64, packet: &Packet) -> Option<(u32, HeaderFields)> {
        let bytes = packet.bytes();
        let frame = bytes.first_chunk::<PORTS>()?;
        let (link, header) = frame.split_first_chunk::<ETHERNET>()?;
        let header: &[u8; ipv4::HEADER] = header.first_chunk()?;
        // Eight bytes are read at once; the shift drops the two that belong to the source.
        let station = u64::from_le_bytes(*link.first_chunk()?) << 16;
        // The ethertype, the IP version and header length, and the type of service, in one load.
        let kind = u32::from_be_bytes([frame[12], frame[13], frame[14], frame[15]]);
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        let fact = HeaderFields { length: length as u16, tos: kind as u8, ttl: header[8] };
        let sound = station == mac
            && kind & !0xff == 0x0800_4500
            && length >= ipv4::HEADER
            && ETHERNET + length <= bytes.len()
            && ipv4::header_checksum_ok_20(header)
            && !MARTIAN_SOURCE[(source >> 24) as usize]
            && !self.snapshot.may_be_own4(source)
            && packet.meta().refused == 0
            && !packet.is_offloaded();
        if !sound {
            return None;
        }
        Some((destination, fact))
    }

    /// The target of a plain packet, and the maximum length of other packets with this word that have the same target: zero if none has.
    #[inline(never)]
    fn route_plain(&self, packet: &mut Packet, word: u32, fact: HeaderFields, position: usize) -> (Target, u16) {
        let meta = packet.meta_mut();
        meta.l3 = ETHERNET as u16;
        meta.ecn = fact.tos & 3;
        // A member of a group is selected for one flow only.
        let (word, whole) = match Outcome::group(word) {
            Some(group) => (self.resolve_group(packet, Outcome::Group(group)).encode(), false),
            None => (word, true),
        };
        if let Some(adjacency) = Outcome::adjacency(word) {
            let (link, interface) = self.tables.adjacencies().hop(adjacency);
            let egress = self.snapshot.egress(interface);
            let redirected = egress.redirects && interface == packet.meta().in_interface;
            let mtu = self.tables.mtu(interface, egress.mtu);
            if link.is_resolved() && fact.ttl > 1 && fact.length <= mtu && !redirected {
                let target = self.select_path(packet, position, (adjacency, link, interface), egress);
                return (target, if whole && target != REFUSED { mtu } else { 0 });
            }
        }
        // The rules were looked up for the whole chunk, and what a rule gives this packet is set with that of the others.
        let outcome = Outcome::decode(word);
        let target = self.slow_path_route4(packet, outcome, Some((position, PathMarks::default())));
        // A service gets all packets to this address by this path, of any length, unless a tunnel ends here or addresses are translated.
        let is_service = matches!(outcome, Outcome::Local(_)) && packet.meta().flags & Meta::LOCAL != 0;
        let repeats = is_service && self.snapshot.tunnels.is_empty() && self.snapshot.nat.is_none();
        (target, if repeats && target != REFUSED { NO_MEMO - 1 } else { 0 })
    }

    /// The outcome of a route; for a group, the member for the packet's flow. Fragments are hashed by their addresses only, because later fragments have no
    /// ports.
    fn resolve_group(&self, packet: &Packet, outcome: Outcome) -> Outcome {
        let Outcome::Group(group) = outcome else { return outcome };
        let flow = flow_hash(packet.bytes(), packet.meta().l3.into(), self.tables.flow_key());
        let adjacency = self.tables.groups().pick(group, flow);
        self.witness.observe(|| Finding::Member { group, flow, adjacency });
        // While a group is being rebuilt, it has no member for a moment.
        if adjacency.0 < Outcome::LIMIT { Outcome::Via(adjacency) } else { Outcome::NoRoute }
    }

    /// Sends the packet on to a next hop, by the path at `position`: fills in the fields for the later stages.
    #[inline(always)]
    fn select_path(
        &self,
        packet: &mut Packet,
        position: usize,
        (adjacency, link, out): (AdjacencyId, LinkAddress, InterfaceId),
        egress: &Egress,
    ) -> Target {
        self.witness.observe(|| Finding::Path(position));
        let path = &self.snapshot.paths[position];
        let meta = packet.meta_mut();
        meta.adjacency = adjacency;
        meta.version = link.version();
        meta.out_interface = out;
        meta.path = path.id;
        meta.class = path.class;
        self.apply_path_objective(path, packet);
        let target = self.dispatch.instance(position, egress.port);
        if target == REFUSED {
            return refuse(packet, DropReason::PortRemoved);
        }
        target
    }

    /// The objective of a path overrides that of the packet.
    #[inline(always)]
    fn apply_path_objective(&self, path: &PathSpec, packet: &mut Packet) {
        if let Some(objective) = path.objective {
            self.witness.observe(|| Finding::Objective { dscp: 0, objective, origin: ObjectiveSource::Path });
            packet.meta_mut().objective = objective.index() as u8;
        }
    }

    fn punt(&self, packet: &mut Packet, exception: Exception) -> Target {
        self.witness.observe(|| Finding::Exception(exception));
        let limited = matches!(exception, Exception::Local | Exception::Kernel) && !W::WANTS_RULES;
        if limited && !is_within_punt_limit(self.snapshot, packet) {
            return refuse(packet, DropReason::PuntLimit);
        }
        packet.meta_mut().exception = exception as u8;
        // Paths `CONTROL` and `GENERAL`.
        let path = if self.dispatch.exception_instance(exception) == self.dispatch.control { 0 } else { 1 };
        packet.meta_mut().path = PathId(path);
        self.dispatch.exception_instance(exception)
    }
}

/// False if a packet that only programs of the machine process exceeds the limit of its protocol. It has no place on the path `control` then.
#[cold]
fn is_within_punt_limit(snapshot: &Snapshot, packet: &Packet) -> bool {
    let interface = snapshot.interface(packet.meta().in_interface);
    if interface.is_none_or(|interface| interface.kernel.is_none()) {
        return true;
    }
    let (protocol, source) = (protocol_of(packet.bytes()), source_of(packet.bytes()));
    is_shared(protocol) || snapshot.punt.admits(protocol, source, &snapshot.punt_limits, packet.meta().timestamp)
}

/// Resets the packet's record. Only the fields that the port has just set survive: a frame from a wire in memory still has the record of the
/// previous router.
#[inline(always)]
fn reset_meta(packet: &mut Packet, arrival: Option<Instant>, in_port: PortId, in_interface: InterfaceId) {
    let meta = packet.meta_mut();
    let (timestamp, refused) = (arrival.unwrap_or(meta.timestamp), meta.refused);
    *meta = Meta { timestamp, refused, in_port, in_interface, ..Meta::default() };
}

fn refuse(packet: &mut Packet, reason: DropReason) -> Target {
    let meta: &mut Meta = packet.meta_mut();
    // Plus one, because zero means not refused.
    meta.refused = reason as u8 + 1;
    REFUSED
}

/// The first half of IPv4 link-local addresses (RFC 3927).
const LINK_LOCAL: u32 = 169 << 8 | 254;

/// First octets of IPv4 source addresses that no host on another network has (RFC 1812 5.3.7, RFC 3927). These packets go to `general`.
const MARTIAN_SOURCE: [bool; 256] = {
    let mut odd = [false; 256];
    odd[0] = true;
    odd[127] = true;
    // Only 169.254.0.0/16 is link-local. The general classifier accepts the rest of 169.0.0.0/8.
    odd[169] = true;
    let mut octet = 224;
    while octet < 256 {
        odd[octet] = true;
        octet += 1;
    }
    odd
};
