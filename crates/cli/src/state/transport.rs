//! Sends and receives instructions on this host.

use super::socket::{Encapsulation, PartSocket};
use crate::arguments::{LocationArgument, SendArguments, UsageError};
use crate::output::print_json;
use anyhow::{Context, Result, bail};
use esp::isa::StateInstruction;
use esp::registered::{RegisteredInstruction, RegisteredPart};
use esp::seal::OperatorKey;
use esp::wire::{EncodePart, Locations, Part, before_data, with_data_by};
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
pub struct PartTransport {
    /// The carriage.
    pub encapsulation: Encapsulation,
    key: Option<OperatorKey>,
}

impl PartTransport {
    /// Returns the carriage with the key of a file.
    pub fn of(by: Encapsulation, key: Option<&Path>) -> Result<PartTransport> {
        let read = |file: &Path| -> Result<OperatorKey> {
            let text = std::fs::read_to_string(file).with_context(|| format!("'{}' cannot be read", file.display()))?;
            text.parse().with_context(|| format!("'{}' has no key", file.display()))
        };
        Ok(PartTransport { encapsulation: by, key: key.map(read).transpose()? })
    }

    /// Opens a socket that sends parts to a host.
    pub fn connect(self, host: IpAddr) -> Result<PartSocket> {
        PartSocket::connect(self.encapsulation, host)
    }

    /// Opens the sockets that receive parts on this host; also those sent to a multicast group.
    pub fn listen_on(self, group: Option<IpAddr>) -> Result<PartReceiver> {
        Ok(PartReceiver {
            line: self,
            sockets: PartSocket::listen(self.encapsulation, group)?,
            sleeper: Sleeper::new(Waker::new()?),
        })
    }

    /// Returns the bytes of a part as sent.
    pub fn bytes(self, part: &impl EncodePart) -> Vec<u8> {
        self.key.map_or_else(|| part.encode(false), |key| key.seal(part))
    }

    /// Returns the bytes of a part followed by data.
    pub fn bytes_with_data(self, part: &Part, data: &[u8]) -> Vec<u8> {
        self.key.map_or_else(|| before_data(part, data), |key| before_data(&key.sealed(*part), data))
    }

    /// Reads the part of received bytes; none if there is no part, or if it is not sealed with the given key.
    fn read(self, bytes: &[u8]) -> Option<(Part, Option<&[u8]>)> {
        with_data_by(bytes, |bytes| self.key.map_or_else(|| Part::read(bytes), |key| key.read(bytes))).ok()
    }
}

/// The sockets that receive parts.
pub struct PartReceiver {
    line: PartTransport,
    sockets: Vec<PartSocket>,
    sleeper: Sleeper,
}

impl PartReceiver {
    /// Returns the next part that arrives before `until`; none otherwise.
    pub fn next(&mut self, until: Instant) -> Result<Option<ReceivedPart>> {
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
                    return Ok(Some(ReceivedPart {
                        part,
                        data: data.map(<[u8]>::to_vec),
                        whole: whole.to_vec(),
                        from,
                    }));
                }
            }
            if nothing {
                self.sleeper.sleep(self.sockets.iter().map(PartSocket::as_fd), left)?;
            }
        }
    }

    /// Sends a packet back, from another port than that of instructions, so that no router executes it again.
    fn answer(&self, came: &ReceivedPart) -> std::io::Result<()> {
        self.sockets.first().map_or(Ok(()), |socket| socket.send_to(&came.whole, came.from))
    }
}

/// A received part.
pub struct ReceivedPart {
    /// The part.
    pub part: Part,
    /// The data behind it.
    pub data: Option<Vec<u8>>,
    /// The whole datagram.
    pub whole: Vec<u8>,
    /// Its sender.
    pub from: SocketAddr,
}

fn locations(places: &[LocationArgument]) -> Locations {
    let among = |place| places.contains(&place);
    Locations {
        input: among(LocationArgument::Input),
        central: among(LocationArgument::Central),
        output: among(LocationArgument::Output),
    }
}

/// `switchpath state send`
pub fn send(host: IpAddr, line: PartTransport, instruction: StateInstruction, how: &SendArguments) -> Result<ExitCode> {
    let (locations, computation, trace) = (locations(&how.at), how.computation, how.trace);
    let part = Part { locations, error: false, piggybacked: false, trace, computation, instruction };
    send_one(host, line, &part)
}

/// Sends an instruction that the operator of a router has registered.
pub fn send_registered(
    host: IpAddr,
    line: PartTransport,
    instruction: RegisteredInstruction,
    how: &SendArguments,
) -> Result<ExitCode> {
    let (locations, computation, trace) = (locations(&how.at), how.computation, how.trace);
    let part = RegisteredPart { locations, error: false, piggybacked: false, trace, computation, instruction };
    send_one(host, line, &part)
}

fn send_one(host: IpAddr, line: PartTransport, part: &impl EncodePart) -> Result<ExitCode> {
    line.connect(host)?.send(&line.bytes(part)).with_context(|| format!("nothing can be sent to {host}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The end of a reception.
#[derive(Clone, Copy)]
pub struct ListenLimit {
    /// The number of parts.
    pub count: u64,
    /// The time.
    pub until: Instant,
}

impl ListenLimit {
    /// Ends after a number of parts, or after a time.
    pub fn of(count: Option<u64>, time: Option<Nanos>) -> ListenLimit {
        let until = time.map_or(Instant::NEVER, |time| clock::now() + time);
        ListenLimit { count: count.unwrap_or(u64::MAX), until }
    }
}

/// A received part as it is printed.
#[derive(Serialize)]
struct PartReport {
    from: String,
    computation: String,
    instruction: String,
    error: bool,
    /// The data behind it; bytes that are no UTF-8 are replaced.
    data: Option<String>,
}

/// Prints a received part.
pub fn print_part(out: &mut dyn Write, came: &ReceivedPart, json: bool) -> Result<()> {
    let told = PartReport {
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
pub fn listen(
    line: PartTransport,
    group: Option<IpAddr>,
    ends: ListenLimit,
    answer: bool,
    json: bool,
) -> Result<ExitCode> {
    if answer && matches!(line.encapsulation, Encapsulation::Packets(_)) {
        bail!(UsageError(
            "routers on the way back would execute the instruction again: use --answer only with --carriage udp"
                .to_owned()
        ));
    }
    let mut inlet = line.listen_on(group)?;
    let mut out = stdout().lock();
    let mut came = 0;
    while came < ends.count
        && let Some(one) = inlet.next(ends.until)?
    {
        came += 1;
        print_part(&mut out, &one, json)?;
        if answer {
            // An answer may fail, for instance if the sender is gone. The listener goes on.
            let _ = inlet.answer(&one);
        }
    }
    Ok(ExitCode::SUCCESS)
}
