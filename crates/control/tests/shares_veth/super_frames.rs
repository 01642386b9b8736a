//! A subscriber whose packets arrive in super-frames of 64 KB, and its neighbour at the same site.

use crate::access::{ATTEMPTS, Access, INTERNET, Running, is_near, lab, millis, p95, routed_config, spans};
use crate::traffic::{Direction, Load, probing};
use io::wait::{Sleeper, Waker};
use units::Nanos;

const PART: f64 = 0.05;
/// The most by which the 95th percentile of the neighbour's round trips may exceed the median without load.
const DELAY: Nanos = Nanos::millis(20);
const TABLE: &str = "site,circuit,parent,address,down,up\nS,,,,60mbit,60mbit\n\
                     ,C0,S,100.64.1.0,40mbit,40mbit\n,C1,S,100.64.1.1,5mbit,5mbit\n";
const PLANS: [f64; 2] = [40e6, 5e6];

/// Bytes and packets that the router has received at a port.
fn received(running: &Running, port: &str) -> (u64, u64) {
    let ports = running.daemon.ports().unwrap().ports;
    let port = ports.into_iter().find(|one| one.name == port).unwrap();
    (port.counters.received_bytes, port.counters.received)
}

#[test]
fn super_frames_of_a_subscriber_do_not_delay_its_neighbour() {
    let Some((lab, _turn)) = lab() else { return };
    let access = Access::routed_with_offloads(&lab, 0..2);
    for host in [&access.subscribers, &access.internet] {
        // Otherwise the kernel makes super-frames of slow connections small.
        host.sysctl("net/ipv4/tcp_min_tso_segs", "44").unwrap();
    }
    let running = access.start(&routed_config(""), TABLE);
    let ((), mut base) = probing(&access, INTERNET, &[1], || {
        Sleeper::new(Waker::new().unwrap()).sleep([], Nanos::secs(1)).unwrap();
    });
    base.sort_unstable();
    let base = base[base.len() / 2];
    for (direction, port) in [(Direction::Down, "wan"), (Direction::Up, "lan")] {
        let mut load = Load::default();
        for number in [0, 1] {
            load.connect(&access, INTERNET, number, direction);
        }
        let attempt = || {
            let before = received(&running, port);
            let (result, mut times) = probing(&access, INTERNET, &[1], || load.run(spans()));
            let after = received(&running, port);
            let rates = result.rates;
            let delay = p95(&mut times).saturating_sub(base);
            let mean = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
            println!(
                "{direction:?}: {:.2} and the neighbour {:.2} Mbit/s, its p95 of {} round trips {:.1} ms above the base; \
                 {mean:.0} bytes a packet from the senders",
                rates[0] / 1e6,
                rates[1] / 1e6,
                times.len(),
                millis(delay)
            );
            assert!(mean > 4000.0, "the hosts send no super-frames");
            let are_near = rates.iter().zip(PLANS).all(|(rate, plan)| is_near(*rate, plan, PART));
            (are_near && delay <= DELAY).then_some(()).ok_or((rates, millis(delay)))
        };
        let faults: Vec<_> = std::iter::repeat_with(attempt).take(ATTEMPTS).map_while(Result::err).collect();
        assert!(faults.len() < ATTEMPTS, "{direction:?}: {faults:?}");
    }
}
