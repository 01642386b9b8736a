//! CoDel: a packet is dropped at the front when packets have waited longer than a target for a whole interval. Then one more is dropped at each time
//! given by the [control law](super::control_law), until packets wait less (Nichols and Jacobson, RFC 8289, section 5).
//!
//! The RFC drops in a loop. Here an evaluation drops at most one packet. The link is still ready and evaluates again at the same time; the position
//! in the loop is stored as [`DropStep`]. The decisions are the same, packet for packet (spec N-04).

use super::control_law::SquareRoot;
use super::{Evaluation, Manage, QueueContext};
use crate::inspect::seconds_to;
use crate::options::{BuildError, Values};
use crate::{Record, Size, Tell, Wires};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos};

/// The drop count with which dropping restarts soon after it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountRestart {
    /// The drops of the last dropping phase, if it ended less than 16 intervals ago.
    Rfc8289,
    /// All drops but two, if the phase ended less than one interval ago. Dropping restarts only then, or a whole interval after packets first
    /// exceeded the target (Nichols and Jacobson, ACM Queue 10(5), 2012).
    Acm2012,
    /// All drops but two, if the phase ended less than 8 intervals ago. The last drop of a phase does not count (the queue of "No Silver Bullet",
    /// HotNets 2013).
    Sfqcodel,
}

impl CountRestart {
    /// Their names in a configuration, in the order of [`CountRestart::ALL`].
    pub const NAMES: &'static [&'static str] = &["rfc8289", "acm2012", "sfqcodel"];
    /// All variants.
    pub const ALL: [CountRestart; 3] = [CountRestart::Rfc8289, CountRestart::Acm2012, CountRestart::Sfqcodel];
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
    pub count_restart: CountRestart,
    /// The method of the square root.
    pub root: SquareRoot,
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
                unit: Unit::Choice(CountRestart::NAMES),
                default: "rfc8289",
                least: 0,
                most: CountRestart::NAMES.len() as u64 - 1,
                doc: "the rule for the drop count when dropping restarts soon after it ended",
            },
            OptionDeclaration {
                name: "root",
                unit: Unit::Choice(SquareRoot::NAMES),
                default: "exact",
                least: 0,
                most: SquareRoot::NAMES.len() as u64 - 1,
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
            count_restart: options.choice("again", &CountRestart::ALL)?,
            root: options.choice("root", &SquareRoot::ALL)?,
        })
    }

    #[inline]
    fn next_drop_time(&self, from: Instant, count: u32) -> Instant {
        // RFC 8289, section 5.6: `t + INTERVAL / sqrt(count)`.
        from + self.root.divide(self.interval, count)
    }

    /// True if `then` is less than `intervals` ago, or in the future.
    fn is_recent(&self, now: Instant, then: Instant, intervals: u64) -> bool {
        // `since` is zero for a time in the future, so a planned drop that was never reached is recent.
        now.since(then) < self.interval * intervals
    }

    /// True if packets have exceeded the target for an interval, the first packet included.
    #[inline(always)]
    fn is_too_late(&self, memory: &mut CodelMemory, now: Instant, head: &Record, behind: Bytes, last: bool) -> bool {
        // RFC 8289, section 5.6: `behind` is the backlog without this packet, as the RFC reads it after its dequeue. The last packet of a queue is
        // never dropped, even while other queues of the scheme hold packets.
        if now.since(head.timestamp) < self.target || behind <= self.mtu || last {
            memory.first_above = None;
            return false;
        }
        match memory.first_above {
            None => {
                // The first late packet only starts the interval: a burst that drains within it loses no packet.
                memory.first_above = Some(now + self.interval);
                false
            }
            Some(above) => now >= above,
        }
    }

    /// Decides whether dropping starts with a late packet. If so, sets the count.
    #[inline(never)]
    fn starts_dropping(&self, memory: &mut CodelMemory, now: Instant) -> bool {
        let dropped = memory.count;
        // A phase that ended lately found the drop rate that controlled the queue. Dropping restarts near that rate.
        let count = match self.count_restart {
            CountRestart::Rfc8289 => match dropped.saturating_sub(memory.previous_count) {
                // RFC 8289, section 5.5: delta is more than 1, and dropping ended less than 16 intervals ago.
                lately if lately > 1 && self.is_recent(now, memory.drop_next, 16) => lately,
                _ => 1,
            },
            CountRestart::Acm2012 => {
                let recent = self.is_recent(now, memory.drop_next, 1);
                // `above` is one interval after the first packet that exceeded the target.
                let long = memory.first_above.is_some_and(|above| now.since(above) >= self.interval);
                if !recent && !long {
                    return false;
                }
                // `count > 2 ? count - 2 : 1` of the article.
                if dropped > 2 && recent { dropped - 2 } else { 1 }
            }
            CountRestart::Sfqcodel if dropped > 2 && self.is_recent(now, memory.drop_next, 8) => dropped - 2,
            CountRestart::Sfqcodel => 1,
        };
        (memory.dropping, memory.count, memory.previous_count) = (true, count, count);
        // From now, because the planned drop belongs to the phase before.
        memory.drop_next = self.next_drop_time(now, count);
        true
    }

    /// The step after the drop of the first packet, or none if the packet is sent.
    #[inline(always)]
    fn next_step(&self, memory: &mut CodelMemory, now: Instant, late: bool) -> Option<DropStep> {
        let step = core::mem::take(&mut memory.step);
        // Dropping started with the packet before. The RFC sends the next one without a check.
        if step == DropStep::Begun {
            return None;
        }
        if !memory.dropping {
            return (late && self.starts_dropping(memory, now)).then_some(DropStep::Begun);
        }
        if !late {
            memory.dropping = false;
            return None;
        }
        // The RFC plans the next drop after a drop, if the packet behind it is late too. It counts from the planned time, not from now, so late
        // evaluations do not stretch the sequence.
        if step == DropStep::Dropped {
            memory.count += u32::from(self.count_restart == CountRestart::Sfqcodel);
            memory.drop_next = self.next_drop_time(memory.drop_next, memory.count);
        }
        // The condition of the RFC's loop: late packets between two planned drops are sent.
        if now < memory.drop_next {
            return None;
        }
        // The queue of 2013 counts a drop only when the next packet is late too.
        memory.count += u32::from(self.count_restart != CountRestart::Sfqcodel);
        Some(DropStep::Dropped)
    }

    /// Marks the first packet if that is enabled and the packet is ECN-capable; otherwise drops it.
    #[inline(never)]
    fn mark_or_drop<W: Wires>(
        &self,
        memory: &mut CodelMemory,
        at: &mut QueueContext<'_, W>,
        head: &Record,
        step: DropStep,
    ) -> Evaluation {
        if self.ecn && head.ecn != 0 {
            // A marked packet leaves and ends the loop of the RFC: advance its state here.
            if step == DropStep::Dropped {
                memory.count += u32::from(self.count_restart == CountRestart::Sfqcodel);
                memory.drop_next = self.next_drop_time(memory.drop_next, memory.count);
            }
            return memory.after_evaluation(at.send_marked(), at);
        }
        // The next evaluation continues the RFC's loop with the packet behind this one.
        memory.step = step;
        memory.after_evaluation(at.drop_front(), at)
    }
}

/// The position in the loop of the RFC between two evaluations at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum DropStep {
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
pub struct CodelMemory {
    /// When packets will have exceeded the target for an interval.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    /// `count` when dropping last started.
    previous_count: u32,
    dropping: bool,
    step: DropStep,
}

impl CodelMemory {
    /// If the queue is empty now, the next packet will have no backlog behind it. Its evaluation would only reset the state, so the state is reset
    /// here, and the packet can bypass the scheme.
    #[inline]
    fn after_evaluation<W: Wires>(&mut self, turn: Evaluation, at: &QueueContext<'_, W>) -> Evaluation {
        if at.size().packets == 0 {
            self.empty();
        }
        turn
    }

    fn empty(&mut self) {
        // `count`, `previous_count` and `drop_next` stay: a restart soon after this compares with them (RFC 8289, section 5.5).
        (self.first_above, self.dropping, self.step) = (None, false, DropStep::Fresh);
    }
}

impl Manage for CoDel {
    type Memory = CodelMemory;
    const LOOKS: bool = true;

    #[inline(always)]
    fn arrive<W: Wires>(&mut self, _: &mut CodelMemory, at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        !at.is_full(self.limit, packet) && at.wires.enqueue(at.queue)
    }

    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, memory: &mut CodelMemory, at: &mut QueueContext<'_, W>) -> Evaluation {
        let Some(head) = at.wires.head(at.queue) else {
            memory.empty();
            return Evaluation::Nothing;
        };
        let now = at.wires.now();
        // With many queues this is the backlog of all of them, as in `fq_codel` of Linux.
        let behind = Bytes::new(at.backlog.get().saturating_sub(head.length.into()));
        let late = self.is_too_late(memory, now, &head, behind, at.waiting.packets <= head.packets());
        match self.next_step(memory, now, late) {
            None => memory.after_evaluation(at.send(), at),
            Some(step) => self.mark_or_drop(memory, at, &head, step),
        }
    }

    fn unconditional_bounds(&self) -> Option<Size> {
        Some(Size { packets: self.limit, bytes: Bytes::new(u64::MAX) })
    }

    #[inline(always)]
    fn send_unconditionally<W: Wires>(&mut self, memory: &mut CodelMemory, at: &mut QueueContext<'_, W>) {
        // Packets that have waited less than the target. Each of them would end the dropping phase, if no drop is in progress.
        // One nanosecond is added, because a packet that has waited exactly the target is late.
        let since = Instant::new((at.wires.now().get() + 1).saturating_sub(self.target.get()));
        if memory.step == DropStep::Fresh && at.wires.send_while(at.queue, since) > 0 {
            memory.empty();
        }
    }

    fn emptied(&self, memory: &mut CodelMemory) {
        memory.empty();
    }

    fn state(&self, memory: &CodelMemory, now: Instant, _: Size, tell: &mut Tell<'_>) {
        tell("count", memory.count.into());
        tell("dropping", u8::from(memory.dropping).into());
        // Outside of a dropping phase the stored time is that of an old phase.
        tell("drop_next", if memory.dropping { seconds_to(memory.drop_next, now) } else { 0.0 });
    }

    fn passes_when_idle(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
