//! The send times of a source: constant, Poisson, on-off, a ramp, or those of a capture. Sources are not events: a poll of a card takes all packets
//! due by then.

use crate::random::RandomStream;
use std::sync::Arc;
use units::{ExactTime, Instant, Nanos, Pace, PacketRate};

/// The arrival process of a source.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// Evenly spaced.
    Constant(Pace),
    /// Independent, exponentially distributed gaps.
    Poisson(Pace),
    /// Evenly spaced for a time, then silent for a time.
    OnOff {
        /// The rate while it sends.
        pace: Pace,
        /// The durations of the on and the off periods.
        spans: (Nanos, Nanos),
        /// True if the durations are means of exponential distributions.
        random: bool,
    },
    /// Evenly spaced, at a rate that changes in steps.
    Ramp {
        /// The initial rate.
        from: Pace,
        /// The final rate.
        to: Pace,
        /// The change of the rate at each step.
        step: Pace,
        /// The time between two steps.
        every: Nanos,
        /// The time of the first step.
        rise: Nanos,
    },
    /// Evenly spaced, at rates that follow each other, and begin again after the last.
    Steps {
        /// The rates; `None` is silence. At least one is a rate.
        paces: Vec<Option<Pace>>,
        /// The duration of each.
        every: Nanos,
    },
    /// As recorded. With a rate, that replaces the recorded times.
    Replay {
        /// The capture.
        file: String,
        /// A rate in place of the recorded times.
        pace: Option<Pace>,
        /// True if it restarts after its end.
        again: bool,
    },
}

/// A packet of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturedPacket {
    /// Its arrival time, relative to the first.
    pub after: Nanos,
    /// The frame, from the destination address on, without check sequence.
    pub frame: Vec<u8>,
}

/// Reads files for a world. The world opens no files by itself.
pub trait Captures {
    /// Every packet of the capture, in order.
    fn read(&mut self, file: &str) -> Result<Vec<CapturedPacket>, String>;

    /// Any other file that a world names: a trace of a link, or sizes of transfers.
    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, String> {
        Err(format!("'{file}' cannot be read: files are not opened here"))
    }
}

/// A reader for worlds without files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCaptures;

impl Captures for NoCaptures {
    fn read(&mut self, file: &str) -> Result<Vec<CapturedPacket>, String> {
        Err(format!("cannot read '{file}': experiments open no captures"))
    }
}

/// A running source: the time of its next packet.
#[derive(Debug)]
pub(crate) struct Schedule {
    pattern: Pattern,
    chance: RandomStream,
    /// The sizes of packets with their check sequence; packets use them in turn.
    sizes: Vec<u64>,
    /// The gap between packets, for processes with a constant gap.
    gap: Option<(u64, u64)>,
    time: ExactTime,
    /// No packet is sent at this time or later.
    end: u64,
    sent: u64,
    /// For on-off sources, the end of the on period. For replays, `began` is the start of the round.
    period_end: u64,
    began: u64,
    pub recorded: Arc<[CapturedPacket]>,
}

impl Schedule {
    /// A source from `start` to `end`. With `staggered`, the first of evenly spaced packets comes at a random time within a gap.
    pub fn new(
        law: Pattern,
        sizes: Vec<u64>,
        (start, end): (u64, u64),
        staggered: bool,
        mut chance: RandomStream,
        recorded: Arc<[CapturedPacket]>,
    ) -> Schedule {
        let same = sizes.len() == 1;
        let gap = match &law {
            Pattern::Constant(pace) | Pattern::OnOff { pace, .. } if same => Some(pace.gap(sizes[0])),
            _ => None,
        };
        let mut schedule = Schedule {
            time: ExactTime::new(Instant::new(start)),
            period_end: start,
            began: start,
            gap,
            sizes,
            end,
            sent: 0,
            recorded,
            pattern: law,
            chance: chance.clone(),
        };
        // The time to the first packet of a Poisson process is exponential too.
        if let Pattern::Poisson(_) = schedule.pattern {
            let gap = schedule.exponential(schedule.mean_gap());
            schedule.time.advance(Nanos::new(gap));
        } else if staggered {
            let (part, whole) = schedule.mean_gap();
            schedule.time.advance(Nanos::new(chance.below((part / whole).max(1))));
        }
        if let Pattern::OnOff { spans, random, .. } = schedule.pattern {
            schedule.began = schedule.time.at().get();
            schedule.period_end = schedule.time.at().get() + schedule.span(spans.0, random);
        }
        schedule.skip_silence();
        schedule
    }

    /// The time of the next packet; `u64::MAX` if there is none.
    #[inline]
    pub fn next(&self) -> u64 {
        let over = self.time.at().get() >= self.end
            || matches!(self.pattern, Pattern::Replay { .. }) && self.recorded.is_empty();
        if over { u64::MAX } else { self.time.at().get() }
    }

    /// Advances to the next packet. Returns the number of the current one, from 0.
    #[inline]
    pub fn advance(&mut self) -> u64 {
        let number = self.sent;
        self.sent += 1;
        match (self.gap, &self.pattern) {
            (Some(gap), Pattern::Constant(_)) => self.time.advance_fraction(gap),
            _ => self.step(number),
        }
        number
    }

    fn step(&mut self, number: u64) {
        match self.pattern {
            Pattern::Constant(_) | Pattern::Ramp { .. } => self.time.advance_fraction(self.gap_after(number)),
            Pattern::Poisson(_) => {
                let gap = self.exponential(self.gap_after(number));
                self.time.advance(Nanos::new(gap));
            }
            Pattern::OnOff { spans, random, .. } => {
                self.time.advance_fraction(self.gap_after(number));
                // Skips whole off periods: with random durations, one gap may span several.
                while self.time.at().get() >= self.period_end {
                    let on = self.period_end + self.span(spans.1, random);
                    self.time = ExactTime::new(Instant::new(on));
                    self.period_end = on.saturating_add(self.span(spans.0, random));
                }
            }
            Pattern::Steps { .. } => {
                self.time.advance_fraction(self.gap_after(number));
                self.skip_silence();
            }
            Pattern::Replay { pace: Some(_), again, .. } => {
                let over = !again && self.sent as usize >= self.recorded.len();
                if over {
                    self.time = ExactTime::new(Instant::new(u64::MAX))
                } else {
                    self.time.advance_fraction(self.gap_after(number))
                }
            }
            Pattern::Replay { pace: None, again, .. } => self.replay(again),
        }
    }

    /// The rate of the present step, and the steps since the beginning.
    fn step_at(&self, time: u64, paces: &[Option<Pace>], every: Nanos) -> (Option<Pace>, u64) {
        let steps = time.saturating_sub(self.began) / every.get().max(1);
        (paces[(steps % paces.len() as u64) as usize], steps)
    }

    /// Advances to the next step with a rate.
    fn skip_silence(&mut self) {
        let Pattern::Steps { paces, every } = &self.pattern else { return };
        for _ in 0..paces.len() {
            let (None, steps) = self.step_at(self.time.at().get(), paces, *every) else { return };
            self.time = ExactTime::new(Instant::new(self.began + (steps + 1) * every.get()));
        }
    }

    fn replay(&mut self, again: bool) {
        let count = self.recorded.len() as u64;
        let position = self.sent % count;
        if position == 0 {
            // The pause between two rounds equals the mean gap between packets.
            let last = self.recorded.last().map_or(0, |packet| packet.after.get());
            self.began += (last + last / (count - 1).max(1)).max(1);
            if !again {
                self.time = ExactTime::new(Instant::new(u64::MAX));
                return;
            }
        }
        // If the times of a capture decrease, packets keep their order.
        let at = (self.began + self.recorded[position as usize].after.get()).max(self.time.at().get());
        self.time = ExactTime::new(Instant::new(at));
    }

    /// The gap between this packet and the next.
    fn gap_after(&self, number: u64) -> (u64, u64) {
        if let Some(gap) = self.gap {
            return gap;
        }
        let size = match &self.pattern {
            Pattern::Replay { .. } => {
                self.recorded[(number % self.recorded.len() as u64) as usize].frame.len() as u64 + 4
            }
            _ => self.sizes[(number % self.sizes.len() as u64) as usize],
        };
        self.pace_at(self.time.at().get()).gap(size)
    }

    fn mean_gap(&self) -> (u64, u64) {
        match &self.pattern {
            Pattern::Replay { .. } => (1, 1),
            _ => self.pace_at(self.time.at().get()).gap(self.sizes.iter().sum::<u64>() / self.sizes.len() as u64),
        }
    }

    fn pace_at(&self, time: u64) -> Pace {
        match &self.pattern {
            Pattern::Steps { paces, every } => {
                let pace = self.step_at(time, paces, *every).0;
                pace.or(paces.iter().copied().flatten().next()).unwrap_or(Pace::Packets(PacketRate::pps(1)))
            }
            Pattern::Constant(pace) | Pattern::Poisson(pace) | Pattern::OnOff { pace, .. } => *pace,
            Pattern::Ramp { from, to, step, every, rise } => match time.checked_sub(rise.get()) {
                None => *from,
                Some(past) => from.towards(*to, *step, 1 + past / every.get().max(1)),
            },
            Pattern::Replay { pace, .. } => pace.unwrap_or(Pace::Packets(PacketRate::pps(1))),
        }
    }

    /// A random gap with this mean, in whole nanoseconds. The random addend makes the rounding unbiased.
    fn exponential(&mut self, (part, whole): (u64, u64)) -> u64 {
        (part as f64 / whole as f64 * self.chance.exponential() + self.chance.unit()) as u64
    }

    fn span(&mut self, mean: Nanos, random: bool) -> u64 {
        if random { (mean.get() as f64 * self.chance.exponential()) as u64 + 1 } else { mean.get().max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(law: Pattern, until: u64) -> Schedule {
        Schedule::new(law, vec![64], (0, until), false, RandomStream::new(5, "s"), Arc::from([]))
    }

    fn times(mut schedule: Schedule) -> Vec<u64> {
        std::iter::from_fn(|| Some(schedule.next()).filter(|&at| at < u64::MAX).inspect(|_| _ = schedule.advance()))
            .collect()
    }

    fn pace(text: &str) -> Pace {
        text.parse().unwrap()
    }

    #[test]
    fn constant_source_sends_evenly_until_stop() {
        assert_eq!(
            times(schedule(Pattern::Constant(pace("4pps")), SECOND)),
            [0, SECOND / 4, SECOND / 2, SECOND * 3 / 4]
        );
        assert_eq!(times(schedule(Pattern::Constant(pace("3pps")), SECOND)).last(), Some(&666_666_666));
        // 64 bytes are 512 bits.
        assert_eq!(times(schedule(Pattern::Constant(pace("512kbit")), SECOND)).len(), 1000);
    }

    #[test]
    fn bit_rate_source_spaces_packets_by_size() {
        let sizes = vec![125, 250];
        let law = Pattern::Constant(pace("1mbit"));
        let source = Schedule::new(law, sizes, (0, 5_000_000), false, RandomStream::new(0, ""), Arc::from([]));
        assert_eq!(times(source), [0, 1_000_000, 3_000_000, 4_000_000]);
    }

    #[test]
    fn a_staggered_source_begins_within_its_first_gap_and_stays_even() {
        let law = Pattern::Constant(pace("1kpps"));
        let source = Schedule::new(law, vec![64], (0, SECOND), true, RandomStream::new(9, "phase"), Arc::from([]));
        let times = times(source);
        assert!(times[0] > 0 && times[0] < 1_000_000);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    }

    #[test]
    fn a_poisson_source_has_the_mean_and_the_variance_of_its_rate() {
        let times = times(schedule(Pattern::Poisson(pace("100kpps")), 10 * SECOND));
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // A million draws: within three standard errors.
        assert!((mean / 10_000.0 - 1.0).abs() < 0.003, "{mean}");
        assert!((variance / 1e8 - 1.0).abs() < 0.01, "{variance}");
        // Counts per millisecond are Poisson too: their variance equals their mean.
        let mut counts = vec![0f64; 10_000];
        times.iter().for_each(|at| counts[(at / 1_000_000) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 1e4;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((variance / mean - 1.0).abs() < 0.05, "{variance} {mean}");
    }

    #[test]
    fn an_on_off_source_sends_while_it_is_on() {
        let spans = (Nanos::millis(2), Nanos::millis(8));
        let law = Pattern::OnOff { pace: pace("1kpps"), spans, random: false };
        let millis: Vec<u64> = times(schedule(law, 30_000_000)).iter().map(|at| at / 1_000_000).collect();
        assert_eq!(millis, [0, 1, 10, 11, 20, 21]);
        let law = Pattern::OnOff { pace: pace("100kpps"), spans, random: true };
        let sent = times(schedule(law, 100 * SECOND)).len() as f64;
        assert!((sent / 2_000_000.0 - 1.0).abs() < 0.05, "{sent}");
    }

    #[test]
    fn a_ramp_rises_in_steps() {
        let (from, to, step) = (pace("10pps"), pace("40pps"), pace("20pps"));
        let law = Pattern::Ramp { from, to, step, every: Nanos::secs(1), rise: Nanos::secs(1) };
        let times = times(schedule(law, 4 * SECOND));
        let in_second = |n: u64| times.iter().filter(|&at| at / SECOND == n).count();
        assert_eq!([0, 1, 2, 3].map(in_second), [10, 30, 40, 40]);
    }

    #[test]
    fn steps_follow_each_other_and_begin_again() {
        let paces = vec![None, Some(pace("2pps")), None, Some(pace("4pps"))];
        let times = times(schedule(Pattern::Steps { paces, every: Nanos::secs(1) }, 6 * SECOND));
        let in_second = |n: u64| times.iter().filter(|&at| at / SECOND == n).count();
        assert_eq!([0, 1, 2, 3, 4, 5].map(in_second), [0, 2, 0, 4, 0, 2]);
        assert_eq!((times[0], times[2]), (SECOND, 3 * SECOND));
    }

    #[test]
    fn replay_uses_recorded_times_and_may_repeat() {
        let packets = [0, 10, 5, 40].map(|after| CapturedPacket { after: Nanos::new(after), frame: vec![0; 60] });
        let replay = |pace, again, until| {
            let law = Pattern::Replay { file: "x".into(), pace, again };
            times(Schedule::new(
                law,
                vec![64],
                (100, until),
                false,
                RandomStream::new(0, ""),
                Arc::from(packets.clone()),
            ))
        };
        assert_eq!(replay(None, false, 1000), [100, 110, 110, 140]);
        assert_eq!(replay(None, true, 220), [100, 110, 110, 140, 153, 163, 163, 193, 206, 216, 216]);
        assert_eq!(replay(Some(pace("10mpps")), false, 1000), [100, 200, 300, 400]);
    }
}
