//! @NAME@: first in, first out, but packets that have waited too long are dropped instead of sent.
//!
//! Good for voice and games: a late packet is useless, and only delays the packets behind it.
//!
//! ```sh
//! cargo test                      # the tests below
//! switchpath guest build          # builds @NAME@.wasm and checks it
//! switchpath guest bench @NAME@.wasm
//! ```
//!
//! To change it, see `Wires` in kit/schemes/wires.rs for a scheme's actions on the link, and kit/src/lib.rs for everything else.

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{Box, Nanos, Next, Options, Progress, QueueId, Scheme, Wires, count, guest};

guest! {
    "summary First in, first out; what has waited too long is dropped.\n\
    option limit count 1000 1 10000 Packets that wait at most.\n\
    option patience time 20ms 1000 - How long one may wait.",
    |options: &Options| {
        Ok(Box::new(Patience { limit: options.value(0) as u32, patience: Nanos::new(options.value(1)) }))
    }
}

/// The only queue.
const QUEUE: QueueId = QueueId(0);
/// A counter: packets that waited too long.
const STALE: u32 = 0;

struct Patience {
    limit: u32,
    patience: Nanos,
}

impl<W: Wires> Scheme<W> for Patience {
    /// Packets arrive. A packet that is not enqueued is dropped.
    fn arrival(&mut self, wires: &mut W) {
        while wires.arriving().is_some() {
            if wires.size(QUEUE).packets < self.limit {
                wires.enqueue(QUEUE);
            }
        }
    }

    /// The link is ready: send or drop one packet. Called again as long as something was done.
    fn link_ready(&mut self, wires: &mut W) -> Progress {
        let Some(first) = wires.head(QUEUE) else { return Progress::None };
        if wires.now().since(first.timestamp) > self.patience {
            wires.drop_front(QUEUE);
            count(STALE, 1);
        } else {
            wires.dequeue(QUEUE);
            wires.transmit();
        }
        Progress::Made
    }

    /// When to call again: a scheme that holds packets back returns the time.
    fn next(&self, wires: &W) -> Next {
        if wires.size(QUEUE).packets == 0 { Next::Idle } else { Next::Ready }
    }

    /// Packets at an idle link may bypass this scheme, because it would send them at once.
    fn passes_when_idle(&self) -> bool {
        true
    }

    fn holds_at_most(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchpath_guest::schemes::conformance::{Rounds, Trial};
    use switchpath_guest::schemes::model::{Model, ModelFate};

    fn patience() -> Patience {
        Patience { limit: 3, patience: Nanos::millis(20) }
    }

    #[test]
    fn a_packet_that_has_waited_too_long_is_dropped() {
        let (mut scheme, mut link) = (patience(), Model::default());
        link.arrive(&mut scheme, &[100, 100]);
        link.now += Nanos::millis(15);
        link.arrive(&mut scheme, &[100]);
        link.ready(&mut scheme, 1);
        link.now += Nanos::millis(10);
        link.ready(&mut scheme, 9);
        assert_eq!(link.fates, [ModelFate::Sent(0), ModelFate::Dropped(1), ModelFate::Sent(2)]);
    }

    #[test]
    fn it_keeps_the_laws_that_every_scheme_keeps() {
        for seed in 0..100 {
            let mut trial = Trial::new(Box::new(patience()));
            Rounds::seeded(seed, 100).for_each(|round| trial.round(&round));
            trial.end();
        }
    }
}
