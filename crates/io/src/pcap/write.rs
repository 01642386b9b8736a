//! Writes pcapng (draft-ietf-opsawg-pcapng) with nanosecond times, directions and a comment for each packet.
//!
//! Whole blocks are buffered and written together. If the disk is full, the file is truncated to its last whole block, so that it stays readable. The
//! writer then refuses all packets until [`Writer::resume`].

use super::{MAX_BLOCK, PcapDirection, PcapInterface, PcapRecord};
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use units::{Mac, Nanos};

/// Bytes buffered before a write.
const CHUNK: usize = 64 << 10;
/// The longest option value of a 16-bit length, without its padding.
const OPTION_MOST: usize = 65_532;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// The output of a capture, written from its beginning.
pub trait PcapSink: Write {
    /// Truncates the output to `length` bytes and continues there.
    fn truncate_to(&mut self, length: u64) -> io::Result<()>;
}

impl PcapSink for File {
    fn truncate_to(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }
}

impl PcapSink for Vec<u8> {
    fn truncate_to(&mut self, length: u64) -> io::Result<()> {
        self.truncate(length as usize);
        Ok(())
    }
}

impl<S: PcapSink + ?Sized> PcapSink for &mut S {
    fn truncate_to(&mut self, length: u64) -> io::Result<()> {
        (**self).truncate_to(length)
    }
}

impl<S: PcapSink + ?Sized> PcapSink for Box<S> {
    fn truncate_to(&mut self, length: u64) -> io::Result<()> {
        (**self).truncate_to(length)
    }
}

/// The program that wrote a capture, and its machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CaptureProgram {
    /// The machine (`shb_hardware`).
    pub hardware: String,
    /// The operating system (`shb_os`).
    pub os: String,
    /// The program and its version (`shb_userappl`).
    pub name: String,
}

impl CaptureProgram {
    /// `name` on this machine, described by uname(2).
    pub fn here(name: &str) -> Self {
        let system = rustix::system::uname();
        let os = format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy());
        CaptureProgram { hardware: system.machine().to_string_lossy().into_owned(), os, name: name.to_owned() }
    }
}

/// The error of a failed write.
#[derive(Debug)]
pub struct WriteError {
    /// Packets that are complete in the file.
    pub written: u64,
    /// The system's error.
    pub error: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writing the capture failed after {} packets: {}", self.written, self.error)
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Writes a capture. [`Writer::finish`] returns if the last packets reached the file; dropping the writer tries to write them and reports nothing.
pub struct Writer<S: PcapSink> {
    sink: S,
    gathered: Vec<u8>,
    interfaces: Vec<PcapInterface>,
    epoch: Nanos,
    /// Bytes, packets and interface descriptions that are complete in the sink.
    bytes_written: u64,
    written: u64,
    interfaces_written: usize,
    failed: Option<io::ErrorKind>,
}

impl<S: PcapSink> Writer<S> {
    /// Starts a capture at the beginning of `sink`. `epoch` is the offset from packet times to nanoseconds since 1970-01-01 UTC; see
    /// [`crate::clock::epoch`].
    pub fn new(sink: S, application: &CaptureProgram, epoch: Nanos) -> Result<Self, WriteError> {
        let gathered = Vec::with_capacity(CHUNK + CHUNK / 2);
        let (reached, written, described) = Default::default();
        let mut writer = Writer {
            sink,
            gathered,
            interfaces: Vec::new(),
            epoch,
            bytes_written: reached,
            written,
            interfaces_written: described,
            failed: None,
        };
        let start = writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER);
        writer.u32(1); // version 1.0: major, then minor, 16 bits each
        writer.gathered.extend_from_slice(&(-1i64).to_le_bytes()); // section length: not known yet
        for (code, text) in [(2, &application.hardware), (3, &application.os), (4, &application.name)] {
            writer.text(code, text);
        }
        writer.option(0, &[]);
        writer.end(start);
        writer.flush()?;
        Ok(writer)
    }

    /// Describes an interface and returns its number for packet records. Times have nanosecond resolution.
    pub fn add_interface(&mut self, interface: PcapInterface) -> Result<u32, WriteError> {
        self.refuse_after_failure()?;
        self.describe(&interface);
        self.interfaces.push(interface);
        Ok(self.interfaces.len() as u32 - 1)
    }

    fn describe(&mut self, interface: &PcapInterface) {
        let start = self.begin(INTERFACE);
        self.u32(u32::from(interface.link.0));
        self.u32(interface.snap_length);
        self.text(2, &interface.name);
        if let Some(Mac(station)) = interface.mac {
            self.option(6, &station); // if_MACaddr
        }
        self.option(9, &[9]); // if_tsresol: 10^-9 s
        self.option(0, &[]);
        self.end(start);
    }

    /// Adds one packet, truncated to its interface's snap length. Panics if the interface was never added, and for a packet that exceeds the limit of
    /// the reader.
    pub fn packet(&mut self, record: &PcapRecord<'_>) -> Result<(), WriteError> {
        self.refuse_after_failure()?;
        let interface = &self.interfaces[record.interface as usize];
        let snap = if interface.snap_length == 0 { usize::MAX } else { interface.snap_length as usize };
        let data = &record.data[..record.data.len().min(snap)];
        // The fixed fields and the options other than the comment have fewer than 128 bytes.
        assert!(data.len() + OPTION_MOST + 128 <= MAX_BLOCK, "a packet of {} bytes", data.len());
        let time = (record.time + self.epoch).get();
        let start = self.begin(ENHANCED_PACKET);
        self.u32(record.interface);
        self.u32((time >> 32) as u32);
        self.u32(time as u32);
        self.u32(data.len() as u32);
        self.u32(record.original.max(record.data.len() as u32));
        self.gathered.extend_from_slice(data);
        self.pad();
        self.text(1, record.comment);
        match record.direction {
            PcapDirection::Unknown => {}
            PcapDirection::In => self.option(2, &1u32.to_le_bytes()),
            PcapDirection::Out => self.option(2, &2u32.to_le_bytes()),
        }
        // End of options, only needed after an option.
        if !record.comment.is_empty() || record.direction != PcapDirection::Unknown {
            self.option(0, &[]);
        }
        self.end(start);
        if self.gathered.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Packets that are complete in the sink, without buffered ones.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes the buffered blocks.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.refuse_after_failure()?;
        let mut taken = 0;
        let result = loop {
            if taken == self.gathered.len() {
                break self.sink.flush();
            }
            match self.sink.write(&self.gathered[taken..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => taken += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let (bytes, packets, described) = whole_blocks(&self.gathered[..taken]);
        self.bytes_written += bytes as u64;
        self.written += packets;
        self.interfaces_written += described;
        self.gathered.clear();
        result.map_err(|error| {
            self.failed = Some(error.kind());
            // The error at hand is more useful than one about a sink that cannot be truncated, such as a pipe.
            let _ = self.sink.truncate_to(self.bytes_written);
            WriteError { written: self.written, error }
        })
    }

    /// Continues after the last whole block if the sink has room again after a failure. Lost packets stay lost.
    pub fn resume(&mut self) -> Result<(), WriteError> {
        if self.failed.is_none() {
            return Ok(());
        }
        // Tests for room for several packets: with a few bytes it would fail and resume in turns.
        let room = self.sink.truncate_to(self.bytes_written).and_then(|()| self.sink.write_all(&[0; CHUNK]));
        let cut = self.sink.truncate_to(self.bytes_written);
        room.and(cut).map_err(|error| WriteError { written: self.written, error })?;
        self.failed = None;
        // Interface descriptions that were lost with the failed write are needed by the next packets.
        for index in self.interfaces_written..self.interfaces.len() {
            let interface = self.interfaces[index].clone();
            self.describe(&interface);
        }
        self.flush()
    }

    /// Writes the buffered blocks and returns the number of packets in the capture.
    pub fn finish(mut self) -> Result<u64, WriteError> {
        self.flush()?;
        Ok(self.written)
    }

    fn refuse_after_failure(&self) -> Result<(), WriteError> {
        match self.failed {
            Some(kind) => Err(WriteError { written: self.written, error: kind.into() }),
            None => Ok(()),
        }
    }

    /// Starts a block. Its length is filled in at its end.
    fn begin(&mut self, kind: u32) -> usize {
        let start = self.gathered.len();
        self.u32(kind);
        self.u32(0);
        start
    }

    fn end(&mut self, start: usize) {
        let length = (self.gathered.len() - start + 4) as u32;
        self.gathered[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        self.u32(length);
    }

    fn u32(&mut self, value: u32) {
        self.gathered.extend_from_slice(&value.to_le_bytes());
    }

    fn pad(&mut self) {
        // Every block starts at a multiple of four of `gathered`.
        self.gathered.resize(self.gathered.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.gathered.extend_from_slice(&code.to_le_bytes());
        self.gathered.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.gathered.extend_from_slice(value);
        self.pad();
    }

    fn text(&mut self, code: u16, text: &str) {
        if !text.is_empty() {
            self.option(code, &text.as_bytes()[..text.floor_char_boundary(OPTION_MOST)]);
        }
    }
}

impl<S: PcapSink> Drop for Writer<S> {
    fn drop(&mut self) {
        if self.failed.is_none() && !self.gathered.is_empty() {
            let _ = self.flush();
        }
    }
}

/// The length of the whole blocks at the start, and the numbers of packets and interfaces among them.
fn whole_blocks(bytes: &[u8]) -> (usize, u64, usize) {
    let (mut at, mut packets, mut interfaces) = (0, 0, 0);
    while let Some([k0, k1, k2, k3, l0, l1, l2, l3]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        if length > bytes.len() - at {
            break;
        }
        at += length;
        let kind = u32::from_le_bytes([*k0, *k1, *k2, *k3]);
        packets += u64::from(kind == ENHANCED_PACKET);
        interfaces += usize::from(kind == INTERFACE);
    }
    (at, packets, interfaces)
}
