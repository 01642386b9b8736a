//! Hierarchical link sharing for many thousands of leaves.
//!
//! **Semantics.** A node has a guaranteed rate, a ceiling, a weight, a burst and a priority. At each node one child gets the next turn:
//!
//! 1. The children within their guarantee (a token bucket of rate and burst) precede the others. The first is the one with the earliest deadline: the end
//!    of its next turn at its rate. Its turn increases this time by length over rate (virtual clock; Zhang, SIGCOMM 1990). As long as the guarantees fit
//!    the rate of the node, a packet leaves at most a turn of another child after its deadline (Figueira and Pasquale, IEEE/ACM Transactions on
//!    Networking 3(4), 1995).
//! 2. Without such a child, the first is the child of the first priority with the least virtual time. Its turn adds length over weight to this time
//!    (start-time fair queueing, Goyal, Vin and Cheng, SIGCOMM 1996, section 3, as a hierarchy).
//!
//! A child at its ceiling takes no part. Turns of the second kind are not charged to the guarantee. So for children that always have packets, below a node
//! that gets the rate C, with guarantees R, ceilings M and weights w of one priority,
//!
//! ```text
//! B_i = min(M_i, R_i + w_i / sum(w) * (C - sum(R)))
//! ```
//!
//! where the shares of those at their ceiling go to the others in the same way. This is link sharing with guarantees (Floyd and Jacobson, IEEE/ACM
//! Transactions on Networking 3(4), 1995). A turn ends after `quantum` bytes, so a packet may exceed the bounds of theorem 1 of start-time fair queueing by a
//! quantum at each level.
//!
//! **Cost.** Only nodes with packets below their ceiling are in the order of their parent. A decision takes one step for each level. Each step reads the first
//! entry of a heap. A node at its ceiling waits in a timing wheel, not in the order. Meters are exact, and a timer that is up to 1 ms late
//! loses no rate. A later one loses none while the burst covers the delay.

#[cfg(test)]
mod delay_tests;
mod edit;
mod leaves;
mod node;
mod order;
#[cfg(test)]
mod tests;

pub use node::{ShareEdit, ShareEdits, ShareParameters};

use crate::aqm::Evaluation;
use crate::options::{BuildError, Layer, Values};
use crate::shape;
use crate::{Group, Next, Progress, Record, Scheme, Size, Tell, Wires};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use leaves::{LeafSchemes, MakeStage};
use node::{NONE, Nodes, ROOT};
use units::declare::{OptionDeclaration, Unit};
use units::{Framing, Instant, Nanos, QueueId, Rate, ShareId, TimerWheel};

/// The options.
pub(crate) const OPTIONS: &[OptionDeclaration] = &[
    OptionDeclaration {
        default: "0bit",
        least: 0,
        doc: "the most bits per second that leave; `0bit` for the rate of the link",
        ..shape::RATE
    },
    shape::BURST,
    shape::OVERHEAD,
    shape::MINIMUM,
    shape::CELLS,
    OptionDeclaration {
        name: "leaves",
        unit: Unit::Count,
        default: "16384",
        least: 2,
        most: 1 << 20,
        doc: "the most leaves that hold packets at the same time; memory is used only for as many as there were",
    },
    OptionDeclaration {
        name: "quantum",
        unit: Unit::Size,
        default: "1514b",
        least: 64,
        most: 1 << 17,
        doc: "the bytes of a turn: a share sends packets until it has sent so many",
    },
];

/// The time between two checks whether the packets before those of a new leaf have left.
const CHECK: Nanos = Nanos::micros(500);

/// The most levels below the link: a leaf of packets that wait for their leave is one more than configured.
const DEEPEST: usize = 16;

/// Packets for which memory is prefetched together.
const AHEAD: usize = 32;

/// The turn of a node. A node is charged when its turn ends: small packets of one site cost one step for the nodes above them.
#[derive(Clone, Copy, Debug)]
struct Turn {
    node: u32,
    /// It is within the guarantee.
    within: bool,
    /// Bytes sent in the turns below that have ended, or by the leaf.
    bytes: u64,
}

/// See the [module](self).
pub(crate) struct ShareTree<W> {
    nodes: Nodes,
    leaves: LeafSchemes<W>,
    wheel: TimerWheel,
    /// The turns that have not ended, from the top: each is of a child of the one before. The last one may be that of a leaf.
    turns: Vec<Turn>,
    line: Framing,
    quantum: u64,
    /// The arrival time of the oldest packet in the default leaf, and when it was looked up.
    default_arrival: (Instant, Instant),
    /// Packets refused because all schemes of leaves held packets, and whether the operator was told.
    refused: u64,
    told: bool,
}

/// Builds the scheme from its options.
pub(crate) fn build<W: Wires + 'static>(
    options: &Values<'_>,
    inside: &Layer<'_>,
    make: MakeStage<W>,
) -> Result<Box<dyn Scheme<W>>, BuildError> {
    Ok(Box::new(of(options, inside, make)?))
}

fn of<W: Wires + 'static>(
    options: &Values<'_>,
    inside: &Layer<'_>,
    make: MakeStage<W>,
) -> Result<ShareTree<W>, BuildError> {
    let rate = Rate::bits(options.value("rate")?);
    let ceiling = (rate > Rate::ZERO).then_some(rate);
    let root = ShareParameters { ceiling, burst: options.bytes("burst")?, ..ShareParameters::default() };
    let mut wheel = TimerWheel::default();
    // The link and its default leaf.
    wheel.grow(2);
    Ok(ShareTree {
        nodes: Nodes::new(&root),
        leaves: LeafSchemes::new(inside, options.count("leaves")?, make)?,
        wheel,
        turns: Vec::with_capacity(DEEPEST),
        line: shape::framing(options)?,
        quantum: options.bytes("quantum")?.get(),
        default_arrival: (Instant::START, Instant::START),
        refused: 0,
        told: false,
    })
}

impl<W: Wires + 'static> ShareTree<W> {
    /// When the packets of a node may leave, apart from its ceiling.
    #[inline(always)]
    fn backlog(&mut self, place: u32, wires: &W) -> Next {
        let backlog = self.present_backlog(place, wires);
        match self.nodes.all[place as usize].follows {
            Instant::NEVER => backlog,
            since => self.backlog_behind_default(place, backlog, since, wires),
        }
    }

    #[inline(always)]
    fn present_backlog(&self, place: u32, wires: &W) -> Next {
        let node = &self.nodes.all[place as usize];
        if let Some(branch) = self.nodes.branches.get(node.branch as usize) {
            return branch.backlog();
        }
        if node.has_lone_packet {
            return Next::Ready;
        }
        // Checked here, because the record of the scheme lies on another cache line.
        if !node.uses_scheme {
            return Next::Idle;
        }
        self.leaves.get(node.scheme).map_or(Next::Idle, |stage| stage.next(wires))
    }

    /// Earlier packets of a new leaf may wait in the default leaf: its own wait for those, or they would overtake.
    #[cold]
    fn backlog_behind_default(&mut self, place: u32, backlog: Next, since: Instant, wires: &W) -> Next {
        if self.default_arrival(wires) > since {
            self.nodes.all[place as usize].follows = Instant::NEVER;
            return backlog;
        }
        match backlog {
            Next::Ready => Next::At(wires.now() + CHECK),
            Next::At(time) => Next::At(time.max(wires.now() + CHECK)),
            Next::Idle => Next::Idle,
        }
    }

    /// The arrival time of the oldest packet in the default leaf, as of the last check; never if it is empty.
    fn default_arrival(&mut self, wires: &W) -> Instant {
        let (arrival, checked) = self.default_arrival;
        if checked == wires.now() && arrival != Instant::START {
            return arrival;
        }
        let scheme = self.nodes.all[node::DEFAULT as usize].scheme;
        let heads = self.leaves.queues_of(scheme).filter_map(|queue| wires.head(queue));
        let arrival = heads.map(|head| head.timestamp).min().unwrap_or(Instant::NEVER);
        self.default_arrival = (arrival, wires.now());
        arrival
    }

    /// Enters a node into the order of its parent, or takes it out, and so on for the nodes above as far as they change.
    #[inline]
    fn update(&mut self, mut place: u32, mut backlog: Next, now: Instant) {
        loop {
            let Nodes { all, branches, .. } = &mut self.nodes;
            let node = &mut all[place as usize];
            if node.branch == NONE {
                node.waits_inside = matches!(backlog, Next::At(_));
                self.leaves.set_busy(node, backlog != Next::Idle);
            }
            let was_ready = node.ready;
            let ready = backlog == Next::Ready && node.is_below_ceiling(now);
            let within = ready && node.is_within_guarantee(now);
            node.ready = ready;
            // The timer of the node: for its ceiling, its leaf's scheme or its guarantee.
            let timer = match backlog {
                Next::Ready if ready && (within || !node.has_rate()) => Instant::NEVER,
                Next::Ready if ready => node.guarantee_ready(),
                Next::Ready => node.ceiling_ready(),
                Next::At(time) => time.max(node.ceiling_ready()),
                Next::Idle => Instant::NEVER,
            };
            // Checked here, because the timer lies on another cache line. A node that stays ready without its guarantee has used excess: the time of its
            // guarantee is as before.
            if timer == Instant::NEVER {
                if core::mem::take(&mut node.timer_runs) {
                    self.wheel.stop(place);
                }
            } else if !(was_ready && ready && node.timer_runs) {
                self.wheel.start(place, timer);
                node.timer_runs = true;
            }
            let parent = node.parent;
            if place == ROOT {
                return;
            }
            let branch = &mut branches[all[parent as usize].branch as usize];
            match (was_ready, ready) {
                (true, true) => return branch.keep(all, place, within, now),
                (false, false) => return,
                (false, true) => branch.enter(all, place, within, now),
                (true, false) => branch.leave(all, place),
            }
            // Only the first and the last child change the parent.
            if branch.ready > 1 || (branch.ready == 1) != ready {
                return;
            }
            backlog = if ready { Next::Ready } else { Next::Idle };
            place = parent;
        }
    }

    /// Begins turns down to a leaf, which sends next. None if no leaf may send.
    #[inline]
    fn pick(&mut self, wires: &W) -> Option<u32> {
        let now = wires.now();
        if self.turns.is_empty() && !self.nodes.all[ROOT as usize].ready {
            return None;
        }
        let mut place = self.turns.last().map_or(ROOT, |turn| turn.node);
        loop {
            let Nodes { all, branches, .. } = &mut self.nodes;
            // A leaf has no branch.
            let Some(branch) = branches.get_mut(all[place as usize].branch as usize) else { return Some(place) };
            let Some((child, within)) = branch.pick(all, now) else {
                // A node above the others without a child that may send: its turn ends.
                self.turns.last()?;
                self.end_turn(Next::Idle, wires);
                place = self.turns.last().map_or(ROOT, |turn| turn.node);
                continue;
            };
            if all[child as usize].branch == NONE {
                for soon in branch.soon() {
                    all[soon as usize].prefetch(wires);
                }
            }
            self.turns.push(Turn { node: child, within, bytes: 0 });
            place = child;
        }
    }

    /// Ends the last turn, of a node with this backlog, and those of the nodes above that have sent a quantum or have no more child that may send.
    #[inline]
    fn end_turn(&mut self, mut backlog: Next, wires: &W) {
        let now = wires.now();
        let mut closing = None;
        while let Some(Turn { node: place, within, bytes }) = self.turns.pop() {
            let node = &mut self.nodes.all[place as usize];
            node.charge_ceiling(bytes, now);
            if within {
                node.charge_guarantee(bytes, now);
            } else {
                node.charge_excess(bytes);
            }
            if node.closing && node.branch == NONE {
                closing = Some(place);
            }
            // A leaf may be empty. A node above may have reached its ceiling, or the end of its guarantee.
            self.update(place, backlog, now);
            let Some(above) = self.turns.last_mut() else {
                self.nodes.all[ROOT as usize].charge_ceiling(bytes, now);
                let backlog = self.present_backlog(ROOT, wires);
                self.update(ROOT, backlog, now);
                break;
            };
            above.bytes += bytes;
            let (node, sent) = (above.node, above.bytes);
            backlog = self.present_backlog(node, wires);
            if sent < self.quantum && backlog == Next::Ready {
                break;
            }
        }
        if let Some(leaf) = closing {
            self.finish_closing(leaf, wires);
        }
    }

    /// The scheme of a leaf, lent to it if it has none.
    #[inline(always)]
    fn scheme_of(&mut self, leaf: u32) -> Option<u32> {
        match self.nodes.all[leaf as usize].scheme {
            NONE => self.lend(leaf),
            scheme => Some(scheme),
        }
    }

    #[cold]
    fn lend(&mut self, leaf: u32) -> Option<u32> {
        let scheme = self.leaves.lend(&mut self.nodes.all, leaf);
        match scheme {
            Some(scheme) => self.nodes.all[leaf as usize].scheme = scheme,
            None => self.refused += 1,
        }
        scheme
    }

    /// Prefetches for the next packets. Each of the passes reads what the one before has prefetched, so the memory accesses of all packets overlap.
    #[inline]
    fn fetch_arrivals(&self, wires: &mut W) {
        let mut packets = [Record::default(); AHEAD];
        let mut count = 0;
        while count < AHEAD
            && let Some(packet) = wires.peek_arriving()
        {
            self.nodes.all[self.nodes.leaf_of(ShareId(packet.queue.0)) as usize].prefetch(wires);
            packets[count] = packet;
            count += 1;
        }
        let leaf_of = |packet: &Record| &self.nodes.all[self.nodes.leaf_of(ShareId(packet.queue.0)) as usize];
        let packets = &packets[..count];
        let mut busy = false;
        for packet in packets {
            let leaf = leaf_of(packet);
            if leaf.busy {
                self.leaves.fetch(leaf.scheme, wires);
                busy = true;
            } else if leaf.scheme != NONE {
                wires.prefetch_queue(self.leaves.lone_queue(leaf.scheme));
            }
            if let Some(above) = self.nodes.all.get(leaf.parent as usize) {
                above.prefetch(wires);
            }
        }
        for packet in packets {
            let leaf = leaf_of(packet);
            let above = self.nodes.all.get(leaf.parent as usize);
            if let Some(branch) = above.and_then(|above| self.nodes.branches.get(above.branch as usize)) {
                branch.prefetch(wires);
            }
            if leaf.busy
                && let Some(stage) = self.leaves.get(leaf.scheme)
            {
                stage.fetch(wires);
            }
        }
        if busy {
            for packet in packets {
                let leaf = leaf_of(packet);
                if leaf.busy
                    && let Some(stage) = self.leaves.get(leaf.scheme)
                {
                    stage.fetch_arrival(wires, packet);
                }
            }
        }
    }

    /// Enqueues, marks or refuses the arriving packet.
    #[inline]
    fn arrive(&mut self, wires: &mut W, packet: &Record) {
        let leaf = self.nodes.leaf_of(ShareId(packet.queue.0));
        // Without a scheme the packet stays in the register, and the link drops it.
        let Some(scheme) = self.scheme_of(leaf) else { return };
        let node = &mut self.nodes.all[leaf as usize];
        // A leaf that has got its own queue meanwhile: the packets in its scheme leave first.
        if node.has_own_queue() && !node.uses_scheme {
            let queue = self.leaves.lone_queue(scheme);
            if wires.size(queue).bytes.get() + u64::from(packet.length) <= self.leaves.queue_limit(leaf) {
                node.has_lone_packet |= wires.enqueue(queue);
            }
        } else if !node.busy && self.leaves.passes_lone() {
            node.has_lone_packet = wires.enqueue(self.leaves.lone_queue(scheme));
        } else if let Some(stage) = self.leaves.stage(scheme) {
            node.uses_scheme = true;
            stage.arrive(wires, packet);
        }
        // A leaf that is ready stays so, and one at its ceiling waits for its timer.
        if !node.ready && (node.waits_inside || !node.busy) {
            let backlog = self.backlog(leaf, wires);
            self.update(leaf, backlog, wires.now());
        }
    }

    /// One evaluation of a leaf, and its backlog then. A lone packet precedes those of the scheme, which arrived later.
    #[inline(always)]
    fn evaluate_leaf(&mut self, leaf: u32, wires: &mut W) -> (Evaluation, Next) {
        let node = &mut self.nodes.all[leaf as usize];
        if node.has_lone_packet {
            let queue = self.leaves.lone_queue(node.scheme);
            let sent = wires.dequeue(queue).map(|packet| {
                wires.transmit();
                packet.length
            });
            // More than one in a queue of its own, or after the link has moved packets from another scheme.
            node.has_lone_packet = wires.size(queue).packets > 0;
            return (sent.map_or(Evaluation::Nothing, Evaluation::Sent), self.present_backlog(leaf, wires));
        }
        let Some(stage) = self.leaves.stage(node.scheme) else { return (Evaluation::Nothing, Next::Idle) };
        let (evaluation, next) = (stage.evaluate(wires), stage.next(wires));
        node.uses_scheme = next != Next::Idle;
        (evaluation, next)
    }

    /// One evaluation: drops or sends at most one packet.
    fn evaluate(&mut self, wires: &mut W) -> Evaluation {
        let now = wires.now();
        while self.wheel.is_due(now)
            && let Some(place) = self.wheel.pop(now)
        {
            let node = &mut self.nodes.all[place as usize];
            node.timer_runs = false;
            node.catch_up(now);
            let backlog = self.backlog(place, wires);
            self.update(place, backlog, now);
        }
        loop {
            let Some(leaf) = self.pick(wires) else { return Evaluation::Nothing };
            let (evaluation, next) = self.evaluate_leaf(leaf, wires);
            let sent = match evaluation {
                Evaluation::Sent(length) => self.line.line_bytes(length).get(),
                Evaluation::Dropped => 0,
                Evaluation::Nothing => {
                    // A scheme that says it is ready and does nothing would be asked for ever.
                    self.end_turn(if next == Next::Ready { Next::Idle } else { next }, wires);
                    continue;
                }
            };
            if let Some(turn) = self.turns.last_mut() {
                turn.bytes += sent;
                let leaf = &self.nodes.all[leaf as usize];
                // A longer turn than its deadline covers would delay others.
                let most = if leaf.has_own_queue() { 1 } else { self.quantum };
                if turn.bytes >= most || next != Next::Ready {
                    self.end_turn(next, wires);
                }
            }
            return evaluation;
        }
    }
}

impl<W: Wires + 'static> Scheme<W> for ShareTree<W> {
    fn arrival(&mut self, wires: &mut W) {
        loop {
            self.fetch_arrivals(wires);
            for _ in 0..AHEAD {
                let Some(packet) = wires.arriving() else { return };
                self.arrive(wires, &packet);
            }
        }
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, wires: &W) -> Next {
        if self.leaves.are_idle() {
            return Next::Idle;
        }
        if !self.turns.is_empty() || self.nodes.all[ROOT as usize].ready || self.wheel.is_due(wires.now()) {
            return Next::Ready;
        }
        match self.wheel.next() {
            Instant::NEVER => Next::Idle,
            time => Next::At(time),
        }
    }

    /// Always: a leaf's rate may change while packets wait.
    fn splits_super_frames(&self, _: Rate) -> bool {
        true
    }

    fn wants_flow_hash(&self) -> bool {
        self.leaves.wants().0
    }

    fn wants_hosts(&self) -> bool {
        self.leaves.wants().1
    }

    fn queues(&self) -> u32 {
        self.leaves.queues()
    }

    fn groups(&self) -> Vec<Group> {
        [Group::new(Group::ALL, self.queues())].into()
    }

    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        let leaf = &self.nodes.all[self.nodes.leaf_of(ShareId(packet.queue.0)) as usize];
        if leaf.scheme != NONE && (leaf.has_own_queue() || !leaf.busy && self.leaves.passes_lone()) {
            return Some(self.leaves.lone_queue(leaf.scheme));
        }
        self.leaves.get(leaf.scheme)?.queue_of(packet)
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        if let Some(stage) = self.leaves.of_queue(queue.0) {
            stage.state(queue, now, waiting, tell);
        }
    }

    fn recount(&mut self, wires: &W) {
        self.interrupt(wires);
        for scheme in 0..self.leaves.lent() as u32 {
            let leaf = self.leaves.recount(scheme, wires);
            if let Some(node) = self.nodes.all.get_mut(leaf as usize) {
                node.has_lone_packet = wires.size(self.leaves.lone_queue(scheme)).packets > 0;
                node.uses_scheme = true;
                let backlog = self.present_backlog(leaf, wires);
                self.update(leaf, backlog, wires.now());
                self.finish_closing(leaf, wires);
            }
        }
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        if self.leaves.most() != other.leaves.most() || self.leaves.queues() != other.leaves.queues() {
            return false;
        }
        self.interrupt(wires);
        if self.leaves.layer() != other.leaves.layer() && !self.leaves.tune(other.leaves.layer(), wires) {
            return false;
        }
        (self.line, self.quantum) = (other.line, other.quantum);
        self.nodes.all[ROOT as usize].take_ceiling(&other.nodes.all[ROOT as usize], wires.now());
        let backlog = self.backlog(ROOT, wires);
        self.update(ROOT, backlog, wires.now());
        true
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn next_message(&mut self) -> Option<String> {
        if self.refused == 0 || core::mem::replace(&mut self.told, true) {
            return None;
        }
        let most = self.leaves.most();
        Some(alloc::format!(
            "all {most} leaves hold packets: packets of other leaves are dropped; raise 'leaves' of the scheme 'share'"
        ))
    }

    fn has_shares(&self) -> bool {
        true
    }

    fn edit_shares(&mut self, edits: &dyn Any, wires: &W) {
        let Some(ShareEdits(edits)) = edits.downcast_ref() else { return };
        self.interrupt(wires);
        for edit in edits.iter() {
            match edit {
                ShareEdit::Put(share, settings) => self.put(*share, settings, wires),
                ShareEdit::Remove(share) => self.remove(*share, wires),
            }
        }
    }
}
