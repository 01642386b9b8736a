//! Objectives and policies in a configuration, and their errors.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::{Objective, Plan, diff, examine};
use units::{Nanos, Parts};

const OBJECTIVES: &str = "[objectives]\ndelay = ['ef', 'cs5']\nthroughput = ['cs1', '10']\n";
const POLICY: &str = "[policy.edge]\ndelay = 'drr{codel}'\nthroughput = 'fifo(limit=20000)'\n";
const PORTS: &str = "[port.lan]\ndevice = 'memory:a'\naddress = ['192.0.2.1/24']\ntrust = true\n\
    [port.lan.vlan.20]\naddress = ['198.51.100.1/24']\n[port.lan.vlan.30]\ntrust = false\nobjective = 'fct'\n\
    [port.wan]\ndevice = 'memory:b'\npolicy = 'edge'\n";

fn whole() -> String {
    format!("version = 1\n{OBJECTIVES}{POLICY}{PORTS}")
}

fn read(text: &str) -> Plan {
    let checked = examine(text, "f", &catalogue());
    let said = checked.diagnostics.render(false);
    assert!(said.is_empty(), "{said}");
    checked.plan.unwrap()
}

/// Checks the diagnostics of the configuration with these edits.
fn said(edits: &[(&str, &str)], expected: Expect) {
    let mut text = whole();
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let checked = examine(&text, "f", &catalogue());
    let lines = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect::<String>();
    expected.assert_eq(&lines);
}

#[test]
fn objectives_and_policies_are_parsed_with_their_defaults() {
    let plan = read(&whole());
    assert_eq!(plan.objectives.of(Objective::Delay), ["cs5", "ef"]);
    assert_eq!((plan.objectives.get(10), plan.objectives.get(0)), (Some(Objective::Throughput), None));
    let policy = &plan.policies[0];
    assert_eq!((policy.window, policy.dwell, policy.packets), (Nanos::secs(1), Nanos::secs(30), 100));
    assert_eq!(policy.share, Parts::percent(60));
    let wan = &plan.ports[1];
    let scheme = |objective| plan.scheme(wan, objective).name;
    assert_eq!(
        (scheme(Objective::Delay), scheme(Objective::Throughput), scheme(Objective::Fct)),
        ("drr", "fifo", "fifo")
    );
    assert_eq!(plan.scheme(wan, Objective::None), &wan.scheme);
    let wants: Vec<_> = plan.interfaces().map(|(_, i)| (&*i.name, i.trust, i.objective)).collect();
    let nothing = Objective::None;
    let expected =
        [("lan", true, nothing), ("lan.20", true, nothing), ("lan.30", false, Objective::Fct), ("wan", false, nothing)];
    assert_eq!(wants, expected);
}

#[test]
fn errors_are_reported_at_their_position() {
    said(
        &[
            ("'ef', 'cs5'", "'ef', 'ef', 'fe', 46"),
            ("'cs1', '10'", "'cs1', '46', '64'"),
            (
                "delay = 'drr{codel}'",
                "window = '50ms'\ndwell = '2s'\nshare = '50%'\npackets = 0\nspeed = 'x'\ndelay = 'cdel'",
            ),
            ("throughput = 'fifo", "none = 'codel'\nthroughput = 'fifo(limit=1)'\ntail = 'fifo"),
            ("objective = 'fct'", "objective = 'fast'"),
            ("policy = 'edge'", "policy = 'egde'\ntrust = 'yes'"),
        ],
        expect![[r#"
            objectives.delay[0]| f:3:10: error: the code point ef has the objective throughput already; list each code point for one objective
            objectives.delay[1]| f:3:16: error: the code point ef has the objective delay already; list each code point for one objective
            objectives.delay[2]| f:3:22: error: 'fe' is no code point; write a name like ef, af41 or cs6, or a number from 0 to 63
            objectives.delay[3]| f:3:28: error: expected a string, not a whole number; write "ef"
            objectives.throughput[2]| f:4:28: error: '64' is no code point; write a name like ef, af41 or cs6, or a number from 0 to 63
            policy.edge.window| f:6:10: error: 50ms is out of range; give 100ms to 3600s
            policy.edge.share| f:8:9: error: 50% is out of range; give 51% to 100%
            policy.edge.packets| f:9:11: error: 0 is out of range; give 1 to 1000000000; the default is 100
            policy.edge.speed| f:10:1: error: unknown key 'speed'; the keys here are window, dwell, share, packets, throughput, delay, power, fct, tail
            policy.edge.delay| f:11:10: error: no scheme is called 'cdel'; did you mean 'codel'?
            policy.edge.none| f:12:1: error: unknown key 'none'; the keys here are window, dwell, share, packets, throughput, delay, power, fct, tail
            policy.edge.throughput| f:13:14: warning: with a limit of 1 every burst loses all but one packet; give a limit of a hundred or more
            port.lan.vlan.30.objective| f:23:13: error: 'fast' is not a value of 'objective'; use one of none, throughput, delay, power, fct, tail
            port.wan.policy| f:26:10: error: no policy is called 'egde'; did you mean 'edge'?
            port.wan.trust| f:27:9: error: 'trust' is true or false, not a string; write trust = true
        "#]],
    );
    said(
        &[("delay = 'drr{codel}'", "window = '10s'\ndwell = '5s'"), ("[policy.edge]", "[policy.Edge]")],
        expect![[r#"
        policy.Edge| f:5:9: error: 'Edge' is no name for a policy; use a letter, then letters, digits, '_' and '-', 15 at most: [a-z][a-z0-9_-]{0,14}
        policy.Edge.dwell| f:7:9: error: the dwell of 5s is shorter than the window of 10s; give at least 10s, or a shorter window
        port.wan.policy| f:20:10: error: no policy is called 'edge'; did you mean 'Edge'?
    "#]],
    );
    said(
        &[(POLICY, "")],
        expect![[r#"
        port.wan.policy| f:16:10: error: no policy is called 'edge'; add [policy.edge]
    "#]],
    );
}

#[test]
fn settings_without_effect_get_a_warning() {
    said(
        &[("trust = true", "")],
        expect![[r#"
        objectives| f:2:1: warning: no port trusts code points, so [objectives] has no effect; write trust = true in [port.NAME] if you control its hosts
    "#]],
    );
    said(
        &[("trust = true", ""), ("objective = 'fct'", "")],
        expect![[r#"
        objectives| f:2:1: warning: no port trusts code points, so [objectives] has no effect; write trust = true in [port.NAME] if you control its hosts
        policy.edge| f:5:9: warning: no received packet has an objective, so the policy never changes a scheme; write trust = true or objective = "fct" for an input interface
    "#]],
    );
    said(
        &[(OBJECTIVES, "")],
        expect![[r#"
        port| f:5:2: warning: code points are trusted, but no code point has an objective; add [objectives] with delay = ["ef"]
    "#]],
    );
    said(
        &[("policy = 'edge'", "")],
        expect![[r#"
        policy.edge| f:5:9: warning: no port uses the policy 'edge'; write policy = "edge" in [port.NAME]
    "#]],
    );
    // A path may set the objective as well.
    said(
        &[
            ("trust = true", ""),
            ("objective = 'fct'", ""),
            (OBJECTIVES, ""),
            ("policy = 'edge'\n", "policy = 'edge'\n[[path]]\nname = 'a'\nmatch = 'udp'\nobjective = 'delay'\n"),
        ],
        expect![""],
    );
}

#[test]
fn longer_window_has_a_longer_dwell() {
    let plan = read(&whole().replace("delay = 'drr{codel}'", "window = '60s'"));
    assert_eq!(plan.policies[0].dwell, Nanos::secs(60));
}

#[test]
fn differences_are_reported() {
    let told = |from: &str, to: &str| {
        let text = whole();
        assert!(text.contains(from), "{from}");
        let changes = diff(&read(&text), &read(&text.replace(from, to)));
        changes.iter().map(|change| format!("{change}\n")).collect::<String>()
    };
    let all = [
        told("'ef', 'cs5'", "'cs5', '46'"),
        told("'cs5'", "'cs6'"),
        told("delay = 'drr{codel}'", "dwell = '1s'\nshare = '75%'"),
        told(
            "[port.lan]",
            "[policy.other]\nfct = 'codel'\n[port.x]\ndevice = 'memory:x'\npolicy = 'other'\n[port.lan]",
        ),
        told("edge", "rim"),
        told("trust = true", "trust = true\nobjective = 'power'"),
        told("trust = false\n", ""),
        told("policy = 'edge'\n", "policy = 'edge'\n[[path]]\nname = 'a'\nmatch = 'udp'\nobjective = 'delay'\n"),
    ];
    expect![[r#"
        ~ objectives: delay cs5 ef -> ef cs6
        ~ policy edge: dwell 30s -> 1s, share 60% -> 75%, delay drr(burst=1500b){codel(limit=1000,target=5ms)} -> none
        + policy other: window 1s dwell 30s share 60% packets 100 fct codel(limit=1000,target=5ms)
        + port x: device memory:x scheme fifo policy other, x address none mtu 1500
        - policy edge
        + policy rim: window 1s dwell 30s share 60% packets 100 throughput fifo(limit=20000) delay drr(burst=1500b){codel(limit=1000,target=5ms)}
        ~ port wan: policy edge -> rim
        ~ interface lan: objective none -> power
        ~ interface lan.20: objective none -> power
        ~ interface lan.30: trust false -> true
        + path a: match udp functions ip queue 512 class 0 objective delay
    "#]].assert_eq(&all.concat());
}
