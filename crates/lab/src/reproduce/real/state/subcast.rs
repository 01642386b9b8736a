//! Data along the marked branches of a multicast tree of thirteen nodes (spec E-45, E-X13).

use super::network::{Network, plain, receive};
use super::{Values, sleep_until};
use anyhow::{Context, Result};
use esp::host::Computation;
use esp::wire::{Carriages, Locations};
use io::clock;
use io::netns::LabHost;
use sim::ephemeral::{GROUP, SubcastPlan, subcast_state, subcast_told};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use units::Nanos;

/// Time limit for packets in flight.
const FLIGHT_LIMIT: Nanos = Nanos::millis(200);
/// Time between two data packets.
const GAP: Nanos = Nanos::millis(2);
/// More hops than the tree has.
const HOPS: u32 = 8;
/// The payload of data packets after the instruction.
const DATA: &[u8] = b"what the marked want to have";

/// Runs the trial.
pub fn run(plan: &SubcastPlan) -> Result<Values> {
    let network = Network::new(&plan.receivers, &subcast_state(plan), plain)?;
    let join = |host: &LabHost| -> Result<UdpSocket> {
        let socket = Network::socket(host)?;
        host.run(|| socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED))??;
        Ok(socket)
    };
    let sockets = network.receivers.iter().map(join).collect::<Result<Vec<UdpSocket>>>()?;
    let root = Network::socket(&network.root)?;
    root.set_multicast_ttl_v4(HOPS)?;
    let mut computation = Computation::seeded([clock::now().get(), 14]);
    let tag = computation.tag();
    let mark = computation.clone().at(Locations::INPUT).mark(tag, 1);
    for number in &plan.marked {
        let socket = sockets.get(number.wrapping_sub(1)).context("no receiver has that number")?;
        socket.send_to(&mark.to_bytes(), (network.root_address(), Carriages::PORT))?;
    }
    sleep_until(clock::now() + FLIGHT_LIMIT)?;
    let data = [computation.at(Locations::OUTPUT).if_marked(tag).to_bytes(), DATA.to_vec()].concat();
    for _ in 0..plan.packets {
        root.send_to(&data, (GROUP, Carriages::PORT))?;
        sleep_until(clock::now() + GAP)?;
    }
    sleep_until(clock::now() + FLIGHT_LIMIT)?;
    let copies = |socket: &UdpSocket| -> Result<usize> {
        let mut copies = 0;
        while let Some((_, behind)) = receive(socket, Duration::from_millis(5))? {
            copies += usize::from(behind == DATA.len());
        }
        Ok(copies)
    };
    let copies = sockets.iter().map(copies).collect::<Result<Vec<usize>>>()?;
    let mut values = subcast_told(plan, &copies);
    values.insert("real.lost".to_owned(), network.lost()? as f64);
    Ok(values)
}
