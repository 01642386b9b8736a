//! `pcap:` ports: one capture is replayed, and one is written.
//!
//! The replay reads no clock. The time argument determines the due packets, so in a simulation the same capture gives the same arrivals to the
//! nanosecond.

use super::{
    CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, ReadError, Reader, WriteError, Writer,
};
use crate::advisories::{Advisories, OpenError};
use packet::pool::{FRAME, SUPER_FRAME};
use packet::port::{Port, UnsentPackets, WakeSource};
use packet::{BATCH, Batch, DropReason, Pool};
use plan::ReplayPace;
use std::fs::{self, File};
use std::path::Path;
use units::{Instant, Nanos, Rate};

/// How long written packets may stay in memory.
const FLUSH: Nanos = Nanos::secs(1);

/// Options for opening a port.
#[derive(Clone, Debug, Default)]
pub struct PcapOptions<'a> {
    /// The capture to replay.
    pub read: Option<&'a Path>,
    /// The file for transmitted packets. An existing file is replaced.
    pub write: Option<&'a Path>,
    /// The pace of the replay.
    pub pace: ReplayPace,
    /// The name of the interface in the written capture.
    pub name: &'a str,
    /// The offset from transmission times to times in the file: see [`crate::clock::epoch`].
    pub epoch: Nanos,
}

/// A `pcap:` port. Without a file to write, transmitted packets are discarded.
pub struct PcapPort {
    name: String,
    replay: Option<Replay>,
    output: Output,
    flushed: Instant,
    sent: u64,
    /// Packets that did not reach the file and are not reported yet.
    unwritten: u64,
    advisories: Advisories,
}

/// The destination of transmitted packets.
enum Output {
    Nowhere,
    File(Writer<File>),
    /// Writing failed; packets are lost.
    Failed,
}

/// A capture, positioned at the next packet to receive.
struct Replay {
    reader: Reader<File>,
    pace: ReplayPace,
    schedule: Schedule,
}

/// The schedule of packets.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    /// The beginning of the replay, and the time of the capture's first packet.
    began: Option<(Instant, Instant)>,
    /// Exact totals of the packets so far, so that rounding errors do not add up.
    packets: u64,
    bits: u128,
    /// The due time of the previous packet: if the times of a capture go back, the order stays.
    before: Instant,
}

impl Schedule {
    /// The due time of a packet recorded at `time`. `None` before the replay has begun.
    fn due(&self, pace: ReplayPace, time: Instant) -> Option<Instant> {
        let (began, first) = self.began?;
        // In 128 bits, because bits times nanoseconds overflow 64 after 18 Gbit.
        let after = |ns: u128| began + Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX));
        let due = match pace {
            ReplayPace::Fast => began,
            ReplayPace::Recorded => began + time.since(first),
            ReplayPace::Packets(rate) => after(u128::from(self.packets) * 1_000_000_000 / u128::from(rate.max(1))),
            ReplayPace::Bits(rate) => after(self.bits * 1_000_000_000 / u128::from(rate.get().max(1))),
        };
        Some(due.max(self.before))
    }

    /// Counts a received packet.
    fn count_packet(&mut self, due: Instant, length: u32) {
        self.before = due;
        self.packets += 1;
        self.bits += u128::from(length) * 8;
    }
}

impl PcapPort {
    /// Opens the files. Fails for a capture that is unreadable, is empty, or has no Ethernet frames. Later errors in the file end the replay and are
    /// reported to `warnings`.
    pub fn open(options: &PcapOptions<'_>, warnings: Advisories) -> Result<Self, OpenError> {
        // Compared by canonical path. A file that does not exist yet has none, and is not the one to read.
        if let (Some(read), Some(write)) = (options.read, options.write)
            && let (Ok(read), Ok(write)) = (fs::canonicalize(read), fs::canonicalize(write))
            && read == write
        {
            let reason = format!("'{}' is both the capture to read and the file to write", read.display());
            return Err(OpenError { reason, hint: "write to another file".into() });
        }
        // Checked first: a wrong capture to replay must not empty the file to write.
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
            advisories: warnings,
        })
    }

    /// True if every packet of the capture was received.
    pub fn is_done(&self) -> bool {
        self.replay.is_none()
    }

    fn flush_when_due(&mut self, now: Instant) {
        if now.since(self.flushed) >= FLUSH {
            self.flushed = now;
            self.write(Writer::flush);
        }
    }

    /// Does `work` on the file, if there is one. The first failure is reported and ends the writing.
    fn write(&mut self, work: impl FnOnce(&mut Writer<File>) -> Result<(), WriteError>) {
        let Output::File(writer) = &mut self.output else { return };
        if let Err(error) = work(writer) {
            self.advisories.add(format!("port {}: {error}", self.name));
            // Packets in the writer's buffer are lost with the failed write.
            self.unwritten += self.sent - error.written;
            self.output = Output::Failed;
        }
    }
}

impl Replay {
    fn open(path: &Path, pace: ReplayPace) -> Result<Self, OpenError> {
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

    /// Advances to the next packet. False at the end; an error message if the capture cannot be read further.
    fn advance(&mut self) -> Result<bool, String> {
        let more = self.reader.advance().map_err(|error: ReadError| error.to_string())?;
        match self.reader.record() {
            Some(record) if record.link != LinkType::ETHERNET => {
                let offset = self.reader.offset();
                Err(format!("the packet at byte {offset} has link type {}, not Ethernet", record.link.0))
            }
            _ => Ok(more),
        }
    }

    /// The due time of the next packet. `None` before the first receive call.
    fn due(&self) -> Option<Instant> {
        self.schedule.due(self.pace, self.reader.record()?.time)
    }

    /// Receives the next packet if it is due. Returns whether more packets may be due now.
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) -> Result<ReplayProgress, String> {
        let record = self.reader.record().expect("a replay stands at a packet");
        self.schedule.began.get_or_insert((now, record.time));
        let due = self.schedule.due(self.pace, record.time).expect("it has begun");
        if due > now {
            return Ok(ReplayProgress::NoneDue);
        }
        let whole = record.original as usize <= record.data.len();
        // A packet that exceeds every frame is truncated, to be dropped and counted.
        let longest = if pool.region().super_frames() > 0 { SUPER_FRAME } else { FRAME };
        let data = &record.data[..record.data.len().min(longest)];
        // Without a frame the packet is received later, not lost.
        let Some(mut packet) = pool.take_for(data.len()) else { return Ok(ReplayProgress::NoneDue) };
        packet.fill(data);
        if !whole || data.len() < record.data.len() {
            packet.meta_mut().refused = DropReason::FrameTooLong as u8 + 1;
        }
        packet.meta_mut().timestamp = now;
        batch.push(packet);
        // By the length on the wire, so that a truncated capture keeps its pace.
        self.schedule.count_packet(due, record.original);
        self.advance().map(|more| if more { ReplayProgress::MoreDue } else { ReplayProgress::Finished })
    }
}

/// The rest of a replay.
enum ReplayProgress {
    MoreDue,
    NoneDue,
    Finished,
}

fn create(path: &Path, options: &PcapOptions<'_>) -> Result<Writer<File>, OpenError> {
    let wrong = |error: String| OpenError {
        reason: format!("the capture '{}' cannot be written: {error}", path.display()),
        hint: "give a path in a writable directory, on a disk with free space".into(),
    };
    let file = File::create(path).map_err(|error| wrong(error.to_string()))?;
    let application = CaptureProgram::here(concat!("switchpath ", env!("CARGO_PKG_VERSION")));
    let mut writer = Writer::new(file, &application, options.epoch).map_err(|error| wrong(error.to_string()))?;
    let interface =
        PcapInterface { name: options.name.to_owned(), link: LinkType::ETHERNET, snap_length: 0, mac: None };
    writer.add_interface(interface).map_err(|error| wrong(error.to_string()))?;
    Ok(writer)
}

impl Port for PcapPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        while let Some(replay) = self.replay.as_mut().filter(|_| batch.room() > 0) {
            match replay.receive(now, batch, pool) {
                Ok(ReplayProgress::MoreDue) => {}
                Ok(ReplayProgress::NoneDue) => break,
                Ok(ReplayProgress::Finished) => self.replay = None,
                Err(reason) => {
                    self.advisories.add(format!("port {}: the replay ends early: {reason}", self.name));
                    self.replay = None;
                }
            }
        }
        self.flush_when_due(now);
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
            let record = PcapRecord {
                time: now,
                interface: 0,
                link: LinkType::ETHERNET,
                original: packet.len() as u32,
                data: packet.bytes(),
                direction: PcapDirection::Out,
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

    /// Packets in memory when the disk failed. Their sizes are no longer known.
    fn take_late_refusals(&mut self) -> UnsentPackets {
        UnsentPackets { packets: std::mem::take(&mut self.unwritten), bytes: 0 }
    }

    fn unsent_packets(&self) -> UnsentPackets {
        UnsentPackets { packets: self.unwritten, bytes: 0 }
    }

    /// The maximum length: a file has no limit, but it may refuse packets.
    fn mtu(&self) -> Option<u16> {
        Some(u16::MAX)
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    fn wake_source(&self) -> WakeSource {
        match &self.replay {
            None => WakeSource::Never,
            Some(Replay { pace: ReplayPace::Fast, .. }) => WakeSource::Poll,
            // The first receive call begins the schedule, so the port is polled until then.
            Some(replay) => replay.due().map_or(WakeSource::Poll, WakeSource::At),
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
