//! The observer of a worker: passes events to the log, and packets to captures and traces.
//!
//! A worker never waits for a reader. A packet for a reader whose channel is full is counted as missed. Without a capture or a trace, a worker
//! executes two loads per step.

use crate::arrivals::ReceivedFrames;
use crate::capture::{CaptureTaps, offer};
use crate::events::{EventLog, LoggedEvent};
use crate::trace::Traces;
use packet::event::{Event, EventInterests, Observer};
use packet::{Meta, Packet};
use std::sync::Arc;
use units::{Instant, PortId};

/// The observer of one worker.
pub(crate) struct WorkerObserver {
    pub log: Arc<EventLog>,
    pub taps: Arc<CaptureTaps>,
    pub traces: Arc<Traces>,
    pub arrivals: Arc<ReceivedFrames>,
}

impl Observer for WorkerObserver {
    fn event(&mut self, now: Instant, event: &Event<'_>) {
        match *event {
            Event::Packet { frame, meta, fate, number } => {
                if meta.flags & Meta::FOLLOWED != 0 {
                    self.traces.record_fate(now, frame, meta, fate, number);
                }
                let arrival = self.taps.is_watched().then(|| self.arrivals.take(number, meta)).flatten();
                offer(&self.taps, now, frame, meta, fate, arrival);
            }
            Event::StagePassed { frame, meta, stage, number } => {
                self.traces.record_stage(now, frame, meta, stage, number)
            }
            _ => self.log_event(now, event),
        }
    }

    fn interests(&self) -> EventInterests {
        let captures = self.taps.is_watched();
        EventInterests { packets: captures, stages: self.traces.has_traces(), arrivals: captures }
    }

    fn choose(&mut self, now: Instant, port: PortId, packets: &mut [Packet]) {
        self.arrivals.record(&self.taps, now, port, packets);
        self.traces.choose(now, port, packets);
    }
}

impl WorkerObserver {
    fn log_event(&self, now: Instant, event: &Event<'_>) {
        if let Some(what) = LoggedEvent::of(event) {
            self.log.push(now, what);
        }
    }
}
