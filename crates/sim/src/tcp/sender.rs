//! What a sender does: which packet goes next, and when; what acknowledgements and its timer mean.

use super::control::{Cause, Control, Progress};
use super::delivery::Delivery;
use super::frames::{Frames, Moment};
use super::newreno::{NewReno, Verdict};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::settings::{Restart, Settings};
use super::{Ack, Segment};
use units::{Instant, Nanos};

/// The sending end of one connection.
///
/// Call [`Sender::next`] until it has nothing more after each of [`Sender::offer`], [`Sender::acknowledge`] and
/// [`Sender::expire`]; the latter when [`Sender::timer`] says so.
// Large: the variables of a TCP sender, by their names in RFC 9293, RFC 5681 and RFC 6675.
#[derive(Debug)]
pub struct Sender {
    settings: Settings,
    control: Box<dyn Control>,
    rtt: Rtt,
    losses: Losses,
    delivery: Option<Box<Delivery>>,
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
    /// When something last was known to have come.
    progressed: Instant,
    /// No packet before this, where the control spaces them, and whether one waits for it.
    spaced: Instant,
    waits: bool,
    /// Whether the window has held back packets since this packet was sent.
    full: bool,
    /// Marks of packets before this one have been reacted to.
    reacted: u64,
    /// A round trip is over when this packet is acknowledged.
    round: u64,
    /// How packets are cut, where that is told.
    frames: Option<Box<Frames>>,
    told: Told,
}

/// How losses are found out, and made up for.
#[derive(Debug)]
enum Losses {
    Counted(NewReno),
    Selective(Box<Scoreboard>),
}

impl Losses {
    fn recovering(&self) -> bool {
        match self {
            Losses::Counted(losses) => losses.recovering(),
            Losses::Selective(board) => board.recovering(),
        }
    }

    fn open(&self) -> bool {
        match self {
            Losses::Counted(losses) => losses.open(),
            Losses::Selective(board) => board.open(),
        }
    }
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
        let losses = match settings.selective {
            true => Losses::Selective(Box::default()),
            false => Losses::Counted(NewReno::new(settings.limited_transmit)),
        };
        Sender {
            rtt: Rtt::new(&settings),
            losses,
            delivery: control.wants_delivery().then(Box::default),
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
            progressed: Instant::START,
            spaced: Instant::START,
            waits: false,
            full: false,
            reacted: 0,
            round: 0,
            frames: settings.super_frames.then(Box::default),
            told: Told::default(),
        }
    }

    /// The application has so many packets more; [`u64::MAX`]: it never ends.
    pub fn offer(&mut self, _now: Instant, packets: u64) {
        self.offered = self.offered.saturating_add(packets);
    }

    /// How many packets may be under way now.
    #[inline]
    fn room(&self) -> u64 {
        let window = (self.control.window() as u64).max(1);
        match &self.losses {
            Losses::Counted(losses) => window + losses.extra(),
            Losses::Selective(board) if board.recovering() && !self.control.rules_recovery() => board.allowed(),
            Losses::Selective(_) => window,
        }
    }

    /// The packet to be sent now, if there is one. It counts as sent.
    #[inline]
    pub fn next(&mut self, now: Instant) -> Option<Segment> {
        self.waits = false;
        let in_flight = self.in_flight();
        // After duplicates the first packet goes whatever the window says.
        let full = !self.repeat && in_flight >= self.room();
        let fresh = self.next < self.offered && self.next - self.first < self.settings.receive_window;
        if self.first == self.fresh && self.fresh > 0 && fresh {
            self.wake(now);
        }
        let gap = self.control.gap();
        if full || gap.is_some() && now < self.spaced {
            let wanted = fresh || !self.losses.open();
            self.full |= full && wanted;
            self.waits = !full && wanted;
            return None;
        }
        let moment = Moment {
            now,
            first: self.first,
            room: self.room().saturating_sub(in_flight),
            window: self.control.window(),
            threshold: self.control.threshold(),
            smoothed: self.rtt.smoothed(),
        };
        if let Some(frames) = &mut self.frames
            && self.losses.open()
            && frames.wait(&moment)
        {
            self.full = true;
            return None;
        }
        let seq = self.choose(fresh)?;
        if let Some(gap) = gap {
            // Late by no more than one, so that there are no bursts.
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
                frames.repeat(now);
                false
            }
            None => false,
        };
        self.fresh = self.fresh.max(seq + 1);
        self.sent = now;
        self.told.sent += 1;
        self.told.again += u64::from(again);
        if self.due == Instant::FAR {
            self.due = now + self.rtt.timeout();
        }
        Some(Segment { seq, sent: now, again, pushed })
    }

    /// What is sent next: what was lost, then what has never been sent, where the receiver has room.
    #[inline]
    fn choose(&mut self, fresh: bool) -> Option<u64> {
        if let Losses::Selective(board) = &mut self.losses {
            let seq = board.lost(self.first, self.fresh);
            if seq.is_some() || fresh {
                board.sent();
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
        let in_flight = self.in_flight();
        let advance = ack.next.saturating_sub(self.first);
        let took = (advance > 0).then(|| now.since(ack.echo));
        if let Some(took) = took {
            self.rtt.sample(took, ack.next >= self.round);
            if ack.next >= self.round {
                self.round = self.fresh;
            }
        }
        let (delivered, verdict) = self.lose(ack);
        self.first = self.first.max(ack.next);
        self.next = self.next.max(self.first);
        if advance > 0 {
            self.repeat = false;
            self.heard = now;
            // RFC 6582, 3.2 step 3: only the first of several partial acknowledgements starts the timer anew.
            if verdict != Verdict::Partial(false) {
                self.due = if self.first < self.fresh { now + self.rtt.timeout() } else { Instant::FAR };
            }
        }
        self.judge(now, verdict, in_flight);
        if delivered > 0 {
            self.progress(now, ack, delivered, in_flight, took);
        }
        if let Losses::Selective(board) = &mut self.losses
            && board.recovering()
        {
            let target = self.control.window() as u64;
            board.reduce(delivered, target, self.first, self.fresh, verdict == Verdict::Lost);
        }
    }

    /// What an acknowledgement says about losses: how many packets have come for the first time, and what it means.
    #[inline]
    fn lose(&mut self, ack: &Ack) -> (u64, Verdict) {
        let advance = ack.next.saturating_sub(self.first);
        match &mut self.losses {
            Losses::Selective(board) => {
                let delivery = &mut self.delivery;
                board.acknowledge(self.first, ack, self.fresh, |seq| {
                    if let Some(delivery) = delivery {
                        delivery.came(seq);
                    }
                })
            }
            Losses::Counted(losses) if advance > 0 => {
                if let Some(delivery) = &mut self.delivery {
                    delivery.came(ack.next - 1);
                }
                (advance, losses.advance(ack.next, advance))
            }
            Losses::Counted(losses) if ack.next == self.first && self.first < self.fresh && !ack.duplicate => {
                (0, losses.duplicate(self.first, self.fresh))
            }
            Losses::Counted(_) => (0, Verdict::Fine),
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

    /// Tells the control what has come.
    #[inline]
    fn progress(&mut self, now: Instant, ack: &Ack, delivered: u64, in_flight: u64, rtt: Option<Nanos>) {
        let slow = self.control.window() < self.control.threshold();
        let delivery = self.delivery.as_mut().and_then(|delivery| delivery.sample(now, delivered, self.first));
        self.control.acknowledged(&Progress {
            now,
            before: std::mem::replace(&mut self.progressed, now),
            delivered,
            marked: u64::from(ack.marked),
            in_flight,
            full: self.full || slow && (2 * in_flight) as f64 > self.control.window(),
            recovering: self.losses.recovering(),
            held: rtt.is_none() || self.losses.recovering(),
            next: self.first,
            sent: self.fresh,
            rtt,
            smoothed: self.rtt.smoothed(),
            delivery,
        });
        self.full = false;
    }

    #[inline]
    fn judge(&mut self, now: Instant, verdict: Verdict, in_flight: u64) {
        match verdict {
            Verdict::Fine => {}
            Verdict::Lost => {
                self.told.recoveries += 1;
                self.repeat = matches!(self.losses, Losses::Counted(_));
                self.control.congested(now, Cause::Loss, in_flight);
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
        self.rtt.back_off();
        match &mut self.losses {
            // From the first that is missing on, everything again (RFC 5681, 3.1; RFC 6298, 5.4).
            Losses::Counted(losses) => {
                losses.expired(self.fresh);
                self.next = self.first;
            }
            Losses::Selective(board) => board.expired(self.first, self.fresh),
        }
        self.repeat = false;
        self.due = now + self.rtt.timeout();
    }

    /// Packets under way, as far as it knows.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        match &self.losses {
            Losses::Counted(_) => self.next - self.first,
            Losses::Selective(board) => board.in_flight(self.first, self.fresh),
        }
    }

    /// Packets acknowledged, all before which are as well.
    pub fn acknowledged(&self) -> u64 {
        self.first
    }

    /// Packets that the application has offered so far.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// The congestion window, in packets; while losses are made up for, what may be under way by now.
    pub fn window(&self) -> f64 {
        match &self.losses {
            Losses::Selective(board) if board.recovering() && !self.control.rules_recovery() => board.allowed() as f64,
            _ => self.control.window(),
        }
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
