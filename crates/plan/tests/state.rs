//! What a configuration says of ephemeral state, and what is wrong with it.

mod catalogue;

use catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::state::{Cleaning, Instruction, OnAbort, Places, Variable, WhenFull};
use plan::{Plan, diff, examine};
use units::{Nanos, PacketRate};

const PORTS: &str = "[port.lan]\ndevice = 'memory:a'\nline_rate = '100kpps'\n[port.lan.state]\ncapacity = 2000000\n\
    variables = ['rate', 'queue']\n[port.wan]\ndevice = 'memory:b'\nstate = { at = 'output' }\n";

fn check(state: &str, ports: &str) -> (Option<Plan>, String) {
    let checked = examine(&format!("version = 1\n{state}{ports}"), "f", &catalogue());
    let lines = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect::<String>();
    (checked.plan, lines)
}

fn read(state: &str) -> Plan {
    let (plan, said) = check(state, PORTS);
    assert!(said.is_empty(), "{said}");
    plan.unwrap()
}

fn said(state: &str, ports: &str, expected: Expect) {
    expected.assert_eq(&check(state, ports).1);
}

#[test]
fn an_empty_table_is_the_papers_state() {
    let plan = read("[state]\n");
    let state = plan.state.unwrap();
    assert_eq!((state.lifetime, state.protocol, state.udp_port), (Nanos::secs(10), 253, 5937));
    assert_eq!((state.capacity, state.central, state.batch), (65536, 65536, 32));
    assert_eq!(
        (state.full, state.on_abort, state.cleaning),
        (WhenFull::AbortCreates, OnAbort::Forward, Cleaning::Inline)
    );
    assert_eq!(state.instructions, Instruction::ALL);
    assert_eq!((state.source_rate, state.source_creates), (None, None));
    let [lan, wan] = [&plan.ports[0].state, &plan.ports[1].state];
    assert_eq!((lan.at, lan.capacity), (Places::Both, Some(2_000_000)));
    assert_eq!(lan.variables, [Variable::Queue, Variable::Rate], "in their own order");
    assert_eq!((wan.at.are(), wan.capacity), ((false, true), None));
}

#[test]
fn everything_can_be_said() {
    let state = read(
        "[state]\nlifetime = '2s'\ncapacity = 5\ncentral = 0\nfull = 'abort_all'\non_abort = 'drop'\ncleaner = 'assist'\n\
         batch = 1\nprotocol = 254\nudp_port = 0\nby_computation = true\nflow_order = false\n\
         instructions = ['put', 'count', 'put']\nsource_rate = '1kpps'\nsource_creates = '10pps'\n",
    )
    .state
    .unwrap();
    assert_eq!(state.instructions, [Instruction::Count, Instruction::Put]);
    assert_eq!(state.source_rate, Some(PacketRate::kpps(1)));
    assert_eq!((state.full, state.on_abort, state.cleaning), (WhenFull::AbortAll, OnAbort::Drop, Cleaning::Assist));
}

/// The bound of spec E-04: two entries for each packet of a lifetime.
#[test]
fn a_store_that_its_line_can_fill_is_warned_of_or_refused() {
    let small = PORTS.replace("2000000", "1900000");
    said("[state]\n", PORTS, expect![[""]]);
    said(
        "[state]\n",
        &small,
        expect![[r#"
            state.capacity| f:2:1: warning: the store of port 'lan' has 1900000 entries, and 100kpps can fill 2000000; give it a capacity of 2000000, or what is more is aborted
        "#]],
    );
    let (plan, _) = check("[state]\nstrict = true\n", &small);
    assert_eq!(plan, None);
    let (plan, said) = check("[state]\nstrict = true\nlifetime = '9s'\n", &small);
    assert!(plan.is_some() && said.is_empty(), "{said}");
}

#[test]
fn mistakes_are_told_where_they_are() {
    said(
        "[state]\nlifetime = '1h'\nprotocol = 50\ncleaner = 'none'\ninstructions = ['cuont']\nbatch = 65\n",
        PORTS,
        expect![[r#"
            state.lifetime| f:3:12: error: 'h' is no unit of time; use one of s, ms, us, ns, like '5ms'
            state.protocol| f:4:12: error: 50 is out of range; give 143 to 254; the default is 253
            state.cleaner| f:5:11: error: 'none' is nothing that 'cleaner' can be; use one of inline, assist
            state.instructions[0]| f:6:17: error: 'cuont' is nothing that 'instructions' can have; did you mean 'count'?
            state.batch| f:7:9: error: 65 is out of range; give 1 to 64; the default is 32
        "#]],
    );
    said(
        "[state]\ncentral = 0\nsingle_store = true\n",
        PORTS,
        expect![[r#"
        state.single_store| f:2:1: error: the one store is that of the centre, and has no entries; give `central` some
    "#]],
    );
    said(
        "",
        PORTS,
        expect![[r#"
        port| f:1:1: warning: port 'lan' says what it does with ephemeral state, and there is no [state]; add [state]
    "#]],
    );
    said(
        "[state]\n",
        &PORTS.replace("rate', 'q", "speed', 'q"),
        expect![[r#"
        port.lan.state.variables[0]| f:8:14: error: 'speed' is nothing that 'variables' can have; use one of queue, drops, rate, node, time
    "#]],
    );
}

#[test]
fn what_changes_is_told() {
    let changes = |old: &str, new: &str| {
        let told: Vec<String> = diff(&read(old), &read(new)).iter().map(ToString::to_string).collect();
        told.join("\n")
    };
    assert_eq!(changes("[state]\n", "[state]\nlifetime = '10s'\n"), "");
    let more = changes("[state]\n", "[state]\ncapacity = 7\n");
    assert!(more.starts_with("~ state: rules lifetime 10s capacity 65536") && more.contains("capacity 7 "), "{more}");
    let port = |text: &str| check("[state]\n", &PORTS.replace("at = 'output'", text)).0.unwrap();
    let told = diff(&port("at = 'output'"), &port("at = 'none'"));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].to_string(), "~ port wan: state at output -> at none");
}
