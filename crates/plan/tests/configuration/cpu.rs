//! The table `[cpu]` and related keys: their meaning, errors and differences.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::{
    Batching, Cost, CpuSchedulerChoice, EstimatorPlan, Layout, Plan, Reservation, SleepLaw, TunePlan, diff, examine,
};
use units::{Bytes, Nanos, PacketRate, Parts, Rate};

const PORTS: &str = r#"[port.lan]
device = "packet:eth0"
address = ["192.0.2.1/24"]
[port.wan]
device = "packet:eth1"
address = ["203.0.113.2/30"]
"#;

fn source(cpu: &str, lan: &str, paths: &str) -> String {
    let ports = PORTS.replace("\"packet:eth0\"\n", &format!("\"packet:eth0\"\n{lan}"));
    format!("version = 1\n[cpu]\n{cpu}{ports}{paths}")
}

fn read(cpu: &str, lan: &str, paths: &str) -> Plan {
    let source = source(cpu, lan, paths);
    plan::check(&source, "f", &catalogue()).unwrap_or_else(|e| panic!("{}\n{source}", e.render(false)))
}

fn check(cpu: &str, lan: &str, paths: &str, expected: Expect) {
    let checked = examine(&source(cpu, lan, paths), "f", &catalogue());
    let lines: String = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect();
    expected.assert_eq(&lines);
}

fn path(keys: &str) -> String {
    format!("[[path]]\nname = \"voice\"\nmatch = \"iif lan udp dport 5060\"\n{keys}")
}

#[test]
fn missing_table_means_all_defaults() {
    let plan = plan::check(&format!("version = 1\n{PORTS}"), "f", &catalogue()).unwrap();
    assert_eq!(plan.cpu, plan::CpuPlan::default());
    assert_eq!(plan, read("", "", ""));
    let defaults = "layout = 3\nscheduler = \"wf2q+\"\ninput = \"timeslice(slice=0.1ms, packets=256)\"\nmax_wait = \"none\"\n\
                    work_conserving = true\nbalance = []\n";
    assert_eq!(plan, read(defaults, "congestion = \"drop\"\n", ""));
    assert_eq!(plan.ports[0].cpu, plan::PortCpu::default());
}

#[test]
fn whole_table_is_parsed() {
    let source = include_str!("../../corpus/good-cpu.toml");
    let plan = plan::check(source, "f", &catalogue()).unwrap();
    let cpu = &plan.cpu;
    assert_eq!((cpu.layout, cpu.scheduler, cpu.balance), (Layout::Three, CpuSchedulerChoice::default(), [5, 1, 5]));
    assert_eq!(cpu.forwarding, Batching::Throttle { overhead: Parts::percent(10), slice: Nanos::micros(30) });
    assert_eq!(
        (cpu.input_limit(), cpu.output.packets(), cpu.switch_cost),
        (Some(16), Some(16), Some(Nanos::micros(3)))
    );
    assert_eq!((cpu.tune, cpu.max_wait, cpu.work_conserving), (Some(TunePlan::default()), None, false));
    let [dmz, lan, wan] = &plan.ports[..] else { panic!("three ports") };
    assert_eq!(lan.cpu.line_rate, Some(PacketRate::kpps(140)));
    let estimator = lan.cpu.estimator.unwrap();
    assert_eq!((estimator.law, estimator.stay), (SleepLaw::Add(Nanos::micros(10)), false));
    assert_eq!(estimator.sleep_max, Some(Nanos::micros(343)));
    assert_eq!((wan.cpu.estimator, dmz.cpu.estimator), (None, Some(EstimatorPlan::default())));
    let [voice, active, rest] = &plan.paths[..] else { panic!("three paths") };
    let promised = Reservation {
        packets: PacketRate::pps(6250),
        size: Some(Bytes::new(200)),
        rate: Some(Rate::mbit(10)),
        delay: Some(Nanos::millis(2)),
    };
    assert_eq!(voice.cpu.reservation, Some(promised));
    assert_eq!(voice.cpu.cost, Some(Cost { packet: Nanos::micros(1), kilobyte: Nanos::micros(2) }));
    assert_eq!(voice.cpu.cost.unwrap().of(voice.packet_size()), Nanos::new(1_400));
    assert_eq!((voice.input_queue, voice.output_queue, rest.input_queue), (128, 1024, 128));
    assert_eq!((active.cpu.share, active.cpu.max_wait), (Some(Parts::percent(3)), Some(Nanos::MAX)));
}

#[test]
fn reservation_enables_an_estimator_unless_it_is_configured() {
    let reserved = path("reserve = \"49kpps\"\n");
    let estimators = |plan: &Plan| [plan.ports[0].cpu.estimator, plan.ports[1].cpu.estimator];
    assert_eq!(estimators(&read("", "", &reserved)), [Some(EstimatorPlan::default()), None]);
    assert_eq!(estimators(&read("", "estimator = false\n", &reserved)), [None, None]);
    let anywhere = reserved.replace("iif lan ", "");
    assert_eq!(estimators(&read("", "", &anywhere)), [Some(EstimatorPlan::default()); 2]);
    let small = read("input = \"simple(packets=8)\"\n", "", &reserved).ports[0].cpu.estimator.unwrap();
    assert_eq!((small.low, small.high), (4, 6));
    assert_eq!(estimators(&read("input = \"none\"\n", "", &reserved)), [None, None]);
}

#[test]
fn estimator_range_is_below_the_batch() {
    let range = |batch| EstimatorPlan::range(batch);
    assert_eq!((range(None), range(Some(256)), range(Some(16))), (Some((8, 12)), Some((8, 12)), Some((8, 12))));
    assert_eq!(range(Some(1)), None);
    for batch in 2..=300 {
        let (low, high) = range(Some(batch)).unwrap();
        assert!(0 < low && low <= high && high < batch, "{batch}: {low} to {high}");
    }
}

#[test]
fn all_invalid_values_are_reported_at_once() {
    let checked = examine(include_str!("../../corpus/bad-cpu.toml"), "f", &catalogue());
    let lines: String = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect();
    expect![[r#"
        cpu.layout| f:3:10: error: 0 is out of range; give 1 to 3; the default is 3
        cpu.scheduler| f:4:13: error: 'wfq' is not a value of 'scheduler'; did you mean 'sfq'?
        cpu.input| f:5:25: error: packets=0 is below the minimum, 1; give 1 to 65535; the default is 16
        cpu.forwarding| f:6:33: error: overhead=0% is below the minimum, 0.0001%; give 0.0001% to 100%; the default is 10%
        cpu.output| f:7:29: error: packets=1000000000 is above the maximum, 65535; give 1 to 65535; the default is 16
        cpu.switch_cost| f:8:15: error: '-1us' is no time; write a number and a unit, like '5ms'
        cpu.max_wait| f:9:12: error: 'never' is no time; write a number and a unit, like '5ms'
        cpu.tune| f:10:8: error: least is 40%, but most is only 30%; exchange them
        cpu.tune| f:10:8: warning: tune has no effect: forwarding is timeslice(packets=256,slice=100us), not throttle; write forwarding = "throttle(overhead=10%, slice=30us)", or leave tune out
        cpu.tune.period| f:10:48: error: 0ns is out of range; give 100us to 10s
        cpu.balance| f:11:11: error: 'balance' is a list of whole numbers, each at most 1000000; write 2 to 3 of them: balance = [5, 1, 5]
        port.lan.share| f:14:9: error: 120% is out of range; give 0.0001% to 100%
        port.lan.line_rate| f:15:13: error: 0pps is out of range; give 1pps to 1000mpps
        port.lan.congestion| f:16:14: error: 'stop' is not a value of 'congestion'; use one of drop, throttle
        port.lan.estimator| f:17:21: error: low is 20, above high, 12; write low below high
        port.lan.estimator.weight| f:17:45: error: 0% is out of range; give 1% to 100%
        port.lan.estimator.law| f:17:57: error: the factor '1' is out of range; write a factor above 1 and up to 16, like 'x1.25', or a step, like '+10us'
        port.lan.estimator| f:17:94: error: sleep_max is 1us, less than sleep_min, 1ms; exchange them
        path[0].reserve| f:21:11: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'
        path[0].packet_size| f:22:15: error: 1b is out of range; give 20b to 65549b
        path[0].cost| f:23:8: error: '1us + 2us' is no cost; write '6us', '1us + 2ns/b' or '2ns/b'
        path[0].cpu_limit| f:24:13: error: 0ns is out of range; give 1ns to 1s
        path[1].match| f:27:9: warning: no packet can match this path: 'a' before it matches them all; move it before 'a', or narrow that match
        path[1].max_delay| f:28:13: error: the key needs a reservation, but this path has none; add the rate: reserve = "49kpps"
    "#]].assert_eq(&lines);
}

#[test]
fn slice_must_fit_the_overhead() {
    let throttle = |slice| format!("switch_cost = \"3us\"\nforwarding = \"throttle(overhead=10%, slice={slice})\"\n");
    check(&throttle("30us"), "", "", expect![""]);
    check(
        &throttle("29us"),
        "",
        "",
        expect![[r#"
        cpu.forwarding| f:4:14: error: a slice of 29us is too short: with a switch of 3us, an overhead of 10% requires 30 us; give slice=30us or more, or a larger overhead
    "#]],
    );
    check(&format!("{}tune = {{}}\n", throttle("29us")), "", "", expect![""]);
}

#[test]
fn estimator_that_never_shrinks_its_sleep_is_refused() {
    let input = "input = \"simple(packets=16)\"\n";
    check(input, "estimator = { high = 15 }\n", "", expect![""]);
    check(
        input,
        "estimator = { high = 16 }\n",
        "",
        expect![[r#"
        port.lan.estimator| f:6:22: error: high is 16, but a run has at most 16 packets, so the average never exceeds it; write high below 16, or raise the batch of [cpu] input
    "#]],
    );
    check(
        "input = \"none\"\n",
        "estimator = true\n",
        "",
        expect![[r#"
        port.lan.estimator| f:6:13: error: an estimator needs batches of more than one packet; raise the batch of [cpu] input, or write estimator = false
    "#]],
    );
}

#[test]
fn settings_that_break_reservations_get_a_warning() {
    let reserved = path("reserve = \"49kpps\"\n");
    check(
        "",
        "congestion = \"throttle\"\n",
        &reserved,
        expect![[r#"
        port.lan.congestion| f:5:14: warning: any path that is full stops the packets of 'voice', which has a reservation, as well; use "drop" on ports that a path with a reservation may come in by
    "#]],
    );
    check("", "congestion = \"throttle\"\n", &reserved.replace("iif lan", "iif wan"), expect![""]);
    let unkept = "layout = 1\nbest_effort = \"single\"\nscheduler = \"rr\"\nreceive = \"interrupt\"\ntune = {}\n";
    check(
        unkept,
        "estimator = true\n",
        &reserved,
        expect![[r#"
        cpu.layout| f:3:10: warning: 'voice' has a reservation, but no task of its own; use layout 2 or 3
        cpu.best_effort| f:4:15: warning: 'voice' has a reservation, but no task of its own; use another grouping; this one is for comparison only
        cpu.scheduler| f:5:13: warning: 'voice' has a reservation, which this scheduler does not respect; use a scheduler that respects shares, like wf2q+
        cpu.receive| f:6:11: warning: 'voice' has a reservation, which receiving before all other work can break; use "polling"; "interrupt" is for comparison only
        cpu.tune| f:7:8: warning: tune has no effect: forwarding is timeslice(packets=256,slice=100us), not throttle; write forwarding = "throttle(overhead=10%, slice=30us)", or leave tune out
        port.lan.estimator| f:10:13: warning: the estimator has no effect with receive = "interrupt"; leave it out, or use receive = "polling"
    "#]],
    );
}

#[test]
fn path_that_waits_for_more_than_its_queue_holds_gets_a_warning() {
    let cpu = |rest| format!("switch_cost = \"3us\"\nforwarding = \"throttle(overhead=2%, slice=150us)\"\n{rest}");
    let slow = path("cost = \"3us\"\nqueue = 100\n");
    check(&cpu(""), "", &slow, expect![""]);
    let fast = path("cost = \"1us\"\nqueue = 128\n");
    check(
        &cpu(""),
        "",
        &fast,
        expect![[r#"
            path[0].queue| f:15:9: warning: at an overhead of 2% the path's task waits for 150 packets, more than half of its queue of 128; give it a queue of 300 or more, or a max_wait
        "#]],
    );
    check(
        &cpu("strict = true\n"),
        "",
        &fast,
        expect![[r#"
            path[0].queue| f:16:9: warning: the path's task waits for 150 packets, but its queue holds 128: it never runs; give it a queue of 300 or more, or a max_wait
        "#]],
    );
}

#[test]
fn reserved_path_has_a_class_above_best_effort_by_default() {
    let class = |keys: &str| read("admission = \"warn\"\n", "", &path(keys)).paths[0].class;
    assert_eq!([class(""), class("reserve = \"1kpps\"\n"), class("cpu_share = \"1%\"\n")], [0, 1, 0]);
    assert_eq!([class("class = 9\n"), class("reserve = \"1kpps\"\nclass = 0\n")], [9, 0]);
}

#[test]
fn shares_add_up_to_one_at_most_and_need_explicit_shares() {
    let two = |a, b| format!("{}{}", path(a), path(b).replace("voice", "other").replace("5060", "5061"));
    check("", "", &two("cpu_share = \"60%\"\n", "cpu_share = \"40%\"\n"), expect![""]);
    check(
        "",
        "",
        &two("cpu_share = \"60%\"\n", "cpu_share = \"40.0001%\"\n"),
        expect![[r#"
            path[1].share| f:13:1: error: with this share the total is 100.0001% of the processor; give less
        "#]],
    );
    check(
        "",
        "share = \"20%\"\n",
        "",
        expect![[r#"
        port.lan.share| f:5:9: error: the share has no effect: input_share is auto; remove it, or write input_share = "explicit" in [cpu]
    "#]],
    );
    check(
        "input_share = \"explicit\"\n",
        "share = \"20%\"\n",
        "",
        expect![[r#"
        port.wan.share| f:9:10: error: input_share is explicit, but 'wan' has no share; add share = "20%" to the port
    "#]],
    );
}

#[test]
fn invalid_reservations_have_a_reason() {
    for (keys, expected) in [
        (
            "reserve = \"10mbit\"\n",
            expect![[r#"
                path[0].reserve| f:12:11: error: the processor cost of a rate in bits depends on the packet size; add packet_size = "200b", or write the rate in packets: '49kpps'
            "#]],
        ),
        (
            "reserve = \"10mbps\"\npacket_size = \"64b\"\n",
            expect![[r#"
                path[0].reserve| f:12:11: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'
            "#]],
        ),
        (
            "reserve = \"0pps\"\n",
            expect![[r#"
                path[0].reserve| f:12:11: error: the reserved rate is zero; write packets a second, like '49kpps', or bits with packet_size, like '10mbit'
            "#]],
        ),
        (
            "reserve = \"49k\"\n",
            expect![[r#"
            path[0].reserve| f:12:11: error: '49k' is no rate; write packets a second, like '49kpps', or bits with packet_size, like '10mbit'
        "#]],
        ),
        (
            "reserve = \"2000mpps\"\n",
            expect![[r#"
                path[0].reserve| f:12:11: error: 2000mpps is more than any link carries; write packets a second, like '49kpps', or bits with packet_size, like '10mbit'
            "#]],
        ),
        (
            "packet_size = \"64b\"\nmax_delay = \"1ms\"\n",
            expect![[r#"
                path[0].packet_size| f:12:15: error: the key needs a reservation, but this path has none; add the rate: reserve = "49kpps"
                path[0].max_delay| f:13:13: error: the key needs a reservation, but this path has none; add the rate: reserve = "49kpps"
            "#]],
        ),
        (
            "cost = \"60us\"\ncpu_limit = \"50us\"\n",
            expect![[r#"
                path[0].cpu_limit| f:13:13: error: a packet of 64b costs 60us, more than the limit, and would be dropped; give a limit well above the cost
            "#]],
        ),
        (
            "functions = [\"nat\", \"ip\"]\npreemptible = true\n",
            expect![[r#"
                path| f:1:1: error: path 'voice' has the function 'nat', but there is no [nat]; add [nat] with outside = "wan", the outside interface
                path[0].preemptible| f:13:15: error: a preempted 'nat' would lock the connections for all other paths; use 'nat' on a path that is not preemptible
            "#]],
        ),
        (
            "functions = [\"spin(cost=3600s)\", \"ip\"]\n",
            expect![[r#"
                path[0].functions| f:12:13: error: a packet of 3600s blocks all other tasks of the worker; add preemptible = true, or a cost of at most 10ms
            "#]],
        ),
        ("functions = [\"spin(cost=3600s)\", \"ip\"]\npreemptible = true\n", expect![""]),
    ] {
        check("", "", &path(keys), expected);
    }
}

/// Every key by itself, and the line of its change.
#[test]
fn every_changed_setting_is_reported_and_none_needs_a_restart() {
    let old = read("", "", &path("reserve = \"49kpps\"\n"));
    let mut lines = String::new();
    let mut compare = |cpu: &str, lan: &str, keys: &str| {
        let changes = diff(&old, &read(cpu, lan, &path(&format!("reserve = \"49kpps\"\n{keys}"))));
        assert_eq!(changes.len(), 1, "{cpu}{lan}{keys}: {changes:?}");
        assert!(!changes[0].restart_needed());
        lines += &format!("{}\n", changes[0]);
    };
    for cpu in [
        "layout = 2",
        "scheduler = \"drr\"",
        "receive = \"polling\"\ninput = \"simple\"",
        "forwarding = \"throttle\"",
        "output = \"none\"",
        "vector = 4",
        "charge = \"outgoing\"",
        "switch_cost = \"1.5us\"",
        "strict = true",
        "work_conserving = false",
        "max_wait = \"1ms\"",
        "tune = {}",
        "input_share = \"line_speed\"",
        "balance = [1, 1]",
        "best_effort = \"aggregate\"",
        "admission = \"warn\"",
        "classify_budget = \"2us\"",
        "inline = true",
    ] {
        compare(&format!("{cpu}\n"), "", "");
    }
    for lan in ["line_rate = \"140kpps\"", "congestion = \"throttle\"", "estimator = { law = \"x2\" }"] {
        compare("", &format!("{lan}\n"), "");
    }
    let keys =
        ["packet_size = \"64b\"", "max_delay = \"2ms\"", "cpu_share = \"5%\"", "max_wait = \"none\"", "cost = \"6us\""];
    for keys in keys.into_iter().chain([
        "cpu_limit = \"50us\"",
        "preemptible = true",
        "input_queue = 128",
        "output_queue = 128",
        "queue = 99",
    ]) {
        compare("", "", &format!("{keys}\n"));
    }
    expect![[r#"
        ~ cpu: layout 3 -> 2
        ~ cpu: scheduler wf2q+ -> drr
        ~ cpu: input timeslice(packets=256,slice=100us) -> simple(packets=16)
        ~ cpu: forwarding timeslice(packets=256,slice=100us) -> throttle(overhead=10%,slice=30us)
        ~ cpu: output timeslice(packets=256,slice=100us) -> none
        ~ cpu: vector none -> 4
        ~ cpu: charge none -> outgoing
        ~ cpu: switch_cost none -> 1500ns
        ~ cpu: strict false -> true
        ~ cpu: work_conserving true -> false
        ~ cpu: max_wait none -> 1ms
        ~ cpu: tune none -> period 10ms least 2% most 30% margin 10%
        ~ cpu: input_share auto -> line_speed
        ~ cpu: balance 0:0:0 -> 1:1:0
        ~ cpu: best_effort per_function -> aggregate
        ~ cpu: admission refuse -> warn
        ~ cpu: classify_budget none -> 2us
        ~ cpu: inline false -> true
        ~ port lan: line_rate none -> 140kpps
        ~ port lan: congestion drop -> throttle
        ~ port lan: estimator weight 25% low 8 high 12 sleep_min 0ns sleep_max auto law x1.25 fast_attack true stay true settle true -> weight 25% low 8 high 12 sleep_min 0ns sleep_max auto law x2 fast_attack true stay true settle true
        ~ path voice: packet_size none -> 64b
        ~ path voice: max_delay none -> 2ms
        ~ path voice: cpu_share none -> 5%
        ~ path voice: max_wait as [cpu] -> none
        ~ path voice: cost none -> 6us
        ~ path voice: cpu_limit none -> 50us
        ~ path voice: preemptible false -> true
        ~ path voice: queue 512 -> 128/512
        ~ path voice: queue 512 -> 512/128
        ~ path voice: queue 512 -> 99
    "#]].assert_eq(&lines);
}

#[test]
fn new_path_is_reported_with_its_reservation() {
    let (old, new) = (
        read("", "estimator = false\n", ""),
        read("", "estimator = false\n", &path("reserve = \"10mbit\"\npacket_size = \"200b\"\n")),
    );
    expect![
        "+ path voice: match iif lan udp dport 5060 functions ip queue 512 class 1 reserve 10mbit packet_size 200b"
    ]
    .assert_eq(&diff(&old, &new).last().expect("the path").to_string());
    assert_eq!(diff(&old, &new)[0].to_string(), "~ port wan: scheme fifo -> priority{fifo}", "and it gets a class");
}

#[test]
fn settings_are_printed_as_written() {
    let plan = read("tune = {}\n", "", &path("reserve = \"49kpps\"\nmax_wait = \"none\"\ncost = \"1us + 0.5ns/b\"\n"));
    expect![[r#"{"layout":3,"scheduler":"wf2q+","flow_scheduler":"spfq","receive":"polling","input":"timeslice(packets=256,slice=100us)","forwarding":"timeslice(packets=256,slice=100us)","output":"timeslice(packets=256,slice=100us)","vector":null,"charge":"none","switch_cost":null,"strict":false,"work_conserving":true,"max_wait":null,"tune":{"period":"10ms","least":"2%","most":"30%","margin":"10%"},"input_share":"auto","balance":[0,0,0],"best_effort":"per_function","admission":"refuse","classify_budget":null,"inline":false}"#]].assert_eq(&serde_json::to_string(&plan.cpu).unwrap());
    expect![[r#"{"share":null,"line_rate":null,"congestion":"drop","estimator":{"weight":"25%","low":8,"high":12,"sleep_min":"0ns","sleep_max":null,"law":"x1.25","fast_attack":true,"stay":true,"settle":true},"greedy":false}"#]].assert_eq(&serde_json::to_string(&plan.ports[0].cpu).unwrap());
    expect![[r#"{"reservation":{"packets":"49kpps","size":null,"rate":null,"delay":null},"share":null,"max_wait":"none","cost":"1us + 0.5ns/b","limit":null,"preemptible":false,"reservations":false,"interleave":false}"#]].assert_eq(&serde_json::to_string(&plan.paths[0].cpu).unwrap());
}
