//! Captures beside forwarding: frames go through a bounded ring to a thread that writes them.
//!
//! A forwarding thread never waits for the disk. A frame without room in the ring is counted and discarded. While the disk is full, frames are
//! counted and discarded as well, and an advisory reports the beginning. The capture continues when there is room again.

use crate::advisories::{Advisories, OpenError};
use crate::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, WriteError, Writer};
use crate::wait::{Sleeper, Waker};
use packet::port::{self, FrameSink};
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use units::{Instant, Nanos};

/// Bytes of the ring between the forwarding and the writing thread: some 40 ms at 1 Gbit/s.
const RING: usize = 4 << 20;
/// How long frames may stay in the ring. Waking the writer for each would cost a system call.
const PAUSE: Nanos = Nanos::millis(20);
/// Pauses between two attempts to write to a full disk: one second.
const RETRY: u32 = 50;
/// The header of each frame in the ring: time, length on the wire, bytes, bytes of comment, direction.
const HEADER: usize = 8 + 4 + 4 + 2 + 1;

/// The forwarding side of a capture. When it is dropped, the writer writes the rest of the ring and ends.
#[derive(Debug)]
pub struct Recorder {
    ring: Producer<u8>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    waker: Waker,
    /// No more frames will arrive.
    closed: AtomicBool,
    written: AtomicU64,
    lost: AtomicU64,
}

/// The writing side: reports the progress of a capture, and waits for its end.
#[derive(Debug)]
pub struct CaptureHandle {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl CaptureHandle {
    /// Frames that are in the file.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Frames that are in no file, because the ring or the disk was full.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// True if the writer has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the writer has ended. It ends when its [`Recorder`] is dropped.
    pub fn finish(self) {
        // A panic was reported when it happened.
        let _ = self.thread.join();
    }
}

/// Starts a capture of Ethernet frames in a new file. An existing file is replaced. `name` is the interface in the capture, and `epoch` the offset of
/// its times ([`crate::clock::epoch`]).
pub fn start(
    path: &Path,
    name: &str,
    epoch: Nanos,
    warnings: Advisories,
) -> Result<(Recorder, CaptureHandle), OpenError> {
    let wrong = |error: String| OpenError {
        reason: format!("the capture '{}' cannot be written: {error}", path.display()),
        hint: "give a path in a writable directory, on a disk with free space".into(),
    };
    let file = File::create(path).map_err(|error| wrong(error.to_string()))?;
    let application = CaptureProgram::here(concat!("switchpath ", env!("CARGO_PKG_VERSION")));
    let mut writer = Writer::new(file, &application, epoch).map_err(|error| wrong(error.to_string()))?;
    let interface = PcapInterface { name: name.to_owned(), link: LinkType::ETHERNET, snap_length: 0, mac: None };
    writer.add_interface(interface).map_err(|error| wrong(error.to_string()))?;
    let waker = Waker::new().map_err(|error| wrong(error.to_string()))?;
    let (ring, frames) = RingBuffer::new(RING);
    let (closed, written, lost) = Default::default();
    let shared = Arc::new(Shared { waker, closed, written, lost });
    let (theirs, what) = (shared.clone(), format!("capture '{}'", path.display()));
    let write = move || {
        WriterThread {
            frames,
            writer,
            shared: theirs,
            accepted: 0,
            until_retry: None,
            capture: what,
            advisories: warnings,
        }
        .run()
    };
    let thread =
        thread::Builder::new().name("capture".into()).spawn(write).map_err(|error| wrong(error.to_string()))?;
    Ok((Recorder { ring, shared: shared.clone() }, CaptureHandle { shared, thread }))
}

impl Recorder {
    /// Passes on a frame, or counts it as lost if there is no room. Never blocks and never allocates.
    pub fn record(&mut self, now: Instant, direction: PcapDirection, original: usize, frame: &[u8], comment: &str) {
        let comment = &comment.as_bytes()[..comment.floor_char_boundary(usize::from(u16::MAX))];
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&now.get().to_ne_bytes());
        header[8..12].copy_from_slice(&(original as u32).to_ne_bytes());
        header[12..16].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        header[16..18].copy_from_slice(&(comment.len() as u16).to_ne_bytes());
        header[18] = direction as u8;
        let Ok(mut chunk) = self.ring.write_chunk(HEADER + comment.len() + frame.len()) else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // The end of the ring may be anywhere in the record.
        let (mut room, mut wrapped) = chunk.as_mut_slices();
        for mut part in [&header, comment, frame] {
            while !part.is_empty() {
                if room.is_empty() {
                    room = std::mem::take(&mut wrapped);
                }
                let (now, later) = part.split_at(part.len().min(room.len()));
                let (place, rest) = std::mem::take(&mut room).split_at_mut(now.len());
                place.copy_from_slice(now);
                (part, room) = (later, rest);
            }
        }
        chunk.commit_all();
    }
}

impl FrameSink for Recorder {
    fn frame(&mut self, now: Instant, direction: port::Direction, frame: &[u8]) {
        let direction = match direction {
            port::Direction::In => PcapDirection::In,
            port::Direction::Out => PcapDirection::Out,
        };
        self.record(now, direction, frame.len(), frame, "");
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.waker.wake();
    }
}

/// The writing thread.
struct WriterThread {
    frames: Consumer<u8>,
    writer: Writer<File>,
    shared: Arc<Shared>,
    /// Frames passed to the writer and not known to be lost.
    accepted: u64,
    /// While the disk is full: pauses until the next attempt.
    until_retry: Option<u32>,
    capture: String,
    advisories: Advisories,
}

impl WriterThread {
    fn run(mut self) {
        let mut sleeper = Sleeper::new(self.shared.waker.clone());
        let mut scratch = Vec::new();
        loop {
            // Read before the ring is emptied: no frame is added after the close.
            let closed = self.shared.closed.load(Ordering::Acquire);
            self.retry();
            while self.next(&mut scratch) {
                if self.until_retry.is_some() {
                    self.shared.lost.fetch_add(1, Ordering::Relaxed);
                } else if let Err(error) = self.write(&scratch) {
                    self.fail(&error);
                }
            }
            if self.until_retry.is_none() {
                match self.writer.flush() {
                    Ok(()) => self.shared.written.store(self.writer.written(), Ordering::Relaxed),
                    Err(error) => self.fail(&error),
                }
            }
            if closed {
                break;
            }
            // Polling one valid descriptor does not fail.
            let _ = sleeper.sleep([], PAUSE);
        }
        let lost = self.shared.lost.load(Ordering::Relaxed);
        // While the disk is full, `fail` has reported it already.
        if lost > 0 && self.until_retry.is_none() {
            self.advisories
                .add(format!("{}: {lost} frames are missing, because the disk was full or too slow", self.capture));
        }
    }

    /// Handles a write error of the disk.
    fn fail(&mut self, error: &WriteError) {
        self.until_retry = Some(RETRY);
        self.advisories.add(format!("{}: {error}; the capture resumes when the disk has free space", self.capture));
        self.shared.written.store(error.written, Ordering::Relaxed);
        // Frames in the writer's buffer are lost with the failed write.
        self.shared.lost.fetch_add(self.accepted - error.written, Ordering::Relaxed);
        self.accepted = error.written;
    }

    /// Tests now and then if a full disk has room again.
    fn retry(&mut self) {
        let Some(pauses) = &mut self.until_retry else { return };
        *pauses = pauses.saturating_sub(1);
        if *pauses > 0 {
            return;
        }
        self.until_retry = match self.writer.resume() {
            Ok(()) => {
                let lost = self.shared.lost.load(Ordering::Relaxed);
                self.advisories.add(format!("{}: the capture resumes; {lost} frames are missing", self.capture));
                None
            }
            Err(_) => Some(RETRY),
        };
    }

    /// Removes the next frame from the ring, header first.
    fn next(&mut self, scratch: &mut Vec<u8>) -> bool {
        scratch.resize(HEADER, 0);
        if self.frames.pop_entire_slice(scratch).is_err() {
            return false;
        }
        let (_, _, length, comment, _) = parse(scratch);
        scratch.resize(HEADER + comment + length, 0);
        self.frames.pop_entire_slice(&mut scratch[HEADER..]).expect("a record is handed over whole");
        true
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let (time, original, length, comment, direction) = parse(bytes);
        let (comment, data) = bytes[HEADER..].split_at(comment);
        debug_assert_eq!(data.len(), length);
        let comment = std::str::from_utf8(comment).expect("it was text, cut between characters");
        // Counted before the write: a failure subtracts the frames that did not reach the file.
        self.accepted += 1;
        let link = LinkType::ETHERNET;
        self.writer.packet(&PcapRecord { time, interface: 0, link, original, data, direction, comment })
    }
}

/// The header of a record: time, length on the wire, bytes, bytes of comment, direction.
fn parse(bytes: &[u8]) -> (Instant, u32, usize, usize, PcapDirection) {
    let header: &[u8; HEADER] = bytes.first_chunk().expect("a record begins with its header");
    let u32_at = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let time = u64::from_ne_bytes(*header.first_chunk().expect("the header is longer"));
    let direction = match header[18] {
        d if d == PcapDirection::In as u8 => PcapDirection::In,
        d if d == PcapDirection::Out as u8 => PcapDirection::Out,
        _ => PcapDirection::Unknown,
    };
    let comment = u16::from_ne_bytes([header[16], header[17]]);
    (Instant::new(time), u32_at(8), u32_at(12) as usize, usize::from(comment), direction)
}
