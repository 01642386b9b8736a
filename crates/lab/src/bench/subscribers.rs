//! The cost of subscribers over plain forwarding: the circuit of each packet, and its leaf in a tree of four levels.
//!
//! Both routers forward the same frames, one to each subscriber in turn. One has the scheme `fifo` at its port, the other a tree of shares.

use super::forwarding::{BenchRouter, BenchTable, SPARE, frame};
use super::kernel_htb::{KernelHtb, MOST_LEAVES};
use super::{BenchFigure, Progress, Rounds, median};
use plane::rig::{MemoryWires, Rig};
use plane::snapshot::Layout;
use std::fmt::Write as _;
use std::io;
use units::Nanos;

/// The most time over plain forwarding, in nanoseconds a packet.
const BUDGET: f64 = 120.0;
/// The most that the time may grow from the fewest to the most subscribers.
const GROWTH: f64 = 2.0;
/// The time of a step, about that of a batch. Without it the meters would earn no credit.
const STEP: Nanos = Nanos::micros(5);
/// The numbers of subscribers.
const COUNTS: [usize; 3] = [100, 10_000, 100_000];
/// Subscribers of a tower, and of a region.
const TOWER: usize = 25;
const REGION: usize = 1000;

/// The address of a subscriber. Neighbours in a tower have neighbouring addresses.
fn address(subscriber: usize) -> u32 {
    0x0a40_0000 + subscriber as u32
}

/// The table of subscribers: its name has their number.
fn table(name: &str) -> io::Result<Vec<u8>> {
    let number = name.chars().filter(char::is_ascii_digit).collect::<String>();
    let count: usize = number.parse().map_err(io::Error::other)?;
    let mut text = String::from("site,circuit,parent,address,down,up,down_min,up_min\n");
    let write = |text: &mut String, line: std::fmt::Arguments<'_>| text.write_fmt(line).map_err(io::Error::other);
    for region in 0..count.div_ceil(REGION) {
        write(&mut text, format_args!("region{region},,,,100gbit,100gbit,,\n"))?;
    }
    for tower in 0..count.div_ceil(TOWER) {
        let region = tower * TOWER / REGION;
        write(&mut text, format_args!("tower{tower},,region{region},,50gbit,50gbit,,\n"))?;
    }
    for subscriber in 0..count {
        let (tower, address) = (subscriber / TOWER, std::net::Ipv4Addr::from(address(subscriber)));
        write(&mut text, format_args!(",{subscriber},tower{tower},{address},20gbit,20gbit,1mbit,1mbit\n"))?;
    }
    Ok(text.into_bytes())
}

/// A router that forwards a frame to each of so many subscribers. With `shares` it divides its link among them.
fn router(count: usize, shares: bool) -> BenchRouter {
    let mut config = BenchTable::Few.config();
    if shares {
        let scheme = format!("scheme = \"share(leaves={})\"\n", count.max(2));
        config = config.replace("[port.out]\n", &format!("[port.out]\n{scheme}"));
        config = config.replace("[port.in]\n", "[port.in]\nscheme = \"share\"\n");
        let _ = write!(
            config,
            "[subscribers]\ninside = [\"out\"]\noutside = [\"in\"]\nfile = \"/subscribers{count}.csv\"\n"
        );
    }
    let mut wires = MemoryWires::default();
    wires.read_file = Some(table);
    let rig = Rig::running_with(wires, count + SPARE, Layout::Three, &config);
    // A walk with a step that is prime to the number visits all of them, and no two of a tower after each other.
    let step = 7919;
    let mut router = BenchRouter::of(rig, (0..count).map(|i| frame(address(i * step % count))));
    // The scheme is called for every packet, also if no packet waits.
    router.call_scheme_always();
    router.step_time = STEP;
    router
}

/// Measures the group. Without the right to make network namespaces, the kernel's HTB is left out.
pub fn measure(Rounds(rounds): Rounds, progress: &Progress) -> anyhow::Result<Vec<BenchFigure>> {
    let mut figures = Vec::new();
    let mut costs = Vec::new();
    for count in COUNTS {
        let (mut plain, mut shared) = (router(count, false), router(count, true));
        let htb = (count <= MOST_LEAVES).then(|| KernelHtb::new(count, TOWER, REGION));
        let htb = htb.and_then(|made| made.map_err(|why| progress.note(&format!("HTB is left out: {why:#}"))).ok());
        let mut htb_more = Vec::new();
        let mut more = Vec::new();
        let mut pairs = Vec::new();
        for round in 0..=rounds {
            let passes = plain.passes();
            let pair = (shared.run_router(passes), plain.run_router(passes));
            // The first round only warms up.
            if round > 0 {
                if let Some(htb) = &htb {
                    htb_more.push(htb.time_over_plain()?);
                }
                more.push(pair.0 - pair.1);
                pairs.push(pair);
            }
        }
        let (value, plain) = (median(pairs.iter().map(|p| p.0).collect()), median(pairs.iter().map(|p| p.1).collect()));
        let over = median(more);
        costs.push(over);
        let name = format!("{count} subscribers in 4 levels");
        figures.push(BenchFigure::against(
            "subscribers",
            format!("{name}, beside plain forwarding"),
            (value, plain, value / plain),
            "ns/packet",
            None,
        ));
        let budget = (count == COUNTS[1]).then_some(BUDGET);
        figures.push(BenchFigure::alone(
            "subscribers",
            format!("{name}: time over plain forwarding"),
            over,
            "ns/packet",
            budget,
        ));
        if !htb_more.is_empty() {
            let htb = median(htb_more);
            let name = format!("{name}, beside what the kernel's HTB with pfifo leaves adds to its packets");
            figures.push(BenchFigure::against("subscribers", name, (over, htb, over / htb), "ns/packet", None));
        }
    }
    let growth = costs[COUNTS.len() - 1] / costs[0];
    figures.push(BenchFigure::alone(
        "subscribers",
        format!("time over plain forwarding, {} over {} subscribers", COUNTS[2], COUNTS[0]),
        growth,
        "",
        Some(GROWTH),
    ));
    Ok(figures)
}
