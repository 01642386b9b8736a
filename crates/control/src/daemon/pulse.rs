//! What a worker's thread lets everybody see of it without being asked: a worker that is stuck answers nobody.

use crate::api;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use units::{Instant, Nanos};

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Doing {
    /// Forwarding.
    Working,
    /// Looking for work.
    Spinning,
    /// Waiting for a port, another thread or a time.
    Asleep,
    /// It has ended in good order.
    Ended,
    /// It has failed for good.
    GivenUp,
}

impl Doing {
    const ALL: [Doing; 5] = [Doing::Working, Doing::Spinning, Doing::Asleep, Doing::Ended, Doing::GivenUp];

    /// Whether a heart is to beat.
    pub fn lives(self) -> bool {
        !matches!(self, Doing::Ended | Doing::GivenUp)
    }
}

/// The pulse of one thread. It alone writes, but for the last three; in lines of its own, for it writes at every step.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Pulse {
    beat: AtomicU64,
    doing: AtomicU8,
    packets: AtomicU64,
    busy: AtomicU64,
    wakeups: AtomicU64,
    restarts: AtomicU64,
    /// The watchdog's: whether it was found stuck, and what it did lately.
    stuck: AtomicBool,
    load: AtomicU64,
    rate: AtomicU64,
}

impl Pulse {
    /// A heart that beats for the first time.
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

    /// The thread is there, at the beginning of a step.
    #[inline]
    pub fn beat(&self, now: Instant) {
        self.beat.store(now.get(), Relaxed);
    }

    /// What it has done since its start.
    #[inline]
    pub fn done(&self, packets: u64, busy: Nanos) {
        self.packets.store(packets, Relaxed);
        self.busy.store(busy.get(), Relaxed);
    }

    #[inline]
    pub fn does(&self, doing: Doing) {
        self.doing.store(doing as u8, Relaxed);
    }

    /// It was woken by a port or another thread.
    pub fn woken(&self) {
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

    /// Packets moved, and the time that took.
    pub fn work(&self) -> (u64, Nanos) {
        (self.packets.load(Relaxed), Nanos::new(self.busy.load(Relaxed)))
    }

    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed)
    }

    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    /// What it did in the last second: its busy share in millionths, and packets a second.
    pub fn set_lately(&self, load: u64, rate: u64) {
        self.load.store(load, Relaxed);
        self.rate.store(rate, Relaxed);
    }

    /// Whether it answers when it is asked something.
    pub fn answers(&self) -> bool {
        self.doing().lives() && !self.is_stuck()
    }

    /// As the API tells it; what only its report has is zero.
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
