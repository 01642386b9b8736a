//! A sender decides which packet to send next and when, and handles acknowledgements and its timer.

use super::control::{AckSample, CongestionCause, CongestionControl};
use super::delivery::Delivery;
use super::frames::{SendState, SuperFrames};
use super::newreno::{AckOutcome, NewReno};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::settings::{IdleRestart, Settings};
use super::{Ack, TcpSegment};
use units::{Instant, Nanos};

/// The sending end of one connection.
///
/// After each call of [`Sender::offer`], [`Sender::acknowledge`] and [`Sender::expire`], call [`Sender::next`] until it returns none. Call
/// [`Sender::expire`] at the time of [`Sender::timer`].
// Large: the variables of a TCP sender, by their names in RFC 9293, RFC 5681 and RFC 6675.
#[derive(Debug)]
pub struct Sender {
    settings: Settings,
    control: Box<dyn CongestionControl>,
    rtt: Rtt,
    losses: LossDetection,
    delivery: Option<Box<Delivery>>,
    /// The first unacknowledged packet.
    first: u64,
    /// The next packet to send; after a timeout it may be a retransmission.
    next: u64,
    /// The first packet that was never sent.
    fresh: u64,
    /// The end of the application's data.
    offered: u64,
    /// True if packet `first` must be retransmitted before anything else.
    repeat: bool,
    /// The retransmission timer of packet `first`; [`Instant::NEVER`] if nothing is outstanding.
    due: Instant,
    /// The times of the last transmission and of the last new acknowledgement.
    sent_at: Instant,
    acknowledged_at: Instant,
    /// The time at which an arrival was last reported.
    progressed: Instant,
    /// For controls that pace packets: the earliest time of the next one, and true if one waits for it.
    spaced: Instant,
    is_pacing: bool,
    /// True if the window has held back packets since the last progress.
    window_limited: bool,
    /// The sender has reacted to marks of packets before this one.
    reacted: u64,
    /// A round trip ends when this packet is acknowledged.
    round: u64,
    /// The division into super-frames, if it is modelled.
    frames: Option<Box<SuperFrames>>,
    counters: SenderCounters,
}

/// The mechanism of loss detection and recovery.
#[derive(Debug)]
enum LossDetection {
    Duplicates(NewReno),
    Selective(Box<Scoreboard>),
}

impl LossDetection {
    fn is_recovering(&self) -> bool {
        match self {
            LossDetection::Duplicates(losses) => losses.is_recovering(),
            LossDetection::Selective(board) => board.is_recovering(),
        }
    }

    fn is_open(&self) -> bool {
        match self {
            LossDetection::Duplicates(losses) => losses.is_open(),
            LossDetection::Selective(board) => board.is_open(),
        }
    }
}

/// The counters of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Packets sent, including retransmissions.
    pub sent: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Losses detected without the timer, by recovery episodes.
    pub recoveries: u64,
    /// Expirations of the timer.
    pub timeouts: u64,
    /// Reductions of the window because of marks.
    pub marks: u64,
    /// Restarts after a silence.
    pub restarts: u64,
}

impl Sender {
    /// A sender whose application has no data yet.
    pub fn new(settings: Settings, control: Box<dyn CongestionControl>) -> Sender {
        let losses = match settings.selective {
            true => LossDetection::Selective(Box::default()),
            false => LossDetection::Duplicates(NewReno::new(settings.limited_transmit)),
        };
        Sender {
            rtt: Rtt::new(&settings),
            losses,
            delivery: control.needs_delivery_rate().then(Box::default),
            control,
            settings,
            first: 0,
            next: 0,
            fresh: 0,
            offered: 0,
            repeat: false,
            due: Instant::NEVER,
            sent_at: Instant::START,
            acknowledged_at: Instant::START,
            progressed: Instant::START,
            spaced: Instant::START,
            is_pacing: false,
            window_limited: false,
            reacted: 0,
            round: 0,
            frames: settings.super_frames.then(Box::default),
            counters: SenderCounters::default(),
        }
    }

    /// The application has `packets` more packets; [`u64::MAX`] makes it endless.
    pub fn offer(&mut self, _now: Instant, packets: u64) {
        self.offered = self.offered.saturating_add(packets);
    }

    /// The number of packets that may be in flight now.
    #[inline]
    fn room(&self) -> u64 {
        let window = (self.control.window() as u64).max(1);
        match &self.losses {
            LossDetection::Duplicates(losses) => window + losses.extra(),
            LossDetection::Selective(board) if board.is_recovering() && !self.control.controls_recovery() => {
                board.allowed()
            }
            LossDetection::Selective(_) => window,
        }
    }

    /// The packet to send now, if there is one. It counts as sent.
    #[inline]
    pub fn next(&mut self, now: Instant) -> Option<TcpSegment> {
        self.is_pacing = false;
        let in_flight = self.in_flight();
        // The fast retransmit ignores the window.
        let full = !self.repeat && in_flight >= self.room();
        let fresh = self.next < self.offered && self.next - self.first < self.settings.receive_window;
        // Nothing is outstanding: check for a restart after a silence.
        if self.first == self.fresh && self.fresh > 0 && fresh {
            self.restart_if_idle(now);
        }
        let gap = self.control.pacing_gap();
        if full || gap.is_some() && now < self.spaced {
            let wanted = fresh || !self.losses.is_open();
            self.window_limited |= full && wanted;
            self.is_pacing = !full && wanted;
            return None;
        }
        let moment = SendState {
            now,
            first: self.first,
            room: self.room().saturating_sub(in_flight),
            window: self.control.window(),
            threshold: self.control.threshold(),
            smoothed: self.rtt.smoothed(),
        };
        if let Some(frames) = &mut self.frames
            && self.losses.is_open()
            && frames.must_wait(&moment)
        {
            self.window_limited = true;
            return None;
        }
        let seq = self.choose(fresh)?;
        if let Some(gap) = gap {
            // At most one packet of delay is made up for, so that there are no bursts.
            self.spaced = self.spaced.max(now - gap) + gap;
        }
        if let Some(delivery) = &mut self.delivery {
            delivery.sent(now, seq, in_flight);
            if self.next >= self.offered {
                delivery.idle(in_flight + 1);
            }
        }
        let again = seq < self.fresh;
        let pushed = match &mut self.frames {
            Some(frames) if !again => frames.send(seq, &moment),
            Some(frames) => {
                frames.record_retransmission(now);
                false
            }
            None => false,
        };
        self.fresh = self.fresh.max(seq + 1);
        self.sent_at = now;
        self.counters.sent += 1;
        self.counters.retransmitted += u64::from(again);
        if self.due == Instant::NEVER {
            self.due = now + self.rtt.timeout();
        }
        Some(TcpSegment { seq, sent: now, retransmitted: again, pushed })
    }

    /// The next packet: a lost one first, then a new one if the receiver has room.
    #[inline]
    fn choose(&mut self, fresh: bool) -> Option<u64> {
        if let LossDetection::Selective(board) = &mut self.losses {
            let seq = board.next_retransmission(self.first, self.fresh);
            if seq.is_some() || fresh {
                board.record_sent();
            }
            if seq.is_some() {
                return seq;
            }
        } else if std::mem::take(&mut self.repeat) {
            self.next = self.next.max(self.first + 1);
            return Some(self.first);
        }
        fresh.then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// The first packet after an idle time: the window may be outdated.
    fn restart_if_idle(&mut self, now: Instant) {
        let timeout = self.rtt.timeout();
        let initial = self.settings.initial_window as f64;
        let silent = |since: Instant| now.since(since) > timeout;
        let window = match self.settings.restart {
            IdleRestart::AfterAcknowledged if silent(self.acknowledged_at) => initial,
            IdleRestart::AfterSent if silent(self.sent_at) => initial,
            IdleRestart::Decay if silent(self.sent_at) => {
                // Capped, because a shift by more bits would overflow.
                let times = (now.since(self.sent_at).get() / timeout.get().max(1)).min(64);
                let halved = self.control.window() / (1u128 << times) as f64;
                halved.floor().max(initial)
            }
            _ => return,
        };
        self.counters.restarts += 1;
        self.control.restart(now, window);
        // Once for each silence, even if this packet must still wait.
        (self.sent_at, self.acknowledged_at) = (now, now);
    }

    /// Processes an acknowledgement.
    #[inline]
    pub fn acknowledge(&mut self, now: Instant, ack: &Ack) {
        if ack.next > self.fresh {
            return; // it acknowledges packets that were never sent
        }
        if ack.marked > 0 && self.settings.marks {
            self.handle_marks(now, ack);
        }
        let in_flight = self.in_flight();
        let advance = ack.next.saturating_sub(self.first);
        // Only acknowledgements that advance are measured: others echo an old timestamp (RFC 7323, 4.1).
        let took = (advance > 0).then(|| now.since(ack.echo));
        if let Some(took) = took {
            self.rtt.sample(took, ack.next >= self.round);
            if ack.next >= self.round {
                self.round = self.fresh;
            }
        }
        let (delivered, verdict) = self.detect_losses(ack);
        self.first = self.first.max(ack.next);
        self.next = self.next.max(self.first);
        if advance > 0 {
            self.repeat = false;
            self.acknowledged_at = now;
            // RFC 6582, 3.2 step 3: only the first of several partial acknowledgements restarts the timer.
            if verdict != AckOutcome::Partial(false) {
                self.due = if self.first < self.fresh { now + self.rtt.timeout() } else { Instant::NEVER };
            }
        }
        self.apply_outcome(now, verdict, in_flight);
        if delivered > 0 {
            self.progress(now, ack, delivered, in_flight, took);
        }
        if let LossDetection::Selective(board) = &mut self.losses
            && board.is_recovering()
        {
            let target = self.control.window() as u64;
            board.reduce(delivered, target, self.first, self.fresh, verdict == AckOutcome::Lost);
        }
    }

    /// Loss detection for an acknowledgement. Returns the number of newly arrived packets, and its meaning.
    #[inline]
    fn detect_losses(&mut self, ack: &Ack) -> (u64, AckOutcome) {
        let advance = ack.next.saturating_sub(self.first);
        match &mut self.losses {
            LossDetection::Selective(board) => {
                let delivery = &mut self.delivery;
                board.acknowledge(self.first, ack, self.fresh, |seq| {
                    if let Some(delivery) = delivery {
                        delivery.record_arrival(seq);
                    }
                })
            }
            LossDetection::Duplicates(losses) if advance > 0 => {
                if let Some(delivery) = &mut self.delivery {
                    delivery.record_arrival(ack.next - 1);
                }
                (advance, losses.advance(ack.next, advance))
            }
            LossDetection::Duplicates(losses)
                if ack.next == self.first && self.first < self.fresh && !ack.duplicate =>
            {
                (0, losses.duplicate(self.first, self.fresh))
            }
            LossDetection::Duplicates(_) => (0, AckOutcome::NoLoss),
        }
    }

    fn handle_marks(&mut self, now: Instant, ack: &Ack) {
        if self.control.counts_marks() || !self.losses.is_open() || ack.next <= self.reacted {
            return;
        }
        // Once per window of packets (RFC 3168, 6.1.2).
        self.reacted = self.fresh;
        self.counters.marks += 1;
        self.control.congested(now, CongestionCause::Mark, self.in_flight());
    }

    /// Reports progress to the congestion control.
    #[inline]
    fn progress(&mut self, now: Instant, ack: &Ack, delivered: u64, in_flight: u64, rtt: Option<Nanos>) {
        let slow = self.control.window() < self.control.threshold();
        let delivery = self.delivery.as_mut().and_then(|delivery| delivery.sample(now, delivered, self.first));
        self.control.acknowledged(&AckSample {
            now,
            before: std::mem::replace(&mut self.progressed, now),
            delivered,
            marked: u64::from(ack.marked),
            in_flight,
            // In slow start a window used by half counts as full, because it doubles with each round trip.
            window_limited: self.window_limited || slow && (2 * in_flight) as f64 > self.control.window(),
            recovering: self.losses.is_recovering(),
            growth_blocked: rtt.is_none() || self.losses.is_recovering(),
            next: self.first,
            sent: self.fresh,
            rtt,
            smoothed: self.rtt.smoothed(),
            delivery,
        });
        self.window_limited = false;
    }

    #[inline]
    fn apply_outcome(&mut self, now: Instant, verdict: AckOutcome, in_flight: u64) {
        match verdict {
            AckOutcome::NoLoss => {}
            AckOutcome::Lost => {
                self.counters.recoveries += 1;
                // The scoreboard chooses its retransmissions itself.
                self.repeat = matches!(self.losses, LossDetection::Duplicates(_));
                self.control.congested(now, CongestionCause::Loss, in_flight);
                self.due = now + self.rtt.timeout();
            }
            AckOutcome::Partial(_) => self.repeat = true,
            AckOutcome::Recovered => self.control.recovered(now),
        }
    }

    /// When [`Sender::expire`] and then [`Sender::next`] must be called. The time often moves later; it moves earlier only after a transmission.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        let at = if self.is_pacing { self.due.min(self.spaced) } else { self.due };
        (at < Instant::NEVER).then_some(at)
    }

    /// Runs the timer at the time of [`Sender::timer`]. Does nothing before that time.
    pub fn expire(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        self.counters.timeouts += 1;
        // A second timeout of the same packet is no new information about the path (RFC 5681, 3.1).
        if !self.rtt.backed_off() {
            self.control.congested(now, CongestionCause::Timeout, self.in_flight());
        }
        self.rtt.back_off();
        match &mut self.losses {
            // Everything from the first missing packet on is sent again (RFC 5681, 3.1; RFC 6298, 5.4).
            LossDetection::Duplicates(losses) => {
                losses.expired(self.fresh);
                self.next = self.first;
            }
            LossDetection::Selective(board) => board.expired(self.first, self.fresh),
        }
        self.repeat = false;
        self.due = now + self.rtt.timeout();
    }

    /// The sender's estimate of packets in flight.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        match &self.losses {
            LossDetection::Duplicates(_) => self.next - self.first,
            LossDetection::Selective(board) => board.in_flight(self.first, self.fresh),
        }
    }

    /// The number of packets acknowledged in order.
    pub fn acknowledged(&self) -> u64 {
        self.first
    }

    /// The number of packets that the application has offered so far.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// The congestion window, in packets. During recovery, the packets allowed in flight.
    pub fn window(&self) -> f64 {
        match &self.losses {
            LossDetection::Selective(board) if board.is_recovering() && !self.control.controls_recovery() => {
                board.allowed() as f64
            }
            _ => self.control.window(),
        }
    }

    /// The slow start threshold, in packets.
    pub fn threshold(&self) -> f64 {
        self.control.threshold()
    }

    /// The smoothed round-trip time, as measured by its own clock.
    pub fn smoothed_rtt(&self) -> Option<Nanos> {
        self.rtt.smoothed()
    }

    /// The last round-trip time, and the shortest.
    pub fn rtt(&self) -> Option<(Nanos, Nanos)> {
        Some((self.rtt.latest()?, self.rtt.shortest()?))
    }

    /// The current retransmission timeout.
    pub fn timeout(&self) -> Nanos {
        self.rtt.timeout()
    }

    /// True during recovery.
    pub fn is_recovering(&self) -> bool {
        !self.losses.is_open()
    }

    /// True if its packets are ECN-capable.
    pub fn is_ecn_capable(&self) -> bool {
        self.settings.marks
    }

    /// Its counters.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }
}
