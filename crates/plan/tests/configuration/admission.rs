//! Admission control: reservations fit, or the error names the exhausted resource. The numbers are computed by hand, most of them from the
//! experiments of Qie et al. 2001.

use crate::catalogue::catalogue;
use plan::admission::{
    AdmissionError, Allotment, CostEstimate, CostSource, Costs, PathCosts, PortCosts, Shortage, admit, exits,
};
use plan::{Plan, throttle};
use proptest::prelude::*;
use std::fmt::Write;
use units::{Nanos, PacketRate, Parts, Rate};

/// A configuration with these ports, called `p0` and so on, with subnets 10.N.0.0/24.
fn read(cpu: &str, ports: &[&str], paths: &str) -> Plan {
    let mut source = format!("version = 1\n[cpu]\n{cpu}\n");
    for (index, keys) in ports.iter().enumerate() {
        let _ = write!(
            source,
            "[port.p{index}]\ndevice = \"memory:m{index}\"\naddress = [\"10.{index}.0.1/24\"]\n{keys}\n"
        );
    }
    source += paths;
    plan::check(&source, "f", &catalogue()).unwrap_or_else(|e| panic!("{}\n{source}", e.render(false)))
}

fn path(name: usize, matching: &str, keys: &str) -> String {
    format!("[[path]]\nname = \"f{name}\"\nmatch = \"{matching} udp dport {}\"\n{keys}\n", name + 1)
}

/// The costs of a packet for input, functions (unless the plan sets them) and output, in nanoseconds.
fn costs(plan: &Plan, (input, functions, output): (u64, u64, u64), switch: u64) -> Costs {
    let flat = |ns| CostEstimate::flat(Nanos::new(ns), CostSource::Measured);
    let port =
        PortCosts { input: flat(input), output: flat(output), link: None, line_rate: None, ring: None, transmit: None };
    let path = |path: &plan::PathPlan| PathCosts {
        functions: path.cpu.cost.map_or(flat(functions), |cost| CostEstimate { cost, source: CostSource::Declared }),
        exits: exits(plan, path),
    };
    Costs {
        switch: Nanos::new(switch),
        switch_source: CostSource::Measured,
        ports: vec![port; plan.ports.len()],
        paths: plan.paths.iter().map(path).collect(),
        best_effort: flat(functions),
    }
}

fn admitted(plan: &Plan, costs: &Costs) -> Allotment {
    admit(plan, costs).unwrap_or_else(|refused| panic!("{refused}"))
}

fn refused(plan: &Plan, costs: &Costs) -> AdmissionError {
    admit(plan, costs).expect_err("it does not fit")
}

/// The thirteen flows of E9: all combinations of 5, 10 and 20 Kpps with 1, 3, 3 and 10 us, and flow 13. Input and output cost nothing.
fn thirteen(cpu: &str, last: &str) -> Plan {
    let mut paths = String::new();
    for (group, cost) in [1, 3, 3, 10].into_iter().enumerate() {
        for (index, rate) in [5, 10, 20].into_iter().enumerate() {
            let keys = format!("reserve = \"{rate}kpps\"\ncost = \"{cost}us\"\nqueue = 4096\n");
            paths += &path(3 * group + index, "iif p0", &keys);
        }
    }
    paths += &path(12, "iif p0", &format!("{last}\ncost = \"3us\"\nqueue = 4096\n"));
    read(&format!("layout = 2\nreceive = \"interrupt\"\nswitch_cost = \"3us\"\n{cpu}\n"), &[""], &paths)
}

fn percent(share: units::Share) -> f64 {
    (share.as_f64() * 1e5).round() / 1e3
}

#[test]
fn thirteen_flows_get_the_shares_of_the_paper() {
    let plan = thirteen("forwarding = \"throttle(overhead=10%, slice=30us)\"", "cpu_share = \"3%\"");
    let allotment = admitted(&plan, &costs(&plan, (0, 1_000, 0), 3_000));
    let shares: Vec<f64> = allotment.paths.iter().map(|path| percent(path.task.share)).collect();
    let expected = [0.5, 1.0, 2.0, 1.5, 3.0, 6.0, 1.5, 3.0, 6.0, 5.0, 10.0, 20.0, 3.0];
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 0.002, "{shares:?}");
    }
    assert!((shares.iter().sum::<f64>() - 62.5).abs() < 0.02, "{shares:?}");
    assert_eq!(allotment.demand, Parts::millionths(595_000));
    assert_eq!(allotment.overhead, Parts::millionths(59_500), "ten percent of the work, no less");
    let thresholds: Vec<u32> = allotment.paths.iter().map(|path| path.threshold).collect();
    assert_eq!(thresholds, [30, 30, 30, 10, 10, 10, 10, 10, 10, 3, 3, 3, 10]);
}

/// With flow 13 at its 100 Kpps of 3 us the work is 0.595 + 0.30 = 0.895, so the overhead may be 11.7 % at most. With a hundredth for best effort it
/// is 10.6 %: 0.99 / 0.895.
#[test]
fn demand_of_thirteen_flows_bounds_the_overhead() {
    let demand = Parts::millionths(895_000);
    assert_eq!(throttle::highest_overhead(demand), Parts::millionths(117_318));
    assert!(
        throttle::reachable_share(Parts::percent(12)) < demand
            && demand < throttle::reachable_share(Parts::percent(11))
    );

    let at = |overhead: &str, slice| {
        let plan = thirteen(
            &format!("forwarding = \"throttle(overhead={overhead}, slice={slice})\""),
            "reserve = \"100kpps\"",
        );
        let costs = costs(&plan, (0, 1_000, 0), 3_000);
        admit(&plan, &costs)
    };
    let allotment = at("10%", "30us").unwrap();
    assert_eq!((allotment.demand, allotment.overhead), (demand, Parts::millionths(89_500)));
    assert_eq!(allotment.left, Parts::millionths(15_500));
    assert!(at("10.6%", "30us").is_ok());
    let refused = at("10.7%", "30us").unwrap_err();
    assert_eq!(refused.path, "f12", "the most demanding gives way");
    let Shortage::Cpu { needed, available } = refused.shortage else { panic!("{refused}") };
    // 0.3 * 1.107 is needed. Available is 0.99 minus 0.595 * 1.107.
    assert_eq!((needed, available), (Parts::millionths(332_100), Parts::millionths(331_335)));
    assert!(refused.hint.starts_with("reserve = \"99769pps\" would fit"), "{refused}");
    assert!(at("20%", "15us").is_err());
}

/// One packet per switch: 0.595 + 140 Kpps * 3 us = 1.015, above the paper's limit of 1. With 8 it is 0.6475.
#[test]
fn batches_of_one_do_not_fit_where_batches_of_eight_do() {
    let at = |batching| {
        let plan = thirteen(&format!("forwarding = \"{batching}\""), "cpu_share = \"3%\"");
        admit(&plan, &costs(&plan, (0, 1_000, 0), 3_000))
    };
    let refused = at("none").unwrap_err();
    assert_eq!((refused.path.as_str(), refused.shortage.resource()), ("f11", "cpu"));
    let allotment = at("simple(packets=8)").unwrap();
    assert_eq!((allotment.demand, allotment.overhead), (Parts::millionths(595_000), Parts::millionths(52_500)));
}

/// E6 to E8: B and C, 90 Kpps each at 3.3 us, take 0.594; A divides the rest.
#[test]
fn two_reservations_leave_the_rest_to_the_third_flow() {
    let cpu = "switch_cost = \"1us\"\ninput_share = \"balanced\"\ninput = \"simple(packets=16)\"\n\
               forwarding = \"simple(packets=16)\"\noutput = \"simple(packets=16)\"";
    let reserved = "reserve = \"90kpps\"\nqueue = 4096";
    let paths = path(0, "iif p1 ip daddr 10.0.0.0/24", reserved) + &path(1, "iif p2 ip daddr 10.1.0.0/24", reserved);
    let plan = read(cpu, &["", "", ""], &paths);
    let allotment = admitted(&plan, &costs(&plan, (1_600, 300, 1_400), 1_000));
    assert_eq!(allotment.demand, Parts::millionths(594_000));
    // Three tasks, 180 Kpps, a switch of 1 us per 16 packets each.
    assert_eq!(allotment.overhead, Parts::millionths(33_750));
    assert_eq!(allotment.left, Parts::millionths(372_250));
    let shares = |of: fn(&plan::admission::PortAllotment) -> units::Share| -> Vec<f64> {
        allotment.ports.iter().map(|port| percent(of(port))).collect()
    };
    assert_eq!(shares(|port| port.input.reserved), [0.0, 14.4, 14.4]);
    assert_eq!(shares(|port| port.output.reserved), [12.6, 12.6, 0.0]);
    assert_eq!(allotment.paths.iter().map(|path| percent(path.task.share)).collect::<Vec<_>>(), [2.7, 2.7]);
}

/// E3: 98 Kpps at 1.6 + 7 us, two tasks, and no time for more. With switches of 1 us per 16 packets it exceeds the hundredth for best effort: 98 *
/// (8.6 + 2/16) = 0.855.
#[test]
fn reservation_of_ninety_eight_kpps_fits_beside_the_flood() {
    let cpu =
        "layout = 2\ninput_share = \"balanced\"\ninput = \"simple(packets=16)\"\nforwarding = \"simple(packets=16)\"";
    let keys = "reserve = \"49kpps\"\ncost = \"7us\"\nqueue = 4096";
    let plan = read(cpu, &[""], &(path(0, "iif p0", keys) + &path(1, "iif p0", keys)));
    let allotment = admitted(&plan, &costs(&plan, (1_600, 7_000, 0), 1_000));
    assert_eq!(allotment.demand, Parts::millionths(842_800));
    assert_eq!(allotment.overhead, Parts::millionths(12_250));
    assert_eq!(percent(allotment.ports[0].input.reserved), 15.68, "98 Kpps * 1.6 us");
    assert!(allotment.paths.iter().all(|path| percent(path.task.share) == 34.3));
    let line = read("layout = 2", &["line_rate = \"140kpps\""], &path(0, "iif p0", keys));
    let allotment = admitted(&line, &costs(&line, (1_600, 7_000, 0), 1_000));
    assert_eq!(percent(allotment.ports[0].input.share), 22.4, "140 Kpps * 1.6 us");
}

#[test]
fn rate_in_bits_uses_the_packet_size() {
    let plan = read(
        "layout = 2",
        &[""],
        &path(0, "iif p0", "reserve = \"16mbit\"\npacket_size = \"200b\"\ncost = \"1us + 10ns/b\""),
    );
    let allotment = admitted(&plan, &costs(&plan, (0, 0, 0), 0));
    assert_eq!(allotment.paths[0].rate, Some(PacketRate::kpps(10)));
    assert_eq!((allotment.paths[0].cost, percent(allotment.paths[0].task.share)), (Nanos::micros(3), 3.0));
    let said =
        read("layout = 2", &[""], &path(0, "iif p0", "reserve = \"10kpps\"\ncpu_share = \"5%\"\ncost = \"3us\""));
    let allotment = admitted(&said, &costs(&said, (0, 0, 0), 0));
    assert_eq!(percent(allotment.paths[0].task.share), 5.0, "a share that is said is taken at its word");
    assert_eq!(allotment.demand, Parts::percent(5));
}

#[test]
fn reservations_never_exceed_a_link_or_a_line() {
    let keys = "reserve = \"300mbit\"\npacket_size = \"1230b\"\nqueue = 65536";
    let to = |name| path(name, "iif p0 ip daddr 10.1.0.0/24", keys);
    let mut plan = read("", &["", ""], &(to(0) + &to(1) + &to(2)));
    let mut all = costs(&plan, (100, 100, 100), 100);
    all.ports[1].link = Some(Rate::gbit(1));
    let allotment = admitted(&plan, &all);
    // 30488 pps of 1250 bytes on the wire.
    assert_eq!(allotment.ports[1].promised, Rate::bits(3 * 30_488 * 1250 * 8));
    all.ports[1].link = Some(Rate::mbit(900));
    let refused = refused(&plan, &all);
    assert!(matches!(&refused.shortage, Shortage::Link { port, .. } if &**port == "p1"), "{refused}");
    assert_eq!(refused.path, "f2");
    plan.ports[0].cpu.line_rate = Some(PacketRate::kpps(90));
    let line = admit(&plan, &all).unwrap_err();
    assert!(matches!(&line.shortage, Shortage::Line { port, .. } if &**port == "p0"), "{line}");
}

/// Two tasks, one port: receiving runs 1 us * 16, best effort 16 us; the path does not wait for itself.
#[test]
fn worst_wait_needs_queue_room_and_delay() {
    let cpu = "layout = 2\ninput = \"simple(packets=16)\"\nforwarding = \"simple(packets=16)\"";
    let with = |keys: &str| {
        let plan = read(cpu, &["estimator = false"], &path(0, "iif p0", &format!("reserve = \"100kpps\"\n{keys}")));
        let costs = costs(&plan, (1_000, 1_000, 0), 500);
        admit(&plan, &costs)
    };
    let allotment = with("").unwrap();
    let path = &allotment.paths[0];
    // The runs of the port and of best effort with a switch each, and the switch to the path.
    assert_eq!(path.wait, Nanos::new(16_000 + 16_000 + 3 * 500));
    assert_eq!(path.queue_needed, 4 + 1, "100 Kpps in 33.5 us, and the packet at hand");
    // The wait for the path, plus the wait for the port, plus two stages of 1 us and a switch for each of three stages. The port's run of 16 us
    // is less than half of the time. So its share has to allow the next one, and the longest other run has to end.
    let input = 34_173;
    assert_eq!(path.through, Some(Nanos::new(33_500 + input + 2_000 + 3 * 500)));
    assert!(with("max_delay = \"72us\"\nqueue = 5").is_ok());
    let late = with("max_delay = \"71us\"").unwrap_err();
    assert_eq!(late.shortage, Shortage::Delay { needed: Nanos::new(71_173), available: Nanos::micros(71) });
    assert!(late.hint.contains("max_delay = \"72us\""), "{late}");
    let full = with("queue = 4").unwrap_err();
    assert_eq!(full.shortage, Shortage::Queue { needed: 5, available: 4 });
    assert_eq!(
        full.to_string(),
        "the reservation of 'f0' does not fit: up to 5 packets arrive while other tasks run, but its queue holds 4; write \
         input_queue = 5, or give all tasks shorter slices"
    );
}

#[test]
fn time_out_is_charged_and_follows_from_the_delay_bound() {
    let cpu = "layout = 2\nforwarding = \"throttle(overhead=10%, slice=30us)\"";
    let with = |keys: &str| {
        let plan = read(
            cpu,
            &["estimator = false"],
            &path(0, "iif p0", &format!("reserve = \"10kpps\"\ncost = \"3us\"\n{keys}")),
        );
        admitted(&plan, &costs(&plan, (0, 1_000, 0), 3_000))
    };
    let free = with("");
    assert_eq!((free.tax, free.paths[0].max_wait), (Parts::default(), None));
    let waits = with("max_wait = \"500us\"");
    assert_eq!(waits.tax, Parts::millionths(6_000), "2000 time-outs a second of 3 us");
    let promised = with("max_delay = \"2ms\"");
    assert_eq!((promised.tax, promised.paths[0].max_wait), (Parts::millionths(6_000), Some(Nanos::micros(500))));
    let often = with("max_wait = \"1us\"");
    assert_eq!(often.tax, Parts::percent(3), "no more time-outs than packets");
}

/// The same, with another path whose packets take 10 ms: the wait includes all of it, or only a slice if the path is preemptible.
#[test]
fn wait_for_a_preemptible_path_is_at_most_its_slice() {
    let wait = |cpu: &str, more: &str| {
        let paths = path(0, "iif p0", "reserve = \"10kpps\"\ncost = \"1us\"\nqueue = 4096\n")
            + &path(1, "iif p0", &format!("cost = \"10ms\"\n{more}\n"));
        let plan = read(&format!("layout = 2\nreceive = \"interrupt\"\n{cpu}"), &[""], &paths);
        admitted(&plan, &costs(&plan, (0, 1_000, 0), 500)).paths[0].wait
    };
    let slices = "forwarding = \"timeslice(packets=16, slice=30us)\"";
    let gained = wait(slices, "").saturating_sub(wait(slices, "preemptible = true"));
    assert_eq!(gained, Nanos::new(10_030_000 - 30_000));
    // Without a slice a preemptible path has a tenth of a millisecond at a time.
    let gained = wait("forwarding = \"none\"", "").saturating_sub(wait("forwarding = \"none\"", "preemptible = true"));
    assert_eq!(gained, Nanos::new(10_000_000 - 100_000));
}

#[test]
fn path_that_waits_for_more_than_half_of_its_queue_gets_a_warning() {
    let cpu = "layout = 2\nforwarding = \"throttle(overhead=2%, slice=150us)\"";
    let plan = read(cpu, &[""], &path(0, "iif p0", "cost = \"1us\"\nqueue = 128"));
    let allotment = admitted(&plan, &costs(&plan, (0, 1_000, 0), 3_000));
    let warning = &allotment.warnings[0];
    assert_eq!(warning.about, "path.f0");
    assert!(warning.reason.contains("waits for 150 packets, more than half of its queue of 128"), "{warning}");
    assert_eq!(allotment.paths[0].threshold, 128, "it does not wait for more than there can be");
}

#[test]
fn slice_too_short_for_the_measured_switch_cost_gets_a_warning() {
    let plan = read("forwarding = \"throttle(overhead=10%, slice=30us)\"", &[""], "");
    let warnings = |switch| admitted(&plan, &costs(&plan, (100, 100, 100), switch)).warnings;
    assert!(warnings(3_000).is_empty());
    assert_eq!(
        warnings(3_001)[0].to_string(),
        "cpu.forwarding: a slice of 30us is too short: with a switch of 3001ns, an overhead of 10% requires 30.0 us; give \
         slice=30010ns or more, or a larger overhead"
    );
}

#[test]
fn best_effort_is_divided_by_balance_or_by_cost() {
    let by_cost = read("input_share = \"balanced\"", &["", ""], "");
    let allotment = admitted(&by_cost, &costs(&by_cost, (1_600, 300, 1_400), 0));
    let shares = |a: &Allotment| {
        let sum = |of: fn(&plan::admission::PortAllotment) -> units::Share| {
            a.ports.iter().map(|p| of(p).as_f64()).sum::<f64>()
        };
        let all = [sum(|p| p.input.share), a.best_effort.share.as_f64(), sum(|p| p.output.share)];
        all.map(|share| (share * 1000.0).round() / 1000.0)
    };
    // The rest after a hundredth for each of the two built-in paths: 0.98 in the ratio 1.6 : 0.3 : 1.4, with a quarter more for the stages after
    // receiving.
    assert_eq!(shares(&allotment), [0.421, 0.099, 0.46]);
    let said = read("input_share = \"balanced\"\nbalance = [5, 1, 5]", &["", ""], "");
    assert_eq!(shares(&admitted(&said, &costs(&said, (1_600, 300, 1_400), 0))), [0.445, 0.089, 0.445]);
}

#[test]
fn receiving_gets_at_most_half_of_the_rest_after_reservations() {
    let keys = "reserve = \"10kpps\"\nqueue = 4096";
    let plan = read("", &["line_rate = \"2mpps\"", ""], &path(0, "iif p0 ip daddr 10.1.0.0/24", keys));
    let allotment = admitted(&plan, &costs(&plan, (1_000, 500, 500), 0));
    // Half of the rest. Subtracted are a hundredth for each of the two built-in paths, 2 % for the reservation, and the share with which the output
    // task of its port runs once while all tasks run once.
    assert!((41.0..=43.0).contains(&percent(allotment.ports[0].input.share)), "{:?}", allotment.ports[0]);
    assert!(allotment.best_effort.share.as_f64() > 0.1);
    assert!(
        allotment.warnings.iter().any(|w| w.about == "port.p0" && w.hint.contains("flood")),
        "{:?}",
        allotment.warnings
    );
}

#[test]
fn explicit_input_shares_have_to_serve_the_reservations() {
    let keys = "reserve = \"100kpps\"\nqueue = 4096";
    let with = |share: &str| {
        let plan = read(
            "input_share = \"explicit\"\nlayout = 2",
            &[&format!("share = \"{share}\"")],
            &path(0, "iif p0", keys),
        );
        let costs = costs(&plan, (1_600, 300, 0), 0);
        admit(&plan, &costs)
    };
    assert_eq!(percent(with("20%").unwrap().ports[0].input.share), 20.0);
    let short = with("15%").unwrap_err();
    assert!(matches!(&short.shortage, Shortage::Input { needed, .. } if *needed == Parts::percent(16)), "{short}");
}

#[test]
fn rings_that_overflow_while_their_task_sleeps_or_waits_get_a_warning() {
    let plan = read(
        "input = \"simple(packets=16)\"",
        &["line_rate = \"140kpps\"\nestimator = { sleep_max = \"343us\" }", ""],
        &path(0, "iif p0 ip daddr 10.1.0.0/24", "reserve = \"90kpps\"\nqueue = 4096"),
    );
    let mut costs = costs(&plan, (1_600, 300, 1_400), 0);
    costs.ports[0].ring = Some(64);
    let warnings = admitted(&plan, &costs).warnings;
    assert!(warnings[0].reason.contains("after a sleep of 343us"), "{warnings:?}");
    assert!(warnings[0].hint.contains("sleep_max = \"342857ns\""), "{warnings:?}");
    costs.ports[0].ring = Some(4);
    assert!(admitted(&plan, &costs).warnings.iter().any(|w| w.reason.contains("ring holds 4")));
}

#[test]
fn exits_of_paths_follow_subnets_and_routes() {
    let routes = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.2.0.9\"\n";
    let routes = format!("{routes}[[route]]\nto = \"10.0.0.0/7\"\nvia = \"10.0.0.9\"\n");
    let to = |destination: &str| path(0, &format!("ip daddr {destination}"), "");
    let exits_of = |destination: &str| {
        let plan = read("", &["", "", ""], &(routes.clone() + &to(destination)));
        exits(&plan, &plan.paths[0])
    };
    assert_eq!(exits_of("10.1.0.7"), [1]);
    assert_eq!(exits_of("10.1.0.0/24"), [1], "the subnet itself, not the shorter route");
    assert_eq!(exits_of("10.9.1.0/24"), [2]);
    assert_eq!(exits_of("11.0.0.0/8"), [0]);
    assert_eq!(exits_of("10.0.0.0/8"), [0, 1, 2]);
    assert_eq!(exits_of("172.16.0.1"), [0usize; 0]);
}

/// A plan from a small set of values, and its costs.
fn any_plan() -> impl Strategy<Value = (Vec<String>, String, (u64, u64, u64), u64)> {
    let batching = prop::sample::select(vec![
        "none",
        "simple(packets=16)",
        "timeslice(packets=64, slice=50us)",
        "throttle(overhead=10%, slice=30us)",
        "throttle(overhead=2%, slice=150us)",
    ]);
    let share = prop::sample::select(vec!["auto", "balanced", "line_speed"]);
    let cpu = (1u8..=3, batching, share, prop::sample::select(vec!["none", "incoming"]), prop::bool::ANY);
    let cpu = cpu.prop_map(|(layout, batching, share, charge, ratio)| {
        let balance = if ratio { "[5, 1, 5]" } else { "[]" };
        format!(
            "layout = {layout}\nforwarding = \"{batching}\"\ninput_share = \"{share}\"\ncharge = \"{charge}\"\nbalance = {balance}"
        )
    });
    let entry = prop::sample::select(vec!["", "iif p0", "iif p1"]);
    let exit = prop::sample::select(vec!["", "ip daddr 10.1.0.0/24", "ip daddr 10.2.0.0/24"]);
    let rate = prop::option::weighted(0.8, 1u64..60);
    let one = (entry, exit, rate, 100u64..20_000, prop::option::of(1u64..20), prop::option::of(1u64..5));
    let path = one.prop_map(|(entry, exit, rate, cost, share, wait)| {
        let share = share.map_or(String::new(), |share| format!("cpu_share = \"{share}%\"\n"));
        let wait = wait.map_or(String::new(), |wait| format!("max_wait = \"{wait}ms\"\n"));
        let rate = rate.map_or(String::new(), |rate| format!("reserve = \"{rate}kpps\"\n"));
        format!("{entry} {exit}|{rate}cost = \"{cost}ns\"\n{share}{wait}queue = 4096")
    });
    let costs = (0u64..2_000, 0u64..1_000, 0u64..2_000);
    (prop::collection::vec(path, 0..8), cpu, costs, 0u64..4_000)
}

fn built(paths: &[(usize, String)], cpu: &str, figures: (u64, u64, u64), switch: u64) -> (Plan, Costs) {
    let text: String = paths
        .iter()
        .map(|(name, text)| {
            let (matching, keys) = text.split_once('|').unwrap();
            path(*name, matching, keys)
        })
        .collect();
    let plan = read(cpu, &["line_rate = \"200kpps\"", "", ""], &text);
    let costs = costs(&plan, figures, switch);
    (plan, costs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn admitted_demand_never_exceeds_the_processor((paths, cpu, figures, switch) in any_plan()) {
        let said = paths.iter().filter_map(|p| p.split("cpu_share = \"").nth(1)?.split('%').next()?.parse::<u32>().ok()).sum::<u32>();
        prop_assume!(said <= 100);
        let paths: Vec<_> = paths.into_iter().enumerate().collect();
        let (plan, costs) = built(&paths, &cpu, figures, switch);
        let Ok(allotment) = admit(&plan, &costs) else { return Ok(()) };
        let tasks = allotment.ports.iter().flat_map(|port| [port.input, port.output]);
        let tasks = tasks.chain(allotment.paths.iter().map(|path| path.task));
        let tasks: Vec<_> = tasks.chain([allotment.best_effort, allotment.built_in, allotment.built_in]).collect();
        let sum: f64 = tasks.iter().map(|task| task.share.as_f64()).sum();
        prop_assert!(sum <= 1.0 + 1e-6, "{sum}");
        let demand = allotment.demand.as_f64() + allotment.overhead.as_f64() + allotment.tax.as_f64();
        prop_assert!(demand <= 0.99 + 1e-5, "{demand}");
        prop_assert!(plan.cpu.layout == plan::Layout::One || allotment.best_effort.share.as_f64() > 0.0, "nobody starves");
        for task in &tasks {
            prop_assert!(task.reserved <= task.share);
        }
        for (path, planned) in allotment.paths.iter().zip(&plan.paths) {
            // A reservation's task gets at least the cost of its packets.
            let Some(rate) = path.rate.filter(|_| planned.cpu.share.is_none() && plan.cpu.layout != plan::Layout::One) else {
                continue;
            };
            let cost = rate.get() as f64 * path.cost.get() as f64 / 1e9;
            prop_assert!(path.task.share.as_f64() >= cost - 1e-6, "{} of {cost}", path.task.share.as_f64());
        }
    }

    #[test]
    fn fewer_and_smaller_reservations_fit_if_more_do((paths, cpu, figures, switch) in any_plan(), drop in any::<prop::sample::Index>()) {
        prop_assume!(!paths.is_empty());
        let unsaid = |text: String| text.lines().filter(|line| !line.starts_with("cpu_share")).collect::<Vec<_>>().join("\n");
        let paths: Vec<_> = paths.into_iter().map(unsaid).enumerate().collect();
        let (plan, costs) = built(&paths, &cpu, figures, switch);
        prop_assume!(admit(&plan, &costs).is_ok());
        let mut fewer = paths.clone();
        fewer.remove(drop.index(paths.len()));
        let (plan, costs) = built(&fewer, &cpu, figures, switch);
        prop_assert!(admit(&plan, &costs).is_ok(), "{:?}", admit(&plan, &costs));
        let (mut plan, costs) = built(&paths, &cpu, figures, switch);
        let smaller = &mut plan.paths[drop.index(paths.len())].cpu.reservation;
        smaller.iter_mut().for_each(|r| r.packets = PacketRate::pps(r.packets.get().div_ceil(2)));
        prop_assert!(admit(&plan, &costs).is_ok(), "{:?}", admit(&plan, &costs));
    }

    #[test]
    fn order_of_paths_does_not_matter_for_admission((paths, cpu, figures, switch) in any_plan(), seed in any::<u64>()) {
        let said = paths.iter().filter_map(|p| p.split("cpu_share = \"").nth(1)?.split('%').next()?.parse::<u32>().ok()).sum::<u32>();
        prop_assume!(said <= 100);
        let paths: Vec<_> = paths.into_iter().enumerate().collect();
        let mut turned = paths.clone();
        turned.sort_by_key(|(name, _)| (seed.rotate_left(7 * *name as u32) ^ *name as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (one, other) = (built(&paths, &cpu, figures, switch), built(&turned, &cpu, figures, switch));
        match (admit(&one.0, &one.1), admit(&other.0, &other.1)) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(one.demand, other.demand);
                for path in &one.paths {
                    let same = other.paths.iter().find(|p| p.name == path.name).unwrap();
                    prop_assert!((path.task.share.as_f64() - same.task.share.as_f64()).abs() < 1e-5);
                    prop_assert_eq!(path.task.reserved, same.task.reserved);
                }
            }
            (Err(one), Err(other)) => prop_assert_eq!(one.shortage, other.shortage),
            (one, other) => prop_assert!(false, "{one:?} {other:?}"),
        }
    }
}
