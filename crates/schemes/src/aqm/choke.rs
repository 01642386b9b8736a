//! CHOKe: an arriving packet is compared with a random waiting one. If both are of the same flow, both are dropped. A flow is hit in proportion to
//! its part of the queue, without any state of flows (Pan, Prabhakar and Psounis, INFOCOM 2000). Other packets are dropped as by [RED](super::red):
//! all of them from `max` on, as in the paper, unless `gentle` is on.
//!
//! The wires reach only the ends of a queue. A packet to be dropped in the middle is marked as doomed, and dropped when it reaches the front.
//! Meanwhile it does not count as waiting.

use super::red::{self, Red, RedDecision};
use super::{Evaluation, Manage, QueueContext};
use crate::lfsr::Lfsr;
use crate::options::{BuildError, Values};
use crate::{Record, Size, Tell, Wires};
use alloc::collections::VecDeque;
use units::Instant;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration};

/// CHOKe's parameters: RED's.
#[derive(Clone, Debug)]
pub struct Choke {
    red: Red,
    chance: Lfsr,
}

/// CHOKe's state of a queue.
#[derive(Clone, Debug, Default)]
pub struct ChokeMemory {
    red: red::RedMemory,
    /// One entry for each waiting packet, in order.
    waiting: VecDeque<WaitingFlow>,
    doomed: u32,
}

/// The entry of a waiting packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaitingFlow {
    /// Its flow hash.
    Flow(u32),
    /// It will be dropped.
    Doomed,
    /// It was enqueued before CHOKe was installed.
    Unknown,
}

impl ChokeMemory {
    /// Removes the entry of the first packet.
    fn pop_entry(&mut self) -> Option<WaitingFlow> {
        let first = self.waiting.pop_front();
        self.doomed -= u32::from(first == Some(WaitingFlow::Doomed));
        first
    }

    /// Adjusts the entries to `stored` packets, after the link added or removed packets. Missing entries are those of the oldest packets.
    #[inline]
    fn agree(&mut self, stored: u32) {
        while self.waiting.len() > stored as usize {
            self.pop_entry();
        }
        while self.waiting.len() < stored as usize {
            self.waiting.push_front(WaitingFlow::Unknown);
        }
    }
}

/// The most packets of the queue: memory for their entries is allocated in advance.
const LIMIT: OptionDeclaration = OptionDeclaration { most: 65536, ..super::LIMIT };

/// In the paper all packets are dropped from `max` on.
const GENTLE: OptionDeclaration = OptionDeclaration { default: "off", ..red::GENTLE };

impl Choke {
    /// The declaration for configurations.
    pub const DECLARATION: Declaration = Declaration {
        name: "choke",
        summary: "compares an arriving packet with a random waiting one and drops both if they are of the same flow; otherwise like `red`",
        cost: DeclaredCost::None,
        source: "Pan, Prabhakar and Psounis, INFOCOM 2000",
        options: &[red::LEAST, red::MOST, red::MAXP, red::WEIGHT, GENTLE, red::MEAN, LIMIT, red::SEED],
    };

    /// CHOKe with RED's parameters and a generator with `seed`.
    pub fn new(red: Red, seed: u32) -> Choke {
        // A different sequence from RED's: the same one would correlate the two decisions.
        Choke { red, chance: Lfsr::new(seed ^ 0x9e37_79b9) }
    }

    /// CHOKe with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Choke, BuildError> {
        Ok(Choke::new(Red::shared(options)?, options.count("seed")?))
    }
}

impl Manage for Choke {
    type Memory = ChokeMemory;
    const PUSHES_OUT: bool = true;

    fn memory(&self) -> ChokeMemory {
        ChokeMemory { waiting: VecDeque::with_capacity(self.red.limit as usize), ..ChokeMemory::default() }
    }

    fn has_compatible_state(&self, other: &Choke) -> bool {
        // The entries are allocated for this limit. A larger one would allocate on the packet path.
        self.red.limit >= other.red.limit
    }

    fn arrive<W: Wires>(&mut self, memory: &mut ChokeMemory, at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        let stored = at.waiting.packets;
        memory.agree(stored);
        // Doomed packets do not count for the average, but still occupy the queue.
        let waiting = stored.saturating_sub(memory.doomed);
        self.red.update_average(&mut memory.red, at, waiting);
        // Doomed packets count for the limit, because they hold memory until they reach the front.
        if stored >= self.red.limit {
            return false;
        }
        // Below `min` no packets are compared (figure 1 of the paper).
        if memory.red.average_q16() >= u64::from(self.red.min_threshold) << 16 && stored > 0 {
            // `agree` has made one entry for each stored packet, so the index is valid. A doomed entry may be drawn, but equals no flow.
            let picked = &mut memory.waiting[self.chance.below(stored) as usize];
            if *picked == WaitingFlow::Flow(packet.flow_hash) {
                *picked = WaitingFlow::Doomed;
                memory.doomed += 1;
                return false;
            }
        }
        let kept = self.red.decide(&mut memory.red, packet.length) == RedDecision::Spared && at.wires.enqueue(at.queue);
        // Only now: the enqueue fails if the link's memory is full.
        if kept {
            memory.waiting.push_back(WaitingFlow::Flow(packet.flow_hash));
        }
        memory.red.record_arrival(kept, waiting, at.wires.now())
    }

    fn evaluate<W: Wires>(&mut self, memory: &mut ChokeMemory, at: &mut QueueContext<'_, W>) -> Evaluation {
        // The link may have removed packets since the last call, for example when it dropped all waiting ones.
        memory.agree(at.waiting.packets);
        let turn = if memory.pop_entry() == Some(WaitingFlow::Doomed) { at.drop_front() } else { at.send() };
        if turn != Evaluation::Nothing {
            memory.red.mark_busy(at.wires.now());
        }
        turn
    }

    fn parameters_changed(&self, memory: &mut ChokeMemory, waiting: Size) {
        memory.agree(waiting.packets);
        memory.red.cap_average(waiting.packets.saturating_sub(memory.doomed));
    }

    /// It compares single packets, and stores the flow of each waiting one.
    fn splits_super_frames(&self) -> bool {
        true
    }

    fn state(&self, memory: &ChokeMemory, _: Instant, _: Size, tell: &mut Tell<'_>) {
        self.red.report_state(&memory.red, tell);
        tell("doomed", memory.doomed.into());
    }

    fn wants_flow_hash(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Model, ModelFate};
    use crate::single::Single;
    use units::{Nanos, Parts};

    /// The packets of flow 1 and of flow 2 that were sent, if flow 1 offers `times` as many.
    fn shares(times: usize) -> (usize, usize) {
        let red = Red::new(5, 60, Parts::percent(2), Parts::percent(2), 200, 5);
        let (mut scheme, mut model) = (Single::new(Choke::new(red, 5)), Model::default());
        let mut flows = alloc::vec::Vec::new();
        for _ in 0..20_000 {
            let record = |flow| Record { length: 1000, flow_hash: flow, ..Record::default() };
            let packets: alloc::vec::Vec<_> = (0..times).map(|_| record(1)).chain([record(2)]).collect();
            flows.extend(packets.iter().map(|packet| packet.flow_hash));
            model.arrive_all(&mut scheme, packets.into_iter());
            model.ready(&mut scheme, 2);
            model.now += Nanos::millis(1);
        }
        let sent = |flow| model.count_fates(|fate| matches!(fate, ModelFate::Sent(number) if flows[number] == flow));
        (sent(1), sent(2))
    }

    #[test]
    fn choke_drops_most_of_the_flow_with_most_of_the_queue() {
        let (greedy, modest) = shares(4);
        assert!(greedy + modest > 39_500, "the link is not idle: {greedy} and {modest}");
        assert!(greedy < 2 * modest, "it sends four times as much, and gets less than twice: {greedy} and {modest}");
    }

    #[test]
    fn choke_drops_all_packets_above_max_unless_gentle() {
        let lost = |gentle: u64| {
            let options = [
                ("min", 5),
                ("max", 10),
                ("maxp", 1),
                ("weight", 1_000_000),
                ("gentle", gentle),
                ("mean", 500),
                ("limit", 100),
                ("seed", 1),
            ];
            let choke = Choke::of(&Values(&options)).expect("all options are there");
            let (mut scheme, mut model) = (Single::new(choke), Model::default());
            // Each packet is of a flow of its own, so comparisons never match. The eleventh arrives at an average of ten.
            let record = |flow_hash| Record { length: 100, flow_hash, ..Record::default() };
            model.arrive_all(&mut scheme, (0..11).map(record));
            model.fates.len()
        };
        assert_eq!((lost(0), lost(1)), (1, 0));
        assert_eq!(GENTLE.default, "off", "figure 1 of the paper");
    }

    #[test]
    fn doomed_packet_is_dropped_when_it_reaches_the_front() {
        let red = Red::new(0, 1000, Parts::millionths(1), Parts::percent(100), 200, 5);
        let (mut scheme, mut model) = (Single::new(Choke::new(red, 5)), Model::default());
        let record = |flow| Record { length: 100, flow_hash: flow, ..Record::default() };
        model.arrive_all(&mut scheme, [1, 2, 3, 4].map(record).into_iter());
        assert!(model.fates.is_empty(), "no two are of one flow");
        while model.fates.is_empty() {
            model.arrive_all(&mut scheme, [record(3)].into_iter());
        }
        model.ready(&mut scheme, 99);
        let dropped = model.count_fates(|fate| matches!(fate, ModelFate::Dropped(_)));
        let refused = model.count_fates(|fate| matches!(fate, ModelFate::Refused(_)));
        assert_eq!((dropped, refused, model.waiting()), (1, 1, 0));
        assert!(matches!(model.fates[0], ModelFate::Refused(_)));
    }
}
