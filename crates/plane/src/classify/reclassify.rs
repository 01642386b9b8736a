//! Classification of a batch of packets to which a function has given a new destination.
//!
//! Plain packets that the router has encapsulated (those of slices are) are classified together. Packets with equal headers share one decision; for the
//! others, routes and rules are looked up in bulk. The result is that of [`Classifier::classify_again`] for each packet alone, which classifies all others.

use super::decisions::{Decision, header_words};
use super::general::OPTIONS_DONE;
use super::scratch::{CHUNK, Memo, NO_MEMO, ROUTE, ROUTE_BITS, Scratch};
use super::{
    Classifier, ETHERNET, HeaderFields, LINK_LOCAL, MARTIAN_SOURCE, Outcome, PORTS, Target, UNDECIDED, Witness,
};
use packet::segment::TO_FRAGMENT;
use packet::wire::{ethertype, ipv4};
use packet::{Exception, Meta, Packet};
use units::InterfaceId;

/// The packet is not to be classified again.
pub(crate) const UNCHANGED: Target = Target::MAX - 4;

/// True if a function has given the packet a new destination or path.
pub(crate) fn is_redirected(packet: &Packet) -> bool {
    let meta = packet.meta();
    (meta.exception == Exception::Again as u8 || meta.exception == Exception::Dispatched as u8) && meta.refused == 0
}

impl<W: Witness> Classifier<'_, W> {
    /// Classifies the packets of a batch that are [redirected](is_redirected). The targets are in `scratch`, [`UNCHANGED`] for all others.
    pub fn reclassify_batch(&self, packets: &mut [Packet], scratch: &mut Scratch) {
        self.dispatch.refresh_rules();
        let (has_rules, has_routing) =
            (!self.dispatch.rules.borrow().is_empty(), !self.dispatch.routing.borrow().is_empty());
        // The packets of a batch have been received on one port, most of them on one interface.
        let came = packets.iter().find(|packet| is_redirected(packet)).map(|packet| packet.meta().in_interface);
        // A rule for routes may read and change the whole packet.
        let came = came.filter(|_| !has_routing);
        let versions = (self.snapshot.generation, self.dispatch.rules.borrow().versions());
        scratch.decisions.adopt(versions, self.tables.changes());
        for (at, chunk) in (0..).step_by(CHUNK).zip(packets.chunks_mut(CHUNK)) {
            let missed = self.apply_decisions(chunk, came, (at, scratch));
            let Some(came) = came.filter(|_| missed) else { continue };
            self.find_routes(chunk, came, (at, scratch));
            if has_rules {
                self.match_rules((came, None), chunk, (at, scratch));
            }
            self.follow_routes(chunk, came, (at, scratch), has_rules);
            if !scratch.marks.is_empty() {
                scratch.mark_packets(chunk, at);
            }
        }
    }

    /// Applies known decisions to the plain packets of a chunk that were received on `came`, and classifies all others alone. Returns true if plain packets
    /// are left: their targets are [`UNDECIDED`].
    fn apply_decisions(
        &self,
        packets: &mut [Packet],
        came: Option<InterfaceId>,
        (from, scratch): (usize, &mut Scratch),
    ) -> bool {
        let Scratch { fields, targets, decisions, .. } = scratch;
        let targets = &mut targets[from..][..packets.len()];
        let mut rules = self.dispatch.rules.borrow_mut();
        let mut missed = false;
        for (i, packet) in packets.iter_mut().enumerate() {
            let words = plain_words(packet).filter(|_| came == Some(packet.meta().in_interface));
            let changes = decisions.changes;
            if let Some(known) = words.and_then(|words| decisions.find(words))
                && self.holds(known, packet, changes)
            {
                if !rules.is_empty() {
                    rules.count(known.rule, packet.len(), packet.meta().timestamp);
                }
                let meta = packet.meta_mut();
                known.apply(meta);
                meta.rounds = meta.rounds & !TO_FRAGMENT | OPTIONS_DONE;
                targets[i] = known.target;
                continue;
            }
            fields.record_not_plain(i);
            targets[i] = UNCHANGED;
            if !is_redirected(packet) {
                continue;
            }
            match words.and_then(|_| encapsulated_fields(packet)) {
                Some((destination, fact)) => {
                    (targets[i], missed) = (UNDECIDED, true);
                    (fields.keys[i], fields.tos[i]) = (destination, fact.tos);
                    fields.lengths[i] = if fact.ttl > 1 { fact.length } else { NO_MEMO };
                }
                None => {
                    drop(rules);
                    targets[i] = self.classify_again(packet);
                    rules = self.dispatch.rules.borrow_mut();
                }
            }
        }
        missed
    }

    /// True if a packet with the header of a decision still has the same route and next hop: these change without a new generation.
    #[inline(always)]
    fn holds(&self, known: &mut Decision, packet: &Packet, changes: u64) -> bool {
        packet.meta().in_interface == known.meta.in_interface
            && (known.changes == changes || self.renew(known, changes))
            && self.tables.adjacencies().load(known.meta.adjacency).version() == known.meta.version
            && packet.len() - ETHERNET <= usize::from(known.mtu)
    }

    /// Looks the route of a decision up again after some route or MTU has changed. False if it is another one.
    #[cold]
    fn renew(&self, known: &mut Decision, changes: u64) -> bool {
        let meta = &known.meta;
        let same = self.tables.lookup4(meta.in_interface, known.destination) == known.route;
        if same {
            known.mtu = self.tables.mtu(meta.out_interface, self.snapshot.egress(meta.out_interface).mtu);
            known.changes = changes;
        }
        same
    }

    /// Looks up the routes of the undecided packets of a chunk.
    fn find_routes(&self, packets: &mut [Packet], came: InterfaceId, (from, scratch): (usize, &mut Scratch)) {
        let Scratch { fields, targets, memos, matched, .. } = scratch;
        let targets = &mut targets[from..][..packets.len()];
        matched.fill(None);
        memos.words.fill(u32::MAX);
        let (keys, words) = (&fields.keys[..packets.len()], &mut fields.words[..packets.len()]);
        match self.tables.vrf(self.tables.vrf_of(came)) {
            None => self.tables.fib4().lookup_bulk(keys, words),
            Some(vrf) => vrf.lookup_bulk4(keys, words),
        }
        for (i, (packet, target)) in packets.iter_mut().zip(targets).enumerate() {
            // Before the rules, which count each packet once.
            let is_forwarded = matches!(Outcome::decode(words[i]), Outcome::Via(_) | Outcome::Group(_));
            if *target == UNDECIDED && !is_forwarded {
                *target = self.classify_again(packet);
            }
        }
    }

    /// Acts on the routes of the packets of a chunk that are still undecided.
    fn follow_routes(
        &self,
        packets: &mut [Packet],
        came: InterfaceId,
        (from, scratch): (usize, &mut Scratch),
        has_rules: bool,
    ) {
        let Scratch { fields, targets, memos, matched, decisions, .. } = scratch;
        let wants = self.snapshot.interface(came).map(|interface| &*interface.objectives);
        for (i, packet) in packets.iter_mut().enumerate() {
            if targets[from + i] != UNDECIDED {
                continue;
            }
            let (word, tos, length) = (fields.words[i], fields.tos[i], fields.lengths[i]);
            let meta = packet.meta_mut();
            (meta.exception, meta.ecn) = (0, tos & 3);
            meta.objective = wants.map_or(meta.objective, |wants| wants.get(tos));
            meta.rounds = meta.rounds & !TO_FRAGMENT | OPTIONS_DONE;
            if let Some(memo) = memos.find(word).filter(|memo| length <= memo.mtu) {
                let same = &memo.meta;
                (meta.adjacency, meta.version, meta.out_interface) = (same.adjacency, same.version, same.out_interface);
                (meta.path, meta.class) = (same.path, same.class);
                targets[from + i] = memo.target;
                decisions.store(packet, (fields.keys[i], word & ROUTE), (memo.target, memo.mtu), matched[i]);
                continue;
            }
            let position = if has_rules { (word >> ROUTE_BITS) as usize } else { self.dispatch.best_effort };
            let ttl = packet.bytes().get(ETHERNET + 8).copied().unwrap_or(0);
            let length = (packet.len() - ETHERNET) as u16;
            let (target, mtu) = self.route_plain(packet, word, HeaderFields { length, tos, ttl }, position);
            targets[from + i] = target;
            if mtu != 0 && self.snapshot.paths[position].objective.is_none() {
                memos.store(word, Memo { target, mtu, meta: *packet.meta() });
                decisions.store(packet, (fields.keys[i], word & ROUTE), (target, mtu), matched[i]);
            }
        }
    }
}

/// The words of the header of a plain packet that the router has encapsulated, from its ethertype to its ports: all that classification reads of it. `None`
/// for all other packets.
#[inline(always)]
fn plain_words(packet: &Packet) -> Option<[u64; 4]> {
    const FLAGS: u8 = Meta::IPV6 | Meta::GROUP | Meta::TRANSLATED | Meta::LOCAL;
    let meta = packet.meta();
    let is_plain = meta.exception == Exception::Again as u8
        && meta.rounds & Meta::ENCAPSULATED != 0
        && meta.refused == 0
        && meta.flags & FLAGS == 0
        && usize::from(meta.l3) == ETHERNET
        && !packet.is_offloaded();
    header_words(packet).filter(|_| is_plain)
}

/// The fields of a packet that has [`plain_words`], if it needs no check by the general classifier.
fn encapsulated_fields(packet: &Packet) -> Option<(u32, HeaderFields)> {
    let frame = packet.bytes().first_chunk::<PORTS>()?;
    let header: &[u8; ipv4::HEADER] = frame.get(ETHERNET..)?.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (source, destination) = (word(12), word(16));
    let length = u16::from_be_bytes([header[2], header[3]]);
    let sound = frame[12..14] == ethertype::IPV4.to_be_bytes()
        && header[0] == 0x45
        && ipv4::header_checksum_ok_20(header)
        && !MARTIAN_SOURCE[(source >> 24) as usize]
        && !MARTIAN_SOURCE[(destination >> 24) as usize]
        && source >> 16 != LINK_LOCAL
        && destination >> 16 != LINK_LOCAL;
    sound.then_some((destination, HeaderFields { length, tos: header[1], ttl: header[8] }))
}
