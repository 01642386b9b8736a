//! Link sharing: branches divide the link by their weights. Each may have a ceiling, and holds any scheme, including another tree (Floyd and
//! Jacobson, IEEE/ACM Transactions on Networking 3(4), 1995).
//!
//! The order of the branches is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). It needs neither the length of a branch's next packet
//! nor the link rate. Of the branches that may send, the one with the least virtual start time does. A packet of length L advances its branch by L/w.
//! The virtual time is the start time of the packet sent last. A branch that had no packets, or was held by its ceiling, restarts no earlier than
//! that.
//!
//! **Cost.** After each packet of a branch the tree asks it for its next departure, and caches the answer until that time. A packet therefore costs
//! one scan of the branches on each level of its path, not of all leaves.
//!
//! **The bound.** For two branches that may send all the time, compare the bytes sent divided by the weight. The difference is at most the longest
//! packet of each, divided by its weight (theorem 1 there).

use crate::aqm::Evaluation;
use crate::sharing::RateMeter;
use crate::stage::{self, Stage, arrive_all};
use crate::{Group, Next, Progress, Record, Scheme, Size, Tell, Wires};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use units::{Bytes, Instant, QueueId, Rate};

/// The most branches of a tree.
pub(crate) const MOST: usize = 16;

/// A branch of the tree.
pub(crate) struct Branch<W> {
    /// The scheme inside.
    inside: Box<dyn Stage<W>>,
    /// The lowest class of the branch. It ends below the next branch's class.
    class: u8,
    weight: u32,
    ceiling: Option<RateMeter>,
    /// The cached next departure of the scheme inside.
    next: Next,
    /// The virtual start time of its next packet, and whether it could send at the last scan.
    start: u128,
    was_ready: bool,
}

/// See the [module](self).
pub(crate) struct Tree<W> {
    /// The highest class first.
    branches: Vec<Branch<W>>,
    /// The virtual time: the start time of the packet sent last.
    now: u128,
}

/// Units of virtual time per byte, for a weight of one.
const UNIT: u128 = 1 << 12;

impl<W: Wires> Tree<W> {
    /// A tree of these branches, of which there is at least one.
    pub fn new(mut branches: Vec<Branch<W>>) -> Tree<W> {
        // With the highest class first, the first match is the branch of a packet.
        branches.sort_by_key(|branch| core::cmp::Reverse(branch.class));
        let mut tree = Tree { branches, now: 0 };
        tree.number(0);
        tree
    }

    fn number(&mut self, mut first: u32) {
        for branch in &mut self.branches {
            branch.inside.begin_at(first);
            first = first.saturating_add(branch.inside.queues());
        }
    }

    /// The branch of a packet.
    #[inline]
    fn branch_of(&self, packet: &Record) -> usize {
        let own = self.branches.iter().position(|branch| packet.class >= branch.class);
        // The lowest branch also has the classes below it.
        own.unwrap_or(self.branches.len() - 1)
    }

    /// The branch that sends next.
    fn pick(&mut self, wires: &W) -> Option<usize> {
        let (now, time) = (self.now, wires.now());
        let mut best = None;
        for (place, branch) in self.branches.iter_mut().enumerate() {
            let ready = branch.update_next(wires) == Next::Ready;
            // The ceiling is asked only if the branch is ready: a shared meter counts the question as demand.
            let could = core::mem::replace(
                &mut branch.was_ready,
                ready && branch.ceiling.as_mut().is_none_or(|ceiling| ceiling.allows(time)),
            );
            if branch.was_ready {
                if !could {
                    // The branch was idle or at its ceiling: it restarts at the present virtual time, without credit.
                    branch.start = branch.start.max(now);
                }
                // Of equal starts the higher class wins, because it was seen first.
                if best.is_none_or(|(start, _)| branch.start < start) {
                    best = Some((branch.start, place));
                }
            }
        }
        best.map(|(_, place)| place)
    }
}

impl<W: Wires> Branch<W> {
    /// The next departure of the scheme inside.
    fn next(&self, wires: &W) -> Next {
        match self.next {
            Next::At(time) if time <= wires.now() => self.inside.next(wires),
            next => next,
        }
    }

    /// Like `next`, and caches it.
    fn update_next(&mut self, wires: &W) -> Next {
        self.next = self.next(wires);
        self.next
    }

    /// Updates the cached departure after a change inside.
    fn refresh_next(&mut self, wires: &W) {
        self.next = self.inside.next(wires);
    }

    /// Like [`Scheme::tune`].
    fn tune(&mut self, other: &Branch<W>, wires: &W) -> bool {
        if self.class != other.class || !stage::tune(&mut *self.inside, &*other.inside, wires) {
            return false;
        }
        self.refresh_next(wires);
        self.weight = other.weight;
        match (&mut self.ceiling, &other.ceiling) {
            (Some(ceiling), Some(other)) => ceiling.tune(other, wires.now()),
            // A new or a removed ceiling has no debt to keep.
            (ceiling, other) => ceiling.clone_from(other),
        }
        true
    }
}

impl<W> Branch<W> {
    /// A branch that has not sent yet.
    pub fn new(inside: Box<dyn Stage<W>>, class: u8, weight: u32, ceiling: Option<RateMeter>) -> Branch<W> {
        Branch { inside, class, weight: weight.max(1), ceiling, next: Next::Idle, start: 0, was_ready: false }
    }

    /// The departure time `next`, postponed by the ceiling.
    fn at(&self, next: Next, now: Instant) -> Next {
        let ready = self.ceiling.as_ref().map_or(Instant::START, RateMeter::ready);
        match next {
            Next::Ready if ready > now => Next::At(ready),
            Next::At(time) => Next::At(time.max(ready)),
            other => other,
        }
    }
}

/// The earlier of two departures.
fn sooner(one: Next, other: Next) -> Next {
    match (one, other) {
        (Next::Idle, next) | (next, Next::Idle) => next,
        (Next::At(a), Next::At(b)) => Next::At(a.min(b)),
        _ => Next::Ready,
    }
}

impl<W: Wires + 'static> Scheme<W> for Tree<W> {
    fn arrival(&mut self, wires: &mut W) {
        arrive_all(self, wires);
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, wires: &W) -> Next {
        let mut all = Next::Idle;
        for branch in &self.branches {
            all = sooner(all, branch.at(branch.next(wires), wires.now()));
            // No other branch can be sooner.
            if all == Next::Ready {
                break;
            }
        }
        all
    }

    /// One slow branch makes the tree split all super-frames, because a packet's branch is chosen only later.
    fn splits_super_frames(&self, link: Rate) -> bool {
        let slowest = |branch: &Branch<W>| link.min(branch.ceiling.as_ref().map_or(Rate::MAX, RateMeter::rate));
        self.branches.iter().any(|branch| branch.inside.splits_super_frames(slowest(branch)))
    }

    fn wants_flow_hash(&self) -> bool {
        self.branches.iter().any(|branch| branch.inside.wants_flow_hash())
    }

    fn wants_hosts(&self) -> bool {
        self.branches.iter().any(|branch| branch.inside.wants_hosts())
    }

    fn queues(&self) -> u32 {
        self.branches.iter().map(|branch| branch.inside.queues()).fold(0, u32::saturating_add)
    }

    fn holds_at_most(&self) -> u32 {
        self.branches.iter().map(|branch| branch.inside.holds_at_most()).fold(0, u32::saturating_add)
    }

    fn groups(&self) -> Vec<Group> {
        let of = |branch: &Branch<W>| {
            let outer = alloc::format!("branch {}", branch.class);
            branch.inside.groups().into_iter().map(move |group| group.inside(&outer))
        };
        self.branches.iter().flat_map(of).collect()
    }

    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        self.branches[self.branch_of(packet)].inside.queue_of(packet)
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        self.branches.iter().for_each(|branch| branch.inside.state(queue, now, waiting, tell));
    }

    fn recount(&mut self, wires: &W) {
        for branch in &mut self.branches {
            branch.inside.recount(wires);
            branch.refresh_next(wires);
        }
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        self.branches.len() == other.branches.len()
            && self.branches.iter_mut().zip(&other.branches).all(|(branch, other)| branch.tune(other, wires))
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<W: Wires + 'static> Stage<W> for Tree<W> {
    fn begin_at(&mut self, first: u32) {
        self.number(first);
    }

    fn reset(&mut self) {
        self.now = 0;
        for branch in &mut self.branches {
            branch.inside.reset();
            (branch.next, branch.start, branch.was_ready) = (Next::Idle, 0, false);
        }
    }

    fn arrive(&mut self, wires: &mut W, packet: &Record) {
        let place = self.branch_of(packet);
        let branch = &mut self.branches[place];
        branch.inside.arrive(wires, packet);
        branch.refresh_next(wires);
    }

    fn evaluate(&mut self, wires: &mut W) -> Evaluation {
        let Some(place) = self.pick(wires) else { return Evaluation::Nothing };
        let branch = &mut self.branches[place];
        let turn = branch.inside.evaluate(wires);
        branch.refresh_next(wires);
        if let Evaluation::Sent(length) = turn {
            // The virtual time is the start of this packet, before its branch advances.
            self.now = branch.start;
            // At least one unit, or a branch with tiny packets and a large weight would never give way.
            branch.start += (u128::from(length) * UNIT / u128::from(branch.weight)).max(1);
            // In bytes of the link: only a shaper knows the line behind it.
            branch.ceiling.iter_mut().for_each(|ceiling| ceiling.charge(Bytes::new(length.into()), wires.now()));
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::Tail;
    use crate::model::{Model, ModelFate};
    use crate::single::Single;
    use units::Nanos;

    use crate::sharing::Sharing;

    fn fifo() -> Box<dyn Stage<Model>> {
        Box::new(Single::new(Tail { limit: 100_000, bytes: Bytes::new(1 << 30) }))
    }

    fn branch(class: u8, weight: u32, inside: Box<dyn Stage<Model>>) -> Branch<Model> {
        Branch::new(inside, class, weight, None)
    }

    /// Offers packets of these lengths and classes, `rounds` times.
    fn offer(tree: &mut Tree<Model>, model: &mut Model, packets: &[(u32, u8)], rounds: usize) {
        (0..rounds).for_each(|_| model.arrive_as(tree, packets));
    }

    /// The bytes sent of each of the packets, which were offered in turn.
    fn sent<const N: usize>(model: &Model, packets: &[(u32, u8); N]) -> [u64; N] {
        let mut sent = [0; N];
        for fate in &model.fates {
            let ModelFate::Sent(number) = *fate else { panic!("nothing is dropped") };
            sent[number % N] += u64::from(packets[number % N].0);
        }
        sent
    }

    #[test]
    fn branches_share_by_weight_at_each_level() {
        let inner = Tree::new(Vec::from([branch(0, 1, fifo()), branch(1, 3, fifo())]));
        let mut tree =
            Tree::new(Vec::from([branch(0, 2, Box::new(inner)), branch(5, 1, fifo()), branch(9, 4, fifo())]));
        let (mut model, packets) = (Model::default(), [(300, 0), (1500, 1), (64, 5), (900, 200)]);
        offer(&mut tree, &mut model, &packets, 5000);
        model.ready(&mut tree, 3000);
        let [first, second, third, fourth] = sent(&model, &packets);
        let parts = [(first + second) / 2, third, fourth / 4];
        assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1500, "{parts:?}");
        assert!(first.abs_diff(second / 3) <= 300 + 1500 / 3, "{first} and {second}");
        assert!(third > 50_000);
    }

    #[test]
    fn unused_share_goes_to_other_branches_and_is_not_saved_up() {
        let mut tree = Tree::new(Vec::from([branch(0, 1, fifo()), branch(1, 1, fifo())]));
        let mut model = Model::default();
        model.arrive_as(&mut tree, &[(1000, 0); 100]);
        model.ready(&mut tree, 50);
        assert_eq!(model.fates.len(), 50);
        // Branch 1 was idle: from now on it gets its half, and no compensation.
        model.arrive_as(&mut tree, &[(1000, 1); 100]);
        model.ready(&mut tree, 40);
        let late =
            model.fates[50..].iter().filter(|fate| matches!(fate, ModelFate::Sent(number) if *number >= 100)).count();
        assert!((20..=21).contains(&late), "{late}");
    }

    #[test]
    fn ceilings_hold_and_link_is_idle_only_when_all_branches_are_at_theirs() {
        let ceiling = |megabits| Some(Sharing::alone().meter(Rate::mbit(megabits), Bytes::ZERO));
        let slow = Branch::new(fifo(), 0, 9, ceiling(8));
        let fast = Branch::new(fifo(), 1, 1, ceiling(80));
        let mut tree = Tree::new(Vec::from([slow, fast]));
        let (mut model, packets) = (Model::default(), [(1000, 0), (1000, 1)]);
        offer(&mut tree, &mut model, &packets, 3000);
        for _ in 0..10_000 {
            let room = model.fates.len() + 1;
            model.ready(&mut tree, 1);
            // A link of 1 Gbit/s, which is idle when both branches are at their ceiling.
            model.now = match tree.next(&model) {
                Next::At(time) => time,
                _ => model.now + Nanos::micros(8),
            };
            assert!(model.fates.len() <= room);
            if model.now > Instant::START + Nanos::millis(100) {
                break;
            }
        }
        let [slow, fast] = sent(&model, &packets);
        assert!((99_000..=102_000).contains(&slow), "8 Mbit/s for 100 ms: {slow}");
        assert!((990_000..=1_002_000).contains(&fast), "80 Mbit/s for 100 ms: {fast}");
    }
}
