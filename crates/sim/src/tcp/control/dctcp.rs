//! DCTCP (RFC 8257): the window is reduced in proportion to the marked packets.

use super::{AckSample, CongestionCause, CongestionControl, Reno};
use crate::tcp::Settings;
use units::Instant;

/// The weight of one window in the estimate (RFC 8257, 3.3).
const GAIN: f64 = 1.0 / 16.0;

/// Reno with another reaction to marks.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    /// The estimated part of packets that are marked: `DCTCP.Alpha`.
    marked: f64,
    /// The current observation window: its end, and the packets delivered and marked in it.
    end: u64,
    window_counts: (u64, u64),
    /// The sender has reacted to marks of packets before this one.
    reacted: u64,
}

impl Dctcp {
    /// Starts with the initial window of `settings`.
    pub fn new(settings: &Settings) -> Dctcp {
        Dctcp { reno: Reno::new(settings), marked: 1.0, end: 0, window_counts: (0, 0), reacted: 0 }
    }
}

impl CongestionControl for Dctcp {
    fn window(&self) -> f64 {
        self.reno.window()
    }

    fn threshold(&self) -> f64 {
        self.reno.threshold()
    }

    fn acknowledged(&mut self, progress: &AckSample) {
        self.window_counts.0 += progress.delivered;
        // An acknowledgement may report marks of packets that it does not newly acknowledge.
        self.window_counts.1 += progress.marked.min(progress.delivered);
        if progress.next >= self.end {
            let part = self.window_counts.1 as f64 / self.window_counts.0.max(1) as f64;
            self.marked += GAIN * (part - self.marked);
            (self.end, self.window_counts) = (progress.sent, (0, 0));
        }
        if progress.marked > 0 && progress.next > self.reacted && !progress.recovering {
            self.reacted = progress.sent;
            self.reno.scale(1.0 - self.marked / 2.0);
        }
        self.reno.acknowledged(progress);
    }

    fn congested(&mut self, now: Instant, cause: CongestionCause, in_flight: u64) {
        self.reno.congested(now, cause, in_flight);
    }

    fn recovered(&mut self, now: Instant) {
        self.reno.recovered(now);
    }

    fn restart(&mut self, now: Instant, window: f64) {
        self.reno.restart(now, window);
    }

    fn counts_marks(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_shrinks_by_half_of_marked_fraction() {
        let mut control = Dctcp::new(&Settings { initial_window: 100, ..Settings::plain() });
        control.reno.congested(Instant::START, CongestionCause::Mark, 0);
        let mut next = 0;
        // Windows of fifty packets, of which the last ten are marked: the estimate moves from one towards a fifth.
        for _ in 0..200 {
            let window = control.window();
            for n in 0..50 {
                next += 1;
                let marked = u64::from(n >= 40);
                let sent = next + 50;
                control.acknowledged(&AckSample { next, sent, delivered: 1, marked, ..AckSample::default() });
            }
            let floor = window * (1.0 - control.marked / 2.0);
            assert!(control.window() >= floor * 0.9, "one reduction a window: {window} to {}", control.window());
        }
        assert!((control.marked - 0.2).abs() < 0.01, "{}", control.marked);
    }
}
