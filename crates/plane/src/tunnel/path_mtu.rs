//! The state of a tunnel that outlives generations: the path MTU to its other end, and the errors that its outer packets caused.

use super::stations::LearnedStations;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use units::{Instant, Nanos};

/// How long a path MTU is used (RFC 1191 6.3, RFC 8201 4).
const LIFETIME: Nanos = Nanos::secs(600);
/// The smallest path MTU that is believed: no IPv4 path has less today, and every IPv6 link has more (RFC 8200 5).
const LEAST: (u16, u16) = (552, 1280);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct TunnelState {
    /// The longest packet that fits into the tunnel, in bytes, with the time until which that holds, in nanoseconds. Zero: as configured.
    mtu: AtomicU16,
    until: AtomicU64,
    /// The last number of a sent packet: of its GRE header, or the identification of its outer header.
    number: AtomicU32,
    errors: AtomicU64,
    /// The stations of a segment.
    pub stations: LearnedStations,
}

impl TunnelState {
    /// The number of the next packet.
    pub fn next_number(&self) -> u32 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// A link on the way carries only outer packets of `outer` bytes, of which the headers take `overhead`. Returns true if the MTU of the tunnel
    /// becomes smaller.
    pub fn reduce_mtu(&self, outer: u32, overhead: u16, is_ipv4: bool, now: Instant) -> bool {
        let least = if is_ipv4 { LEAST.0 } else { LEAST.1 };
        // IPv6 reports below the minimum come from translators, and are ignored (RFC 8201 4).
        if !is_ipv4 && outer < least.into() {
            return false;
        }
        let mtu = u16::try_from(outer).unwrap_or(u16::MAX).max(least) - overhead;
        let known = self.mtu.load(Ordering::Relaxed);
        // A report never increases a path MTU (RFC 8201 4).
        if known != 0 && known <= mtu {
            return false;
        }
        self.until.store((now + LIFETIME).get(), Ordering::Relaxed);
        self.mtu.store(mtu, Ordering::Relaxed);
        true
    }

    /// The longest packet that fits into the tunnel; `None` for the configured MTU.
    pub fn mtu(&self) -> Option<u16> {
        Some(self.mtu.load(Ordering::Relaxed)).filter(|&mtu| mtu != 0)
    }

    /// Forgets a path MTU whose time is over, so that a larger one is detected.
    pub fn expire_mtu(&self, now: Instant) {
        if self.mtu().is_some() && now.get() >= self.until.load(Ordering::Relaxed) {
            self.mtu.store(0, Ordering::Relaxed);
        }
    }

    /// Counts an ICMP error about an outer packet.
    pub fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// ICMP errors about outer packets, except those about their length.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtu_shrinks_by_reports_and_expires() {
        let (state, at) = (TunnelState::default(), |seconds| Instant::START + Nanos::secs(seconds));
        assert_eq!(state.mtu(), None);
        // The reported MTU, and that of the tunnel after it.
        for (second, reported, mtu) in
            [(0, 1400, 1376), (1, 1450, 1376), (2, 70_000, 1376), (3, 1300, 1276), (4, 0, 528)]
        {
            state.reduce_mtu(reported, 24, true, at(second));
            assert_eq!(state.mtu(), Some(mtu), "{reported}");
        }
        state.expire_mtu(at(603));
        assert_eq!(state.mtu(), Some(528));
        state.expire_mtu(at(604));
        assert_eq!(state.mtu(), None);
        assert!(!state.reduce_mtu(1279, 44, false, at(700)), "below the minimum of IPv6");
        assert!(state.reduce_mtu(1280, 44, false, at(700)));
        assert_eq!(state.mtu(), Some(1236));
    }
}
