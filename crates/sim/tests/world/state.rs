//! Routers that execute the instructions of packets: the sites of the plane, in virtual time.

use crate::common::{config, run, value, world_of};
use sim::WorldPlan;

/// A router with sources of instructions, given by name and further keys, and one sink for all of them.
fn world(state: &str, duration: &str, sources: &[(&str, &str)]) -> WorldPlan {
    let source = |(name, more): &(&str, &str)| {
        format!(
            "[[source]]\nname = \"{name}\"\ncard = \"in\"\nkind = \"constant\"\ndestination = \"10.1.2.3\"\n{more}\n"
        )
    };
    let sources: String = sources.iter().map(source).collect();
    let sink = "[[sink]]\nname = \"k\"\ncard = \"out\"\n";
    world_of(&config(state), &format!("duration = \"{duration}\"\n{sources}{sink}"))
}

#[test]
fn counter_forwards_up_to_limit_per_lifetime() {
    let state = "[state]\nlifetime = \"100ms\"\ncapacity = 100\n";
    let count = "rate = \"1kpps\"\ninstruction = \"count 0x2a upto 3\"\n";
    let measured = run(&world(state, "1s", &[("s", count)]));
    // Three of each hundred. An entry expires after 100 ms, with the first packet that arrives later.
    assert_eq!(value(&measured, "source.s.received"), 30.0);
    assert_eq!((value(&measured, "state.in.executed"), value(&measured, "state.in.dropped")), (1000.0, 970.0));
    assert_eq!((value(&measured, "state.in.created"), value(&measured, "state.out.executed")), (10.0, 0.0));
    assert_eq!(value(&measured, "drop.instruction"), 970.0);
    assert_eq!(value(&measured, "source.s.lost.instruction"), 970.0);
}

#[test]
fn routers_without_stores_let_instructions_pass() {
    let count = "rate = \"1kpps\"\ninstruction = \"count 0x2a upto 3\"\n";
    let measured = run(&world("", "1s", &[("s", count)]));
    assert_eq!(value(&measured, "source.s.received"), 1000.0);
    assert_eq!(measured.get("state.in.executed"), None);
}

#[test]
fn member_reports_combine_into_one_packet() {
    let state = "[state]\nlifetime = \"2s\"\ncapacity = 100\n";
    let one = |of: &str, start: &str| {
        format!("rate = \"1pps\"\nstart = \"{start}\"\nstop = \"900ms\"\nat = \"output\"\ninstruction = \"{of}\"\n")
    };
    let count = one("count 0x1 below 2", "0s");
    let (early, late) = (one("collect 0x1 0x2 add 5", "300ms"), one("collect 0x1 0x2 add 5", "400ms"));
    let sources =
        [("a", &*count), ("b", &count), ("c", &count), ("first", &early), ("second", &early), ("third", &late)];
    let measured = run(&world(state, "1s", &sources));
    let came = sources.map(|(name, _)| value(&measured, &format!("source.{name}.received")));
    assert_eq!(came, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], "one sets up, the last brings what all have said");
    assert_eq!((value(&measured, "state.out.executed"), value(&measured, "state.out.live")), (6.0, 2.0));
}

#[test]
fn full_store_aborts_with_reason() {
    let state = "[state]\nlifetime = \"10s\"\ncapacity = 100\n";
    let mark = "rate = \"1kpps\"\nat = \"input, output\"\ninstruction = \"mark 0x2a 1\"\ncomputations = 0\n";
    let measured = run(&world(state, "1s", &[("s", mark)]));
    assert_eq!(value(&measured, "source.s.received"), 1000.0);
    assert_eq!(value(&measured, "state.in.aborted"), value(&measured, "state.aborted.full"));
    assert_eq!(value(&measured, "state.in.aborted") + value(&measured, "state.in.created"), 1000.0);
    assert_eq!(
        value(&measured, "state.in.created"),
        value(&measured, "state.out.executed"),
        "what failed once is not tried"
    );
    assert!(value(&measured, "state.in.live") >= 100.0);
}

/// The computations of one flow belong to several workers, which hand packets to the owner.
#[test]
fn several_workers_count_exactly() {
    let of = |workers: u32| {
        let config = format!("[router]\nworkers = {workers}\n[state]\nlifetime = \"5s\"\ncapacity = 4000\n");
        let count = "rate = \"20kpps\"\ninstruction = \"count 0x2a upto 7\"\ncomputations = 50\n";
        run(&world(&config, "1s", &[("s", count)]))
    };
    let (one, two) = (of(1), of(2));
    for measured in [&one, &two] {
        assert_eq!(value(measured, "source.s.received"), 350.0, "seven of each computation");
        assert_eq!(value(measured, "state.in.executed"), 20_000.0);
    }
    assert_eq!(value(&one, "state.handed"), 0.0);
    assert!(value(&two, "state.handed") > 0.0);
}

/// Half a microsecond to receive a packet, and one to execute its instruction: a million packets a second exceed the capacity by a half. By default
/// packets beyond the card's ring are lost. With `overload = "pass"` all packets pass, and as many instructions are executed as time allows.
#[test]
fn overloaded_worker_skips_instructions_without_loss() {
    let of = |more: &str| {
        let state = format!("[state]\nlifetime = \"1s\"\ncapacity = 100\ncentral = 0\n{more}");
        let count = "rate = \"1mpps\"\ninstruction = \"count 0x2a below 4000000000\"\n";
        let text = format!(
            "duration = \"100ms\"\n[router.r.cost]\ninput = \"500ns\"\ninstruction = \"1us\"\n[card.in]\nring = 4096\n\
             [[source]]\nname = \"s\"\ncard = \"in\"\nkind = \"constant\"\ndestination = \"10.1.2.3\"\n{count}\
             [[sink]]\nname = \"k\"\ncard = \"out\"\n"
        );
        run(&world_of(&config(&state), &text))
    };
    let (executes, passes) = (of(""), of("overload = \"pass\"\n"));
    assert!(value(&executes, "source.s.lost.ring") > 20_000.0, "a third of 100000, less what is in the ring");
    assert_eq!(value(&executes, "state.in.overloaded"), 0.0);
    assert_eq!((value(&passes, "source.s.lost"), value(&passes, "source.s.lost.ring")), (0.0, 0.0));
    let (executed, passed) = (value(&passes, "state.in.executed"), value(&passes, "state.in.overloaded"));
    // Half of the time is left for instructions of a microsecond, and the ring holds some packets at the end.
    assert!((35_000.0..=51_000.0).contains(&executed) && passed > 40_000.0, "{executed} {passed}");
    assert!(executed + passed <= 100_000.0 && executed + passed > 99_000.0, "{executed} {passed}");
}
