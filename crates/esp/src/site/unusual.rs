//! Packets off the straight line: parts that are sealed with an operator's key, or should be (adr/0049). They come here from where
//! something seemed to be wrong with them, so that others pay nothing.

use super::{Carrier, Fate, Means, Prepared, Rules, SiteCounters, State, look_up, run};
use crate::isa::Abort;
use crate::seal::{OperatorKey, Plain, is_sealed};
use crate::store::Session;
use crate::variables::Readings;
use crate::wire::{Checked, set_error};

/// What becomes of a part that `why` speaks against.
#[cold]
pub(super) fn prepare(
    why: Abort,
    (rules, readings): (&Rules, &Readings),
    session: &Session<'_>,
    l3: &[u8],
    slot: &mut Prepared,
) -> State {
    let bytes = l3.get(usize::from(slot.at)..).unwrap_or_default();
    match (rules.sealed, why) {
        // Its length is that of its instruction and a seal.
        (None, Abort::BadLength) if is_sealed(bytes) => State::Passed,
        (Some(key), Abort::BadLength) if is_sealed(bytes) => sealed(key, (rules, readings), session, bytes, slot),
        (Some(_), Abort::NotEnabled) => State::Aborted(Abort::Unauthenticated),
        _ => State::Aborted(why),
    }
}

fn sealed(
    (key, allowed): (OperatorKey, u16),
    with: (&Rules, &Readings),
    session: &Session<'_>,
    bytes: &[u8],
    slot: &mut Prepared,
) -> State {
    let plain = match key.open(bytes) {
        Ok(plain) => plain,
        Err(why) => return State::Aborted(why),
    };
    let Ok(checked) = Checked::of(plain.bytes()) else { return State::Aborted(Abort::BadLength) };
    if allowed >> checked.opcode.number() & 1 == 0 {
        return State::Aborted(Abort::NotEnabled);
    }
    match look_up(with, session, (checked, plain.bytes()), slot) {
        State::Ready(checked) => State::Sealed(checked),
        other => other,
    }
}

/// Executes a part without its seal, and seals it anew where something was written into it.
#[inline(never)]
pub(super) fn run_sealed<C: Carrier>(
    means: &mut Means<'_, '_>,
    packet: &mut C,
    (slot, checked): (&Prepared, Checked),
    counters: &mut SiteCounters,
) -> Fate {
    let at = usize::from(slot.at);
    let (Some((key, _)), Some(before)) = (means.rules.sealed, packet.network().get(at..).and_then(Plain::of)) else {
        return Fate::Passed;
    };
    let mut plain = before;
    let fate = run(means, &mut plain, (&Prepared { at: 0, ..*slot }, checked), counters);
    let bytes = packet.network_mut().get_mut(at..).unwrap_or_default();
    match fate {
        Fate::Aborted(_) => set_error(bytes),
        _ if plain != before => key.close(bytes, &plain),
        _ => {}
    }
    fate
}

impl Carrier for Plain {
    fn network(&self) -> &[u8] {
        self.bytes()
    }

    fn network_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}
