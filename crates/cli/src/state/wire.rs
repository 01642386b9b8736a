//! Sends and receives instructions on this host.

use super::socket::{By, Socket};
use crate::arguments::{How, Place, Usage};
use crate::output::print_json;
use anyhow::{Context, Result, bail};
use esp::isa::Instruction;
use esp::registered::{RegisteredInstruction, RegisteredPart};
use esp::seal::OperatorKey;
use esp::wire::{Carried, Locations, Part, before_data, with_data_by};
use io::clock;
use io::wait::{Sleeper, Waker};
use serde::Serialize;
use std::io::{Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use units::{Instant, Nanos};

/// A buffer larger than any part.
const LONGEST: usize = 2048;

/// The carriage of parts, and the operator's key that seals them, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The carriage.
    pub by: By,
    key: Option<OperatorKey>,
}

impl Line {
    /// Returns the carriage with the key of a file.
    pub fn of(by: By, key: Option<&Path>) -> Result<Line> {
        let read = |file: &Path| -> Result<OperatorKey> {
            let text = std::fs::read_to_string(file).with_context(|| format!("'{}' cannot be read", file.display()))?;
            text.parse().with_context(|| format!("'{}' has no key", file.display()))
        };
        Ok(Line { by, key: key.map(read).transpose()? })
    }

    /// Opens a socket that sends parts to a host.
    pub fn to(self, host: IpAddr) -> Result<Socket> {
        Socket::to(self.by, host)
    }

    /// Opens the sockets that receive parts on this host; also those sent to a multicast group.
    pub fn here(self, group: Option<IpAddr>) -> Result<Inlet> {
        Ok(Inlet { line: self, sockets: Socket::here(self.by, group)?, sleeper: Sleeper::new(Waker::new()?) })
    }

    /// Returns the bytes of a part as sent.
    pub fn bytes(self, part: &impl Carried) -> Vec<u8> {
        self.key.map_or_else(|| part.carried(false), |key| key.seal(part))
    }

    /// Returns the bytes of a part followed by data.
    pub fn before_data(self, part: &Part, data: &[u8]) -> Vec<u8> {
        self.key.map_or_else(|| before_data(part, data), |key| before_data(&key.sealed(*part), data))
    }

    /// Reads the part of received bytes; none if there is no part, or if it is not sealed with the given key.
    fn read(self, bytes: &[u8]) -> Option<(Part, Option<&[u8]>)> {
        with_data_by(bytes, |bytes| self.key.map_or_else(|| Part::read(bytes), |key| key.read(bytes))).ok()
    }
}

/// The sockets that receive parts.
pub struct Inlet {
    line: Line,
    sockets: Vec<Socket>,
    sleeper: Sleeper,
}

impl Inlet {
    /// Returns the next part that arrives before `until`; none otherwise.
    pub fn next(&mut self, until: Instant) -> Result<Option<Came>> {
        let mut bytes = [0; LONGEST];
        loop {
            let left = until.since(clock::now());
            if left == Nanos::ZERO {
                return Ok(None);
            }
            let mut nothing = true;
            for socket in &self.sockets {
                let Some((whole, from)) = socket.receive(&mut bytes).context("nothing can be received")? else {
                    continue;
                };
                nothing = false;
                if let Some((part, data)) = self.line.read(whole) {
                    return Ok(Some(Came { part, data: data.map(<[u8]>::to_vec), whole: whole.to_vec(), from }));
                }
            }
            if nothing {
                self.sleeper.sleep(self.sockets.iter().map(Socket::as_fd), left)?;
            }
        }
    }

    /// Sends a packet back, from another port than that of instructions, so that no router executes it again.
    fn answer(&self, came: &Came) -> std::io::Result<()> {
        self.sockets.first().map_or(Ok(()), |socket| socket.send_to(&came.whole, came.from))
    }
}

/// A received part.
pub struct Came {
    /// The part.
    pub part: Part,
    /// The data behind it.
    pub data: Option<Vec<u8>>,
    /// The whole datagram.
    pub whole: Vec<u8>,
    /// Its sender.
    pub from: SocketAddr,
}

fn locations(places: &[Place]) -> Locations {
    let among = |place| places.contains(&place);
    Locations { input: among(Place::Input), central: among(Place::Central), output: among(Place::Output) }
}

/// `switchpath state send`
pub fn send(host: IpAddr, line: Line, instruction: Instruction, how: &How) -> Result<ExitCode> {
    let (locations, computation, trace) = (locations(&how.at), how.computation, how.trace);
    let part = Part { locations, error: false, piggybacked: false, trace, computation, instruction };
    send_one(host, line, &part)
}

/// Sends an instruction that the operator of a router has registered.
pub fn call(host: IpAddr, line: Line, instruction: RegisteredInstruction, how: &How) -> Result<ExitCode> {
    let (locations, computation, trace) = (locations(&how.at), how.computation, how.trace);
    let part = RegisteredPart { locations, error: false, piggybacked: false, trace, computation, instruction };
    send_one(host, line, &part)
}

fn send_one(host: IpAddr, line: Line, part: &impl Carried) -> Result<ExitCode> {
    line.to(host)?.send(&line.bytes(part)).with_context(|| format!("nothing can be sent to {host}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The end of a reception.
#[derive(Clone, Copy)]
pub struct Ends {
    /// The number of parts.
    pub count: u64,
    /// The time.
    pub until: Instant,
}

impl Ends {
    /// Ends after a number of parts, or after a time.
    pub fn of(count: Option<u64>, time: Option<Nanos>) -> Ends {
        let until = time.map_or(Instant::FAR, |time| clock::now() + time);
        Ends { count: count.unwrap_or(u64::MAX), until }
    }
}

/// A received part as it is printed.
#[derive(Serialize)]
struct Told {
    from: String,
    computation: String,
    instruction: String,
    error: bool,
    /// The data behind it; bytes that are no UTF-8 are replaced.
    data: Option<String>,
}

/// Prints a received part.
pub fn tell(out: &mut dyn Write, came: &Came, json: bool) -> Result<()> {
    let told = Told {
        // IP packets have no port.
        from: if came.from.port() == 0 { came.from.ip().to_string() } else { came.from.to_string() },
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
    if answer && matches!(line.by, By::Packets(_)) {
        bail!(Usage("routers on the way back would execute it again: --answer is for --carriage udp".to_owned()));
    }
    let mut inlet = line.here(group)?;
    let mut out = stdout().lock();
    let mut came = 0;
    while came < ends.count
        && let Some(one) = inlet.next(ends.until)?
    {
        came += 1;
        tell(&mut out, &one, json)?;
        if answer {
            // An answer may fail, for instance if the sender is gone. The listener goes on.
            let _ = inlet.answer(&one);
        }
    }
    Ok(ExitCode::SUCCESS)
}
