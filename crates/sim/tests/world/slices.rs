//! Slices on routers of a world: inner packets, changes, slow paths and faults.

use crate::common::{config, run, try_run, value};
use sim::{Measurements, WorldPlan};

const ROUTE: &str = "[[route]]\nto = \"198.18.0.0/15\"\nvia = \"198.51.100.9\"\n";
const SLICES: &str = "[[path]]\nname = \"slices\"\nmatch = \"ip daddr { 192.0.2.1, 198.51.100.1 } udp dport 20000-20999\"\nfunctions = [\"slice\"]\n";

/// A slice `s` with this code option, a meta-interface on both sides and queue 1, and further lines.
fn world_text(code: &str, lines: &str, rest: &str) -> String {
    let config = config(&format!("{ROUTE}{SLICES}"))
        .replace("device = \"sim:out\"", "device = \"sim:out\"\nscheme = \"share(rate=1gbit, leaves=64)\"");
    format!(
        "duration = \"1s\"\n[router.r]\nconfig = '''{config}'''\nslices = '''\ncreate s code {code} filters 20000 exceptions 10000\nmi add s 0 192.0.2.1:20000\n\
         mi add s 1 198.51.100.1:20000\nreserve s out\nqueue set s 1 out weight 3\n{lines}\n'''\n[[sink]]\nname = \"k\"\ncard = \"out\"\n{rest}"
    )
}

fn world(code: &str, lines: &str, rest: &str) -> WorldPlan {
    let text = world_text(code, lines, rest);
    WorldPlan::parse(&text, "world.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render(false)))
}

/// A source of a thousand packets a second for the slice, with these inner packets.
fn source(name: &str, size: &str, inner: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\ncard = \"in\"\nkind = \"constant\"\nrate = \"1kpps\"\nsize = \"{size}\"\ndestination = \"192.0.2.1\"\n\
         ports = [7000, 20000]\ninner = {{ {inner} }}\n"
    )
}

const TO_TEN: &str = "filter insert s 0 value 000a000000 mask 00ff000000 send 1 1 198.51.100.9:20000";

fn slice(measured: &Measurements, name: &str) -> f64 {
    value(measured, &format!("slice.s.{name}"))
}

#[test]
fn slice_forwards_inner_packets() {
    let sources = source("a", "200b", "code = \"ipv4\", destination = \"10.0.0.1 10.0.0.2\"");
    let measured = run(&world("ipv4", TO_TEN, &sources));
    assert_eq!(value(&measured, "source.a.received"), 1000.0);
    assert_eq!((slice(&measured, "received_packets"), slice(&measured, "forwarded_packets")), (1000.0, 1000.0));
    assert_eq!((slice(&measured, "queue.1.sent"), slice(&measured, "queue.1.dropped")), (1000.0, 0.0));
    assert_eq!(measured.series["slice.s.queue.1.sent_pps"].len(), 100);
}

#[test]
fn slices_count_packets_without_room_for_a_tag() {
    let sources = source("a", "74b", "code = \"ipv4\", destination = \"10.0.0.1\"");
    let measured = run(&world("ipv4", TO_TEN, &sources));
    assert_eq!((value(&measured, "source.a.sent"), measured.get("source.a.received")), (1000.0, None));
    assert_eq!((slice(&measured, "forwarded_packets"), value(&measured, "sink.k.received")), (1000.0, 0.0));
    // One more is the router's announcement of its address.
    assert_eq!(value(&measured, "sink.k.others"), 1001.0);
}

#[test]
fn slow_path_reads_exceptions_by_code() {
    let inner = |name: &str, more: &str| source(name, "200b", &format!("code = \"ipv4\", {more}"));
    let sources = inner("expired", "destination = \"10.0.0.1\", ttl = 1")
        + &inner("options", "destination = \"10.0.0.1\", options = true")
        + &inner("unrouted", "destination = \"11.0.0.1\"");
    let measured = run(&world("ipv4", TO_TEN, &sources));
    let read = ["ttl", "options", "no_match"].map(|code| slice(&measured, &format!("exceptions.{code}")));
    assert_eq!((read, slice(&measured, "exception_packets")), ([1000.0; 3], 3000.0));
    assert_eq!((value(&measured, "source.expired.consumed"), slice(&measured, "forwarded_packets")), (1000.0, 0.0));
}

#[test]
fn slices_change_while_packets_flow() {
    let sources = source("a", "200b", "code = \"ipv4\", destination = \"10.0.0.1\"")
        + "[[at]]\ntime = \"250ms\"\nrouter = \"r\"\nslices = '''\n# A filter before the other one.\nfilter insert s 9 value 00 drop\n'''\n\
           [[at]]\ntime = \"500ms\"\nrouter = \"r\"\nslices = '''\nfilter replace s 0 value 00 drop\n'''\n\
           [[at]]\ntime = \"750ms\"\nevery = \"100ms\"\nrouter = \"r\"\nslices = '''\nrepeat 3 filter insert s 1{n} value {x}\ndrop\n'''\n";
    let text = world_text("ipv4", TO_TEN, &sources);
    let wrong = WorldPlan::parse(&text, "world.toml").unwrap_err().render(false);
    assert!(wrong.contains("the filter does nothing") && wrong.contains("repeat 3 filter insert"), "{wrong}");
    let measured =
        run(&world("ipv4", TO_TEN, &sources.replace("{x}\ndrop", "{x} drop").replace("every = \"100ms\"\n", "")));
    assert_eq!(slice(&measured, "forwarded_packets"), 500.0);
    assert_eq!(slice(&measured, "policy_dropped_packets"), 500.0);
    // The filters of the second round are there already.
    let twice = try_run(&world("ipv4", TO_TEN, &sources.replace("{x}\ndrop", "{x} drop")));
    assert!(twice.unwrap_err().to_string().starts_with("slices of router r: change 1: "));
}

#[test]
fn panic_of_a_code_option_ends_until_resume() {
    let to_ten = "filter insert s 0 value 0a send 1 1 198.51.100.9:20000";
    let sources = source("a", "200b", "code = \"ipv4\", destination = \"10.0.0.1\"")
        + &source("poison", "200b", "code = \"ipv4\", destination = \"10.255.0.1\"").replace("1kpps", "2pps")
        + "[[at]]\ntime = \"250ms\"\nevery = \"500ms\"\nrouter = \"r\"\nslices = '''\nresume s\n'''\n";
    let measured = run(&world("faulty", to_ten, &sources));
    assert_eq!(slice(&measured, "fault_dropped_packets"), 2.0);
    assert!((slice(&measured, "forwarded_packets") - 500.0).abs() < 5.0, "half of the time it is stopped");
    assert_eq!(slice(&measured, "forwarded_packets") + slice(&measured, "suspended_dropped_packets"), 1000.0);
}

#[test]
fn ring_router_forwards_i3_packets() {
    let ring = "[ring]\nseed = 3\nrouters = 16\ntriggers = 200\nrouter = 5\n";
    let sources = source("a", "200b", "code = \"i3\", triggers = 100") + ring;
    let measured = run(&world("i3", "ring s 1 1", &sources));
    assert_eq!((slice(&measured, "forwarded_packets"), value(&measured, "source.a.received")), (1000.0, 1000.0));
    let wrong = WorldPlan::parse(&world_text("i3", "ring s 1 1", ""), "world.toml").unwrap_err().render(false);
    assert!(wrong.contains("the world has no ring"), "{wrong}");
}
