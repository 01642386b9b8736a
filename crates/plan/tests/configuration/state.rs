//! Ephemeral state in a configuration, and its errors.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::state::{Cleaning, ExecutionPlaces, Instruction, OnAbort, Variable, WhenFull};
use plan::{Catalogue, GuestCode, Guests, InstructionDeclaration, Plan, diff, examine};
use std::sync::Arc;
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
fn empty_table_has_the_defaults_of_the_paper() {
    let plan = read("[state]\n");
    let state = plan.state.unwrap();
    assert_eq!((state.lifetime, state.protocol, state.udp_port), (Nanos::secs(10), 253, 5937));
    assert_eq!((state.capacity, state.central, state.batch), (65536, 65536, 32));
    assert_eq!(
        (state.full, state.on_abort, state.cleaner),
        (WhenFull::AbortCreates, OnAbort::Forward, Cleaning::Inline)
    );
    assert_eq!(state.instructions, Instruction::ALL);
    assert_eq!((state.source_rate, state.source_creates), (None, None));
    let [lan, wan] = [&plan.ports[0].state, &plan.ports[1].state];
    assert_eq!((lan.at, lan.capacity), (ExecutionPlaces::Both, Some(2_000_000)));
    assert_eq!(lan.variables, [Variable::Queue, Variable::Rate], "in their own order");
    assert_eq!((wan.at.input_and_output(), wan.capacity), ((false, true), None));
}

#[test]
fn every_key_can_be_set() {
    let state = read(
        "[state]\nlifetime = '2s'\ncapacity = 5\ncentral = 0\nfull = 'abort_all'\non_abort = 'drop'\ncleaner = 'assist'\n\
         shards = 1\nqueues = 4\nbatch = 1\nprotocol = 254\nudp_port = 0\nby_computation = true\nflow_order = false\n\
         instructions = ['put', 'count', 'put']\nsource_rate = '1kpps'\nsource_creates = '10pps'\n",
    )
    .state
    .unwrap();
    assert_eq!(state.instructions, [Instruction::Count, Instruction::Put]);
    assert_eq!((state.shards, state.queues), (Some(1), 4));
    assert_eq!(state.source_rate, Some(PacketRate::kpps(1)));
    assert_eq!((state.full, state.on_abort, state.cleaner), (WhenFull::AbortAll, OnAbort::Drop, Cleaning::Assist));
}

/// Instructions with these names: all but one exist.
#[derive(Debug)]
struct Registered;

impl Guests for Registered {
    fn find(&self, _: &str) -> Result<(units::declare::Declaration, GuestCode), (String, String)> {
        Err(("there is no scheme here".to_string(), String::new()))
    }

    fn instruction(&self, name: &str) -> Result<(InstructionDeclaration, GuestCode), (String, String)> {
        let declared = InstructionDeclaration { name: "ours", summary: "Ours.", tags: 4, creates: 3 };
        let code = GuestCode { digest: name.len() as u64, maker: Arc::new(()) };
        if name == "none" { Err(("it is not there".into(), "put it there".into())) } else { Ok((declared, code)) }
    }
}

fn with_registered(state: &str, ports: &str) -> (Option<Plan>, String) {
    let catalogue = Catalogue { guests: Some(Arc::new(Registered)), ..catalogue() };
    let checked = examine(&format!("version = 1\n{state}{ports}"), "f", &catalogue);
    let said = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect();
    (checked.plan, said)
}

#[test]
fn operators_register_instructions() {
    let both = "[state]\n[state.instruction.three]\nnumber = 200\n[state.instruction.a]\nnumber = 128\n";
    let (plan, said) = with_registered(both, &PORTS.replace("2000000", "3000000"));
    assert_eq!(said, "");
    let state = plan.unwrap().state.unwrap();
    let numbers: Vec<(u8, u64)> = state.registered.iter().map(|one| (one.number, one.code.digest)).collect();
    assert_eq!((numbers, state.creates()), (vec![(128, 1), (200, 5)], 3));
    assert!(state.to_string().contains("registered 128:ours@0000000000000001 200:ours@0000000000000005"), "{state}");
    // Three entries per packet, the maximum of both instructions.
    let (_, said) = with_registered(both, PORTS);
    assert!(said.contains("can fill 3000000"), "{said}");
    for (state, wrong) in [
        (
            "[state.instruction.a]\nnumber = 127\n",
            "state.instruction.a.number| f:4:10: error: 127 is out of range; give 128 to 255",
        ),
        ("[state.instruction.a]\n", "state.instruction.a| f:3:1: error: the key 'number' is missing"),
        ("[state.instruction.none]\nnumber = 128\n", "error: it is not there; put it there"),
        (
            "[state.instruction.a]\nnumber = 128\n[state.instruction.b]\nnumber = 128\n",
            "state.instruction.b| f:5:20: error: 'ours' has the number 128 already; give each instruction a number of its own",
        ),
    ] {
        let (plan, said) = with_registered(&format!("[state]\n{state}"), PORTS);
        assert!(plan.is_none() && said.contains(wrong), "{state}: {said}");
    }
    let (plan, said) = check("[state]\n[state.instruction.a]\nnumber = 128\n", PORTS);
    assert!(plan.is_none() && said.contains("no directory of guests is set"), "{said}");
}

/// `diff` prints the name of the key file, not the key.
#[test]
fn key_is_the_name_of_a_file() {
    let state = read("[state]\nkey = '/etc/switchpath/state.key'\n").state.unwrap();
    assert_eq!(state.key.as_deref(), Some("/etc/switchpath/state.key"));
    assert!(state.to_string().ends_with("key \"/etc/switchpath/state.key\""), "{state}");
    let (plan, said) = check("[state]\nkey = ''\n", PORTS);
    assert!(plan.is_none() && said.contains("state.key| f:3:7: error: '' is no name of a file"), "{said}");
}

/// The bound of spec E-04: two entries for each packet of a lifetime.
#[test]
fn store_too_small_for_its_line_gets_a_warning_or_is_refused() {
    let small = PORTS.replace("2000000", "1900000");
    said("[state]\n", PORTS, expect![[""]]);
    said(
        "[state]\n",
        &small,
        expect![[r#"
            state.capacity| f:2:1: warning: the store of port 'lan' has 1900000 entries, but 100kpps can fill 2000000; set a capacity of 2000000; a full store aborts instructions
        "#]],
    );
    let (plan, _) = check("[state]\nstrict = true\n", &small);
    assert_eq!(plan, None);
    let (plan, said) = check("[state]\nstrict = true\nlifetime = '9s'\n", &small);
    assert!(plan.is_some() && said.is_empty(), "{said}");
}

#[test]
fn errors_are_reported_at_their_position() {
    said(
        "[state]\nlifetime = '1h'\nprotocol = 50\ncleaner = 'none'\ninstructions = ['cuont']\nbatch = 65\n",
        PORTS,
        expect![[r#"
            state.lifetime| f:3:12: error: 'h' is no unit of time; use one of s, ms, us, ns, like '5ms'
            state.protocol| f:4:12: error: 50 is out of range; give 143 to 254; the default is 253
            state.cleaner| f:5:11: error: 'none' is not a value of 'cleaner'; use one of inline, assist, dedicated
            state.instructions[0]| f:6:17: error: 'cuont' is not a value of 'instructions'; did you mean 'count'?
            state.batch| f:7:9: error: 65 is out of range; give 1 to 64; the default is 32
        "#]],
    );
    said(
        "[state]\nshards = 3\n[router]\nworkers = 2\n",
        PORTS,
        expect![[r#"
        state.shards| f:3:10: error: 3 shards are more than the 2 workers that execute instructions; write at most 2, or raise `workers` in [router]
    "#]],
    );
    said(
        "[state]\ncentral = 0\nsingle_store = true\n",
        PORTS,
        expect![[r#"
        state.single_store| f:2:1: error: the single store has no entries: `central` is 0; set `central` above 0
    "#]],
    );
    said(
        "",
        PORTS,
        expect![[r#"
        port| f:1:1: warning: port 'lan' sets ephemeral state, but there is no [state]; add [state]
    "#]],
    );
    said(
        "[state]\n",
        &PORTS.replace("rate', 'q", "speed', 'q"),
        expect![[r#"
        port.lan.state.variables[0]| f:8:14: error: 'speed' is not a value of 'variables'; use one of queue, drops, rate, node, time
    "#]],
    );
}

#[test]
fn changes_are_reported() {
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
