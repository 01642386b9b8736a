//! An idle router: its wakeup latency, and its processor time while it sleeps.

use super::lane::{Lane, LaneSide};
use crate::bench::median;
use anyhow::{Context, Result};
use io::clock;
use io::netns::LabHost;
use io::wait::{Sleeper, Waker};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use rustix::time::{ClockId, clock_gettime};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use units::Nanos;

/// Time between echo requests: far longer than a worker polls before it sleeps.
const GAP: Nanos = Nanos::millis(1);
/// Timeout for a reply.
const PATIENCE: Nanos = Nanos::secs(1);

/// The median round trip of `count` pings in microseconds, from left to right and back.
pub fn round_trip(lane: &Lane, count: usize) -> Result<f64> {
    Ok(median(round_trips(lane.host(LaneSide::Left), LaneSide::Right.addresses().1, count)?))
}

/// The round trips of `count` pings in microseconds.
pub fn round_trips(host: &LabHost, to: Ipv4Addr, count: usize) -> Result<Vec<f64>> {
    // The groups that may open ICMP echo sockets (icmp(7)).
    host.sysctl("net/ipv4/ping_group_range", "0 0")?;
    let open = || socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::ICMP));
    let socket = UdpSocket::from(host.run(open)?.context("cannot open a socket for echo requests")?);
    socket.set_read_timeout(Some(PATIENCE.into()))?;
    socket.connect(SocketAddr::new(IpAddr::V4(to), 0))?;
    let mut sleeper = Sleeper::new(Waker::new()?);
    let (mut times, mut reply) = (Vec::with_capacity(count), [0; 128]);
    for sequence in 0..count as u16 {
        sleeper.sleep([], GAP)?;
        // Type 8, code 0; the kernel fills in checksum and identifier.
        let mut request = [0x2a; 64];
        request[..8].copy_from_slice(&[8, 0, 0, 0, 0, 0, (sequence >> 8) as u8, sequence as u8]);
        let begun = clock::now();
        socket.send(&request)?;
        socket.recv(&mut reply).context("no reply")?;
        times.push(clock::now().since(begun).get() as f64 / 1e3);
    }
    Ok(times)
}

/// The share of one processor in percent that this process uses while its router is idle for `span`.
pub fn idle(span: Nanos) -> Result<f64> {
    let mut sleeper = Sleeper::new(Waker::new()?);
    let used = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    // Let earlier traffic settle.
    sleeper.sleep([], GAP * 100)?;
    let (begun, before) = (clock::now(), used());
    sleeper.sleep([], span)?;
    Ok((used() - before) * 1e11 / clock::now().since(begun).get() as f64)
}
