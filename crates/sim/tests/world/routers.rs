//! Several routers, and routers that change while they run.

use crate::common::{config, run, value, world_of};
use sim::WorldPlan;

/// A router from card `{name}-in` to card `{name}-out`, on the networks `{left}` and `{right}`.
fn router_text(name: &str, left: u8, right: u8, via: &str) -> String {
    format!(
        r#"
[router.{name}]
config = '''
version = 1
[port.in]
device = "sim:{name}-in"
address = ["192.0.{left}.1/24"]
[port.out]
device = "sim:{name}-out"
address = ["192.0.{right}.2/24"]
[[route]]
to = "10.0.0.0/8"
via = "{via}"
{}'''
[router.{name}.cost]
input = "1us"
poll = "100ns"
forwarding = "2us"
output = "1us"
"#,
        if name == "b" {
            "[[neighbour]]\naddress = \"192.0.3.9\"\nmac = \"02:00:00:00:00:09\"\nport = \"out\"\n"
        } else {
            ""
        }
    )
}

#[test]
fn two_routers_resolve_each_other_and_forward() {
    let world = format!(
        r#"
duration = "1s"
warmup = "100ms"
[[link]]
between = ["a-out", "b-in"]
rate = "100mbit"
delay = "5ms"
[[source]]
name = "s"
card = "a-in"
kind = "constant"
rate = "10kpps"
destination = "10.1.2.3"
dscp = "ef"
[[sink]]
name = "k"
card = "b-out"
{}{}"#,
        router_text("a", 1, 2, "192.0.2.1"),
        router_text("b", 2, 3, "192.0.3.9")
    );
    let world = WorldPlan::parse(&world, "chain.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render(false)));
    let measured = run(&world);
    assert_eq!((value(&measured, "source.s.sent"), value(&measured, "source.s.lost")), (9000.0, 0.0));
    // The last 5 ms are still on the link.
    let under_way = value(&measured, "source.s.under_way");
    assert_eq!((value(&measured, "source.s.received"), under_way), (8950.0, 50.0));
    assert_eq!(value(&measured, "sink.k.received"), 9000.0);
    // 3 us of work at each router before the frame reaches the card, 6.72 us on the link, 5 ms of delay, and empty polls.
    let least = value(&measured, "source.s.latency_min_us");
    assert!((5012.72..5015.0).contains(&least), "{least}");
    assert!(value(&measured, "a.cpu.useful") > 0.0399 && value(&measured, "b.cpu.useful") > 0.0399);
    assert_eq!(value(&measured, "a.path.best-effort.forwarded"), 9000.0);
}

#[test]
fn reconfiguration_loses_no_packet() {
    let before = config("");
    let after = config("[[path]]\nname = \"voice\"\nmatch = \"ip dscp ef\"\n");
    let world = format!(
        r#"
duration = "100ms"
sample = "10ms"
[router.r.cost]
switch = "1us"
input = "1us"
poll = "100ns"
output = "1us"
path.voice = "3us"
forwarding = "2us"
[[source]]
name = "calls"
card = "in"
kind = "poisson"
rate = "40kpps"
destination = "10.1.2.3"
dscp = "ef"
[[sink]]
name = "s"
card = "out"
[[at]]
time = "50ms"
router = "r"
config = '''{after}'''
"#
    );
    // The path of the cost model does not exist at first.
    let error = WorldPlan::parse(&format!("{world}[router.r]\nconfig = '''{before}'''\n"), "reload.toml").unwrap_err();
    assert!(error.to_string().contains("no path 'voice'"), "{error}");
    let world = world_of(&before, &world.replace("path.voice = \"3us\"\n", ""));
    let measured = run(&world);
    assert_eq!(value(&measured, "source.calls.lost"), 0.0);
    let (be, voice) = (value(&measured, "path.best-effort.forwarded"), value(&measured, "path.voice.forwarded"));
    assert!((be / 2000.0 - 1.0).abs() < 0.1 && (voice / 2000.0 - 1.0).abs() < 0.1, "{be} {voice}");
    let points = &measured.series["path.voice.forwarded_pps"];
    assert_eq!(points.first().map(|point| point.0), Some(0.06), "the path is there from 50 ms on");
}

#[test]
fn a_link_that_goes_down_loses_packets_until_it_is_up_again() {
    let world = r#"
duration = "2s"
[[source]]
name = "a"
card = "in"
kind = "constant"
rate = "1kpps"
destination = "10.1.2.3"
[[sink]]
name = "s"
card = "out"
[[at]]
time = "500ms"
card = "out"
up = false
[[at]]
time = "1s"
card = "out"
up = true
"#;
    let measured = run(&world_of(&config(""), world));
    // Until the router notices, within 100 ms, the link loses the packets; from then on the router drops them.
    let (link, router) = (value(&measured, "source.a.lost.down"), value(&measured, "source.a.lost.port_down"));
    assert!((0.0..=100.0).contains(&link) && router > 350.0 && link + router >= 490.0, "{link} {router}");
    assert_eq!(value(&measured, "source.a.received"), 2000.0 - link - router);
    assert!(value(&measured, "source.a.received") >= 1400.0);
}

#[test]
fn several_workers_share_packets_without_loss() {
    let config = config("[router]\nworkers = 2\n");
    let world = r#"
duration = "50ms"
[router.r.cost]
switch = "100ns"
input = "1us"
poll = "100ns"
forwarding = "5us"
output = "1us"
[[source]]
name = "a"
card = "in"
kind = "constant"
rate = "100kpps"
destination = "10.1.2.3"
flows = 64
[[sink]]
name = "s"
card = "out"
"#;
    let measured = run(&world_of(&config, world));
    assert_eq!(value(&measured, "source.a.sent"), 5000.0);
    assert_eq!(value(&measured, "source.a.lost"), 0.0);
    assert!(value(&measured, "source.a.received") > 4980.0);
    // 0.7 of one core, and 0.1 for half of the packets being received again by the other worker, shared by two.
    let useful = value(&measured, "cpu.useful");
    assert!((0.39..0.41).contains(&useful), "{useful}");
}
