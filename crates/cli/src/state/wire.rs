//! Instructions in packets to and from this host.

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

/// More than any part has.
const LONGEST: usize = 2048;

/// How parts travel: by what, and sealed with the operator's key if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// What they travel in.
    pub by: By,
    key: Option<OperatorKey>,
}

impl Line {
    /// By this, with the key in a file.
    pub fn of(by: By, key: Option<&Path>) -> Result<Line> {
        let read = |file: &Path| -> Result<OperatorKey> {
            let text = std::fs::read_to_string(file).with_context(|| format!("'{}' cannot be read", file.display()))?;
            text.parse().with_context(|| format!("'{}' has no key", file.display()))
        };
        Ok(Line { by, key: key.map(read).transpose()? })
    }

    /// A socket by which parts are sent to a host.
    pub fn to(self, host: IpAddr) -> Result<Socket> {
        Socket::to(self.by, host)
    }

    /// Where parts come to this host; also those to a group.
    pub fn here(self, group: Option<IpAddr>) -> Result<Inlet> {
        Ok(Inlet { line: self, sockets: Socket::here(self.by, group)?, sleeper: Sleeper::new(Waker::new()?) })
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
}

/// Where parts come.
pub struct Inlet {
    line: Line,
    sockets: Vec<Socket>,
    sleeper: Sleeper,
}

impl Inlet {
    /// The next part that comes before `until`; none where none does.
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

    /// Sends back what came, to a port of the sender's own choice: not to that which routers know instructions by.
    fn answer(&self, came: &Came) -> std::io::Result<()> {
        self.sockets.first().map_or(Ok(()), |socket| socket.send_to(&came.whole, came.from))
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
    let (locations, computation, trace) = (locations(&how.at), how.computation, how.trace);
    let part = Part { locations, error: false, piggybacked: false, trace, computation, instruction };
    send_one(host, line, &part)
}

/// The same of an instruction that the operator of a router has registered.
pub fn call(host: IpAddr, line: Line, instruction: RegisteredInstruction, how: &How) -> Result<ExitCode> {
    let (locations, computation, trace) = (locations(&how.at), how.computation, how.trace);
    let part = RegisteredPart { locations, error: false, piggybacked: false, trace, computation, instruction };
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
        // What comes in IP packets comes from no port.
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
            // Who does not want it any more says so, and that is all.
            let _ = inlet.answer(&one);
        }
    }
    Ok(ExitCode::SUCCESS)
}
