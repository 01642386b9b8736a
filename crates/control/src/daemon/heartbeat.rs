//! The state of a worker's thread that other threads can read at any time: a stuck worker answers no requests.

use crate::api;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use units::{Instant, Nanos};

/// The activity of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Activity {
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

impl Activity {
    const ALL: [Activity; 5] =
        [Activity::Working, Activity::Spinning, Activity::Asleep, Activity::Ended, Activity::GivenUp];

    /// Returns whether its heart should beat.
    pub fn is_alive(self) -> bool {
        !matches!(self, Activity::Ended | Activity::GivenUp)
    }
}

/// The pulse of a thread, which alone writes it, except the last three fields. Aligned to cache lines of its own, because it is written at every
/// step.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Heartbeat {
    beat: AtomicU64,
    activity: AtomicU8,
    packets: AtomicU64,
    busy: AtomicU64,
    wakeups: AtomicU64,
    restarts: AtomicU64,
    /// Written by the watchdog: whether the worker is stuck, and its recent load.
    stuck: AtomicBool,
    load: AtomicU64,
    rate: AtomicU64,
}

impl Heartbeat {
    /// Creates a pulse with its first beat.
    pub fn new(now: Instant) -> Heartbeat {
        let zero = || AtomicU64::new(0);
        Heartbeat {
            beat: AtomicU64::new(now.get()),
            activity: AtomicU8::new(Activity::Asleep as u8),
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
    pub fn record_work(&self, packets: u64, busy: Nanos) {
        self.packets.store(packets, Relaxed);
        self.busy.store(busy.get(), Relaxed);
    }

    #[inline]
    pub fn set_activity(&self, doing: Activity) {
        self.activity.store(doing as u8, Relaxed);
    }

    /// Records a wakeup by a port or another thread.
    pub fn record_wakeup(&self) {
        // Only this thread writes the counter, so it needs no atomic addition.
        self.wakeups.store(self.wakeups.load(Relaxed) + 1, Relaxed);
    }

    pub fn record_restart(&self) {
        self.restarts.store(self.restarts.load(Relaxed) + 1, Relaxed);
    }

    pub fn activity(&self) -> Activity {
        Activity::ALL[usize::from(self.activity.load(Relaxed))]
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
    pub fn set_load(&self, load: u64, rate: u64) {
        self.load.store(load, Relaxed);
        self.rate.store(rate, Relaxed);
    }

    /// Returns whether it answers requests.
    pub fn is_responsive(&self) -> bool {
        self.activity().is_alive() && !self.is_stuck()
    }

    /// Returns the worker for the API; counters that only its report has are zero.
    pub fn to_reply(&self, worker: u16, core: Option<u16>, now: Instant) -> api::WorkerReply {
        let doing = self.activity();
        let state = match doing {
            Activity::GivenUp => api::WorkerState::Failed,
            Activity::Ended => api::WorkerState::Ended,
            _ if self.is_stuck() => api::WorkerState::Stuck,
            Activity::Working => api::WorkerState::Working,
            Activity::Spinning => api::WorkerState::Spinning,
            Activity::Asleep => api::WorkerState::Asleep,
        };
        let (packets, busy) = self.work();
        api::WorkerReply {
            worker,
            core,
            state,
            busy_ppm: if doing.is_alive() { self.load.load(Relaxed) } else { 0 },
            packets_per_second: if doing.is_alive() { self.rate.load(Relaxed) } else { 0 },
            busy_ns: busy.get(),
            packets,
            wakeups: self.wakeups.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            heartbeat_age_ns: now.since(self.last_beat()).get(),
            handed_over_packets: 0,
            taken_over_packets: 0,
            held_packets: 0,
            stalls: api::CounterFields::default(),
        }
    }
}
