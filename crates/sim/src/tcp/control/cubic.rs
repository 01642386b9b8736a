//! CUBIC (RFC 9438). After a loss the window rises as a cubic function of time towards its previous value, stays there for a while, and then probes
//! for more. It is never slower than Reno.

use super::hystart::HyStart;
use super::{AckSample, CongestionCause, CongestionControl};
use crate::tcp::Settings;
use units::{Instant, Nanos};

/// Packets per second cubed (RFC 9438, 5).
const C: f64 = 0.4;
/// The part of the window that remains after a loss (4.6).
const BETA: f64 = 0.7;

/// The cubic function of one epoch, from its start to the next loss.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Epoch {
    began: Instant,
    /// The plateau of the function: its height in packets, and its time in seconds after the start.
    top: f64,
    flat: f64,
    /// The window that Reno would have (4.3).
    reno: f64,
}

impl Epoch {
    /// Figure 1 of RFC 9438.
    fn window(&self, seconds: f64) -> f64 {
        let beside = seconds - self.flat;
        C * beside * beside * beside + self.top
    }
}

/// CUBIC with fast convergence and the Reno-friendly region.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    counts_packets: bool,
    /// The window before the last loss, the plateau of the next epoch. It is zero before the first loss and after a timeout.
    top: f64,
    /// The same without fast convergence.
    prior: f64,
    epoch: Option<Epoch>,
    hystart: Option<HyStart>,
}

impl Cubic {
    /// Starts with the initial window of `settings`, without HyStart++.
    pub fn new(settings: &Settings) -> Cubic {
        let window = settings.initial_window as f64;
        let counted = settings.counts_packets;
        Cubic {
            window,
            threshold: f64::INFINITY,
            counts_packets: counted,
            top: 0.0,
            prior: 0.0,
            epoch: None,
            hystart: None,
        }
    }

    /// With HyStart++ (RFC 9406), which ends slow start when round trips become longer.
    pub fn with_hystart(settings: &Settings) -> Cubic {
        Cubic { hystart: Some(HyStart::default()), ..Cubic::new(settings) }
    }

    fn begin(&self, now: Instant) -> Epoch {
        let (top, flat) = if self.window < self.top {
            (self.top, libm::cbrt((self.top - self.window) / C))
        } else {
            (self.window, 0.0)
        };
        Epoch { began: now, top, flat, reno: self.window }
    }

    /// The increase in congestion avoidance for `packets` acknowledged packets (4.2 to 4.5).
    fn avoid(&mut self, now: Instant, packets: f64, rtt: Nanos) -> f64 {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(now));
        // Equation 4: the faster growth compensates for the smaller reduction, until the window reaches its value before the loss.
        let alpha = if epoch.reno < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        epoch.reno += alpha * packets / self.window;
        self.epoch = Some(epoch);
        // The cubic function is below Reno's window: the Reno-friendly region (4.3).
        let passed = now.since(epoch.began).as_secs_f64();
        if epoch.window(passed) < epoch.reno {
            return (epoch.reno - self.window).max(0.0);
        }
        // The target is one round trip ahead, and at most half a window more (4.2).
        let target = epoch.window(passed + rtt.as_secs_f64()).clamp(self.window, 1.5 * self.window);
        (target - self.window) / self.window * packets
    }
}

impl CongestionControl for Cubic {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn acknowledged(&mut self, progress: &AckSample) {
        if self.window < self.threshold
            && let Some(hystart) = &mut self.hystart
            && hystart.is_over(progress)
        {
            self.threshold = self.window;
        }
        if progress.growth_blocked {
            return;
        }
        if self.counts_packets && !progress.window_limited {
            // Time in which the window was not used does not count as growth time (5.8).
            if let Some(epoch) = &mut self.epoch {
                epoch.began += progress.now.since(progress.before);
            }
            return;
        }
        let mut packets = if self.counts_packets { progress.delivered as f64 } else { 1.0 };
        if self.window < self.threshold {
            let growth = self.hystart.map_or(1.0, |hystart| hystart.growth());
            let raised = (self.window + packets * growth).min(self.threshold.max(self.window + 1.0));
            packets -= (raised - self.window) / growth;
            self.window = raised;
        }
        if packets > 0.0 {
            self.window += self.avoid(progress.now, packets, progress.smoothed.unwrap_or_default());
        }
    }

    fn congested(&mut self, _: Instant, cause: CongestionCause, _: u64) {
        // Fast convergence: a flow that did not reach its previous window leaves room for others (4.7). Whole packets are compared. A link with room
        // for a fixed number of packets always loses the next one, so fractions would differ by chance.
        self.top = if self.window.floor() < self.top.floor() { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.prior = self.window;
        self.threshold = (self.window * BETA).max(2.0);
        self.window = self.threshold;
        self.epoch = None;
        if cause == CongestionCause::Timeout {
            // The next epoch has no plateau to return to (4.8).
            (self.window, self.top, self.prior) = (1.0, 0.0, 0.0);
        }
        self.hystart = None;
    }

    fn recovered(&mut self, _: Instant) {
        self.window = self.threshold;
    }

    fn restart(&mut self, _: Instant, window: f64) {
        self.window = self.window.min(window);
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cubic() -> Cubic {
        Cubic::new(&Settings { initial_window: 100, ..Settings::plain() })
    }

    fn progress(now: Instant, before: Instant) -> AckSample {
        let rtt = Some(Nanos::millis(100));
        AckSample { now, before, delivered: 1, rtt, smoothed: rtt, window_limited: true, ..AckSample::default() }
    }

    #[test]
    fn window_follows_rfc_9438_function() {
        let mut control = cubic();
        control.window = 1000.0;
        control.congested(Instant::START, CongestionCause::Loss, 1000);
        assert_eq!((control.window, control.threshold), (700.0, 700.0), "4.6");
        // K = cbrt(1000 x 0.3 / 0.4) = 9.086 s (equation 2).
        let flat: f64 = (1000.0 * (1.0 - BETA) / C).cbrt();
        assert!((flat - 9.0856).abs() < 1e-3);
        let (mut now, mut worst) = (Instant::START + Nanos::millis(1), 0.0f64);
        let began = now;
        // Acknowledgements of a window of packets in each round trip, evenly spaced.
        while now.since(began) < Nanos::secs(14) {
            let before = now;
            now += Nanos::new((1e8 / control.window) as u64);
            control.acknowledged(&progress(now, before));
            let seconds = now.since(began).as_secs_f64();
            let expected = C * (seconds - flat).powi(3) + 1000.0;
            // The target is the function's value one round trip later, and the window reaches it by then.
            worst = worst.max((control.window / expected - 1.0).abs());
        }
        assert!(worst < 0.01, "{worst}");
        assert!(control.window > 1040.0, "beyond the top it looks for more: {}", control.window);
    }

    #[test]
    fn small_window_grows_like_reno() {
        let mut control = cubic();
        control.window = 20.0;
        control.congested(Instant::START, CongestionCause::Loss, 20);
        let mut now = Instant::START + Nanos::millis(1);
        let began = now;
        while now.since(began) < Nanos::secs(2) {
            let before = now;
            now += Nanos::new((1e8 / control.window) as u64);
            control.acknowledged(&progress(now, before));
        }
        // Twenty round trips of 9/17 of a packet each from 14 to 20 take 1.13 s; then a packet each: 8.7 in 0.87 s.
        assert!((control.window - 28.7).abs() < 0.8, "{}", control.window);
    }

    #[test]
    fn fast_convergence_lowers_plateau() {
        let mut control = cubic();
        control.window = 100.0;
        control.congested(Instant::START, CongestionCause::Loss, 100);
        control.window = 80.0;
        control.congested(Instant::START, CongestionCause::Loss, 80);
        assert_eq!(control.top, 80.0 * 0.85, "4.7");
        assert_eq!(control.window, 56.0);
    }

    #[test]
    fn timeout_starts_epoch_at_plateau() {
        let mut control = cubic();
        control.congested(Instant::START, CongestionCause::Timeout, 100);
        assert_eq!((control.window, control.threshold), (1.0, 70.0));
        control.window = 70.0;
        let now = Instant::START + Nanos::secs(1);
        control.acknowledged(&progress(now, now));
        assert_eq!(control.epoch.map(|epoch| (epoch.top, epoch.flat)), Some((70.0, 0.0)), "4.8");
    }
}
