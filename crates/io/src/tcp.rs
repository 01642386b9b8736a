//! TCP connections of the kernel for experiments: sets their congestion control and reads their state (tcp(7), TCP_INFO).

use crate::sys::{get_option, set_option};
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The settings of a connection before it is established.
#[derive(Clone, Copy, Debug)]
pub struct TcpConnectOptions<'a> {
    /// The congestion control, by its name in `net.ipv4.tcp_available_congestion_control`.
    pub congestion_control: &'a str,
    /// The maximum segment size, including the options of its header (TCP_MAXSEG).
    pub max_segment: u16,
    /// The maximum of unsent bytes in the socket (TCP_NOTSENT_LOWAT).
    pub max_unsent: u32,
}

impl TcpConnectOptions<'_> {
    fn socket(&self) -> io::Result<OwnedFd> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_tcp_congestion(&socket, self.congestion_control)?;
        set_option(&socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &u32::from(self.max_segment))?;
        set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &self.max_unsent)?;
        Ok(socket)
    }

    /// Listens at an address, in the calling thread's network.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error; "no such file" if it does not know the congestion control.
    pub fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        let socket = self.socket()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrAny::from(at))?;
        listen(&socket, 16)?;
        Ok(socket.into())
    }

    /// Connects within this time.
    ///
    /// # Errors
    ///
    /// See [`TcpConnectOptions::listen`]; in addition a time-out.
    pub fn connect(&self, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let socket = self.socket()?;
        // The time limit for sending also applies to connect(2). Later sends have none.
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(within))?;
        connect(&socket, &SocketAddrAny::from(to))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
        Ok(socket.into())
    }
}

/// The state of the sender's congestion control (`tcp_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CongestionState {
    /// No congestion detected.
    Open,
    /// Reducing the window because of ECN marks.
    Reducing,
    /// Recovering from losses.
    Recovering,
    /// Recovering after a retransmission time-out.
    TimedOut,
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpInfo {
    /// The state of its congestion control.
    pub congestion_state: CongestionState,
    /// Data bytes of a segment.
    pub segment_size: u32,
    /// Unacknowledged segments.
    pub outstanding: u32,
    /// Those of them that were selectively acknowledged.
    pub sacked: u32,
    /// Those of them that are considered lost.
    pub lost: u32,
    /// Those of them that were retransmitted.
    pub retransmitted: u32,
    /// The smoothed round-trip time, in microseconds.
    pub smoothed_rtt_us: u32,
    /// The slow start threshold, in segments.
    pub slow_start_threshold: u32,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// Bytes acknowledged so far; the SYN counts as one.
    pub acknowledged: u64,
    /// Segments sent, including retransmissions.
    pub sent: u32,
    /// Retransmitted segments.
    pub total_retransmitted: u32,
    /// Retransmissions that the receiver reported as duplicates.
    pub duplicate_retransmits: u32,
    /// Reordering events seen in acknowledgements.
    pub reordered: u32,
}

impl TcpInfo {
    /// The number of segments in flight.
    pub fn in_flight(&self) -> u32 {
        // The kernel's tcp_packets_in_flight().
        (self.outstanding + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }
}

/// Words of `struct tcp_info` up to `tcpi_reord_seen`. Values that a kernel does not report are zero.
const WORDS: usize = 56;

/// The current state of a connection.
///
/// # Errors
///
/// If it is not a TCP connection.
pub fn info(connection: impl AsFd) -> io::Result<TcpInfo> {
    let words = get_option(connection, libc::IPPROTO_TCP, libc::TCP_INFO, [0u32; WORDS])?;
    // Offsets in the kernel's structure, linux/tcp.h.
    let word = |offset: usize| words[offset / 4];
    let [_, doing, ..] = word(0).to_ne_bytes();
    let acknowledged = [word(120).to_ne_bytes(), word(124).to_ne_bytes()].concat();
    Ok(TcpInfo {
        congestion_state: match doing {
            2 => CongestionState::Reducing,
            3 => CongestionState::Recovering,
            4.. => CongestionState::TimedOut,
            // 1 is Disorder: reordering or a loss is suspected, and the window is not reduced yet.
            _ => CongestionState::Open,
        },
        segment_size: word(16),
        outstanding: word(24),
        sacked: word(28),
        lost: word(32),
        retransmitted: word(36),
        smoothed_rtt_us: word(68),
        slow_start_threshold: word(76),
        congestion_window: word(80),
        acknowledged: acknowledged.try_into().map_or(0, u64::from_ne_bytes),
        total_retransmitted: word(100),
        sent: word(156),
        duplicate_retransmits: word(216),
        reordered: word(220),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn connection_has_requested_options_and_reports_tcp_info() {
        let manner = TcpConnectOptions { congestion_control: "reno", max_segment: 1000, max_unsent: 1 << 16 };
        let listener = manner.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut near = manner.connect(address, Duration::from_secs(5)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(sockopt::tcp_congestion(&near).unwrap(), "reno");
        let before = info(&near).unwrap();
        assert_eq!(
            (before.congestion_state, before.in_flight(), before.total_retransmitted),
            (CongestionState::Open, 0, 0)
        );
        assert!((900..=1000).contains(&before.segment_size), "{before:?}");
        near.write_all(&[7; 5000]).unwrap();
        let mut bytes = [0; 5000];
        far.read_exact(&mut bytes).unwrap();
        // The last acknowledgement is delayed by up to 40 ms; data in the other direction carries it at once.
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut [0]).unwrap();
        let after = info(&near).unwrap();
        assert_eq!(after.acknowledged - before.acknowledged, 5000);
        assert!(
            after.sent - before.sent >= 5 && after.smoothed_rtt_us > 0 && after.congestion_window >= 10,
            "{after:?}"
        );
        let unknown = TcpConnectOptions { congestion_control: "no-such", ..manner };
        assert_eq!(unknown.connect(address, Duration::from_secs(1)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
