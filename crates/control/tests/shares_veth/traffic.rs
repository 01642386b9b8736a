//! Load by TCP of the kernel, and probes of the round-trip time.

use crate::access::{Access, address};
use io::clock;
use io::wait::{Sleeper, Waker};
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// The longest wait for a connection or a probe.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two rounds over all connections.
const ROUND: Nanos = Nanos::millis(2);
/// Threads that send probes. Each has one in flight.
const PROBERS: usize = 4;
/// The time between the probes of a thread.
const PROBE_SPACE: Nanos = Nanos::millis(5);
/// Headers of a TCP segment with timestamps in an IP packet.
const HEADERS: usize = 20 + 32;
/// The header of an Ethernet frame without tags.
const ETHERNET: usize = 14;

/// The direction of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the subscriber.
    Down,
    /// From the subscriber.
    Up,
}

/// A TCP connection that always has data to send.
struct Bulk {
    sender: TcpStream,
    receiver: TcpStream,
    /// The bytes of a frame before the segment.
    headers: f64,
}

impl Bulk {
    /// The bytes that have arrived, also those beyond a hole, and the bytes of a segment. The bytes that the receiver can read would jump at each repaired
    /// hole, by a tenth of a second's data and more.
    fn delivered(&self) -> (u64, u32) {
        let info = io::tcp::info(&self.sender).unwrap();
        (info.acknowledged + u64::from(info.sacked) * u64::from(info.segment_size), info.segment_size)
    }
}

/// Connections with the addresses of subscribers, driven by the calling thread.
#[derive(Default)]
pub struct Load {
    connections: Vec<Bulk>,
}

/// The measurements of a load.
pub struct LoadResult {
    /// The rate of each connection in frames on the link, in bits per second.
    pub rates: Vec<f64>,
    /// The smoothed round-trip times that the senders have at the end.
    pub smoothed: Vec<Nanos>,
}

/// Opens a connection from this address. The calling thread is in the network of the subscribers.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE)).unwrap();
    bind(&socket, &SocketAddrAny::from(SocketAddr::from((from, 0)))).unwrap();
    connect(&socket, &SocketAddrAny::from(to)).unwrap_or_else(|error| panic!("from {from} to {to}: {error}"));
    socket.into()
}

impl Load {
    /// Opens a connection of the subscriber with this number to this address of the host of the Internet.
    /// Returns the address that the latter sees.
    pub fn connect(&mut self, access: &Access, to: Ipv4Addr, number: usize, direction: Direction) -> SocketAddr {
        self.connect_behind(access, to, number, direction, ETHERNET)
    }

    /// The same where the frames at the router have link headers of this many bytes.
    pub fn connect_behind(
        &mut self,
        access: &Access,
        to: Ipv4Addr,
        number: usize,
        direction: Direction,
        link: usize,
    ) -> SocketAddr {
        let listener = access.internet.run(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
        let to = SocketAddr::from((to, listener.local_addr().unwrap().port()));
        let inside = access.subscribers.run(|| connect_from(address(number), to)).unwrap();
        let (outside, peer) = listener.accept().unwrap();
        for stream in [&inside, &outside] {
            stream.set_nonblocking(true).unwrap();
        }
        let (sender, receiver) = match direction {
            Direction::Down => (outside, inside),
            Direction::Up => (inside, outside),
        };
        self.connections.push(Bulk { sender, receiver, headers: (HEADERS + link) as f64 });
        peer
    }

    /// Sends and receives for this time. Returns the time it really took.
    fn drive(&mut self, span: Nanos) -> Nanos {
        let mut buffer = vec![0; 1 << 18];
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        let begun = clock::now();
        loop {
            for one in &mut self.connections {
                while let Ok(1..) = one.sender.write(&buffer[..1 << 16]) {}
                loop {
                    match one.receiver.read(&mut buffer) {
                        Ok(0) => panic!("the connection has ended"),
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            let passed = clock::now().since(begun);
            if passed >= span {
                return passed;
            }
            sleeper.sleep([], ROUND).unwrap();
        }
    }

    /// Sends for `warm_up` and then for `span`; measures in the latter.
    pub fn run(&mut self, [warm_up, span]: [Nanos; 2]) -> LoadResult {
        self.drive(warm_up);
        let before: Vec<u64> = self.connections.iter().map(|one| one.delivered().0).collect();
        let passed = self.drive(span);
        let mut result = LoadResult { rates: Vec::new(), smoothed: Vec::new() };
        for (one, before) in self.connections.iter().zip(before) {
            let (delivered, segment) = one.delivered();
            let segment = f64::from(segment);
            let frames = (delivered - before) as f64 * (segment + one.headers) / segment;
            result.rates.push(frames * 8.0 / passed.as_secs_f64());
            let smoothed = io::tcp::info(&one.sender).unwrap().smoothed_rtt_us;
            result.smoothed.push(Nanos::micros(u64::from(smoothed)));
        }
        result
    }
}

/// Returns the round-trip times of subscribers' probes while `work` runs: datagrams of 60 bytes that the host of the Internet returns at once. A lost one
/// counts as the longest wait.
pub fn probing<R>(access: &Access, to: Ipv4Addr, numbers: &[usize], work: impl FnOnce() -> R) -> (R, Vec<Nanos>) {
    let echo = access.internet.run(|| UdpSocket::bind("0.0.0.0:7").unwrap()).unwrap();
    echo.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let sockets: Vec<UdpSocket> = access
        .subscribers
        .run(|| numbers.iter().map(|number| UdpSocket::bind((address(*number), 0)).unwrap()).collect())
        .unwrap();
    for socket in &sockets {
        socket.connect((to, 7)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        scope.spawn(|| {
            let mut buffer = [0; 64];
            while !over.load(Ordering::Acquire) {
                if let Ok((length, from)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..length], from);
                }
            }
        });
        let probers: Vec<_> = (0..PROBERS)
            .map(|first| {
                let mine: Vec<&UdpSocket> = sockets.iter().skip(first).step_by(PROBERS).collect();
                scope.spawn(move || probe(&mine, over))
            })
            .collect();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Release);
        let times = probers.into_iter().flat_map(|prober| prober.join().unwrap()).collect();
        (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), times)
    })
}

/// Sends probes by each of the sockets in turn until `over`. Returns their round-trip times.
fn probe(sockets: &[&UdpSocket], over: &AtomicBool) -> Vec<Nanos> {
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    let mut times = Vec::new();
    for socket in sockets.iter().cycle() {
        if over.load(Ordering::Acquire) {
            break;
        }
        let sent = clock::now();
        socket.send(&[&sent.get().to_be_bytes()[..], &[0; 10]].concat()).unwrap();
        times.push(await_echo(socket, sent));
        sleeper.sleep([], PROBE_SPACE).unwrap();
    }
    times
}

/// Waits for the answer to the probe sent at this time.
fn await_echo(socket: &UdpSocket, sent: Instant) -> Nanos {
    let mut buffer = [0; 64];
    // An answer to an earlier probe may arrive first.
    while let Ok(18..) = socket.recv(&mut buffer) {
        if buffer[..8] == sent.get().to_be_bytes() {
            return clock::now().since(sent);
        }
    }
    Nanos::from(PATIENCE)
}
