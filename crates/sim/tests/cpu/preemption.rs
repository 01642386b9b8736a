//! Functions that are preempted at the end of their slice (spec Q-41a), beside a flow with a promise.

use crate::common::{run, value};
use crate::worlds::{Flow, only_forwarding};

/// Nine packets of 2 us each millisecond, and one of 10 ms every 25 ms; `more` is added to the configuration of its path.
fn beside(more: &str) -> sim::Measurements {
    let dear = Flow { more: more.into(), ..Flow::even(450, 10_000_000, 40) };
    let flows = [Flow::even(300, 2000, 9_000), dear];
    let cpu = "forwarding = \"timeslice(packets=16, slice=100us)\"";
    run(&only_forwarding(cpu, 1000, &flows, "duration = \"1s\"\nsample = \"100ms\"\nwarmup = \"100ms\""))
}

#[test]
fn reserved_flow_waits_at_most_one_slice() {
    let [whole, slices] = ["", "preemptible = true"].map(beside);
    let latency = |measured, flow| value(measured, &format!("source.s{flow}.latency_max_us"));
    for (name, measured) in [("whole packets", &whole), ("slices", &slices)] {
        println!("{name}: promised {} us, dear {} us", latency(measured, 0), latency(measured, 1));
        assert_eq!(value(measured, "source.s0.lost") + value(measured, "source.s1.lost"), 0.0);
        assert_eq!(value(measured, "source.s1.received"), 36.0, "{name}: the dear flow has what it asks for");
    }
    // It waits for a whole packet, minus the part that had passed when the first one arrived: one arrives every 111 us.
    assert!((10_004.0 - 111.2..=10_004.0).contains(&latency(&whole, 0)), "{}", latency(&whole, 0));
    // It waits for a slice, a packet of its own, and two switches.
    assert!(latency(&slices, 0) <= 104.0, "{}", latency(&slices, 0));
    // The delay is due only to the other flow's packets and to a switch for each slice.
    assert!(latency(&slices, 1) < 10_000.0 * 1.06, "{}", latency(&slices, 1));
}

#[test]
fn preemptible_functions_get_exact_share() {
    // Both are always backlogged: 30 and 45 of 75 hundredths.
    let flood = |more: &str| {
        let dear = Flow { more: more.into(), ..Flow::even(450, 1_000_000, 2000) };
        let flows = [Flow::even(300, 20_000, 60_000), dear];
        let cpu = "forwarding = \"timeslice(packets=16, slice=100us)\"";
        run(&only_forwarding(cpu, 0, &flows, "duration = \"1s\"\nsample = \"100ms\"\nwarmup = \"100ms\""))
    };
    for more in ["", "preemptible = true", "preemptible = true\ncpu_limit = \"300us\""] {
        let measured = flood(more);
        let received = value(&measured, "task.forwarding.f1.share_received");
        assert!((received - 0.6).abs() < 0.005, "{more}: {received}");
        let packets = value(&measured, "path.f1.forwarded_pps");
        let expected = if more.contains("limit") { 0.0 } else { 600.0 };
        assert!((packets - expected).abs() < 5.0, "{more}: {packets}");
        // Each packet is stopped after 300 us.
        let stopped = measured.get("drop.cpu_limit").unwrap_or(0.0);
        let expected = if more.contains("limit") { 0.6 * 0.9 / 300e-6 } else { 0.0 };
        assert!((stopped - expected).abs() < 12.0, "{more}: {stopped} of {expected}");
    }
}
