//! The cost of quanta in batches on this machine's processor: threading and scheduling alone, with copies in memory, and with datagrams of the kernel
//! (spec P, F1, F3 and F5). Each batch is prepared, and its results are removed, while the clock is stopped.

use super::median;
use anyhow::{Context, Result, anyhow, ensure};
use io::clock::CycleCounter;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use schemes::dfq::Quantum;
use sim::quantum::{EgressLoad, MachineTransfer, QuantaOrder, QuantaPlan};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{Ipv4Addr, UdpSocket};

/// Batches of a measurement, and measurements, of which the median is reported.
const BATCHES: usize = 64;
const MEASURED: usize = 101;
/// Batches in memory: quanta of older ones have left.
const STORED: usize = 128;
/// Quanta in the memory of a flow.
const OF_FLOW: usize = 4;

/// A one-way cable of the kernel's own network.
struct Cable {
    near: UdpSocket,
    far: UdpSocket,
}

impl Cable {
    fn new() -> Result<Cable> {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let (near, far) = (open()?, open()?);
        near.connect(far.local_addr()?)?;
        // A lost datagram must not stop the measurement forever.
        far.set_nonblocking(true)?;
        Ok(Cable { near, far })
    }

    /// Receives so many datagrams into `memory`.
    fn drain(&self, count: usize, memory: &mut [u8]) -> Result<()> {
        (0..count).try_for_each(|_| self.far.recv(memory).map(drop)).context("the kernel lost a datagram")
    }
}

/// The memory and the cables of a trial.
struct Machine {
    plan: QuantaPlan,
    load: EgressLoad,
    counter: CycleCounter,
    /// The bytes of a batch on its way.
    bytes: Vec<u8>,
    /// Received batches.
    stored: Vec<u8>,
    /// The memory of each flow, and its next place.
    of_flows: Vec<u8>,
    next: Vec<usize>,
    arriving: Cable,
    leaving: Cable,
}

impl Machine {
    fn new(plan: &QuantaPlan) -> Result<Machine> {
        let (size, flows) = (plan.quantum as usize, plan.flows as usize + 1);
        let batch = size * plan.batch;
        Ok(Machine {
            plan: plan.clone(),
            load: EgressLoad::new(plan).map_err(|error| anyhow!(error))?,
            counter: CycleCounter::calibrated(),
            bytes: vec![7; batch],
            stored: vec![0; batch * STORED],
            of_flows: vec![0; flows * OF_FLOW * size],
            next: vec![0; flows],
            arriving: Cable::new()?,
            leaving: Cable::new()?,
        })
    }

    /// The memory of a received batch, by the place of one of its quanta.
    fn slot(&self, place: u32) -> usize {
        place as usize / self.plan.batch % STORED * self.bytes.len()
    }

    /// Transfers a batch, and schedules another. Returns the nanoseconds it took, and the quanta that left.
    fn pass(&mut self, batch: &[Quantum]) -> Result<(u64, usize)> {
        let size = self.plan.quantum as usize;
        let bytes = &self.bytes[..batch.len() * size];
        let slot = batch.first().map_or(0, |first| self.slot(first.place));
        let is_fifo = self.plan.scheduler == QuantaOrder::Fifo;
        // The datagrams that arrive: a batch, or each packet.
        let parts = if is_fifo { size } else { bytes.len() };
        if self.plan.transfer == MachineTransfer::Forward {
            bytes.chunks(parts).try_for_each(|part| self.arriving.near.send(part).map(drop))?;
        }
        let begun = self.counter.read();
        match self.plan.transfer {
            MachineTransfer::None => {}
            MachineTransfer::Copy if self.plan.threads => {
                self.stored[slot..slot + bytes.len()].copy_from_slice(bytes);
            }
            MachineTransfer::Copy => {
                for (quantum, from) in batch.iter().zip(bytes.chunks(size)) {
                    let next = &mut self.next[quantum.flow as usize];
                    let at = (quantum.flow as usize * OF_FLOW + *next) * size;
                    self.of_flows[at..at + size].copy_from_slice(from);
                    *next = (*next + 1) % OF_FLOW;
                }
            }
            MachineTransfer::Send => {
                let parts = if self.plan.threads { bytes.len() } else { size };
                bytes.chunks(parts).try_for_each(|part| self.leaving.near.send(part).map(drop))?;
            }
            MachineTransfer::Forward => {
                let memory = &mut self.stored[slot..slot + bytes.len()];
                memory.chunks_mut(parts).try_for_each(|part| self.arriving.far.recv(part).map(drop))?;
            }
        }
        let sent = self.load.pass(batch).map_err(|error| anyhow!(error))?;
        let count = sent.len();
        if self.plan.transfer == MachineTransfer::Forward {
            let place = |quantum: &Quantum| {
                let place = quantum.place as usize;
                place / self.plan.batch % STORED * self.bytes.len() + place % self.plan.batch * size
            };
            let part = |quantum| &self.stored[place(quantum)..place(quantum) + size];
            if is_fifo {
                sent.iter().try_for_each(|quantum| self.leaving.near.send(part(quantum)).map(drop))?;
            } else {
                send_together(&self.leaving.near, sent.iter().map(part))?;
            }
        }
        let spent = self.counter.between(begun, self.counter.read()).get();
        match self.plan.transfer {
            MachineTransfer::None | MachineTransfer::Copy => {}
            MachineTransfer::Send => {
                let datagrams = if self.plan.threads { 1 } else { batch.len() };
                self.leaving.drain(datagrams, &mut self.bytes)?;
            }
            MachineTransfer::Forward => self.leaving.drain(count, &mut self.bytes)?,
        }
        Ok((spent, count))
    }
}

/// Sends datagrams with one system call.
fn send_together<'a>(socket: &UdpSocket, datagrams: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    let slices: Vec<[IoSlice<'_>; 1]> = datagrams.map(|datagram| [IoSlice::new(datagram)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = slices.iter().map(|_| Default::default()).collect();
    let mut messages: Vec<MMsgHdr<'_>> =
        slices.iter().zip(&mut controls).map(|(slice, control)| MMsgHdr::new(slice, control)).collect();
    let sent = if messages.is_empty() { 0 } else { sendmmsg(socket, &mut messages, SendFlags::empty())? };
    ensure!(sent == slices.len(), "the kernel sent {sent} of {} datagrams", slices.len());
    Ok(())
}

/// The measurements of one trial on this machine's processor, by name.
///
/// | value | meaning |
/// |---|---|
/// | `quantum_ns` | the time of a quantum: its part of the transfers, of threading and of scheduling |
/// | `quanta_pps`, `rate_pps`, `throughput_bps` | quanta, packets, and bits of packets per second that a processor without other work has time for |
///
/// # Errors
///
/// The kernel refuses a socket or loses a datagram, or a rule of the backlog is broken.
pub fn quanta_costs(plan: &QuantaPlan) -> Result<BTreeMap<String, f64>> {
    let mut machine = Machine::new(plan)?;
    // Every flow has sent before the first measurement.
    let warmup = 2 * plan.flows as usize / plan.batch + BATCHES;
    let mut times = Vec::with_capacity(MEASURED);
    for number in 0..warmup.div_ceil(BATCHES) + MEASURED {
        let batches: Vec<Vec<Quantum>> = (0..BATCHES).map(|_| machine.load.draw()).collect();
        let (mut spent, mut sent) = (0, 0);
        for batch in &batches {
            let (time, quanta) = machine.pass(batch)?;
            (spent, sent) = (spent + time, sent + quanta);
        }
        if number >= warmup.div_ceil(BATCHES) {
            times.push(spent as f64 / sent.max(1) as f64);
        }
    }
    let quantum = median(times);
    let packets = 1e9 / quantum * f64::from(plan.quantum) / f64::from(plan.packet + plan.prefix);
    let values = [
        ("quantum_ns", quantum),
        ("quanta_pps", 1e9 / quantum),
        ("rate_pps", packets),
        ("throughput_bps", packets * f64::from(plan.packet) * 8.0),
    ];
    Ok(values.map(|(name, value)| (name.to_owned(), value)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(transfer: &str, scheduler: &str, threads: bool) -> f64 {
        let text = format!(
            "flows = 64\nactive = 1.0\nbacklog = 0\nquantum = 16\npacket = 16\nprefix = 0\nbatch = 32\nscheduler = '{scheduler}'\ncycle = 100000\n\
             threads = {threads}\ntransfer = '{transfer}'\nbuffers = 1\nsingle = 1\nbatches = 8\nclock = 400e6\nseed = 1\ngiven = []\n\
             [[step]]\nside = 'ingress'\nresource = 'a'\nfixed = 1\n[[step]]\nside = 'egress'\nresource = 'b'\nfixed = 1\nwork = 'receive'\n\
             [[step]]\nside = 'egress'\nresource = 'c'\nfixed = 1\nwork = 'schedule'\n"
        );
        let plan = QuantaPlan::read(&text, "trial.toml").unwrap();
        let costs = quanta_costs(&plan).unwrap();
        assert_eq!(costs["throughput_bps"], costs["rate_pps"] * 128.0);
        costs["quantum_ns"]
    }

    #[test]
    fn datagram_for_each_quantum_takes_longer_than_one_for_a_batch() {
        let alone = cost("none", "dfq", true);
        let (batch, each) = (cost("send", "dfq", true), cost("send", "dfq", false));
        assert!(alone < batch && batch < each, "{alone} ns alone, {batch} ns with a batch, {each} ns with each");
        assert!(cost("copy", "dfq", false) < each);
    }

    #[test]
    fn forwarded_batches_take_less_time_than_forwarded_packets() {
        // The difference is a tenth: other tests on the processors hide it.
        let _machine = crate::machine_lock::whole_machine();
        // Other programs only add time, so the least of several rounds is compared.
        let mut least = [f64::INFINITY; 2];
        for _ in 0..5 {
            for (least, scheme) in least.iter_mut().zip(["dfq", "fifo"]) {
                *least = least.min(cost("forward", scheme, true));
            }
        }
        let [batches, packets] = least;
        assert!(batches < packets, "{batches} ns of a quantum, {packets} ns of a packet");
    }
}
