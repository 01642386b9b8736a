//! `pcap:` ports: a capture that is replayed, and one that is written.
//!
//! The replay knows no clock: what is due follows from the time it is given, so that in a simulation the same capture
//! gives the same arrivals to the nanosecond.

use super::{Application, Direction, Interface, LinkType, ReadError, Reader, Record, WriteError, Writer};
use crate::remarks::{OpenError, Remarks};
use packet::pool::{FRAME, SUPER_FRAME};
use packet::port::{Port, Unsent, Waiter};
use packet::{BATCH, Batch, DropReason, Pool};
use plan::Pace;
use std::fs::{self, File};
use std::path::Path;
use units::{Instant, Nanos, Rate};

/// How long what is written may stay in memory.
const FLUSH: Nanos = Nanos::secs(1);

/// How a port is opened.
#[derive(Clone, Debug, Default)]
pub struct PcapOptions<'a> {
    /// The capture to replay.
    pub read: Option<&'a Path>,
    /// Where what is transmitted goes; a file that is there is replaced.
    pub write: Option<&'a Path>,
    /// How fast to replay.
    pub pace: Pace,
    /// The name of the interface in the capture that is written.
    pub name: &'a str,
    /// Added to the time of transmission to give what is written: see [`crate::clock::epoch`].
    pub epoch: Nanos,
}

/// A `pcap:` port. What it transmits without a file to write to is gone.
pub struct PcapPort {
    name: String,
    replay: Option<Replay>,
    output: Output,
    flushed: Instant,
    sent: u64,
    /// Packets that were to be written and are not in the file, still to be told.
    unwritten: u64,
    remarks: Remarks,
}

/// Where transmitted packets go.
enum Output {
    Nowhere,
    File(Writer<File>),
    /// The file failed; packets are lost.
    Failed,
}

/// A capture standing at the next packet to receive.
struct Replay {
    reader: Reader<File>,
    pace: Pace,
    schedule: Schedule,
}

/// When packets are due.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    /// When the replay began, and the time of the capture's first packet.
    began: Option<(Instant, Instant)>,
    /// What went before, exactly, so that no rounding adds up.
    packets: u64,
    bits: u128,
    /// When the packet before was due: none overtakes it where a capture's times go back.
    before: Instant,
}

impl Schedule {
    /// When a packet recorded at `time` is due; nothing before the replay has begun.
    fn due(&self, pace: Pace, time: Instant) -> Option<Instant> {
        let (began, first) = self.began?;
        let after = |ns: u128| began + Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX));
        let due = match pace {
            Pace::Fast => began,
            Pace::Recorded => began + time.since(first),
            Pace::Packets(rate) => after(u128::from(self.packets) * 1_000_000_000 / u128::from(rate.max(1))),
            Pace::Bits(rate) => after(self.bits * 1_000_000_000 / u128::from(rate.get().max(1))),
        };
        Some(due.max(self.before))
    }

    /// Counts a packet that was received.
    fn passed(&mut self, due: Instant, length: u32) {
        self.before = due;
        self.packets += 1;
        self.bits += u128::from(length) * 8;
    }
}

impl PcapPort {
    /// Opens the files. A capture that cannot be read, has no packet, or is of no Ethernet, is refused here; what turns
    /// out to be wrong further on ends the replay and is told to `remarks`.
    pub fn open(options: &PcapOptions<'_>, remarks: Remarks) -> Result<Self, OpenError> {
        if let (Some(read), Some(write)) = (options.read, options.write)
            && let (Ok(read), Ok(write)) = (fs::canonicalize(read), fs::canonicalize(write))
            && read == write
        {
            let reason = format!("'{}' would be read and overwritten at the same time", read.display());
            return Err(OpenError { reason, hint: "write to another file".into() });
        }
        let replay = options.read.map(|path| Replay::open(path, options.pace)).transpose()?;
        let writer = options.write.map(|path| create(path, options)).transpose()?;
        let output = writer.map_or(Output::Nowhere, Output::File);
        Ok(PcapPort {
            name: options.name.to_owned(),
            replay,
            output,
            flushed: Instant::START,
            sent: 0,
            unwritten: 0,
            remarks,
        })
    }

    /// Whether every packet of the capture was received.
    pub fn is_done(&self) -> bool {
        self.replay.is_none()
    }

    fn flush_now_and_then(&mut self, now: Instant) {
        if now.since(self.flushed) >= FLUSH {
            self.flushed = now;
            self.write(Writer::flush);
        }
    }

    /// Does something with the file, if there is one. A failure is said once and ends the writing.
    fn write(&mut self, work: impl FnOnce(&mut Writer<File>) -> Result<(), WriteError>) {
        let Output::File(writer) = &mut self.output else { return };
        if let Err(error) = work(writer) {
            self.remarks.add(format!("port {}: {error}", self.name));
            self.unwritten += self.sent - error.written;
            self.output = Output::Failed;
        }
    }
}

impl Replay {
    fn open(path: &Path, pace: Pace) -> Result<Self, OpenError> {
        let wrong = |reason: String| OpenError {
            reason: format!("the capture '{}' cannot be replayed: {reason}", path.display()),
            hint: "give a pcap or pcapng file of Ethernet frames that can be read".into(),
        };
        let reader = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut replay = Replay {
            reader: Reader::new(reader).map_err(|error| wrong(error.to_string()))?,
            pace,
            schedule: Schedule::default(),
        };
        match replay.advance() {
            Ok(true) => Ok(replay),
            Ok(false) => Err(wrong("it has no packet".into())),
            Err(reason) => Err(wrong(reason)),
        }
    }

    /// Goes on to the next packet; false at the end, and a word where the capture cannot be read on.
    fn advance(&mut self) -> Result<bool, String> {
        let more = self.reader.advance().map_err(|error: ReadError| error.to_string())?;
        match self.reader.record() {
            Some(record) if record.link != LinkType::ETHERNET => {
                let offset = self.reader.offset();
                Err(format!("the packet at byte {offset} is not of Ethernet but of link type {}", record.link.0))
            }
            _ => Ok(more),
        }
    }

    /// When the next packet is due; nothing before the first receive.
    fn due(&self) -> Option<Instant> {
        self.schedule.due(self.pace, self.reader.record()?.time)
    }

    /// Receives the next packet if it is due. Answers whether there may be more now.
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) -> Result<Received, String> {
        let record = self.reader.record().expect("a replay stands at a packet");
        self.schedule.began.get_or_insert((now, record.time));
        let due = self.schedule.due(self.pace, record.time).expect("it has begun");
        if due > now {
            return Ok(Received::Later);
        }
        let whole = record.original as usize <= record.data.len();
        // What fits in no frame there is comes as much as fits, to be dropped and counted.
        let longest = if pool.region().super_frames() > 0 { SUPER_FRAME } else { FRAME };
        let data = &record.data[..record.data.len().min(longest)];
        let Some(mut packet) = pool.take_for(data.len()) else { return Ok(Received::Later) };
        packet.fill(data);
        if !whole || data.len() < record.data.len() {
            packet.meta_mut().refused = DropReason::FrameTooLong as u8 + 1;
        }
        packet.meta_mut().timestamp = now;
        batch.push(packet);
        self.schedule.passed(due, record.original);
        self.advance().map(|more| if more { Received::More } else { Received::All })
    }
}

/// What is left of a replay.
enum Received {
    More,
    Later,
    All,
}

fn create(path: &Path, options: &PcapOptions<'_>) -> Result<Writer<File>, OpenError> {
    let wrong = |error: String| OpenError {
        reason: format!("the capture '{}' cannot be written: {error}", path.display()),
        hint: "give a path in a directory that can be written, on a disk with room".into(),
    };
    let file = File::create(path).map_err(|error| wrong(error.to_string()))?;
    let application = Application::here(concat!("switchpath ", env!("CARGO_PKG_VERSION")));
    let mut writer = Writer::new(file, &application, options.epoch).map_err(|error| wrong(error.to_string()))?;
    let interface =
        Interface { name: options.name.to_owned(), link: LinkType::ETHERNET, snap_length: 0, station: None };
    writer.add_interface(interface).map_err(|error| wrong(error.to_string()))?;
    Ok(writer)
}

impl Port for PcapPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        while let Some(replay) = self.replay.as_mut().filter(|_| batch.room() > 0) {
            match replay.receive(now, batch, pool) {
                Ok(Received::More) => {}
                Ok(Received::Later) => break,
                Ok(Received::All) => self.replay = None,
                Err(reason) => {
                    self.remarks.add(format!("port {}: the replay ends early: {reason}", self.name));
                    self.replay = None;
                }
            }
        }
        self.flush_now_and_then(now);
    }

    fn room(&self) -> usize {
        BATCH
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if matches!(self.output, Output::Failed) {
            for packet in batch.as_mut_slice() {
                packet.meta_mut().refused = DropReason::DeviceRefused as u8 + 1;
            }
            return;
        }
        for packet in batch.drain() {
            let record = Record {
                time: now,
                interface: 0,
                link: LinkType::ETHERNET,
                original: packet.len() as u32,
                data: packet.bytes(),
                direction: Direction::Out,
                comment: "",
            };
            self.sent += 1;
            match self.output {
                Output::Failed => self.unwritten += 1,
                _ => self.write(|writer| writer.packet(&record)),
            }
            pool.give(packet);
        }
    }

    /// Packets that lay in memory when the disk failed. Their bytes are not known any more.
    fn refused_late(&mut self) -> Unsent {
        Unsent { packets: std::mem::take(&mut self.unwritten), bytes: 0 }
    }

    fn waiting_inside(&self) -> Unsent {
        Unsent { packets: self.unwritten, bytes: 0 }
    }

    /// As long as a packet can be: a file has no bound, and may refuse.
    fn mtu(&self) -> Option<u16> {
        Some(u16::MAX)
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    fn waiter(&self) -> Waiter {
        match &self.replay {
            None => Waiter::Never,
            Some(Replay { pace: Pace::Fast, .. }) => Waiter::Poll,
            Some(replay) => replay.due().map_or(Waiter::Poll, Waiter::At),
        }
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

impl Drop for PcapPort {
    fn drop(&mut self) {
        self.write(Writer::flush);
    }
}
