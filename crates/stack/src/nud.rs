//! The state machine of one neighbour: its link-layer address, and the times of its probes.
//!
//! RFC 4861 7.3 with the states of its appendix C, for IPv6 and, by RFC 1122 2.3.2.1 ("unicast poll"), for ARP too. Pure: it receives events and
//! returns actions.
//!
//! The fast path does not report every use of a neighbour, because that would cost time for each packet. Only a reachable, delayed or probed
//! neighbour is *usable*, which means in the forwarding tables. The first packet to a stale one comes here (`Wanted`), makes it usable and starts the
//! delay before the probe. A usable neighbour is probed by unicast whenever its reachable time ends, used or not, and stays usable meanwhile. This
//! costs two small frames in half a minute, and no flow is interrupted.

use packet::event::NeighbourState;
use units::{Instant, Mac, Nanos};

/// The number of multicast or broadcast requests for an unresolved neighbour (RFC 4861 10, MAX_MULTICAST_SOLICIT).
const MULTICAST_TRIES: u8 = 3;
/// The number of unicast probes for a known one (RFC 4861 10, MAX_UNICAST_SOLICIT).
const UNICAST_TRIES: u8 = 3;
/// The time between two requests (RFC 4861 10, RETRANS_TIMER; RFC 1122 2.3.2.1 permits one a second).
const RETRANSMIT: Nanos = Nanos::secs(1);
/// How long a stale neighbour is used before it is probed (RFC 4861 10, DELAY_FIRST_PROBE_TIME).
const DELAY: Nanos = Nanos::secs(5);
/// The time for which a failed neighbour is not requested again. An address scan then costs three requests every few seconds for an address, instead
/// of three a second (RFC 6583 6.1).
const FAILED: Nanos = Nanos::secs(2);
/// How long an unused neighbour is kept.
const STALE: Nanos = Nanos::secs(600);

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NudEvent {
    /// A packet must be sent to it.
    Needed,
    /// The deadline has passed.
    DeadlinePassed,
    /// It sent a request or an unsolicited message: its address is known, but not whether it receives our frames.
    Claim(Mac),
    /// It answered or advertised itself.
    Answer(Answer),
}

/// An ARP reply or a neighbour advertisement (RFC 4861 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The target's link-layer address, if given.
    pub mac: Option<Mac>,
    /// True if it answers a request of ours, which proves that it receives our frames.
    pub solicited: bool,
    /// True if it overrides a known address.
    pub overrides: bool,
}

/// The destination of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestTarget {
    AllHosts,
    Unicast(Mac),
}

/// The change of the forwarding tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ForwardingChange {
    Unchanged,
    /// Packets may be sent to this address: those that wait are released.
    Up(Mac),
    /// Packets may no longer be sent.
    Down,
}

/// The actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NudActions {
    pub request: Option<RequestTarget>,
    pub forwarding: ForwardingChange,
    /// Packets that wait are dropped with an ICMP error.
    pub drop_held: bool,
    /// The neighbour is removed.
    pub remove: bool,
    /// State or address have changed.
    pub changed: bool,
}

/// The state of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NudState {
    pub state: NeighbourState,
    pub mac: Option<Mac>,
    /// When it entered this state.
    pub since: Instant,
    /// When its timer expires.
    pub deadline: Instant,
    tries: u8,
}

impl NudState {
    /// An unknown neighbour that a packet needs. The first request must be sent.
    pub fn incomplete(now: Instant) -> (NudState, NudActions) {
        let machine =
            NudState { state: NeighbourState::Incomplete, mac: None, since: now, deadline: now + RETRANSMIT, tries: 1 };
        (machine, NudActions { request: Some(RequestTarget::AllHosts), ..machine.no_actions(true) })
    }

    /// A neighbour that sent a message first.
    pub fn stale(mac: Mac, now: Instant) -> (NudState, NudActions) {
        let state = NeighbourState::Stale;
        let machine = NudState { state, mac: Some(mac), since: now, deadline: now + STALE, tries: 0 };
        (machine, machine.no_actions(true))
    }

    /// A static neighbour.
    pub fn new_static(mac: Mac, now: Instant) -> (NudState, NudActions) {
        let state = NeighbourState::Static;
        let machine = NudState { state, mac: Some(mac), since: now, deadline: Instant::NEVER, tries: 0 };
        (machine, NudActions { forwarding: ForwardingChange::Up(mac), ..machine.no_actions(true) })
    }

    /// A neighbour in this state in another host.
    pub fn restored(state: NeighbourState, mac: Option<Mac>, since: Instant) -> NudState {
        NudState { state, mac, since, deadline: Instant::NEVER, tries: 0 }
    }

    fn no_actions(&self, changed: bool) -> NudActions {
        NudActions { request: None, forwarding: ForwardingChange::Unchanged, drop_held: false, remove: false, changed }
    }

    /// The address to which packets may be sent.
    pub fn usable_mac(&self) -> Option<Mac> {
        match self.state {
            NeighbourState::Reachable | NeighbourState::Delay | NeighbourState::Probe | NeighbourState::Static => {
                self.mac
            }
            NeighbourState::Incomplete | NeighbourState::Stale | NeighbourState::Failed => None,
        }
    }

    /// True if a request of ours is unanswered.
    pub fn awaits_answer(&self) -> bool {
        matches!(self.state, NeighbourState::Incomplete | NeighbourState::Probe)
    }

    /// True if it may be evicted when the table is full.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, NeighbourState::Stale | NeighbourState::Failed)
    }

    /// Processes an event. `reachable` is the reachable time for an answer received now.
    pub fn step(&mut self, input: NudEvent, now: Instant, reachable: Nanos) -> NudActions {
        let before = *self;
        let mut effects = self.no_actions(false);
        match input {
            NudEvent::Needed => self.on_needed(now),
            NudEvent::DeadlinePassed => self.on_deadline(now, &mut effects),
            NudEvent::Claim(mac) => self.on_claim(mac, now),
            NudEvent::Answer(answer) => self.on_answer(answer, now, reachable),
        }
        // The change of the forwarding tables follows from the states before and after the event.
        let (was, is) = (before.usable_mac(), if effects.remove { None } else { self.usable_mac() });
        effects.forwarding = match is {
            Some(mac) if was != Some(mac) => ForwardingChange::Up(mac),
            None if was.is_some() => ForwardingChange::Down,
            _ => ForwardingChange::Unchanged,
        };
        effects.changed = before.state != self.state || before.mac != self.mac;
        effects
    }

    fn enter(&mut self, state: NeighbourState, now: Instant, lasts: Nanos) {
        if self.state != state {
            self.since = now;
        }
        self.state = state;
        self.deadline = now + lasts;
    }

    fn on_needed(&mut self, now: Instant) {
        if self.state == NeighbourState::Stale {
            self.enter(NeighbourState::Delay, now, DELAY);
        }
    }

    fn on_deadline(&mut self, now: Instant, effects: &mut NudActions) {
        match (self.state, self.mac) {
            (NeighbourState::Incomplete, _) if self.tries < MULTICAST_TRIES => {
                self.tries += 1;
                self.deadline = now + RETRANSMIT;
                effects.request = Some(RequestTarget::AllHosts);
            }
            (NeighbourState::Incomplete, _) => {
                self.enter(NeighbourState::Failed, now, FAILED);
                effects.drop_held = true;
            }
            // The neighbour stays usable while it is probed: no flow is interrupted.
            (NeighbourState::Reachable | NeighbourState::Delay, Some(mac)) => {
                self.tries = 1;
                self.enter(NeighbourState::Probe, now, RETRANSMIT);
                effects.request = Some(RequestTarget::Unicast(mac));
            }
            (NeighbourState::Probe, Some(mac)) if self.tries < UNICAST_TRIES => {
                self.tries += 1;
                self.deadline = now + RETRANSMIT;
                effects.request = Some(RequestTarget::Unicast(mac));
            }
            (NeighbourState::Static, _) => self.deadline = Instant::NEVER,
            // A probed neighbour that does not answer is removed at once: it may have moved to another address, and the next packet sends a multicast
            // request.
            _ => {
                self.enter(NeighbourState::Failed, now, FAILED);
                effects.remove = true;
            }
        }
    }

    /// Processes an unsolicited address: RFC 826 ("merge flag"); RFC 4861 7.2.3 and appendix C for solicitations.
    fn on_claim(&mut self, mac: Mac, now: Instant) {
        if self.state == NeighbourState::Static || self.mac == Some(mac) && self.state != NeighbourState::Failed {
            return;
        }
        self.learn_unproven(mac, now);
    }

    /// A new address that is not proven to receive our frames: used and soon probed if packets flow, stored as stale otherwise.
    fn learn_unproven(&mut self, mac: Mac, now: Instant) {
        let in_use = self.state == NeighbourState::Incomplete || self.usable_mac().is_some();
        self.mac = Some(mac);
        if in_use {
            self.enter(NeighbourState::Delay, now, DELAY);
        } else {
            self.enter(NeighbourState::Stale, now, STALE);
        }
    }

    /// Processes an advertisement or ARP reply (RFC 4861 7.2.5).
    fn on_answer(&mut self, answer: Answer, now: Instant, reachable: Nanos) {
        let known = match self.state {
            NeighbourState::Static => return,
            NeighbourState::Incomplete | NeighbourState::Failed => None,
            _ => self.mac,
        };
        let Some(mac) = answer.mac.or(known) else { return };
        let differs = known.is_some_and(|known| known != mac);
        if differs && !answer.overrides {
            // It contradicts without the override flag: the known address only becomes subject to a probe.
            if self.state == NeighbourState::Reachable {
                self.enter(NeighbourState::Delay, now, DELAY);
            }
        } else if answer.solicited {
            self.mac = Some(mac);
            self.enter(NeighbourState::Reachable, now, reachable);
        } else if known != Some(mac) {
            self.learn_unproven(mac, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NeighbourState::{Delay, Failed, Incomplete, Probe, Reachable, Stale};

    const OLD: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const NEW: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const LASTS: Nanos = Nanos::secs(30);

    fn at(ms: u64) -> Instant {
        Instant::START + Nanos::millis(ms)
    }

    /// A neighbour with the address `OLD`, or none in states without one, in `state` since time zero.
    fn in_state(state: NeighbourState) -> NudState {
        let mac = (!matches!(state, Incomplete | Failed)).then_some(OLD);
        NudState { state, mac, since: at(0), deadline: at(1000), tries: 1 }
    }

    #[test]
    fn unanswered_request_is_sent_three_times_and_fails() {
        let (mut machine, first) = NudState::incomplete(at(0));
        assert_eq!(first.request, Some(RequestTarget::AllHosts));
        for ms in [1000, 2000] {
            assert_eq!(machine.deadline, at(ms));
            assert_eq!(machine.step(NudEvent::DeadlinePassed, at(ms), LASTS).request, Some(RequestTarget::AllHosts));
        }
        let last = machine.step(NudEvent::DeadlinePassed, at(3000), LASTS);
        assert!(last.drop_held && last.request.is_none() && !last.remove);
        assert_eq!((machine.state, machine.deadline), (Failed, at(5000)));
        assert!(machine.step(NudEvent::DeadlinePassed, at(5000), LASTS).remove);
    }

    #[test]
    fn a_reachable_neighbour_is_probed_while_it_stays_usable() {
        let mut machine = in_state(Reachable);
        for ms in [1000, 2000, 3000] {
            let effects = machine.step(NudEvent::DeadlinePassed, at(ms), LASTS);
            assert_eq!(
                (effects.request, effects.forwarding),
                (Some(RequestTarget::Unicast(OLD)), ForwardingChange::Unchanged)
            );
            assert_eq!(machine.state, Probe);
        }
        let effects = machine.step(NudEvent::DeadlinePassed, at(4000), LASTS);
        assert_eq!((effects.forwarding, effects.remove, effects.request), (ForwardingChange::Down, true, None));
    }

    #[test]
    fn first_packet_to_stale_neighbour_is_sent_at_once_and_probed_later() {
        let (mut machine, heard) = NudState::stale(OLD, at(0));
        assert_eq!(heard.forwarding, ForwardingChange::Unchanged);
        assert_eq!(machine.step(NudEvent::Needed, at(7), LASTS).forwarding, ForwardingChange::Up(OLD));
        assert_eq!((machine.state, machine.deadline), (Delay, at(5007)));
        assert_eq!(machine.step(NudEvent::DeadlinePassed, at(5007), LASTS).request, Some(RequestTarget::Unicast(OLD)));
    }

    #[test]
    fn advertisements_act_as_the_table_of_rfc_4861_says() {
        // (state, address given, solicited, override) -> (state, address); stale neighbours in use are delayed.
        let (same, other, none) = (Some(OLD), Some(NEW), None);
        for (state, mac, solicited, overrides, expected) in [
            (Incomplete, none, true, true, (Incomplete, none)),
            (Incomplete, other, true, false, (Reachable, other)),
            (Incomplete, other, false, false, (Delay, other)),
            (Reachable, other, true, false, (Delay, same)),
            (Reachable, other, false, false, (Delay, same)),
            (Reachable, other, true, true, (Reachable, other)),
            (Reachable, other, false, true, (Delay, other)),
            (Reachable, same, false, true, (Reachable, same)),
            (Reachable, none, true, false, (Reachable, same)),
            (Stale, other, true, false, (Stale, same)),
            (Stale, same, true, false, (Reachable, same)),
            (Stale, other, false, true, (Stale, other)),
            (Stale, none, true, true, (Reachable, same)),
            (Delay, other, false, false, (Delay, same)),
            (Probe, other, true, false, (Probe, same)),
            (Probe, same, true, false, (Reachable, same)),
            (Probe, same, false, true, (Probe, same)),
            (Probe, other, false, true, (Delay, other)),
            (Probe, other, true, true, (Reachable, other)),
            (Failed, other, true, true, (Reachable, other)),
            (Failed, other, false, true, (Stale, other)),
            (NeighbourState::Static, other, true, true, (NeighbourState::Static, same)),
        ] {
            let mut machine = in_state(state);
            let effects = machine.step(NudEvent::Answer(Answer { mac, solicited, overrides }), at(10), LASTS);
            let case = format!("{state:?} {mac:?} S={solicited} O={overrides}");
            assert_eq!((machine.state, machine.mac), expected, "{case}");
            let (was, is) = (in_state(state).usable_mac(), machine.usable_mac());
            assert_eq!(
                effects.forwarding,
                if was == is { ForwardingChange::Unchanged } else { ForwardingChange::Up(is.unwrap()) },
                "{case}"
            );
        }
    }

    #[test]
    fn claim_sets_the_address_but_does_not_prove_reachability() {
        for (state, mac, expected) in [
            (Incomplete, OLD, (Delay, OLD)),
            (Reachable, OLD, (Reachable, OLD)),
            (Reachable, NEW, (Delay, NEW)),
            (Stale, NEW, (Stale, NEW)),
            (Probe, OLD, (Probe, OLD)),
            (Probe, NEW, (Delay, NEW)),
            (Failed, OLD, (Stale, OLD)),
            (NeighbourState::Static, NEW, (NeighbourState::Static, OLD)),
        ] {
            let mut machine = in_state(state);
            machine.step(NudEvent::Claim(mac), at(10), LASTS);
            assert_eq!((machine.state, machine.mac), (expected.0, Some(expected.1)), "{state:?} {mac}");
        }
    }

    proptest::proptest! {
        #[test]
        fn usable_state_and_effects_agree_after_any_events(
            inputs in proptest::collection::vec((0u8..5, proptest::bool::ANY, proptest::bool::ANY, 0u64..9000), 1..60),
        ) {
            let (mut machine, _) = NudState::incomplete(at(0));
            let (mut now, mut installed) = (at(0), None);
            for (kind, solicited, overrides, ms) in inputs {
                now += Nanos::millis(ms);
                let input = match kind {
                    0 => NudEvent::Needed,
                    1 => NudEvent::DeadlinePassed,
                    2 => NudEvent::Claim(if solicited { OLD } else { NEW }),
                    3 => NudEvent::Answer(Answer { mac: None, solicited, overrides }),
                    _ => NudEvent::Answer(Answer { mac: Some(if ms % 2 == 0 { OLD } else { NEW }), solicited, overrides }),
                };
                let effects = machine.step(input, now, LASTS);
                match effects.forwarding {
                    ForwardingChange::Up(mac) => installed = Some(mac),
                    ForwardingChange::Down => installed = None,
                    ForwardingChange::Unchanged => {}
                }
                proptest::prop_assert!(!(effects.drop_held && effects.remove));
                if effects.remove {
                    proptest::prop_assert_eq!(installed, None);
                    return Ok(());
                }
                proptest::prop_assert_eq!(installed, machine.usable_mac());
                proptest::prop_assert!(machine.deadline > now || input != NudEvent::DeadlinePassed, "time does not stand still");
            }
        }
    }
}
