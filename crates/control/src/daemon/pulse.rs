//! The state of a worker's thread that other threads can read at any time: a stuck worker answers no requests.

use crate::api;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use units::{Instant, Nanos};

/// The activity of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Doing {
    /// Forwarding.
    Working,
    /// Polling for packets.
    Spinning,
    /// Asleep until a port, another thread or a timer wakes it.
    Asleep,
    /// Ended regularly.
    Ended,
    /// Failed for good.
    GivenUp,
}

impl Doing {
    const ALL: [Doing; 5] = [Doing::Working, Doing::Spinning, Doing::Asleep, Doing::Ended, Doing::GivenUp];

    /// Returns whether its heart should beat.
    pub fn lives(self) -> bool {
        !matches!(self, Doing::Ended | Doing::GivenUp)
    }
}

/// The pulse of a thread, which alone writes it, except the last three fields. Aligned to cache lines of its own, because it is written at every
/// step.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Pulse {
    beat: AtomicU64,
    doing: AtomicU8,
    packets: AtomicU64,
    busy: AtomicU64,
    wakeups: AtomicU64,
    restarts: AtomicU64,
    /// Written by the watchdog: whether the worker is stuck, and its recent load.
    stuck: AtomicBool,
    load: AtomicU64,
    rate: AtomicU64,
}

impl Pulse {
    /// Creates a pulse with its first beat.
    pub fn new(now: Instant) -> Pulse {
        let zero = || AtomicU64::new(0);
        Pulse {
            beat: AtomicU64::new(now.get()),
            doing: AtomicU8::new(Doing::Asleep as u8),
            packets: zero(),
            busy: zero(),
            wakeups: zero(),
            restarts: zero(),
            stuck: AtomicBool::new(false),
            load: zero(),
            rate: zero(),
        }
    }

    /// Records the beginning of a step.
    #[inline]
    pub fn beat(&self, now: Instant) {
        self.beat.store(now.get(), Relaxed);
    }

    /// Records the packets moved since the start, and the time for it.
    #[inline]
    pub fn done(&self, packets: u64, busy: Nanos) {
        self.packets.store(packets, Relaxed);
        self.busy.store(busy.get(), Relaxed);
    }

    #[inline]
    pub fn does(&self, doing: Doing) {
        self.doing.store(doing as u8, Relaxed);
    }

    /// Records a wakeup by a port or another thread.
    pub fn woken(&self) {
        // Only this thread writes the counter, so it needs no atomic addition.
        self.wakeups.store(self.wakeups.load(Relaxed) + 1, Relaxed);
    }

    pub fn restarted(&self) {
        self.restarts.store(self.restarts.load(Relaxed) + 1, Relaxed);
    }

    pub fn doing(&self) -> Doing {
        Doing::ALL[usize::from(self.doing.load(Relaxed))]
    }

    pub fn last_beat(&self) -> Instant {
        Instant::new(self.beat.load(Relaxed))
    }

    /// Returns the packets moved, and the time for it.
    pub fn work(&self) -> (u64, Nanos) {
        (self.packets.load(Relaxed), Nanos::new(self.busy.load(Relaxed)))
    }

    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed)
    }

    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    /// Records the load of the last second: the busy share in millionths, and packets a second.
    pub fn set_lately(&self, load: u64, rate: u64) {
        self.load.store(load, Relaxed);
        self.rate.store(rate, Relaxed);
    }

    /// Returns whether it answers requests.
    pub fn answers(&self) -> bool {
        self.doing().lives() && !self.is_stuck()
    }

    /// Returns the worker for the API; counters that only its report has are zero.
    pub fn told(&self, worker: u16, core: Option<u16>, now: Instant) -> api::Worker {
        let doing = self.doing();
        let state = match doing {
            Doing::GivenUp => api::WorkerState::Failed,
            Doing::Ended => api::WorkerState::Ended,
            _ if self.is_stuck() => api::WorkerState::Stuck,
            Doing::Working => api::WorkerState::Working,
            Doing::Spinning => api::WorkerState::Spinning,
            Doing::Asleep => api::WorkerState::Asleep,
        };
        let (packets, busy) = self.work();
        api::Worker {
            worker,
            core,
            state,
            busy_ppm: if doing.lives() { self.load.load(Relaxed) } else { 0 },
            packets_per_second: if doing.lives() { self.rate.load(Relaxed) } else { 0 },
            busy_ns: busy.get(),
            packets,
            wakeups: self.wakeups.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            heartbeat_age_ns: now.since(self.last_beat()).get(),
            handed_over_packets: 0,
            taken_over_packets: 0,
            held_packets: 0,
        }
    }
}
