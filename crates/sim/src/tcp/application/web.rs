//! The web source of the literature: on one connection that stays, transfers of random length with random pauses.

use super::{Completion, FlowSizes};
use crate::chance::Chance;
use crate::tcp::Sender;
use units::{Bytes, Instant, Nanos};

/// What a web source is like.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// The sizes that transfers have, less `extra`.
    pub sizes: FlowSizes,
    /// Added to each size.
    pub extra: Bytes,
    /// The mean of the pause between a transfer and the next, which is exponentially distributed.
    pub pause: Nanos,
    /// Data in a packet.
    pub payload: Bytes,
    /// How often it looks whether a transfer is over; zero: at once.
    pub look: Nanos,
}

impl WebSettings {
    /// As in the literature: 16384 bytes more than the table says, a fifth of a second, a look every 5 ms.
    pub fn new(sizes: FlowSizes, payload: Bytes) -> WebSettings {
        WebSettings { sizes, extra: Bytes::new(16_384), pause: Nanos::millis(200), payload, look: Nanos::millis(5) }
    }
}

/// What a web source draws: how long its transfers are and its pauses, each from a stream of its own. So the k-th transfer of a seed has the
/// same size in every world, whatever else happens there, and worlds can be compared transfer by transfer; with real packets too.
#[derive(Debug)]
pub struct Draws {
    settings: WebSettings,
    sizes: Chance,
    pauses: Chance,
}

impl Draws {
    /// Those of the source called `name` of a world's seed.
    pub fn new(settings: WebSettings, seed: u64, name: &str) -> Draws {
        Draws {
            sizes: Chance::new(seed, &format!("{name}.sizes")),
            pauses: Chance::new(seed, &format!("{name}.pauses")),
            settings,
        }
    }

    /// How long after the beginning the first transfer begins: half a pause.
    pub fn first(&mut self) -> Nanos {
        Nanos::new(self.pause().get() / 2)
    }

    /// The packets of the next transfer.
    pub fn packets(&mut self) -> u64 {
        let size = self.settings.sizes.draw(&mut self.sizes).get() + self.settings.extra.get();
        size.div_ceil(self.settings.payload.get().max(1)).max(1)
    }

    /// How long it is silent behind it.
    pub fn pause(&mut self) -> Nanos {
        Nanos::new((self.pauses.exponential() * self.settings.pause.get() as f64) as u64)
    }
}

/// A web source at work.
#[derive(Debug)]
pub struct Web {
    draws: Draws,
    /// When the next transfer begins, where none is going on.
    next: Instant,
    /// Where the transfer ends that is going on, in packets of the connection.
    end: Option<u64>,
    transfers: Vec<Completion>,
}

impl Web {
    /// The source with these draws.
    pub fn new(draws: Draws) -> Web {
        Web { draws, next: Instant::FAR, end: None, transfers: Vec::new() }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.next = now + self.draws.first();
    }

    #[inline]
    pub(super) fn timer(&self) -> Option<Instant> {
        (self.next < Instant::FAR).then_some(self.next)
    }

    pub(super) fn expire(&mut self, now: Instant, sender: &mut Sender) {
        if now < self.next {
            return;
        }
        self.next = Instant::FAR;
        let packets = self.draws.packets();
        sender.offer(now, packets);
        self.end = Some(sender.offered());
        self.transfers.push(Completion { began: now, packets, over: None, heard: false });
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, now: Instant, sender: &Sender) {
        let (Some(end), Some(transfer)) = (self.end, self.transfers.last_mut()) else { return };
        let acknowledged = sender.acknowledged();
        transfer.heard |= acknowledged > end - transfer.packets;
        if acknowledged >= end {
            // It looks at multiples of its interval: the next one sees it, and the pause begins.
            let look = self.draws.settings.look.get().max(1);
            let seen = Instant::new(now.get().div_ceil(look) * look);
            transfer.over = Some(seen);
            self.end = None;
            self.next = seen + self.draws.pause();
        }
    }

    /// All transfers so far.
    pub fn completions(&self) -> &[Completion] {
        &self.transfers
    }
}
