//! Flows that are reserved while the router runs: admission, their rules, shares and leases, and changes of the configuration around them.

use cpu::meter::ConstantMeter;
use plan::{FlowChange, flow_batch};
use plane::rig::{MemoryWires, Rig, UdpFrame};
use plane::snapshot::Layout;
use plane::{FlowRefusal, FlowReport, FlowUse, FlowsChanged};
use std::net::Ipv4Addr;
use units::{Instant, Mac, Nanos};

const CONFIG: &str = r#"
version = 1
[cpu]
forwarding = "timeslice(packets=32, slice=100us)"
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
line_rate = "1488kpps"
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=100mbit, leaves=64)"
shares = ["gold rate 20mbit", "open weight 2"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[path]]
name = "reserved"
reservations = true
[[path]]
name = "heavy"
reservations = true
cost = "100us"
"#;

fn rig() -> Rig {
    Rig::running_with(MemoryWires::default(), 4096, Layout::Three, CONFIG)
}

fn changes(rig: &Rig, text: &str) -> Vec<FlowChange> {
    let plan = rig.router.plan().expect("it runs").clone();
    let batch = flow_batch(text, "test", &plan).unwrap_or_else(|wrong| panic!("{wrong}"));
    batch.changes.into_iter().map(|(_, change)| change).collect()
}

fn edit(rig: &mut Rig, text: &str) -> Result<FlowsChanged, FlowRefusal> {
    let changes = changes(rig, text);
    rig.router.edit_flows(&changes, false)
}

fn flow(rig: &Rig, name: &str) -> FlowReport {
    rig.router.flows().into_iter().find(|report| report.flow.name.as_str() == name).expect("it is reserved")
}

fn frame(port: u16) -> Vec<u8> {
    frame_of(port, 64, 1000)
}

fn frame_of(port: u16, ttl: u8, length: usize) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 0x99]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 9));
    UdpFrame { link, network, ports: (9, port), ttl, length }.frame(&[])
}

/// Packets to each of these UDP ports, and then the packets that a flow's share has sent.
fn sent(rig: &mut Rig, ports: &[u16], name: &str) -> u64 {
    ports.iter().for_each(|port| rig.send("lan", &frame(*port)));
    rig.advance(Nanos::millis(5));
    assert_eq!(rig.received("wan").len(), ports.len());
    flow(rig, name).counts.packets
}

/// Everything that a change could leave half done: the number of flows, the rules, the shares, and each path's share and rate.
type State = (usize, Vec<String>, Vec<String>, Vec<(u64, u64)>);

fn state(rig: &Rig) -> State {
    let rules = rig.router.snapshot().rules.rules();
    let shares = rig.router.shares("wan").expect("it has shares");
    let tasks = rig.router.snapshot().paths.iter().map(|path| {
        (path.share.as_f64().to_bits(), path.cpu.reservation.map_or(0, |reservation| reservation.packets.get()))
    });
    (
        rig.router.flows().len(),
        rules.iter().map(|status| status.rule.text.to_string()).collect(),
        shares.iter().map(|share| format!("{} {}", share.name, share.guarantee)).collect(),
        tasks.collect(),
    )
}

const CALL: &str =
    "add call rate 2mbit packet 1000b burst 4kb delay 20ms match iif lan udp dport 5060 ip daddr 198.51.100.9\n";

#[test]
fn reserved_flow_has_a_rule_a_share_and_processor_time() {
    let mut rig = rig();
    let before = state(&rig);
    let changed = edit(&mut rig, CALL).expect("it fits");
    assert_eq!((changed.added.len(), changed.total), (1, 1));
    let call = flow(&rig, "call");
    assert_eq!(&*call.port, "wan", "the port of the route to its destination");
    let promise = call.promise;
    assert!(promise.bound <= Nanos::millis(20) && promise.bound > Nanos::millis(1), "{promise:?}");
    assert!(promise.terms.rate.get() >= 2_000_000, "{promise:?}");
    assert!(promise.queue.get() >= 4000, "{promise:?}");
    assert_eq!(sent(&mut rig, &[5060, 5060, 7000], "call"), 2, "the packets of the flow use its share");
    let (_, rules, shares, paths) = state(&rig);
    assert!(rules[0].ends_with("path reserved share call"), "{rules:?}");
    assert!(shares.iter().any(|share| share.starts_with("call ")), "{shares:?}");
    assert_ne!(paths, before.3, "the path has a larger share of the processor");
    edit(&mut rig, "remove call\n").expect("it is there");
    assert_eq!(state(&rig), before, "nothing is left of it");
    rig.report();
}

#[test]
fn delay_bound_raises_the_rate_of_the_share() {
    let mut rig = rig();
    let slow = "add slow rate 1mbit packet 1000b burst 10kb out wan match udp dport 1\n";
    let fast = "add fast rate 1mbit packet 1000b burst 10kb delay 10ms out wan match udp dport 2\n";
    edit(&mut rig, &format!("{slow}{fast}")).expect("both fit");
    let [slow, fast] = ["slow", "fast"].map(|name| flow(&rig, name).promise);
    assert!(slow.terms.rate.get() < 1_100_000, "the long-term rate: {slow:?}");
    // A burst of 10 kB within 10 ms takes 8 Mbit/s, and half of the delay is for the tasks.
    assert!((8_000_000..24_000_000).contains(&fast.terms.rate.get()), "{fast:?}");
    assert!(fast.bound <= Nanos::millis(10) && slow.bound > Nanos::millis(80), "{slow:?} {fast:?}");
}

/// Asserts that a flow is refused for this resource, and that the largest one of the hint fits: `key` is changed to it.
#[track_caller]
fn assert_refused(line: &str, resource: &str, key: &str) {
    let mut rig = rig();
    let before = state(&rig);
    let refused = edit(&mut rig, line).expect_err(line);
    assert_eq!(refused.resource, Some(resource), "{refused:?}");
    assert_eq!(state(&rig), before, "a refused flow changes nothing");
    let fits = refused.hint.strip_suffix(" would fit").and_then(|hint| hint.strip_prefix(key));
    let fits = fits.unwrap_or_else(|| panic!("the hint names the largest {key}: {refused:?}")).trim();
    let start = line.find(&format!(" {key} ")).expect("the line has the key") + key.len() + 2;
    let end = start + line[start..].find(' ').expect("more follows");
    let smaller = format!("{}{fits}{}", &line[..start], &line[end..]);
    edit(&mut rig, &smaller).unwrap_or_else(|refused| panic!("{smaller}: {refused:?}"));
}

#[test]
fn refusal_names_the_resource_and_the_largest_that_fits() {
    assert_refused("add big rate 120mbit packet 1000b out wan match udp dport 1\n", "link", "rate");
    assert_refused("add big in gold rate 30mbit packet 1000b out wan match udp dport 1\n", "link", "rate");
    assert_refused("add slow path heavy rate 90mbit packet 1000b out wan match udp dport 1\n", "cpu", "rate");
    assert_refused("add soon rate 1mbit packet 1000b delay 20us out wan match udp dport 1\n", "delay", "delay");
    let mut rig = rig();
    let refused = edit(&mut rig, "add many rate 10mbit packet 64b burst 300kb out wan match udp dport 1\n");
    let refused = refused.expect_err("its burst needs more frames than there are for flows");
    assert_eq!(refused.resource, Some("buffer"));
    assert!(refused.reason.contains("but 2048 of the 2048 for queues of flows are left"), "{refused:?}");
}

#[test]
fn wrong_flow_is_refused_with_a_hint() {
    let mut rig = rig();
    edit(&mut rig, CALL).expect("it fits");
    let before = state(&rig);
    for (line, reason, hint) in [
        (CALL, "there is a reserved flow call already", "use another name, renew it, or end it first: remove call"),
        ("remove nobody", "there is no reserved flow nobody", "`switchpath reserve list` shows them"),
        ("renew nobody", "there is no reserved flow nobody", "`switchpath reserve list` shows them"),
        (
            "add x rate 1mbit packet 100b match udp dport 1",
            "the output port is unknown: the match has no destination with a route of the configuration",
            "add the port: out wan",
        ),
        (
            "add x out lan rate 1mbit packet 100b match udp dport 1",
            "the port 'lan' has no shares",
            "give it scheme = \"share(rate=1gbit)\", with the rate of its link",
        ),
        (
            "add x out wan in open rate 1mbit packet 100b match udp dport 1",
            "'open' has no rate of its own",
            "give it one: 'set open rate 100mbit'",
        ),
        (
            "add gold out wan rate 1mbit packet 100b match udp dport 1",
            "there is a share 'gold' already",
            "use another name, or change it with 'set gold'",
        ),
    ] {
        let refused = edit(&mut rig, line).expect_err(line);
        assert_eq!((refused.resource, &*refused.reason, &*refused.hint), (None, reason, hint), "{line}");
        assert_eq!(state(&rig), before, "{line}");
    }
}

#[test]
fn batch_makes_all_changes_or_none() {
    let mut rig = rig();
    edit(&mut rig, CALL).expect("it fits");
    let before = state(&rig);
    let add = |name: &str, rate: &str, port: u16| {
        format!("add {name} rate {rate} packet 1000b out wan match udp dport {port}\n")
    };
    let wrong = format!("remove call\n{}{}", add("a", "30mbit", 1), add("b", "80mbit", 2));
    let refused = edit(&mut rig, &wrong).expect_err("both do not fit");
    assert_eq!((refused.position, refused.resource), (2, Some("link")));
    assert_eq!(state(&rig), before);
    // A trial answers the same and changes nothing.
    let right = format!("remove call\n{}{}", add("a", "30mbit", 1), add("b", "50mbit", 2));
    let right = changes(&rig, &right);
    let trial = rig.router.edit_flows(&right, true).expect("both fit");
    assert_eq!(state(&rig), before);
    let made = rig.router.edit_flows(&right, false).expect("both fit");
    assert_eq!(trial.added, made.added);
    assert_eq!((made.removed, made.total), (1, 2));
    assert_eq!(sent(&mut rig, &[2, 2, 5060], "b"), 2);
    // Their rules are in the order of the batch, before those of the configuration.
    let (_, rules, ..) = state(&rig);
    assert!(rules[0].ends_with("share a") && rules[1].ends_with("share b"), "{rules:?}");
}

#[test]
fn lease_ends_unless_renewed() {
    let mut rig = rig();
    let lease = |name: &str, port: u16| {
        format!("add {name} rate 1mbit packet 1000b lease 10s out wan match udp dport {port}\n")
    };
    let at = |seconds: u64| Instant::new(seconds * 1_000_000_000);
    assert!(rig.router.end_flow_leases(at(100)).is_empty());
    edit(&mut rig, &format!("{}{}", lease("a", 1), lease("b", 2))).expect("both fit");
    assert!(rig.router.end_flow_leases(at(109)).is_empty());
    assert_eq!(flow(&rig, "a").lease_left, Some(Nanos::secs(1)));
    edit(&mut rig, "renew b\n").expect("it is there");
    let ended = rig.router.end_flow_leases(at(110));
    assert_eq!(ended.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(rig.router.flows().len(), 1);
    edit(&mut rig, "renew b lease 1m\n").expect("it is there");
    assert!(rig.router.end_flow_leases(at(169)).is_empty());
    assert_eq!(rig.router.end_flow_leases(at(170)).len(), 1);
    assert!(rig.router.shares("wan").expect("shares").iter().all(|share| share.name.as_str() != "b"));
}

#[test]
fn flows_survive_other_configurations() {
    let mut rig = rig();
    edit(&mut rig, CALL).expect("it fits");
    assert_eq!(sent(&mut rig, &[5060], "call"), 1);
    // Another path before that of the flow moves its position, and a rule makes the list anew.
    let rule = "[[path]]\nname = \"other\"\nmatch = \"udp dport 5060\"\n[[path]]\nname = \"reserved\"";
    let with_rule = CONFIG.replace("[[path]]\nname = \"reserved\"", rule);
    rig.apply(&with_rule).expect("it fits");
    assert_eq!(sent(&mut rig, &[5060, 7000], "call"), 2);
    // Only the position changes, not the rules.
    let last =
        CONFIG.replace("name = \"reserved\"", "name = \"first\"\nreservations = true\n[[path]]\nname = \"reserved\"");
    rig.apply(CONFIG).expect("it fits");
    assert_eq!(sent(&mut rig, &[5060], "call"), 3);
    rig.apply(&last).expect("it fits");
    assert_eq!(sent(&mut rig, &[5060], "call"), 4);
    edit(&mut rig, "remove call\n").expect("it is there");
    assert!(rig.router.snapshot().rules.is_empty());
}

#[test]
fn flow_at_a_port_with_cycles_has_two_of_them_in_its_bound() {
    let config = |cycle: &str| {
        let scheme = format!("scheme = \"dfq(rate=100mbit, cycle={cycle})\"");
        let shares = "scheme = \"share(rate=100mbit, leaves=64)\"\nshares = [\"gold rate 20mbit\", \"open weight 2\"]";
        CONFIG.replace(shares, &scheme)
    };
    let line =
        "add call rate 2mbit packet 1000b burst 4kb delay 40ms match iif lan udp dport 5060 ip daddr 198.51.100.9\n";
    let bound = |cycle: &str| {
        let mut rig = Rig::running_with(MemoryWires::default(), 4096, Layout::Three, &config(cycle));
        edit(&mut rig, line).expect("it fits");
        assert_eq!(sent(&mut rig, &[5060, 5060, 7000], "call"), 2);
        let promise = flow(&rig, "call").promise;
        // Without the time that the flow's own work takes at its rate.
        let own =
            promise.terms.rate.time_for(units::Bytes::new(promise.terms.burst.get() + 1000 + promise.terms.turn.get()));
        promise.terms.wait.saturating_sub(own)
    };
    let (short, long) = (bound("1ms"), bound("3ms"));
    assert_eq!(long.saturating_sub(short), Nanos::millis(4), "{short} {long}");
}

#[test]
fn rollback_to_a_configuration_without_the_path_ends_reservations() {
    let before = CONFIG.replace("name = \"reserved\"", "name = \"other\"");
    let mut rig = Rig::running_with(MemoryWires::default(), 4096, Layout::Three, &before);
    rig.apply(CONFIG).expect("it fits");
    edit(&mut rig, CALL).expect("it fits");
    assert!(rig.apply(&before).is_err(), "an apply loses no reservation");
    rig.roll_back(&before).expect("a rollback always fits");
    assert!(rig.router.flows().is_empty() && rig.router.snapshot().rules.is_empty());
    assert!(rig.router.shares("wan").expect("shares").iter().all(|share| share.name.as_str() != "call"));
    rig.send("lan", &frame(5060));
    rig.advance(Nanos::millis(5));
    assert_eq!(rig.received("wan").len(), 1, "its packets are best effort");
    rig.report();
}

/// A configuration with an interleaved path of two functions: one takes 40 us, and `cost` is what the admission relies on.
fn interleaved(keys: &str) -> Rig {
    let path = format!(
        "name = \"steps\"\nreservations = true\ninterleave = true\nfunctions = [\"spin(cost=40us)\", \"ip\"]\n{keys}"
    );
    let config = format!("{CONFIG}[[path]]\n{path}");
    Rig::running_with(MemoryWires::default(), 4096, Layout::Three, &config)
}

const TWO_FLOWS: &str = "add one rate 1mbit packet 1000b burst 10kb path steps match udp dport 1 ip daddr 198.51.100.9\n\
                         add two rate 2mbit packet 1000b burst 10kb path steps match udp dport 2 ip daddr 198.51.100.9\n";

/// The UDP destination ports of the packets that have left, in order. Each has lost one hop.
fn left(rig: &mut Rig) -> Vec<u16> {
    let of = |frame: Vec<u8>| {
        assert_eq!(frame[22], 63, "the time to live");
        u16::from_be_bytes([frame[36], frame[37]])
    };
    rig.received("wan").into_iter().map(of).collect()
}

#[test]
fn functions_of_flows_are_interleaved_by_their_rates_and_charged_to_them() {
    let mut rig = interleaved("");
    edit(&mut rig, TWO_FLOWS).expect("both fit");
    let mut counts = [0_u32; 2];
    for _ in 0..100 {
        // Both send more than the path can process. Short packets, so that the link is not the slower part.
        for _ in 0..30 {
            [1, 2].into_iter().for_each(|port| rig.send("lan", &frame_of(port, 64, 100)));
        }
        for _ in 0..60 {
            rig.now += Nanos::micros(20);
            rig.step(&mut ConstantMeter(Nanos::new(10)));
        }
        left(&mut rig).into_iter().for_each(|port| counts[usize::from(port == 2)] += 1);
    }
    assert!((300..=3000).contains(&(counts[0] + counts[1])), "{counts:?}");
    assert!((1.95..2.05).contains(&(f64::from(counts[1]) / f64::from(counts[0]))), "{counts:?}");
    rig.advance(Nanos::millis(10));
    left(&mut rig).into_iter().for_each(|port| counts[usize::from(port == 2)] += 1);
    for (name, packets) in ["one", "two"].into_iter().zip(counts) {
        let used = flow(&rig, name).used.expect("the path is interleaved");
        // 40 us, and 10 ns for each run.
        let time = Nanos::new(u64::from(packets) * (40_000 + 2 * 10));
        assert_eq!(used, FlowUse { packets: packets.into(), time });
    }
    rig.report();
}

#[test]
fn interleaved_functions_divert_and_drop_as_others_do() {
    let mut rig = interleaved("cpu_limit = \"50us\"\n");
    edit(&mut rig, TWO_FLOWS).expect("both fit");
    rig.send("lan", &frame_of(1, 1, 100));
    rig.send("lan", &frame(1));
    rig.advance(Nanos::millis(5));
    assert_eq!(left(&mut rig), [1], "41 us are within the limit");
    let answers = rig.received("lan");
    assert!(answers.iter().any(|frame| frame[12..14] == [8, 6] || frame[23] == 1), "time exceeded: {answers:?}");
    rig.report();
    // Both functions together take longer than each of them.
    let mut rig = interleaved("cpu_limit = \"40010ns\"\n");
    edit(&mut rig, TWO_FLOWS).expect("both fit");
    rig.send("lan", &frame(2));
    rig.advance(Nanos::millis(5));
    assert!(left(&mut rig).is_empty(), "40.02 us are not");
    rig.report();
}

#[test]
fn flow_whose_packets_cost_more_than_expected_is_reported_once() {
    let mut rig = interleaved("cost = \"10us\"\n");
    edit(&mut rig, TWO_FLOWS).expect("both fit");
    assert!(rig.router.costly_flows().is_empty());
    for _ in 0..10 {
        (0..10).for_each(|_| rig.send("lan", &frame(1)));
        rig.advance(Nanos::millis(5));
    }
    assert_eq!(left(&mut rig).len(), 100);
    let costly = rig.router.costly_flows();
    let expected = (Nanos::micros(10), Nanos::new(40_020));
    assert_eq!(costly.len(), 1, "{costly:?}");
    assert_eq!((costly[0].name.as_str(), (costly[0].expected, costly[0].measured)), ("one", expected));
    (0..10).for_each(|_| rig.send("lan", &frame(1)));
    rig.advance(Nanos::millis(5));
    assert!(rig.router.costly_flows().is_empty(), "it was reported");
    // The functions of other paths are not measured by flow.
    edit(&mut rig, CALL).expect("it fits");
    assert_eq!(flow(&rig, "call").used, None);
}

#[test]
fn packets_within_functions_survive_a_new_configuration_and_another_scheduler() {
    let mut rig = interleaved("");
    edit(&mut rig, TWO_FLOWS).expect("both fit");
    let config = rig.router.plan().expect("it runs").cpu.flow_scheduler.name;
    assert_eq!(config, "spfq");
    for round in 0..20 {
        (0..8).for_each(|_| rig.send("lan", &frame(1 + round % 2)));
        // Some packets have passed the first function only.
        (0..5 + round).for_each(|_| _ = rig.step(&mut ConstantMeter(Nanos::new(500))));
        let scheduler = ["potential", "spfq", "wf2q+", "rr"][usize::from(round) % 4];
        let path = format!(
            "name = \"steps\"\nreservations = true\ninterleave = {}\nfunctions = [\"spin(cost=4{}us)\", \"ip\"]\n",
            round % 3 > 0,
            round % 2
        );
        let config = CONFIG.replace("[cpu]\n", &format!("[cpu]\nflow_scheduler = \"{scheduler}\"\n"));
        rig.apply(&format!("{config}[[path]]\n{path}")).expect("it applies");
        rig.advance(Nanos::millis(5));
        assert_eq!(left(&mut rig).len(), 8, "round {round} with {scheduler}");
    }
    rig.report();
}

#[test]
fn overbooked_flows_get_their_reservations_with_the_resource_that_is_short() {
    let config = CONFIG.replace("[cpu]\n", "[cpu]\nadmission = \"warn\"\n");
    let mut rig = Rig::running_with(MemoryWires::default(), 4096, Layout::Three, &config);
    let before = state(&rig);
    let fits = edit(&mut rig, CALL).expect("it fits");
    assert!(fits.overbooked.is_empty(), "{fits:?}");
    let big = "add big rate 120mbit packet 1000b out wan match udp dport 1\n";
    let dear = "add dear rate 6mbit packet 64b path heavy out wan match udp dport 2\n";
    let changed = edit(&mut rig, &format!("{dear}{big}")).expect("the configuration only warns");
    let short: Vec<_> = changed.overbooked.iter().map(|short| (short.position, short.resource)).collect();
    assert_eq!(short, [(0, Some("cpu")), (1, Some("link"))], "{changed:?}");
    assert!(changed.overbooked[1].hint.starts_with("rate "), "the largest that would fit: {changed:?}");
    assert!(flow(&rig, "big").promise.terms.rate.get() >= 120_000_000, "the share that it asked for");
    let heavy = rig.router.snapshot().paths.iter().find(|path| &*path.name == "heavy").expect("it is there");
    assert!(heavy.share.as_f64() > 0.5, "the processor is divided again: {}", heavy.share.as_f64());
    assert_eq!(sent(&mut rig, &[1, 1, 7000], "big"), 2, "its packets use its share");
    // An apply keeps them, but not one that refuses what does not fit.
    rig.apply(&config).expect("it only warns");
    let refused = rig.apply(CONFIG).expect_err("the flows do not fit");
    assert!(refused.iter().any(|error| error.to_string().contains("loses its share")), "{refused:?}");
    edit(&mut rig, "remove big\nremove dear\nremove call\n").expect("they are there");
    assert_eq!(state(&rig), before, "nothing is left of them");
    rig.report();
}
