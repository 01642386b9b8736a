//! CoDel: a packet is dropped at the front when packets have waited longer than a target for a whole interval. Then one more is dropped at each time
//! given by the [control law](super::law), until packets wait less (Nichols and Jacobson, RFC 8289, section 5).
//!
//! The RFC drops in a loop. Here an evaluation drops at most one packet. The link is still ready and evaluates again at the same time; the position
//! in the loop is stored as [`Step`]. The decisions are the same, packet for packet (spec N-04).

use super::law::Root;
use super::{At, Manage, Turn};
use crate::options::{BuildError, Values};
use crate::seen::seconds_to;
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos};

/// The drop count with which dropping restarts soon after it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// The drops of the last dropping phase, if it ended less than 16 intervals ago.
    Rfc8289,
    /// All drops but two, if the phase ended less than one interval ago. Dropping restarts only then, or a whole interval after packets first
    /// exceeded the target (Nichols and Jacobson, ACM Queue 10(5), 2012).
    Acm2012,
    /// All drops but two, if the phase ended less than 8 intervals ago. The last drop of a phase does not count (the queue of "No Silver Bullet",
    /// HotNets 2013).
    Sfqcodel,
}

impl Again {
    /// Their names in a configuration, in the order of [`Again::ALL`].
    pub const NAMES: &'static [&'static str] = &["rfc8289", "acm2012", "sfqcodel"];
    /// All variants.
    pub const ALL: [Again; 3] = [Again::Rfc8289, Again::Acm2012, Again::Sfqcodel];
}

/// CoDel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct CoDel {
    /// The acceptable delay.
    pub target: Nanos,
    /// The time for which packets may exceed it: about a round trip.
    pub interval: Nanos,
    /// A packet with at most this backlog behind it is not dropped.
    pub mtu: Bytes,
    /// The most packets that wait.
    pub limit: u32,
    /// True to mark packets instead if they are ECN-capable.
    pub ecn: bool,
    /// The drop count with which dropping restarts.
    pub again: Again,
    /// The method of the square root.
    pub root: Root,
}

impl CoDel {
    /// The declaration for configurations.
    pub const DECLARATION: Declaration = Declaration {
        name: "codel",
        summary: "drops at the front when packets have waited longer than `target` for an `interval`, at a growing rate until the delay is below it",
        cost: DeclaredCost::None,
        source: "RFC 8289",
        options: &[
            OptionDeclaration {
                name: "target",
                unit: Unit::Time,
                default: "5ms",
                least: 1_000,
                most: 4_000_000_000_000,
                doc: "the acceptable delay",
            },
            OptionDeclaration {
                name: "interval",
                unit: Unit::Time,
                default: "100ms",
                least: 1_000,
                most: 4_000_000_000,
                doc: "the time for which packets may exceed `target`; about the longest usual round trip",
            },
            OptionDeclaration {
                name: "mtu",
                unit: Unit::Size,
                default: "1514b",
                least: 0,
                most: 1 << 20,
                doc: "a packet with at most this backlog behind it is not dropped; the default is the MTU of 1500 bytes (RFC 8289) and the Ethernet header, which counts here as in Linux",
            },
            super::LIMIT,
            super::ECN,
            OptionDeclaration {
                name: "again",
                unit: Unit::Choice(Again::NAMES),
                default: "rfc8289",
                least: 0,
                most: Again::NAMES.len() as u64 - 1,
                doc: "the rule for the drop count when dropping restarts soon after it ended",
            },
            OptionDeclaration {
                name: "root",
                unit: Unit::Choice(Root::NAMES),
                default: "exact",
                least: 0,
                most: Root::NAMES.len() as u64 - 1,
                doc: "the method for the square root of the control law",
            },
        ],
    };

    /// CoDel with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<CoDel, BuildError> {
        Ok(CoDel {
            target: options.time("target")?,
            interval: options.time("interval")?,
            mtu: options.bytes("mtu")?,
            limit: options.count("limit")?,
            ecn: options.is_on("ecn")?,
            again: options.choice("again", &Again::ALL)?,
            root: options.choice("root", &Root::ALL)?,
        })
    }

    #[inline]
    fn law(&self, from: Instant, count: u32) -> Instant {
        from + self.root.divide(self.interval, count)
    }

    /// True if `then` is less than `intervals` ago, or in the future.
    fn is_recent(&self, now: Instant, then: Instant, intervals: u64) -> bool {
        now.since(then) < self.interval * intervals
    }

    /// True if packets have exceeded the target for an interval, the first packet included.
    #[inline(always)]
    fn is_too_late(&self, memory: &mut Memory, now: Instant, head: &Record, behind: Bytes, last: bool) -> bool {
        if now.since(head.timestamp) < self.target || behind <= self.mtu || last {
            memory.above = None;
            return false;
        }
        match memory.above {
            None => {
                memory.above = Some(now + self.interval);
                false
            }
            Some(above) => now >= above,
        }
    }

    /// Decides whether dropping starts with a late packet. If so, sets the count.
    #[inline(never)]
    fn begin(&self, memory: &mut Memory, now: Instant) -> bool {
        let dropped = memory.count;
        let count = match self.again {
            Again::Rfc8289 => match dropped.saturating_sub(memory.before) {
                // RFC 8289, section 5.5: delta is more than 1, and dropping ended less than 16 intervals ago.
                lately if lately > 1 && self.is_recent(now, memory.drop_next, 16) => lately,
                _ => 1,
            },
            Again::Acm2012 => {
                let recent = self.is_recent(now, memory.drop_next, 1);
                // `above` is one interval after the first packet that exceeded the target.
                let long = memory.above.is_some_and(|above| now.since(above) >= self.interval);
                if !recent && !long {
                    return false;
                }
                if dropped > 2 && recent { dropped - 2 } else { 1 }
            }
            Again::Sfqcodel if dropped > 2 && self.is_recent(now, memory.drop_next, 8) => dropped - 2,
            Again::Sfqcodel => 1,
        };
        (memory.dropping, memory.count, memory.before) = (true, count, count);
        memory.drop_next = self.law(now, count);
        true
    }

    /// The step after the drop of the first packet, or none if the packet is sent.
    #[inline(always)]
    fn judge(&self, memory: &mut Memory, now: Instant, late: bool) -> Option<Step> {
        let step = core::mem::take(&mut memory.step);
        // Dropping started with the packet before. The RFC sends the next one without a check.
        if step == Step::Begun {
            return None;
        }
        if !memory.dropping {
            return (late && self.begin(memory, now)).then_some(Step::Begun);
        }
        if !late {
            memory.dropping = false;
            return None;
        }
        if step == Step::Dropped {
            memory.count += u32::from(self.again == Again::Sfqcodel);
            memory.drop_next = self.law(memory.drop_next, memory.count);
        }
        if now < memory.drop_next {
            return None;
        }
        // The queue of 2013 counts a drop only when the next packet is late too.
        memory.count += u32::from(self.again != Again::Sfqcodel);
        Some(Step::Dropped)
    }

    /// Marks the first packet if that is enabled and the packet is ECN-capable; otherwise drops it.
    #[inline(never)]
    fn punish<W: Wires>(&self, memory: &mut Memory, at: &mut At<'_, W>, head: &Record, step: Step) -> Turn {
        if self.ecn && head.ecn != 0 {
            // A marked packet leaves and ends the loop of the RFC: advance its state here.
            if step == Step::Dropped {
                memory.count += u32::from(self.again == Again::Sfqcodel);
                memory.drop_next = self.law(memory.drop_next, memory.count);
            }
            return memory.after(at.send_marked(), at);
        }
        memory.step = step;
        memory.after(at.drop_front(), at)
    }
}

/// The position in the loop of the RFC between two evaluations at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    /// At the beginning.
    #[default]
    Fresh,
    /// After a drop while dropping was on.
    Dropped,
    /// After the drop that started dropping: the next packet is sent.
    Begun,
}

/// CoDel's state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// When packets will have exceeded the target for an interval.
    above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    /// `count` when dropping last started.
    before: u32,
    dropping: bool,
    step: Step,
}

impl Memory {
    /// If the queue is empty now, the next packet will have no backlog behind it. Its evaluation would only reset the state, so the state is reset
    /// here, and the packet can bypass the scheme.
    #[inline]
    fn after<W: Wires>(&mut self, turn: Turn, at: &At<'_, W>) -> Turn {
        if at.size().packets == 0 {
            self.empty();
        }
        turn
    }

    fn empty(&mut self) {
        (self.above, self.dropping, self.step) = (None, false, Step::Fresh);
    }
}

impl Manage for CoDel {
    type Memory = Memory;
    const LOOKS: bool = true;

    #[inline(always)]
    fn arrive<W: Wires>(&mut self, _: &mut Memory, at: &mut At<'_, W>, packet: &Record) -> bool {
        !at.is_full(self.limit, packet) && at.wires.enqueue(at.queue)
    }

    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>) -> Turn {
        let Some(head) = at.wires.head(at.queue) else {
            memory.empty();
            return Turn::Nothing;
        };
        let now = at.wires.now();
        let behind = Bytes::new(at.backlog.get().saturating_sub(head.length.into()));
        let late = self.is_too_late(memory, now, &head, behind, at.waiting.packets <= head.packets());
        match self.judge(memory, now, late) {
            None => memory.after(at.send(), at),
            Some(step) => self.punish(memory, at, &head, step),
        }
    }

    fn takes_any_within(&self) -> Option<Size> {
        Some(Size { packets: self.limit, bytes: Bytes::new(u64::MAX) })
    }

    #[inline(always)]
    fn send_unquestioned<W: Wires>(&mut self, memory: &mut Memory, at: &mut At<'_, W>) {
        // Packets that have waited less than the target. Each of them would end the dropping phase, if no drop is in progress.
        let since = Instant::new((at.wires.now().get() + 1).saturating_sub(self.target.get()));
        if memory.step == Step::Fresh && at.wires.send_while(at.queue, since) > 0 {
            memory.empty();
        }
    }

    fn emptied(&self, memory: &mut Memory) {
        memory.empty();
    }

    fn state(&self, memory: &Memory, now: Instant, _: Size, tell: &mut Tell<'_>) {
        tell("count", memory.count.into());
        tell("dropping", u8::from(memory.dropping).into());
        tell("drop_next", if memory.dropping { seconds_to(memory.drop_next, now) } else { 0.0 });
    }

    fn passes_when_idle(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
