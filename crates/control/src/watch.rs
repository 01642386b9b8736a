//! The observer of a worker: passes events to the log, and packets to captures and traces.
//!
//! A worker never waits for a reader. A packet for a reader whose channel is full is counted as missed. Without a capture or a trace, a worker
//! executes two loads per step.

use crate::arrivals::Arrivals;
use crate::capture::{Taps, offer};
use crate::events::{EventLog, What};
use crate::trace::Traces;
use packet::event::{Event, Observer, Wants};
use packet::{Meta, Packet};
use std::sync::Arc;
use units::{Instant, PortId};

/// The observer of one worker.
pub(crate) struct Watcher {
    pub log: Arc<EventLog>,
    pub taps: Arc<Taps>,
    pub traces: Arc<Traces>,
    pub arrivals: Arc<Arrivals>,
}

impl Observer for Watcher {
    fn event(&mut self, now: Instant, event: &Event<'_>) {
        match *event {
            Event::Packet { frame, meta, fate, number } => {
                if meta.flags & Meta::FOLLOWED != 0 {
                    self.traces.end(now, frame, meta, fate, number);
                }
                let arrival = self.taps.is_watched().then(|| self.arrivals.take(number, meta)).flatten();
                offer(&self.taps, now, frame, meta, fate, arrival);
            }
            Event::Passed { frame, meta, stage, number } => self.traces.pass(now, frame, meta, stage, number),
            _ => self.log_event(now, event),
        }
    }

    fn wants(&self) -> Wants {
        let captures = self.taps.is_watched();
        Wants { packets: captures, stages: self.traces.are_open(), arrivals: captures }
    }

    fn choose(&mut self, now: Instant, port: PortId, packets: &mut [Packet]) {
        self.arrivals.keep(&self.taps, now, port, packets);
        self.traces.choose(now, port, packets);
    }
}

impl Watcher {
    fn log_event(&self, now: Instant, event: &Event<'_>) {
        if let Some(what) = What::of(event) {
            self.log.push(now, what);
        }
    }
}
