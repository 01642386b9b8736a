//! The settings of a connection, apart from its congestion control.

use units::{Bytes, Nanos};

/// The payload of a packet of [`Settings::plain`].
pub const TCP_PAYLOAD: Bytes = Bytes::new(1210);
/// Such a packet with its headers: 20 bytes IPv4, 20 bytes TCP, 10 bytes for timestamps.
pub const TCP_PACKET: Bytes = Bytes::new(1260);

/// When a silent sender reduces its window, because its knowledge of the path is outdated (RFC 5681, 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleRestart {
    /// Never.
    Off,
    /// After a silence of one timeout since the last acknowledgement, to the initial window. The simulations of the literature do so, because their
    /// timer keeps running while nothing is outstanding.
    AfterAcknowledged,
    /// After a silence of one timeout since the last transmission, to the initial window, as in RFC 5681.
    AfterSent,
    /// The same, but the window is halved for each timeout that has passed, and not below the initial window, as in Linux.
    Decay,
}

/// The quantity that the minimum timeout bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutFloor {
    /// The timeout (RFC 6298, 2.4).
    Whole,
    /// Its deviation term, as in Linux. So the timeout always exceeds the round-trip time by that.
    Variation,
}

/// The acknowledgement policy of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckPolicy {
    /// Every packet is acknowledged.
    Each,
    /// Every second packet is acknowledged, a single one after this delay (RFC 5681, 4.2).
    Delayed(Nanos),
}

/// The settings of both ends of a connection, and of the sender's behaviour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Packets that may be sent before the first acknowledgement.
    pub initial_window: u64,
    /// Packets that the receiver has room for.
    pub receive_window: u64,
    /// True if selective acknowledgements are used.
    pub selective: bool,
    /// The acknowledgement policy.
    pub acknowledging: AckPolicy,
    /// True if each of the first two duplicate acknowledgements allows a new packet (RFC 3042).
    pub limited_transmit: bool,
    /// The reduction of a silent sender's window.
    pub restart: IdleRestart,
    /// The step of the clock that measures round-trip times.
    pub clock: Nanos,
    /// The timeout before the first round-trip time.
    pub initial_timeout: Nanos,
    /// The shortest time-out.
    pub least_timeout: Nanos,
    /// The longest.
    pub longest_timeout: Nanos,
    /// The quantity that `least_timeout` bounds.
    pub floor: TimeoutFloor,
    /// True if windows grow by acknowledged packets, and only while the window limits the sender. Otherwise they always grow by acknowledgements.
    pub counts_packets: bool,
    /// True if packets sent at once are super-frames, divided into packets on transmission. As in Linux the last packet of each has the PSH flag, and
    /// a receiver acknowledges such a packet without waiting for a second one.
    pub super_frames: bool,
    /// True if packets are ECN-capable.
    pub marks: bool,
}

impl Settings {
    /// The sender of the published simulations: NewReno by acknowledgement, initial window two, a clock of 0.1 ms.
    pub const fn plain() -> Settings {
        Settings {
            initial_window: 2,
            receive_window: 10_000_000,
            selective: false,
            acknowledging: AckPolicy::Each,
            limited_transmit: true,
            restart: IdleRestart::AfterAcknowledged,
            clock: Nanos::micros(100),
            initial_timeout: Nanos::secs(3),
            least_timeout: Nanos::millis(200),
            longest_timeout: Nanos::secs(60),
            floor: TimeoutFloor::Whole,
            counts_packets: false,
            super_frames: false,
            marks: false,
        }
    }

    /// The behaviour of Linux: initial window ten, selective and delayed acknowledgements, windows that grow by acknowledged packets.
    pub const fn kernel() -> Settings {
        Settings {
            initial_window: 10,
            receive_window: 10_000_000,
            selective: true,
            acknowledging: AckPolicy::Delayed(Nanos::millis(40)),
            limited_transmit: true,
            restart: IdleRestart::Decay,
            clock: Nanos::millis(1),
            initial_timeout: Nanos::secs(1),
            least_timeout: Nanos::millis(200),
            longest_timeout: Nanos::secs(120),
            floor: TimeoutFloor::Variation,
            counts_packets: true,
            super_frames: true,
            marks: false,
        }
    }
}
