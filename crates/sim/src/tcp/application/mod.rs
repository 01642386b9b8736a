//! Applications: they decide when a connection has data to send, and measure how it was served.

mod sizes;
mod times;
mod web;

pub use sizes::FlowSizes;
pub use times::{FlowTimes, SmoothedRtt, Transfer};
pub use web::{Web, WebDraws, WebSettings};

use super::Sender;
use units::Instant;

/// The user of a connection. Call [`TcpApplication::begin`] once, [`TcpApplication::acknowledged`] after each acknowledgement, and [`TcpApplication::expire`]
/// at the time of [`TcpApplication::timer`]. After each call ask the sender for segments.
#[derive(Debug)]
pub enum TcpApplication {
    /// No application: the owner of the sender offers the data.
    Silent,
    /// One endless transfer. Its metric is throughput.
    Bulk,
    /// The same. Its metric is power: throughput divided by delay.
    Interactive,
    /// Transfers one after the other on the same connection, with pauses. Their metric is completion time.
    Web(Box<Web>),
}

impl TcpApplication {
    /// Starts the application.
    pub fn begin(&mut self, now: Instant, sender: &mut Sender) {
        match self {
            TcpApplication::Silent => {}
            TcpApplication::Bulk | TcpApplication::Interactive => sender.offer(now, u64::MAX),
            TcpApplication::Web(web) => web.begin(now),
        }
    }

    /// When it must run again.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        match self {
            TcpApplication::Web(web) => web.timer(),
            _ => None,
        }
    }

    /// Runs it at the time of [`TcpApplication::timer`]. Does nothing before that time.
    pub fn expire(&mut self, now: Instant, sender: &mut Sender) {
        if let TcpApplication::Web(web) = self {
            web.expire(now, sender);
        }
    }

    /// The sender has processed an acknowledgement.
    #[inline]
    pub fn acknowledged(&mut self, now: Instant, sender: &Sender) {
        if let TcpApplication::Web(web) = self {
            web.acknowledged(now, sender);
        }
    }

    /// Its transfers so far, if it has finite ones.
    pub fn completions(&self) -> &[Transfer] {
        match self {
            TcpApplication::Web(web) => web.completions(),
            _ => &[],
        }
    }
}
