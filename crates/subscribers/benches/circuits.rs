//! Look-ups in tables of 10^5 circuits: `cargo bench -p subscribers --bench circuits`. The addresses of each batch are random, so the table is not in the
//! first-level cache by repetition. The headers of the packets are, as after classification. The time of a batch divided by its packets is that of a
//! look-up.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use criterion::{BatchSize, Criterion, Throughput};
use packet::{Meta, Packet, Pool, Region};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use subscribers::{CircuitTable, LookUpDirection};
use units::{CircuitKey, Mac, ShareId};

const CIRCUITS: u32 = 100_000;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The key of a circuit by its number, and a destination or a link header that has it.
#[derive(Clone, Copy)]
enum Keys {
    /// Single addresses of a few large pools: 100.64.0.0/10.
    Hosts4,
    /// Single addresses anywhere.
    Scattered4,
    /// Prefixes of 56 bits, one after the other from 2001:db8::/32.
    Prefixes6,
    /// Prefixes of 56 bits anywhere in 2001:db8::/32.
    Scattered6,
    /// `Hosts4` and `Prefixes6` by turns.
    Mixed,
    Mac,
    TagPairs,
}

fn scattered(n: u32) -> u32 {
    // A permutation of all numbers.
    n.wrapping_mul(0x9e37_79b1)
}

fn host4(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x6440_0000 + n).into()
}

fn prefix6(n: u32) -> IpAddr {
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 72).into()
}

impl Keys {
    fn key(self, n: u32) -> CircuitKey {
        match self {
            Keys::Hosts4 => CircuitKey::Prefix(host4(n), 32),
            Keys::Scattered4 => CircuitKey::Prefix(Ipv4Addr::from_bits(scattered(n)).into(), 32),
            Keys::Prefixes6 => CircuitKey::Prefix(prefix6(n), 56),
            Keys::Scattered6 => CircuitKey::Prefix(prefix6(scattered(n) >> 8), 56),
            Keys::Mixed if n.is_multiple_of(2) => Keys::Hosts4.key(n),
            Keys::Mixed => Keys::Prefixes6.key(n),
            Keys::Mac => CircuitKey::Mac(Mac::from_number(0x0200_0000_0000 | u64::from(n))),
            Keys::TagPairs => CircuitKey::Vlan { outer: Some((n / 4000 + 1) as u16), vlan: (n % 4000 + 1) as u16 },
        }
    }

    /// Makes a packet one of circuit `n`.
    fn write(self, n: u32, packet: &mut Packet) {
        let l3 = usize::from(packet.meta().l3);
        match self.key(n) {
            CircuitKey::Prefix(IpAddr::V4(address), _) => {
                packet.bytes_mut()[l3 + 16..l3 + 20].copy_from_slice(&address.octets())
            }
            CircuitKey::Prefix(IpAddr::V6(address), _) => {
                packet.bytes_mut()[l3 + 24..l3 + 40].copy_from_slice(&address.octets())
            }
            CircuitKey::Mac(mac) => packet.bytes_mut()[..6].copy_from_slice(&mac.0),
            CircuitKey::Vlan { outer, vlan } => {
                let tags =
                    [[0x88, 0xa8], outer.unwrap_or(0).to_be_bytes(), [0x81, 0], vlan.to_be_bytes(), [8, 0]].concat();
                packet.bytes_mut()[12..22].copy_from_slice(&tags);
            }
        }
    }

    fn packet(self, n: u32, pool: &mut Pool) -> Packet {
        let six = matches!(self.key(n), CircuitKey::Prefix(IpAddr::V6(_), _));
        let mut packet = pool.take().expect("the region is large enough");
        assert!(packet.fill(&[if six { 0x60 } else { 0x45 }; 100]));
        let meta = packet.meta_mut();
        (meta.l3, meta.flags) =
            (if matches!(self, Keys::TagPairs) { 22 } else { 14 }, if six { Meta::IPV6 } else { 0 });
        packet
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().without_plots();
    for (name, keys) in [
        ("ipv4_pools", Keys::Hosts4),
        ("ipv4_scattered", Keys::Scattered4),
        ("ipv6_56", Keys::Prefixes6),
        ("ipv6_56_scattered", Keys::Scattered6),
        ("mixed", Keys::Mixed),
        ("mac", Keys::Mac),
        ("tag_pairs", Keys::TagPairs),
    ] {
        let table =
            CircuitTable::new((0..CIRCUITS).map(|n| (keys.key(n), ShareId(n + 1)))).expect("the keys are valid");
        println!("{name}: {} bytes for {CIRCUITS} circuits, with reserved address space", table.memory().get());
        for batch in [64, 256] {
            let (mut pool, random) = (Pool::new(Region::new(batch)), RefCell::new(Random(1)));
            let packets = (0..batch as u32).map(|n| keys.packet(n, &mut pool)).collect::<Vec<_>>();
            let packets = RefCell::new(packets);
            let mut group = criterion.benchmark_group("look_up");
            group.throughput(Throughput::Elements(batch as u64));
            let fill = || {
                for (i, packet) in packets.borrow_mut().iter_mut().enumerate() {
                    let n = random.borrow_mut().next() % u64::from(CIRCUITS / 2);
                    // By turns, as the packets of `Mixed`.
                    keys.write(n as u32 * 2 + i as u32 % 2, packet);
                }
            };
            let direction = LookUpDirection::DownBridged;
            group.bench_function(format!("{name}/{batch}"), |b| {
                b.iter_batched(fill, |()| table.look_up(direction, &mut packets.borrow_mut()), BatchSize::PerIteration);
            });
            group.finish();
            packets.take().into_iter().for_each(|packet| pool.give(packet));
        }
    }
    criterion.bench_function("build/ipv4_pools", |b| {
        b.iter(|| CircuitTable::new((0..CIRCUITS).map(|n| (Keys::Hosts4.key(n), ShareId(n + 1)))));
    });
    criterion.bench_function("build/mixed", |b| {
        b.iter(|| CircuitTable::new((0..CIRCUITS).map(|n| (Keys::Mixed.key(n), ShareId(n + 1)))));
    });
}
