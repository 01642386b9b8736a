//! The agreement of both ends of a wire: whether they send batches, and on which terms (spec P-39).
//!
//! Each end sends a hello every [`INTERVAL`], and at once if the other end has not heard it yet. An end sends batches while the other end says that it
//! has heard this session and can use its terms. It accepts batches of the session that it has heard itself. A frame of a former session is refused,
//! so a restart of either end begins with a new agreement. Nothing depends on the clock of the other end.

use super::batch::MOST_BITMAP;
use super::message::{Hello, Terms};
use packet::port::{DfqFallback, DfqWireState};
use units::{Instant, Mac, Nanos};

/// The interval between hellos.
pub(super) const INTERVAL: Nanos = Nanos::secs(1);
/// Without a hello for this long the other end is gone: three are lost, and a little time.
pub(super) const TIMEOUT: Nanos = Nanos::millis(3500);
/// The least interval between answers, so that hellos cannot flood the link.
const ANSWER_INTERVAL: Nanos = Nanos::millis(50);
/// The shortest message that both ends must be able to receive: a full map message fits.
const SHORTEST_FRAME: u16 = 256;

/// The other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    pub mac: Mac,
    pub session: u32,
    pub terms: Terms,
    heard_at: Instant,
}

/// The effects of a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct HelloOutcome {
    /// The other end has a new session: its batches and its flow map begin anew.
    pub is_new_session: bool,
    /// It needs a hello now.
    pub answer: bool,
}

/// One end's view of the agreement.
#[derive(Debug)]
pub(super) struct Session {
    id: u32,
    own: Terms,
    peer: Option<Peer>,
    /// The session that was heard last, also if the other end is gone.
    last_heard: Option<(Mac, u32)>,
    state: DfqWireState,
    /// The state that was reported last.
    reported: DfqWireState,
    /// The begin of the search; `None` before the first check.
    searches_since: Option<Instant>,
    hello_due: Instant,
    answer_due: Instant,
}

impl Session {
    /// A session with this number, which has to differ from the last one of the port.
    pub fn new(id: u32, own: Terms) -> Session {
        let (state, begin) = (DfqWireState::Searching, Instant::START);
        // Zero in a hello means that no session was heard.
        Session {
            id: id.max(1),
            own,
            peer: None,
            last_heard: None,
            state,
            reported: state,
            searches_since: None,
            hello_due: begin,
            answer_due: begin,
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its terms.
    pub fn own(&self) -> &Terms {
        &self.own
    }

    /// The state of the wire.
    pub fn state(&self) -> DfqWireState {
        self.state
    }

    /// The other end, if one is known.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// The other end, while it accepts batches.
    #[inline]
    pub fn receiver(&self) -> Option<&Peer> {
        self.peer.as_ref().filter(|_| self.state == DfqWireState::Multiplexed)
    }

    /// True if messages of this session are accepted from `mac`.
    #[inline]
    pub fn accepts(&self, mac: Mac, session: u32) -> bool {
        self.peer.is_some_and(|peer| peer.mac == mac && peer.session == session && self.mismatch(&peer.terms).is_none())
    }

    /// Why batches cannot be exchanged on the terms of both ends.
    fn mismatch(&self, theirs: &Terms) -> Option<DfqFallback> {
        let flows = |octets: u8| u16::from(octets) * 8;
        if theirs.bitmap != self.own.bitmap || theirs.bitmap > MOST_BITMAP {
            return Some(DfqFallback::Bitmap { own: flows(self.own.bitmap), peer: flows(theirs.bitmap) });
        }
        (theirs.frame < SHORTEST_FRAME).then_some(DfqFallback::FrameTooShort(theirs.frame))
    }

    /// A hello of `session` arrived from `mac`. Another router than the known one is ignored until that one is gone: a wire has two ends.
    pub fn receive_hello(&mut self, now: Instant, mac: Mac, session: u32, hello: &Hello) -> HelloOutcome {
        if self.peer.is_some_and(|peer| peer.mac != mac) {
            return HelloOutcome::default();
        }
        if hello.leaves {
            if self.accepts(mac, session) {
                self.peer = None;
                self.state = DfqWireState::Plain(DfqFallback::Left);
            }
            return HelloOutcome::default();
        }
        // After an interruption both ends still have the flow maps of the same sessions.
        let is_new_session = self.last_heard.replace((mac, session)) != Some((mac, session));
        let heard = hello.heard == self.id;
        self.peer = Some(Peer { mac, session, terms: hello.terms, heard_at: now });
        match self.mismatch(&hello.terms) {
            Some(reason) => self.state = DfqWireState::Plain(reason),
            None if heard && hello.refuses => self.state = DfqWireState::Plain(DfqFallback::Refused),
            None if heard => self.state = DfqWireState::Multiplexed,
            // The other end has restarted. Before the first agreement the search just goes on.
            None if self.state == DfqWireState::Multiplexed => self.search(now),
            None => {}
        }
        HelloOutcome { is_new_session, answer: (!heard || is_new_session) && self.may_answer(now) }
    }

    /// A hello of another version arrived. Returns true if it needs an answer, which says the version of this end. While another end is known, the
    /// frame is damaged or from a third router.
    pub fn receive_other_version(&mut self, now: Instant, version: u8) -> bool {
        if self.peer.is_some() {
            return false;
        }
        self.state = DfqWireState::Plain(DfqFallback::Version(version));
        self.may_answer(now)
    }

    fn may_answer(&mut self, now: Instant) -> bool {
        let may = now >= self.answer_due;
        if may {
            self.answer_due = now + ANSWER_INTERVAL;
        }
        may
    }

    /// The hello to be sent.
    pub fn hello(&self) -> Hello {
        let peer = self.peer.as_ref();
        let refuses = peer.is_some_and(|peer| self.mismatch(&peer.terms).is_some());
        Hello { heard: peer.map_or(0, |peer| peer.session), refuses, leaves: false, terms: self.own }
    }

    /// Notices that the port is down, or that the other end is gone or does not exist.
    pub fn check(&mut self, now: Instant, is_up: bool) {
        if !is_up {
            self.peer = None;
            self.state = DfqWireState::Plain(DfqFallback::PortDown);
        } else if self.state == DfqWireState::Plain(DfqFallback::PortDown) {
            self.search(now);
        } else if self.peer.is_some_and(|peer| now.since(peer.heard_at) >= TIMEOUT) {
            self.peer = None;
            self.state = DfqWireState::Plain(DfqFallback::Lost);
        } else if self.state == DfqWireState::Searching && now.since(*self.searches_since.get_or_insert(now)) >= TIMEOUT
        {
            self.state = DfqWireState::Plain(DfqFallback::NoAnswer);
        }
    }

    fn search(&mut self, now: Instant) {
        (self.state, self.searches_since) = (DfqWireState::Searching, Some(now));
    }

    /// True if a hello is due, which is then sent.
    pub fn take_due_hello(&mut self, now: Instant) -> bool {
        let due = now >= self.hello_due;
        if due {
            self.hello_due = now + INTERVAL;
        }
        due
    }

    /// The state, if it is another one than was reported last. A search is no news: it ends in one of the others.
    pub fn take_change(&mut self) -> Option<DfqWireState> {
        let news = self.state != self.reported && self.state != DfqWireState::Searching;
        news.then(|| {
            self.reported = self.state;
            self.state
        })
    }
}
