//! Observation of batches of 256 packets: `cargo bench -p subscribers --bench rtt`. The time of a batch divided by 256 is that of a packet. The headers of
//! the packets are in a cache, as after classification; the table of 2^19 entries (4 MB) is not, for there are more flows than it has entries.

use criterion::{BatchSize, Criterion, Throughput};
use packet::{Packet, Pool, Region};
use std::cell::RefCell;
use std::hint::black_box;
use subscribers::{RttSide, RttTable};
use units::{Instant, ShareId};

const BATCH: usize = 256;

/// An IPv4 packet of a protocol, with or without timestamps.
fn packet(protocol: u8, timestamps: bool, pool: &mut Pool) -> Packet {
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0, 0x45, 0, 0, 140, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    bytes.extend([
        1,
        187,
        4,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        if timestamps { 0x80 } else { 0x50 },
        24,
        255,
        255,
        0,
        0,
        0,
        0,
    ]);
    bytes.extend([1, 1, 8, 10]);
    bytes.resize(154, 0);
    let mut packet = pool.take().expect("the region is large enough");
    assert!(packet.fill(&bytes));
    packet.meta_mut().l3 = 14;
    packet.meta_mut().set_share(ShareId(1));
    packet
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().without_plots();
    let mut group = criterion.benchmark_group("observe");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, protocol, timestamps) in [("udp", 17, false), ("tcp_without", 6, false), ("tcp_with", 6, true)] {
        let (mut pool, table) = (Pool::new(Region::new(BATCH)), RttTable::new(1 << 19, 0x1234_5678));
        let packets = RefCell::new((0..BATCH).map(|_| packet(protocol, timestamps, &mut pool)).collect::<Vec<_>>());
        let number = RefCell::new(0u64);
        // Other flows and timestamps in each batch: the echoes are those of 3906 batches before.
        let fill = || {
            let mut packets = packets.borrow_mut();
            let up = (*number.borrow() / 1_000_000).is_multiple_of(2);
            for packet in packets.iter_mut() {
                let n = *number.borrow() % 1_000_000;
                *number.borrow_mut() += 1;
                packet.meta_mut().timestamp = Instant::new(*number.borrow() * 100);
                let (client, server) = ([[10, 0, 0, 1], (n as u32).to_be_bytes()].concat(), [192, 0, 2, 1]);
                let hosts = if up { [client.split_at(4).1, &server] } else { [&server, client.split_at(4).1] };
                let bytes = packet.bytes_mut();
                bytes[26..34].copy_from_slice(&hosts.concat());
                bytes[34..38].copy_from_slice(if up { &[4, 0, 1, 187] } else { &[1, 187, 4, 0] });
                bytes[58..66].copy_from_slice(&[0, 0, 0, 7, 0, 0, 0, 7]);
            }
            if up { RttSide::Subscriber } else { RttSide::Internet }
        };
        group.bench_function(name, |b| {
            b.iter_batched(
                fill,
                |from| table.observe(from, &packets.borrow(), |at, time| _ = black_box((at, time))),
                BatchSize::PerIteration,
            );
        });
        packets.take().into_iter().for_each(|packet| pool.give(packet));
    }
    group.finish();
}
