//! Counts and compares the packet fates of a replay.

use super::{ReplayOutcome, ReplayRouter, ReplaySource};
use crate::api::DropExplained;
use crate::names::Names;
use io::advisories::OpenError;
use packet::DropReason;
use packet::event::Fate;
use packet::wire::summary;
use serde::Serialize;
use std::collections::BTreeMap;
use units::PortId;

/// The most packets listed one by one whose fates differ.
const MOST_CHANGED: usize = 1000;

/// The fates of all packets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReplayReport {
    /// The configuration.
    pub config: String,
    /// Packets injected.
    pub packets: u64,
    /// Packets of the capture that were skipped, because the capturing host had sent them.
    pub outgoing_packets: u64,
    /// Truncated packets of the capture, filled up with zeros.
    pub cut_packets: u64,
    /// The duration of a round in the router's time.
    pub duration_ns: u64,
    /// Packets sent, by port.
    pub sent: BTreeMap<String, u64>,
    /// Packets addressed to the router itself, or fragmented.
    pub consumed_packets: u64,
    /// Packets dropped, by reason, the most frequent first.
    pub dropped: Vec<DropCount>,
    /// Packets that could not be judged: their destination MAC address is not that of the port, and the capture does not record the port's address at
    /// that time.
    pub unjudged_packets: u64,
    /// Packets without a fate: the router was full, or still held them at the end.
    pub lost_packets: u64,
    /// The router's own packets, by egress port.
    pub generated: BTreeMap<String, u64>,
    /// Neighbours that were assumed to answer.
    pub assumed_neighbours: Vec<String>,
    /// The result of the other configuration; null without one.
    pub against: Option<Comparison>,
}

/// Packets dropped for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DropCount {
    /// The number of packets.
    pub packets: u64,
    /// The number of the first one in the capture, from 1; null if it is unknown.
    pub first_packet: Option<u64>,
    /// The reason and its remedy.
    #[serde(flatten)]
    pub drop: DropExplained,
}

/// The comparison of two configurations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Comparison {
    /// The other configuration.
    pub config: String,
    /// Packets with the same fate, and the same bytes if they were sent.
    pub same_packets: u64,
    /// Packets with different fates.
    pub changed_packets: u64,
    /// Packets that could not be judged under either configuration.
    pub unjudged_packets: u64,
    /// The kinds of differences, the most frequent first.
    pub groups: Vec<FateChange>,
    /// The first packets with different fates.
    pub changed: Vec<ChangedPacket>,
}

/// Packets whose fate changed in the same way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FateChange {
    /// Their fate under the other configuration.
    pub before: String,
    /// Their fate under this one.
    pub after: String,
    /// The number of packets.
    pub packets: u64,
    /// The number of the first one in the capture, from 1.
    pub first_packet: u64,
    /// The first one in one line.
    pub first: String,
}

/// A packet whose fate changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChangedPacket {
    /// Its number in the capture, from 1.
    pub packet: u64,
    /// The round of the replay, from 1.
    pub round: u64,
    /// The packet in one line.
    pub summary: String,
    /// Its fate with the other configuration.
    pub before: String,
    /// Its fate with this one.
    pub after: String,
}

/// Counts as packets meet their fates.
pub(super) struct FateCounters {
    name: String,
    sent: BTreeMap<PortId, u64>,
    generated: BTreeMap<PortId, u64>,
    consumed: u64,
    unjudged: u64,
    /// How many, and the first.
    dropped: BTreeMap<DropReason, (u64, u64)>,
    /// Each by its number, where they are to be compared.
    outcomes: Option<Vec<ReplayOutcome>>,
}

impl FateCounters {
    pub fn new(name: &str, compares: bool) -> FateCounters {
        FateCounters {
            name: name.to_owned(),
            sent: BTreeMap::new(),
            generated: BTreeMap::new(),
            consumed: 0,
            unjudged: 0,
            dropped: BTreeMap::new(),
            outcomes: compares.then(Vec::new),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn record_outcome(&mut self, packet: u64, outcome: ReplayOutcome) {
        match outcome {
            ReplayOutcome::Fate(Fate::Sent(port), _) => *self.sent.entry(port).or_default() += 1,
            ReplayOutcome::Fate(Fate::Consumed, _) => self.consumed += 1,
            ReplayOutcome::Fate(Fate::Dropped(reason), _) => {
                let (count, first) = self.dropped.entry(reason).or_insert((0, packet));
                *count += 1;
                *first = packet.min(*first);
            }
            ReplayOutcome::Unjudged => self.unjudged += 1,
            ReplayOutcome::Lost => {}
        }
        if let Some(each) = &mut self.outcomes {
            let index = packet as usize;
            if each.len() <= index {
                each.resize(index + 1, ReplayOutcome::Lost);
            }
            each[index] = outcome;
        }
    }

    pub fn record_own_fate(&mut self, fate: Fate) {
        if let Fate::Sent(port) = fate {
            *self.generated.entry(port).or_default() += 1;
        }
    }

    pub fn report(&self, world: &ReplayRouter, source: &ReplaySource, done: u64) -> ReplayReport {
        let names = world.names();
        let named = |counts: &BTreeMap<PortId, u64>| {
            counts.iter().map(|(&port, &count)| (names.port(port), count)).collect::<BTreeMap<_, _>>()
        };
        let count = |(&reason, &(packets, first)): (&DropReason, &(u64, u64))| DropCount {
            packets,
            first_packet: Some(source.capture_number(first)),
            drop: reason.into(),
        };
        let mut dropped: Vec<DropCount> = self.dropped.iter().map(count).collect();
        dropped.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
        let met = self.sent.values().sum::<u64>() + self.consumed + dropped.iter().map(|d| d.packets).sum::<u64>();
        ReplayReport {
            config: self.name.clone(),
            packets: done,
            outgoing_packets: source.outgoing,
            cut_packets: source.cut,
            duration_ns: 0,
            sent: named(&self.sent),
            consumed_packets: self.consumed,
            dropped,
            unjudged_packets: self.unjudged,
            lost_packets: done - met - self.unjudged,
            generated: named(&self.generated),
            assumed_neighbours: world.assumed.iter().map(|(_, address)| address.to_string()).collect(),
            against: None,
        }
    }

    fn outcome(&self, packet: usize) -> ReplayOutcome {
        self.outcomes.as_ref().and_then(|each| each.get(packet).copied()).unwrap_or(ReplayOutcome::Lost)
    }
}

impl ReplayReport {
    /// Packets whose fate is known.
    pub fn judged_packets(&self) -> u64 {
        self.packets - self.unjudged_packets - self.lost_packets
    }
}

impl Comparison {
    /// Compares the results of `new` for the packets of a capture, replayed this many times, with those of `old`.
    pub(super) fn of(
        source: &ReplaySource,
        times: u64,
        (old, old_names): (&FateCounters, &Names),
        (new, new_names): (&FateCounters, &Names),
    ) -> Result<Comparison, OpenError> {
        let (mut same, mut unjudged, mut groups, mut changed) = (0, 0, BTreeMap::<_, FateChange>::new(), Vec::new());
        for round in 0..times {
            source.for_each_packet(|recorded| {
                let packet = source.replay_number(round, recorded.number) as usize;
                let (was, is) = (old.outcome(packet), new.outcome(packet));
                if (was, is) == (ReplayOutcome::Unjudged, ReplayOutcome::Unjudged) {
                    unjudged += 1;
                    return;
                }
                let (before, mut after) = (outcome_text(was, old_names), outcome_text(is, new_names));
                if before == after && bytes(was) == bytes(is) {
                    same += 1;
                    return;
                }
                if before == after {
                    after += ", other bytes";
                }
                let summary = || summary(recorded.frame).to_string();
                let group = groups.entry((before.clone(), after.clone())).or_insert_with(|| FateChange {
                    before: before.clone(),
                    after: after.clone(),
                    packets: 0,
                    first_packet: recorded.number,
                    first: summary(),
                });
                group.packets += 1;
                if changed.len() < MOST_CHANGED {
                    let (packet, round, summary) = (recorded.number, round + 1, summary());
                    changed.push(ChangedPacket { packet, round, summary, before, after });
                }
            })?;
        }
        let mut groups: Vec<FateChange> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.packets));
        let changed_packets = groups.iter().map(|group| group.packets).sum();
        let (config, same_packets, unjudged_packets) = (old.name.clone(), same, unjudged);
        Ok(Comparison { config, same_packets, changed_packets, unjudged_packets, groups, changed })
    }
}

fn outcome_text(outcome: ReplayOutcome, names: &Names) -> String {
    match outcome {
        ReplayOutcome::Fate(Fate::Sent(port), _) => format!("sent {}", names.port(port)),
        ReplayOutcome::Fate(Fate::Consumed, _) => "consumed".to_owned(),
        ReplayOutcome::Fate(Fate::Dropped(reason), _) => format!("dropped {}", reason.name()),
        ReplayOutcome::Unjudged => "not judged".to_owned(),
        ReplayOutcome::Lost => "lost".to_owned(),
    }
}

/// The bytes that were sent, in short.
fn bytes(outcome: ReplayOutcome) -> Option<u64> {
    match outcome {
        ReplayOutcome::Fate(Fate::Sent(_), bytes) => Some(bytes),
        _ => None,
    }
}
