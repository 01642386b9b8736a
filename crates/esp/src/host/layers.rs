//! A receiver of layered data: it subscribes to as many layers as it can receive, and routers forward on each branch the layers that a receiver
//! behind it wants (spec E-47).
//!
//! Each port counts, for each layer, the receivers behind it. A receiver repeats its wishes for each epoch, so a receiver that disappears expires. A
//! receiver that leaves a layer says so at once, and a port without receivers of a layer stops forwarding it. So an overloaded branch is relieved
//! after one packet's travel time from the receiver to the branch.

use super::{Action, Epochs};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// The largest number of layers.
pub const MOST_LAYERS: u64 = 64;
/// Transmissions per epoch, against losses. In the second half they cover the next epoch too.
const TIMES: u64 = 4;

/// A receiver of the lowest layers, by the shared clock.
#[derive(Clone, Debug)]
pub struct Layers {
    epochs: Epochs,
    child: u64,
    wanted: u64,
    said: [Said; 2],
    /// Parts to send now.
    outgoing: VecDeque<super::Part>,
    /// The time of the next repetition.
    next: Instant,
}

/// The state sent for an epoch.
#[derive(Clone, Copy, Debug)]
struct Said {
    epoch: u64,
    /// The most layers wanted so far.
    most: u64,
    /// The most layers still possible: routers count each child once, so a layer left stays left until the epoch is over.
    left: u64,
}

impl Said {
    const fn nothing(epoch: u64) -> Said {
        Said { epoch, most: 0, left: u64::MAX }
    }
}

impl Layers {
    /// A receiver that wants `wanted` layers. Its router knows it as `child`, a random number.
    pub fn new(epochs: Epochs, child: u64, wanted: u64) -> Layers {
        let (said, next) = ([Said::nothing(0), Said::nothing(1)], Instant::START);
        Layers { epochs, child, wanted: wanted.min(MOST_LAYERS), said, outgoing: VecDeque::new(), next }
    }

    /// Sets the number of layers. [`Layers::poll`] then sends at once.
    ///
    /// Leaving layers takes effect at once. A layer left before returns with the next epoch at the earliest, or with the one after if this one is
    /// nearly over.
    pub fn want(&mut self, wanted: u64) {
        let wanted = wanted.min(MOST_LAYERS);
        if wanted != self.wanted {
            (self.wanted, self.next) = (wanted, Instant::START);
            self.outgoing.clear();
        }
    }

    /// The next action at `now`. It never ends.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        if self.outgoing.is_empty() && now >= self.next {
            self.say(now);
        }
        match self.outgoing.pop_front() {
            Some(part) => Action::Send(part),
            None => Action::Wait(self.next),
        }
    }

    /// Queues all parts to send at `now`.
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
            // Leave first: another receiver may be losing packets because of these layers.
            outgoing.extend((has..said.most).rev().map(|layer| epochs.shed(epoch, layer, *child)));
            outgoing.extend((0..has).map(|layer| epochs.want(epoch, layer, *child)));
        }
    }
}
