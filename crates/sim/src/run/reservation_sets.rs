//! Random sets of reserved flows under the worst traffic that they allow: the router keeps each flow that it admits. A refused flow that is admitted
//! nevertheless (`admission = "warn"`) breaks a promise, its own or that of another flow, in sets of flows whose long-term rates send their bursts in time.

#![allow(clippy::print_stdout)]

use super::{RunningWorld, test_router};
use crate::random::RandomStream;
use crate::{NoCaptures, WorldPlan};
use plan::{FlowChange, flow_batch};
use plane::{FlowRefusal, FlowsChanged};
use std::collections::BTreeMap;
use units::Nanos;

/// The number of sets; an environment variable changes it.
const SETS: u64 = 6;
const SETS_VARIABLE: &str = "SWITCHPATH_SETS";
/// The highest rate of a flow, in packets a second.
const HIGHEST_RATE: u64 = 2500;
/// The packets a second of all bursts together: the line has 120,000, and others use the rest.
const BURSTS: u64 = 70_000;
/// The time between two bursts of a fast flow, in microseconds; that of a slow one is a multiple. So all bursts begin at the same instants.
const PERIOD: u64 = 250_137;
/// When flows begin to send, how long they do with and without one that does not fit, and how much longer the world lasts, in microseconds. A demand that
/// exceeds a resource by a hundredth makes packets late by 10 ms a second.
const BEGIN: u64 = 60_000;
const KEPT: u64 = 400_000;
const FORCED: u64 = 1_000_000;
const REST: u64 = 80_000;

/// A flow as it asks, and the line that reserves it.
struct AskedFlow {
    /// Packets a second, and of a burst.
    rate: u64,
    burst: u64,
    packet: u64,
    delay: Option<u64>,
    number: usize,
}

impl AskedFlow {
    /// A flow that sends its burst within half of its delay at its rate, or one of any rate, burst and delay.
    fn random(number: usize, is_steady: bool, chance: &mut RandomStream) -> AskedFlow {
        let packet = [64, 200, 500, 1000, 1500][chance.below(5) as usize];
        let burst = 2 + chance.below(8);
        if is_steady {
            let rate = HIGHEST_RATE >> chance.below(4);
            let delay = (chance.below(3) > 0).then(|| 2000 * (burst + 3) / rate + 6 + chance.below(60));
            return AskedFlow { rate, burst, packet, delay, number };
        }
        let bits = 200_000 << chance.below(9);
        let rate = (bits / (packet * 8)).clamp(20, HIGHEST_RATE);
        let delay = (chance.below(3) > 0).then(|| 6 + chance.below(60));
        AskedFlow { rate, burst, packet, delay, number }
    }

    fn line(&self) -> String {
        let AskedFlow { rate, burst, packet, number, .. } = self;
        let delay = self.delay.map_or(String::new(), |delay| format!(" delay {delay}ms"));
        format!(
            "add f{number} rate {}bit packet {packet}b burst {}b{delay} path work out out match iif in ip daddr 10.0.0.1 udp dport {}\n",
            rate * packet * 8,
            burst * packet,
            7000 + number
        )
    }

    /// Its sources, among `flows`. It sends its burst at once, then packets at its rate, and then none until its burst is full again.
    fn sources(&self, flows: usize, stop: u64) -> String {
        let AskedFlow { rate, burst, packet, number, .. } = self;
        let refill = (burst + 1) * 1_000_000 / rate + 1;
        let period = refill.div_ceil(PERIOD) * PERIOD;
        let source = |name: &str, rate: u64, (start, on, period): (u64, u64, u64)| {
            format!(
                "[[source]]\nname = \"{name}{number}\"\ncard = \"in\"\nkind = \"onoff\"\nrate = \"{rate}pps\"\non = \"{on}us\"\n\
                 off = \"{}us\"\nstart = \"{start}us\"\nstop = \"{stop}us\"\nsize = \"{}b\"\ndestination = \"10.0.0.1\"\nports = [1000, {}]\n",
                period - on,
                packet + 4,
                7000 + number
            )
        };
        let at_once = BURSTS / flows as u64;
        let bursts = source("burst", at_once, (BEGIN, (2 * burst - 1) * 500_000 / at_once, period));
        match period - refill {
            0 => bursts,
            on => bursts + &source("steady", *rate, (BEGIN + 1_000_000 / rate, on, period)),
        }
    }
}

/// The traffic beside that of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Others {
    /// More large packets than the link carries, and more work than the processor has, by the port of the flows.
    Flood,
    /// Only work, by the other port: the input task of the flows sleeps as long as it may.
    Quiet,
}

/// A router for sets: the cost of its functions, and whether they are interleaved.
#[derive(Clone, Copy)]
struct Setting {
    cost: u64,
    interleave: bool,
    seed: u64,
}

const FLOOD: &str = r#"
[[source]]
name = "bulk"
card = "in"
kind = "constant"
rate = "9kpps"
size = "1518b"
destination = "10.0.0.1"
ports = [1000, 9]
[[source]]
name = "work"
card = "in"
kind = "poisson"
rate = "30kpps"
size = "300b"
destination = "10.0.0.1"
ports = [1000, 10]
"#;

fn world(flows: &[&AskedFlow], setting: Setting, (others, admission): (Others, &str)) -> WorldPlan {
    let Setting { cost, interleave, seed } = setting;
    let flood = match others {
        Others::Flood => FLOOD,
        Others::Quiet => "",
    };
    let stop = BEGIN + if admission == "warn" { FORCED } else { KEPT };
    let sources: String = flows.iter().map(|flow| flow.sources(flows.len(), stop)).collect();
    let text = format!(
        r#"
duration = "{}us"
warmup = "50ms"
seed = {seed}
[[link]]
between = ["out", "s"]
rate = "100mbit"
{sources}
{flood}[[source]]
name = "back"
card = "out"
kind = "poisson"
rate = "25kpps"
size = "300b"
destination = "192.0.2.9"
ports = [1000, 10]
[[sink]]
name = "s"
[card.in]
ring = 256
[router.r.cost]
switch = "1us"
poll = "300ns"
input = "1500ns"
output = "1500ns"
forwarding = "500ns"
[router.r]
config = '''
version = 1
[cpu]
admission = "{admission}"
input = "timeslice(packets=32, slice=50us)"
forwarding = "timeslice(packets=32, slice=50us)"
output = "timeslice(packets=32, slice=50us)"
switch_cost = "1us"
{}[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:03"
port = "in"
[[path]]
name = "work"
reservations = true
interleave = {}
functions = ["spin(cost={cost}us)", "ip"]
[[path]]
name = "busy"
match = "udp dport 10"
functions = ["spin(cost=45us)", "ip"]
'''
"#,
        stop + REST,
        test_router::ports("line_rate = \"120kpps\"", "scheme = \"share(rate=95mbit)\"\nline_rate = \"30kpps\""),
        interleave
    );
    test_router::world(&text)
}

fn reserve(live: &mut RunningWorld<'_>, flow: &AskedFlow) -> Result<FlowsChanged, FlowRefusal> {
    let router = &mut live.nodes[0].router;
    let plan = router.plan().expect("it runs").clone();
    let line = flow.line();
    let batch = flow_batch(&line, "set", &plan).unwrap_or_else(|wrong| panic!("{wrong}"));
    let changes: Vec<FlowChange> = batch.changes.iter().map(|(_, change)| change.clone()).collect();
    router.edit_flows(&changes, false)
}

/// The packets of a flow that were lost, and its longest delay.
type Outcome = (f64, Nanos);

/// Runs a world with its reservations. Returns the outcome of each flow, and the flows that are overbooked.
fn outcomes(flows: &[&AskedFlow], setting: Setting, kind: (Others, &str)) -> (Vec<Outcome>, Vec<usize>) {
    let world = world(flows, setting, kind);
    let mut live = start(&world);
    let mut overbooked = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let changed = reserve(&mut live, flow).unwrap_or_else(|short| panic!("{short:?}"));
        overbooked.extend(changed.overbooked.first().map(|_| number));
    }
    let cpu = live.nodes[0].plan.plan.cpu.clone();
    live.cores.iter_mut().for_each(|core| core.expect_shares(&cpu));
    live.run(&mut |_| {}).unwrap_or_else(|wrong| panic!("{wrong}"));
    let measured = live.finish().unwrap_or_else(|wrong| panic!("{wrong}"));
    let outcome = |flow: &&AskedFlow| {
        let get =
            |source: &str, what: &str| measured.get(&format!("source.{source}{}.{what}", flow.number)).unwrap_or(0.0);
        let sum = |what: &str| get("burst", what) + get("steady", what);
        assert!(sum("sent") > 0.0, "{}", flow.line());
        let longest = get("burst", "wait_max_us").max(get("steady", "wait_max_us"));
        (sum("lost"), Nanos::new((longest * 1000.0) as u64))
    };
    (flows.iter().map(outcome).collect(), overbooked)
}

/// The refused flows of a resource, how many of them broke a promise, and how many one of another flow.
#[derive(Default, Debug)]
struct Refused {
    flows: usize,
    broke: usize,
    broke_others: usize,
}

/// The result of sets.
#[derive(Default, Debug)]
struct SetResult {
    admitted: usize,
    /// By the resource that was short.
    refused: BTreeMap<&'static str, Refused>,
}

fn start(world: &WorldPlan) -> RunningWorld<'_> {
    RunningWorld::new(world, &mut NoCaptures).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// The admitted flows of a set with their bounds, and the refused ones with the resource that was short.
type Sorted<'f> = (Vec<(&'f AskedFlow, Nanos)>, Vec<(&'f AskedFlow, &'static str)>);

fn admit(flows: &[AskedFlow], setting: Setting) -> Sorted<'_> {
    let world = world(&[], setting, (Others::Quiet, "refuse"));
    let mut live = start(&world);
    let (mut admitted, mut refused) = (Vec::new(), Vec::new());
    for flow in flows {
        match reserve(&mut live, flow) {
            Ok(changed) => admitted.push((flow, changed.added[0].2.bound)),
            Err(short) => refused.push((flow, short.resource.unwrap_or_else(|| panic!("{short:?}")))),
        }
    }
    (admitted, refused)
}

/// Runs a set: once with its admitted flows, and once for each refused one with it.
fn run_set(seed: u64, is_steady: bool, all: &mut SetResult) {
    let mut chance = RandomStream::new(seed, "set of reservations");
    let cost = [1, 5, 20, 60][chance.below(4) as usize];
    let setting = Setting { cost, interleave: chance.below(2) == 0, seed };
    // So many that some sets do not fit.
    let (least, more) = if is_steady { (8, 17) } else { (2, 12) };
    let count = least + chance.below(more) as usize;
    let flows: Vec<AskedFlow> = (0..count).map(|number| AskedFlow::random(number, is_steady, &mut chance)).collect();
    let (admitted, refused) = admit(&flows, setting);
    let mut with: Vec<&AskedFlow> = admitted.iter().map(|(flow, _)| *flow).collect();
    all.admitted += admitted.len();
    for others in [Others::Flood, Others::Quiet] {
        for ((flow, bound), (lost, longest)) in admitted.iter().zip(outcomes(&with, setting, (others, "refuse")).0) {
            assert!(
                flow.delay.is_none_or(|asked| *bound <= Nanos::millis(asked)),
                "set {seed}: {bound} {}",
                flow.line()
            );
            assert!(
                lost == 0.0 && longest <= *bound,
                "set {seed} of {cost} us, {others:?}: lost {lost}, {longest} of {bound}: {}",
                flow.line()
            );
        }
    }
    for (flow, resource) in refused {
        with.push(flow);
        let (mut broke, mut broke_others) = (false, false);
        for others in [Others::Flood, Others::Quiet] {
            if broke || broke_others {
                break;
            }
            let (outcomes, overbooked) = outcomes(&with, setting, (others, "warn"));
            assert_eq!(overbooked, [with.len() - 1], "set {seed}: only the last does not fit");
            let late = |longest: Nanos, bound: Option<Nanos>| bound.is_some_and(|bound| longest > bound);
            let (own, rest) = outcomes.split_last().expect("there is one flow");
            broke |= own.0 > 0.0 || late(own.1, flow.delay.map(Nanos::millis));
            let of_others =
                |((lost, longest), (_, bound)): (&Outcome, &(_, Nanos))| *lost > 0.0 || late(*longest, Some(*bound));
            broke_others |= rest.iter().zip(&admitted).any(of_others);
        }
        let counts = all.refused.entry(resource).or_default();
        counts.flows += 1;
        counts.broke += usize::from(broke || broke_others);
        counts.broke_others += usize::from(broke_others);
        with.pop();
    }
}

#[test]
fn admitted_flows_are_kept_and_refused_ones_would_not_be() {
    let sets = std::env::var(SETS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(SETS);
    let [mut steady, mut bursty] = [SetResult::default(), SetResult::default()];
    for seed in 0..sets {
        let is_steady = seed.is_multiple_of(2);
        run_set(seed, is_steady, if is_steady { &mut steady } else { &mut bursty });
    }
    println!("{sets} sets, of steady flows: {steady:?}\nof bursty flows: {bursty:?}");
    let refused: usize = steady.refused.values().map(|refused| refused.flows).sum();
    let broke: usize = steady.refused.values().map(|refused| refused.broke).sum();
    // A bursty flow reserves the rate at which its burst leaves in time. These rates must fit, so that each keeps its own whatever the others send. But other
    // bursts at the same instant are not always so large that the last of them is late: of these flows no fraction is asserted.
    assert!(steady.admitted > 0 && bursty.admitted > 0);
    assert!(broke * 10 >= refused * 9, "{broke} of {refused} refused flows of steady sets would break a promise");
}
