//! HyStart++ (RFC 9406): slow start ends when round trips become longer, before packets are lost.

use super::AckSample;
use units::Nanos;

/// The increase of the round-trip time that indicates a queue: an eighth, within these bounds (RFC 9406, 4.3).
const LEAST: Nanos = Nanos::millis(4);
const MOST: Nanos = Nanos::millis(16);
/// The number of samples that a round needs.
const SAMPLES: u32 = 8;
/// The growth factor in conservative slow start, and its duration in rounds.
const SLOWER: f64 = 0.25;
const ROUNDS: u32 = 5;

/// The state of one slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HyStart {
    /// The round ends when this packet is acknowledged.
    end: u64,
    last: Nanos,
    current: Nanos,
    samples: u32,
    /// In conservative slow start: the round-trip time that triggered it, and the rounds left.
    conservative: Option<(Nanos, u32)>,
}

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart { end: 0, last: Nanos::MAX, current: Nanos::MAX, samples: 0, conservative: None }
    }
}

impl HyStart {
    /// Processes an acknowledgement. Returns true if slow start ends.
    pub fn is_over(&mut self, progress: &AckSample) -> bool {
        if progress.next >= self.end {
            self.end = progress.sent;
            (self.last, self.current, self.samples) = (self.current, Nanos::MAX, 0);
            if let Some((_, left)) = &mut self.conservative {
                *left -= 1;
                if *left == 0 {
                    return true;
                }
            }
        }
        let Some(rtt) = progress.rtt else { return false };
        self.current = self.current.min(rtt);
        self.samples += 1;
        if self.samples < SAMPLES {
            return false;
        }
        match self.conservative {
            None if self.last < Nanos::MAX => {
                // Compares the minima of two rounds, so single delayed packets do not count.
                let increase = Nanos::new(self.last.get() / 8).clamp(LEAST, MOST);
                if self.current >= self.last + increase {
                    self.conservative = Some((self.current, ROUNDS));
                }
            }
            // The increase was jitter: back to normal slow start.
            Some((baseline, _)) if self.current < baseline => self.conservative = None,
            _ => {}
        }
        false
    }

    /// The window growth for one acknowledged packet.
    pub fn growth(&self) -> f64 {
        if self.conservative.is_some() { SLOWER } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of ten packets with these round-trip times. Returns the growth after each, or -1 after the end of slow start.
    fn rounds(millis: &[u64]) -> Vec<f64> {
        let (mut hystart, mut next) = (HyStart::default(), 0);
        let round = |&millis: &u64| {
            for _ in 0..10 {
                next += 1;
                let rtt = Some(Nanos::millis(millis));
                if hystart.is_over(&AckSample { next, sent: (next / 10 + 1) * 10 + 1, rtt, ..AckSample::default() }) {
                    return -1.0;
                }
            }
            hystart.growth()
        };
        millis.iter().map(round).collect()
    }

    #[test]
    fn rtt_increase_ends_slow_start_after_five_rounds() {
        // An eighth of 100 ms is 12.5 ms.
        assert_eq!(rounds(&[100, 100, 112, 112]), [1.0, 1.0, 1.0, 1.0]);
        assert_eq!(rounds(&[100, 100, 113, 113, 113, 113, 113, 113]), [1.0, 1.0, 0.25, 0.25, 0.25, 0.25, 0.25, -1.0]);
    }

    #[test]
    fn shorter_rtt_resumes_slow_start() {
        assert_eq!(rounds(&[100, 130, 130, 100, 100]), [1.0, 0.25, 0.25, 1.0, 1.0]);
    }
}
