//! Checks reservations at a link: the port's scheme has to separate their packets from best effort, guarantee them a rate, and bound their delay.
//!
//! A scheme is evaluated from the outside in. Each part is a rate-latency server for the part inside (Le Boudec and Thiran, "Network Calculus",
//! Springer 2001, section 1.3). The rate of a link or a shaper is its own. A rank gets the rate that higher ranks leave. A branch gets its fraction
//! by weight. A queue that best effort shares, or that drops packets at random, guarantees nothing.
//!
//! ```text
//! shape      the smaller rate                   latency + (burst + a full frame) / rate + the wait of the output task
//! priority   the rate less the ranks above      latency + a full frame / rate + the bursts above / rate
//! drr        rate * weight / all weights        latency + 3 * all quanta / rate        (Stiliadis and Varma 1998, table I)
//! wfq, wf2q  rate * weight / all weights        latency + a full frame / rate          (Parekh and Gallager 1993)
//! tree       rate * weight / all weights        latency + a full frame of each other branch / rate   (Goyal et al. 1996)
//! fifo       the rate                           latency + the bursts of all in it / rate
//! ```

use super::costs::emulated;
use crate::share::{SHARE_SCHEME, port_rate};
use crate::{Call, PathPlan, PortPlan};
use std::fmt;
use units::{Bytes, Cells, Framing, Nanos, PacketRate, Rate};

/// The Ethernet header with a VLAN tag, and the frame check sequence.
const ETHERNET_HEADER: u64 = 18;
/// The class of the router's own packets. They are few, and precede all others.
const CONTROL: u8 = u8::MAX;
/// A packet of full size on Ethernet.
pub(super) const FULL_FRAME: Bytes = Bytes::new(1518);
/// Ethernet's overhead around a frame: preamble and inter-frame gap (IEEE 802.3, 4.2.3.2.2).
pub(super) const ETHERNET: Framing = Framing { overhead: 20, minimum: 0, cells: Cells::None };

/// The packets of a reservation at a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream<'p> {
    pub path: &'p PathPlan,
    pub rate: PacketRate,
    /// The largest burst in packets: those that gather while other tasks have the processor.
    pub burst: u64,
}

impl<'p> Stream<'p> {
    /// The stream of a path with a reservation.
    pub fn of(path: &'p PathPlan, burst: u64) -> Option<Stream<'p>> {
        Some(Stream { path, rate: path.cpu.reservation?.packets, burst })
    }

    /// The size of its packets: a full frame if the reservation does not set it.
    fn size(&self) -> u32 {
        let size = self.path.cpu.reservation.and_then(|reservation| reservation.size).unwrap_or(FULL_FRAME);
        u32::try_from(size.get()).unwrap_or(u32::MAX)
    }

    /// Bits a second on a line.
    fn bits(&self, line: Framing) -> u64 {
        bits(line, self.size()).saturating_mul(self.rate.get())
    }
}

/// Bits of a packet on a line.
fn bits(line: Framing, size: u32) -> u64 {
    line.line_bytes(size).get().saturating_mul(8)
}

/// A port, as reservations use it.
#[derive(Clone, Debug)]
pub(crate) struct Link<'p> {
    pub scheme: &'p Call,
    /// The rate of the link, if it is known.
    pub rate: Option<Rate>,
    /// The framing of the link.
    pub line: Framing,
    /// The longest frame on it.
    pub frame: u32,
    /// Packets that the device buffers after the scheme.
    pub ring: u32,
    /// The longest time between two runs of the output task.
    pub serve: Nanos,
    /// The reservations that may leave by it.
    pub reserved: Vec<Stream<'p>>,
    /// The classes of best effort, and their paths.
    pub others: Vec<(u8, &'p str)>,
}

/// The reason why a link does not keep a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LinkFault {
    /// The scheme has no separate class for it.
    Scheme(String),
    /// A best-effort path has the same class, or one with precedence.
    Class {
        /// The other path.
        with: String,
        /// The lowest class from which on all are free of best effort.
        free: u16,
    },
    /// The rate is too low.
    Rate {
        /// The first path that does not fit, after those with a smaller demand.
        path: String,
        /// The rate of its packets there.
        needed: Rate,
        /// The rest, after the others.
        available: Rate,
        /// The part of the scheme, or the link.
        of: &'static str,
    },
    /// The queue is too short: the largest burst in packets, and the limit.
    Room(u64, u64),
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkFault::Scheme(reason) => f.write_str(reason),
            LinkFault::Class { with, .. } => {
                write!(f, "packets of '{with}' have the same class, or one with precedence")
            }
            LinkFault::Rate { needed, available, of, .. } => {
                write!(f, "it needs {needed} of {of}, but {available} is left")
            }
            LinkFault::Room(come, room) => write!(f, "up to {come} packets arrive at once, but the queue holds {room}"),
        }
    }
}

/// A part of a scheme as a rate-latency server.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Bits a second; `None` if unknown.
    rate: Option<u64>,
    latency: Nanos,
    line: Framing,
    frame: u32,
}

impl Server {
    /// The transmission time of `bits`.
    fn time(&self, bits: u64) -> Nanos {
        let Some(rate) = self.rate else { return Nanos::ZERO };
        let time = u128::from(bits) * 1_000_000_000 / u128::from(rate.max(1));
        Nanos::new(u64::try_from(time).unwrap_or(u64::MAX))
    }

    fn delayed_by(self, bits: u64) -> Server {
        Server { latency: self.latency + self.time(bits), ..self }
    }

    /// A fraction of it; an unknown rate stays unknown.
    fn part(self, weight: u64, all: u64) -> Server {
        let of = |rate: u64| (u128::from(rate) * u128::from(weight) / u128::from(all.max(1))) as u64;
        Server { rate: self.rate.map(of), ..self }
    }

    fn full_frame(&self) -> u64 {
        bits(self.line, self.frame)
    }

    /// Fails if the rate is too small for these reservations, the smallest demand first.
    fn check_rate(&self, reserved: &[Stream<'_>], of: &'static str) -> Result<(), LinkFault> {
        let Some(mut left) = self.rate else { return Ok(()) };
        for stream in reserved {
            let needed = stream.bits(self.line);
            if needed > left {
                // Messages round to whole kilobits.
                let (needed, available) = (Rate::bits(needed.div_ceil(1000) * 1000), Rate::bits(left / 1000 * 1000));
                return Err(LinkFault::Rate { path: stream.path.name.clone(), needed, available, of });
            }
            left -= needed;
        }
        Ok(())
    }

    /// The sum of their bursts in bits.
    fn bursts(&self, reserved: &[Stream<'_>]) -> u64 {
        let burst = |stream: &Stream<'_>| bits(self.line, stream.size()).saturating_mul(stream.burst.max(1));
        reserved.iter().map(burst).fold(0, u64::saturating_add)
    }
}

/// The paths whose packets a part of a scheme receives.
#[derive(Clone, Debug)]
struct Traffic<'p> {
    reserved: Vec<Stream<'p>>,
    others: Vec<(u8, &'p str)>,
}

impl<'p> Traffic<'p> {
    /// The paths with some of the classes.
    fn with_classes(&self, is: impl Fn(u8) -> bool) -> Traffic<'p> {
        Traffic {
            reserved: self.reserved.iter().copied().filter(|stream| is(stream.path.class)).collect(),
            others: self.others.iter().copied().filter(|(class, _)| is(*class)).collect(),
        }
    }

    /// Fails if a best-effort path interferes.
    fn check_no_interference(&self, is_in_the_way: impl Fn(u8) -> bool) -> Result<(), LinkFault> {
        let free = self.others.iter().map(|(class, _)| u16::from(*class) + 1).max().unwrap_or(1);
        match self.others.iter().find(|(class, _)| is_in_the_way(*class)) {
            Some((_, with)) => Err(LinkFault::Class { with: (*with).to_string(), free }),
            None => Ok(()),
        }
    }
}

impl<'p> Link<'p> {
    /// The link of a port with these best-effort paths, with the properties that the plan determines.
    pub fn of(port: &'p PortPlan, others: impl Iterator<Item = &'p PathPlan>) -> Link<'p> {
        let overhead = port.link.as_ref().map(|link| u32::try_from(link.medium.overhead).unwrap_or(0));
        let line = overhead.map_or(ETHERNET, |overhead| Framing { overhead, ..ETHERNET });
        let others = others.map(|path| (path.class, path.name.as_str())).chain([(0, "best-effort")]);
        let (rate, others, reserved) = (emulated(port), others.collect(), Vec::new());
        let longest = port.interfaces.iter().map(|interface| u64::from(interface.mtu) + ETHERNET_HEADER).max();
        let frame = longest.unwrap_or(0).max(FULL_FRAME.get()) as u32;
        Link { scheme: &port.scheme, rate, line, frame, ring: 0, serve: Nanos::ZERO, reserved, others }
    }

    /// The longest delay of the class's packets at the link, or the reason why it is unbounded.
    pub fn worst_delay(&self, class: u8) -> Result<Nanos, LinkFault> {
        let all = Traffic { reserved: self.reserved.clone(), others: self.others.clone() };
        let rate = self.rate.filter(|rate| *rate != Rate::MAX).map(Rate::get);
        let server = Server { rate, latency: Nanos::ZERO, line: self.line, frame: self.frame };
        server.check_rate(&all.reserved, "the link")?;
        let judge = ClassDelay { class, serve: self.serve };
        // With a shaper the device never buffers more than the shaper's burst.
        let ring = if is_shaped(self.scheme) { 0 } else { server.full_frame().saturating_mul(self.ring.into()) };
        judge.any(self.scheme, &all, server.delayed_by(ring))
    }
}

/// True if the link or the port's scheme limits the rate, so that packets queue at the scheme.
pub(super) fn is_bounded(port: &PortPlan, link: Option<Rate>) -> bool {
    let paces = |part: &Call| is_shaped(part) || part.option("ceiling").is_some_and(|ceiling| ceiling > 0);
    link.is_some() || port.scheme.contains_scheme(&paces)
}

/// The most bytes of a port with shares that its device buffers: the burst of the port's rate, and the turn that ends behind it. The link is no slower than
/// that rate, or no flow is admitted. `None` for other schemes.
pub(super) fn paced_burst(scheme: &Call) -> Option<Bytes> {
    let option = |name: &str| scheme.option(name).unwrap_or(0);
    let is_paced = scheme.name == SHARE_SCHEME && port_rate(scheme).is_some();
    is_paced.then(|| Bytes::new(option("burst") + option("quantum") + FULL_FRAME.get()))
}

fn is_shaped(scheme: &Call) -> bool {
    matches!(scheme.name, "shape" | "cake") || scheme.has_shares() && port_rate(scheme).is_some()
}

/// The class whose delay is computed.
struct ClassDelay {
    class: u8,
    serve: Nanos,
}

impl ClassDelay {
    fn any(&self, scheme: &Call, all: &Traffic<'_>, server: Server) -> Result<Nanos, LinkFault> {
        let option = |name: &str| scheme.option(name).unwrap_or(0);
        match scheme.name {
            "shape" => self.shaped(scheme, all, server),
            "tree" => self.branches(scheme, all, server),
            "priority" => self.ranks(scheme, all, server),
            "drr" | "wfq" | "wf2q" if option("by") == 1 => self.weights(scheme, all, server),
            "drr" | "wfq" | "wf2q" | "fq" | "sfq" | "las" => Err(LinkFault::Scheme(format!(
                "'{}' ignores classes: it gives a best-effort flow as much as this one",
                scheme.name
            ))),
            "share" | "dfq" => Err(LinkFault::Scheme(format!(
                "'{}' ignores classes: packets without a share have a leaf together",
                scheme.name
            ))),
            "cake" => Err(LinkFault::Scheme("'cake' ignores classes: it sorts packets by code point and host".into())),
            _ => self.queue(scheme, all, server),
        }
    }

    fn inside(&self, scheme: &Call, all: &Traffic<'_>, server: Server) -> Result<Nanos, LinkFault> {
        match &scheme.inner[..] {
            [inside] => self.any(inside, all, server),
            _ => Err(LinkFault::Scheme(format!("it is unknown how '{}' serves classes", scheme.name))),
        }
    }

    fn shaped(&self, scheme: &Call, all: &Traffic<'_>, outside: Server) -> Result<Nanos, LinkFault> {
        let option = |name: &str| scheme.option(name).unwrap_or(0);
        let line = scheme.framing();
        let rate = option("rate");
        let shaper = Server { rate: Some(rate), line, ..outside };
        shaper.check_rate(&all.reserved, "the rate of the shaper")?;
        let burst = option("burst").saturating_mul(8);
        let latency = outside.latency + self.serve + shaper.time(burst + shaper.full_frame());
        // Each run of the output task sends at most the burst and one packet.
        let least = all.reserved.iter().map(|stream| bits(line, stream.size())).min().unwrap_or(0);
        let at_once = Server { rate: Some(1_000_000_000), ..shaper }.with_rate(burst + least, self.serve);
        at_once.check_rate(&all.reserved, "the burst of the shaper")?;
        let server = Server { rate: Some(rate.min(outside.rate.unwrap_or(u64::MAX))), latency, ..shaper };
        self.inside(scheme, all, server)
    }

    fn branches(&self, scheme: &Call, all: &Traffic<'_>, outside: Server) -> Result<Nanos, LinkFault> {
        let first = |branch: &Call| branch.option("class").unwrap_or(0);
        let lowest = scheme.inner.iter().map(first).min().unwrap_or(0);
        // A class belongs to the highest branch that does not begin above it. The lowest branch also has all classes below.
        let of = |class: u8| {
            let begins = scheme.inner.iter().map(first).filter(|first| *first <= class.into());
            begins.max().unwrap_or(lowest)
        };
        let own = of(self.class);
        let Some(branch) = scheme.inner.iter().find(|branch| first(branch) == own) else {
            return Err(LinkFault::Scheme("the tree has no branch".into()));
        };
        let weight = |branch: &Call| branch.option("weight").unwrap_or(1);
        let others = (scheme.inner.len() - 1) as u64;
        let all_weights = scheme.inner.iter().map(weight).sum();
        let here = all.with_classes(|class| of(class) == own);
        let mut server =
            outside.delayed_by(outside.full_frame().saturating_mul(others)).part(weight(branch), all_weights);
        server.check_rate(&here.reserved, "the share of its branch")?;
        if let Some(ceiling) = branch.option("ceiling").filter(|ceiling| *ceiling > 0) {
            let capped = Server { rate: Some(ceiling.min(server.rate.unwrap_or(u64::MAX))), ..server };
            capped.check_rate(&here.reserved, "the ceiling of its branch")?;
            let burst = branch.option("burst").unwrap_or(0).saturating_mul(8);
            let latency = server.latency + self.serve + capped.time(burst + capped.full_frame());
            server = Server { latency, ..capped };
        }
        self.inside(branch, &here, server)
    }

    fn ranks(&self, scheme: &Call, all: &Traffic<'_>, outside: Server) -> Result<Nanos, LinkFault> {
        let top = u8::try_from(scheme.option("levels").unwrap_or(2).max(1) - 1).unwrap_or(u8::MAX);
        let rank = |class: u8| class.min(top);
        let own = rank(self.class);
        all.check_no_interference(|class| rank(class) >= own)?;
        // Higher ranks may send their bursts first, after the frame that the link is sending already.
        let above = all.with_classes(|class| rank(class) > own);
        let taken = above.reserved.iter().fold(0u64, |sum, stream| sum.saturating_add(stream.bits(outside.line)));
        let server = outside.delayed_by(outside.full_frame() + outside.bursts(&above.reserved));
        let server = Server { rate: server.rate.map(|rate| rate.saturating_sub(taken)), ..server };
        let here = all.with_classes(|class| rank(class) == own);
        server.check_rate(&here.reserved, "the rate left by higher classes")?;
        self.inside(scheme, &here, server)
    }

    fn weights(&self, scheme: &Call, all: &Traffic<'_>, outside: Server) -> Result<Nanos, LinkFault> {
        let last = scheme.option("flows").unwrap_or(1).max(1) - 1;
        let bin = |class: u8| u64::from(class).min(last);
        let given = scheme.option("weights").unwrap_or(1).to_le_bytes();
        let count = given.iter().take_while(|weight| **weight > 0).count().max(1);
        let weight = |class: u8| u64::from(given[usize::from(class).min(count - 1)].max(1));
        let own = bin(self.class);
        all.check_no_interference(|class| bin(class) == own)?;
        let mut classes: Vec<u8> = all.others.iter().map(|(class, _)| *class).collect();
        classes.extend(all.reserved.iter().map(|stream| stream.path.class).chain([CONTROL]));
        // Classes that share a bin are weighted by the packet at its head. Assume the worst: the largest weight for other bins, the smallest for this
        // one.
        let mut bins: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for class in classes {
            let place = bins.entry(bin(class)).or_insert(weight(class));
            *place = if bin(class) == own { (*place).min(weight(class)) } else { (*place).max(weight(class)) };
        }
        let all_weights: u64 = bins.values().sum();
        let quanta = match scheme.option("quantum").filter(|_| scheme.name == "drr") {
            // The bound holds for quanta of at least the longest frame, so a smaller quantum counts as one.
            Some(quantum) => 3 * all_weights * quantum.max(outside.frame.into()) * 8,
            None => outside.full_frame(),
        };
        let mine = bins.get(&own).copied().unwrap_or(1);
        let server = outside.delayed_by(quanta).part(mine, all_weights);
        let here = all.with_classes(|class| bin(class) == own);
        server.check_rate(&here.reserved, "the share of its class")?;
        self.inside(scheme, &here, server)
    }

    fn queue(&self, scheme: &Call, all: &Traffic<'_>, server: Server) -> Result<Nanos, LinkFault> {
        let known = ["fifo", "threshold", "codel", "red", "pie", "blue", "choke"].contains(&scheme.name);
        if !known {
            return Err(LinkFault::Scheme(format!("it is unknown how '{}' serves classes", scheme.name)));
        }
        if !all.others.is_empty() {
            return Err(LinkFault::Scheme(format!("'{}' queues it together with best effort", scheme.name)));
        }
        let come = all.reserved.iter().map(|stream| stream.burst.max(1)).fold(0, u64::saturating_add);
        let room = scheme.option("limit").filter(|_| scheme.option("unbounded") != Some(1)).unwrap_or(u64::MAX);
        if come > room {
            return Err(LinkFault::Room(come, room));
        }
        let wait = server.delayed_by(server.bursts(&all.reserved)).latency;
        match scheme.name {
            "fifo" | "threshold" => Ok(wait),
            // CoDel does not drop packets whose sojourn time is below its target (RFC 8289, section 4.2).
            "codel" if scheme.option("target").is_some_and(|target| wait.get() <= target) => Ok(wait),
            "codel" => Err(LinkFault::Scheme(format!(
                "'codel' drops packets that wait longer than its target, and packets of the reservation may wait {wait}"
            ))),
            name => Err(LinkFault::Scheme(format!("'{name}' drops packets before its queue is full"))),
        }
    }
}

impl Server {
    /// The next server, with a rate of `bits` per `time`.
    fn with_rate(self, bits: u64, time: Nanos) -> Server {
        let rate = u128::from(bits) * 1_000_000_000 / u128::from(time.get().max(1));
        Server { rate: Some(u64::try_from(rate).unwrap_or(u64::MAX)), ..self }
    }
}
