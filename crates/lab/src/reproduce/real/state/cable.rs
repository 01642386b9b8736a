//! The kernel's TCP through a pass-through port that executes the instructions of other packets (spec E-40, E-X16).

use super::load::executed_and_aborted;
use super::network::{ROUTER, started};
use super::stalls::StallWatch;
use super::{Values, sleep_until};
use anyhow::{Context, Result, anyhow};
use esp::host::Computation;
use esp::wire::{Carriages, Locations};
use io::clock;
use io::netns::{Lab, LabHost};
use io::tcp::{self, TcpConnectOptions};
use sim::ephemeral::CablePlan;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// From the addresses for benchmarks (RFC 2544, appendix C.2.2): the sender and the receiver.
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
/// The two ends of the cable. Packets from the first to the second flow towards the imagined router.
const PORTS: [&str; 2] = ["line", "inside"];
/// The interface of a host.
const INTERFACE: &str = "eth0";
/// How often senders check for due packets.
const LOOK: Nanos = Nanos::millis(1);
/// Time limit for packets in flight, and for the hosts to resolve each other.
const FLIGHT_LIMIT: Nanos = Nanos::millis(300);
const PATIENCE: Duration = Duration::from_secs(10);
/// The payload of a full packet: by TCP with timestamps, and by UDP.
const SEGMENT: u64 = 1448;
const DATAGRAM: usize = 1472;

/// Runs the trial.
///
/// | value | meaning |
/// |---|---|
/// | `offered_mbps`, `carried_mbps` | rate written by the sender, and read by the receiver |
/// | `repeated`, `in_vain` | retransmitted segments, and those of them that the receiver had already |
/// | `stood_still` | retransmissions caused by a stall of the machine |
/// | `instructions`, `executed` | instructions sent beside the stream, and those executed by the port |
/// | `longest` | length in bytes of the longest IP packet that passed, of 1500 |
pub fn run(plan: &CablePlan) -> Result<Values> {
    let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
    let (sender, receiver) = (lab.host("sender")?, lab.host("receiver")?);
    let mut bump = None;
    if plan.bump {
        let router = lab.host("bump")?;
        router.silence_kernel()?;
        lab.cable(&sender.plug(INTERFACE), &router.plug(PORTS[0]))?;
        lab.cable(&receiver.plug(INTERFACE), &router.plug(PORTS[1]))?;
        bump = Some(started(&configuration(), &router)?);
    } else {
        lab.cable(&sender.plug(INTERFACE), &receiver.plug(INTERFACE))?;
    }
    for (host, address) in [&sender, &receiver].into_iter().zip(HOSTS) {
        host.add_address(INTERFACE, address.into(), 24)?;
    }
    let longest = longest(&sender, &receiver)?;
    let manner = TcpConnectOptions { congestion_control: "reno", max_segment: 1460, max_unsent: 1 << 20 };
    let at = SocketAddr::new(HOSTS[1].into(), 80);
    let listener = receiver.run(|| manner.listen(at))?.context("listening")?;
    let near = sender.run(|| manner.connect(at, PATIENCE))?.context("connecting over the cable")?;
    let (far, _) = listener.accept().context("accepting a connection")?;
    let instructions = sender.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    // Open a socket for the instructions, else the receiver answers each with ICMP port unreachable.
    let _taken = receiver.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, Carriages::PORT)))??;
    let (begin, watch) = (clock::now() + FLIGHT_LIMIT, StallWatch::begin()?);
    let (offered, carried, sent, again) = thread::scope(|scope| {
        let writes = scope.spawn(|| write(plan, &near, begin));
        let reads = scope.spawn(|| read(far, begin));
        let loads = scope.spawn(|| load(plan, &instructions, begin));
        let notes = scope.spawn(|| retransmission_times(&near, begin + plan.duration + FLIGHT_LIMIT));
        let gone = |_| anyhow!("a host's thread panicked");
        Ok::<_, anyhow::Error>((
            writes.join().map_err(gone)??,
            reads.join().map_err(gone)??,
            loads.join().map_err(gone)??,
            notes.join().map_err(gone)??,
        ))
    })?;
    let still = watch.end()?;
    let state = tcp::info(&near).context("asking TCP how it went")?;
    let mut executed = 0;
    if let Some((daemon, _notices)) = bump {
        let told = daemon.ephemeral().map_err(|error| anyhow!("the bump does not answer: {error:?}"))?;
        executed = told.stores.iter().map(|store| executed_and_aborted(store).0).sum();
        drop(daemon.stop());
    }
    let mbps = |(bytes, span): (u64, Nanos)| bytes as f64 * 8.0 / 1e6 / span.as_secs_f64().max(1e-9);
    Ok([
        ("offered_mbps", mbps(offered)),
        ("carried_mbps", mbps(carried)),
        ("repeated", f64::from(state.total_retransmitted)),
        ("in_vain", f64::from(state.duplicate_retransmits)),
        ("stood_still", again.iter().filter(|&&then| still.may_explain(then)).count() as f64),
        ("instructions", sent as f64),
        ("executed", executed as f64),
        ("longest", longest as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

/// The configuration of the pass-through ports between the hosts.
fn configuration() -> String {
    let [line, inside] = PORTS;
    format!(
        "version = 1\n{ROUTER}\n[state]\ncapacity = 200000\ncentral = 0\n[port.{line}]\ndevice = \"packet:{line}\"\n\
         offloads = false\n[port.{inside}]\ndevice = \"packet:{inside}\"\noffloads = false\nstate = {{ at = \"none\" }}\n\
         [[passthrough]]\nports = [\"{line}\", \"{inside}\"]\n"
    )
}

/// The length of the longest IP packet of a host that passes.
fn longest(sender: &LabHost, receiver: &LabHost) -> Result<usize> {
    let to = receiver.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 9)))??;
    let from = sender.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    to.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut bytes = [0; 2048];
    for _ in 0..10 {
        // The first one may be lost while the hosts resolve each other.
        from.send_to(&bytes[..DATAGRAM], (HOSTS[1], 9))?;
        if let Ok(length) = to.recv(&mut bytes) {
            return Ok(length + 28);
        }
    }
    Ok(0)
}

/// Writes the bytes that are due. Returns how many, and how long it took.
fn write(plan: &CablePlan, mut to: &TcpStream, begin: Instant) -> Result<(u64, Nanos)> {
    let (block, mut written) = (vec![0x5a; 1 << 16], 0u64);
    sleep_until(begin)?;
    loop {
        let passed = clock::now().since(begin).min(plan.duration);
        let due = (u128::from(plan.rate.get()) * u128::from(passed.get()) / 8_000_000_000) as u64;
        while written < due {
            let count = (due - written).min(block.len() as u64) as usize;
            written += to.write(&block[..count])? as u64;
        }
        if passed == plan.duration {
            to.shutdown(std::net::Shutdown::Write)?;
            return Ok((written, passed));
        }
        sleep_until(clock::now() + LOOK)?;
    }
}

/// The times of all retransmissions up to `end`.
fn retransmission_times(by: &TcpStream, end: Instant) -> Result<Vec<Instant>> {
    let mut times = Vec::new();
    while clock::now() < end {
        sleep_until(clock::now() + LOOK)?;
        let count = tcp::info(by).context("asking TCP how it goes")?.total_retransmitted as usize;
        // The kernel reports only a count. All retransmissions since the last look get the present time.
        times.resize(count.max(times.len()), clock::now());
    }
    Ok(times)
}

/// Reads until the end of the stream. Returns how many bytes, and when the last arrived after the start.
fn read(mut from: TcpStream, begin: Instant) -> Result<(u64, Nanos)> {
    let (mut block, mut came, mut last) = (vec![0; 1 << 18], 0u64, begin);
    loop {
        match from.read(&mut block)? {
            0 => return Ok((came, last.since(begin))),
            count => (came, last) = (came + count as u64, clock::now()),
        }
    }
}

/// Sends instructions, so many that they are the wanted fraction of all packets. Returns how many.
fn load(plan: &CablePlan, socket: &UdpSocket, begin: Instant) -> Result<u64> {
    let segments = plan.rate.get() as f64 / 8.0 / SEGMENT as f64;
    let rate = segments * plan.load as f64 / (100 - plan.load.min(99)) as f64;
    let mut computation = Computation::seeded([begin.get(), plan.seed]).at(Locations::INPUT);
    let mut sent = 0u64;
    sleep_until(begin)?;
    while plan.load > 0 && clock::now() < begin + plan.duration {
        let due = (rate * clock::now().since(begin).as_secs_f64()) as u64;
        while sent < due {
            let tag = computation.tag();
            socket.send_to(&computation.count(tag, 2).to_bytes(), (HOSTS[1], Carriages::PORT))?;
            sent += 1;
        }
        sleep_until(clock::now() + LOOK)?;
    }
    Ok(sent)
}
