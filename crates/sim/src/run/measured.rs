//! What a run has measured.

use crate::cost::Cost;
use crate::describe::{Happening, World};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The result of a run: named values and series over time, and everything they follow from.
///
/// Times of series are in seconds; a point stands for the interval that ends there. Values are about the measured time,
/// from `warmup` to the end, unless the name says otherwise. Where there are several routers, names about one of them
/// begin with its name: `r.path.b.forwarded`. What is measured of worlds of hosts has tables in docs/simulation.md.
///
/// | name | what |
/// |---|---|
/// | `source.S.sent`, `sent_pps`, `sent_bps` | packets of a source, sent in the measured time |
/// | `source.S.received`, `received_pps`, `delivery` | those of them that came to a sink, ever; the part of all |
/// | `source.S.lost`, `lost.ring`, `lost.link`, `lost.down`, `lost.nowhere`, `lost.REASON`, `consumed` | where the others ended: before a card, on a link, on one that was down, behind a card without link, in a router for a reason |
/// | `source.S.under_way` | those that have met no end |
/// | `source.S.latency_{mean,min,p50,p90,p99,p999,max}_us` | from being sent to coming to a sink |
/// | `source.S.wait_{mean,...}_us` | from coming to the last router's card to leaving it |
/// | `sink.K.received`, `received_pps`, `received_bps`, `latency_...` | what came to a sink in the measured time |
/// | `card.C.received`, `ring_dropped`, `ring_max`, `transmitted`, `transmitted_bps`, `link_lost`, `down_lost` | of a card; `ring_max` since the beginning |
/// | `path.P.entered`, `forwarded`, `forwarded_pps`, `dropped`, `queue` | of a path of a router; `queue` at the end |
/// | `path.P.latency_{mean,p50,p99,p999,max}_us`, `wait_before_...`, `wait_behind_...` | what its packets took in the router from their card to transmission, of that before its functions and behind them; quantiles within a sixteenth above, `max` since the beginning |
/// | `path.P.late` | packets that took longer than the path was promised |
/// | `path.P.queue_max`, `queue_mean` | packets that waited for its functions, at one port of one core: the most since the beginning, and the mean as its task found them when it began to work on a vector of them |
/// | `task.T.runs`, `packets`, `used`, `mean_batch`, `polls` | of a task `input.PORT`, `forwarding.PATH`, `output.PORT`; `used` in parts of the cores, `polls` that found nothing |
/// | `task.T.share`, `share_received` | of a core: what it was promised, and what it had of the time that all tasks had |
/// | `task.input.P.over_budget` | packets that took longer to receive and classify than `classify_budget` allows |
/// | `task.T.threshold`, `max_wait_us`, `timeouts`, `harvested` | the throttle's B and D at the end; runs that D, and that idleness, brought |
/// | `task.T.idle`, `eligible`, `active`, `running` | parts of the time that it was in each state |
/// | `task.T.active_max_us` | the longest it was active before it ran, since the beginning |
/// | `task.T.behind_max_us`, `behind_bound_us` | of a path: the most its service was behind its share while it could run, and its longest run and the longest of another (under SFQ and stride: of all others) together, since the beginning |
/// | `task.T.cost_mean_us`, `cost_deviation_us`, `estimator.average`, `estimator.sleep_us` | what the router thinks at the end |
/// | `state.STORE.executed`, `dropped`, `aborted`, `overloaded`, `created` | instructions on a store, of a port by its name or `central`; those that ended their packet, those that could not be executed, those that passed because the worker did not keep up; entries |
/// | `state.STORE.live`, `high_water`, `lag_us` | entries that live at the end, the most there were since the beginning, how late expired ones were freed last |
/// | `state.aborted.REASON`, `state.handed` | in all stores; packets handed to the worker they belong to |
/// | `drop.REASON` | packets a router dropped |
/// | `cpu.idle`, `useful`, `polling`, `switching` | parts of the cores' time |
/// | `cpu.efficiency`, `cpu.efficiency_literal` | work on packets, in parts of all time but idle time; the second counts looking in vain as work |
/// | `cpu.dispatches`, `polls`, `mean_batch` | dispatches and looks in vain a second; packets in a vector of functions |
/// | `core.N.idle`, ... | all of those of one core, where a router has several |
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Measured {
    /// What the result follows from, in the order to print it: the seed first.
    pub parameters: Vec<(String, String)>,
    /// Values by name.
    pub values: BTreeMap<String, f64>,
    /// Series by name: seconds and values.
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Samples by name, for what follows from those of many runs together: the times of transfers, in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<String, Vec<f64>>,
}

impl Measured {
    /// A value by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }
}

impl fmt::Display for Measured {
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

/// Everything a result follows from.
pub(crate) fn parameters(world: &World) -> Vec<(String, String)> {
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
        if cost.instruction != Cost::NOTHING {
            text += &format!(", instruction {}", cost.instruction);
        }
        cost.paths.iter().for_each(|(path, cost)| text += &format!(", path {path} {cost}"));
        list.push((format!("router.{}.cost", router.name), text));
        list.push((format!("router.{}.config", router.name), router.config.trim().to_owned()));
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
        list.push((format!("source.{}", source.name), text + &carries));
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
            Happening::Apply(node, config, _) => format!("{} gets\n{}", world.routers[*node].name, config.trim()),
            Happening::Link(card, up) => {
                format!("card {} {}", world.cards[*card].name, if *up { "up" } else { "down" })
            }
            Happening::Scheme(link, scheme, change) => {
                format!("link {} gets {scheme}, what waits is to {change}", hosts.name(&hosts.links[*link]))
            }
            Happening::Medium(link, medium) => format!("link {} is {medium}", hosts.name(&hosts.links[*link])),
        };
        list.push((format!("at[{index}] {}", time.since(units::Instant::START)), text));
    }
    list
}
