//! The queues before a link, with their scheme. A replaced scheme can drain, flush or migrate its packets.

use super::packet::{Fields, Packet};
use super::wires::{Fate, SchemeQueues};
use plan::{Call, SchemeChange};
use schemes::{BuildError, Layer, Next, Scheme};
use std::collections::VecDeque;
use units::{Instant, QueueId, Rate};

/// Builds the scheme that a description names.
pub(super) fn scheme(call: &Call) -> Result<Box<dyn Scheme<SchemeQueues>>, BuildError> {
    fn layer(call: &Call) -> Layer<'_> {
        Layer { name: call.name, options: &call.options, inside: call.inner.iter().map(layer).collect() }
    }
    schemes::build(&layer(call))
}

/// A scheme and its queues.
struct ActiveScheme {
    scheme: Box<dyn Scheme<SchemeQueues>>,
    lines: SchemeQueues,
}

impl ActiveScheme {
    fn new(call: &Call, capacity: u32) -> Result<ActiveScheme, BuildError> {
        let scheme = scheme(call)?;
        let lines = SchemeQueues::new(scheme.queues(), capacity);
        Ok(ActiveScheme { scheme, lines })
    }
}

/// The queues before a link, with current and former schemes.
pub(super) struct Queue {
    /// The scheme that receives arriving packets.
    served: ActiveScheme,
    /// Replaced schemes that still drain, the oldest first. They are served before the current scheme.
    drained: VecDeque<ActiveScheme>,
    capacity: u32,
    /// True if packets may bypass the scheme while its queues are empty.
    may_bypass: bool,
}

impl Queue {
    /// A queue whose scheme holds at most `capacity` packets, regardless of its own limit.
    pub fn new(call: &Call, capacity: u32) -> Result<Queue, BuildError> {
        let served = ActiveScheme::new(call, capacity)?;
        let passing = served.scheme.passes_when_idle();
        Ok(Queue { served, drained: VecDeque::new(), capacity, may_bypass: passing })
    }

    /// The number of packets that wait.
    #[inline(always)]
    pub fn packets(&self) -> u32 {
        let drained: u32 = self.drained.iter().map(|served| served.lines.waiting().packets).sum();
        self.served.lines.waiting().packets + drained
    }

    /// True if an arriving packet may be sent without asking the scheme.
    #[inline(always)]
    pub fn can_bypass(&self) -> bool {
        self.may_bypass && self.served.lines.waiting().packets == 0 && self.drained.is_empty()
    }

    /// Offers a packet to the scheme.
    #[inline]
    pub fn arrive(&mut self, now: u64, rate: Rate, packet: Packet, fields: Fields) {
        let ActiveScheme { scheme, lines } = &mut self.served;
        (lines.now, lines.rate) = (Instant::new(now), rate);
        lines.arrive(&mut **scheme, packet, fields);
    }

    /// Lets the oldest scheme with packets send one.
    #[inline]
    pub fn ready(&mut self, now: u64, rate: Rate) {
        while let Some(oldest) = self.drained.front_mut() {
            let ActiveScheme { scheme, lines } = oldest;
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
            // A drained scheme that sent nothing leaves the link to the next one at once.
            if sent || left > 0 {
                return;
            }
        }
        let ActiveScheme { scheme, lines } = &mut self.served;
        (lines.now, lines.rate) = (Instant::new(now), rate);
        lines.ready(&mut **scheme, 1);
    }

    /// When the scheme that is served next wants the link.
    pub fn next(&self) -> Next {
        let ActiveScheme { scheme, lines } = self.drained.front().unwrap_or(&self.served);
        scheme.next(lines)
    }

    /// The fates of packets since the caller last cleared the list.
    #[inline(always)]
    pub fn fates(&mut self) -> &mut Vec<(Packet, Fate)> {
        &mut self.served.lines.fates
    }

    /// The number of packets marked since the last call.
    #[inline(always)]
    pub fn marks(&mut self) -> u64 {
        let marks = self.served.lines.marked.len() as u64;
        self.served.lines.marked.clear();
        marks
    }

    /// Replaces the scheme. If the old scheme is of the same kind, it only adopts the new parameters, and `change` does not apply.
    pub fn replace(
        &mut self,
        (now, rate): (u64, Rate),
        call: &Call,
        change: SchemeChange,
        fields: &[Fields],
    ) -> Result<(), BuildError> {
        let new = ActiveScheme::new(call, self.capacity)?;
        let ActiveScheme { scheme, lines } = &mut self.served;
        (lines.now, lines.rate) = (Instant::new(now), rate);
        let tuned = new.scheme.tunable().is_some_and(|like| scheme.tune(like, lines));
        if !tuned {
            let mut old = std::mem::replace(&mut self.served, new);
            let lines = &mut self.served.lines;
            // Decisions that the caller has not fetched yet belong to the old scheme.
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
                    // Packets of several schemes merge by arrival time, so each flow keeps its order.
                    waiting.sort_by_key(|packet| packet.arrived_at);
                    for packet in waiting {
                        self.arrive(now, rate, packet, fields[packet.stream as usize]);
                    }
                }
            }
        }
        self.may_bypass = self.served.scheme.passes_when_idle();
        Ok(())
    }

    /// Reports the state of the scheme, if it has a single queue.
    pub fn state(&self, now: Instant, tell: &mut schemes::Tell<'_>) {
        let ActiveScheme { scheme, lines } = &self.served;
        if scheme.queues() == 1 {
            scheme.state(QueueId(0), now, lines.waiting(), tell);
        }
    }
}
