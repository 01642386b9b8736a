//! Both ends of a flow between real hosts. The sender sends as a world's application says and samples the state of its connection.

use anyhow::{Context, Result};
use io::clock;
use io::tcp::{self, CongestionState};
use io::wait::{Sleeper, Waker};
use sim::tcp::application::{Transfer, WebDraws};
use sim::{KernelTcpInfo, RealFlow};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use units::{Instant, Nanos};

/// Bytes per read or write.
const CHUNK: usize = 1 << 16;
/// Timeout of a receiver's read, after which it checks for the end of the run.
const NAP: Duration = Duration::from_millis(200);

/// The start and the end of a run, on the machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct RunTimes {
    /// The world's time zero.
    pub begin: Instant,
    /// The world's end.
    pub end: Instant,
}

/// The traffic of a sender.
pub enum SenderTraffic {
    /// As much as possible.
    Bulk,
    /// One transfer after the other.
    Web(Box<WebDraws>),
}

/// The results of a sender.
pub struct SenderResult {
    /// The samples of its connection.
    pub samples: RealFlow,
    /// Its transfers.
    pub transfers: Vec<Transfer>,
    /// Bytes received by the end.
    pub received: u64,
}

/// A sender of a flow.
pub struct FlowSender<'r> {
    /// Its end of the connection.
    pub stream: TcpStream,
    /// Its traffic.
    pub traffic: SenderTraffic,
    /// Its start, after the world's time zero.
    pub start: Nanos,
    /// Its sampling interval.
    pub interval: Nanos,
    /// Collects its samples.
    pub samples: RealFlow,
    /// The bytes its receiver has counted.
    pub received: &'r AtomicU64,
}

/// The transfers of a web source: the last byte of the current one, and the start of the next.
struct Web {
    draws: Box<WebDraws>,
    next: Option<Instant>,
    end: Option<u64>,
    transfers: Vec<Transfer>,
}

impl FlowSender<'_> {
    /// Sends until the end.
    ///
    /// # Errors
    ///
    /// The kernel's error if the connection breaks.
    pub fn run(self, times: RunTimes) -> Result<SenderResult> {
        let FlowSender { mut stream, traffic: wants, start, interval: look, samples: mut watched, received } = self;
        stream.set_nonblocking(true)?;
        let mut sleeper = Sleeper::new(Waker::new()?);
        let before = tcp::info(&stream)?;
        let segment = u64::from(before.segment_size.max(1));
        let (begin, bytes) = (times.begin + start, vec![0x5a; CHUNK]);
        let (mut offered, mut written) = (0, 0);
        let mut web = match wants {
            SenderTraffic::Bulk => None,
            SenderTraffic::Web(mut draws) => {
                let next = Some(begin + draws.first());
                Some(Web { draws, next, end: None, transfers: Vec::new() })
            }
        };
        let mut due = begin;
        loop {
            let now = clock::now();
            if now >= times.end {
                break;
            }
            if now >= due {
                let state = tcp::info(&stream).context("looking at a connection")?;
                let seen = connection_sample(&state, &before);
                watched.record_sample(since(now, times.begin), seen);
                if let Some(web) = &mut web {
                    web.acknowledged(since(now, times.begin), times.begin, seen.acknowledged, segment);
                }
                // Skip looks that a stall has delayed: a burst of them would all see the same state.
                while due <= now {
                    due += look;
                }
            }
            match &mut web {
                None if now >= begin => offered = u64::MAX,
                None => {}
                Some(web) => web.begin(now, times.begin, &mut offered, segment),
            }
            while written < offered {
                let most = (offered - written).min(CHUNK as u64) as usize;
                match stream.write(&bytes[..most]) {
                    Ok(count) => written += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error).context("sending"),
                }
            }
            let next = web.as_ref().and_then(|web| web.next).unwrap_or(Instant::NEVER).min(due).min(times.end);
            sleeper.sleep([], next.since(clock::now()))?;
        }
        let received = received.load(Ordering::Relaxed);
        // Reset the connection on close. The data still queued would otherwise continue to load the link after the run.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(SenderResult { samples: watched, transfers: web.map_or_else(Vec::new, |web| web.transfers), received })
    }
}

impl Web {
    /// Begins a transfer if its time has come.
    fn begin(&mut self, now: Instant, zero: Instant, offered: &mut u64, segment: u64) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = None;
        let packets = self.draws.packets();
        *offered += packets * segment;
        self.end = Some(*offered);
        self.transfers.push(Transfer { began: since(now, zero), packets, ended: None, acknowledged: false });
    }

    /// Records that `bytes` bytes of the connection have been acknowledged.
    fn acknowledged(&mut self, now: Instant, zero: Instant, bytes: u64, segment: u64) {
        let (Some(end), Some(transfer)) = (self.end, self.transfers.last_mut()) else { return };
        transfer.acknowledged |= bytes > end - transfer.packets * segment;
        if bytes >= end {
            transfer.ended = Some(now);
            self.end = None;
            self.next = Some(zero + now.since(Instant::START) + self.draws.pause());
        }
    }
}

/// A time of the machine, in the world's time.
fn since(now: Instant, zero: Instant) -> Instant {
    Instant::START + now.since(zero)
}

/// The kernel's statistics of a connection since the world began.
fn connection_sample(state: &tcp::TcpInfo, before: &tcp::TcpInfo) -> KernelTcpInfo {
    KernelTcpInfo {
        smoothed: Nanos::micros(state.smoothed_rtt_us.into()),
        window: state.congestion_window,
        threshold: state.slow_start_threshold,
        in_flight: state.in_flight(),
        acknowledged: state.acknowledged - before.acknowledged,
        sent: u64::from(state.sent.wrapping_sub(before.sent)),
        retransmitted: u64::from(state.total_retransmitted.wrapping_sub(before.total_retransmitted)),
        spurious: u64::from(state.duplicate_retransmits.wrapping_sub(before.duplicate_retransmits)),
        reordered: u64::from(state.reordered.wrapping_sub(before.reordered)),
        recovering: state.congestion_state >= CongestionState::Recovering,
        timed_out: state.congestion_state == CongestionState::TimedOut,
    }
}

/// Receives and counts until the end.
///
/// # Errors
///
/// The kernel's error if the connection breaks.
pub fn receive(mut stream: TcpStream, times: RunTimes, received: &AtomicU64) -> Result<()> {
    stream.set_read_timeout(Some(NAP))?;
    let mut bytes = vec![0; CHUNK];
    while clock::now() < times.end {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => _ = received.fetch_add(count as u64, Ordering::Relaxed),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The sender closes without waiting for bytes in flight, which resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error).context("receiving"),
        }
    }
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(())
}
