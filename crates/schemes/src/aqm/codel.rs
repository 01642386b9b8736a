//! CoDel: a packet is dropped at the front when packets have waited longer than a target for a whole interval, and then one
//! more each time the [control law](super::law) says, until they wait less (Nichols and Jacobson, RFC 8289, section 5).
//!
//! The RFC drops in a loop. Here an evaluation drops one packet at most: the link, being ready still, asks again at the same
//! time, and the loop's place is kept in [`Step`]. What is decided is the same, packet for packet (spec N-04).

use super::law::Root;
use super::{At, Manage, Turn};
use crate::options::{BuildError, Values};
use crate::seen::seconds_to;
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos};

/// How many drops are counted when dropping begins again soon after it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// Those of the last time, where it ended less than 16 intervals ago.
    Rfc8289,
    /// All but two, where that is less than one interval ago; and it begins again only then, or a whole interval after
    /// packets first waited too long (Nichols and Jacobson, ACM Queue 10(5), 2012).
    Acm2012,
    /// All but two, where that is less than 8 intervals ago; and the last drop of a time does not count (the queue of
    /// "No Silver Bullet", HotNets 2013).
    Sfqcodel,
}

impl Again {
    /// As they are written in a configuration, in the order of [`Again::ALL`].
    pub const NAMES: &'static [&'static str] = &["rfc8289", "acm2012", "sfqcodel"];
    /// All of them.
    pub const ALL: [Again; 3] = [Again::Rfc8289, Again::Acm2012, Again::Sfqcodel];
}

/// CoDel's parameters.
#[derive(Clone, Copy, Debug)]
pub struct CoDel {
    /// How long packets may wait.
    pub target: Nanos,
    /// For how long they may wait longer: about a round trip.
    pub interval: Nanos,
    /// With so much or less behind it no packet is dropped.
    pub mtu: Bytes,
    /// Packets that wait at most.
    pub limit: u32,
    /// Whether packets are marked instead where their sender understands it.
    pub ecn: bool,
    /// What is counted when dropping begins again.
    pub again: Again,
    /// How the square root is taken.
    pub root: Root,
}

impl CoDel {
    /// As the configuration names it.
    pub const DECLARATION: Declaration = Declaration {
        name: "codel",
        summary: "drops at the front when packets have waited longer than `target` for an `interval`, ever faster until they do not",
        cost: DeclaredCost::None,
        source: "RFC 8289",
        options: &[
            OptionDeclaration {
                name: "target",
                unit: Unit::Time,
                default: "5ms",
                least: 1_000,
                most: 4_000_000_000_000,
                doc: "how long packets may wait",
            },
            OptionDeclaration {
                name: "interval",
                unit: Unit::Time,
                default: "100ms",
                least: 1_000,
                most: 4_000_000_000,
                doc: "for how long they may wait longer than that; about the longest usual round trip",
            },
            OptionDeclaration {
                name: "mtu",
                unit: Unit::Size,
                default: "1514b",
                least: 0,
                most: 1 << 20,
                doc: "with so much or less waiting behind it no packet is dropped: by default the MTU of 1500 bytes (RFC 8289) and the Ethernet header, which counts here as in Linux",
            },
            super::LIMIT,
            super::ECN,
            OptionDeclaration {
                name: "again",
                unit: Unit::Choice(Again::NAMES),
                default: "rfc8289",
                least: 0,
                most: Again::NAMES.len() as u64 - 1,
                doc: "how many drops are counted when dropping begins again soon after it ended",
            },
            OptionDeclaration {
                name: "root",
                unit: Unit::Choice(Root::NAMES),
                default: "exact",
                least: 0,
                most: Root::NAMES.len() as u64 - 1,
                doc: "how the square root of the control law is taken",
            },
        ],
    };

    /// With the values of its options.
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

    /// Whether so long before `now` is less than `intervals` ago. The time may lie ahead.
    fn is_recent(&self, now: Instant, then: Instant, intervals: u64) -> bool {
        now.since(then) < self.interval * intervals
    }

    /// Whether the first packet has, with those before it, waited too long for too long.
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

    /// Whether dropping begins with a packet that is too late; if so, what is counted from here on.
    #[inline(never)]
    fn begin(&self, memory: &mut Memory, now: Instant) -> bool {
        let dropped = memory.count;
        let count = match self.again {
            Again::Rfc8289 => match dropped.saturating_sub(memory.before) {
                lately if lately > 1 && self.is_recent(now, memory.drop_next, 16) => lately,
                _ => 1,
            },
            Again::Acm2012 => {
                let recent = self.is_recent(now, memory.drop_next, 1);
                // `above` is an interval after the first packet that waited too long.
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

    /// Where the next evaluation goes on, if the first packet is to get out of the way; nothing where it is sent.
    #[inline(always)]
    fn judge(&self, memory: &mut Memory, now: Instant, late: bool) -> Option<Step> {
        let step = core::mem::take(&mut memory.step);
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
        // The queue of 2013 counts a drop once the next packet was found to be late too.
        memory.count += u32::from(self.again != Again::Sfqcodel);
        Some(Step::Dropped)
    }

    /// Gets the first packet out of the way: marked where that is wanted and understood, else dropped.
    #[inline(never)]
    fn punish<W: Wires>(&self, memory: &mut Memory, at: &mut At<'_, W>, head: &Record, step: Step) -> Turn {
        if self.ecn && head.ecn != 0 {
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

/// Where an evaluation goes on that follows another at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    /// It begins.
    #[default]
    Fresh,
    /// The packet before was dropped while dropping went on.
    Dropped,
    /// Dropping has begun with the packet before: this one goes.
    Begun,
}

/// What CoDel remembers of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// When packets will have waited too long for an interval.
    above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    /// `count` when dropping last began.
    before: u32,
    dropping: bool,
    step: Step,
}

impl Memory {
    /// The queue may be empty now, and the next packet will then have nothing behind it: what its turn would find out is
    /// known at once, and it need not be asked about.
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
        // Those that have not waited for long enough: each ends dropping, where no drop waits for its end.
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
