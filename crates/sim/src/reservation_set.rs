//! Random sets of reserved flows, to compare what admission says with what the router keeps: in virtual time, and on real packets by `lab`.

use crate::random::RandomStream;

/// The highest rate of a source during a burst, in packets a second.
pub const BURST_RATE: u64 = 5000;
/// The destination port of the first flow.
const FIRST_PORT: usize = 7000;

/// Flows that ask for reservations on a path whose function is expensive.
#[derive(Clone, Debug)]
pub struct ReservationSet {
    /// The cost of the path's function, in microseconds.
    pub cost: u64,
    /// True if each function of a packet is a run of its own.
    pub interleave: bool,
    /// The flows.
    pub flows: Vec<AskedFlow>,
}

/// A flow as it asks.
#[derive(Clone, Debug)]
pub struct AskedFlow {
    /// Packets a second.
    pub rate: u64,
    /// Packets of a burst.
    pub burst: u64,
    /// The bytes of a frame, with the Ethernet header.
    pub packet: u64,
    /// The longest delay, in milliseconds.
    pub delay: Option<u64>,
    /// Its number in the set.
    pub number: usize,
}

impl ReservationSet {
    /// The set of this seed for a machine that is `slower` times slower than the simulated one: all rates are lower by this factor.
    pub fn random(seed: u64, slower: u64) -> ReservationSet {
        let mut chance = RandomStream::new(seed, "set of reservations");
        let cost = [1, 5, 20, 60][chance.below(4) as usize];
        let flows = (0..2 + chance.below(9) as usize).map(|number| AskedFlow::random(number, slower, &mut chance));
        ReservationSet { cost, interleave: seed.is_multiple_of(2), flows: flows.collect() }
    }
}

impl AskedFlow {
    fn random(number: usize, slower: u64, chance: &mut RandomStream) -> AskedFlow {
        let packet = [64, 200, 500, 1000, 1500][chance.below(5) as usize];
        let bits = 200_000 << chance.below(9);
        let rate = (bits / (packet * 8)).clamp(20, BURST_RATE / 2).div_ceil(slower);
        let delay = (chance.below(3) > 0).then(|| 6 + chance.below(60));
        AskedFlow { rate, burst: 2 + chance.below(8), packet, delay, number }
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("f{}", self.number)
    }

    /// Its destination port.
    pub fn port(&self) -> u16 {
        (FIRST_PORT + self.number) as u16
    }

    /// Its rate in bits a second.
    pub fn bits(&self) -> u64 {
        self.rate * self.packet * 8
    }

    /// The line that reserves it at this rate, from the port `in` to the port `out` on the path `work`.
    pub fn line(&self, rate: &str) -> String {
        let AskedFlow { burst, packet, .. } = self;
        let delay = self.delay.map_or(String::new(), |delay| format!(" delay {delay}ms"));
        format!(
            "add {} rate {rate} packet {packet}b burst {}b{delay} path work out out match iif in ip daddr 10.0.0.1 udp dport {}\n",
            self.name(),
            burst * packet,
            self.port()
        )
    }
}
