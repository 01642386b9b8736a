//! Instructions in datagrams, to and from this host.

use super::socket::is_of_an_answer;
use crate::arguments::{How, Place};
use crate::output::print_json;
use anyhow::{Context, Result};
use esp::isa::Instruction;
use esp::registered::{RegisteredInstruction, RegisteredPart};
use esp::seal::OperatorKey;
use esp::wire::{Carried, Locations, Part, before_data, with_data_by};
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

    /// A socket to which parts come: by IPv6 and IPv4 where the system does both; also those to a group.
    pub fn here(self, group: Option<IpAddr>) -> Result<UdpSocket> {
        let port = self.port;
        let bind = |here: IpAddr| UdpSocket::bind((here, port));
        let (v4, v6) = (IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED));
        let socket = match group {
            None => bind(v6).or_else(|_| bind(v4)),
            Some(IpAddr::V4(_)) => bind(v4),
            Some(IpAddr::V6(_)) => bind(v6),
        };
        let socket = socket.with_context(|| format!("datagrams to port {port} cannot be received here"))?;
        let joined = match group {
            None => Ok(()),
            Some(IpAddr::V4(group)) => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
            Some(IpAddr::V6(group)) => socket.join_multicast_v6(&group, 0),
        };
        joined.with_context(|| format!("the group {} cannot be joined", group.unwrap_or(v4)))?;
        Ok(socket)
    }

    /// What is sent of a part.
    pub fn bytes(self, part: &impl Carried) -> Vec<u8> {
        self.key.map_or_else(|| part.carried(false), |key| key.seal(part))
    }

    /// What is sent of a part in front of data.
    pub fn before_data(self, part: &Part, data: &[u8]) -> Vec<u8> {
        self.key.map_or_else(|| before_data(part, data), |key| before_data(&key.sealed(*part), data))
    }

    /// The part in what has come; none where it has none, or a key is asked for and it is not sealed with that.
    fn read(self, bytes: &[u8]) -> Option<(Part, Option<&[u8]>)> {
        with_data_by(bytes, |bytes| self.key.map_or_else(|| Part::read(bytes), |key| key.read(bytes))).ok()
    }

    /// The next part that comes before `until`; none where none does.
    pub fn next(self, socket: &UdpSocket, until: Instant) -> Result<Option<Came>> {
        let mut bytes = [0; LONGEST];
        loop {
            let left = until.since(clock::now());
            if left == Nanos::ZERO {
                return Ok(None);
            }
            socket.set_read_timeout(Some(Duration::from(left).min(Duration::from_secs(3600))))?;
            match socket.recv_from(&mut bytes) {
                Ok((length, from)) => {
                    let whole = &bytes[..length];
                    if let Some((part, data)) = self.read(whole) {
                        return Ok(Some(Came { part, data: data.map(<[u8]>::to_vec), whole: whole.to_vec(), from }));
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // What an earlier datagram was answered with is no reason to end.
                Err(error) if is_of_an_answer(&error) => {}
                Err(error) => return Err(error).context("nothing can be received"),
            }
        }
    }
}

/// A part that came.
pub struct Came {
    /// The part.
    pub part: Part,
    /// What it was in front of.
    pub data: Option<Vec<u8>>,
    /// All of the datagram.
    pub whole: Vec<u8>,
    /// From whom.
    pub from: SocketAddr,
}

fn locations(places: &[Place]) -> Locations {
    let among = |place| places.contains(&place);
    Locations { input: among(Place::Input), central: among(Place::Central), output: among(Place::Output) }
}

/// `switchpath state send`
pub fn send(host: IpAddr, line: Line, instruction: Instruction, how: &How) -> Result<ExitCode> {
    let (locations, computation) = (locations(&how.at), how.computation);
    let part = Part { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    send_one(host, line, &part)
}

/// The same of an instruction that the operator of a router has registered.
pub fn call(host: IpAddr, line: Line, instruction: RegisteredInstruction, how: &How) -> Result<ExitCode> {
    let (locations, computation) = (locations(&how.at), how.computation);
    let part = RegisteredPart { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    send_one(host, line, &part)
}

fn send_one(host: IpAddr, line: Line, part: &impl Carried) -> Result<ExitCode> {
    line.to(host)?.send(&line.bytes(part)).with_context(|| format!("nothing can be sent to {host}"))?;
    Ok(ExitCode::SUCCESS)
}

/// When to end.
#[derive(Clone, Copy)]
pub struct Ends {
    /// After so many.
    pub count: u64,
    /// At this time.
    pub until: Instant,
}

impl Ends {
    /// After so many, or so long.
    pub fn of(count: Option<u64>, time: Option<Nanos>) -> Ends {
        let until = time.map_or(Instant::FAR, |time| clock::now() + time);
        Ends { count: count.unwrap_or(u64::MAX), until }
    }
}

/// A part that came, as it is told.
#[derive(Serialize)]
struct Told {
    from: String,
    computation: String,
    instruction: String,
    error: bool,
    /// What it carries along; bytes that are no text are replaced.
    data: Option<String>,
}

/// Tells of a part that came.
pub fn tell(out: &mut dyn Write, came: &Came, json: bool) -> Result<()> {
    let told = Told {
        from: came.from.to_string(),
        computation: format!("{:#x}", came.part.computation),
        instruction: came.part.instruction.to_string(),
        error: came.part.error,
        data: came.data.as_deref().map(|data| String::from_utf8_lossy(data).into_owned()),
    };
    if json {
        print_json(out, &told)?;
    } else {
        let error = if told.error { ", a router could not execute it" } else { "" };
        let data = told.data.map_or_else(String::new, |data| format!(": {data}"));
        writeln!(out, "{} computation {} {}{error}{data}", told.from, told.computation, told.instruction)?;
    }
    out.flush()?;
    Ok(())
}

/// `switchpath state listen`
pub fn listen(line: Line, group: Option<IpAddr>, ends: Ends, answer: bool, json: bool) -> Result<ExitCode> {
    let socket = line.here(group)?;
    let mut out = stdout().lock();
    let mut came = 0;
    while came < ends.count
        && let Some(one) = line.next(&socket, ends.until)?
    {
        came += 1;
        tell(&mut out, &one, json)?;
        if answer {
            // Not to the port that routers know instructions by; who does not want it any more says so, and that is all.
            let _ = socket.send_to(&one.whole, one.from);
        }
    }
    Ok(ExitCode::SUCCESS)
}
