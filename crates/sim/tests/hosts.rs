//! Worlds of hosts: results that can be computed by hand, results that must be equal, and errors.

use sim::{Measurements, NoCaptures, WorldPlan};

/// A sender, a gateway and a far host. `bottleneck` has the keys of the link between the last two, and `rest` the flows and other tables.
fn world(bottleneck: &str, rest: &str) -> WorldPlan {
    let text = format!(
        r#"
duration = "20s"
[[host]]
name = "near"
[[host]]
name = "gateway"
[[host]]
name = "far"
[[link]]
between = ["near", "gateway"]
rate = "1gbit"
delay = "1ms"
[[link]]
between = ["gateway", "far"]
{bottleneck}
{rest}
"#
    );
    WorldPlan::parse(&text, "w.toml").unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn run(world: &WorldPlan) -> Measurements {
    sim::run(world, &mut NoCaptures, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

const ONE: &str = r#"
[[flow]]
name = "one"
from = "near"
to = "far"
"#;

const TWO: &str = r#"
[[flow]]
name = "one"
from = "near"
to = "far"
[[flow]]
name = "two"
from = "near"
to = "far"
application = "web"
"#;

#[test]
fn window_beyond_buffer_fills_link() {
    // 10 packets of 1260 bytes at 8.064 Mbit/s take 12.5 ms, less than the round trip of 100 ms.
    let flow = format!("{ONE}transport = \"newreno(receive=10)\"");
    let measured = run(&world("rate = \"8064kbit\"\ndelay = \"49ms\"", &flow));
    let get = |name: &str| measured.get(name).unwrap_or_else(|| panic!("{name}"));
    // 1 ms, 10.08 us on the first link and 1.25 ms on the second; back 49.6 us for 50 bytes, and 0.4 us.
    assert!((get("flow.one.one_way_min_us") - (1.0e3 + 10.08 + 49.0e3 + 1250.0)).abs() < 0.01);
    assert_eq!(get("link.gateway-far.dropped"), 0.0);
    let round = (100.0e3 + 10.08 + 1250.0 + 49.6 + 0.4) / 1e6;
    let rounds = 20.0 / round;
    // All rounds except the first two or three, in which the window opens.
    assert!((get("flow.one.acknowledged") / (10.0 * rounds) - 1.0).abs() < 0.02, "{}", get("flow.one.acknowledged"));
    assert!((get("flow.one.srtt_mean_ms") / 1e3 / round - 1.0).abs() < 0.01);
    assert_eq!(get("flow.one.sent"), get("link.near-gateway.sent"));
    let sent = measured.series["flow.one.goodput_bps"].last().unwrap().1;
    assert!((sent / (10.0 * 1260.0 * 8.0 / round) - 1.0).abs() < 0.1);
}

#[test]
fn results_depend_only_on_seed() {
    let bottleneck = "trace = \"lte(mean=5mbit, length=10s)\"\nmode = \"packet\"\ndelay = \"20ms\"\nscheme = \"fq\"";
    let of = |seed: &str| run(&world(bottleneck, &format!("{TWO}\n"))).to_string() + seed;
    assert_eq!(of(""), of(""));
    let mut other = world(bottleneck, TWO);
    other.seed = 2;
    assert_ne!(run(&other).to_string(), of(""));
}

/// The results without the inputs, which differ in the name of the scheme.
fn values(measured: Measurements) -> Measurements {
    Measurements { parameters: Vec::new(), ..measured }
}

#[test]
fn bufferbloat_eq_codel_target_1000s() {
    let with = |scheme: &str| {
        let bottleneck = format!("rate = \"5mbit\"\ndelay = \"30ms\"\nscheme = \"sfq(limit=1000000){{{scheme}}}\"");
        values(run(&world(&bottleneck, TWO)))
    };
    let deep = with("fifo(unbounded=on)");
    assert!(deep.get("link.gateway-far.waiting_max").unwrap() > 1000.0);
    assert_eq!(deep.get("link.gateway-far.dropped"), Some(0.0));
    assert!(deep == with("codel(target=1000s, limit=1000000)"), "they are two names of the same");
}

#[test]
fn fcfs_eq_fq_one_bin() {
    let with = |scheme: &str| {
        let bottleneck = format!("rate = \"5mbit\"\ndelay = \"30ms\"\nscheme = \"{scheme}\"");
        let measured = values(run(&world(&bottleneck, TWO)));
        assert!(measured.get("link.gateway-far.dropped.scheme_front").unwrap() > 3.0);
        // The state of a queue is reported only for schemes with a single queue.
        let series = measured.series.into_iter().filter(|(name, _)| !name.contains(".state.")).collect();
        Measurements { series, ..measured }
    };
    let one = with("codel(again=sfqcodel)");
    for order in ["sfq", "fq", "drr"] {
        let name = format!("{order}(flows=1){{codel(again=sfqcodel)}}");
        assert!(one == with(&name), "{name}");
    }
}

#[test]
fn flows_hash_to_queues_by_ports_or_exactly() {
    for hash in ["tuple", "exact"] {
        let flows: String = (0..8)
            .map(|n| format!("[[flow]]\nname = \"f{n}\"\nfrom = \"near\"\nto = \"far\"\nstart = \"{n}ms\"\n"))
            .collect();
        let text = format!("{flows}\n");
        let mut world =
            world("rate = \"10mbit\"\ndelay = \"10ms\"\nscheme = \"drr(flows=1024){fifo(limit=100)}\"", &text);
        world.hosts.exact = hash == "exact";
        let measured = run(&world);
        let rates: Vec<f64> = (0..8).map(|n| measured.get(&format!("flow.f{n}.goodput_bps")).unwrap()).collect();
        let (least, most) = rates.iter().fold((f64::MAX, 0f64), |(a, b), &rate| (a.min(rate), b.max(rate)));
        assert!(most / least < 1.15, "{hash}: {rates:?}");
    }
}

const CHANGES: [&str; 3] = ["drain", "migrate", "flush"];

#[test]
fn schemes_are_replaced_and_only_flush_loses_queued_packets() {
    for change in CHANGES {
        let at = |time: u32, scheme: &str| {
            format!(
                "[[at]]\ntime = \"{time}s\"\nevery = \"9s\"\nlink = \"gateway-far\"\nscheme = \"{scheme}\"\nchange = \"{change}\"\n"
            )
        };
        let changes = at(3, "sfq(limit=100000){fifo(unbounded=on)}")
            + &at(6, "fifo(unbounded=on)")
            + &at(9, "fq(limit=100000){fifo(unbounded=on)}");
        // Conservation and the order of each flow are laws of every world: a run that breaks them has no result.
        let measured = run(&world(
            "rate = \"5mbit\"\ndelay = \"30ms\"\nscheme = \"fifo(unbounded=on)\"",
            &format!("{TWO}\n{changes}"),
        ));
        let dropped = |why: &str| measured.get(&format!("link.gateway-far.dropped{why}")).unwrap();
        assert_eq!(dropped(".scheme_flush") > 0.0, change == "flush", "{change}");
        if change == "flush" {
            assert!(measured.get("flow.one.sent_again").unwrap() > 0.0);
        } else {
            assert_eq!((dropped(""), measured.get("flow.one.sent_again")), (0.0, Some(0.0)), "{change}");
        }
    }
}

#[test]
fn a_link_changes_its_rate() {
    let change = "[[at]]\ntime = \"10s\"\nlink = \"gateway-far\"\nrate = \"2mbit\"\n";
    let measured =
        run(&world("rate = \"8mbit\"\ndelay = \"5ms\"\nscheme = \"fifo(limit=50)\"", &format!("{ONE}{change}")));
    let mean = |from: f64, to: f64| {
        let points = measured.series["link.gateway-far.sent_bps"].iter().filter(|(at, _)| *at > from && *at <= to);
        let rates: Vec<f64> = points.map(|(_, rate)| *rate).collect();
        rates.iter().sum::<f64>() / rates.len() as f64 / 1e6
    };
    assert!(
        (mean(5.0, 10.0) - 8.0).abs() < 0.1 && (mean(12.0, 20.0) - 2.0).abs() < 0.05,
        "{} {}",
        mean(5.0, 10.0),
        mean(12.0, 20.0)
    );
}

#[test]
fn losses_duplicates_and_reordering_of_a_link_are_accounted_for() {
    let bottleneck =
        "rate = \"10mbit\"\ndelay = \"20ms\"\nloss = \"0.5%\"\nduplicate = \"1%\"\nreorder = \"1%\"\njitter = \"1ms\"";
    let measured = run(&world(bottleneck, TWO));
    let link = |name: &str| measured.get(&format!("link.gateway-far.{name}")).unwrap();
    assert!(link("lost") > 10.0 && link("duplicated") > 20.0, "{} {}", link("lost"), link("duplicated"));
    assert!(measured.get("flow.one.sent_again").unwrap() > 5.0);
}

#[test]
fn directions_may_differ() {
    let bottleneck = "delay = \"10ms\"\nforward = { rate = \"4mbit\", scheme = \"codel\" }\nback = { rate = \"1mbit\", delay = \"40ms\" }";
    let world = world(bottleneck, ONE);
    let schemes: Vec<&str> = world.hosts.links.iter().map(|link| link.scheme.name).collect();
    assert_eq!(schemes, ["fifo", "fifo", "codel", "fifo"]);
    let measured = run(&world);
    // 1 ms there, 1 ms back, 10 and 40 ms; 1260 bytes at 1 Gbit/s and 4 Mbit/s, 50 bytes at 1 Mbit/s and 1 Gbit/s.
    let least = 52.0 + 0.01008 + 2.52 + 0.4 + 0.0004;
    let srtt = measured.series["flow.one.srtt_ms"].iter().map(|(_, ms)| *ms).fold(f64::MAX, f64::min);
    assert!(srtt >= least - 0.1, "{srtt} {least}");
    let goodput = measured.get("flow.one.goodput_bps").unwrap();
    assert!(goodput > 2.5e6 && goodput < 4e6, "{goodput}");
}

#[test]
fn errors_in_a_world_of_hosts_have_their_position() {
    let refused = |text: &str| WorldPlan::parse(text, "w.toml").unwrap_err().to_string();
    let hosts = "duration = \"1s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n";
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
    for (more, said) in [
        ("[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"c\"\n", "there is no host 'c'"),
        ("[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n", "no links lead from 'a' to 'b'"),
        (&format!("{link}{link}"), "cannot have this link"),
        (&format!("{link}scheme = \"codle\"\n"), "no scheme is called 'codle'"),
        (&format!("{link}forward = {{ rate = \"1mbit\", trace = \"x\" }}\n"), "both set the rate of the link"),
        (&format!("{link}[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"vegas\"\n"), "called 'vegas'"),
        (&format!("{link}[[at]]\ntime = \"0s\"\nlink = \"a-c\"\nrate = \"1mbit\"\n"), "there is no link 'a-c'"),
        (
            "[router.r]\nconfig = '''\nversion = 1\n[port.in]\ndevice = \"sim:in\"\naddress = [\"192.0.2.1/24\"]\n'''\n",
            "a world of routers has no hosts",
        ),
    ] {
        let got = refused(&format!("{hosts}{more}"));
        assert!(got.contains(said), "{said}: {got}");
    }
}

/// The utilization, the mean round-trip time in milliseconds, packets dropped, packets marked.
fn alone(transport: &str, scheme: &str) -> [f64; 4] {
    let bottleneck = format!("rate = \"20mbit\"\ndelay = \"19ms\"\nscheme = \"{scheme}\"");
    let measured = run(&world(&bottleneck, &format!("{ONE}transport = \"{transport}\"")));
    let get = |name: &str| measured.get(name).unwrap_or_else(|| panic!("{name}"));
    let goodput = get("flow.one.acknowledged") * 1260.0 * 8.0 / (20.0 * 20e6);
    let link = |what: &str| get(&format!("link.gateway-far.{what}"));
    [goodput, get("flow.one.srtt_mean_ms"), link("dropped"), link("marked")]
}

#[test]
fn each_transport_fills_link() {
    // 79 packets are in flight in 40 ms; the buffer holds as many again.
    for transport in ["newreno", "cubic", "newreno(like=kernel)", "cubic(like=kernel)"] {
        let [goodput, rtt, dropped, marked] = alone(transport, "fifo(limit=80)");
        assert!(goodput > 0.93 && dropped > 0.0 && marked == 0.0, "{transport}: {goodput} {rtt} {dropped}");
        assert!((50.0..85.0).contains(&rtt), "a sawtooth between one round trip and two: {transport}: {rtt}");
    }
    // BBR leaves almost nothing in the buffer, DCTCP about the threshold. Neither needs losses as a signal.
    let [goodput, rtt, ..] = alone("bbr", "fifo(limit=400)");
    assert!(goodput > 0.9 && rtt < 60.0, "bbr: {goodput} {rtt}");
    let [goodput, rtt, dropped, marked] = alone("dctcp", "threshold(mark=20)");
    assert!(
        goodput > 0.93 && rtt < 60.0 && dropped == 0.0 && marked > 0.0,
        "dctcp: {goodput} {rtt} {dropped} {marked}"
    );
}

#[test]
fn missing_size_file_is_error() {
    let with = |sizes: &str| {
        let world = world("rate = \"5mbit\"\ndelay = \"30ms\"", &format!("{TWO}{sizes}"));
        sim::run(&world, &mut sim::experiment::DataFiles::default(), &mut |_| {})
    };
    let error = with("sizes = \"nowhere.txt\"\n").unwrap_err().to_string();
    assert!(error.starts_with("flow two: there is no file 'nowhere.txt'; "), "{error}");
    assert!(error.ends_with("without `sizes` the flow uses a table similar to the measured one"), "{error}");
    assert_eq!(with("sizes = \"\"\n"), with(""));
}
