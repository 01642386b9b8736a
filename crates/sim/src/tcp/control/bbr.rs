//! A model of BBR, version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00): send at the highest rate seen delivered, keep twice the bandwidth-delay product
//! under way at most, and look now and then whether there is more of either. Losses are hardly a sign of anything.

use super::{Cause, Control, Progress};
use crate::tcp::Settings;
use units::{Instant, Nanos};

/// 2/ln 2: the least gain that doubles the rate with each round trip.
const HIGH: f64 = 2.885;
/// Gains of a round trip each: more, drain what that left in the queue, then as fast as it goes.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips for which a rate seen is believed.
const ROUNDS: usize = 10;
/// How long a round-trip time is believed, how long the queue is kept empty to measure another, and with how many packets.
const BELIEVED: Nanos = Nanos::secs(10);
const PROBE: Nanos = Nanos::millis(200);
const FEW: f64 = 4.0;
/// Sent a little slower than delivered, so that queues go away.
const MARGIN: f64 = 0.99;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    /// In this part of the cycle.
    Bandwidth(usize),
    /// Until then, once few enough are under way; and a round trip at least.
    RoundTrip(Option<(Instant, u64)>),
}

/// The model.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: State,
    window: f64,
    initial: f64,
    /// The highest rate of each of the last rounds, packets per second; the round that is going on is `round % ROUNDS`.
    rates: [f64; ROUNDS],
    round: usize,
    /// The round is over when a packet is delivered that was sent after so many had been.
    round_end: u64,
    shortest: Nanos,
    measured: Instant,
    /// The highest rate when it last rose by a quarter, and round trips since.
    plateau: (f64, u32),
    full: bool,
    turned: Instant,
    /// The window before it was taken down for a while.
    before: f64,
    /// While losses are made up for: no more is sent than delivered until the round trip is over.
    conserve: bool,
    lost: bool,
}

impl Bbr {
    /// With the initial window of `settings`.
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
            full: false,
            turned: Instant::START,
            before: 0.0,
            conserve: false,
            lost: false,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// So many times what fills the path, in packets; nothing while that is not known.
    fn path(&self, gain: f64) -> Option<f64> {
        let known = self.shortest < Nanos::MAX && self.rate() > 0.0;
        known.then(|| self.rate() * self.shortest.as_secs_f64() * gain)
    }

    /// Takes the rate in.
    fn measure(&mut self, progress: &Progress) {
        let Some(sample) = progress.delivery else { return };
        let over = sample.before >= self.round_end;
        if over {
            self.round_end = sample.total;
            self.round += 1;
            self.rates[self.round % ROUNDS] = 0.0;
            self.conserve = false;
        }
        let rate = sample.packets as f64 / sample.took.as_secs_f64();
        if sample.took > Nanos::ZERO && (!sample.idle || rate > self.rate()) {
            let best = &mut self.rates[self.round % ROUNDS];
            *best = best.max(rate);
        }
        if over && !sample.idle && !self.full {
            // The pipe is full when three round trips have not brought a quarter more.
            let rate = self.rate();
            if rate >= self.plateau.0 * 1.25 {
                self.plateau = (rate, 0);
            } else {
                self.plateau.1 += 1;
                self.full = self.plateau.1 >= 3;
            }
        }
    }

    fn turn(&mut self, progress: &Progress) {
        let under_way = progress.in_flight.saturating_sub(progress.delivered) as f64;
        match self.state {
            State::Startup if self.full => self.state = State::Drain,
            State::Drain if self.path(1.0).is_some_and(|path| under_way <= path) => {
                // Anywhere in the cycle but where it drains; always in the same place, for a model has no dice.
                (self.state, self.turned) = (State::Bandwidth(2), progress.now);
            }
            State::Bandwidth(part) => {
                let gain = CYCLE[part];
                let passed = progress.now.since(self.turned) > self.shortest;
                let next = match gain {
                    gain if gain > 1.0 => {
                        passed && (self.lost || self.path(gain).is_some_and(|path| progress.in_flight as f64 >= path))
                    }
                    gain if gain < 1.0 => passed || self.path(1.0).is_some_and(|path| under_way <= path),
                    _ => passed,
                };
                if next {
                    (self.state, self.turned) = (State::Bandwidth((part + 1) % CYCLE.len()), progress.now);
                    self.lost = false;
                }
            }
            State::RoundTrip(None) if under_way <= FEW => {
                let total = progress.delivery.map_or(0, |sample| sample.total);
                self.state = State::RoundTrip(Some((progress.now + PROBE, total)));
            }
            State::RoundTrip(Some((until, total)))
                if progress.now >= until && progress.delivery.is_some_and(|sample| sample.before >= total) =>
            {
                (self.measured, self.turned) = (progress.now, progress.now);
                self.window = self.window.max(self.before);
                self.state = if self.full { State::Bandwidth(2) } else { State::Startup };
            }
            _ => {}
        }
    }

    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (HIGH, HIGH),
            State::Drain => (1.0 / HIGH, HIGH),
            State::Bandwidth(part) => (CYCLE[part], 2.0),
            State::RoundTrip(_) => (1.0, 1.0),
        }
    }
}

impl Control for Bbr {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        f64::INFINITY
    }

    fn acknowledged(&mut self, progress: &Progress) {
        self.measure(progress);
        let old = self.shortest < Nanos::MAX && progress.now.since(self.measured) > BELIEVED;
        if let Some(rtt) = progress.rtt
            && (rtt <= self.shortest || old)
        {
            (self.shortest, self.measured) = (rtt, progress.now);
        }
        if old && !matches!(self.state, State::RoundTrip(_)) {
            self.before = self.before.max(self.window);
            self.state = State::RoundTrip(None);
        }
        self.turn(progress);
        let delivered = progress.delivered as f64;
        if self.conserve && progress.recovering {
            let under_way = progress.in_flight.saturating_sub(progress.delivered) as f64;
            self.window = self.window.max(under_way + delivered);
        } else {
            // Three packets more, for acknowledgements come in batches.
            match self.path(self.gains().1).map(|path| path + 3.0) {
                Some(target) if self.full => self.window = (self.window + delivered).min(target),
                Some(target) if self.window >= target => {}
                _ => self.window += delivered,
            }
        }
        self.window = self.window.max(FEW);
        if matches!(self.state, State::RoundTrip(_)) {
            self.window = self.window.min(FEW);
        } else if !progress.recovering {
            self.before = 0.0;
        }
    }

    fn congested(&mut self, _: Instant, cause: Cause, in_flight: u64) {
        self.lost = true;
        self.before = self.before.max(self.window);
        match cause {
            Cause::Timeout => self.window = 1.0,
            // Packets are conserved for a round trip, then the model says again how many there may be.
            Cause::Loss => {
                self.window = (in_flight as f64).max(FEW);
                self.conserve = true;
            }
            Cause::Mark => {}
        }
    }

    fn recovered(&mut self, _: Instant) {
        self.window = self.window.max(self.before);
        self.conserve = false;
    }

    fn restart(&mut self, _: Instant, _: f64) {}

    fn gap(&self) -> Option<Nanos> {
        // Before anything is known, as if a round trip took a millisecond.
        let rate = if self.rate() > 0.0 { self.rate() * MARGIN } else { self.initial / 1e-3 };
        Some(Nanos::new((1e9 / (rate * self.gains().0)) as u64))
    }

    fn rules_recovery(&self) -> bool {
        true
    }

    fn wants_delivery(&self) -> bool {
        true
    }
}
