//! A log of every packet at a link, in the format that mahimahi's tools read (spec N-36).
//!
//! Each line begins with the milliseconds since the link began.
//!
//! | line | event |
//! |---|---|
//! | `+ size` | a packet arrived |
//! | `- size delay` | its last bit has left, that many milliseconds after its arrival |
//! | `d packets bytes` | packets were dropped |
//! | `# size` | the link had an opportunity |
//!
//! Lines are in the order of their times. Sizes are those the link counts.

use super::capacity::Capacity;
use super::configuration::LinkDirection;
use anyhow::{Context, Result};
use cli::arguments::LinkArguments;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use units::{Instant, Nanos};

/// Limit of lines queued for writing: the router does not wait for a disk.
const WAITING: usize = 1 << 18;
/// How much older than the latest arrival a line may be: more than the lag that a link catches up.
const MAX_LAG: Nanos = Nanos::millis(50);

/// One line.
#[derive(Clone, Copy, Debug)]
pub enum LogLine {
    /// The link has begun: times count from here.
    Began { at: Instant },
    /// An event of a packet.
    Packet { at: Instant, event: LogEvent },
    /// The log ends.
    Ended { at: Instant },
}

/// An event of a packet with its size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogEvent {
    /// It arrived.
    Arrived(u32),
    /// It left, this long after its arrival.
    Sent(u32, Nanos),
    /// It was dropped.
    Dropped(u32),
}

/// Accepts lines until the log is finished.
pub struct LogSender(Arc<Shared>);

/// Shared between a log and the threads that add lines.
struct Shared {
    sender: Mutex<Option<SyncSender<LogLine>>>,
    /// Lines lost because the queue was full.
    lost: AtomicU64,
}

impl Shared {
    fn sender(&self) -> MutexGuard<'_, Option<SyncSender<LogLine>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogSender {
    /// Adds a line.
    pub fn write(&self, line: LogLine) {
        if let Some(Err(TrySendError::Full(_))) = self.0.sender().as_ref().map(|sender| sender.try_send(line)) {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A log that is being written.
pub struct Log {
    /// The direction of its link.
    pub side: LinkDirection,
    path: PathBuf,
    writer: JoinHandle<io::Result<BufWriter<File>>>,
    shared: Arc<Shared>,
}

impl Log {
    /// Begins the log of one direction in a file named after `prefix`. `epoch` is the zero of the clock.
    ///
    /// # Errors
    ///
    /// Why the file cannot be written.
    pub fn create(
        options: &LinkArguments,
        side: LinkDirection,
        capacity: Option<Capacity>,
        epoch: Nanos,
    ) -> Result<Option<(LogSender, Log)>> {
        let Some(prefix) = &options.log else { return Ok(None) };
        let mut path = prefix.as_os_str().to_owned();
        path.push(format!(".{}", side.name()));
        let path = PathBuf::from(path);
        let of = || format!("{} cannot be written", path.display());
        let mut file = BufWriter::new(File::create(&path).with_context(of)?);
        let link = side.of(options).unwrap_or("no limit");
        writeln!(file, "# switchpath link ({}link) [{link}] > {}", side.name(), path.display()).with_context(of)?;
        writeln!(file, "# command line: {}", options.command.join(" ")).with_context(of)?;
        writeln!(file, "# queue: {}", side.scheme_of(options)).with_context(of)?;
        let (sender, lines) = sync_channel(WAITING);
        let write = move || Writer::new(file, capacity).write(&lines, epoch);
        let writer = thread::Builder::new().name("log".into()).spawn(write)?;
        let shared = Arc::new(Shared { sender: Mutex::new(Some(sender)), lost: AtomicU64::new(0) });
        Ok(Some((LogSender(shared.clone()), Log { side, path, writer, shared })))
    }

    /// Ends the log at `end` with these remarks. Returns how many lines were lost.
    ///
    /// # Errors
    ///
    /// Why it could not be written.
    pub fn finish(self, end: Instant, remarks: &[String]) -> Result<u64> {
        let Log { path, writer, shared, .. } = self;
        if let Some(sender) = shared.sender().take() {
            // The writer ends early only after an error. `join` returns that error below.
            let _ = sender.send(LogLine::Ended { at: end });
        }
        let of = || format!("{} cannot be written", path.display());
        let written = writer.join().map_err(|_| anyhow::anyhow!("the writer of a log has failed"))?;
        let mut file = written.with_context(of)?;
        let lost = shared.lost.load(Ordering::Relaxed);
        if lost > 0 {
            writeln!(file, "# {lost} lines are missing: the disk was too slow").with_context(of)?;
        }
        for remark in remarks {
            writeln!(file, "# {remark}").with_context(of)?;
        }
        file.flush().with_context(of)?;
        Ok(lost)
    }
}

/// Sorts lines by time.
struct Writer<W> {
    file: W,
    start: Instant,
    /// Lines that earlier ones may still precede, each with a sequence number: of lines with the same time the first one added is written first.
    waiting: BinaryHeap<Reverse<(Instant, u64, LogEvent)>>,
    number: u64,
    latest: Instant,
    opportunities: std::iter::Peekable<Box<dyn Iterator<Item = u64> + Send>>,
    size: u32,
}

impl<W: Write> Writer<W> {
    fn new(file: W, capacity: Option<Capacity>) -> Writer<W> {
        let size = capacity.as_ref().map_or(0, |capacity| capacity.size);
        let millis: Box<dyn Iterator<Item = u64> + Send> = match capacity {
            Some(capacity) => Box::new(capacity.millis()),
            None => Box::new(std::iter::empty()),
        };
        let (waiting, opportunities) = (BinaryHeap::new(), millis.peekable());
        Writer { file, start: Instant::START, waiting, number: 0, latest: Instant::START, opportunities, size }
    }

    fn write(mut self, lines: &Receiver<LogLine>, epoch: Nanos) -> io::Result<W> {
        for line in lines {
            match line {
                LogLine::Began { at } => {
                    let began = (epoch.get() + at.get()) / 1_000_000;
                    writeln!(self.file, "# init timestamp: {began}\n# base timestamp: 0")?;
                    self.start = at;
                }
                LogLine::Packet { at, event: what } => {
                    self.waiting.push(Reverse((at, self.number, what)));
                    self.number += 1;
                    // A departure may be far in the future, so it does not advance the latest time.
                    if !matches!(what, LogEvent::Sent(..)) && at > self.latest {
                        self.latest = at;
                        self.flush(Instant::new(at.get().saturating_sub(MAX_LAG.get())))?;
                    }
                }
                LogLine::Ended { at } => {
                    self.flush(Instant::NEVER)?;
                    self.pass(at.since(self.start).get() / 1_000_000)?;
                }
            }
        }
        Ok(self.file)
    }

    /// Writes the opportunities until then.
    fn pass(&mut self, millis: u64) -> io::Result<()> {
        while let Some(at) = self.opportunities.next_if(|at| *at <= millis) {
            writeln!(self.file, "{at} # {}", self.size)?;
        }
        Ok(())
    }

    /// Writes all lines before `until`.
    fn flush(&mut self, until: Instant) -> io::Result<()> {
        while self.waiting.peek().is_some_and(|first| first.0.0 < until) {
            let Some(Reverse((at, _, what))) = self.waiting.pop() else { break };
            let millis = at.since(self.start).get() / 1_000_000;
            self.pass(millis)?;
            match what {
                LogEvent::Arrived(size) => writeln!(self.file, "{millis} + {size}")?,
                LogEvent::Sent(size, waited) => {
                    writeln!(self.file, "{millis} - {size} {}", waited.get() / 1_000_000)?;
                }
                LogEvent::Dropped(size) => writeln!(self.file, "{millis} d 1 {size}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_by_time() {
        let (sender, lines) = sync_channel(16);
        let at = |millis: u64| Instant::new(1_000_000_000 + millis * 1_000_000);
        let packet = |millis: u64, what| LogLine::Packet { at: at(millis), event: what };
        for line in [
            LogLine::Began { at: at(0) },
            packet(1, LogEvent::Arrived(1500)),
            packet(40, LogEvent::Sent(1500, Nanos::millis(39))),
            packet(2, LogEvent::Arrived(40)),
            packet(2, LogEvent::Dropped(40)),
            packet(200, LogEvent::Arrived(700)),
            packet(190, LogEvent::Sent(60, Nanos::millis(3))),
            LogLine::Ended { at: at(300) },
        ] {
            sender.send(line).expect("there is room");
        }
        drop(sender);
        let written = Writer::new(Vec::new(), None).write(&lines, Nanos::secs(4)).expect("memory takes all");
        let expected = "# init timestamp: 5000\n# base timestamp: 0\n1 + 1500\n2 + 40\n2 d 1 40\n40 - 1500 39\n\
                        190 - 60 3\n200 + 700\n";
        assert_eq!(String::from_utf8(written).expect("it is text"), expected);
    }
}
