//! A guest that does not return affects only its own worker: the delay of packets through other workers does not change.

use extension::{Directory, Runtime};
use packet::event::{Event, Observer};
use plan::Catalogue;
use plane::rig::{LAN_AND_WAN, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Instant, Nanos};

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");
/// Packets of each flow.
const PACKETS: usize = 2000;
/// The pause between them.
const PAUSE: Nanos = Nanos::millis(5);

/// FIFO, but a packet of more than 1000 bytes sends it into an endless loop.
fn sensitive() -> Vec<u8> {
    let text = FIFO.replace(
        "(local.set $fits (i32.lt_u",
        "(if (i32.gt_u (i32.load (i32.const 3784)) (i32.const 1000)) (then (loop (br 0))))
        (local.set $fits (i32.lt_u",
    );
    assert_ne!(text, FIFO);
    wat::parse_str(text).expect("it is WebAssembly")
}

/// Counts the faults of guests by worker.
struct Faults(Arc<[AtomicU32; 2]>);

impl Observer for Faults {
    fn event(&mut self, _: Instant, event: &Event<'_>) {
        if let Event::GuestFailed { worker, .. } = event {
            self.0[worker.index()].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The far ends of each worker's queues of the ports.
const WIRES: [(&str, &str); 2] = [("lan", "wan"), ("lan#1", "wan#1")];

/// Two workers with the guest on each, and packets through each.
struct Pair {
    team: WorkerGroup,
    faults: Arc<[AtomicU32; 2]>,
}

impl Pair {
    fn new(guests: Directory) -> Pair {
        let faults: Arc<[AtomicU32; 2]> = Arc::default();
        let mut team = WorkerGroup::with_observers(2, 2, 4096, Layout::Three, |_| Box::new(Faults(faults.clone())));
        let catalogue = Catalogue { guests: Some(Arc::new(guests)), ..plane::catalogue() };
        let config = LAN_AND_WAN
            .replace("version = 1\n", "version = 1\n[router]\nworkers = 2\n")
            .replace("device = \"memory:wan\"", "device = \"memory:wan\"\nscheme = \"guest:sensitive\"");
        let plan = plan::check(&config, "pair.toml", &catalogue).unwrap_or_else(|wrong| panic!("{wrong}"));
        let prepared = team.router.prepare(&plan, &mut team.wires).expect("it can run");
        let mut published = team.router.publish(prepared);
        while !published.is_adopted() {
            (0..2).for_each(|worker| _ = team.step(worker));
        }
        team.router.complete(published);
        team.settle();
        Pair { team, faults }
    }

    /// The 99th percentile of the delays of the second worker's packets, while the first worker has packets of `length` bytes.
    fn p99(&mut self, length: usize) -> u64 {
        let mut delays: Vec<u64> = (0..PACKETS).map(|_| self.delay(length)).collect();
        delays.sort_unstable();
        delays[PACKETS / 100 * 99]
    }

    fn delay(&mut self, length: usize) -> u64 {
        let team = &mut self.team;
        team.now += PAUSE;
        for ((near, _), length) in WIRES.into_iter().zip([length, 60]) {
            team.send(near, &UdpFrame { length, ..UdpFrame::between_ports(7, 9) }.frame(&[]));
        }
        // Both workers run. A step takes the virtual time of its work, regardless of the worker.
        let (sent, mut came) = (team.now, [0, 0]);
        while came.contains(&0) {
            for (worker, (_, far)) in WIRES.into_iter().enumerate() {
                team.step(worker);
                if !team.received(far).is_empty() {
                    came[worker] = team.now.since(sent).get();
                }
            }
        }
        came[1]
    }
}

#[test]
fn endless_guest_does_not_delay_packets_of_other_workers() {
    let place = tempfile::tempdir().expect("there is room");
    std::fs::write(place.path().join("sensitive.wasm"), sensitive()).expect("it can be written");
    let guests = || Directory::new(place.path(), Runtime::counted().expect("it runs here"));
    let [before, beside] = [60, 1400].map(|length| {
        let mut pair = Pair::new(guests());
        let p99 = pair.p99(length);
        let faults = [0, 1].map(|worker| pair.faults[worker].load(Ordering::Relaxed));
        assert_eq!(faults, [if length > 1000 { extension::FAULTS } else { 0 }, 0], "of frames of {length} bytes");
        for report in pair.team.reports() {
            assert_eq!((report.ledger.received(), report.ledger.dropped()), (PACKETS as u64, 0));
        }
        p99
    });
    assert!(beside * 100 <= before * 105, "{beside} ns beside a guest that does not return, {before} ns before");
}
