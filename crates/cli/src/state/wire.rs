//! Instructions in datagrams, to and from this host.

use crate::arguments::{How, Place};
use crate::output::print_json;
use anyhow::{Context, Result};
use esp::isa::Instruction;
use esp::wire::{Locations, Part};
use io::clock;
use serde::Serialize;
use std::io::{ErrorKind, Write, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;
use units::{Instant, Nanos};

/// More than any part has.
const LONGEST: usize = 2048;

/// A socket by which parts are sent to a host.
pub fn to(host: IpAddr, port: u16) -> Result<UdpSocket> {
    let any: IpAddr = if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).context("there is no socket for datagrams")?;
    socket.connect((host, port)).with_context(|| format!("{host} cannot be reached"))?;
    Ok(socket)
}

/// A socket to which parts come: by IPv6 and IPv4 where the system does both.
pub fn here(port: u16) -> Result<UdpSocket> {
    let both = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port));
    both.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))
        .with_context(|| format!("datagrams to port {port} cannot be received here"))
}

/// The next part that comes before `until`, and from whom; none where none does.
pub fn next(socket: &UdpSocket, until: Instant) -> Result<Option<(Part, SocketAddr)>> {
    let mut bytes = [0; LONGEST];
    loop {
        let left = until.since(clock::now());
        if left == Nanos::ZERO {
            return Ok(None);
        }
        socket.set_read_timeout(Some(Duration::from(left).min(Duration::from_secs(3600))))?;
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => {
                if let Ok(part) = Part::read(&bytes[..length]) {
                    return Ok(Some((part, from)));
                }
            }
            // What an earlier datagram was answered with is no reason to end.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(error).context("nothing can be received"),
        }
    }
}

fn locations(places: &[Place]) -> Locations {
    let among = |place| places.contains(&place);
    Locations { input: among(Place::Input), central: among(Place::Central), output: among(Place::Output) }
}

/// `switchpath state send`
pub fn send(host: IpAddr, port: u16, instruction: Instruction, how: &How) -> Result<ExitCode> {
    let (locations, computation) = (locations(&how.at), how.computation);
    let part = Part { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    to(host, port)?.send(&part.to_bytes()).with_context(|| format!("nothing can be sent to {host}"))?;
    Ok(ExitCode::SUCCESS)
}

/// A part that came.
#[derive(Serialize)]
struct Came {
    from: String,
    computation: String,
    instruction: String,
    error: bool,
}

/// `switchpath state listen`
pub fn listen(port: u16, count: Option<u64>, time: Option<Nanos>, json: bool) -> Result<ExitCode> {
    let socket = here(port)?;
    let until = time.map_or(Instant::FAR, |time| clock::now() + time);
    let mut out = stdout().lock();
    let mut came = 0;
    while count.is_none_or(|count| came < count)
        && let Some((part, from)) = next(&socket, until)?
    {
        came += 1;
        let told = Came {
            from: from.to_string(),
            computation: format!("{:#x}", part.computation),
            instruction: part.instruction.to_string(),
            error: part.error,
        };
        if json {
            print_json(&mut out, &told)?;
        } else {
            let error = if told.error { ", a router could not execute it" } else { "" };
            writeln!(out, "{} computation {} {}{error}", told.from, told.computation, told.instruction)?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}
