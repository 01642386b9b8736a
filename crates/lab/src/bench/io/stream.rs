//! One TCP connection, between hosts that leave segmentation and checksums to a network card.

use super::lane::{HostOffloads, Lane, LaneKind, LaneSide};
use anyhow::{Context, Result};
use io::clock;
use io::netns::Lab;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use units::Nanos;

/// Duration of a measurement, and the time for the connection to open its window.
const SPAN: Nanos = Nanos::millis(400);
const WARMUP: Nanos = Nanos::millis(150);
/// How long a read or write may stall.
const PATIENCE: Nanos = Nanos::secs(5);
/// Bytes written and read at once.
const MOST: usize = 256 << 10;

/// A lane between hosts with their usual offloads.
pub struct Stream {
    lane: Lane,
}

impl Stream {
    /// A lane of that kind.
    pub fn new(lab: &Lab, kind: LaneKind) -> Result<Stream> {
        Ok(Stream { lane: Lane::new(lab, kind, HostOffloads::Offloaded)? })
    }

    /// Bits a second that arrive.
    pub fn rate(&self) -> Result<f64> {
        let (left, right) = (self.lane.host(LaneSide::Left), self.lane.host(LaneSide::Right));
        let at = SocketAddr::new(IpAddr::V4(LaneSide::Right.addresses().1), 0);
        let listener = right.run(|| TcpListener::bind(at))??;
        let target = listener.local_addr()?;
        let mut to = left.run(|| TcpStream::connect_timeout(&target, PATIENCE.into()))?.context("no connection")?;
        let (mut from, _) = listener.accept()?;
        to.set_write_timeout(Some(PATIENCE.into()))?;
        from.set_read_timeout(Some(PATIENCE.into()))?;
        thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let bytes = vec![0x5a; MOST];
                // Fails as soon as the receiver closes the connection.
                while to.write_all(&bytes).is_ok() {}
            });
            let received = receive(&mut from);
            drop(from);
            sender.join().ok().context("the sender failed")?;
            received
        })
    }
}

fn receive(from: &mut TcpStream) -> Result<f64> {
    let mut bytes = vec![0; MOST];
    let mut take = |span| -> Result<(u64, Nanos)> {
        let (begun, mut taken) = (clock::now(), 0);
        loop {
            let elapsed = clock::now().since(begun);
            if elapsed >= span {
                return Ok((taken, elapsed));
            }
            taken += from.read(&mut bytes).context("the connection is stalled")? as u64;
        }
    };
    take(WARMUP)?;
    let (taken, elapsed) = take(SPAN)?;
    Ok(taken as f64 * 8e9 / elapsed.get() as f64)
}
