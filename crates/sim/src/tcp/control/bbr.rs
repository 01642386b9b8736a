//! A model of BBR, version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00). It sends at the highest measured delivery rate, keeps at most twice the bandwidth-delay product
//! in flight, and probes now and then for more of either. It hardly reacts to losses.

use super::{AckSample, CongestionCause, CongestionControl};
use crate::tcp::Settings;
use units::{Instant, Nanos};

/// 2/ln 2: the least gain that doubles the rate with each round trip.
const STARTUP_GAIN: f64 = 2.885;
/// The pacing gains, one per round trip: probe for more, drain the resulting queue, then cruise.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The window of the rate maximum, in round trips.
const ROUNDS: usize = 10;
/// How long a minimum round-trip time is valid, how long the queue is kept empty to measure another, and the window meanwhile.
const MIN_RTT_VALIDITY: Nanos = Nanos::secs(10);
const PROBE: Nanos = Nanos::millis(200);
const MIN_WINDOW: f64 = 4.0;
/// It sends slightly slower than the delivery rate, so that queues drain.
const MARGIN: f64 = 0.99;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    /// Probing bandwidth; the index into the cycle.
    Bandwidth(usize),
    /// Probing the round-trip time. The end is set once few enough packets are in flight; it is a round trip later at least.
    RoundTrip(Option<(Instant, u64)>),
}

/// The model.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: State,
    window: f64,
    initial: f64,
    /// The highest delivery rate of each of the last rounds, in packets per second. The current round is `round % ROUNDS`.
    rates: [f64; ROUNDS],
    round: usize,
    /// The round ends with the delivery of a packet that was sent after this many had been delivered.
    round_end: u64,
    shortest: Nanos,
    measured: Instant,
    /// The highest rate when it last rose by a quarter, and the round trips since.
    plateau: (f64, u32),
    pipe_full: bool,
    phase_start: Instant,
    /// The window before it was temporarily reduced.
    before: f64,
    /// Packet conservation after a loss: no more is sent than delivered until the end of the round trip.
    conserve: bool,
    lost: bool,
}

impl Bbr {
    /// Starts with the initial window of `settings`.
    pub fn new(settings: &Settings) -> Bbr {
        let initial = settings.initial_window as f64;
        Bbr {
            state: State::Startup,
            window: initial,
            initial,
            rates: [0.0; ROUNDS],
            round: 0,
            round_end: 0,
            shortest: Nanos::MAX,
            measured: Instant::START,
            plateau: (0.0, 0),
            pipe_full: false,
            phase_start: Instant::START,
            before: 0.0,
            conserve: false,
            lost: false,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The bandwidth-delay product times `gain`, in packets; none while it is unknown.
    fn bdp(&self, gain: f64) -> Option<f64> {
        let known = self.shortest < Nanos::MAX && self.rate() > 0.0;
        known.then(|| self.rate() * self.shortest.as_secs_f64() * gain)
    }

    /// Updates the delivery rate.
    fn measure(&mut self, progress: &AckSample) {
        let Some(sample) = progress.delivery else { return };
        let over = sample.before >= self.round_end;
        if over {
            self.round_end = sample.total;
            self.round += 1;
            self.rates[self.round % ROUNDS] = 0.0;
            self.conserve = false;
        }
        let rate = sample.packets as f64 / sample.took.as_secs_f64();
        if sample.took > Nanos::ZERO && (!sample.app_limited || rate > self.rate()) {
            let best = &mut self.rates[self.round % ROUNDS];
            *best = best.max(rate);
        }
        if over && !sample.app_limited && !self.pipe_full {
            // The pipe is full after three round trips without an increase by a quarter.
            let rate = self.rate();
            if rate >= self.plateau.0 * 1.25 {
                self.plateau = (rate, 0);
            } else {
                self.plateau.1 += 1;
                self.pipe_full = self.plateau.1 >= 3;
            }
        }
    }

    fn update_state(&mut self, progress: &AckSample) {
        let under_way = progress.in_flight.saturating_sub(progress.delivered) as f64;
        match self.state {
            State::Startup if self.pipe_full => self.state = State::Drain,
            State::Drain if self.bdp(1.0).is_some_and(|path| under_way <= path) => {
                // BBR starts at a random phase of the cycle except the draining one. The model always starts at the same phase.
                (self.state, self.phase_start) = (State::Bandwidth(2), progress.now);
            }
            State::Bandwidth(part) => {
                let gain = CYCLE[part];
                let passed = progress.now.since(self.phase_start) > self.shortest;
                let next = match gain {
                    gain if gain > 1.0 => {
                        passed && (self.lost || self.bdp(gain).is_some_and(|path| progress.in_flight as f64 >= path))
                    }
                    gain if gain < 1.0 => passed || self.bdp(1.0).is_some_and(|path| under_way <= path),
                    _ => passed,
                };
                if next {
                    (self.state, self.phase_start) = (State::Bandwidth((part + 1) % CYCLE.len()), progress.now);
                    self.lost = false;
                }
            }
            State::RoundTrip(None) if under_way <= MIN_WINDOW => {
                let total = progress.delivery.map_or(0, |sample| sample.total);
                self.state = State::RoundTrip(Some((progress.now + PROBE, total)));
            }
            State::RoundTrip(Some((until, total)))
                if progress.now >= until && progress.delivery.is_some_and(|sample| sample.before >= total) =>
            {
                (self.measured, self.phase_start) = (progress.now, progress.now);
                self.window = self.window.max(self.before);
                self.state = if self.pipe_full { State::Bandwidth(2) } else { State::Startup };
            }
            _ => {}
        }
    }

    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (STARTUP_GAIN, STARTUP_GAIN),
            State::Drain => (1.0 / STARTUP_GAIN, STARTUP_GAIN),
            State::Bandwidth(part) => (CYCLE[part], 2.0),
            State::RoundTrip(_) => (1.0, 1.0),
        }
    }
}

impl CongestionControl for Bbr {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        f64::INFINITY
    }

    fn acknowledged(&mut self, progress: &AckSample) {
        self.measure(progress);
        let old = self.shortest < Nanos::MAX && progress.now.since(self.measured) > MIN_RTT_VALIDITY;
        if let Some(rtt) = progress.rtt
            && (rtt <= self.shortest || old)
        {
            (self.shortest, self.measured) = (rtt, progress.now);
        }
        if old && !matches!(self.state, State::RoundTrip(_)) {
            self.before = self.before.max(self.window);
            self.state = State::RoundTrip(None);
        }
        self.update_state(progress);
        let delivered = progress.delivered as f64;
        if self.conserve && progress.recovering {
            let under_way = progress.in_flight.saturating_sub(progress.delivered) as f64;
            self.window = self.window.max(under_way + delivered);
        } else {
            // Three more packets, because acknowledgements arrive in batches.
            match self.bdp(self.gains().1).map(|path| path + 3.0) {
                Some(target) if self.pipe_full => self.window = (self.window + delivered).min(target),
                Some(target) if self.window >= target => {}
                _ => self.window += delivered,
            }
        }
        self.window = self.window.max(MIN_WINDOW);
        if matches!(self.state, State::RoundTrip(_)) {
            self.window = self.window.min(MIN_WINDOW);
        } else if !progress.recovering {
            self.before = 0.0;
        }
    }

    fn congested(&mut self, _: Instant, cause: CongestionCause, in_flight: u64) {
        self.lost = true;
        self.before = self.before.max(self.window);
        match cause {
            CongestionCause::Timeout => self.window = 1.0,
            // Packet conservation for one round trip; after that the model sets the window again.
            CongestionCause::Loss => {
                self.window = (in_flight as f64).max(MIN_WINDOW);
                self.conserve = true;
            }
            CongestionCause::Mark => {}
        }
    }

    fn recovered(&mut self, _: Instant) {
        self.window = self.window.max(self.before);
        self.conserve = false;
    }

    fn restart(&mut self, _: Instant, _: f64) {}

    fn pacing_gap(&self) -> Option<Nanos> {
        // Before the first measurement, a round trip of a millisecond is assumed.
        let rate = if self.rate() > 0.0 { self.rate() * MARGIN } else { self.initial / 1e-3 };
        Some(Nanos::new((1e9 / (rate * self.gains().0)) as u64))
    }

    fn controls_recovery(&self) -> bool {
        true
    }

    fn needs_delivery_rate(&self) -> bool {
        true
    }
}
