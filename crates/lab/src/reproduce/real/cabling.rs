//! The laboratory of runs on real packets: two network namespaces, the cables between them, and the clock.

use anyhow::{Context, Result};
use io::clock::CycleCounter;
use io::netns::{Lab, LabHost};
use io::packet_ring::{PacketOptions, PacketPort};
use packet::port::Port;
use sim::real::{CablePorts, MonotonicClock};

/// Slots of the kernel's rings: at half a percent of real speed they hold the packets of a tenth of a second.
const SLOTS: usize = 4096;

/// The cycle counter as a clock that all processors share.
pub struct MachineClock {
    counter: CycleCounter,
    began: u64,
}

impl MachineClock {
    /// Calibrates the counter, which takes up to 200 ms.
    pub fn calibrated() -> MachineClock {
        let counter = CycleCounter::calibrated();
        let began = counter.read();
        MachineClock { counter, began }
    }
}

impl MonotonicClock for MachineClock {
    #[inline]
    fn now(&self) -> u64 {
        self.counter.between(self.began, self.counter.read()).get()
    }
}

/// A namespace for the router, one for all hosts, and the cables created so far. None of it has a name outside this process, so the kernel removes it
/// when the process ends.
pub struct Cabling {
    lab: Lab,
    router: LabHost,
    hosts: LabHost,
    laid: usize,
}

impl Cabling {
    /// Namespaces without cables.
    pub fn new() -> Result<Cabling> {
        let lab = Lab::new()?;
        let (router, stations) = (lab.host("router")?, lab.host("stations")?);
        for host in [&router, &stations] {
            host.silence_kernel()?;
        }
        Ok(Cabling { lab, router, hosts: stations, laid: 0 })
    }

    /// Ports at both ends of `count` cables, with empty rings.
    pub fn cables(&mut self, count: usize) -> Result<Vec<CablePorts>> {
        while self.laid < count {
            let name = name(self.laid);
            self.lab.cable(&self.router.plug(&name), &self.hosts.plug(&name)).context("laying a cable")?;
            self.laid += 1;
        }
        (0..count)
            .map(|number| {
                Ok(CablePorts { router: open(&self.router, number)?, end_system: open(&self.hosts, number)? })
            })
            .collect()
    }
}

fn name(number: usize) -> String {
    format!("card{number}")
}

fn open(host: &LabHost, number: usize) -> Result<Box<dyn Port>> {
    // No offloads: frames as a wire carries them.
    let options = PacketOptions { receive_slots: SLOTS, offloads: false, ..PacketOptions::default() };
    let (port, _) =
        host.run(|| PacketPort::open(&name(number), &options))?.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(Box::new(port))
}
