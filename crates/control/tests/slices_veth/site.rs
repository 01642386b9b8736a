//! Two tenants on one router, whose nodes are UDP sockets of the kernel in other namespaces.

use control::api::{AccessLevel, Author, SliceReply, Via};
use control::{Daemon, DaemonOptions, SliceRights};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost};
use io::thread_priority::NicePriority;
use io::wait::{Sleeper, Waker};
use packet::frames::UdpFrame;
use slice::code::CodeRegistration;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use units::{Mac, Nanos};

/// The scheduler of `wan` has 80 Mbit/s, with all bytes that Ethernet needs for a frame.
const CONFIG: &str = "version = 1
[port.lan]
device = 'packet:lan'
address = ['192.0.2.1/24']
[port.lan2]
device = 'packet:lan2'
address = ['203.0.113.1/24']
[port.wan]
device = 'packet:wan'
address = ['198.51.100.1/24']
scheme = 'share(rate=100mbit, overhead=24b)'
shares = ['engine rate 80mbit ceiling 80mbit']
";

/// A path for the packets of all slices.
pub const SHARED_PATH: &str = "[[path]]
name = 'slices'
match = 'ip daddr { 192.0.2.1, 203.0.113.1, 198.51.100.1 } udp dport 20000-20999'
functions = ['slice']
";

/// Two paths for each slice, for the packets to it and for those that it sends, and a task of the worker for each path.
pub const OWN_PATHS: &str = "[cpu]
best_effort = 'by_rule'
[[path]]
name = 'to-a'
match = 'ip daddr { 192.0.2.1, 198.51.100.1 } udp dport 20000'
functions = ['slice']
[[path]]
name = 'from-a'
match = 'ip saddr { 192.0.2.1, 198.51.100.1 } udp sport 20000'
[[path]]
name = 'to-b'
match = 'ip daddr { 203.0.113.1, 198.51.100.1 } udp dport 20001'
functions = ['slice']
[[path]]
name = 'from-b'
match = 'ip saddr { 203.0.113.1, 198.51.100.1 } udp sport 20001'
";

/// Two slices that divide the scheduler 3 to 1. Packets to 10.0.0.0/16 go to the node at the other side.
const SLICES: &str = "\
create a code ipv4 filters 16 rate 60mbit unmatched drop
mi add a 0 192.0.2.1:20000
mi add a 1 198.51.100.1:20000
reserve a wan/engine rate 60mbit
queue set a 1 wan/engine
filter insert a 0 value 000a00 mask 00ffff send 1 1 198.51.100.9:20000
create b code CODE filters 2000 rate 20mbit UNMATCHED exceptions 100000
mi add b 0 203.0.113.1:20001
mi add b 1 198.51.100.1:20001
reserve b wan/engine rate 20mbit
queue set b 1 wan/engine limit 1mb
filter insert b 0 value 000a00 mask 00ffff send 1 1 198.51.100.9:20001
";

pub const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
pub const OTHER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
pub const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
pub const WAN: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The meta-interfaces that receive.
const RECEIVING: [(Ipv4Addr, u16); 2] =
    [(Ipv4Addr::new(192, 0, 2, 1), 20_000), (Ipv4Addr::new(203, 0, 113, 1), 20_001)];
/// The longest wait for a packet: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// near - lan \[router\] wan - far, and other - lan2. Slice `a` has a socket at `near`, `b` at `other`, and both at `far`.
pub struct Site {
    pub daemon: Arc<Daemon>,
    pub near: [UdpSocket; 2],
    pub far: [UdpSocket; 2],
    _hosts: [LabHost; 4],
}

impl Site {
    /// Slices on these paths. The code option of slice `b` is `code`, of which the router gets the registration, or `ipv4`. `None` without the right to
    /// make namespaces.
    pub fn new(paths: &str, code: Option<&'static CodeRegistration>, unmatched: &str) -> Option<Site> {
        let config = format!("{CONFIG}{paths}");
        let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
        let hosts = ["near", "other", "router", "far"].map(|name| lab.host(name).unwrap());
        let [near, other, router, far] = &hosts;
        router.silence_kernel().unwrap();
        lab.cable(&near.plug("eth0"), &router.plug("lan")).unwrap();
        lab.cable(&other.plug("eth0"), &router.plug("lan2")).unwrap();
        lab.cable(&far.plug("eth0"), &router.plug("wan")).unwrap();
        near.add_address("eth0", NEAR.into(), 24).unwrap();
        other.add_address("eth0", OTHER.into(), 24).unwrap();
        far.add_address("eth0", FAR.into(), 24).unwrap();
        let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
        let plan = plan::check(&config, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut options = DaemonOptions::new(devices, &config, "test.toml", |notice| panic!("{notice:?}"));
        options.code_options.extend(code);
        // The worker inherits it: programs beside the test must not stop the router.
        let _first = NicePriority::acquire().ok();
        let daemon = Daemon::start(&plan, options).unwrap_or_else(|error| panic!("{error}"));
        let text = SLICES.replace("CODE", code.map_or("ipv4", |code| code.name)).replace("UNMATCHED", unmatched);
        daemon.edit_slices(operator(), (&text, "test")).unwrap_or_else(|failure| panic!("{failure:?}"));
        let socket = |host: &LabHost, place: (Ipv4Addr, u16)| {
            let socket = host.run(|| UdpSocket::bind(place).unwrap()).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let near = [socket(near, (NEAR, 20_000)), socket(other, (OTHER, 20_001))];
        let far = [20_000, 20_001].map(|port| socket(far, (FAR, port)));
        near.iter().zip(RECEIVING).for_each(|(socket, to)| socket.connect(to).unwrap());
        Some(Site { daemon, near, far, _hosts: hosts })
    }

    pub fn slice(&self, name: &str) -> SliceReply {
        let reply = self.daemon.slices(operator(), Some(name)).unwrap_or_else(|failure| panic!("{failure:?}"));
        reply.slices.into_iter().next().expect("the slice exists")
    }
}

/// A thread with the priority of the router's worker that is late by more shows that the machine stalls, and the worker with it.
const STALL: Nanos = Nanos::millis(4);

/// The result of a measurement in which the machine did not stall, of at most `attempts`.
pub fn without_stall<T>(attempts: usize, mut measure: impl FnMut() -> T) -> Option<T> {
    (0..attempts).find_map(|_| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let _first = NicePriority::acquire().ok();
                let mut sleeper = Sleeper::new(Waker::new().unwrap());
                let (mut before, mut longest) = (clock::now(), Nanos::ZERO);
                while !is_over.load(Relaxed) {
                    sleeper.sleep([], Nanos::millis(1)).unwrap();
                    let now = clock::now();
                    (longest, before) = (longest.max(now.since(before)), now);
                }
                longest
            });
            let measured = measure();
            is_over.store(true, Relaxed);
            (watch.join().unwrap() < STALL + Nanos::millis(1)).then_some(measured)
        })
    })
}

/// The time that the router's worker had work, but no processor: other programs had it (Documentation/scheduler/sched-stats.rst). Zero if the kernel does not
/// report it.
pub fn worker_wait() -> Nanos {
    let wait = |task: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        (read("comm").trim() == "worker 0").then(|| read("schedstat").split(' ').nth(1)?.parse::<u64>().ok())?
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
    Nanos::new(tasks.filter_map(wait).sum())
}

/// An IPv4 packet with UDP and this payload.
pub fn inner(to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let (link, network) = ((Mac::default(), Mac::default()), (Ipv4Addr::new(10, 9, 9, 9), to.into()));
    UdpFrame { link, network, ports: (7, 8), ttl: 9, length: 42 + payload.len() }.frame(payload).split_off(14)
}

/// Full access, as a program with the user of the router has it.
pub fn operator() -> SliceRights<'static> {
    const OPERATOR: &Author = &Author::by(Via::Socket);
    SliceRights { author: OPERATOR, allowed: AccessLevel::Full }
}
