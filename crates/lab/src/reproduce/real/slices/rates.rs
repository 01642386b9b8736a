//! The packet rates of a fast path and of a slow path, between a generator and a sink in the kernel.
//!
//! Loads are offered on a logarithmic scale, from far below the maximum to beyond twice of it. The maximum is then searched around the best load, and
//! twice the maximum is offered, and a flood.

use super::click::{ClickInterface, ClickProgram, RunningClick};
use super::network::operator;
use super::slow_path::{SlowPath, SlowPathPlan};
use crate::bench::io::lane::{HostOffloads, Lane, LaneKind, LaneSide};
use crate::bench::io::packets::{ForwardingRates, OfferedLoad, Packets};
use crate::bench::io::processors::Processors;
use anyhow::{Context, Result, anyhow, ensure};
use io::netns::Lab;
use io::thread_priority::RealtimePriority;
use packet::frames::UdpFrame;
use sim::Measurements;
use sim::forwarders::{ForwardersPlan, SliceForwarder};
use slice::code::ipv4::Ipv4Hop;
use std::net::Ipv4Addr;
use std::ops::Range;
use units::{Mac, Nanos};

/// How long a load is offered, and the time before it is counted.
const SPAN: Nanos = Nanos::millis(70);
const WARMUP: Nanos = Nanos::millis(20);
/// The loads in packets a second: the first, the factor from one to the next, and their largest number.
const FIRST: f64 = 4e3;
const STEP: f64 = std::f64::consts::SQRT_2;
const STEPS: i32 = 28;
/// The sweep ends beyond so many times the maximum.
const BEYOND: f64 = 2.2;
/// Loads around the best one, as fractions of it.
const AROUND: [f64; 7] = [0.78, 0.84, 0.92, 1.0, 1.09, 1.19, 1.3];
/// The overload of a claim, in times of the maximum.
const OVERLOAD: f64 = 2.0;
/// Measurements of it, of which the median is reported, and tries. A try in which another program stopped the generator offers less than this part.
const OVERLOADS: usize = 3;
const TRIES: usize = 9;
const OFFERED: f64 = 0.95;
/// The UDP ports at which the routers receive.
const PORTS: Range<u16> = 20_000..20_005;
/// The port from which they send, and that of the next node.
const OUT: u16 = 20_000;
const SINK: u16 = 21_000;
/// Frames of the generator. They take turns at the ports.
const FRAMES: u16 = 64;
/// The network behind the next node, and an address of it.
const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 16);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 4);
/// Bytes of headers outside of the payload: Ethernet, and twice IPv4 and UDP.
const HEADERS: usize = 14 + 2 * (20 + 8);
/// Bytes on the link outside of the payload: the paper counts a VLAN's tag, the check sequence, preamble and gap, too.
const ON_LINK: f64 = 98.0;

/// The frames of the generator.
fn frames(payload: u16) -> Vec<Vec<u8>> {
    let length = HEADERS + usize::from(payload);
    let link = (Mac::default(), Mac::default());
    let network = (Ipv4Addr::new(10, 9, 9, 9), DESTINATION);
    let inner = UdpFrame { link, network, ports: (7, 8), ttl: 64, length: length - 28 }.frame(&[]).split_off(14);
    let (router, station) = LaneSide::Left.addresses();
    let (router_mac, station_mac) = LaneSide::Left.macs();
    let (link, network) = ((station_mac, router_mac), (station, router));
    let frame = |number| {
        let ports = (7000 + number, PORTS.start + number % (PORTS.end - PORTS.start));
        UdpFrame { link, network, ports, ttl: 64, length }.frame(&inner)
    };
    (0..FRAMES).map(frame).collect()
}

/// A lane with a slice: a meta-interface at each port, and a queue of a scheduler that is faster than any load.
fn fast(lab: &Lab, frames: Option<u32>) -> Result<Lane> {
    const KEYS: &str =
        "congestion = 'throttle'\nscheme = 'share(rate=1tbit, overhead=28b)'\nshares = ['engine rate 900gbit']";
    let (left, right) = (LaneSide::Left.addresses().0, LaneSide::Right.addresses());
    let first = PORTS.start;
    let pool = frames.map_or(String::new(), |frames| format!("[router]\nframes = {frames}\n"));
    let tables = format!(
        "{pool}[[path]]\nname = 'slices'\nmatch = 'ip daddr {{ {left}, {} }} udp dport {first}-{}'\nfunctions = ['slice']\n",
        right.0,
        first + 999
    );
    let lane = Lane::with_configuration(lab, LaneKind::Xdp, HostOffloads::Plain, (KEYS.to_owned(), tables))?;
    let mut changes = String::from("create router code ipv4 buffers 64mb rate 900gbit\n");
    for port in PORTS {
        changes += &format!("mi add router {} {left}:{port}\n", port - first);
    }
    let out = PORTS.len();
    changes += &format!(
        "mi add router {out} {}:{OUT}\nreserve router right/engine rate 900gbit\nqueue set router 1 right/engine limit 4mb\n\
         filter insert router 0 value 000a00 mask 00ffff send 1 {out} {}:{SINK}\n",
        right.0, right.1
    );
    let daemon = lane.daemon().context("the lane has a router")?;
    daemon.edit_slices(operator(), (&changes, "slices")).map_err(|failure| anyhow!("no slice: {failure:?}"))?;
    Ok(lane)
}

/// The addresses and routes of each slow path.
fn slow_path_plan() -> SlowPathPlan {
    let (left, (right, next)) = (LaneSide::Left.addresses().0, LaneSide::Right.addresses());
    let hop = Ipv4Hop { next: (next, SINK).into(), mtu: 1472 };
    SlowPathPlan { receives: (left, PORTS), sends: (right, OUT), routes: vec![(NETWORK, hop)] }
}

/// A router and, if a program is the router, that program. It stops when it is dropped.
struct LaneRouter {
    lane: Lane,
    own: Option<SlowPath>,
    click: Option<RunningClick>,
}

/// A lane whose router is a program with sockets. The kernel only delivers packets to it and sends those that it writes.
fn slow(lab: &Lab) -> Result<LaneRouter> {
    let lane = Lane::new(lab, LaneKind::Kernel, HostOffloads::Plain)?;
    let own = Some(SlowPath::start(lane.router(), slow_path_plan())?);
    Ok(LaneRouter { lane, own, click: None })
}

/// A lane with Click.
fn click(lab: &Lab, program: &ClickProgram, forwarder: SliceForwarder) -> Result<LaneRouter> {
    let (kind, interface) = if forwarder == SliceForwarder::ClickSockets {
        (LaneKind::Kernel, ClickInterface::Sockets)
    } else {
        let (source, next) = LaneSide::Right.macs();
        (LaneKind::Program, ClickInterface::Devices(source, next))
    };
    let lane = Lane::new(lab, kind, HostOffloads::Plain)?;
    let click = Some(program.start(lane.router(), &slow_path_plan(), interface)?);
    Ok(LaneRouter { lane, own: None, click })
}

/// Measures a router.
///
/// | value | meaning |
/// |---|---|
/// | `max_pps`, `max_offered_pps` | the highest rate of forwarded packets, and the rate that was offered then |
/// | `max_mbps` | that maximum in Mbit/s on the link, with 98 bytes for each frame |
/// | `overload_pps`, `overload_offered_pps` | the rate at twice that maximum, and the rate that was offered: less if the generator cannot make more |
/// | `overload_part` | `overload_pps` as a part of the rate at the load of the maximum, offered just before |
/// | `flood_pps`, `flood_offered_pps` | the rate while the generator sends without a pause |
///
/// The series `forwarded_kpps` has the rates by offered rate, both in thousands.
///
/// # Errors
///
/// The router cannot be started, or forwards nothing.
pub fn measure(plan: &ForwardersPlan, program: Result<&ClickProgram, &String>) -> Result<Measurements> {
    let processors = Processors::of_thread()?;
    // Threads and programs inherit it: other programs of the machine must not stop a router or the generator.
    let _first = RealtimePriority::acquire();
    let make = || {
        // The thread that starts programs belongs to the laboratory. They inherit its processors.
        let lab = Lab::new()?;
        match plan.router {
            SliceForwarder::Fast => Ok(LaneRouter { lane: fast(&lab, plan.frames)?, own: None, click: None }),
            SliceForwarder::Slow => slow(&lab),
            SliceForwarder::Click | SliceForwarder::ClickSockets => {
                click(&lab, program.map_err(|why| anyhow!("{why}"))?, plan.router)
            }
        }
    };
    let made = processors.on_others(make)?;
    let LaneRouter { lane, own: _own, click: _click } =
        made.context("it needs two processors, one for the router and one for the generator")?;
    let packets = Packets::with_frames(lane, &frames(plan.payload), SINK)?;
    let offer = |load| packets.offer(load, WARMUP, SPAN);
    let (mut points, mut best) = (Vec::new(), ForwardingRates { offered: 0.0, out: 0.0 });
    for step in 0..STEPS {
        let load = FIRST * STEP.powi(step);
        if load > BEYOND * STEP * best.out.max(FIRST) {
            break;
        }
        let rates = offer(OfferedLoad::Rate(load))?;
        points.push((rates.offered / 1e3, rates.out / 1e3));
        best = if rates.out > best.out { rates } else { best };
    }
    let load = best.offered;
    for part in AROUND {
        let rates = offer(OfferedLoad::Rate(load * part))?;
        best = if rates.out > best.out { rates } else { best };
    }
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    // The load of the maximum and twice the maximum in turn: the speed of a shared machine changes.
    let mut pairs = Vec::new();
    for _ in 0..TRIES {
        pairs.push((offer(OfferedLoad::Rate(best.offered))?, offer(OfferedLoad::Rate(best.out * OVERLOAD))?));
        if pairs.iter().filter(|(_, rates)| rates.offered >= OFFERED * OVERLOAD * best.out).count() == OVERLOADS {
            break;
        }
    }
    // The median of the tries with the highest offered rates.
    pairs.sort_by(|(_, a), (_, b)| b.offered.total_cmp(&a.offered));
    pairs.truncate(OVERLOADS);
    let part = |(peak, overload): &(ForwardingRates, ForwardingRates)| overload.out / peak.out;
    pairs.sort_by(|a, b| part(a).total_cmp(&part(b)));
    let median = pairs[pairs.len() / 2];
    let overload = median.1;
    let flood = offer(OfferedLoad::Flood)?;
    if let Some(daemon) = packets.lane.daemon() {
        let reply = daemon.slices(operator(), None).map_err(|failure| anyhow!("no counters: {failure:?}"))?;
        let counters = reply.slices.first().context("the slice is gone")?.counters.0;
        ensure!(counters.forwarded > 0 && counters.exceptions == 0, "packets left the fast path: {counters:?}");
    }
    let values = [
        ("max_pps", best.out),
        ("max_offered_pps", best.offered),
        ("max_mbps", best.out * (ON_LINK + f64::from(plan.payload)) * 8.0 / 1e6),
        ("overload_part", part(&median)),
        ("overload_pps", overload.out),
        ("overload_offered_pps", overload.offered),
        ("flood_pps", flood.out),
        ("flood_offered_pps", flood.offered),
    ];
    Ok(Measurements {
        values: values.map(|(name, value)| (name.to_owned(), value)).into(),
        series: [("forwarded_kpps".to_owned(), points)].into(),
        ..Measurements::default()
    })
}
