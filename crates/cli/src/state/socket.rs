//! Sockets by which parts travel.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

/// How often a part is handed over that a socket does not take because of earlier ones.
const TRIES: usize = 4;

/// Sends a part. A socket says of an earlier one that it came back before it takes another.
pub fn send(socket: &UdpSocket, bytes: &[u8]) -> io::Result<()> {
    let mut sent = socket.send(bytes);
    for _ in 1..TRIES {
        if !sent.as_ref().is_err_and(is_of_an_answer) {
            break;
        }
        sent = socket.send(bytes);
    }
    sent.map(drop)
}

/// Whether an error of a socket says that something it sent has come back.
pub fn is_of_an_answer(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Over loopback the answer to each datagram is there before the next one is sent.
    #[test]
    fn what_is_refused_because_of_an_earlier_one_is_sent_again() {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let there = receiver.local_addr().unwrap();
        sender.connect(there).unwrap();
        drop(receiver);
        send(&sender, b"nobody is there").unwrap();
        let receiver = UdpSocket::bind(there).unwrap();
        send(&sender, b"somebody is").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let mut bytes = [0; 100];
        assert_eq!(receiver.recv(&mut bytes).map(|length| bytes[..length].to_vec()).unwrap(), b"somebody is");
    }
}
