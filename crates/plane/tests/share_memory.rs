//! The memory of a share: of a leaf without packets, and of one with packets.

use plane::rig::{MemoryWires, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicI64, Ordering};
use units::{Mac, Nanos};

struct Measuring;

/// The bytes that are allocated now.
static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: passes every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Memory) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the trait.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
scheme = "share(rate=1mbit, leaves=4096)"
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=1gbit, leaves=4096)"
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:99"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.9"
[subscribers]
inside = ["lan"]
outside = ["wan"]
rtt = false
"#;

/// Subscribers of a site.
const SITE: usize = 25;
/// A queue of a link: a cache line, which is allocated with the link.
const QUEUE: i64 = 64;
/// The queues of a leaf's default scheme, and that of a lone packet.
const QUEUES: i64 = 32 + 1;

fn address(subscriber: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + subscriber as u32)
}

/// A router with so many subscribers, and the bytes that it has allocated.
fn router(count: usize) -> (Rig, i64) {
    let before = LIVE.load(Ordering::Relaxed);
    let mut wires = MemoryWires::default();
    // The name of the file has the number.
    wires.read_file = Some(|name| {
        let count: usize = name.trim_start_matches('/').parse().map_err(std::io::Error::other)?;
        let mut text = String::from("site,circuit,parent,address,down,up\n");
        for site in 0..count / SITE {
            writeln!(text, "site{site},,,,1gbit,1gbit").map_err(std::io::Error::other)?;
        }
        for subscriber in 0..count {
            let (site, address) = (subscriber / SITE, address(subscriber));
            writeln!(text, ",{subscriber},site{site},{address},100mbit,20mbit").map_err(std::io::Error::other)?;
        }
        Ok(text.into_bytes())
    });
    let mut rig = Rig::running_with(wires, 16_384, Layout::Three, &format!("{CONFIG}file = \"/{count}\"\n"));
    rig.advance(Nanos::millis(2));
    rig.router.restore_shares();
    (rig, LIVE.load(Ordering::Relaxed) - before)
}

#[test]
fn idle_leaf_has_a_kilobyte_and_leaf_with_packets_eight() {
    const COUNT: usize = 2000;
    // Another router first: the memory of threads and of tables that all routers share is not that of shares.
    drop(router(SITE));
    let (few, of_few) = router(COUNT / 2);
    let (mut rig, of_many) = router(COUNT);
    // Each subscriber has a leaf at both ports. A site has a share as well.
    let leaves = 2 * (COUNT / 2) as i64;
    let idle = (of_many - of_few) / leaves;
    assert!((100..=1024).contains(&idle), "a leaf without packets has {idle} bytes");
    drop(few);

    // The link sends slowly: nearly all packets wait, three of each subscriber.
    let before = LIVE.load(Ordering::Relaxed);
    let active = COUNT / 2;
    for subscriber in 0..active {
        for port in 0..3 {
            let link = (Mac([2, 0, 0, 0, 0, 0x22]), Mac([2, 0, 0, 0, 0, 2]));
            let network = (Ipv4Addr::new(198, 51, 100, 9), address(subscriber));
            let frame = UdpFrame { link, network, ports: (1000 + port, 9), ttl: 64, length: 1000 }.frame(&[]);
            rig.send("wan", &frame);
        }
        rig.settle();
    }
    let waiting = rig.router.shares("lan").expect("shares").iter().filter(|s| s.counts.waiting.packets > 1).count();
    assert!(waiting >= active * 9 / 10, "{waiting} shares hold packets");
    let with_packets = idle + QUEUES * QUEUE + (LIVE.load(Ordering::Relaxed) - before) / active as i64;
    assert!((2000..=8192).contains(&with_packets), "a leaf with packets has {with_packets} bytes");
}
