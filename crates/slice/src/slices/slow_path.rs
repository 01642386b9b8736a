//! The exchange of packets with the slow path of a slice.

use super::Slices;
use crate::exceptions::{ExceptionReader, SliceException};
use crate::reinjection::{LONGEST, MOST_ROUNDS, Reinjection, ReturnHeader};
use crate::spec::SliceError;
use plane::{Command, OriginatedPacket, Router};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, channel};
use units::{Instant, InterfaceId, WorkerId};

/// Packets of a slow path on their way to the fast path.
#[derive(Debug)]
pub struct ReturnedPackets {
    /// Packets above the limit of the slice, which end here.
    pub limited: u64,
    /// Receives the number of packets that the worker has accepted.
    pub accepted: Receiver<u64>,
}

impl Slices {
    /// Takes at most `most` packets for the slow path of a slice.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn take_exceptions(&self, name: &str, most: usize) -> Result<Vec<SliceException>, SliceError> {
        Ok(self.slice(name)?.state.exceptions.take(most))
    }

    /// Opens the packets for the slow path of a slice for its program, which `wake` wakes when one waits or the slice ends.
    ///
    /// # Errors
    /// There is no such slice, or it has a program already.
    pub fn open_exceptions(&self, name: &str, wake: impl Fn() + Send + 'static) -> Result<ExceptionReader, SliceError> {
        let queue = &self.slice(name)?.state.exceptions;
        ExceptionReader::open(queue, wake).ok_or_else(|| {
            let reason = format!("a program receives the packets of the slow path of '{name}' already");
            SliceError::new(reason, "stop it first")
        })
    }

    /// Returns packets of the slow path of a slice to its fast path, as if its meta-interfaces had received them at `now`. Either all packets are right,
    /// or none returns.
    ///
    /// # Errors
    /// There is no such slice, or a packet names a meta-interface or queue that the slice does not have. The error names the packet.
    pub fn reinject(
        &self,
        router: &Router,
        name: &str,
        packets: &[Reinjection],
        now: Instant,
    ) -> Result<ReturnedPackets, SliceError> {
        let slice = self.slice(name)?;
        let made = packets.iter().enumerate().map(|(number, packet)| {
            let nth = |error: SliceError| match packets.len() {
                1 => error,
                _ => SliceError { reason: format!("packet {}: {}", number + 1, error.reason), ..error },
            };
            slice.wrap(router, packet).map_err(nth)
        });
        let made: Vec<OriginatedPacket> = made.collect::<Result<_, _>>()?;
        let total = made.len() as u64;
        let admitted: Vec<OriginatedPacket> =
            made.into_iter().filter(|_| slice.state.exceptions.admits_return(now)).collect();
        let (sender, accepted) = channel();
        let limited = total - admitted.len() as u64;
        // The order among workers does not matter: each flow of a slow path comes from one program. The first worker has all ports.
        router.post_to(WorkerId(0), Command::Originate(admitted, sender));
        Ok(ReturnedPackets { limited, accepted })
    }
}

/// The interface with this address.
pub(super) fn interface_of(router: &Router, address: IpAddr) -> Option<InterfaceId> {
    let interfaces = &router.snapshot().interfaces;
    let found = interfaces.iter().find(|interface| {
        let own4 = interface.ipv4.iter().any(|own| IpAddr::V4(own.address) == address);
        own4 || interface.ipv6.iter().any(|own| IpAddr::V6(own.address) == address)
    });
    found.map(|interface| interface.id)
}

impl super::Slice {
    /// The packet that brings a packet of the slow path to the function.
    fn wrap(&self, router: &Router, packet: &Reinjection) -> Result<OriginatedPacket, SliceError> {
        let Reinjection { interface, key, queue, rounds, packet } = packet;
        let Some(place) = self.interfaces.get(interface) else {
            let reason = format!("the slice has no meta-interface {interface}");
            return Err(SliceError::new(reason, "see `switchpath slice list`"));
        };
        if let Some(queue) = queue.filter(|queue| !self.queues.contains_key(queue)) {
            return Err(SliceError::new(format!("the slice has no queue {queue}"), "see `switchpath slice list`"));
        }
        if *rounds >= MOST_ROUNDS {
            let reason = format!("a packet returns at most {MOST_ROUNDS} times");
            return Err(SliceError::new(reason, "drop it"));
        }
        if packet.is_empty() || packet.len() > LONGEST {
            let reason = format!("{} bytes are no packet", packet.len());
            return Err(SliceError::new(reason, format!("return packets of 1 to {LONGEST} bytes")));
        }
        let Some(at) = interface_of(router, place.ip()) else {
            let reason = format!("{} of meta-interface {interface} is no address of the router any more", place.ip());
            return Err(SliceError::new(reason, "add the address to a port, or move the meta-interface"));
        };
        let header = ReturnHeader {
            serial: self.state.created,
            slice: self.state.id.0,
            interface: *interface,
            key: *key,
            queue: *queue,
            rounds: rounds + 1,
        };
        let bytes = header.wrap(*place, packet).expect("the length is within that of UDP");
        Ok(OriginatedPacket { bytes, interface: at })
    }
}
