//! Links and rings, exact to the nanosecond.

use crate::common::{config, run, value, world_of};

#[test]
fn link_serializes_and_delays_packets() {
    // Work takes no time here. 60 bytes and the 24 of Ethernet take 6.72 us at 100 Mbit/s.
    let source = |name: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\ncard = \"in\"\nkind = \"constant\"\nrate = \"1kpps\"\ndestination = \"10.0.0.1\"\n"
        )
    };
    let link = "[[link]]\nbetween = [\"out\", \"s\"]\nrate = \"100mbit\"\ndelay = \"1ms\"\n[[sink]]\nname = \"s\"\n";
    let world = format!("duration = \"10ms\"\nwarmup = \"1ms\"\n{}{}{link}", source("a"), source("b"));
    let measured = run(&world_of(&config(""), &world));
    let latency =
        |source: &str| ["min", "mean", "max"].map(|key| value(&measured, &format!("source.{source}.latency_{key}_us")));
    assert_eq!(latency("a"), [1006.72; 3]);
    assert_eq!(latency("b"), [1013.44; 3]);
    assert_eq!(value(&measured, "source.a.wait_max_us"), 0.0);
    assert_eq!((value(&measured, "source.a.sent"), value(&measured, "source.a.received")), (9.0, 9.0));
    // Packets of the last millisecond are in flight at the end. Packets of the first millisecond are not measured, but arrive.
    assert_eq!(value(&measured, "sink.s.received"), 18.0);
    assert_eq!(value(&measured, "card.out.transmitted"), 18.0);
    assert_eq!(value(&measured, "cpu.idle"), 1.0);
}

#[test]
fn full_receive_ring_loses_exact_count() {
    // A hundred packets in a hundred nanoseconds, ten times. The first is received at once and takes a microsecond. Of the 99 others 64 fit into the
    // ring.
    let world = r#"
duration = "10ms"
[router.r.cost]
input = "1us"
poll = "0ns"
[[source]]
name = "a"
card = "in"
kind = "onoff"
rate = "1000mpps"
on = "100ns"
off = "999900ns"
destination = "10.0.0.1"
[[sink]]
name = "s"
card = "out"
"#;
    let measured = run(&world_of(&config(""), world));
    assert_eq!(value(&measured, "source.a.sent"), 1000.0);
    assert_eq!(value(&measured, "source.a.lost.ring"), 350.0);
    assert_eq!(value(&measured, "card.in.ring_dropped"), 350.0);
    assert_eq!(value(&measured, "card.in.ring_max"), 64.0);
    assert_eq!(value(&measured, "source.a.received"), 650.0);
    assert_eq!(value(&measured, "cpu.useful"), 0.065);
}

#[test]
fn a_smaller_ring_loses_more() {
    let world = |ring: usize| {
        let card = format!("[card.in]\nring = {ring}\n");
        format!(
            "duration = \"10ms\"\n{card}[router.r.cost]\ninput = \"1us\"\npoll = \"0ns\"\n[[source]]\nname = \"a\"\ncard = \"in\"\n\
             kind = \"onoff\"\nrate = \"1000mpps\"\non = \"100ns\"\noff = \"999900ns\"\ndestination = \"10.0.0.1\"\n"
        )
    };
    let lost = [1, 32, 99, 100].map(|ring| value(&run(&world_of(&config(""), &world(ring))), "card.in.ring_dropped"));
    assert_eq!(lost, [980.0, 670.0, 0.0, 0.0]);
}

#[test]
fn only_lossy_link_loses_packets() {
    let world = r#"
duration = "1s"
[[link]]
between = ["out", "s"]
loss = "1%"
[[source]]
name = "a"
card = "in"
kind = "poisson"
rate = "100kpps"
destination = "10.0.0.1"
[[sink]]
name = "s"
"#;
    let measured = run(&world_of(&config(""), world));
    let (sent, lost) = (value(&measured, "source.a.sent"), value(&measured, "source.a.lost.link"));
    assert!((sent / 100_000.0 - 1.0).abs() < 0.01 && (lost / sent / 0.01 - 1.0).abs() < 0.1, "{sent} {lost}");
    assert_eq!(value(&measured, "source.a.lost"), lost);
    assert_eq!(value(&measured, "source.a.received") + lost, sent);
}

#[test]
fn packets_sent_without_a_link_are_lost() {
    let world = "duration = \"1ms\"\n[[source]]\nname = \"a\"\ncard = \"in\"\nkind = \"constant\"\nrate = \"10kpps\"\ndestination = \"10.0.0.1\"\n";
    let measured = run(&world_of(&config(""), world));
    assert_eq!((value(&measured, "source.a.sent"), value(&measured, "source.a.lost.nowhere")), (10.0, 10.0));
}

/// A link with these keys, and a source of 1000 packets a second for it.
fn link(keys: &str) -> String {
    format!(
        "duration = \"2s\"\n[[link]]\nbetween = [\"out\", \"s\"]\n{keys}\n[[source]]\nname = \"a\"\ncard = \"in\"\n\
         kind = \"poisson\"\nrate = \"1kpps\"\nsize = \"1000b\"\nstop = \"1s\"\ndestination = \"10.0.0.1\"\n[[sink]]\nname = \"s\"\n"
    )
}

#[test]
fn world_links_equal_emulated_links() {
    let measured =
        run(&world_of(&config(""), &link("trace = \"lte(mean=3mbit,length=2s,seed=4)\"\nmode = \"packet\"")));
    let received = value(&measured, "source.a.received") as usize;
    let opportunities = link::medium::lte(units::Rate::mbit(3), units::Nanos::secs(2), 4).millis().len();
    // Packets in the transmit ring of 64 at the end count as arrived.
    assert!(received > opportunities / 2 && received <= opportunities + 64, "{received} of {opportunities}");
    let measured = run(&world_of(&config(""), &link("duplicate = \"10%\"\nreorder = \"5%\"\nreorder_by = \"7ms\"")));
    let (sent, received) = (value(&measured, "source.a.sent"), value(&measured, "source.a.received"));
    assert!((1.07..1.13).contains(&(received / sent)), "{sent} {received}");
    let least = value(&measured, "source.a.latency_min_us");
    assert!(value(&measured, "source.a.latency_p99_us") > least + 6900.0, "some come late");
    for (keys, rate) in
        [("poisson = \"500pps\"", 500.0), ("rate = \"4mbit\"\nburst = \"2kb\"\noverhead = \"0b\"", 502.0)]
    {
        let received = value(&run(&world_of(&config(""), &link(keys))), "source.a.received");
        assert!((received / (2.0 * rate) - 1.0).abs() < 0.12, "{keys}: {received}");
    }
}

#[test]
fn ended_trace_ends_run_with_error() {
    let text = link("trace = \"lte(mean=3mbit,length=1s,seed=4)\"\nend = \"error\"");
    let world = world_of(&config(""), &text);
    let error = sim::run(&world, &mut sim::NoCaptures, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the link of card out: its trace ended before the world");
    let world = world_of(&config(""), &link("trace = \"elsewhere\""));
    let error = sim::run(&world, &mut sim::NoCaptures, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the link of card out: 'elsewhere' cannot be read: files are not opened here");
}
