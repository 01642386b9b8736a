//! Stores sized by the bound.

use super::{Place, count};
use crate::bound::{entries, memory, packets, shard_capacity};
use crate::isa::Abort;
use crate::site::InstructionFate;
use crate::store::{LIFETIME, StoreSpec};
use units::{Instant, Nanos, PacketRate, Rate};

/// The paper's example: two creates per packet, 10^5 packets per second, ten seconds.
#[test]
fn sizing_bound() {
    assert_eq!(entries(2, PacketRate::kpps(100), LIFETIME), 2_000_000);
    // A line of 100 Mbit/s with frames of 64 bytes (spec 3).
    assert_eq!(packets(Rate::mbit(100)), PacketRate::pps(148_810));
    assert_eq!(entries(1, PacketRate::pps(3), Nanos::millis(500)), 2, "rounded up");
    assert_eq!(entries(u64::MAX, PacketRate::pps(u64::MAX), LIFETIME), u64::MAX);
    assert_eq!([shard_capacity(10, 3), shard_capacity(10, 1), shard_capacity(10, 0)], [4, 10, 10]);
    let bytes = memory(2_000_000, 4).get() / 2_000_000;
    assert!((64..80).contains(&bytes), "{bytes} bytes an entry");
}

/// Creates at the highest rate for six lifetimes. Returns the number of aborts.
fn aborts(capacity: u64, rate: u64) -> u64 {
    let mut place = Place::new(StoreSpec::of(capacity));
    let mut aborted = 0;
    for n in 0..rate * 60 {
        place.now = Instant::new(n * 1_000_000_000 / rate);
        aborted += u64::from(
            place.fate(count(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 2)) == InstructionFate::Aborted(Abort::Full),
        );
    }
    aborted
}

#[test]
fn store_sized_by_the_bound_never_overflows_and_a_smaller_one_does() {
    let bound = entries(1, PacketRate::pps(500), LIFETIME);
    assert_eq!(aborts(bound, 500), 0);
    // Large enough that lines around some tag would fill up if there were fewer of them.
    assert_eq!(aborts(1_000_000, 100_000), 0);
    let short = aborts(bound * 95 / 100, 500);
    // In each lifetime after the first, the missing twentieth of all creates.
    assert!((1000..=1600).contains(&short), "{short}");
}

/// Below the bound, completed creates grow with the store: one capacity per lifetime (the paper's figure 3, spec E-X7).
#[test]
fn completed_creates_grow_with_the_store_up_to_the_offered_rate() {
    let completed = |capacity| (200 * 60 - aborts(capacity, 200)) as f64 / 60.0;
    for capacity in [200, 500, 1000, 1500] {
        let (ideal, found) = (capacity as f64 / 10.0, completed(capacity));
        assert!((found - ideal).abs() <= ideal * 0.1, "{capacity}: {found} a second");
    }
    assert_eq!(completed(2000), 200.0);
}
