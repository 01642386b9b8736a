//! Fragments that wait for the rest of their packet, and the bounds on them: by packet, by sender, in all (RFC 8900 3.7,
//! RFC 4963). Pure: it is given pieces and says what became of them.

use packet::{DropReason, Packet};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use units::{Instant, InterfaceId, Nanos};

/// What the fragments of one packet have in common (RFC 791 3.2, RFC 8200 4.5). Of IPv6 the protocol is none of it, and
/// link-local addresses mean something on their link only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub identification: u32,
    pub scope: Option<InterfaceId>,
}

/// Which part of its packet a fragment is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub key: Key,
    /// The bytes of the fragmented part it has, from `start` to before `end`.
    pub start: u32,
    pub end: u32,
    /// Whether more follow behind it.
    pub more: bool,
    /// Where these bytes begin in its frame.
    pub at: u16,
    /// The ECN bits it came with.
    pub ecn: u8,
}

/// A fragment that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub packet: Packet,
    pub start: u32,
    pub length: u32,
    pub at: u16,
}

/// All fragments of a packet, by their place in it; or those that came before their time was over.
#[derive(Debug)]
pub(super) struct Datagram {
    pub fragments: Vec<Held>,
    /// Bytes of the fragmented part.
    pub length: u32,
    /// Which ECN bits its fragments came with: bit `n` for the value `n`.
    pub ecn: u8,
}

/// What became of a fragment.
#[derive(Debug)]
pub(super) enum Added {
    /// It waits.
    Waits,
    /// It was the one missing.
    Complete(Datagram),
    /// It goes, for this reason, and what has waited stays.
    Refused(Packet, DropReason),
    /// It goes, for this reason, and everything else of its packet with it.
    Discarded(Vec<Packet>, DropReason),
}

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Fragments of all packets.
    pub fragments: usize,
    /// Fragments of the packets of one sender.
    pub fragments_per_source: usize,
}

#[derive(Debug)]
struct Partial {
    /// In the order in which they came.
    fragments: Vec<Held>,
    /// The bytes that are here, in stretches without a gap, in order.
    runs: Vec<(u32, u32)>,
    /// The end of what is known to belong to it; the length of the whole once the last fragment is here.
    end: u32,
    last: bool,
    bytes: u32,
    ecn: u8,
    began: Instant,
    deadline: Instant,
}

/// Why a fragment does not fit among the others.
enum Misfit {
    Duplicate,
    Overlap,
}

/// The table.
#[derive(Debug)]
pub(super) struct Datagrams {
    bounds: Bounds,
    entries: BTreeMap<Key, Partial>,
    due: BTreeSet<(Instant, Key)>,
    ages: BTreeSet<(Instant, Key)>,
    sources: BTreeMap<IpAddr, usize>,
    held: usize,
}

impl Datagrams {
    pub fn new(bounds: Bounds) -> Datagrams {
        Datagrams {
            bounds,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            ages: BTreeSet::new(),
            sources: BTreeMap::new(),
            held: 0,
        }
    }

    /// Fragments that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(deadline, _)| deadline)
    }

    /// Takes out a packet whose time is over. Its first fragment, where it is here, is the first of them.
    pub fn expire(&mut self, now: Instant) -> Option<Vec<Held>> {
        let &(_, key) = self.due.first().filter(|&&(deadline, _)| deadline <= now)?;
        self.take(key)
    }

    /// Takes out the fragments of a packet, by their place in it.
    pub fn take(&mut self, key: Key) -> Option<Vec<Held>> {
        let mut fragments = self.remove(key)?.fragments;
        fragments.sort_by_key(|held| held.start);
        Some(fragments)
    }

    /// The packets whose fragments wait.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.entries.keys().copied()
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> + use<> {
        let entries = std::mem::take(&mut self.entries);
        *self = Datagrams::new(self.bounds);
        entries.into_values().flat_map(|partial| partial.fragments).map(|held| held.packet)
    }

    /// Makes room for one more fragment of `key`: what has waited longest goes, of the same sender where that has its
    /// share. Nobody can push out others' packets with fragments of one address, and whoever has many cannot keep new
    /// ones out.
    pub fn make_room(&mut self, key: Key) -> Option<Vec<Packet>> {
        let mine = self.sources.get(&key.source).copied().unwrap_or(0);
        let victim = if mine >= self.bounds.fragments_per_source {
            self.ages.iter().find(|(_, other)| other.source == key.source)
        } else if self.held >= self.bounds.fragments {
            self.ages.first()
        } else {
            return None;
        };
        let victim = victim.map(|&(_, victim)| victim)?;
        self.remove(victim).map(packets)
    }

    /// Takes a fragment, for which there is room; its packet is given up `lifetime` after its first.
    pub fn add(&mut self, piece: Piece, packet: Packet, now: Instant, lifetime: Nanos) -> Added {
        let Piece { key, start, end, more, .. } = piece;
        debug_assert!(start < end);
        let new = || Partial {
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
        let contradicts = if more {
            partial.last && end > partial.end
        } else {
            end < partial.end || partial.last && end != partial.end
        };
        let fits = if contradicts { Err(Misfit::Overlap) } else { insert(&mut partial.runs, start, end) };
        match fits {
            Ok(()) => {}
            Err(Misfit::Duplicate) => return Added::Refused(packet, DropReason::FragmentOverlap),
            Err(Misfit::Overlap) => {
                let others = self.remove(key).map(packets).unwrap_or_default();
                return Added::Discarded(others.into_iter().chain([packet]).collect(), DropReason::FragmentOverlap);
            }
        }
        partial.end = partial.end.max(end);
        partial.last |= !more;
        partial.bytes += end - start;
        partial.ecn |= 1 << (piece.ecn & 3);
        partial.fragments.push(Held { packet, start, length: end - start, at: piece.at });
        let (complete, began, deadline) =
            (partial.last && partial.bytes == partial.end, partial.began, partial.deadline);
        self.due.insert((deadline, key));
        self.ages.insert((began, key));
        *self.sources.entry(key.source).or_insert(0) += 1;
        self.held += 1;
        if !complete {
            return Added::Waits;
        }
        let Some(Partial { mut fragments, end, ecn, .. }) = self.remove(key) else { return Added::Waits };
        fragments.sort_by_key(|held| held.start);
        Added::Complete(Datagram { fragments, length: end, ecn })
    }

    fn remove(&mut self, key: Key) -> Option<Partial> {
        let partial = self.entries.remove(&key)?;
        self.due.remove(&(partial.deadline, key));
        self.ages.remove(&(partial.began, key));
        let count = partial.fragments.len();
        self.held -= count;
        if let Some(mine) = self.sources.get_mut(&key.source) {
            *mine -= count;
            if *mine == 0 {
                self.sources.remove(&key.source);
            }
        }
        Some(partial)
    }

    /// Checks that the sorted sets and counts say what the entries say, and that the bounds hold.
    #[cfg(test)]
    pub fn check(&self) {
        assert_eq!((self.due.len(), self.ages.len()), (self.entries.len(), self.entries.len()));
        let held: usize = self.entries.values().map(|partial| partial.fragments.len()).sum();
        assert_eq!((held, self.sources.values().sum::<usize>()), (self.held, self.held));
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

fn packets(partial: Partial) -> Vec<Packet> {
    partial.fragments.into_iter().map(|held| held.packet).collect()
}

/// Puts a stretch among the others. One that lies within another is the same fragment again, on a longer way perhaps; one
/// that overlaps is an attack or a mistake, and the packet it would be put together from is not one that was sent
/// (RFC 5722 4 with erratum 3089, RFC 8200 4.5; for IPv4 as well, RFC 1858 has the reasons).
fn insert(runs: &mut Vec<(u32, u32)>, start: u32, end: u32) -> Result<(), Misfit> {
    let at = runs.partition_point(|run| run.1 <= start);
    match runs.get(at) {
        Some(run) if run.0 <= start && end <= run.1 => return Err(Misfit::Duplicate),
        Some(run) if run.0 < end => return Err(Misfit::Overlap),
        _ => {}
    }
    let last = runs.len();
    match runs.last_mut() {
        Some(before) if at == last && before.1 == start => before.1 = end,
        _ => runs.insert(at, (start, end)),
    }
    Ok(())
}
