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
const REPEATS_PER_EPOCH: u64 = 4;

/// A receiver of the lowest layers, by the shared clock.
#[derive(Clone, Debug)]
pub struct Layers {
    epochs: Epochs,
    child: u64,
    layers: u64,
    sent: [SentLayers; 2],
    /// Parts to send now.
    outgoing: VecDeque<super::Part>,
    /// The time of the next repetition.
    next: Instant,
}

/// The state sent for an epoch.
#[derive(Clone, Copy, Debug)]
struct SentLayers {
    epoch: u64,
    /// The most layers wanted so far.
    subscribed: u64,
    /// The most layers still possible: routers count each child once, so a layer left stays left until the epoch is over.
    available: u64,
}

impl SentLayers {
    const fn none(epoch: u64) -> SentLayers {
        SentLayers { epoch, subscribed: 0, available: u64::MAX }
    }
}

impl Layers {
    /// A receiver that wants `wanted` layers. Its router knows it as `child`, a random number.
    pub fn new(epochs: Epochs, child: u64, layers: u64) -> Layers {
        let (sent, next) = ([SentLayers::none(0), SentLayers::none(1)], Instant::START);
        Layers { epochs, child, layers: layers.min(MOST_LAYERS), sent, outgoing: VecDeque::new(), next }
    }

    /// Sets the number of layers. [`Layers::poll`] then sends at once.
    ///
    /// Leaving layers takes effect at once. A layer left before returns with the next epoch at the earliest, or with the one after if this one is
    /// nearly over.
    pub fn set_layers(&mut self, layers: u64) {
        let layers = layers.min(MOST_LAYERS);
        if layers != self.layers {
            (self.layers, self.next) = (layers, Instant::START);
            self.outgoing.clear();
        }
    }

    /// The next action at `now`. It never ends.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        if self.outgoing.is_empty() && now >= self.next {
            self.queue_parts(now);
        }
        match self.outgoing.pop_front() {
            Some(part) => Action::Send(part),
            None => Action::Wait(self.next),
        }
    }

    /// Queues all parts to send at `now`.
    fn queue_parts(&mut self, now: Instant) {
        let Layers { epochs, child, layers, sent, outgoing, next } = self;
        let length = epochs.length().get();
        let epoch = epochs.at(now);
        *next = now + Nanos::new((length / REPEATS_PER_EPOCH).max(1));
        let is_late = now.since(epochs.start(epoch)).get() >= length / 2;
        for epoch in epoch..=epoch + u64::from(is_late) {
            let sent = &mut sent[(epoch % 2) as usize];
            if sent.epoch != epoch {
                *sent = SentLayers::none(epoch);
            }
            if *layers < sent.subscribed {
                sent.available = sent.available.min(*layers);
            }
            let has = sent.available.min(*layers);
            sent.subscribed = sent.subscribed.max(has);
            // Leave first: another receiver may be losing packets because of these layers.
            outgoing.extend((has..sent.subscribed).rev().map(|layer| epochs.unsubscribe(epoch, layer, *child)));
            outgoing.extend((0..has).map(|layer| epochs.subscribe(epoch, layer, *child)));
        }
    }
}
