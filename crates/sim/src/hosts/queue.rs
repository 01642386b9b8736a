//! The queues before a link with the scheme that decides over them, and what becomes of what waits when another takes its place.

use super::packet::{Fields, Packet};
use super::wires::{Fate, Lines};
use plan::{Call, SchemeChange};
use schemes::{BuildError, Layer, Next, Scheme};
use std::collections::VecDeque;
use units::{Instant, QueueId, Rate};

/// The scheme that a description names.
pub(super) fn scheme(call: &Call) -> Result<Box<dyn Scheme<Lines>>, BuildError> {
    fn layer(call: &Call) -> Layer<'_> {
        Layer { name: call.name, options: &call.options, inside: call.inner.iter().map(layer).collect() }
    }
    schemes::build(&layer(call))
}

/// A scheme and its queues.
struct Served {
    scheme: Box<dyn Scheme<Lines>>,
    lines: Lines,
}

impl Served {
    fn new(call: &Call, capacity: u32) -> Result<Served, BuildError> {
        let scheme = scheme(call)?;
        let lines = Lines::new(scheme.queues(), capacity);
        Ok(Served { scheme, lines })
    }
}

/// What waits before a link.
pub(super) struct Queue {
    /// Where packets go that come.
    served: Served,
    /// Schemes that others have taken the place of, the oldest first: it serves what waits there before anybody else does.
    drained: VecDeque<Served>,
    capacity: u32,
    /// Whether packets may pass the scheme while nothing waits.
    passing: bool,
}

impl Queue {
    /// A scheme that holds at most so many packets, whatever itself says.
    pub fn new(call: &Call, capacity: u32) -> Result<Queue, BuildError> {
        let served = Served::new(call, capacity)?;
        let passing = served.scheme.passes_when_idle();
        Ok(Queue { served, drained: VecDeque::new(), capacity, passing })
    }

    /// Packets that wait.
    #[inline(always)]
    pub fn packets(&self) -> u32 {
        let drained: u32 = self.drained.iter().map(|served| served.lines.waiting().packets).sum();
        self.served.lines.waiting().packets + drained
    }

    /// Whether a packet that comes now may leave without the scheme being asked.
    #[inline(always)]
    pub fn lets_pass(&self) -> bool {
        self.passing && self.served.lines.waiting().packets == 0 && self.drained.is_empty()
    }

    /// A packet comes.
    #[inline]
    pub fn arrive(&mut self, now: u64, rate: Rate, packet: Packet, fields: Fields) {
        let Served { scheme, lines } = &mut self.served;
        (lines.now, lines.rate) = (Instant::new(now), rate);
        lines.arrive(&mut **scheme, packet, fields);
    }

    /// The link takes a packet.
    #[inline]
    pub fn ready(&mut self, now: u64, rate: Rate) {
        while let Some(oldest) = self.drained.front_mut() {
            let Served { scheme, lines } = oldest;
            (lines.now, lines.rate) = (Instant::new(now), rate);
            lines.ready(&mut **scheme, 1);
            let left = lines.waiting().packets;
            if !lines.fates.is_empty() || !lines.marked.is_empty() {
                self.served.lines.fates.append(&mut lines.fates);
                self.served.lines.marked.append(&mut lines.marked);
            }
            let sent = self.served.lines.fates.iter().any(|(_, fate)| *fate == Fate::Sent);
            if left == 0 {
                self.drained.pop_front();
            }
            // One that is done with its own lets the next one have the link at once.
            if sent || left > 0 {
                return;
            }
        }
        let Served { scheme, lines } = &mut self.served;
        (lines.now, lines.rate) = (Instant::new(now), rate);
        lines.ready(&mut **scheme, 1);
    }

    /// When the scheme wants the link again, that now has nothing to do.
    pub fn next(&self) -> Next {
        let Served { scheme, lines } = self.drained.front().unwrap_or(&self.served);
        scheme.next(lines)
    }

    /// What became of packets since this was asked last.
    #[inline(always)]
    pub fn fates(&mut self) -> &mut Vec<(Packet, Fate)> {
        &mut self.served.lines.fates
    }

    /// Packets that were marked since this was asked last.
    #[inline(always)]
    pub fn marks(&mut self) -> u64 {
        let marks = self.served.lines.marked.len() as u64;
        self.served.lines.marked.clear();
        marks
    }

    /// Another scheme decides from now on. One like itself it takes its parameters from, whatever is to become of what waits.
    pub fn replace(
        &mut self,
        (now, rate): (u64, Rate),
        call: &Call,
        change: SchemeChange,
        fields: &[Fields],
    ) -> Result<(), BuildError> {
        let new = Served::new(call, self.capacity)?;
        let Served { scheme, lines } = &mut self.served;
        (lines.now, lines.rate) = (Instant::new(now), rate);
        let tuned = new.scheme.tunable().is_some_and(|like| scheme.tune(like, lines));
        if !tuned {
            let mut old = std::mem::replace(&mut self.served, new);
            let lines = &mut self.served.lines;
            lines.fates.append(&mut old.lines.fates);
            match change {
                SchemeChange::Drain if old.lines.waiting().packets > 0 => self.drained.push_back(old),
                SchemeChange::Drain => {}
                SchemeChange::Flush => {
                    let others = self.drained.drain(..).flat_map(|mut served| served.lines.drain());
                    let gone: Vec<Packet> = others.chain(old.lines.drain()).collect();
                    lines.fates.extend(gone.into_iter().map(|packet| (packet, Fate::Flush)));
                }
                SchemeChange::Migrate => {
                    let others = self.drained.drain(..).flat_map(|mut served| served.lines.drain());
                    let mut waiting: Vec<Packet> = others.chain(old.lines.drain()).collect();
                    waiting.sort_by_key(|packet| packet.came);
                    for packet in waiting {
                        self.arrive(now, rate, packet, fields[packet.stream as usize]);
                    }
                }
            }
        }
        self.passing = self.served.scheme.passes_when_idle();
        Ok(())
    }

    /// Tells what the scheme remembers, where it has one queue.
    pub fn state(&self, now: Instant, tell: &mut schemes::Tell<'_>) {
        let Served { scheme, lines } = &self.served;
        if scheme.queues() == 1 {
            scheme.state(QueueId(0), now, lines.waiting(), tell);
        }
    }
}
