//! Connections of the kernel's TCP as somebody looks at them who compares it with others: which congestion control they have, and how they are
//! doing (tcp(7), TCP_INFO).

use crate::sys::{get_option, set_option};
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What a connection is to be like, said before it is made.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// The congestion control, as `net.ipv4.tcp_available_congestion_control` names them.
    pub control: &'a str,
    /// The longest segment, with the options of its header (TCP_MAXSEG).
    pub segment: u16,
    /// Bytes that wait in the socket before they are sent for the first time, at most (TCP_NOTSENT_LOWAT).
    pub unsent: u32,
}

impl Manner<'_> {
    fn socket(&self) -> io::Result<OwnedFd> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_tcp_congestion(&socket, self.control)?;
        set_option(&socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &u32::from(self.segment))?;
        set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &self.unsent)?;
        Ok(socket)
    }

    /// Listens at an address of the network that the calling thread is in.
    ///
    /// # Errors
    ///
    /// What the kernel says; that there is no such file where it does not know the congestion control.
    pub fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        let socket = self.socket()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrAny::from(at))?;
        listen(&socket, 16)?;
        Ok(socket.into())
    }

    /// A connection, within some time.
    ///
    /// # Errors
    ///
    /// As of [`Manner::listen`], and that nobody answers.
    pub fn connect(&self, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let socket = self.socket()?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(within))?;
        connect(&socket, &SocketAddrAny::from(to))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
        Ok(socket.into())
    }
}

/// What its sender is doing (`tcp_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Doing {
    /// Nothing is amiss, or not yet known to be.
    Open,
    /// It takes its window down for marks.
    Reducing,
    /// It makes up for losses.
    Recovering,
    /// It does so after a time-out.
    TimedOut,
}

/// How a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// What its sender is doing.
    pub doing: Doing,
    /// Data in a segment, in bytes.
    pub segment: u32,
    /// Segments sent and not acknowledged, and of those how many were selectively acknowledged, are taken for lost, were sent again.
    pub outstanding: u32,
    /// See there.
    pub selected: u32,
    /// See there.
    pub lost: u32,
    /// See there.
    pub repeated: u32,
    /// The smoothed round-trip time, in microseconds.
    pub smoothed_us: u32,
    /// The slow start threshold, in segments.
    pub threshold: u32,
    /// The congestion window, in segments.
    pub window: u32,
    /// Bytes acknowledged so far; the beginning of the connection counts as one.
    pub acknowledged: u64,
    /// Segments sent, and sent again.
    pub sent: u32,
    /// See there.
    pub again: u32,
    /// Segments sent again of which the receiver said that it had them, and times that acknowledgements told of segments that had overtaken others.
    pub in_vain: u32,
    /// See there.
    pub reordered: u32,
}

impl State {
    /// Segments that are under way.
    pub fn in_flight(&self) -> u32 {
        (self.outstanding + self.repeated).saturating_sub(self.selected + self.lost)
    }
}

/// Words of `struct tcp_info` until `tcpi_reord_seen`; what a kernel does not tell is zero.
const WORDS: usize = 56;

/// How a connection is doing now.
///
/// # Errors
///
/// That it is no TCP connection.
pub fn state(connection: impl AsFd) -> io::Result<State> {
    let words = get_option(connection, libc::IPPROTO_TCP, libc::TCP_INFO, [0u32; WORDS])?;
    // Offsets of the kernel's interface, linux/tcp.h.
    let word = |offset: usize| words[offset / 4];
    let [_, doing, ..] = word(0).to_ne_bytes();
    let acknowledged = [word(120).to_ne_bytes(), word(124).to_ne_bytes()].concat();
    Ok(State {
        doing: match doing {
            2 => Doing::Reducing,
            3 => Doing::Recovering,
            4.. => Doing::TimedOut,
            _ => Doing::Open,
        },
        segment: word(16),
        outstanding: word(24),
        selected: word(28),
        lost: word(32),
        repeated: word(36),
        smoothed_us: word(68),
        threshold: word(76),
        window: word(80),
        acknowledged: acknowledged.try_into().map_or(0, u64::from_ne_bytes),
        again: word(100),
        sent: word(156),
        in_vain: word(216),
        reordered: word(220),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_connection_is_as_it_was_asked_for_and_tells_how_it_is_doing() {
        let manner = Manner { control: "reno", segment: 1000, unsent: 1 << 16 };
        let listener = manner.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut near = manner.connect(address, Duration::from_secs(5)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(sockopt::tcp_congestion(&near).unwrap(), "reno");
        let before = state(&near).unwrap();
        assert_eq!((before.doing, before.in_flight(), before.again), (Doing::Open, 0, 0));
        assert!((900..=1000).contains(&before.segment), "{before:?}");
        near.write_all(&[7; 5000]).unwrap();
        let mut bytes = [0; 5000];
        far.read_exact(&mut bytes).unwrap();
        // The last acknowledgement comes when the receiver has waited for more, 40 ms; it is asked for by data in return.
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut [0]).unwrap();
        let after = state(&near).unwrap();
        assert_eq!(after.acknowledged - before.acknowledged, 5000);
        assert!(after.sent - before.sent >= 5 && after.smoothed_us > 0 && after.window >= 10, "{after:?}");
        let unknown = Manner { control: "no-such", ..manner };
        assert_eq!(unknown.connect(address, Duration::from_secs(1)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
