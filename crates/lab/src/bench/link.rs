//! The accuracy of an emulated link at 1 Gbit/s and 10 ms, by the kernel's receive timestamps at the far end.
//!
//! Sockets at both ends send and receive whole frames. A saturated link sends at equal distances. The error of its delay is how much later a packet
//! arrives than the earliest of its second predicts. A packet that finds the link idle should leave exactly after the delay. The kernel's TCP and
//! ping share the link, as with a command.

use super::io::echo::round_trips;
use super::{BenchFigure, Progress, Rounds, median};
use crate::link::EmulatedNetwork;
use crate::link::configuration::NestingLevel;
use ::io::clock;
use ::io::packet_ring::{PacketOptions, PacketPort};
use ::io::wait::{Sleeper, Waker, sleep_exactly};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use cli::arguments::LinkArguments;
use packet::port::{Port, discard_refused};
use packet::{BATCH, Batch, Pool, Region};
use plane::rig::UdpFrame;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::{Instant, Nanos};

/// Bits a second, and the delay.
const RATE: u64 = 1_000_000_000;
const DELAY: Nanos = Nanos::millis(10);
/// The length of a frame, of the IP packet in it, and the packet's transmission time on the link.
const FRAME: usize = 1514;
const PACKET: u64 = 1500;
const GAP: Nanos = Nanos::new(PACKET * 8 * 1_000_000_000 / RATE);
/// The payload of an IP packet with TCP timestamps.
const SEGMENT: f64 = 1448.0;
/// Budgets in microseconds and percent.
const LATE: f64 = 300.0;
const WRONG: f64 = 0.5;
/// Offered load of a saturated link, as a multiple of its rate.
const OFFERED: f64 = 1.03;
/// Number of single packets, and of pings.
const PROBES: u64 = 60;
const PINGS: usize = 60;
/// Time for TCP to open its window, and the timeout for any event.
const WARMUP: Nanos = Nanos::millis(2500);
const PATIENCE: Nanos = Nanos::secs(5);
/// The offset of a packet's number, and the ports of numbered packets.
const NUMBER: usize = 42;
const PORTS: (u16, u16) = (4009, 4009);

/// The options of `switchpath link`, without the other commands.
#[derive(Parser, Debug)]
struct Only {
    #[command(flatten)]
    link: LinkArguments,
}

/// Measures all figures.
pub fn measure(Rounds(rounds): Rounds, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let rounds = rounds.clamp(1, 5) as u64;
    let text =
        ["link", "--down", "1gbit", "--up", "1gbit", "--delay", "10ms", "--scheme", "fifo(limit=5000)", "--", "-"];
    let behind = EmulatedNetwork::start(&Only::parse_from(text).link, NestingLevel::outermost())?;
    let start = clock::now();
    progress.say("link: packets by themselves");
    let mut alone = alone(&behind, PROBES * rounds)?;
    progress.say("link: more than it carries");
    let (rate, mut busy) = saturated(&behind, Nanos::secs(1 + rounds))?;
    progress.say("link: ping");
    let wire = (20 + 64) as f64 * 8.0 / RATE as f64 * 1e6;
    let pings = round_trips(behind.hosts.inside(), behind.level.far_host().v4, PINGS * rounds as usize)?;
    let expected = 2.0 * (DELAY.get() as f64 / 1e3 + wire);
    let mut pings: Vec<f64> = pings.into_iter().map(|time| time - expected).collect();
    progress.say("link: one TCP connection");
    let tcp = stream(&behind, Nanos::secs(1 + rounds))?;
    let report = behind.finish((start, clock::now()))?;
    let wrong = |rate: f64, full: f64| (rate / full - 1.0).abs() * 100.0;
    let figure = |name: &str, value: f64, unit, budget| {
        BenchFigure::alone("link", format!("1 Gbit/s, 10 ms: {name}"), value, unit, budget)
    };
    let full = RATE as f64 * SEGMENT / PACKET as f64;
    let remarks = report.bottleneck();
    remarks.iter().for_each(|remark| progress.note(&format!("link: {remark}")));
    Ok(vec![
        figure("error of the rate, always busy", wrong(rate, RATE as f64), "%", Some(WRONG)),
        figure("error of the rate, one TCP connection of the kernel", wrong(tcp, full), "%", Some(WRONG)),
        figure("error of the delay, always busy, median", percentile(&mut busy, 500), "us", None),
        figure("error of the delay, always busy, p99", percentile(&mut busy, 990), "us", Some(LATE)),
        figure("error of the delay, packets by themselves, median", percentile(&mut alone, 500), "us", None),
        figure("error of the delay, packets by themselves, p99", percentile(&mut alone, 990), "us", Some(LATE)),
        figure("error of a ping, both ways, median", median(pings.clone()), "us", None),
        figure("error of a ping, both ways, p99", percentile(&mut pings, 990), "us", Some(2.0 * LATE)),
        figure("what the link says itself, p99", report.directions[0].late().get() as f64 / 1e3, "us", Some(LATE)),
        figure("remarks that the machine was a bottleneck", remarks.len() as f64, "", None),
    ])
}

/// The value that `part` of a thousand values do not exceed.
fn percentile(values: &mut [f64], part: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * part / 1000).min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// One end of the link: a socket for whole frames.
struct FrameSocket {
    port: PacketPort,
    pool: Pool,
    batch: Batch,
    frame: Vec<u8>,
    sent: u64,
}

impl FrameSocket {
    /// The far end, and the command's end.
    fn both(behind: &EmulatedNetwork) -> Result<[FrameSocket; 2]> {
        let (level, hosts) = (&behind.level, &behind.hosts);
        let ([_, far], [_, router]) = (level.macs(), level.router_macs());
        let frame = UdpFrame {
            link: (far, router),
            network: (level.far_host().v4, level.inside_host().v4),
            ports: PORTS,
            ttl: 64,
            length: FRAME,
        };
        let options = PacketOptions {
            receive_slots: 32768,
            offloads: false,
            kernel_timestamps: true,
            ..PacketOptions::default()
        };
        let end = |host: &::io::netns::LabHost| -> Result<FrameSocket> {
            let opened = host.run(|| PacketPort::open("eth0", &options))?;
            let (port, _) = opened.map_err(|error| anyhow::anyhow!("{error}"))?;
            let pool = Pool::new(Region::new(2048));
            Ok(FrameSocket { port, pool, batch: Batch::new(), frame: frame.frame(&[]), sent: 0 })
        };
        Ok([end(hosts.far())?, end(hosts.inside())?])
    }

    /// Sends `count` packets, each with its number.
    fn send(&mut self, count: u64) {
        for _ in 0..count.min(self.port.room().min(BATCH) as u64) {
            let Some(mut packet) = self.pool.take_for(FRAME) else { break };
            self.frame[NUMBER..NUMBER + 8].copy_from_slice(&self.sent.to_be_bytes());
            packet.fill(&self.frame);
            self.batch.push(packet);
            self.sent += 1;
        }
        self.port.transmit(clock::now(), &mut self.batch, &mut self.pool);
        // A refused packet never arrives. The receiver counts it as missing.
        discard_refused(&mut self.batch, &mut self.pool);
    }

    /// Appends the number and the timestamp of each packet that has arrived. Returns true if any has.
    fn receive(&mut self, came: &mut Vec<(u64, Instant)>) -> bool {
        self.port.receive(clock::now(), &mut self.batch, &mut self.pool);
        let any = !self.batch.is_empty();
        for packet in self.batch.drain() {
            let bytes = packet.bytes();
            if bytes.len() == FRAME && bytes[34..36] == PORTS.0.to_be_bytes() {
                let number = bytes[NUMBER..NUMBER + 8].try_into().map_or(0, u64::from_be_bytes);
                came.push((number, packet.meta().timestamp));
            }
            self.pool.give(packet);
        }
        any
    }
}

/// By how many microseconds packets that found the link idle were late or early.
fn alone(behind: &EmulatedNetwork, count: u64) -> Result<Vec<f64>> {
    let [mut far, mut inside] = FrameSocket::both(behind)?;
    let mut sleeper = Sleeper::new(Waker::new()?);
    sleep_exactly();
    let (mut sent, mut came) = (BTreeMap::new(), Vec::new());
    for number in 0..count {
        // Use a different distance each time: an emulation that polls at a fixed interval would show.
        sleeper.sleep([], Nanos::micros(2000 + number * 617 % 3000))?;
        sent.insert(number, clock::now());
        far.send(1);
        while inside.receive(&mut came) {}
    }
    sleeper.sleep([], DELAY * 5)?;
    while inside.receive(&mut came) {}
    ensure!(came.len() as u64 == count, "{} of {count} packets arrived", came.len());
    let due = DELAY + GAP;
    let late = |(number, at): &(u64, Instant)| Some(at.since(*sent.get(number)?).get() as f64 - due.get() as f64);
    Ok(came.iter().filter_map(late).map(|nanos| nanos / 1e3).collect())
}

/// Bits a second of a saturated link, and by how many microseconds each packet came later than the earliest of its second predicts.
fn saturated(behind: &EmulatedNetwork, span: Nanos) -> Result<(f64, Vec<f64>)> {
    let [mut far, mut inside] = FrameSocket::both(behind)?;
    let (mut came, ended) = (Vec::new(), AtomicBool::new(false));
    thread::scope(|scope| -> Result<()> {
        let sender = scope.spawn(|| -> Result<()> {
            let mut sleeper = Sleeper::new(Waker::new()?);
            sleep_exactly();
            let begun = clock::now();
            loop {
                let passed = clock::now().since(begun);
                if passed >= span {
                    ended.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                let due = (passed.get() as f64 / GAP.get() as f64 * OFFERED) as u64;
                match due.saturating_sub(far.sent) {
                    0 => _ = sleeper.sleep([], GAP * 16)?,
                    missing => far.send(missing),
                }
            }
        });
        let mut sleeper = Sleeper::new(Waker::new()?);
        while !ended.load(Ordering::Relaxed) {
            if !inside.receive(&mut came) {
                sleeper.sleep([], Nanos::millis(1))?;
            }
        }
        sender.join().ok().context("the sender failed")?
    })?;
    let lost = inside.port.statistics().lost_before_receive;
    ensure!(lost == 0, "{lost} packets were lost before the receiver could read them: this machine is too slow");
    // Skip the start: the queue may have been empty now and then until it has built up.
    let first = came.first().context("nothing came")?.1;
    came.retain(|(_, at)| at.since(first) > Nanos::millis(500));
    let [(_, first), .., (_, last)] = came[..] else { anyhow::bail!("almost no packets arrived") };
    let rate = (came.len() - 1) as f64 * PACKET as f64 * 8.0 / last.since(first).as_secs_f64();
    let second = (1_000_000_000 / GAP.get()) as usize;
    let mut late = Vec::with_capacity(came.len());
    for part in came.chunks(second) {
        let offset = |(place, (_, at)): (usize, &(u64, Instant))| at.get() as f64 - place as f64 * GAP.get() as f64;
        let earliest = part.iter().enumerate().map(offset).fold(f64::INFINITY, f64::min);
        late.extend(part.iter().enumerate().map(|of| (offset(of) - earliest) / 1e3));
    }
    Ok((rate, late))
}

/// Goodput of one TCP connection in bits a second, from the far end to the command's end.
fn stream(behind: &EmulatedNetwork, span: Nanos) -> Result<f64> {
    let at = SocketAddr::new(IpAddr::V4(behind.level.inside_host().v4), 0);
    let listener = behind.hosts.inside().run(|| TcpListener::bind(at))??;
    let target = listener.local_addr()?;
    let connected = behind.hosts.far().run(|| TcpStream::connect_timeout(&target, PATIENCE.into()))?;
    let mut to = connected.context("no connection")?;
    let (mut from, _) = listener.accept()?;
    to.set_write_timeout(Some(PATIENCE.into()))?;
    from.set_read_timeout(Some(PATIENCE.into()))?;
    thread::scope(|scope| {
        // Fails as soon as the receiver closes the connection.
        let sender = scope.spawn(move || while to.write_all(&[0x5a; 65536]).is_ok() {});
        let mut bytes = vec![0; 1 << 18];
        let mut take = |span| -> Result<f64> {
            let (begun, mut taken) = (clock::now(), 0);
            loop {
                taken += from.read(&mut bytes).context("the connection is stalled")?;
                let passed = clock::now().since(begun);
                if passed >= span {
                    return Ok(taken as f64 * 8.0 / passed.as_secs_f64());
                }
            }
        };
        let rate = take(WARMUP).and_then(|_| take(span));
        drop(from);
        sender.join().ok().context("the sender failed")?;
        rate
    })
}
