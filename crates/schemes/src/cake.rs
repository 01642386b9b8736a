//! CAKE: shaping, priority tins, host and flow isolation and queue management for an access link in one scheme. The rate is counted as the line
//! carries packets. Code points select the tin. Each tin isolates hosts and their flows, and manages every queue (Høiland-Jørgensen, Täht and Morton,
//! "Piece of CAKE: A Comprehensive Queue Management Solution for Home Gateways", IEEE LANMAN 2018).
//!
//! Each tin has a part of the rate. Of the tins within their part the highest sends. If all have used their part, the tin sends that may do so first.
//! A tin therefore precedes lower tins only up to its part, and unused rate is available to the others.

use crate::aqm::{Aqm, Evaluation};
use crate::options::{BuildError, Layer, Values};
use crate::sched::options::{FLOWS, TOGETHER};
use crate::sched::{BinKey, BinScheme, HostIsolation, HostOrder};
use crate::shape::{self, Shaper};
use crate::sharing::{RateMeter, Sharing};
use crate::stage::{Stage, arrive_all};
use crate::{Group, Next, Progress, Record, Scheme, Size, Tell, Wires};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::any::Any;
use units::declare::{OptionDeclaration, Unit};
use units::{Bytes, Framing, Instant, QueueId, Rate};

/// The number of tins.
const TINS: OptionDeclaration = OptionDeclaration {
    name: "tins",
    unit: Unit::Choice(&["one", "three", "four"]),
    default: "three",
    least: 0,
    most: 2,
    doc: "the number of tins for code points: bulk, best effort and voice; with four also video",
};

/// The isolated hosts.
const HOSTS: OptionDeclaration = OptionDeclaration {
    name: "hosts",
    unit: Unit::Choice(&["none", "source", "destination", "both"]),
    default: "both",
    least: 0,
    most: 3,
    doc: "the hosts that share each tin equally, regardless of their number of flows: sources, destinations, or both",
};

/// The options. `flows` and `limit` hold for each tin.
pub(crate) const OPTIONS: &[OptionDeclaration] =
    &[shape::RATE, shape::BURST, shape::OVERHEAD, shape::MINIMUM, shape::CELLS, TINS, HOSTS, FLOWS, TOGETHER];

/// The mapping of code points to tins: `diffserv3` and `diffserv4` of Linux (RFC 4594; RFC 8622; RFC 5865).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tins {
    One,
    Three,
    Four,
}

impl Tins {
    /// The part of the rate of each tin, the lowest tin first, in sixteenths.
    fn parts(self) -> &'static [u64] {
        match self {
            // Like Linux: bulk 1/16 of the rate, best effort all, video 1/2 and voice 1/4.
            Tins::One => &[16],
            Tins::Three => &[1, 16, 4],
            Tins::Four => &[1, 16, 8, 4],
        }
    }

    /// The names of the tins, the lowest first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Tins::One => &["best effort"],
            Tins::Three => &["bulk", "best effort", "voice"],
            Tins::Four => &["bulk", "best effort", "video", "voice"],
        }
    }

    /// The tin of a code point, as an index into the tables above.
    fn of(self, dscp: u8) -> usize {
        match (self, dscp) {
            (Tins::One, _) => 0,
            // LE and CS1 are bulk.
            (_, 1 | 8) => 0,
            // TOS4, VA, EF, CS6 and CS7 are voice.
            (Tins::Three, 4 | 44 | 46 | 48 | 56) => 2,
            (Tins::Three, _) => 1,
            // CS4, CS5, VA, EF, CS6 and CS7 are voice.
            (Tins::Four, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            // TOS4, CS2, AF2x, CS3, AF3x and AF4x are video.
            (Tins::Four, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            (Tins::Four, _) => 1,
        }
    }
}

struct Tin {
    bins: BinScheme<HostOrder>,
    /// The tin has not used its part of the rate while this meter allows a packet.
    part: RateMeter,
}

/// The tins behind the shaper.
struct Cake {
    tins: Vec<Tin>,
    tin_mapping: Tins,
    line: Framing,
}

/// Builds the scheme from its options.
pub(crate) fn build<W: Wires + 'static>(
    options: &Values<'_>,
    manager: &Layer<'_>,
    sharing: &mut Sharing,
) -> Result<Box<dyn Stage<W>>, BuildError> {
    if !manager.inside.is_empty() {
        return Err(BuildError::Unknown(manager.name.to_string()));
    }
    let sorts = options.choice("tins", &[Tins::One, Tins::Three, Tins::Four])?;
    let all = [HostIsolation::Flows, HostIsolation::Sources, HostIsolation::Destinations, HostIsolation::Both];
    let (isolate, line, rate) = (options.choice("hosts", &all)?, shape::framing(options)?, options.value("rate")?);
    let flows = options.count("flows")?;
    let limit = options.count("limit")?;
    // The meters are requested in the same order for every worker: that of the whole rate, then one for each tin.
    let whole = sharing.meter(Rate::bits(rate), options.bytes("burst")?);
    let tin = |part: &u64| {
        let aqm = Aqm::of(manager.name, &Values(manager.options), flows as usize)?;
        let bins = BinScheme::new(HostOrder::new(flows as usize, isolate), aqm, BinKey::Flow, flows, limit);
        // Without burst: a tin precedes lower ones only while it stays within its part. At rate zero a meter allows one packet and then none, hence
        // at least one bit per second.
        Ok(Tin { bins, part: sharing.meter(Rate::bits((rate * part / 16).max(1)), Bytes::ZERO) })
    };
    let tins: Result<Vec<Tin>, BuildError> = sorts.parts().iter().map(tin).collect();
    let mut cake = Cake { tins: tins?, tin_mapping: sorts, line };
    // Gives the tins consecutive queues, also for a scheme that is not placed inside another.
    Stage::<W>::begin_at(&mut cake, 0);
    Ok(Box::new(Shaper::new(Box::new(cake), whole, line)))
}

impl Cake {
    /// The tin of a packet.
    #[inline]
    fn of(&self, packet: &Record) -> usize {
        self.tin_mapping.of(packet.dscp).min(self.tins.len() - 1)
    }

    /// The tin that sends next.
    fn pick<W: Wires>(&mut self, wires: &W) -> Option<usize> {
        let now = wires.now();
        let mut first: Option<(Instant, usize)> = None;
        // From the highest tin down.
        for (place, tin) in self.tins.iter_mut().enumerate().rev() {
            if tin.bins.next(wires) == Next::Idle {
                continue;
            }
            if tin.part.allows(now) {
                return Some(place);
            }
            // The tin has used its part: it may still send if no other tin has packets within its part.
            let due = tin.part.ready();
            // Of equal times the higher tin wins, because it was seen first.
            if first.is_none_or(|(earliest, _)| due < earliest) {
                first = Some((due, place));
            }
        }
        first.map(|(_, place)| place)
    }
}

impl<W: Wires> Scheme<W> for Cake {
    fn arrival(&mut self, wires: &mut W) {
        arrive_all(self, wires);
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, wires: &W) -> Next {
        // A tin beyond its part may still send. Only the shaper around the tins delays a departure.
        let idle = self.tins.iter().all(|tin| tin.bins.next(wires) == Next::Idle);
        if idle { Next::Idle } else { Next::Ready }
    }

    fn splits_super_frames(&self, link: Rate) -> bool {
        self.tins.iter().any(|tin| Scheme::<W>::splits_super_frames(&tin.bins, link))
    }

    fn wants_flow_hash(&self) -> bool {
        true
    }

    fn wants_hosts(&self) -> bool {
        true
    }

    fn queues(&self) -> u32 {
        self.tins.iter().map(|tin| Scheme::<W>::queues(&tin.bins)).fold(0, u32::saturating_add)
    }

    fn holds_at_most(&self) -> u32 {
        self.tins.iter().map(|tin| Scheme::<W>::holds_at_most(&tin.bins)).fold(0, u32::saturating_add)
    }

    fn groups(&self) -> Vec<Group> {
        let names = self.tin_mapping.names().iter().zip(&self.tins);
        names.map(|(name, tin)| Group::new(name, Scheme::<W>::queues(&tin.bins)).of_flows()).collect()
    }

    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        Scheme::<W>::queue_of(&self.tins[self.of(packet)].bins, packet)
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        self.tins.iter().for_each(|tin| Scheme::<W>::state(&tin.bins, queue, now, waiting, tell));
    }

    fn recount(&mut self, wires: &W) {
        self.tins.iter_mut().for_each(|tin| tin.bins.recount(wires));
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>().filter(|other| self.tin_mapping == other.tin_mapping) else {
            return false;
        };
        self.line = other.line;
        // If a later tin refuses, the earlier ones have the new parameters already. `Scheme::tune` permits that.
        self.tins.iter_mut().zip(&other.tins).all(|(tin, other)| {
            tin.part.tune(&other.part, wires.now());
            tin.bins.tune(&other.bins, wires)
        })
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<W: Wires> Stage<W> for Cake {
    fn begin_at(&mut self, mut first: u32) {
        for tin in &mut self.tins {
            Stage::<W>::begin_at(&mut tin.bins, first);
            first = first.saturating_add(Scheme::<W>::queues(&tin.bins));
        }
    }

    fn reset(&mut self) {
        self.tins.iter_mut().for_each(|tin| Stage::<W>::reset(&mut tin.bins));
    }

    fn arrive(&mut self, wires: &mut W, packet: &Record) {
        let tin = self.of(packet);
        self.tins[tin].bins.arrive(wires, packet);
    }

    fn evaluate(&mut self, wires: &mut W) -> Evaluation {
        let Some(place) = self.pick(wires) else { return Evaluation::Nothing };
        let tin = &mut self.tins[place];
        let turn = tin.bins.evaluate(wires);
        if let Evaluation::Sent(length) = turn {
            // In the bytes of the line, like the shaper's rate.
            tin.part.charge(self.line.line_bytes(length), wires.now());
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Model, ModelFate};
    use units::Nanos;

    const GIVEN: [(&str, u64); 9] = [
        ("rate", 8_000_000),
        ("burst", 0),
        ("overhead", 0),
        ("minimum", 0),
        ("cells", 0),
        ("tins", 2),
        ("hosts", 3),
        ("flows", 64),
        ("limit", 100_000),
    ];

    fn cake() -> Box<dyn Stage<Model>> {
        let fifo = [("limit", 65_536), ("bytes", 1 << 40), ("drop", 0), ("unbounded", 1)];
        let manager = Layer { name: "fifo", options: &fifo, inside: Vec::new() };
        build(&Values(&GIVEN), &manager, &mut Sharing::alone()).expect("all options are there")
    }

    /// Packets of each kind sent in one second, with all of them backlogged.
    fn shares<const N: usize>(kinds: [Record; N]) -> [usize; N] {
        let (mut scheme, mut model) = (cake(), Model::with_queues(256));
        model.arrive_all(&mut *scheme, (0..2000).flat_map(|_| kinds));
        while model.now < Instant::START + Nanos::secs(1) {
            model.ready(&mut *scheme, 9);
            let Next::At(next) = scheme.next(&model) else { panic!("packets wait for the rate") };
            model.now = next;
        }
        let mut sent = [0; N];
        for fate in &model.fates {
            let ModelFate::Sent(number) = *fate else { panic!("nothing is dropped") };
            sent[number % N] += 1;
        }
        sent
    }

    fn of(flow: u32, source: u32, dscp: u8) -> Record {
        let far = |number: u32| number.wrapping_mul(0x0400_0000);
        let (flow_hash, source, destination) = (far(flow), far(source), far(40 + flow));
        Record { length: 1000, flow_hash, source, destination, dscp, ..Record::default() }
    }

    #[test]
    fn higher_tin_has_precedence_up_to_its_rate() {
        // 1000 packets a second: a sixteenth for bulk, a half for video and a quarter for voice. Best effort gets the rest.
        let [bulk, best, video, voice] = shares([of(1, 1, 8), of(2, 2, 0), of(3, 3, 34), of(4, 4, 46)]);
        assert_eq!(bulk + best + video + voice, 1000);
        assert!(voice.abs_diff(250) <= 2 && video.abs_diff(500) <= 2, "{voice} of voice, {video} of video");
        assert!(best.abs_diff(250) <= 3 && bulk <= 3, "{best} at best effort, {bulk} in bulk");
    }

    #[test]
    fn unused_tin_rate_is_shared_by_hosts_of_other_tins() {
        let alone = shares([of(1, 1, 46), of(2, 1, 46), of(3, 1, 46), of(4, 2, 46)]);
        assert_eq!(alone.iter().sum::<usize>(), 1000, "voice has the whole rate where nobody else wants it");
        assert!(alone[3].abs_diff(500) <= 2 && alone[0].abs_diff(167) <= 2, "{alone:?}");
    }

    /// The tins of all 64 code points in Linux: a row for each class selector; bulk `-`, best effort `.`, video `+`, voice `!`.
    #[test]
    fn every_code_point_has_the_same_tin_as_in_linux() {
        const THREE: [&str; 8] =
            [".-..!...", "-.......", "........", "........", "........", "....!.!.", "!.......", "!......."];
        const FOUR: [&str; 8] =
            [".-..+...", "-.......", "+.+.+.+.", "+.+.+.+.", "!.+.+.+.", "!...!.!.", "!.......", "!......."];
        let sorted = |sorts: Tins, signs: &[u8]| -> Vec<alloc::string::String> {
            let row = |row: u8| (row * 8..row * 8 + 8).map(|dscp| char::from(signs[sorts.of(dscp)])).collect();
            (0..8).map(row).collect()
        };
        assert_eq!(sorted(Tins::Three, b"-.!"), THREE);
        assert_eq!(sorted(Tins::Four, b"-.+!"), FOUR);
        assert_eq!(sorted(Tins::One, b"."), ["........"; 8]);
    }
}
