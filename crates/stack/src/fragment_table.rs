//! Incomplete fragmented packets, and the bounds on their fragments: per packet, per sender and in total (RFC 8900 3.7, RFC 4963). Pure: it receives
//! fragments and returns their fates.

use packet::{DropReason, Packet};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use units::{Instant, InterfaceId, Nanos};

/// The fields that the fragments of one packet share (RFC 791 3.2, RFC 8200 4.5). The protocol is not one of them in IPv6. Link-local addresses are
/// only unique within their link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub identification: u32,
    pub scope: Option<InterfaceId>,
}

/// The position of a fragment in its packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentPosition {
    pub key: Key,
    /// Its byte range in the fragmented part, from `start` to before `end`.
    pub start: u32,
    pub end: u32,
    /// True if more fragments follow.
    pub more: bool,
    /// The offset of these bytes in its frame.
    pub at: u16,
    /// Its ECN bits.
    pub ecn: u8,
}

/// A fragment that waits for the rest of its packet.
#[derive(Debug)]
pub(super) struct HeldFragment {
    pub packet: Packet,
    pub start: u32,
    pub length: u32,
    pub at: u16,
}

/// All fragments of a packet, by offset.
#[derive(Debug)]
pub(super) struct Datagram {
    pub fragments: Vec<HeldFragment>,
    /// The bytes of the fragmented part.
    pub length: u32,
    /// The ECN values of its fragments: bit `n` for the value `n`.
    pub ecn: u8,
}

/// The result of adding a fragment.
#[derive(Debug)]
pub(super) enum AddResult {
    /// It waits.
    Incomplete,
    /// It completes its packet.
    Complete(Datagram),
    /// It is dropped for this reason; the other fragments stay.
    Refused(Packet, DropReason),
    /// It is dropped for this reason, together with all other fragments of its packet.
    Discarded(Vec<Packet>, DropReason),
}

/// Bounds on the waiting fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FragmentBounds {
    /// Fragments of all packets.
    pub fragments: usize,
    /// Fragments of one sender.
    pub fragments_per_source: usize,
}

#[derive(Debug)]
struct IncompletePacket {
    /// In order of arrival.
    fragments: Vec<HeldFragment>,
    /// The byte ranges received so far, merged where adjacent, in order.
    runs: Vec<(u32, u32)>,
    /// The highest end received; the length of the whole once the last fragment has arrived.
    end: u32,
    last: bool,
    bytes: u32,
    ecn: u8,
    began: Instant,
    deadline: Instant,
}

/// A conflict with the fragments received so far.
enum RangeConflict {
    Duplicate,
    Overlap,
}

/// The table.
#[derive(Debug)]
pub(super) struct FragmentTable {
    bounds: FragmentBounds,
    entries: BTreeMap<Key, IncompletePacket>,
    due: BTreeSet<(Instant, Key)>,
    ages: BTreeSet<(Instant, Key)>,
    sources: BTreeMap<IpAddr, usize>,
    fragment_count: usize,
}

impl FragmentTable {
    pub fn new(bounds: FragmentBounds) -> FragmentTable {
        FragmentTable {
            bounds,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            ages: BTreeSet::new(),
            sources: BTreeMap::new(),
            fragment_count: 0,
        }
    }

    /// The number of fragments that wait.
    pub fn fragment_count(&self) -> usize {
        self.fragment_count
    }

    /// The first deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|&(deadline, _)| deadline)
    }

    /// Removes a packet whose deadline has passed. Its first fragment comes first, if it has arrived.
    pub fn expire(&mut self, now: Instant) -> Option<Vec<HeldFragment>> {
        let &(_, key) = self.due.first().filter(|&&(deadline, _)| deadline <= now)?;
        self.remove_packet(key)
    }

    /// Removes the fragments of a packet, ordered by offset.
    pub fn remove_packet(&mut self, key: Key) -> Option<Vec<HeldFragment>> {
        let mut fragments = self.remove(key)?.fragments;
        fragments.sort_by_key(|held| held.start);
        Some(fragments)
    }

    /// The keys of the incomplete packets.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.entries.keys().copied()
    }

    /// Removes everything.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> + use<> {
        let entries = std::mem::take(&mut self.entries);
        *self = FragmentTable::new(self.bounds);
        entries.into_values().flat_map(|partial| partial.fragments).map(|held| held.packet)
    }

    /// Makes room for one more fragment of `key`: evicts the oldest incomplete packet, of the same sender if that has reached its share. One sender
    /// therefore cannot evict packets of others, and many fragments cannot keep new ones out.
    pub fn make_room(&mut self, key: Key) -> Option<Vec<Packet>> {
        let mine = self.sources.get(&key.source).copied().unwrap_or(0);
        let victim = if mine >= self.bounds.fragments_per_source {
            self.ages.iter().find(|(_, other)| other.source == key.source)
        } else if self.fragment_count >= self.bounds.fragments {
            self.ages.first()
        } else {
            return None;
        };
        let victim = victim.map(|&(_, victim)| victim)?;
        self.remove(victim).map(packets)
    }

    /// Adds a fragment, for which there is room. Its packet expires `lifetime` after its first fragment arrived.
    pub fn add(&mut self, piece: FragmentPosition, packet: Packet, now: Instant, lifetime: Nanos) -> AddResult {
        let FragmentPosition { key, start, end, more, .. } = piece;
        debug_assert!(start < end);
        let new = || IncompletePacket {
            fragments: Vec::new(),
            runs: Vec::new(),
            end: 0,
            last: false,
            bytes: 0,
            ecn: 0,
            began: now,
            deadline: now + lifetime,
        };
        let partial = self.entries.entry(key).or_insert_with(new);
        // A fragment beyond the end, or a last fragment with another end than the known one.
        let contradicts = if more {
            partial.last && end > partial.end
        } else {
            end < partial.end || partial.last && end != partial.end
        };
        let fits = if contradicts { Err(RangeConflict::Overlap) } else { insert(&mut partial.runs, start, end) };
        match fits {
            Ok(()) => {}
            Err(RangeConflict::Duplicate) => return AddResult::Refused(packet, DropReason::FragmentOverlap),
            Err(RangeConflict::Overlap) => {
                let others = self.remove(key).map(packets).unwrap_or_default();
                return AddResult::Discarded(others.into_iter().chain([packet]).collect(), DropReason::FragmentOverlap);
            }
        }
        partial.end = partial.end.max(end);
        partial.last |= !more;
        partial.bytes += end - start;
        partial.ecn |= 1 << (piece.ecn & 3);
        partial.fragments.push(HeldFragment { packet, start, length: end - start, at: piece.at });
        let (complete, began, deadline) =
            (partial.last && partial.bytes == partial.end, partial.began, partial.deadline);
        self.due.insert((deadline, key));
        self.ages.insert((began, key));
        *self.sources.entry(key.source).or_insert(0) += 1;
        self.fragment_count += 1;
        if !complete {
            return AddResult::Incomplete;
        }
        let Some(IncompletePacket { mut fragments, end, ecn, .. }) = self.remove(key) else {
            return AddResult::Incomplete;
        };
        fragments.sort_by_key(|held| held.start);
        AddResult::Complete(Datagram { fragments, length: end, ecn })
    }

    fn remove(&mut self, key: Key) -> Option<IncompletePacket> {
        let partial = self.entries.remove(&key)?;
        self.due.remove(&(partial.deadline, key));
        self.ages.remove(&(partial.began, key));
        let count = partial.fragments.len();
        self.fragment_count -= count;
        if let Some(mine) = self.sources.get_mut(&key.source) {
            *mine -= count;
            if *mine == 0 {
                self.sources.remove(&key.source);
            }
        }
        Some(partial)
    }

    /// Checks that the sorted sets and counts agree with the entries, and that the bounds hold.
    #[cfg(test)]
    pub fn check(&self) {
        assert_eq!((self.due.len(), self.ages.len()), (self.entries.len(), self.entries.len()));
        let held: usize = self.entries.values().map(|partial| partial.fragments.len()).sum();
        assert_eq!((held, self.sources.values().sum::<usize>()), (self.fragment_count, self.fragment_count));
        assert!(held <= self.bounds.fragments.max(1));
        assert!(self.sources.values().all(|&count| count <= self.bounds.fragments_per_source.max(1)));
        for (key, partial) in &self.entries {
            assert!(!partial.fragments.is_empty(), "{key:?}");
            let bytes: u32 = partial.runs.iter().map(|(start, end)| end - start).sum();
            assert_eq!(bytes, partial.bytes, "{key:?}");
            assert!(partial.runs.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{key:?}");
        }
    }
}

fn packets(partial: IncompletePacket) -> Vec<Packet> {
    partial.fragments.into_iter().map(|held| held.packet).collect()
}

/// Inserts a byte range. A range within another is a duplicate of the fragment. A partial overlap is an attack or an error, because the result would
/// not be a packet that was sent. RFC 5722 4 (with erratum 3089) and RFC 8200 4.5 require the drop for IPv6; RFC 1858 has the reasons for IPv4.
fn insert(runs: &mut Vec<(u32, u32)>, start: u32, end: u32) -> Result<(), RangeConflict> {
    // The first range that ends behind `start`: only this one can overlap, because ranges are disjoint.
    let at = runs.partition_point(|run| run.1 <= start);
    match runs.get(at) {
        Some(run) if run.0 <= start && end <= run.1 => return Err(RangeConflict::Duplicate),
        Some(run) if run.0 < end => return Err(RangeConflict::Overlap),
        _ => {}
    }
    let last = runs.len();
    match runs.last_mut() {
        // Fragments in order extend the last range. Others are not merged: the number of bytes tells when all have arrived.
        Some(before) if at == last && before.1 == start => before.1 = end,
        _ => runs.insert(at, (start, end)),
    }
    Ok(())
}
