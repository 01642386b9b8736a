//! Applications: when a connection has something to send, and how well it was served.

mod sizes;
mod times;
mod web;

pub use sizes::FlowSizes;
pub use times::{Completion, FlowTimes, SmoothedRtt};
pub use web::{Draws, Web, WebSettings};

use super::Sender;
use units::Instant;

/// What uses a connection. Call [`Application::begin`] once, [`Application::acknowledged`] after each acknowledgement, and
/// [`Application::expire`] when [`Application::timer`] says so; then ask the sender what it has.
#[derive(Debug)]
pub enum Application {
    /// None: whoever holds the sender offers it what it is to send.
    Silent,
    /// One transfer without end: it wants throughput.
    Bulk,
    /// The same, but it wants power: throughput divided by delay.
    Interactive,
    /// One transfer after the other on the same connection, with pauses: it wants each to be over soon.
    Web(Box<Web>),
}

impl Application {
    /// The world begins.
    pub fn begin(&mut self, now: Instant, sender: &mut Sender) {
        match self {
            Application::Silent => {}
            Application::Bulk | Application::Interactive => sender.offer(now, u64::MAX),
            Application::Web(web) => web.begin(now),
        }
    }

    /// When it wants to be looked at again.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        match self {
            Application::Web(web) => web.timer(),
            _ => None,
        }
    }

    /// The time that [`Application::timer`] gave has come. Does nothing before.
    pub fn expire(&mut self, now: Instant, sender: &mut Sender) {
        if let Application::Web(web) = self {
            web.expire(now, sender);
        }
    }

    /// The sender has been handed an acknowledgement.
    #[inline]
    pub fn acknowledged(&mut self, now: Instant, sender: &Sender) {
        if let Application::Web(web) = self {
            web.acknowledged(now, sender);
        }
    }

    /// Its transfers so far, where it has several.
    pub fn completions(&self) -> &[Completion] {
        match self {
            Application::Web(web) => web.completions(),
            _ => &[],
        }
    }
}
