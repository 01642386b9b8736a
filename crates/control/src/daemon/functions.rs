//! Counters of path functions, and translated connections.

use super::Daemon;
use super::report::Answer;
use crate::api;
use io::clock;
use nat::{Connection, NatEndpoint, NatRules};
use plan::protocol_name;
use std::net::{Ipv4Addr, SocketAddrV4};
use units::Instant;

impl Daemon {
    /// Returns the functions of all paths.
    pub fn functions(&self) -> Answer<api::FunctionsReply> {
        let reports = self.reports()?;
        let snapshot = self.snapshot();
        let mut functions = Vec::new();
        for path in &snapshot.paths {
            let mut counted = Vec::new();
            for report in reports.iter().flat_map(|report| &report.paths).filter(|report| report.path == path.id) {
                plane::add_counters(&mut counted, report.functions.clone());
            }
            for (index, call) in path.functions.iter().enumerate() {
                let counters = counted.get(index).into_iter().flatten();
                functions.push(api::FunctionReply {
                    path: path.name.to_string(),
                    function: call.to_string(),
                    packet_ns: call.cost.cost.packet.get(),
                    kilobyte_ns: call.cost.cost.kilobyte.get(),
                    cost_source: call.cost.source.name().into(),
                    counters: counters
                        .map(|counter| api::FunctionCounter {
                            name: counter.name.to_string(),
                            packets: counter.packets,
                            bytes: counter.bytes,
                        })
                        .collect(),
                });
            }
        }
        Ok(api::FunctionsReply { time_ns: self.now_ns(), functions })
    }

    /// Returns the state of address translation, with at most `limit` connections.
    pub fn nat(&self, limit: usize) -> Answer<api::NatReply> {
        let snapshot = self.snapshot();
        let now = clock::now();
        let nothing = api::NatReply {
            most: 0,
            total: 0,
            made: 0,
            evicted: 0,
            per_host: 0,
            limited: 0,
            busiest: None,
            out_packets: 0,
            back_packets: 0,
            error_packets: 0,
            fragment_packets: 0,
            own_packets: 0,
            refused_packets: 0,
            truncated: false,
            connections: Vec::new(),
        };
        let Some(rules) = &snapshot.nat else { return Ok(nothing) };
        // Copied under the lock and formatted without it, because workers wait for the lock.
        let seen = snapshot.translations.with(|state| {
            let known: Vec<Connection> = state.table.iter().take(limit).copied().collect();
            let table = &state.table;
            let counted = (table.capacity(), table.count(), table.created, table.evicted);
            (known, state.counters, counted, (table.limited, table.busiest()))
        });
        let Some((known, counters, (most, total, made, evicted), (limited, busiest))) = seen else {
            return Ok(nothing);
        };
        Ok(api::NatReply {
            most: most as u64,
            total: total as u64,
            made,
            evicted,
            per_host: rules.per_host as u64,
            limited,
            busiest: busiest.map(|(address, connections)| api::NatHost {
                address: Ipv4Addr::from(address).to_string(),
                connections: connections.into(),
            }),
            out_packets: counters.outbound,
            back_packets: counters.inbound,
            error_packets: counters.errors,
            fragment_packets: counters.fragments,
            own_packets: counters.local,
            refused_packets: counters.refused,
            truncated: total > known.len(),
            connections: known.iter().map(|connection| connection_reply(connection, rules, now)).collect(),
        })
    }
}

fn connection_reply(connection: &Connection, rules: &NatRules, now: Instant) -> api::NatConnection {
    let end = |end: NatEndpoint| SocketAddrV4::new(Ipv4Addr::from(end.address), end.port).to_string();
    let until = connection.last_packet + rules.timeouts[connection.kind as usize];
    api::NatConnection {
        protocol: protocol_name(connection.protocol),
        state: connection.kind.name().into(),
        inside: end(connection.inside),
        outside: end(connection.outside),
        peer: end(connection.peer),
        replied: connection.replied,
        inbound: connection.inbound,
        idle_ns: now.since(connection.last_packet).get(),
        left_ns: until.since(now).get(),
        out_packets: connection.packets[0],
        back_packets: connection.packets[1],
    }
}
