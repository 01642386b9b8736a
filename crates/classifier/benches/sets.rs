//! Look-ups and changes of large sets: `cargo bench -p classifier --bench sets`. Look-ups are in batches of 256, half of the addresses inside.
//! The time of a batch divided by 256 is that of a look-up. Criterion also prints the number of look-ups a second.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "../tests/random/mod.rs"]
mod random;

use classifier::{Set, SetEdit, SetElement};
use criterion::{Criterion, Throughput};
use plan::{Prefix, SetKind, SetValue};
use random::Random;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use units::Instant;

const BATCH: usize = 256;
/// Addresses of a run: so many that their elements are not in a cache by repetition.
const ADDRESSES: usize = BATCH * 4096;

/// A prefix of 24 to 32 bits.
fn prefix4(random: &mut Random) -> Prefix {
    let (bits, length) = (random.next() as u32, 24 + (random.next() >> 32) as u8 % 9);
    Prefix { address: Ipv4Addr::from_bits(bits).into(), length }.network()
}

/// A prefix of 32 to 64 bits in 2000::/3.
fn prefix6(random: &mut Random) -> Prefix {
    let bits = u128::from(random.next() >> 3 | 1 << 61) << 64;
    Prefix { address: Ipv6Addr::from_bits(bits).into(), length: 32 + (random.next() >> 32) as u8 % 33 }.network()
}

fn add(prefix: Prefix) -> SetEdit {
    SetEdit::Add(SetElement { value: SetValue::Addresses(prefix), expires: Instant::NEVER })
}

fn set(prefixes: &[Prefix]) -> Set {
    Set::new(SetKind::Address, 4_000_000).edited(prefixes.iter().copied().map(add)).expect("all are addresses").0
}

/// Half random addresses, half first addresses of random prefixes.
fn half_inside<A>(
    random: &mut Random,
    any: impl Fn(u64) -> A,
    prefixes: &[Prefix],
    first: impl Fn(Prefix) -> A,
) -> Vec<A> {
    let mut address = |i| {
        let number = random.next();
        if i % 2 == 0 { any(number) } else { first(prefixes[(number >> 32) as usize % prefixes.len()]) }
    };
    (0..ADDRESSES).map(&mut address).collect()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().without_plots();
    for size in [1_000, 100_000, 1_000_000] {
        let mut random = Random(1);
        let prefixes: Vec<Prefix> = (0..size).map(|_| prefix4(&mut random)).collect();
        let v4 = set(&prefixes);
        println!("{size} IPv4 prefixes: {:.1} bytes each", v4.memory().get() as f64 / v4.len() as f64);
        let addresses = half_inside(
            &mut random,
            |number| (number >> 32) as u32,
            &prefixes,
            |prefix| match prefix.address {
                std::net::IpAddr::V4(address) => address.to_bits(),
                std::net::IpAddr::V6(_) => 0,
            },
        );
        look_up(&mut criterion, &format!("ipv4/{size}"), &addresses, |batch, marks| v4.mark4(batch, marks, 1));

        let prefixes: Vec<Prefix> = (0..size).map(|_| prefix6(&mut random)).collect();
        let v6 = set(&prefixes);
        println!("{size} IPv6 prefixes: {:.1} bytes each", v6.memory().get() as f64 / v6.len() as f64);
        let any = |number: u64| u128::from(number >> 3 | 1 << 61) << 64 | 1;
        let addresses = half_inside(&mut random, any, &prefixes, |prefix| match prefix.address {
            std::net::IpAddr::V6(address) => address.to_bits(),
            std::net::IpAddr::V4(_) => 0,
        });
        look_up(&mut criterion, &format!("ipv6/{size}"), &addresses, |batch, marks| v6.mark6(batch, marks, 1));

        criterion.bench_function(&format!("add_one/ipv4/{size}"), |b| {
            b.iter(|| v4.edited([add(prefix4(&mut random))]).expect("it is an address"));
        });
        criterion.bench_function(&format!("add_one/ipv6/{size}"), |b| {
            b.iter(|| v6.edited([add(prefix6(&mut random))]).expect("it is an address"));
        });
        let many: Vec<SetEdit> = (0..100_000).map(|_| add(prefix4(&mut random))).collect();
        criterion.bench_function(&format!("add_100000/ipv4/{size}"), |b| {
            b.iter(|| v4.edited(many.iter().copied()).expect("all are addresses"));
        });
    }
}

fn look_up<A>(criterion: &mut Criterion, name: &str, addresses: &[A], mark: impl Fn(&[A], &mut [u64])) {
    let mut group = criterion.benchmark_group("look_up");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut batches = addresses.chunks_exact(BATCH).cycle();
    let mut marks = [0; BATCH];
    group.bench_function(name, |b| {
        b.iter(|| {
            mark(batches.next().expect("there are batches"), black_box(&mut marks));
        });
    });
    group.finish();
}
