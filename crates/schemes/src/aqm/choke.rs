//! CHOKe: an arriving packet is compared with a random waiting one. If both are of the same flow, both are dropped. A flow is hit in proportion to
//! its part of the queue, without any state of flows (Pan, Prabhakar and Psounis, INFOCOM 2000). Other packets are dropped as by [RED](super::red):
//! all of them from `max` on, as in the paper, unless `gentle` is on.
//!
//! The wires reach only the ends of a queue. A packet to be dropped in the middle is marked as doomed, and dropped when it reaches the front.
//! Meanwhile it does not count as waiting.

use super::red::{self, Lot, Red};
use super::{At, Manage, Turn};
use crate::chance::Register;
use crate::options::{BuildError, Values};
use crate::{Record, Size, Tell, Wires};
use alloc::collections::VecDeque;
use units::Instant;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration};

/// CHOKe's parameters: RED's.
#[derive(Clone, Debug)]
pub struct Choke {
    red: Red,
    chance: Register,
}

/// CHOKe's state of a queue.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    red: red::Memory,
    /// One entry for each waiting packet, in order.
    waiting: VecDeque<Waiting>,
    doomed: u32,
}

/// The entry of a waiting packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// Its flow hash.
    Of(u32),
    /// It will be dropped.
    Doomed,
    /// It was enqueued before CHOKe was installed.
    Unknown,
}

impl Memory {
    /// Removes the entry of the first packet.
    fn leave(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front();
        self.doomed -= u32::from(first == Some(Waiting::Doomed));
        first
    }

    /// Adjusts the entries to `stored` packets, after the link added or removed packets. Missing entries are those of the oldest packets.
    #[inline]
    fn agree(&mut self, stored: u32) {
        while self.waiting.len() > stored as usize {
            self.leave();
        }
        while self.waiting.len() < stored as usize {
            self.waiting.push_front(Waiting::Unknown);
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
        Choke { red, chance: Register::new(seed ^ 0x9e37_79b9) }
    }

    /// CHOKe with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Choke, BuildError> {
        Ok(Choke::new(Red::shared(options)?, options.count("seed")?))
    }
}

impl Manage for Choke {
    type Memory = Memory;
    const PUSHES_OUT: bool = true;

    fn memory(&self) -> Memory {
        Memory { waiting: VecDeque::with_capacity(self.red.limit as usize), ..Memory::default() }
    }

    fn remembers_like(&self, other: &Choke) -> bool {
        self.red.limit >= other.red.limit
    }

    fn arrive<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>, packet: &Record) -> bool {
        let stored = at.waiting.packets;
        memory.agree(stored);
        // Doomed packets do not count for the average, but still occupy the queue.
        let waiting = stored.saturating_sub(memory.doomed);
        self.red.average(&mut memory.red, at, waiting);
        if stored >= self.red.limit {
            return false;
        }
        // Below `min` no packets are compared (figure 1 of the paper).
        if memory.red.average_q16() >= u64::from(self.red.least) << 16 && stored > 0 {
            let picked = &mut memory.waiting[self.chance.below(stored) as usize];
            if *picked == Waiting::Of(packet.flow_hash) {
                *picked = Waiting::Doomed;
                memory.doomed += 1;
                return false;
            }
        }
        let kept = self.red.cast(&mut memory.red, packet.length) == Lot::Spared && at.wires.enqueue(at.queue);
        if kept {
            memory.waiting.push_back(Waiting::Of(packet.flow_hash));
        }
        memory.red.keeps(kept, waiting, at.wires.now())
    }

    fn evaluate<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>) -> Turn {
        memory.agree(at.waiting.packets);
        let turn = if memory.leave() == Some(Waiting::Doomed) { at.drop_front() } else { at.send() };
        if turn != Turn::Nothing {
            memory.red.touch(at.wires.now());
        }
        turn
    }

    fn retuned(&self, memory: &mut Memory, waiting: Size) {
        memory.agree(waiting.packets);
        memory.red.retuned(waiting.packets.saturating_sub(memory.doomed));
    }

    /// It compares single packets, and stores the flow of each waiting one.
    fn splits_super_frames(&self) -> bool {
        true
    }

    fn state(&self, memory: &Memory, _: Instant, _: Size, tell: &mut Tell<'_>) {
        self.red.tell(&memory.red, tell);
        tell("doomed", memory.doomed.into());
    }

    fn wants_flow_hash(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Fate, Model};
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
        let sent = |flow| model.fated(|fate| matches!(fate, Fate::Sent(number) if flows[number] == flow));
        (sent(1), sent(2))
    }

    #[test]
    fn choke_drops_most_of_the_flow_with_most_of_the_queue() {
        let (greedy, modest) = shares(4);
        assert!(greedy + modest > 39_500, "the link is not idle: {greedy} and {modest}");
        assert!(greedy < 2 * modest, "it sends four times as much, and gets less than twice: {greedy} and {modest}");
    }

    #[test]
    fn packets_are_all_dropped_from_max_on_unless_gentle() {
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
        let dropped = model.fated(|fate| matches!(fate, Fate::Dropped(_)));
        let refused = model.fated(|fate| matches!(fate, Fate::Refused(_)));
        assert_eq!((dropped, refused, model.waiting()), (1, 1, 0));
        assert!(matches!(model.fates[0], Fate::Refused(_)));
    }
}
