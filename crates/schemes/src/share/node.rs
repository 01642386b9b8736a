//! The nodes of a link-sharing tree.

use super::order::{LazyHeap, OrderEntry, OrderKey, is_before};
use crate::{Next, Wires};
use alloc::sync::Arc;
use alloc::vec::Vec;
use units::{Bytes, Instant, Meter, Nanos, Rate, ShareId};

/// No node, no branch, no scheme.
pub(super) const NONE: u32 = u32::MAX;
/// The node of the link itself.
pub(super) const ROOT: u32 = 0;
/// The leaf of packets without a share of their own.
pub(super) const DEFAULT: u32 = 1;
/// Priorities: 0 is the first.
pub(super) const PRIORITIES: usize = 8;
/// The least credit of a guarantee: a packet of the usual length and a short one.
const LEAST_CREDIT: Bytes = Bytes::new(2000);
/// Virtual time of a byte, for a weight of one.
const BYTE: u64 = 1 << 24;
/// The packets of the leaf wait in one queue, without a scheme.
const OWN_QUEUE: u8 = 0x80;
/// The place of the halvings of a turn.
const HALVINGS: u32 = 4;
/// The longest turn that a deadline covers, 2^12 bytes, and the shortest. A turn may end with a whole packet behind a quantum of the usual length.
const LONGEST_TURN: u32 = 12;
const SHORTEST_TURN: u32 = 6;
/// A child that gets packets again may be ahead of the virtual time by at most a turn with the longest super-frame at weight one.
const FAR_AHEAD: u64 = BYTE << 18;

/// The settings of a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareParameters {
    /// The share above it; 0 for the link itself.
    pub parent: ShareId,
    /// The guaranteed rate; zero for none.
    pub rate: Rate,
    /// The most it sends; none for no ceiling.
    pub ceiling: Option<Rate>,
    /// Its weight among the shares with the same parent and priority: 1 to 10,000.
    pub weight: u32,
    /// The bytes that it may send at once after an idle time, at its rate and at its ceiling.
    pub burst: Bytes,
    /// The time within which a burst leaves; zero if only the rate bounds it.
    pub delay: Nanos,
    /// Excess goes to children of the least priority first: 0 to 7.
    pub priority: u8,
    /// The packets of a leaf wait in one queue of at most so many bytes. Zero: in the scheme of all leaves.
    pub queue: Bytes,
    /// The bytes of a turn of a leaf with its own queue: its longest packet, so that a turn is one packet. Counts as the next power of two, from 64 to 4096.
    pub turn: Bytes,
}

impl Default for ShareParameters {
    /// A share below the link without guarantee and ceiling, of weight one.
    fn default() -> ShareParameters {
        ShareParameters {
            parent: ShareId(0),
            rate: Rate::ZERO,
            ceiling: None,
            weight: 1,
            burst: Bytes::ZERO,
            delay: Nanos::ZERO,
            priority: 0,
            queue: Bytes::ZERO,
            turn: Bytes::new(1 << LONGEST_TURN),
        }
    }
}

impl ShareParameters {
    /// The rate at which a burst leaves within the delay; at least the guaranteed rate.
    pub fn peak(&self) -> Rate {
        self.rate.max(self.burst.rate_within(self.delay))
    }
}

/// One change of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareEdit {
    /// Adds a share, or gives it other settings. Its parent was added before.
    Put(ShareId, ShareParameters),
    /// Removes a share without children. Its packets leave first.
    Remove(ShareId),
}

/// Changes that are made together.
#[derive(Clone, Debug)]
pub struct ShareEdits(pub Arc<[ShareEdit]>);

/// A node: two cache lines. The first has what the order needs, the second the meters.
// Large: the state that a turn reads and writes lies together.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    pub parent: u32,
    /// The number of its branch, if it has children.
    pub branch: u32,
    /// The number of its scheme, if it is a leaf that has one.
    pub scheme: u32,
    pub share: ShareId,
    /// The virtual time of its next turn.
    start: u64,
    /// The time of its next turn within its guarantee, in nanoseconds, and nanoseconds of 2^16 bytes at the guaranteed rate: zero without a
    /// guarantee.
    eligible: u64,
    pace: u64,
    /// A leaf that is new since then: packets before its own may wait in the default leaf. Otherwise never.
    pub follows: Instant,
    /// Virtual time of a byte: at most [`BYTE`].
    advance: u32,
    /// Its priority, [`OWN_QUEUE`], and how many times its turn is halved from the longest.
    flags: u8,
    /// It has packets, and its ceiling allows one.
    pub ready: bool,
    /// The leaf has packets.
    pub busy: bool,
    /// The leaf had packets since the search for an idle scheme came by.
    pub used: bool,
    /// The leaf has a packet outside its scheme: one that arrived when it had no other.
    pub has_lone_packet: bool,
    /// The leaf's scheme may have packets.
    pub uses_scheme: bool,
    /// The leaf's scheme holds its packets back until a time.
    pub waits_inside: bool,
    /// Its timer runs.
    pub timer_runs: bool,
    pub in_excess: bool,
    pub in_guaranteed: bool,
    /// It was removed, and is freed when it is empty.
    pub closing: bool,
    pub has_ceiling: bool,
    guarantee: Meter,
    ceiling: Meter,
}

const _: () = assert!(size_of::<Node>() == 128, "a node is two cache lines");

impl Node {
    /// A node with these settings.
    pub fn new(parent: u32, share: ShareId, settings: &ShareParameters) -> Node {
        let mut node = Node {
            parent,
            branch: NONE,
            scheme: NONE,
            share,
            flags: 0,
            ready: false,
            busy: false,
            used: false,
            has_lone_packet: false,
            uses_scheme: false,
            waits_inside: false,
            timer_runs: false,
            in_excess: false,
            in_guaranteed: false,
            closing: false,
            follows: Instant::NEVER,
            has_ceiling: false,
            start: 0,
            advance: 0,
            eligible: 0,
            pace: 0,
            guarantee: Meter::new(Rate::ZERO, Bytes::ZERO),
            ceiling: Meter::new(Rate::ZERO, Bytes::ZERO),
        };
        node.set(settings, Instant::START);
        node
    }

    /// Gives it other settings. Debts at its meters stay.
    pub fn set(&mut self, settings: &ShareParameters, now: Instant) {
        let &ShareParameters { ceiling, weight, burst, priority, queue, turn, .. } = settings;
        let rate = settings.peak();
        self.flags = priority.min(PRIORITIES as u8 - 1);
        if queue > Bytes::ZERO {
            let turn = turn.get().clamp(1 << SHORTEST_TURN, 1 << LONGEST_TURN).next_power_of_two().ilog2();
            self.flags |= OWN_QUEUE | ((LONGEST_TURN - turn) as u8) << HALVINGS;
        }
        self.advance = BYTE as u32 / weight.max(1);
        self.has_ceiling = ceiling.is_some();
        // 2^16 bytes are 2^19 bits.
        let pace = ((1 << (16 + 3)) * 1_000_000_000_u64).checked_div(rate.get()).map_or(0, |pace| pace.max(1));
        if core::mem::replace(&mut self.pace, pace) != pace {
            // Its time was that of another rate.
            self.eligible = 0;
        }
        // The burst is for the ceiling. A guarantee has the same time: its credit must not keep others waiting.
        let part = |ceiling: Rate| u128::from(burst.get()) * u128::from(rate.get()) / u128::from(ceiling.get().max(1));
        let credit = ceiling.map_or(burst, |ceiling| Bytes::new(part(ceiling) as u64).max(LEAST_CREDIT.min(burst)));
        self.guarantee.reconfigure(&Meter::new(rate, credit), now);
        if let Some(ceiling) = ceiling {
            self.ceiling.reconfigure(&Meter::new(ceiling, burst), now);
        }
    }

    /// Its turn at the excess: 0 is the first.
    #[inline(always)]
    pub fn priority(&self) -> u8 {
        self.flags & (PRIORITIES as u8 - 1)
    }

    /// How many times its turn is halved from the longest.
    #[inline(always)]
    fn halvings(&self) -> u32 {
        u32::from(self.flags & !OWN_QUEUE) >> HALVINGS
    }

    /// True if the packets of the leaf wait in one queue, without a scheme.
    #[inline(always)]
    pub fn has_own_queue(&self) -> bool {
        self.flags & OWN_QUEUE != 0
    }

    /// True if the ceiling allows a packet.
    #[inline(always)]
    pub fn is_below_ceiling(&mut self, now: Instant) -> bool {
        !self.has_ceiling || self.ceiling.has_credit(now)
    }

    /// Its packets have waited for its timer: a late timer costs no rate.
    pub fn catch_up(&mut self, now: Instant) {
        if self.has_ceiling && !self.ready {
            self.ceiling.catch_up(now);
        }
    }

    /// Takes over the ceiling of another node. A debt stays.
    pub fn take_ceiling(&mut self, other: &Node, now: Instant) {
        self.has_ceiling = other.has_ceiling;
        self.ceiling.reconfigure(&other.ceiling, now);
    }

    /// When the ceiling allows the next packet.
    pub fn ceiling_ready(&self) -> Instant {
        if self.has_ceiling { self.ceiling.ready() } else { Instant::START }
    }

    /// True if it has a guaranteed rate.
    #[inline(always)]
    pub fn has_rate(&self) -> bool {
        self.pace != 0
    }

    /// True if a packet is within the guarantee.
    #[inline(always)]
    pub fn is_within_guarantee(&mut self, now: Instant) -> bool {
        self.has_rate() && self.guarantee.has_credit(now)
    }

    /// When the next packet is within the guarantee.
    pub fn guarantee_ready(&self) -> Instant {
        if self.has_rate() { self.guarantee.ready() } else { Instant::NEVER }
    }

    /// Prefetches a node.
    #[inline(always)]
    pub fn prefetch<W: Wires>(&self, wires: &W) {
        wires.prefetch(self);
        wires.prefetch(&self.guarantee);
    }

    /// Charges a turn to the ceiling.
    #[inline(always)]
    pub fn charge_ceiling(&mut self, bytes: u64, now: Instant) {
        if self.has_ceiling {
            self.ceiling.charge_at(Bytes::new(bytes), now);
        }
    }

    /// Charges a turn within the guarantee.
    #[inline(always)]
    pub fn charge_guarantee(&mut self, bytes: u64, now: Instant) {
        self.guarantee.charge_at(Bytes::new(bytes), now);
        self.eligible += (bytes * self.pace) >> 16;
    }

    /// Charges a turn of excess.
    #[inline(always)]
    pub fn charge_excess(&mut self, bytes: u64) {
        // At least one unit, so that every turn counts.
        self.start = self.start.wrapping_add((bytes * u64::from(self.advance)).max(1));
    }

    fn excess_key(&self) -> OrderKey {
        OrderKey { rank: self.priority().into(), time: self.start }
    }

    fn guarantee_key(&self) -> OrderKey {
        // The deadline of its next turn: when a turn ends that begins at its time and has its rate.
        OrderKey { rank: 0, time: self.eligible.saturating_add(self.pace >> (16 - LONGEST_TURN + self.halvings())) }
    }
}

/// The children of a node, in order: two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Branch {
    /// The node.
    pub node: u32,
    children: u32,
    /// The children that may send.
    pub ready: u32,
    /// The only child that may send, if it was the first. It is not in the heaps: most branches have one such child at a time.
    pub only: u32,
    /// Children within their guarantee: by their deadlines.
    guaranteed: LazyHeap,
    /// The other children that may send: by priority, then by virtual time.
    excess: LazyHeap,
    /// The virtual time of each priority: that of the child served last.
    virtual_times: [u64; PRIORITIES],
}

const _: () = assert!(size_of::<Branch>() == 128, "a branch is two cache lines");

impl Default for Branch {
    fn default() -> Branch {
        let (guaranteed, excess) = Default::default();
        Branch { node: NONE, children: 0, ready: 0, only: NONE, guaranteed, excess, virtual_times: [0; PRIORITIES] }
    }
}

impl Branch {
    /// Ready if a child may send, or idle.
    #[inline(always)]
    pub fn backlog(&self) -> Next {
        if self.ready > 0 { Next::Ready } else { Next::Idle }
    }

    fn add_child(&mut self) {
        self.children += 1;
        // Half as many again: entries of children that were removed or moved stay until they are the first. In steps, so that many children cost few
        // allocations.
        let step = (self.children.next_power_of_two() / 8).max(4);
        let entries = (self.children + self.children / 2 + 2).next_multiple_of(step) as usize;
        self.guaranteed.reserve(entries);
        self.excess.reserve(entries);
    }

    /// A child may send from now on. It is within its guarantee or not.
    #[inline]
    pub fn enter(&mut self, nodes: &mut [Node], child: u32, within: bool, now: Instant) {
        let node = &mut nodes[child as usize];
        // A child that was idle restarts at the present virtual time, without credit. If its own is ahead of that, it stays.
        let present = self.virtual_times[usize::from(node.priority())];
        if node.start.wrapping_sub(present) > FAR_AHEAD {
            node.start = present;
        }
        self.ready += 1;
        if self.ready == 1 {
            self.only = child;
        } else {
            self.keep(nodes, child, within, now);
        }
    }

    /// A child that may send is within its guarantee or not.
    #[inline]
    pub fn keep(&mut self, nodes: &mut [Node], child: u32, within: bool, now: Instant) {
        if self.only == child {
            return;
        }
        if self.only != NONE {
            let other = core::mem::replace(&mut self.only, NONE);
            let within = nodes[other as usize].is_within_guarantee(now);
            self.insert(nodes, other, within, now);
        }
        self.insert(nodes, child, within, now);
    }

    /// A child may not send any more.
    #[inline]
    pub fn leave(&mut self, nodes: &mut [Node], child: u32) {
        self.ready -= 1;
        if self.only == child {
            self.only = NONE;
            return;
        }
        // After its turn its entry is the first. It is removed while the node is in the cache; other entries stay until they are the first.
        let node = &mut nodes[child as usize];
        let is_first = |heap: &LazyHeap| heap.first().is_some_and(|entry| entry.child == child);
        if node.in_guaranteed && is_first(&self.guaranteed) {
            node.in_guaranteed = false;
            self.guaranteed.pop();
        }
        if node.in_excess && is_first(&self.excess) {
            node.in_excess = false;
            self.excess.pop();
        }
    }

    #[inline]
    fn insert(&mut self, nodes: &mut [Node], child: u32, within: bool, now: Instant) {
        let node = &mut nodes[child as usize];
        if within {
            if !core::mem::replace(&mut node.in_guaranteed, true) {
                // Not earlier than after its last turn: the deadlines of a burst follow its rate.
                node.eligible = node.eligible.max(now.get());
                let key = node.guarantee_key();
                self.push(true, OrderEntry::new(key, child), nodes);
            }
        } else if !core::mem::replace(&mut node.in_excess, true) {
            let key = node.excess_key();
            self.push(false, OrderEntry::new(key, child), nodes);
        }
    }

    fn push(&mut self, guaranteed: bool, entry: OrderEntry, nodes: &[Node]) {
        let parent = self.node;
        let heap = if guaranteed { &mut self.guaranteed } else { &mut self.excess };
        heap.push(entry, |entry| {
            let node = &nodes[entry.child as usize];
            node.parent == parent && if guaranteed { node.in_guaranteed } else { node.in_excess }
        });
    }

    /// The child whose turn it is, and whether the turn is within its guarantee.
    #[inline]
    pub fn pick(&mut self, nodes: &mut [Node], now: Instant) -> Option<(u32, bool)> {
        if let Some(node) = nodes.get_mut(self.only as usize) {
            let within = node.is_within_guarantee(now);
            if !within {
                self.advance(node);
            }
            return Some((self.only, within));
        }
        while let Some(entry) = self.guaranteed.first() {
            let (key, child) = (entry.key(), entry.child);
            let node = &mut nodes[child as usize];
            if node.parent != self.node {
                self.guaranteed.pop();
            } else if !node.ready || !node.is_within_guarantee(now) {
                node.in_guaranteed = false;
                self.guaranteed.pop();
                if nodes[child as usize].ready {
                    self.insert(nodes, child, false, now);
                }
            } else if key != node.guarantee_key() {
                self.guaranteed.replace_first(node.guarantee_key());
            } else {
                return Some((child, true));
            }
        }
        while let Some(entry) = self.excess.first() {
            let (key, child) = (entry.key(), entry.child);
            let node = &mut nodes[child as usize];
            if node.parent != self.node {
                self.excess.pop();
            } else if !node.ready {
                node.in_excess = false;
                self.excess.pop();
            } else if key != node.excess_key() {
                self.excess.replace_first(node.excess_key());
            } else {
                self.advance(node);
                return Some((child, false));
            }
        }
        None
    }

    /// The virtual time is that of the child that is served with excess.
    #[inline(always)]
    fn advance(&mut self, node: &Node) {
        let present = &mut self.virtual_times[usize::from(node.priority())];
        if is_before(*present, node.start) {
            *present = node.start;
        }
    }

    /// Prefetches the branch.
    #[inline(always)]
    pub fn prefetch<W: Wires>(&self, wires: &W) {
        wires.prefetch(self);
        wires.prefetch(&self.virtual_times);
    }

    /// Children whose turns come soon.
    #[inline(always)]
    pub fn soon(&self) -> impl Iterator<Item = u32> {
        self.excess.followers().iter().map(|entry| entry.child)
    }
}

/// The nodes with the tables that find them.
#[derive(Debug)]
pub(super) struct Nodes {
    pub all: Vec<Node>,
    free: Vec<u32>,
    pub branches: Vec<Branch>,
    free_branches: Vec<u32>,
    /// By share: its node.
    node_of: Vec<u32>,
    /// By share: the leaf of its packets. It differs from its node while a leaf that was removed is not empty yet.
    leaf_of: Vec<u32>,
}

impl Nodes {
    /// The link with its default leaf.
    pub fn new(root: &ShareParameters) -> Nodes {
        let other = ShareParameters { burst: root.burst, ..ShareParameters::default() };
        let mut nodes = Nodes {
            all: [Node::new(NONE, ShareId(0), root), Node::new(ROOT, ShareId(0), &other)].into(),
            free: Vec::new(),
            branches: Vec::new(),
            free_branches: Vec::new(),
            node_of: [ROOT].into(),
            leaf_of: [DEFAULT].into(),
        };
        nodes.adopt(ROOT);
        nodes
    }

    /// The leaf of a share's packets.
    #[inline(always)]
    pub fn leaf_of(&self, share: ShareId) -> u32 {
        self.leaf_of.get(share.index()).copied().unwrap_or(DEFAULT)
    }

    /// The node of a share, if the tree has it.
    pub fn node_of(&self, share: ShareId) -> Option<u32> {
        self.node_of.get(share.index()).copied().filter(|node| *node != NONE)
    }

    pub fn set_node(&mut self, share: ShareId, node: Option<u32>) {
        let length = share.index() + 1;
        if self.node_of.len() < length {
            self.node_of.resize(length, NONE);
            self.leaf_of.resize(length, DEFAULT);
        }
        self.node_of[share.index()] = node.unwrap_or(NONE);
    }

    /// Sets the leaf of a share's packets.
    pub fn set_leaf(&mut self, share: ShareId, leaf: u32) {
        if let Some(place) = self.leaf_of.get_mut(share.index()) {
            *place = leaf;
        }
    }

    /// Finds the leaf of a share's packets anew, unless a leaf that is closing still has some.
    pub fn find_leaf(&mut self, share: ShareId) {
        let present = self.leaf_of(share);
        if present != DEFAULT && self.all[present as usize].closing {
            return;
        }
        let own = self.node_of(share).filter(|node| self.all[*node as usize].branch == NONE);
        if let Some(leaf) = self.leaf_of.get_mut(share.index()) {
            *leaf = own.unwrap_or(DEFAULT);
        }
    }

    /// A new node.
    pub fn add(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = node;
                place
            }
            None => {
                self.all.push(node);
                self.all.len() as u32 - 1
            }
        }
    }

    /// Removes a node that has neither children nor packets.
    pub fn free(&mut self, place: u32) {
        // No entry of a heap is valid any more.
        self.all[place as usize].parent = NONE;
        self.free.push(place);
    }

    /// A node gets a child.
    pub fn adopt(&mut self, place: u32) {
        let node = &mut self.all[place as usize];
        if node.branch == NONE {
            node.branch = self.free_branches.pop().unwrap_or_else(|| {
                self.branches.push(Branch::default());
                self.branches.len() as u32 - 1
            });
            self.branches[node.branch as usize].node = place;
        }
        self.branches[node.branch as usize].add_child();
    }

    /// A node loses a child.
    pub fn release(&mut self, place: u32) {
        let number = self.all[place as usize].branch;
        let branch = &mut self.branches[number as usize];
        branch.children -= 1;
        if branch.children == 0 && place != ROOT {
            *branch = Branch::default();
            self.all[place as usize].branch = NONE;
            self.free_branches.push(number);
        }
    }
}
