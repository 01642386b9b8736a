//! An IPv4 router in user space, over UDP sockets of the kernel: what a slice without a fast path is. It runs the node without tables of the code
//! option `ipv4` ([`Ipv4Node`]) in one thread: one `recvfrom` and one `sendto` for each packet.

use anyhow::{Context, Result};
use io::netns::LabHost;
use io::wait::{Sleeper, Waker};
use slice::code::ipv4::{Ipv4Hop, Ipv4Node, Ipv4SlowPath};
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use units::Nanos;

/// Packets from a socket before the next one has its turn.
const AT_ONCE: usize = 32;
/// How long an idle router sleeps before it looks if it is stopped.
const IDLE: Nanos = Nanos::millis(20);

/// The addresses and routes of a slow path.
#[derive(Clone, Debug)]
pub struct SlowPathPlan {
    /// The address and the UDP ports at which it receives.
    pub receives: (Ipv4Addr, Range<u16>),
    /// The address and the UDP port from which it sends.
    pub sends: (Ipv4Addr, u16),
    /// Its routes by prefix.
    pub routes: Vec<((Ipv4Addr, u8), Ipv4Hop)>,
}

/// A running router. It stops when it is dropped.
#[derive(Debug)]
pub struct SlowPath {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SlowPath {
    /// Starts it in a host's namespace, on the processors of the calling thread.
    ///
    /// # Errors
    ///
    /// An address is not that of the host.
    pub fn start(host: &LabHost, plan: SlowPathPlan) -> Result<SlowPath> {
        let (address, ports) = plan.receives;
        let bind = |place: (Ipv4Addr, u16)| -> Result<UdpSocket> {
            let socket = host.run(|| UdpSocket::bind(place))?.with_context(|| format!("cannot bind {place:?}"))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let inputs = ports.map(|port| bind((address, port))).collect::<Result<Vec<_>>>()?;
        let output = bind(plan.sends)?;
        let addresses = (0..).zip(inputs.iter().map(|_| address));
        let node = Ipv4Node::new(Ipv4SlowPath::new(addresses), plan.routes);
        let is_over = Arc::new(AtomicBool::new(false));
        let sleeper = Sleeper::new(Waker::new()?);
        let over = is_over.clone();
        let thread = thread::spawn(move || forward((&inputs, &output), node, sleeper, &over));
        Ok(SlowPath { is_over, thread: Some(thread) })
    }
}

impl Drop for SlowPath {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            drop(thread.join());
        }
    }
}

/// Forwards packets until it is over.
fn forward((inputs, output): (&[UdpSocket], &UdpSocket), mut node: Ipv4Node, mut sleeper: Sleeper, over: &AtomicBool) {
    let mut bytes = [0; 2048];
    while !over.load(Ordering::Relaxed) {
        let mut is_idle = true;
        for (interface, input) in (0..).zip(inputs) {
            for _ in 0..AT_ONCE {
                let Ok(length) = input.recv(&mut bytes) else { break };
                is_idle = false;
                for (next, packet) in node.process(interface, &bytes[..length], 0) {
                    // As a router does: a packet that the kernel refuses is lost.
                    let _ = output.send_to(&packet, next);
                }
            }
        }
        if is_idle && sleeper.sleep(inputs.iter().map(AsFd::as_fd), IDLE).is_err() {
            return;
        }
    }
}
