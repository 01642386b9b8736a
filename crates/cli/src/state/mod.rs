//! `switchpath state`: the tools for ephemeral state.

mod branch;
mod dump;
mod generate;
mod group;
mod ping;
mod socket;
mod subcast;
mod traceroute;
mod transport;
mod verify;

use self::socket::Encapsulation;
use crate::arguments::{CarriageArgument, StateArguments, StateCommand, UsageError};
use crate::output::{Rows, print_json};
use crate::show;
use anyhow::Result;
use esp::bound;
use esp::isa::StateInstruction;
use esp::wire::Carriages;
use serde::Serialize;
use std::io::{Write, stdout};
use std::process::ExitCode;
use units::{Nanos, PacketRate, Rate};

/// Executes the subcommand.
pub fn state(arguments: &StateArguments) -> Result<ExitCode> {
    let StateArguments { command, json, carriage, port, protocol, key, socket } = arguments;
    let by = match carriage {
        CarriageArgument::Udp => Encapsulation::Datagrams(*port),
        CarriageArgument::Ip => Encapsulation::Packets(*protocol),
    };
    let line = || transport::PartTransport::of(by, key.as_deref());
    match command {
        StateCommand::Size { line, pps, creates, lifetime } => size((*line, *pps), *creates, *lifetime, *json),
        StateCommand::Show { store, limit } => {
            let of = store.as_ref().map_or_else(String::new, |store| {
                let mut query = form_urlencoded::Serializer::new(String::new());
                format!("&{}", query.append_pair("port", store).finish())
            });
            show::entries(&socket.client(), &format!("/v1/state/entries?limit={limit}{of}"), *json)
        }
        StateCommand::Send { to, instruction, how } if instruction.join(" ").starts_with("call") => {
            transport::send_registered(*to, line()?, StateCommand::registered(instruction)?, how)
        }
        StateCommand::Send { to, instruction, how } => {
            transport::send(*to, line()?, StateCommand::instruction(instruction)?, how)
        }
        StateCommand::Dedup { to, message, how } => {
            let once = StateInstruction::Count { counter: *message, threshold: 2, inclusive: false };
            transport::send(*to, line()?, once, how)
        }
        StateCommand::Listen { count, time, group, answer } => {
            transport::listen(line()?, *group, transport::ListenLimit::of(*count, *time), *answer, *json)
        }
        StateCommand::Ping { host, way } => ping::ping(*host, line()?, way, *json),
        StateCommand::Branch { hosts, way } => branch::branch(hosts, line()?, way, *json),
        StateCommand::Subcast { computation, part } => subcast::subcast(*computation, part, (line()?, *json)),
        StateCommand::Collect { computation, operator, member } => {
            group::collect(*computation, *operator, member, (line()?, *json))
        }
        StateCommand::GroupSize { computation, member } => group::size(*computation, member, (line()?, *json)),
        StateCommand::Generate { to, rate, time, new, computations, instruction, size, seed, trace } => {
            let mix = instruction.parse().map_err(UsageError)?;
            let (rate, time, new, computations) = (*rate, *time, *new, *computations);
            let load = generate::InstructionLoad {
                rate,
                time,
                new,
                computations,
                mix,
                size: *size,
                seed: *seed,
                trace: *trace,
            };
            generate::generate(*to, line()?, &load, *json)
        }
        StateCommand::Dump { file, ip_option } => {
            let option = Some(*ip_option).filter(|option| *option != 0);
            dump::dump(file, &Carriages { protocol: *protocol, port: Some(*port), option }, *json)
        }
        StateCommand::Conform { vectors } => verify::conform(vectors.as_deref(), *json),
    }
}

/// The necessary size of a store.
#[derive(Serialize)]
struct StoreSize {
    packets_per_second: u64,
    creates: u64,
    lifetime_ns: u64,
    entries: u64,
    memory_bytes: u64,
}

/// `switchpath state size`
fn size(
    (line, pps): (Option<Rate>, Option<PacketRate>),
    creates: u64,
    lifetime: Nanos,
    json: bool,
) -> Result<ExitCode> {
    let packets = pps.or(line.map(bound::packets)).unwrap_or(PacketRate::ZERO);
    let entries = bound::entries(creates, packets, lifetime);
    let memory = bound::memory(entries, 1);
    let mut out = stdout().lock();
    if json {
        let (packets_per_second, lifetime_ns, memory_bytes) = (packets.get(), lifetime.get(), memory.get());
        print_json(&mut out, &StoreSize { packets_per_second, creates, lifetime_ns, entries, memory_bytes })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Rows::new(&["what", ">value"]);
    rows.add(["packets a second".to_owned(), packets.get().to_string()]);
    rows.add(["entries a packet creates, at most".to_owned(), creates.to_string()]);
    rows.add(["lifetime".to_owned(), lifetime.to_string()]);
    rows.add(["entries".to_owned(), entries.to_string()]);
    rows.add(["memory".to_owned(), memory.to_string()]);
    rows.print(&mut out)?;
    writeln!(out, "\n[port.NAME.state]\ncapacity = {entries}")?;
    Ok(ExitCode::SUCCESS)
}
