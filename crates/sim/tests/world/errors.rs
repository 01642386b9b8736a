//! Invalid descriptions, and their error messages.

use crate::common::config;
use expect_test::{Expect, expect};
use sim::WorldPlan;

/// Compares the errors of a world that contains `more`.
fn check(more: &str, expected: Expect) {
    let text = format!("duration = \"1s\"\n{more}\n[router.r]\nconfig = '''{}'''\n", config(""));
    let wrong = WorldPlan::parse(&text, "w").expect_err("something is wrong with it");
    expected.assert_eq(&wrong.to_string());
}

#[test]
fn every_wrong_value_is_reported_at_its_position() {
    check(
        r#"warmup = "2s"
sample = "1ns"
[[source]]
name = "a"
card = "inn"
kind = "constant"
rate = "10mbps"
destination = "10.0.0"
size = "64b, 20b"
on = "1ms"
[[source]]
name = "a"
card = "in"
kind = "bursty"
destination = "10.0.0.1"
dscp = "efx"
[[link]]
between = ["out"]
[[sink]]
name = "s"
card = "out"
[[at]]
time = "1ms"
[card.nobody]
"#,
        expect![[r#"
            w:2:10: error: the warm-up leaves no time for measurements; write less than 1s
            w:3:10: error: that is more than 1000000 points; write 1001ns or more
            w:6:8: error: there is no card 'inn'; did you mean 'in'?
            w:8:8: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'
            w:9:15: error: '10.0.0' is no IPv4 address; write one like "10.0.0.1"
            w:10:8: error: no packet of a source has 20b; give 64b to 2040b, including the frame check sequence
            w:11:6: error: a constant source has no 'on'; its keys are rate
            w:15:8: error: unknown kind of source 'bursty'; use one of constant, poisson, onoff, ramp, steps, replay
            w:17:8: error: 'efx' is no code point; write "ef", "af31", "cs5" or a number
            w:19:11: error: a link has two ends; write between = ["p1", "p2"]
            w:23:1: error: it states no change; give router and config, router and reserve, router and slices, card and up, link and scheme, or link and rate
            w:25:1: error: no router has a port on card 'nobody'; use one of in, out
        "#]],
    );
}

#[test]
fn errors_in_the_instructions_of_a_source_are_reported() {
    check(
        r#"[[source]]
name = "a"
card = "in"
kind = "constant"
rate = "1kpps"
destination = "10.0.0.1"
instruction = "count 0x2a"
[[source]]
name = "b"
card = "in"
kind = "constant"
rate = "1kpps"
destination = "10.0.0.1"
size = "64b"
at = "input, behind"
instruction = "test 0x2a"
[[source]]
name = "c"
card = "in"
kind = "constant"
rate = "1kpps"
destination = "10.0.0.1"
computations = 3
"#,
        expect![[r#"
            w:8:15: error: 'count 0x2a' is no instruction; write one of: nop, count TAG below|upto N, compare TAG OPERATOR N, collect COUNTER RESULT OPERATOR N, rcollect COUNTER RESULT CHILD OPERATOR N, rchld COUNTER CHILD, mark TAG N, test TAG, get TAG, put TAG N, setfwd TAG OPERATOR N
            w:16:6: error: unknown place 'behind'; write one or several of input, central and output
            w:24:16: error: the key 'computations' needs an instruction; add instruction = "count 0x2a upto 1"
        "#]],
    );
}

#[test]
fn unknown_key_error_suggests_key() {
    check(
        "waarmup = \"1ms\"",
        expect![[r#"
            w:2:1: error: unknown field `waarmup`, expected one of `duration`, `warmup`, `sample`, `seed`, `hash`, `router`, `host`, `flow`, `card`, `link`, `source`, `sink`, `at`, `ring`; did you mean 'warmup'?
        "#]],
    );
}

#[test]
fn number_without_unit_is_error() {
    check(
        "warmup = 5",
        expect![[r#"
        w:2:10: error: invalid type: integer `5`, expected a string; durations, rates, sizes and costs are texts with a unit, like "30us", "10mbit", "64b"
    "#]],
    );
}

#[test]
fn configuration_error_has_line_of_world_file() {
    let text = "duration = \"1s\"\n[router.r]\nconfig = '''\nversion = 1\n[port.in]\ndevice = \"sim:in\"\nadress = \"x\"\n'''\n";
    let wrong = WorldPlan::parse(text, "w").unwrap_err();
    expect![[r#"
        w:7:1: error: unknown key 'adress'; did you mean 'address'?
    "#]]
    .assert_eq(&wrong.to_string());
    let text = "duration = \"1s\"\n[router.r]\nconfig = \"version = 1\"\n";
    expect![[r#"
        w:3:10: error: the text is not between ''' and '''; write ''' at the end of the line of the key, then the text, then ''' on a line of its own
    "#]].assert_eq(&WorldPlan::parse(text, "w").unwrap_err().to_string());
}

#[test]
fn source_rate_beyond_time_resolution_is_error() {
    check(
        "[[source]]\nname = \"a\"\ncard = \"in\"\nkind = \"poisson\"\nrate = \"1001mpps\"\ndestination = \"10.0.0.1\"",
        expect![[r#"
            w:6:8: error: at 1001mpps the packets are less than a nanosecond apart; write 1000mpps or less
        "#]],
    );
}
