//! A shaper: a token bucket that limits the rate of departures, regardless of the link's capacity (RFC 2697, section 3, without its colours).
//!
//! A packet counts with the bytes that it takes on the line behind the link ([`Framing`]).

use crate::aqm::Evaluation;
use crate::options::{BuildError, Values};
use crate::sharing::{RateMeter, Sharing};
use crate::stage::{self, Stage, arrive_all};
use crate::{Group, Next, Progress, Record, Scheme, Size, Tell, Wires};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use units::declare::{OptionDeclaration, Unit};
use units::{Cells, Framing, Instant, QueueId, Rate};

/// The rate.
pub(crate) const RATE: OptionDeclaration = OptionDeclaration {
    name: "rate",
    unit: Unit::Rate,
    default: "100mbit",
    least: 1000,
    most: 1_000_000_000_000,
    doc: "the most bits per second that leave",
};

/// The burst.
pub(crate) const BURST: OptionDeclaration = OptionDeclaration {
    name: "burst",
    unit: Unit::Size,
    default: "16kb",
    least: 0,
    most: 1 << 30,
    doc: "the bytes that may leave at once after an idle time; a packet that exceeds the rest of them still leaves",
};

/// The bytes added to each packet.
pub(crate) const OVERHEAD: OptionDeclaration = OptionDeclaration {
    name: "overhead",
    unit: Unit::Size,
    default: "0b",
    least: 0,
    most: 256,
    doc: "the bytes that the line adds to each frame; the Ethernet header is counted already",
};

/// The shortest packet.
pub(crate) const MINIMUM: OptionDeclaration = OptionDeclaration {
    name: "minimum",
    unit: Unit::Size,
    default: "0b",
    least: 0,
    most: 256,
    doc: "the least bytes of a packet on the line, `overhead` included",
};

/// The cells of the line.
pub(crate) const CELLS: OptionDeclaration = OptionDeclaration {
    name: "cells",
    unit: Unit::Choice(&["none", "atm", "ptm"]),
    default: "none",
    least: 0,
    most: 2,
    doc: "the encapsulation of the line: none, ATM cells with 48 of 53 bytes for packets, or PTM with 64 of 65",
};

/// The options of `shape`.
pub(crate) const OPTIONS: &[OptionDeclaration] = &[RATE, BURST, OVERHEAD, MINIMUM, CELLS];

/// The line behind the link, from the options.
pub(crate) fn framing(values: &Values<'_>) -> Result<Framing, BuildError> {
    let bytes = |name: &str| values.bytes(name).map(|bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX));
    let cells = values.choice("cells", &[Cells::None, Cells::Atm, Cells::Ptm])?;
    Ok(Framing { overhead: bytes("overhead")?, minimum: bytes("minimum")?, cells })
}

/// A stage that limits its departures to a rate.
pub(crate) struct Shaper<W> {
    inside: Box<dyn Stage<W>>,
    meter: RateMeter,
    line: Framing,
    /// When it may send again, as last computed.
    ready: Instant,
}

impl<W: Wires> Shaper<W> {
    /// A shaper around `inside`.
    pub fn new(inside: Box<dyn Stage<W>>, meter: RateMeter, line: Framing) -> Shaper<W> {
        Shaper { inside, meter, line, ready: Instant::START }
    }

    /// A shaper from its options.
    pub fn of(
        values: &Values<'_>,
        sharing: &mut Sharing,
        inside: impl FnOnce(&mut Sharing) -> Result<Box<dyn Stage<W>>, BuildError>,
    ) -> Result<Shaper<W>, BuildError> {
        // Before those of the schemes inside: every worker requests its meters in the same order.
        let meter = sharing.meter(Rate::bits(values.value("rate")?), values.bytes("burst")?);
        Ok(Shaper::new(inside(sharing)?, meter, framing(values)?))
    }
}

impl<W: Wires + 'static> Scheme<W> for Shaper<W> {
    fn arrival(&mut self, wires: &mut W) {
        arrive_all(self, wires);
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, wires: &W) -> Next {
        match self.inside.next(wires) {
            Next::Ready if self.ready > wires.now() => Next::At(self.ready),
            Next::At(time) => Next::At(time.max(self.ready)),
            other => other,
        }
    }

    fn splits_super_frames(&self, link: Rate) -> bool {
        // Behind a slow shaper a super-frame takes as long as on a slow link.
        self.inside.splits_super_frames(link.min(self.meter.rate()))
    }

    fn wants_flow_hash(&self) -> bool {
        self.inside.wants_flow_hash()
    }

    fn wants_hosts(&self) -> bool {
        self.inside.wants_hosts()
    }

    fn queues(&self) -> u32 {
        self.inside.queues()
    }

    fn holds_at_most(&self) -> u32 {
        self.inside.holds_at_most()
    }

    fn groups(&self) -> Vec<Group> {
        self.inside.groups()
    }

    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        self.inside.queue_of(packet)
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        self.inside.state(queue, now, waiting, tell);
    }

    fn ranks_classes(&self) -> bool {
        self.inside.ranks_classes()
    }

    fn recount(&mut self, wires: &W) {
        self.inside.recount(wires);
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        if !stage::tune(&mut *self.inside, &*other.inside, wires) {
            return false;
        }
        self.meter.tune(&other.meter, wires.now());
        // Report the time of the new rate: until then other schemes may use the link.
        (self.line, self.ready) = (other.line, self.meter.ready());
        true
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<W: Wires + 'static> Stage<W> for Shaper<W> {
    fn begin_at(&mut self, first: u32) {
        self.inside.begin_at(first);
    }

    fn reset(&mut self) {
        self.inside.reset();
    }

    fn arrive(&mut self, wires: &mut W, packet: &Record) {
        self.inside.arrive(wires, packet);
    }

    fn evaluate(&mut self, wires: &mut W) -> Evaluation {
        // Ask first: the meter is for a packet that is ready to leave.
        if self.inside.next(wires) != Next::Ready {
            return Evaluation::Nothing;
        }
        if !self.meter.allows(wires.now()) {
            self.ready = self.meter.ready();
            return Evaluation::Nothing;
        }
        let turn = self.inside.evaluate(wires);
        if let Evaluation::Sent(length) = turn {
            // After the departure: only now the length is known, and the credit may become negative.
            self.meter.charge(self.line.line_bytes(length), wires.now());
            self.ready = self.meter.ready();
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
    use proptest::prelude::*;
    use units::{Bytes, Nanos};

    const PLAIN: Framing = Framing { overhead: 0, minimum: 0, cells: Cells::None };

    fn shape(rate: Rate, burst: u64, line: Framing) -> Shaper<Model> {
        let fifo = Single::new(Tail { limit: 1000, bytes: Bytes::new(1 << 30) });
        Shaper::new(Box::new(fifo), Sharing::alone().meter(rate, Bytes::new(burst)), line)
    }

    #[test]
    fn packets_leave_at_the_rate_and_next_is_the_departure_time() {
        let (mut scheme, mut model) = (shape(Rate::mbit(8), 0, PLAIN), Model::default());
        model.now = Instant::new(5);
        model.arrive(&mut scheme, &[1000, 500, 1000]);
        model.ready(&mut scheme, 9);
        assert_eq!((model.fates.len(), scheme.next(&model)), (1, Next::At(Instant::new(1_000_005))));
        model.now = Instant::new(1_000_004);
        model.ready(&mut scheme, 9);
        assert_eq!(model.fates.len(), 1);
        model.now = Instant::new(1_000_005);
        assert_eq!(scheme.next(&model), Next::Ready);
        model.ready(&mut scheme, 9);
        assert_eq!((model.fates.len(), scheme.next(&model)), (2, Next::At(Instant::new(1_500_005))));
        model.now = Instant::new(9_000_000);
        model.ready(&mut scheme, 9);
        assert_eq!((model.fates.len(), scheme.next(&model)), (3, Next::Idle));
    }

    #[test]
    fn late_service_loses_no_rate_while_packets_wait() {
        // 100 us at 8 Gbit/s are 100 packets of 1000 bytes. The burst is two of them.
        let (mut scheme, mut model) = (shape(Rate::gbit(8), 2000, PLAIN), Model::default());
        model.arrive(&mut scheme, &[1000; 900]);
        let mut serve = |after: Nanos| {
            model.now += after;
            let before = model.fates.len();
            model.ready(&mut scheme, 999);
            model.fates.len() - before
        };
        assert_eq!([Nanos::millis(9), Nanos::micros(100), Nanos::micros(100)].map(&mut serve), [3, 100, 100]);
        // It catches up on 1 ms, more than the packets that are left. Idle time earns only the burst.
        assert_eq!(serve(Nanos::millis(9)), 900 - 203);
        model.arrive(&mut scheme, &[1000; 9]);
        model.now += Nanos::millis(9);
        model.ready(&mut scheme, 999);
        assert_eq!(model.fates.len(), 903);
    }

    #[test]
    fn changed_rate_takes_effect_at_once_and_keeps_debts() {
        let (mut scheme, mut model) = (shape(Rate::mbit(8), 0, PLAIN), Model::default());
        model.arrive(&mut scheme, &[1000; 4]);
        model.ready(&mut scheme, 9);
        model.now = Instant::new(500_000);
        let half = shape(Rate::mbit(4), 0, PLAIN);
        assert!(half.tunable().is_some_and(|half| scheme.tune(half, &model)));
        model.ready(&mut scheme, 9);
        // The packet takes 1 ms at 8 Mbit/s. Its second half takes 1 ms at 4 Mbit/s, and the next packet 2 ms.
        assert_eq!((model.fates.len(), scheme.next(&model)), (1, Next::At(Instant::new(1_500_000))));
        model.now = Instant::new(1_500_000);
        model.ready(&mut scheme, 9);
        assert_eq!((model.fates.len(), scheme.next(&model)), (2, Next::At(Instant::new(3_500_000))));
    }

    #[test]
    fn shaper_rate_counts_atm_cells() {
        // 48 of 53 bytes carry payload: of 53 Mbit/s, 48 Mbit/s are left for packets.
        let (mut scheme, mut model) =
            (shape(Rate::mbit(53), 1060, Framing { overhead: 0, minimum: 0, cells: Cells::Atm }), Model::default());
        model.arrive(&mut scheme, &[480; 1000]);
        (0..500).for_each(|_| {
            model.now += Nanos::micros(100);
            model.ready(&mut scheme, 99);
        });
        let sent = model.count_fates(|fate| matches!(fate, ModelFate::Sent(_)));
        assert!((625..=630).contains(&sent), "{sent} of 480 bytes in 50 ms");
    }

    proptest! {
        /// For any offered load.
        #[test]
        fn shaper_sends_at_most_rate_burst_and_one_packet(
            rate in 100_000u64..1_000_000_000,
            burst in 0u64..20_000,
            steps in prop::collection::vec((prop::collection::vec(64u32..1515, 0..6), 0u64..3_000_000, 0usize..9), 1..60),
        ) {
            let (mut scheme, mut model) = (shape(Rate::bits(rate), burst, PLAIN), Model::default());
            let (mut lengths, mut bytes) = (Vec::new(), 0u128);
            for (arrivals, pause, room) in steps {
                model.arrive(&mut scheme, &arrivals);
                lengths.extend(arrivals);
                let before = model.fates.len();
                model.ready(&mut scheme, room);
                let allowed = u128::from(rate) * u128::from(model.now.get() + 1) + u128::from(burst) * 8_000_000_000;
                for fate in &model.fates[before..] {
                    let ModelFate::Sent(number) = *fate else { panic!("nothing is dropped") };
                    prop_assert!(bytes * 8_000_000_000 <= allowed, "{} bytes before the last", bytes);
                    bytes += u128::from(lengths[number]);
                }
                let left = model.fates.len() - before < room && model.waiting() > 0;
                prop_assert!(!left || matches!(scheme.next(&model), Next::At(at) if at > model.now), "it is to be idle");
                model.now += Nanos::new(pause);
            }
        }
    }
}
