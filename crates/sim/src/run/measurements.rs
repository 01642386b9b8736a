//! The result of a run.

use crate::cost::PacketCost;
use crate::describe::{WorldEvent, WorldPlan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The result of a run: named values, time series, and all its inputs.
///
/// Times in series are in seconds, and a point stands for the interval that ends there. Values cover the measured time, from `warmup` to the end,
/// unless the table says otherwise. With several routers, names of one of them begin with its name: `r.path.b.forwarded`. Values of worlds of hosts
/// are listed in docs/operate/simulation.md.
///
/// | name | meaning |
/// |---|---|
/// | `source.S.sent`, `sent_pps`, `sent_bps` | packets that a source sent in the measured time |
/// | `source.S.received`, `received_pps`, `delivery` | those of them that reached a sink at any time; their part of all |
/// | `source.S.lost` | those of them that were lost, for any of the next reasons |
/// | `source.S.lost.ring`, `lost.link`, `lost.down`, `lost.nowhere` | lost at a full receive ring, on a link, on a down link, behind a card without link |
/// | `source.S.lost.REASON`, `consumed` | dropped by a router for a reason; consumed by a router |
/// | `source.S.under_way` | packets without a fate yet |
/// | `source.S.latency_{mean,min,p50,p90,p99,p999,max}_us` | from the source to a sink |
/// | `source.S.wait_{mean,...}_us` | from arrival at the last router's card to departure |
/// | `sink.K.received`, `received_pps`, `received_bps`, `latency_...` | packets that reached a sink in the measured time |
/// | `card.C.received`, `ring_dropped`, `ring_max`, `transmitted` | packets of a card; `ring_max` since the start |
/// | `card.C.transmitted_bps`, `link_lost`, `down_lost` | bit rate of a card, and packets lost on its link |
/// | `path.P.entered`, `forwarded`, `forwarded_pps`, `dropped`, `queue` | packets of a path of a router; `queue` at the end |
/// | `path.P.latency_{mean,p50,p99,p999,max}_us` | from the card to transmission; quantiles are at most a sixteenth too high, `max` is since the start |
/// | `path.P.wait_before_...`, `wait_behind_...` | the parts of that latency before and after the functions |
/// | `path.P.late` | packets whose latency exceeded the promise of the path |
/// | `path.P.queue_max` | the most packets that waited for the functions at one port of one core, since the start |
/// | `path.P.queue_mean` | mean of these packets, sampled whenever the task starts on a vector |
/// | `task.T.runs`, `packets`, `used`, `mean_batch`, `polls` | a task `input.PORT`, `forwarding.PATH` or `output.PORT`; `used` as a part of the cores; empty polls |
/// | `task.T.share`, `share_received` | its share of a core; its part of the time that all tasks used |
/// | `task.input.P.over_budget` | packets whose reception and classification exceeded `classify_budget` |
/// | `task.T.threshold`, `max_wait_us` | the throttle's B and D at the end |
/// | `task.T.timeouts`, `harvested` | runs triggered by D, and runs triggered by an idle core |
/// | `task.T.idle`, `eligible`, `active`, `running` | the part of the time in each state |
/// | `task.T.active_max_us` | the longest time that it was active before it ran, since the start |
/// | `task.T.behind_max_us` | for a path: the largest lag of its service behind its share while backlogged, since the start |
/// | `task.T.behind_bound_us` | the bound of that: its longest run plus the longest of another task (SFQ, stride: of all others) |
/// | `task.T.cost_mean_us`, `cost_deviation_us`, `estimator.average`, `estimator.sleep_us` | the router's estimates at the end |
/// | `state.STORE.executed`, `dropped`, `aborted`, `created` | instructions on a store (a port or `central`): executed, dropped the packet, aborted; entries created |
/// | `state.STORE.overloaded` | instructions skipped because the worker was overloaded |
/// | `state.STORE.live`, `high_water`, `lag_us` | live entries at the end, the most since the start, the last delay of freeing an expired entry |
/// | `state.aborted.REASON`, `state.handed` | in all stores; packets handed to the worker that owns their state |
/// | `slice.S.received_packets`, `forwarded_packets`, ... | the counters of a slice (docs/operate/slices.md) |
/// | `slice.S.forwarded_pps`, `exceptions.CODE` | packets that its queues got per second; packets that its slow path has read |
/// | `slice.S.queue.N.sent`, `sent_pps`, `dropped`, `waiting` | packets of its queue N; `waiting` at the end |
/// | `drop.REASON` | packets a router dropped |
/// | `cpu.idle`, `useful`, `polling`, `switching` | parts of the cores' time |
/// | `cpu.efficiency`, `cpu.efficiency_literal` | work on packets as a part of all time except idle time; the second counts empty polls as work |
/// | `cpu.dispatches`, `polls`, `mean_batch` | dispatches and empty polls per second; packets in a vector of functions |
/// | `core.N.idle`, ... | the same for one core, if a router has several |
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Measurements {
    /// The inputs of the result, in print order: the seed first.
    pub parameters: Vec<(String, String)>,
    /// Values by name.
    pub values: BTreeMap<String, f64>,
    /// Time series by name: seconds and values.
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Samples by name, to be pooled over several runs: the durations of transfers, in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<String, Vec<f64>>,
}

impl Measurements {
    /// A value by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }
}

impl fmt::Display for Measurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.parameters {
            let mut lines = value.lines();
            writeln!(f, "# {name} = {}", lines.next().unwrap_or(""))?;
            lines.try_for_each(|line| writeln!(f, "#   {line}"))?;
        }
        self.values.iter().try_for_each(|(name, value)| writeln!(f, "{name} {value}"))?;
        for (name, points) in &self.series {
            write!(f, "{name}")?;
            points.iter().try_for_each(|(time, value)| write!(f, " {time}:{value}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// All inputs of a result.
pub(crate) fn parameters(world: &WorldPlan) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = vec![
        ("seed".into(), world.seed.to_string()),
        ("duration".into(), world.duration.to_string()),
        ("warmup".into(), world.warmup.to_string()),
        ("sample".into(), world.sample.to_string()),
    ];
    for router in &world.routers {
        let cost = &router.cost;
        let mut text = format!(
            "switch {}, poll {}, input {}, interrupt {}, forwarding {}, output {}",
            cost.switch, cost.poll, cost.input, cost.interrupt, cost.forwarding, cost.output
        );
        if cost.instruction != PacketCost::NOTHING {
            text += &format!(", instruction {}", cost.instruction);
        }
        cost.paths.iter().for_each(|(path, cost)| text += &format!(", path {path} {cost}"));
        list.push((format!("router.{}.cost", router.name), text));
        list.push((format!("router.{}.config", router.name), router.config.trim().to_owned()));
        if !router.slices.0.is_empty() {
            list.push((format!("router.{}.slices", router.name), router.slices.0.trim().to_owned()));
        }
    }
    for card in &world.cards {
        let medium = &card.medium;
        let text = format!(
            "ring {}, transmit ring {}, {}, delay {}, loss {}, jitter {}, duplicate {}, reorder {} by {}, overhead {}b",
            card.ring,
            card.transmit_ring,
            medium.service,
            medium.delay,
            medium.loss,
            medium.jitter,
            medium.duplicate,
            medium.reorder,
            medium.reorder_by,
            medium.overhead
        );
        list.push((format!("card.{}", card.name), text));
    }
    for source in &world.sources {
        let phase = if source.staggered { "staggered" } else { "aligned" };
        let text = format!(
            "{:?}, {phase}, from {} to {}, sizes {:?}, {:?}",
            source.pattern,
            source.start.since(units::Instant::START),
            source.stop.since(units::Instant::START),
            source.sizes,
            source.fields
        );
        let carries = source.carries.map_or(String::new(), |carries| format!(", {carries:?}"));
        let inner = source.inner.as_ref().map_or(String::new(), |inner| format!(", {inner}"));
        list.push((format!("source.{}", source.name), text + &carries + &inner));
    }
    let hosts = &world.hosts;
    for link in &hosts.links {
        let text = format!("{}, at most {} packets wait for {}", link.medium, link.buffer, link.scheme);
        list.push((format!("link.{}", hosts.name(link)), text));
    }
    for flow in &hosts.flows {
        let text = format!(
            "{} from {} to {} for {}, packets of {}b, acknowledgements of {}b, from {} on, class {}, code point {}",
            flow.transport,
            hosts.hosts[flow.from],
            hosts.hosts[flow.to],
            flow.application,
            flow.packet,
            flow.acknowledgement,
            flow.start.since(units::Instant::START),
            flow.class,
            flow.dscp
        );
        let sizes = flow.sizes.as_ref().map_or(String::new(), |file| format!(", sizes of {file}"));
        list.push((format!("flow.{}", flow.name), text + &sizes));
    }
    for (index, (time, what)) in world.events.iter().enumerate() {
        let text = match what {
            WorldEvent::Apply(node, config, _) => format!("{} gets\n{}", world.routers[*node].name, config.trim()),
            WorldEvent::Reserve(node, flows, _) => format!("{} reserves\n{}", world.routers[*node].name, flows.trim()),
            WorldEvent::Slices(node, changes, _) => {
                format!("slices of {} change\n{}", world.routers[*node].name, changes.trim())
            }
            WorldEvent::Link(card, up) => {
                format!("card {} {}", world.cards[*card].name, if *up { "up" } else { "down" })
            }
            WorldEvent::Scheme(link, scheme, change) => {
                format!("link {} gets {scheme}, what waits is to {change}", hosts.name(&hosts.links[*link]))
            }
            WorldEvent::Medium(link, medium) => format!("link {} is {medium}", hosts.name(&hosts.links[*link])),
        };
        list.push((format!("at[{index}] {}", time.since(units::Instant::START)), text));
    }
    list
}
