//! A receiver of data in layers: it takes as many of them as it can, and routers let through on each branch what somebody behind it takes (spec E-47).
//!
//! Each port counts for each layer who behind it wants that. A receiver that wants a layer says so anew for each epoch, so one that is gone is
//! forgotten. One that does without a layer says that at once, and a port behind which nobody is left lets nothing more of it leave: what is too
//! much for a branch ends after the time that one packet takes from the receiver to the branch.

use super::{Action, Epochs};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// The most layers there are.
pub const MOST_LAYERS: u64 = 64;
/// How often everything is said in an epoch, against losses; in the second half for the next epoch, too.
const TIMES: u64 = 4;

/// A receiver of layers 0 to one below as many as it wants, by the clock that everybody has.
#[derive(Clone, Debug)]
pub struct Layers {
    epochs: Epochs,
    child: u64,
    wanted: u64,
    said: [Said; 2],
    /// What is to be sent yet.
    outgoing: VecDeque<super::Part>,
    /// When all of it is said again.
    next: Instant,
}

/// What was said for an epoch.
#[derive(Clone, Copy, Debug)]
struct Said {
    epoch: u64,
    /// Layers that were wanted, at most.
    most: u64,
    /// Layers that there may still be: routers count everybody once, and who did without a layer does so until the epoch is over.
    left: u64,
}

impl Said {
    const fn nothing(epoch: u64) -> Said {
        Said { epoch, most: 0, left: u64::MAX }
    }
}

impl Layers {
    /// A receiver that its router knows as `child`, a number drawn at random, and that wants so many layers.
    pub fn new(epochs: Epochs, child: u64, wanted: u64) -> Layers {
        let (said, next) = ([Said::nothing(0), Said::nothing(1)], Instant::START);
        Layers { epochs, child, wanted: wanted.min(MOST_LAYERS), said, outgoing: VecDeque::new(), next }
    }

    /// It wants so many from now on. [`Layers::poll`] has something to send then.
    ///
    /// Fewer end at once. A layer that was ended comes back with the next epoch at the earliest, or with the one after where this one was nearly over.
    pub fn want(&mut self, wanted: u64) {
        let wanted = wanted.min(MOST_LAYERS);
        if wanted != self.wanted {
            (self.wanted, self.next) = (wanted, Instant::START);
            self.outgoing.clear();
        }
    }

    /// What to do at `now`. It is never over.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        if self.outgoing.is_empty() && now >= self.next {
            self.say(now);
        }
        match self.outgoing.pop_front() {
            Some(part) => Action::Send(part),
            None => Action::Wait(self.next),
        }
    }

    /// Everything that is to be said at `now`.
    fn say(&mut self, now: Instant) {
        let Layers { epochs, child, wanted, said, outgoing, next } = self;
        let length = epochs.length().get();
        let epoch = epochs.at(now);
        *next = now + Nanos::new((length / TIMES).max(1));
        let is_late = now.since(epochs.start(epoch)).get() >= length / 2;
        for epoch in epoch..=epoch + u64::from(is_late) {
            let said = &mut said[(epoch % 2) as usize];
            if said.epoch != epoch {
                *said = Said::nothing(epoch);
            }
            if *wanted < said.most {
                said.left = said.left.min(*wanted);
            }
            let has = said.left.min(*wanted);
            said.most = said.most.max(has);
            // What is too much comes first: somebody may be losing packets by it.
            outgoing.extend((has..said.most).rev().map(|layer| epochs.shed(epoch, layer, *child)));
            outgoing.extend((0..has).map(|layer| epochs.want(epoch, layer, *child)));
        }
    }
}
