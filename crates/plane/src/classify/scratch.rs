//! A worker's working memory for one batch of the classifier, and the memos of routes.

use super::decisions::Decisions;
use super::{REFUSED, Target};
use crate::filter::PathMarks;
use classifier::{PacketKeys, RuleResult};
use packet::{BATCH, Meta, Packet};
use stack::ObjectiveTable;
use units::Instant;

/// Packets that both passes process before the next ones. Their records and headers (8 KB) stay in the first-level cache between the passes. Those of
/// a whole batch (32 KB) do not.
pub(super) const CHUNK: usize = 64;
/// A length above the MTU of every memo: no memo applies to the packet.
pub(super) const NO_MEMO: u16 = u16::MAX;

/// The fields of a chunk, one array for each, so that loops over one field vectorize.
pub(super) struct ChunkFields {
    /// The destinations, and the words of the forwarding table for them.
    pub(super) keys: [u32; CHUNK],
    pub(super) words: [u32; CHUNK],
    /// The lengths of the IP packets; [`NO_MEMO`] for packets that are not plain or whose TTL ends here.
    pub(super) lengths: [u16; CHUNK],
    pub(super) tos: [u8; CHUNK],
}

/// The result for a plain packet. The next packet with the same route (most have) skips the lookup of adjacency, interface and path.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Memo {
    pub(super) target: Target,
    pub(super) mtu: u16,
    pub(super) meta: Meta,
}

/// The memos of a batch, by the lowest bits of the word of the forwarding table. They are those of an adjacency, so that the memos of many next hops
/// fit in. They are reset for each batch.
pub(super) struct Memos {
    /// The words. Greater than any word if nothing is stored.
    pub(super) words: [u32; MEMOS],
    memos: [Memo; MEMOS],
}

/// The number of memos, a power of two: 4 KB.
const MEMOS: usize = 64;

/// The bits of a word of the forwarding table that are its outcome. The others have the position of the path, if there are rules.
pub(super) const ROUTE: u32 = (1 << ROUTE_BITS) - 1;
pub(super) const ROUTE_BITS: u32 = 24;

impl Memos {
    /// The memo of a word.
    #[inline(always)]
    pub fn find(&self, word: u32) -> Option<&Memo> {
        let place = word as usize % MEMOS;
        (self.words[place] == word).then_some(&self.memos[place])
    }

    pub fn store(&mut self, word: u32, memo: Memo) {
        let memo = Memo { mtu: memo.mtu.min(NO_MEMO - 1), ..memo };
        let place = word as usize % MEMOS;
        (self.words[place], self.memos[place]) = (word, memo);
    }
}

/// Applies the memos to packets of a chunk, beginning at `from`, until a packet has none. Returns its position, or the number of packets.
// This function calls nothing, like `check_plain`.
#[inline(never)]
pub(super) fn apply_memos(
    (arrival, wants): (Option<Instant>, &ObjectiveTable),
    packets: &mut [Packet],
    (fields, memos): (&ChunkFields, &Memos),
    targets: &mut [Target],
    from: usize,
) -> usize {
    let count = packets.len().min(targets.len()).min(CHUNK);
    let (packets, targets) = (&mut packets[..count], &mut targets[..count]);
    let (words, lengths) = (&fields.words[..count], &fields.lengths[..count]);
    let tos = &fields.tos[..count];
    for i in from..count {
        let place = words[i] as usize % MEMOS;
        let memo = &memos.memos[place];
        // A memo holds for a TTL above 1 and a length up to the MTU: other packets cause ICMP errors or are fragmented. See also [`NO_MEMO`].
        if words[i] != memos.words[place] || lengths[i] > memo.mtu {
            return i;
        }
        let meta = packets[i].meta_mut();
        let timestamp = arrival.unwrap_or(meta.timestamp);
        *meta = memo.meta;
        meta.timestamp = timestamp;
        meta.ecn = tos[i] & 3;
        meta.objective = wants.get(tos[i]);
        targets[i] = memo.target;
    }
    count
}

/// A worker's working memory for one batch, and the result: the target of each packet.
pub(crate) struct Scratch {
    /// The keys of a chunk for the rules of paths.
    pub(super) rule_keys: PacketKeys,
    /// The packets of a chunk whose rule gives them a class or a share, by position in the chunk. Memos have the class of the path.
    pub(super) marks: Vec<(u8, PathMarks)>,
    pub(super) fields: ChunkFields,
    /// The rule that has selected the path of each packet of a chunk.
    pub(super) matched: [Option<RuleResult>; CHUNK],
    /// The decisions about packets that are classified again.
    pub(super) decisions: Decisions,
    /// A bit for each packet of the chunk whose route a rule has selected.
    pub(super) selected: u64,
    pub(super) memos: Memos,
    /// The target of the `i`th packet.
    pub targets: [Target; BATCH],
    /// True if any of them needs segmentation, fragmentation or checksums before its link: see `worker::segment`.
    pub offloads: bool,
    /// True if any of them may carry an instruction.
    pub hooked: bool,
    /// If one may: the result of [`Marks::is_dedicated`](crate::hook::Marks::is_dedicated) for each.
    pub dedicated: [bool; BATCH],
}

impl Scratch {
    pub fn new() -> Box<Scratch> {
        let memo = Memo { target: REFUSED, mtu: 0, meta: Meta::default() };
        let (keys, words, lengths, tos) = ([0; CHUNK], [0; CHUNK], [0; CHUNK], [0; CHUNK]);
        Box::new(Scratch {
            rule_keys: PacketKeys::default(),
            marks: Vec::with_capacity(CHUNK),
            fields: ChunkFields { keys, words, lengths, tos },
            matched: [None; CHUNK],
            decisions: Decisions::new(),
            selected: 0,
            memos: Memos { words: [u32::MAX; MEMOS], memos: [memo; MEMOS] },
            targets: [REFUSED; BATCH],
            offloads: false,
            hooked: false,
            dedicated: [false; BATCH],
        })
    }
}

impl Scratch {
    /// Gives packets the classes and shares of their rules. The chunk begins at packet `from` of the batch.
    #[cold]
    pub(super) fn mark_packets(&mut self, packets: &mut [Packet], from: usize) {
        for (i, marks) in self.marks.drain(..) {
            let i = usize::from(i);
            if self.targets[from + i] != REFUSED {
                marks.mark(packets[i].meta_mut());
            }
        }
    }
}

impl ChunkFields {
    /// Records that packet `i` of the chunk is not plain.
    pub fn record_not_plain(&mut self, i: usize) {
        (self.keys[i], self.lengths[i], self.tos[i]) = (0, NO_MEMO, 0);
    }
}
