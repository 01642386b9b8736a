//! What a sender does: which packet goes next, and when; what acknowledgements and its timer mean.

use super::control::{Cause, Control, Progress};
use super::newreno::{NewReno, Verdict};
use super::rtt::Rtt;
use super::settings::{Restart, Settings};
use super::{Ack, Segment};
use units::{Instant, Nanos};

/// The sending end of one connection.
///
/// Call [`Sender::next`] until it has nothing more after each of [`Sender::offer`], [`Sender::acknowledge`] and
/// [`Sender::expire`]; the latter when [`Sender::timer`] says so.
#[derive(Debug)]
pub struct Sender {
    settings: Settings,
    control: Box<dyn Control>,
    rtt: Rtt,
    losses: NewReno,
    /// The first packet that is not acknowledged.
    first: u64,
    /// The next to be sent; after a time-out one that has been sent before.
    next: u64,
    /// The first that has never been sent.
    fresh: u64,
    /// The first that the application does not have.
    offered: u64,
    /// The first is to be sent again before anything else.
    repeat: bool,
    /// When the first is given up, if nothing comes; [`Instant::FAR`] where nothing is outstanding.
    due: Instant,
    /// When the last packet was sent, and the last one acknowledged.
    sent: Instant,
    heard: Instant,
    /// No packet before this, where the control spaces them, and whether one waits for it.
    spaced: Instant,
    waits: bool,
    /// Whether the window has held back packets since this packet was sent.
    full: bool,
    /// Marks of packets before this one have been reacted to.
    reacted: u64,
    /// A round trip is over when this packet is acknowledged.
    round: u64,
    told: Told,
}

/// What has happened to a sender so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Packets sent, again or for the first time.
    pub sent: u64,
    /// Packets sent again.
    pub again: u64,
    /// Times that losses were found out without waiting for the timer.
    pub recoveries: u64,
    /// Times that the timer expired.
    pub timeouts: u64,
    /// Times that marks made the window smaller.
    pub marks: u64,
    /// Times that it began anew after a silence.
    pub restarts: u64,
}

impl Sender {
    /// A sender whose application has nothing yet.
    pub fn new(settings: Settings, control: Box<dyn Control>) -> Sender {
        Sender {
            rtt: Rtt::new(&settings),
            losses: NewReno::new(settings.limited_transmit),
            control,
            settings,
            first: 0,
            next: 0,
            fresh: 0,
            offered: 0,
            repeat: false,
            due: Instant::FAR,
            sent: Instant::START,
            heard: Instant::START,
            spaced: Instant::START,
            waits: false,
            full: false,
            reacted: 0,
            round: 0,
            told: Told::default(),
        }
    }

    /// The application has so many packets more; [`u64::MAX`]: it never ends.
    pub fn offer(&mut self, _now: Instant, packets: u64) {
        self.offered = self.offered.saturating_add(packets);
    }

    /// How many packets may be outstanding now.
    #[inline]
    fn room(&self) -> u64 {
        let window = (self.control.window() as u64).max(1) + self.losses.extra();
        window.min(self.settings.receive_window)
    }

    /// The packet to be sent now, if there is one. It counts as sent.
    #[inline]
    pub fn next(&mut self, now: Instant) -> Option<Segment> {
        self.waits = false;
        if !self.repeat {
            if self.next >= self.offered {
                return None;
            }
            if self.first == self.fresh && self.fresh > 0 {
                self.wake(now);
            }
            if self.next - self.first >= self.room() {
                self.full = true;
                return None;
            }
        }
        if let Some(gap) = self.control.gap() {
            if now < self.spaced {
                self.waits = true;
                return None;
            }
            self.spaced = now + gap;
        }
        let seq = if std::mem::take(&mut self.repeat) {
            self.next = self.next.max(self.first + 1);
            self.first
        } else {
            self.next += 1;
            self.next - 1
        };
        let again = seq < self.fresh;
        self.fresh = self.fresh.max(seq + 1);
        self.sent = now;
        self.told.sent += 1;
        self.told.again += u64::from(again);
        if self.due == Instant::FAR {
            self.due = now + self.rtt.timeout();
        }
        Some(Segment { seq, sent: now, again })
    }

    /// The first packet after nothing was outstanding: what was known of the path may be out of date.
    fn wake(&mut self, now: Instant) {
        let timeout = self.rtt.timeout();
        let initial = self.settings.initial_window as f64;
        let silent = |since: Instant| now.since(since) > timeout;
        let window = match self.settings.restart {
            Restart::AfterAcknowledged if silent(self.heard) => initial,
            Restart::AfterSent if silent(self.sent) => initial,
            Restart::Decay if silent(self.sent) => {
                let times = (now.since(self.sent).get() / timeout.get().max(1)).min(64);
                let halved = self.control.window() / (1u128 << times) as f64;
                halved.floor().max(initial)
            }
            _ => return,
        };
        self.told.restarts += 1;
        self.control.restart(now, window);
        // Once for a silence, also where this packet has to wait for its turn.
        (self.sent, self.heard) = (now, now);
    }

    /// An acknowledgement has come.
    #[inline]
    pub fn acknowledge(&mut self, now: Instant, ack: &Ack) {
        if ack.next > self.fresh {
            return; // of nothing that was ever sent
        }
        if ack.marked > 0 && self.settings.marks {
            self.marked(now, ack);
        }
        if ack.next > self.first {
            self.advance(now, ack);
        } else if ack.next == self.first && self.first < self.fresh && !ack.duplicate {
            let verdict = self.losses.duplicate(self.first, self.fresh);
            self.judge(now, verdict);
        }
    }

    fn marked(&mut self, now: Instant, ack: &Ack) {
        if self.control.counts_marks() || !self.losses.open() || ack.next <= self.reacted {
            return;
        }
        // Once for the packets of one window (RFC 3168, 6.1.2).
        self.reacted = self.fresh;
        self.told.marks += 1;
        self.control.congested(now, Cause::Mark, self.in_flight());
    }

    #[inline]
    fn advance(&mut self, now: Instant, ack: &Ack) {
        let delivered = ack.next - self.first;
        let in_flight = self.in_flight();
        self.first = ack.next;
        self.next = self.next.max(self.first);
        self.repeat = false;
        self.heard = now;
        let took = now.since(ack.echo);
        let round = ack.next >= self.round;
        if round {
            self.round = self.fresh;
        }
        self.rtt.sample(took, round);
        let verdict = self.losses.advance(ack.next, delivered);
        // RFC 6582, 3.2 step 3: only the first of several partial acknowledgements starts the timer anew.
        if verdict != Verdict::Partial(false) {
            self.due = if self.first < self.fresh { now + self.rtt.timeout() } else { Instant::FAR };
        }
        self.judge(now, verdict);
        let slow = self.control.window() < self.control.threshold();
        self.control.acknowledged(&Progress {
            now,
            delivered,
            marked: u64::from(ack.marked),
            in_flight,
            full: self.full || slow && (2 * in_flight) as f64 > self.control.window(),
            recovering: self.losses.recovering(),
            next: self.first,
            sent: self.fresh,
            rtt: Some(took),
            smoothed: self.rtt.smoothed(),
        });
        self.full = false;
    }

    #[inline]
    fn judge(&mut self, now: Instant, verdict: Verdict) {
        match verdict {
            Verdict::Fine => {}
            Verdict::Lost => {
                self.told.recoveries += 1;
                self.repeat = true;
                self.control.congested(now, Cause::Loss, self.in_flight());
                self.due = now + self.rtt.timeout();
            }
            Verdict::Partial(_) => self.repeat = true,
            Verdict::Recovered => self.control.recovered(now),
        }
    }

    /// When it wants to be looked at again: [`Sender::expire`], then [`Sender::next`]. It is often later than the last time it
    /// was asked, and sooner only after something was sent.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        let at = if self.waits { self.due.min(self.spaced) } else { self.due };
        (at < Instant::FAR).then_some(at)
    }

    /// The time that [`Sender::timer`] gave has come. Does nothing before.
    pub fn expire(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        self.told.timeouts += 1;
        // A packet that the timer gives up a second time says nothing new of the path (RFC 5681, 3.1).
        if !self.rtt.backed_off() {
            self.control.congested(now, Cause::Timeout, self.in_flight());
        }
        self.losses.expired(self.fresh);
        self.rtt.back_off();
        // From the first that is missing on, everything again (RFC 5681, 3.1; RFC 6298, 5.4).
        self.next = self.first;
        self.repeat = false;
        self.due = now + self.rtt.timeout();
    }

    /// Packets under way, as far as it knows.
    pub fn in_flight(&self) -> u64 {
        self.next - self.first
    }

    /// Packets acknowledged, all before which are as well.
    pub fn acknowledged(&self) -> u64 {
        self.first
    }

    /// Packets that the application has offered so far.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// The congestion window, in packets.
    pub fn window(&self) -> f64 {
        self.control.window()
    }

    /// The slow start threshold, in packets.
    pub fn threshold(&self) -> f64 {
        self.control.threshold()
    }

    /// The smoothed round-trip time, as its own clock measures it.
    pub fn smoothed_rtt(&self) -> Option<Nanos> {
        self.rtt.smoothed()
    }

    /// The last round-trip time, and the shortest.
    pub fn rtt(&self) -> Option<(Nanos, Nanos)> {
        Some((self.rtt.latest()?, self.rtt.shortest()?))
    }

    /// How long it waits for an acknowledgement now.
    pub fn timeout(&self) -> Nanos {
        self.rtt.timeout()
    }

    /// Whether it makes up for losses.
    pub fn recovering(&self) -> bool {
        !self.losses.open()
    }

    /// Whether its packets may be marked in place of being dropped.
    pub fn takes_marks(&self) -> bool {
        self.settings.marks
    }

    /// What has happened so far.
    pub fn told(&self) -> Told {
        self.told
    }
}
