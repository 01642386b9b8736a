//! What every packet goes through first: which interface it came in by, whether its headers are sound, where its
//! destination is, which path it takes.
//!
//! A batch is classified in two passes, so that the memory of all its route lookups is fetched at once: the first checks
//! the headers, the second acts on what the routes say. Whatever is not plain IPv4 or IPv6 to another network goes
//! through [`general`].

mod general;
mod sources;
mod through;
mod witness;

pub use witness::{Finding, Unwitnessed, Witness};

use crate::hook::Marks;
use crate::snapshot::{Egress, PathSpec, PortView, Snapshot};
use fib::{Link, Outcome, Tables};
use packet::segment::{is_to_fragment, wire_length};
use packet::wire::{flow_hash, ipv4};
use packet::{BATCH, DropReason, Exception, Meta, Packet};
use plan::ReversePath;
use stack::{Because, Wants};
use units::{AdjacencyId, GroupId, Instant, InterfaceId, Mac, PathId, PortId};

/// Where a classified packet goes: the index of a path instance of the worker.
pub(crate) type Target = u16;
/// The packet goes nowhere: its `refused` says why.
pub(crate) const REFUSED: Target = Target::MAX;

/// The packet goes to several places: its adjacency is the position of its multicast route, its version that of its path.
pub(crate) const COPIED: Target = Target::MAX - 1;

/// Of a batch that is being classified: what its route says is yet to come.
pub(crate) const UNDECIDED: Target = Target::MAX - 2;

/// Which instance serves which path at which port, on one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dispatch {
    ports: usize,
    instances: Vec<Target>,
    /// The position of `best-effort` among the paths of the snapshot.
    pub best_effort: usize,
    /// The instance of what concerns the router itself.
    pub control: Target,
    /// The instance of what the fast path cannot do.
    pub general: Target,
}

impl Dispatch {
    /// `served` are the instances with their path's position and their port.
    pub fn new(
        (paths, ports): (usize, usize),
        best_effort: usize,
        (control, general): (Target, Target),
        served: impl Iterator<Item = (usize, PortId, Target)>,
    ) -> Dispatch {
        let mut instances = vec![REFUSED; paths * ports];
        for (path, port, target) in served {
            instances[path * ports + port.index()] = target;
        }
        Dispatch { ports, instances, best_effort, control, general }
    }

    #[inline(always)]
    pub(crate) fn instance(&self, path: usize, port: PortId) -> Target {
        if port.index() >= self.ports {
            // No port at all: that of an interface that is gone. In the table it would be another path's cell.
            return REFUSED;
        }
        self.instances.get(path * self.ports + port.index()).copied().unwrap_or(REFUSED)
    }

    pub(crate) fn of(&self, exception: Exception) -> Target {
        match exception {
            Exception::Arp | Exception::Local | Exception::Resolve => self.control,
            _ => self.general,
        }
    }
}

/// The classifier of one worker in one step.
#[derive(Clone, Copy)]
pub(crate) struct Classifier<'a, W = Unwitnessed> {
    pub snapshot: &'a Snapshot,
    pub tables: &'a Tables,
    pub dispatch: &'a Dispatch,
    /// Who is told why.
    pub witness: W,
}

/// Bytes of an Ethernet header without a tag, and of that with an IPv4 header without options.
const ETHERNET: usize = 14;
const PLAIN: usize = ETHERNET + ipv4::HEADER;
/// The same with what tells flows apart behind it. What is shorter is not plain.
const PORTS: usize = PLAIN + 4;

/// What of a plain packet matters besides its destination.
#[derive(Clone, Copy)]
struct Fact {
    /// Length of the IP packet, in bytes.
    length: u16,
    tos: u8,
    /// Where in its datagram it is, time to live and protocol, as they are.
    hop: [u8; 4],
    /// The ports, as they are.
    ports: [u8; 4],
}

/// What the first pass over a batch finds out about all of it.
#[derive(Default)]
struct Seen {
    /// Bytes that the packets put on their links.
    bytes: u64,
    /// A packet that is not plain may carry an instruction.
    may: bool,
    /// See [`Scratch::offloads`].
    offloads: bool,
}

/// The first eight bytes of frames to a station, without the two behind its address. They are read in the order in which frames
/// have them, so that no bytes are swapped for each frame.
fn station(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([0, 0, a, b, c, d, e, f])
}

impl Fact {
    /// Of packets that are not plain: longer than any link takes. Instructions have no protocol of that number.
    const NOT_PLAIN: Fact = Fact { length: u16::MAX, tos: 0, hop: [0; 4], ports: [0; 4] };

    fn ttl(self) -> u8 {
        self.hop[2]
    }
}

/// The facts of a batch, each kind for itself: so they are written down as they were read, and looked at together.
struct Facts {
    lengths: [u16; BATCH],
    tos: [u8; BATCH],
    hops: [[u8; 4]; BATCH],
    ports: [[u8; 4]; BATCH],
}

/// What became of the last plain packet: the next one with the same route, as most have, needs no second look at
/// adjacency, interface and path. Lives no longer than its batch.
struct Memo {
    /// The word of the forwarding table; beyond all words where nothing is remembered.
    word: u32,
    target: Target,
    mtu: u16,
    meta: Meta,
}

/// A worker's working memory for one batch, and the answer: where each packet goes.
pub(crate) struct Scratch {
    keys: [u32; BATCH],
    words: [u32; BATCH],
    facts: Facts,
    memo: Memo,
    /// `targets[i]` answers for the `i`th packet.
    pub targets: [Target; BATCH],
    /// Whether something is left to be done to any of them before it is fit for its link: see `worker::cutting`.
    pub offloads: bool,
    /// Whether any of them may carry an instruction.
    pub hooked: bool,
    /// Where one may: what is known of each.
    pub dedicated: [bool; BATCH],
}

impl Scratch {
    pub fn new() -> Box<Scratch> {
        let memo = Memo { word: u32::MAX, target: REFUSED, mtu: 0, meta: Meta::default() };
        let (keys, words, targets) = ([0; BATCH], [0; BATCH], [REFUSED; BATCH]);
        Box::new(Scratch {
            keys,
            words,
            facts: Facts { lengths: [0; BATCH], tos: [0; BATCH], hops: [[0; 4]; BATCH], ports: [[0; 4]; BATCH] },
            memo,
            targets,
            offloads: false,
            hooked: false,
            dedicated: [false; BATCH],
        })
    }

    /// Notes what a packet says.
    #[inline(always)]
    fn note(&mut self, i: usize, destination: u32, fact: Fact) {
        let Facts { lengths, tos, hops, ports } = &mut self.facts;
        (self.keys[i], lengths[i], tos[i]) = (destination, fact.length, fact.tos);
        (hops[i], ports[i]) = (fact.hop, fact.ports);
    }
}

impl<W: Witness> Classifier<'_, W> {
    /// Classifies packets that came in by one port, all at `came` unless the port has stamped them; the answer is in
    /// `scratch`. Answers the bytes that came.
    #[inline]
    pub fn batch(
        &self,
        (id, view): (PortId, &PortView),
        came: Option<Instant>,
        packets: &mut [Packet],
        scratch: &mut Scratch,
    ) -> u64 {
        let Scratch { targets, offloads, hooked, dedicated, .. } = &mut *scratch;
        (*offloads, *hooked) = (false, false);
        let count = packets.len().min(BATCH);
        if view.through.is_some() {
            // What passes is executed as well, by ports that do (spec E-40).
            *hooked = self.snapshot.stations.is_some()
                && packets[..count].iter().any(|packet| self.snapshot.marks.may_be_on(packet.bytes()));
            if *hooked {
                dedicated[..count].fill(false);
            }
            return self.pass_all((id, view), came, &mut packets[..count], (&mut targets[..count], offloads));
        }
        let packets = &mut packets[..count];
        let interface = self.snapshot.interface(view.untagged);
        let wants = interface.map_or(&Wants::NOTHING, |interface| &*interface.wants);
        let bytes = self.look((id, view), came, packets, scratch);
        let check = interface.map_or(ReversePath::Off, |interface| interface.reverse_path);
        let Scratch { keys, words, .. } = &mut *scratch;
        let (keys, words) = (&mut keys[..count], &mut words[..count]);
        // What comes in untagged by one port is all of one VRF.
        match self.tables.vrf(self.tables.place(view.untagged)) {
            None => self.tables.fib4().lookup_bulk(keys, words),
            Some(vrf) => vrf.lookup_bulk4(keys, words),
        }
        if check != ReversePath::Off {
            self.check_sources((id, view.untagged, check), came, packets, scratch);
        }
        self.follow((id, view, wants), came, packets, scratch);
        bytes
    }

    /// The first pass over a batch: what its packets say. Answers the bytes that came.
    // By itself, as the second one: together they want more registers than there are.
    #[inline(never)]
    fn look(
        &self,
        (id, view): (PortId, &PortView),
        came: Option<Instant>,
        packets: &mut [Packet],
        scratch: &mut Scratch,
    ) -> u64 {
        // No packet is plain if untagged IPv4 has no interface: no destination has all ones behind its six bytes.
        let routed = self.snapshot.interface(view.untagged).is_some_and(|interface| !interface.ipv4.is_empty());
        let mac = if routed { station(view.mac) } else { u64::MAX };
        let count = packets.len().min(BATCH);
        scratch.targets[..count].fill(UNDECIDED);
        let mut bytes = 0;
        for packet in &packets[..count] {
            packet.prefetch_bytes();
            bytes += packet.len() as u64;
        }
        let mut seen = Seen { bytes, ..Seen::default() };
        let mut i = self.look_plain(mac, packets, scratch, 0);
        while i < count {
            scratch.targets[i] = self.look_closely((id, view), came, &mut packets[i], &mut seen);
            scratch.note(i, 0, Fact::NOT_PLAIN);
            i += 1;
            // Packets that are not plain come in runs as well.
            if i < count && self.plain_destination(mac, &mut packets[i]).is_some() {
                i = self.look_plain(mac, packets, scratch, i);
            }
        }
        // Packets to link-local addresses are not plain either. They are seldom, so the addresses are compared several at once.
        if scratch.keys[..count].iter().fold(false, |any, key| any | (key >> 16 == LINK_LOCAL)) {
            for (i, packet) in packets.iter_mut().enumerate().take(count) {
                if scratch.keys[i] >> 16 == LINK_LOCAL {
                    scratch.targets[i] = self.look_closely((id, view), came, packet, &mut seen);
                    scratch.note(i, 0, Fact::NOT_PLAIN);
                }
            }
        }
        let Scratch { facts: Facts { hops, ports, .. }, offloads, hooked, dedicated, .. } = scratch;
        let (hops, ports) = (&hops[..count], &ports[..count]);
        *offloads = seen.offloads;
        // Seldom any: found out of all together.
        let marks = self.snapshot.marks;
        *hooked = marks != Marks::NONE && (marks.may_be_among(hops, ports) || seen.may);
        if *hooked {
            let dedicated = dedicated.iter_mut().zip(hops);
            dedicated.for_each(|(dedicated, hop)| *dedicated = marks.is_dedicated(hop));
        }
        seen.bytes
    }

    /// Reads plain packets, from a place on, until one is not plain. Answers its place, or the number of packets if all are plain.
    // This function calls nothing: the registers are few enough for the loop alone.
    #[inline(never)]
    fn look_plain(&self, mac: u64, packets: &mut [Packet], scratch: &mut Scratch, from: usize) -> usize {
        let Scratch { keys, facts: Facts { lengths, tos, hops, ports }, .. } = scratch;
        // All of one length, so that the loop needs no bounds checks.
        let count = packets.len().min(BATCH);
        let (packets, keys) = (&mut packets[..count], &mut keys[..count]);
        let (lengths, tos) = (&mut lengths[..count], &mut tos[..count]);
        let (hops, ports) = (&mut hops[..count], &mut ports[..count]);
        for i in from..count {
            let Some((destination, fact)) = self.plain_destination(mac, &mut packets[i]) else { return i };
            (keys[i], lengths[i], tos[i]) = (destination, fact.length, fact.tos);
            (hops[i], ports[i]) = (fact.hop, fact.ports);
        }
        count
    }

    /// Classifies a packet that is not plain.
    #[cold]
    #[inline(never)]
    fn look_closely(
        &self,
        (id, view): (PortId, &PortView),
        came: Option<Instant>,
        packet: &mut Packet,
        seen: &mut Seen,
    ) -> Target {
        arrive(packet, came, id, view.untagged);
        seen.may |= self.snapshot.marks.may_be_on(packet.bytes());
        let target = self.general(view, packet);
        seen.offloads |= is_to_fragment(packet);
        if packet.is_offloaded() {
            seen.offloads = true;
            seen.bytes += wire_length(packet).saturating_sub(packet.len()) as u64;
        }
        target
    }

    /// The second: what the routes of those say that nothing has been decided about.
    #[inline(never)]
    fn follow(
        &self,
        (id, view, wants): (PortId, &PortView, &Wants),
        came: Option<Instant>,
        packets: &mut [Packet],
        scratch: &mut Scratch,
    ) {
        let Scratch { words, facts, memo, targets, dedicated, offloads, .. } = scratch;
        let Facts { lengths, tos, hops, ports } = facts;
        memo.word = u32::MAX;
        let count = packets.len().min(BATCH);
        for (i, packet) in packets[..count].iter_mut().enumerate() {
            let (word, tos) = (words[i], tos[i]);
            if word == memo.word && hops[i][2] > 1 && lengths[i] <= memo.mtu {
                let meta = packet.meta_mut();
                let timestamp = came.unwrap_or(meta.timestamp);
                *meta = memo.meta;
                meta.timestamp = timestamp;
                meta.ecn = tos & 3;
                meta.objective = wants.get(tos);
                targets[i] = memo.target;
            } else if targets[i] == UNDECIDED {
                arrive(packet, came, id, view.untagged);
                packet.meta_mut().objective = wants.get(tos);
                let fact = Fact { length: lengths[i], tos, hop: hops[i], ports: ports[i] };
                let (target, mtu) = self.route_plain(packet, word, fact);
                targets[i] = target;
                dedicated[i] &= target != REFUSED;
                if mtu == 0 {
                    *offloads |= is_to_fragment(packet);
                } else if self.snapshot.rules.is_empty() {
                    *memo = Memo { word, target, mtu, meta: *packet.meta() };
                }
            }
        }
    }

    /// Classifies one packet that has just come in, without the short way that most packets of a batch take: the verdict is
    /// the same, and the witness hears of every reason for it.
    pub fn one(&self, (id, view): (PortId, &PortView), came: Instant, packet: &mut Packet) -> Target {
        arrive(packet, Some(came), id, view.untagged);
        if view.through.is_some() {
            return self.pass(view, packet);
        }
        self.general(view, packet)
    }

    /// The destination of an untagged IPv4 packet for us to forward, without options and with nothing wrong; nothing
    /// for all others.
    #[inline(always)]
    fn plain_destination(&self, mac: u64, packet: &mut Packet) -> Option<(u32, Fact)> {
        let bytes = packet.bytes();
        let frame = bytes.first_chunk::<PORTS>()?;
        let (link, header) = frame.split_first_chunk::<ETHERNET>()?;
        let header: &[u8; ipv4::HEADER] = header.first_chunk()?;
        let station = u64::from_le_bytes(*link.first_chunk()?) << 16;
        // What is in it, the version and length of its header, and, in one look with them, the type of service.
        let kind = u32::from_be_bytes([frame[12], frame[13], frame[14], frame[15]]);
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        let hop = [header[6], header[7], header[8], header[9]];
        let ports = [frame[PLAIN], frame[PLAIN + 1], frame[PLAIN + 2], frame[PLAIN + 3]];
        let fact = Fact { length: length as u16, tos: kind as u8, hop, ports };
        let sound = station == mac
            && kind & !0xff == 0x0800_4500
            && length >= ipv4::HEADER
            && ETHERNET + length <= bytes.len()
            && ipv4::header_checksum_ok_20(header)
            && !ODD_SOURCE[(source >> 24) as usize]
            && !self.snapshot.may_be_own4(source)
            && packet.meta().refused == 0
            && !packet.is_offloaded();
        if !sound {
            return None;
        }
        if ETHERNET + length < packet.len() {
            // Padding of a short Ethernet frame is no part of the packet.
            packet.resize(ETHERNET + length);
        }
        Some((destination, fact))
    }

    /// The target of a plain packet, and the length up to which other packets with this word have the same target: zero if no
    /// other packet has.
    #[inline(never)]
    fn route_plain(&self, packet: &mut Packet, word: u32, fact: Fact) -> (Target, u16) {
        let meta = packet.meta_mut();
        meta.l3 = ETHERNET as u16;
        meta.ecn = fact.tos & 3;
        // The choice of a group holds for one flow.
        let (word, whole) = match Outcome::group(word) {
            Some(group) => (self.member(packet, group).encode(), false),
            None => (word, true),
        };
        if let Some(adjacency) = Outcome::adjacency(word) {
            let (link, interface) = self.tables.adjacencies().hop(adjacency);
            let egress = self.snapshot.egress(interface);
            let redirected = egress.redirects && interface == packet.meta().in_interface;
            let mtu = self.tables.mtu(interface, egress.mtu);
            if link.is_resolved() && fact.ttl() > 1 && fact.length <= mtu && !redirected {
                let target = self.path(packet, adjacency, link, interface, egress);
                return (target, if whole && target != REFUSED { mtu } else { 0 });
            }
        }
        (self.unusual_route4(packet, Outcome::decode(word)), 0)
    }

    /// The member of a group that the packet's flow goes by. Fragments, of which only the first has ports, go by their
    /// addresses.
    fn member(&self, packet: &Packet, group: GroupId) -> Outcome {
        let flow = flow_hash(packet.bytes(), packet.meta().l3.into(), self.tables.flow_key());
        let adjacency = self.tables.groups().pick(group, flow);
        self.witness.saw(|| Finding::Member { group, flow, adjacency });
        // A group that is just being made anew names nobody for a moment.
        if adjacency.0 < Outcome::LIMIT { Outcome::Via(adjacency) } else { Outcome::NoRoute }
    }

    /// A route's outcome, and of a group the member for this packet.
    fn chosen(&self, packet: &Packet, outcome: Outcome) -> Outcome {
        if let Outcome::Group(group) = outcome { self.member(packet, group) } else { outcome }
    }

    /// The packet may go on to `adjacency`: fills in what the later stages need and picks its path.
    #[inline(always)]
    fn path(
        &self,
        packet: &mut Packet,
        adjacency: AdjacencyId,
        link: Link,
        out: InterfaceId,
        egress: &Egress,
    ) -> Target {
        let mut position = self.dispatch.best_effort;
        if !self.snapshot.rules.is_empty() {
            position = self.matched(packet).unwrap_or(position);
        }
        self.witness.saw(|| Finding::Path(position));
        let path = &self.snapshot.paths[position];
        let meta = packet.meta_mut();
        meta.adjacency = adjacency;
        meta.version = link.version();
        meta.out_interface = out;
        meta.path = path.id;
        meta.class = path.class;
        self.wanted_by(path, packet);
        let target = self.dispatch.instance(position, egress.port);
        if target == REFUSED {
            return refuse(packet, DropReason::PortRemoved);
        }
        target
    }

    /// What a packet wants is what its path says, where that says anything.
    #[inline(always)]
    fn wanted_by(&self, path: &PathSpec, packet: &mut Packet) {
        if let Some(objective) = path.objective {
            self.witness.saw(|| Finding::Wants { dscp: 0, objective, because: Because::Path });
            packet.meta_mut().objective = objective.index() as u8;
        }
    }

    fn except(&self, packet: &mut Packet, exception: Exception) -> Target {
        self.witness.saw(|| Finding::Exception(exception));
        packet.meta_mut().exception = exception as u8;
        let path = if self.dispatch.of(exception) == self.dispatch.control { 0 } else { 1 };
        packet.meta_mut().path = PathId(path);
        self.dispatch.of(exception)
    }
}

/// What is known of a packet begins here: of what stands beside its frame only what the port has just set counts, for a
/// frame that comes over a wire in memory has all that its last router noted.
#[inline(always)]
fn arrive(packet: &mut Packet, came: Option<Instant>, in_port: PortId, in_interface: InterfaceId) {
    let meta = packet.meta_mut();
    let (timestamp, refused) = (came.unwrap_or(meta.timestamp), meta.refused);
    *meta = Meta { timestamp, refused, in_port, in_interface, ..Meta::default() };
}

fn refuse(packet: &mut Packet, reason: DropReason) -> Target {
    let meta: &mut Meta = packet.meta_mut();
    meta.refused = reason as u8 + 1;
    REFUSED
}

/// The first half of IPv4 link-local addresses (RFC 3927).
const LINK_LOCAL: u32 = 169 << 8 | 254;

/// First octets of IPv4 source addresses that no sender on another network has (RFC 1812 5.3.7, RFC 3927): looked at closely.
const ODD_SOURCE: [bool; 256] = {
    let mut odd = [false; 256];
    odd[0] = true;
    odd[127] = true;
    odd[169] = true;
    let mut octet = 224;
    while octet < 256 {
        odd[octet] = true;
        octet += 1;
    }
    odd
};
