//! Injects reproducible faults into the packets of a port: lost, corrupted, truncated and duplicated frames.
//!
//! A lost frame is still delivered, marked to be dropped as `injected_fault`, so that the ledger counts it.

use super::{DecoratedPort, Port, PortDecorator};
use crate::{Batch, DropReason, Pool};
use units::Instant;

/// The rate of each fault, in parts per million of received frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultRates {
    /// The frame is lost.
    pub loss: u32,
    /// One bit of the frame is flipped.
    pub corrupt: u32,
    /// The frame is truncated at a random length.
    pub truncate: u32,
    /// The frame is received twice.
    pub duplicate: u32,
}

/// The fault generator.
#[derive(Debug)]
pub struct Faults {
    rates: FaultRates,
    state: u64,
}

/// A port with faults.
pub type FaultyPort = DecoratedPort<Faults>;

impl FaultyPort {
    /// Wraps `inner`; the same `seed` and the same arrivals give the same faults.
    pub fn new(inner: Box<dyn Port>, rates: FaultRates, seed: u64) -> FaultyPort {
        DecoratedPort::wrap(inner, Faults { rates, state: seed })
    }
}

impl Faults {
    /// The next number of the seeded sequence (splitmix64: Steele, Lea, Flood 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.draw() % 1_000_000 < u64::from(per_million)
    }
}

impl PortDecorator for Faults {
    fn received(&mut self, _came: Option<Instant>, batch: &mut Batch, first: usize, pool: &mut Pool) {
        for i in first..batch.len() {
            let (loss, corrupt, truncate) = (self.rates.loss, self.rates.corrupt, self.rates.truncate);
            if self.happens(loss) {
                batch.as_mut_slice()[i].meta_mut().refused = DropReason::InjectedFault as u8 + 1;
                continue;
            }
            let (hit, cut, place) = (self.happens(corrupt), self.happens(truncate), self.draw() as usize);
            let packet = &mut batch.as_mut_slice()[i];
            let len = packet.len();
            if hit && len > 0 {
                packet.bytes_mut()[place % len] ^= 1 << (place >> 32 & 7);
            }
            if cut && len > 0 {
                packet.resize(place % len);
            }
            if self.happens(self.rates.duplicate) && batch.room() > 0 {
                let Some(mut twin) = pool.take_for(len) else { continue };
                twin.copy(&batch.as_slice()[i]);
                batch.push(twin);
            }
        }
    }

    fn transmitting(&mut self, _now: Instant, _batch: &Batch) {}
}

#[cfg(test)]
mod tests {
    use super::super::MemoryWire;
    use super::*;
    use crate::Region;

    /// Sends 10000 frames of 100 bytes through a faulty port. Returns the numbers received, lost, changed and truncated.
    fn outcome(rates: FaultRates, seed: u64) -> [usize; 4] {
        let mut pool = Pool::new(Region::new(600));
        let (port, mut far) = MemoryWire::pair(256);
        let mut port = FaultyPort::new(Box::new(port), rates, seed);
        let mut batch = Batch::new();
        let mut result = [0; 4];
        for _ in 0..10_000 {
            let mut packet = pool.take().unwrap();
            packet.fill(&[0; 100]);
            batch.push(packet);
            far.transmit(Instant::START, &mut batch, &mut pool);
            port.receive(Instant::START, &mut batch, &mut pool);
            for packet in batch.drain() {
                result[0] += 1;
                result[1] += usize::from(packet.meta().refused != 0);
                result[2] += usize::from(packet.bytes().iter().any(|&b| b != 0));
                result[3] += usize::from(packet.len() < 100);
                pool.give(packet);
            }
        }
        assert_eq!(pool.frames_in_use(), 0);
        result
    }

    #[test]
    fn faults_have_the_configured_rates_and_repeat_with_the_seed() {
        let rates = FaultRates { loss: 100_000, corrupt: 100_000, truncate: 50_000, duplicate: 200_000 };
        let [came, lost, changed, cut] = outcome(rates, 1);
        assert!((1750..2050).contains(&(came - 10_000 + lost / 5)), "{came}");
        assert!((900..1100).contains(&lost), "{lost}");
        assert!((900..1300).contains(&changed), "{changed}");
        assert!((400..700).contains(&cut), "{cut}");
        assert_eq!(outcome(rates, 1), [came, lost, changed, cut]);
        assert_ne!(outcome(rates, 2), [came, lost, changed, cut]);
    }

    #[test]
    fn zero_fault_rates_change_no_frame() {
        assert_eq!(outcome(FaultRates::default(), 9), [10_000, 0, 0, 0]);
    }
}
