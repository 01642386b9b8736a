//! What a connection is like, apart from how it reacts to congestion.

use units::{Bytes, Nanos};

/// Data in a packet of [`Settings::plain`].
pub const TCP_PAYLOAD: Bytes = Bytes::new(1210);
/// Such a packet with its headers: 20 bytes IPv4, 20 bytes TCP, 10 bytes for timestamps.
pub const TCP_PACKET: Bytes = Bytes::new(1260);

/// When a sender that has been silent forgets its window, because it has not been told about the path for long
/// (RFC 5681, 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// Never.
    Off,
    /// A time-out's length after the last packet was acknowledged: back to the initial window. So do the simulations of the
    /// literature, whose timer runs on while nothing is outstanding.
    AfterAcknowledged,
    /// A time-out's length after the last packet was sent: back to the initial window. So does RFC 5681.
    AfterSent,
    /// The same, but halved for every such time that has passed, and no further down than the initial window. So does Linux.
    Decay,
}

/// What the least time-out bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floor {
    /// The time-out (RFC 6298, 2.4).
    Whole,
    /// The part of it that is for variation, as in Linux; so it is always longer than the round-trip time by that.
    Variation,
}

/// When a receiver answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledging {
    /// Every packet.
    Each,
    /// Every second packet, one that stands alone after this time (RFC 5681, 4.2).
    Delayed(Nanos),
}

/// What both ends of a connection agree upon, and what the sender does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Packets that may be sent before anything is known of the path.
    pub initial_window: u64,
    /// Packets that the receiver has room for.
    pub receive_window: u64,
    /// Whether selective acknowledgements are sent and used.
    pub selective: bool,
    /// When packets are answered.
    pub acknowledging: Acknowledging,
    /// Whether the first two duplicate acknowledgements let a new packet go each (RFC 3042).
    pub limited_transmit: bool,
    /// What happens to the window of a silent sender.
    pub restart: Restart,
    /// The step of the clock that round-trip times are read from.
    pub clock: Nanos,
    /// The time-out before there is a round-trip time.
    pub initial_timeout: Nanos,
    /// The shortest time-out.
    pub least_timeout: Nanos,
    /// The longest.
    pub longest_timeout: Nanos,
    /// What the shortest bounds.
    pub floor: Floor,
    /// Whether windows grow by packets acknowledged, and only while the window was what held the sender back; otherwise by
    /// acknowledgements, always.
    pub counted: bool,
    /// Whether packets that are sent at once are super-frames of several, cut when they leave. As Linux cuts them the last one of each is
    /// pushed, and a receiver that has read everything answers such a packet though no second one has come.
    pub super_frames: bool,
    /// Whether packets may be marked in place of being dropped (ECN).
    pub marks: bool,
}

impl Settings {
    /// The sender of the published simulations: NewReno by acknowledgement, initial window two, a clock of 0.1 ms.
    pub const fn plain() -> Settings {
        Settings {
            initial_window: 2,
            receive_window: 10_000_000,
            selective: false,
            acknowledging: Acknowledging::Each,
            limited_transmit: true,
            restart: Restart::AfterAcknowledged,
            clock: Nanos::micros(100),
            initial_timeout: Nanos::secs(3),
            least_timeout: Nanos::millis(200),
            longest_timeout: Nanos::secs(60),
            floor: Floor::Whole,
            counted: false,
            super_frames: false,
            marks: false,
        }
    }

    /// What Linux does: ten packets at first, selective and delayed acknowledgements, windows that grow by what was acknowledged.
    pub const fn kernel() -> Settings {
        Settings {
            initial_window: 10,
            receive_window: 10_000_000,
            selective: true,
            acknowledging: Acknowledging::Delayed(Nanos::millis(40)),
            limited_transmit: true,
            restart: Restart::Decay,
            clock: Nanos::millis(1),
            initial_timeout: Nanos::secs(1),
            least_timeout: Nanos::millis(200),
            longest_timeout: Nanos::secs(120),
            floor: Floor::Variation,
            counted: true,
            super_frames: true,
            marks: false,
        }
    }
}
