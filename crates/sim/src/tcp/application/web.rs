//! The web source of the literature: transfers of random size with random pauses on one persistent connection.

use super::{FlowSizes, Transfer};
use crate::random::RandomStream;
use crate::tcp::Sender;
use units::{Bytes, Instant, Nanos};

/// The parameters of a web source.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// The sizes of transfers, without `extra`.
    pub sizes: FlowSizes,
    /// Added to each size.
    pub extra: Bytes,
    /// The mean of the pause between two transfers, which is exponentially distributed.
    pub pause: Nanos,
    /// Payload of a packet.
    pub payload: Bytes,
    /// The interval at which it checks if a transfer is complete; zero checks at each acknowledgement.
    pub check_interval: Nanos,
}

impl WebSettings {
    /// As in the literature: 16384 bytes more than the table says, a mean pause of 0.2 s, a check every 5 ms.
    pub fn new(sizes: FlowSizes, payload: Bytes) -> WebSettings {
        WebSettings {
            sizes,
            extra: Bytes::new(16_384),
            pause: Nanos::millis(200),
            payload,
            check_interval: Nanos::millis(5),
        }
    }
}

/// The random draws of a web source: sizes and pauses, each from a stream of its own. So transfer k of a seed has the same size in every world,
/// regardless of other events. Worlds can be compared transfer by transfer, also with real packets.
#[derive(Debug)]
pub struct WebDraws {
    settings: WebSettings,
    sizes: RandomStream,
    pauses: RandomStream,
}

impl WebDraws {
    /// The draws of the source `name` in a world with this seed.
    pub fn new(settings: WebSettings, seed: u64, name: &str) -> WebDraws {
        WebDraws {
            sizes: RandomStream::new(seed, &format!("{name}.sizes")),
            pauses: RandomStream::new(seed, &format!("{name}.pauses")),
            settings,
        }
    }

    /// The start of the first transfer after the start of the source: half a pause.
    pub fn first(&mut self) -> Nanos {
        Nanos::new(self.pause().get() / 2)
    }

    /// The number of packets of the next transfer.
    pub fn packets(&mut self) -> u64 {
        let size = self.settings.sizes.draw(&mut self.sizes).get() + self.settings.extra.get();
        size.div_ceil(self.settings.payload.get().max(1)).max(1)
    }

    /// The pause after a transfer.
    pub fn pause(&mut self) -> Nanos {
        Nanos::new((self.pauses.exponential() * self.settings.pause.get() as f64) as u64)
    }
}

/// A running web source.
#[derive(Debug)]
pub struct Web {
    draws: WebDraws,
    /// The start of the next transfer, if none is running.
    next: Instant,
    /// The end of the running transfer, in packets of the connection.
    end: Option<u64>,
    transfers: Vec<Transfer>,
}

impl Web {
    /// A source with these draws.
    pub fn new(draws: WebDraws) -> Web {
        Web { draws, next: Instant::NEVER, end: None, transfers: Vec::new() }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.next = now + self.draws.first();
    }

    #[inline]
    pub(super) fn timer(&self) -> Option<Instant> {
        (self.next < Instant::NEVER).then_some(self.next)
    }

    pub(super) fn expire(&mut self, now: Instant, sender: &mut Sender) {
        if now < self.next {
            return;
        }
        self.next = Instant::NEVER;
        let packets = self.draws.packets();
        sender.offer(now, packets);
        self.end = Some(sender.offered());
        self.transfers.push(Transfer { began: now, packets, ended: None, acknowledged: false });
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, now: Instant, sender: &Sender) {
        let (Some(end), Some(transfer)) = (self.end, self.transfers.last_mut()) else { return };
        let acknowledged = sender.acknowledged();
        transfer.acknowledged |= acknowledged > end - transfer.packets;
        if acknowledged >= end {
            // The source checks at multiples of its interval. The next check sees the end of the transfer, and the pause begins then.
            let look = self.draws.settings.check_interval.get().max(1);
            let seen = Instant::new(now.get().div_ceil(look) * look);
            transfer.ended = Some(seen);
            self.end = None;
            self.next = seen + self.draws.pause();
        }
    }

    /// All transfers so far.
    pub fn completions(&self) -> &[Transfer] {
        &self.transfers
    }
}
