//! The packets that a request observes or injects, and the extent of a trace.

use plan::Match;
use units::Nanos;

/// The packets to capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CaptureRequest {
    /// The match they fulfil.
    pub matching: Match,
    /// The number of packets; none for no limit.
    pub limit: Option<u64>,
    /// The most bytes of each packet; none for all.
    pub snaplen: Option<usize>,
    /// Also capture each packet as received.
    pub arrivals: bool,
}

/// The packets to trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceRequest {
    /// The match they fulfil, and their number.
    pub capture: CaptureRequest,
    /// Their ingress port, if it matters.
    pub port: Option<String>,
    /// The most packets a second; none for the default.
    pub rate: Option<u64>,
    /// Only packets injected with `/v1/inject`.
    pub injected: bool,
}

/// The extent of a trace of the CPU schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTraceRequest {
    /// The duration.
    pub time: Nanos,
    /// The number of latest events kept of each worker.
    pub events: usize,
}

/// Frames to inject into a port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InjectRequest {
    /// The name of the port; by default the only one.
    pub port: Option<String>,
    /// True to treat them as addressed to that port, despite their destination MAC addresses.
    pub ours: bool,
    /// The frames.
    pub frames: Vec<Vec<u8>>,
}
