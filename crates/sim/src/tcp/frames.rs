//! How Linux divides data into packets. A socket keeps its data in buffers of up to 64 KB. Whenever the window allows, a super-frame of several
//! packets is cut off. The last packet of each super-frame has the PSH flag. A packet that would go alone waits for the next acknowledgement if that
//! is due (`tcp_tso_autosize`, `tcp_tso_should_defer`). No standard requires this. But a receiver answers a PSH packet even if it is the only one. So
//! PSH decides if an acknowledgement covers one packet or two, and at which of them a window grows.

use std::collections::VecDeque;
use units::{Instant, Nanos};

/// The least packets of a super-frame, if the window has room for them, and the time at the current rate that sets its size.
const MIN_PACKETS: u64 = 2;
const FRAME_TIME: Nanos = Nanos::new(1_000_000_000 / 1024);
/// Packets in a buffer: of 1208 bytes, in 64 KB minus the maximum of headers. It is also the limit of a super-frame.
const BUFFER: u64 = 54;
/// An acknowledgement is due if it is expected within this time. Only a sender that has sent within it waits.
const ACK_WAIT: Nanos = Nanos::millis(1);
/// The most super-frames with a recorded send time. Those beyond share that of the last one; the difference does not matter for a queue that long.
const MAX_RECORDED: usize = 1 << 14;
/// A sender that may send at least this fraction of its window does not wait.
const WINDOW_FRACTION: u64 = 3;

/// The state of window and path when new packets are to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendState {
    pub now: Instant,
    /// The first unacknowledged packet.
    pub first: u64,
    /// The number of packets that may be sent now.
    pub room: u64,
    pub window: f64,
    pub threshold: f64,
    pub smoothed: Option<Nanos>,
}

impl SendState {
    /// The largest super-frame: the packets that a paced sender would send in a millisecond.
    fn frame(&self) -> u64 {
        let faster = if self.window < self.threshold / 2.0 { 2.0 } else { 1.2 };
        let worth = |smoothed: Nanos| faster * self.window * FRAME_TIME.get() as f64 / smoothed.get().max(1) as f64;
        (self.smoothed.map_or(0.0, worth) as u64).clamp(MIN_PACKETS, BUFFER)
    }
}

/// The super-frames of one sender.
#[derive(Clone, Debug)]
pub(super) struct SuperFrames {
    /// The first packet and the send time of each super-frame in flight.
    sent: VecDeque<(u64, Instant)>,
    /// The time of the last transmission or retransmission.
    last: Instant,
    /// The remaining packets of the current super-frame, and true if it has several.
    open: u64,
    several: bool,
    /// Packets left in the buffer.
    left: u64,
}

impl Default for SuperFrames {
    fn default() -> SuperFrames {
        SuperFrames { sent: VecDeque::new(), last: Instant::START, open: 0, several: false, left: BUFFER }
    }
}

impl SuperFrames {
    fn starts_frame(&self, now: Instant) -> bool {
        self.open == 0 || now > self.last
    }

    /// True if the packets wait for the next acknowledgement, to be sent together with those that it allows.
    pub fn must_wait(&mut self, moment: &SendState) -> bool {
        let SendState { now, first, room, .. } = *moment;
        // Super-frames that are fully acknowledged are removed. The front one then dates the oldest unacknowledged packet.
        while self.sent.get(1).is_some_and(|next| next.0 <= first) {
            self.sent.pop_front();
        }
        let enough = room >= moment.frame().min(self.left) || room >= moment.window as u64 / WINDOW_FRACTION;
        if !self.starts_frame(now) || enough || now.since(self.last) > ACK_WAIT {
            return false;
        }
        let oldest = self.sent.front().zip(moment.smoothed);
        oldest
            .is_some_and(|(&(_, sent), smoothed)| sent + smoothed <= now + ACK_WAIT.min(Nanos::new(smoothed.get() / 2)))
    }

    /// Packet `seq` is sent for the first time. Returns true if it has the PSH flag.
    pub fn send(&mut self, seq: u64, moment: &SendState) -> bool {
        if self.starts_frame(moment.now) {
            self.open = moment.frame().min(moment.room).max(1);
            self.several = self.open > 1;
            if self.sent.len() < MAX_RECORDED {
                self.sent.push_back((seq, moment.now));
            }
        }
        self.last = moment.now;
        self.open -= 1;
        self.left -= 1;
        let last = self.left == 0;
        if last {
            self.left = BUFFER;
        }
        self.open == 0 && (self.several || last)
    }

    /// A packet is retransmitted.
    pub fn record_retransmission(&mut self, now: Instant) {
        (self.last, self.open) = (now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64, first: u64, room: u64) -> SendState {
        let now = Instant::START + Nanos::micros(micros);
        SendState { now, first, room, window: 100.0, threshold: 50.0, smoothed: Some(Nanos::millis(100)) }
    }

    /// Sends all packets that may be sent. Returns the PSH flag of each.
    fn send(frames: &mut SuperFrames, seq: &mut u64, moment: SendState) -> Vec<bool> {
        let mut pushed = Vec::new();
        for sent in 0..moment.room {
            let moment = SendState { room: moment.room - sent, ..moment };
            if frames.must_wait(&moment) {
                break;
            }
            pushed.push(frames.send(*seq, &moment));
            *seq += 1;
        }
        pushed
    }

    #[test]
    fn last_packet_of_super_frame_has_psh() {
        let (mut frames, mut seq) = (SuperFrames::default(), 0);
        // Without a round-trip time: two at a time.
        let unknown = |room| SendState { smoothed: None, ..at(0, 0, room) };
        assert_eq!(send(&mut frames, &mut seq, unknown(5)), [false, true, false, true, false]);
        // At 12 Mbit/s too; at ten times that rate a millisecond is worth eleven packets.
        let fast = |room| SendState { window: 1000.0, ..at(150_000, 5, room) };
        let pushed = send(&mut frames, &mut seq, fast(500));
        assert_eq!(pushed.iter().position(|pushed| *pushed), Some(10));
        frames.record_retransmission(Instant::START + Nanos::micros(150_000));
        assert!(!frames.send(seq, &fast(1)));
    }

    #[test]
    fn single_packet_waits_for_due_ack() {
        let (mut frames, mut seq) = (SuperFrames::default(), 0);
        assert_eq!(send(&mut frames, &mut seq, at(0, 0, 2)), [false, true]);
        assert_eq!(send(&mut frames, &mut seq, at(2000, 0, 2)), [false, true]);
        // The first two are acknowledged, and there is room for three: the next acknowledgement is two milliseconds away.
        assert_eq!(send(&mut frames, &mut seq, at(100_000, 2, 3)), [false, true, false]);
        // One of the next two is acknowledged alone, so the other acknowledgement is due.
        assert_eq!(send(&mut frames, &mut seq, at(102_000, 3, 3)), [false, true]);
        assert_eq!(send(&mut frames, &mut seq, at(102_500, 4, 2)), [false, true]);
        // After a millisecond without transmission the sender does not wait.
        assert_eq!(send(&mut frames, &mut seq, at(104_500, 4, 1)), [false]);
    }

    #[test]
    fn last_packet_of_buffer_has_psh() {
        let (mut frames, mut seq) = (SuperFrames::default(), 0);
        for pair in 0..26 {
            assert_eq!(send(&mut frames, &mut seq, at(pair * 2000, 0, 2)), [false, true]);
        }
        assert_eq!(send(&mut frames, &mut seq, at(60_000, 0, 1)), [false]);
        assert_eq!(send(&mut frames, &mut seq, at(70_000, 0, 1)), [true]);
        // A super-frame crosses the end of the next buffer.
        assert_eq!(frames.left, BUFFER);
    }
}
