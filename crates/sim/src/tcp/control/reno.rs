//! Reno: one packet more per round trip, half of the window at a loss (RFC 5681, section 3).

use super::{AckSample, CongestionCause, CongestionControl};
use crate::tcp::Settings;
use units::Instant;

/// Slow start and congestion avoidance.
///
/// At a loss it halves the window, like the simulations of the literature and Linux. RFC 5681 (equation 4) halves the packets in flight, which are
/// fewer only if the application did not fill the window.
#[derive(Clone, Debug)]
pub struct Reno {
    window: f64,
    threshold: f64,
    counts_packets: bool,
}

impl Reno {
    /// Starts with the initial window of `settings`.
    pub fn new(settings: &Settings) -> Reno {
        Reno {
            window: settings.initial_window as f64,
            threshold: f64::INFINITY,
            counts_packets: settings.counts_packets,
        }
    }

    /// Reduces the window to this part, and continues in congestion avoidance.
    pub(super) fn scale(&mut self, part: f64) {
        self.window = (self.window * part).max(2.0);
        self.threshold = self.window;
    }
}

impl CongestionControl for Reno {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    #[inline]
    fn acknowledged(&mut self, progress: &AckSample) {
        if progress.growth_blocked || self.counts_packets && !progress.window_limited {
            return;
        }
        // Per acknowledgement (RFC 5681, equations 2 and 3), or per packet (RFC 3465 without its limit).
        let mut packets = if self.counts_packets { progress.delivered as f64 } else { 1.0 };
        if self.window < self.threshold {
            let raised = (self.window + packets).min(self.threshold.max(self.window + 1.0));
            packets -= raised - self.window;
            self.window = raised;
        }
        if packets > 0.0 {
            self.window += packets / self.window;
        }
    }

    fn congested(&mut self, _: Instant, cause: CongestionCause, _: u64) {
        self.threshold = (self.window / 2.0).floor().max(2.0);
        self.window = if cause == CongestionCause::Timeout { 1.0 } else { self.threshold };
    }

    fn recovered(&mut self, _: Instant) {
        self.window = self.threshold;
    }

    fn restart(&mut self, _: Instant, window: f64) {
        self.window = self.window.min(window);
    }
}
