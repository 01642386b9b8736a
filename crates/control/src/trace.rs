//! Ports that are traced: one line in the log for each frame, from a thread of its own.

use packet::wire;
use plane::port::{Direction, FrameSink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use units::Instant;

/// Frames that wait to be described.
const DEPTH: usize = 1024;
/// Bytes of a frame that are described: all headers there may be.
const HEADERS: usize = 256;

/// Writes the lines of every traced port. It lives as long as one of its sinks does.
#[derive(Clone)]
pub struct Tracer {
    lines: SyncSender<Line>,
    missed: Arc<AtomicU64>,
}

struct Line {
    port: Arc<str>,
    direction: Direction,
    length: usize,
    kept: usize,
    frame: [u8; HEADERS],
}

/// What a traced port shows its frames to.
struct Sink {
    port: Arc<str>,
    tracer: Tracer,
}

impl Tracer {
    /// Starts the thread that writes, which ends when the tracer and all its sinks are gone: join it to have every line.
    pub fn start() -> std::io::Result<(Tracer, JoinHandle<()>)> {
        let (lines, written) = sync_channel(DEPTH);
        let missed = Arc::new(AtomicU64::new(0));
        let counter = missed.clone();
        let thread = thread::Builder::new().name("trace".into()).spawn(move || write(&written, &counter))?;
        Ok((Tracer { lines, missed }, thread))
    }

    /// A sink for the port of this name.
    pub fn sink(&self, port: &str) -> Box<dyn FrameSink> {
        Box::new(Sink { port: port.into(), tracer: self.clone() })
    }
}

fn write(lines: &Receiver<Line>, missed: &AtomicU64) {
    for Line { port, direction, length, kept, frame } in lines {
        let way = if direction == Direction::In { "in" } else { "out" };
        let summary = wire::summary(&frame[..kept]);
        tracing::info!(target: "trace", "{port} {way} {length} bytes: {summary}");
        match missed.swap(0, Ordering::Relaxed) {
            0 => {}
            missed => tracing::warn!(target: "trace", "{missed} frames came too fast to be traced"),
        }
    }
}

impl FrameSink for Sink {
    fn frame(&mut self, _now: Instant, direction: Direction, frame: &[u8]) {
        let kept = frame.len().min(HEADERS);
        let mut line = Line { port: self.port.clone(), direction, length: frame.len(), kept, frame: [0; HEADERS] };
        line.frame[..kept].copy_from_slice(&frame[..kept]);
        if self.tracer.lines.try_send(line).is_err() {
            self.tracer.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_never_waits_for_its_trace() {
        let (lines, unread) = sync_channel(2);
        let tracer = Tracer { lines, missed: Arc::default() };
        let mut sink = tracer.sink("lan");
        for length in [0, 60, 2048] {
            sink.frame(Instant::START, Direction::In, &vec![7; length]);
        }
        assert_eq!(tracer.missed.load(Ordering::Relaxed), 1);
        let kept: Vec<_> = unread.try_iter().map(|line| (line.length, line.kept)).collect();
        assert_eq!(kept, [(0, 0), (60, 60)]);
    }
}
