//! Moves packets between the router and the interfaces of the kernel, on a thread of its own: so no worker makes a system call for them.

use arc_swap::ArcSwap;
use io::kernel_interface::KernelInterface;
use io::wait::{Sleeper, Waker};
use plane::punt::{Punt, PuntedFrame};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use units::{InterfaceId, Nanos};

/// Frames in each direction before the other direction and the other interfaces have their turn.
const AT_ONCE: usize = 64;
/// The longest frame: a super-frame that a port has received is given to the kernel in one piece.
const LONGEST: usize = 65_536 + 18;

/// The interfaces with their ids.
pub(super) type KernelInterfaces = Vec<(InterfaceId, Arc<KernelInterface>)>;

/// The exchange of packets.
pub(super) struct Exchange {
    punt: Arc<Punt>,
    interfaces: ArcSwap<KernelInterfaces>,
    waker: Waker,
    stop: Arc<AtomicBool>,
    /// Frames that the kernel did not accept.
    refused: AtomicU64,
}

impl Exchange {
    /// Starts the thread. It ends when `stop` is set and [`Exchange::wake`] called.
    pub fn start(punt: &Arc<Punt>, stop: &Arc<AtomicBool>) -> std::io::Result<Arc<Exchange>> {
        let waker = Waker::new()?;
        let exchange = Exchange {
            punt: punt.clone(),
            interfaces: ArcSwap::default(),
            waker: waker.clone(),
            stop: stop.clone(),
            refused: AtomicU64::new(0),
        };
        let exchange = Arc::new(exchange);
        punt.set_reader_wake(Box::new({
            let waker = waker.clone();
            move || waker.wake()
        }));
        let running = exchange.clone();
        thread::Builder::new().name("linux-packets".into()).spawn(move || running.run(Sleeper::new(waker)))?;
        Ok(exchange)
    }

    /// Uses these interfaces from now on.
    pub fn set_interfaces(&self, interfaces: KernelInterfaces) {
        self.interfaces.store(Arc::new(interfaces));
        self.wake();
    }

    /// Makes the thread look at its interfaces and at the end of the router.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Frames that the kernel did not accept.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn run(&self, mut sleeper: Sleeper) {
        let mut buffer = vec![0; LONGEST];
        while !self.stop.load(Ordering::Relaxed) {
            let interfaces = self.interfaces.load_full();
            if self.serve(&interfaces, &mut buffer) || !self.punt.prepare_sleep() {
                continue;
            }
            let descriptors = interfaces.iter().map(|(_, interface)| interface.as_fd());
            // A failing poll would be repeated at once: then the queues are served every millisecond.
            if sleeper.sleep(descriptors, Nanos::MAX).is_err() {
                let _ = sleeper.sleep([], Nanos::millis(1));
            }
            self.punt.end_sleep();
        }
    }

    /// Moves waiting frames, at most [`AT_ONCE`] for each queue. True if there were some.
    fn serve(&self, interfaces: &KernelInterfaces, buffer: &mut [u8]) -> bool {
        let mut moved = false;
        for frame in std::iter::from_fn(|| self.punt.next_for_kernel()).take(AT_ONCE) {
            moved = true;
            let found = interfaces.iter().find(|(id, _)| *id == frame.interface);
            if !found.is_some_and(|(_, interface)| interface.send(&frame.bytes)) {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (id, interface) in interfaces {
            let mut read = || interface.receive(buffer).map(|length| Box::from(&buffer[..length]));
            for bytes in std::iter::from_fn(&mut read).take(AT_ONCE) {
                moved = true;
                // A full queue is counted there.
                self.punt.inject(PuntedFrame { interface: *id, bytes });
            }
        }
        moved
    }
}
