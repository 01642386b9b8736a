//! Instructions in datagrams, to and from this host.

use crate::arguments::{How, Place};
use crate::output::print_json;
use anyhow::{Context, Result};
use esp::isa::Instruction;
use esp::seal::OperatorKey;
use esp::wire::{Locations, Part};
use io::clock;
use serde::Serialize;
use std::io::{ErrorKind, Write, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use units::{Instant, Nanos};

/// More than any part has.
const LONGEST: usize = 2048;

/// How parts travel: by datagrams to this port, sealed with the operator's key if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    port: u16,
    key: Option<OperatorKey>,
}

impl Line {
    /// To a port, with the key in a file.
    pub fn of(port: u16, key: Option<&Path>) -> Result<Line> {
        let read = |file: &Path| -> Result<OperatorKey> {
            let text = std::fs::read_to_string(file).with_context(|| format!("'{}' cannot be read", file.display()))?;
            text.parse().with_context(|| format!("'{}' has no key", file.display()))
        };
        Ok(Line { port, key: key.map(read).transpose()? })
    }

    /// A socket by which parts are sent to a host.
    pub fn to(self, host: IpAddr) -> Result<UdpSocket> {
        let any: IpAddr = if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).context("there is no socket for datagrams")?;
        socket.connect((host, self.port)).with_context(|| format!("{host} cannot be reached"))?;
        Ok(socket)
    }

    /// A socket to which parts come: by IPv6 and IPv4 where the system does both.
    pub fn here(self) -> Result<UdpSocket> {
        let both = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, self.port));
        both.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, self.port)))
            .with_context(|| format!("datagrams to port {} cannot be received here", self.port))
    }

    /// What is sent of a part.
    pub fn bytes(self, part: &Part) -> Vec<u8> {
        self.key.map_or_else(|| part.to_bytes(), |key| key.seal(part))
    }

    /// The part in what has come; none where it has none, or a key is asked for and it is not sealed with that.
    fn read(self, bytes: &[u8]) -> Option<Part> {
        self.key.map_or_else(|| Part::read(bytes), |key| key.read(bytes)).ok()
    }

    /// The next part that comes before `until`, and from whom; none where none does.
    pub fn next(self, socket: &UdpSocket, until: Instant) -> Result<Option<(Part, SocketAddr)>> {
        let mut bytes = [0; LONGEST];
        loop {
            let left = until.since(clock::now());
            if left == Nanos::ZERO {
                return Ok(None);
            }
            socket.set_read_timeout(Some(Duration::from(left).min(Duration::from_secs(3600))))?;
            match socket.recv_from(&mut bytes) {
                Ok((length, from)) => {
                    if let Some(part) = self.read(&bytes[..length]) {
                        return Ok(Some((part, from)));
                    }
                }
                // What an earlier datagram was answered with is no reason to end.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::TimedOut
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionRefused
                    ) => {}
                Err(error) => return Err(error).context("nothing can be received"),
            }
        }
    }
}

fn locations(places: &[Place]) -> Locations {
    let among = |place| places.contains(&place);
    Locations { input: among(Place::Input), central: among(Place::Central), output: among(Place::Output) }
}

/// `switchpath state send`
pub fn send(host: IpAddr, line: Line, instruction: Instruction, how: &How) -> Result<ExitCode> {
    let (locations, computation) = (locations(&how.at), how.computation);
    let part = Part { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    line.to(host)?.send(&line.bytes(&part)).with_context(|| format!("nothing can be sent to {host}"))?;
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
pub fn listen(line: Line, count: Option<u64>, time: Option<Nanos>, json: bool) -> Result<ExitCode> {
    let socket = line.here()?;
    let until = time.map_or(Instant::FAR, |time| clock::now() + time);
    let mut out = stdout().lock();
    let mut came = 0;
    while count.is_none_or(|count| came < count)
        && let Some((part, from)) = line.next(&socket, until)?
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
